# Targets keep the names that operator-sdk users know. CI calls only these targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Crates for build and test (default: all), and a filter for test names.
P ?=
TEST ?=
# Extra arguments for cargo: make build CARGO_FLAGS=--release
CARGO_FLAGS ?=
# The image for docker-build, docker-push and deploy.
IMG ?= controller:latest
CONTAINER_TOOL ?= docker
# The base image for docker-build-base, and what it is built on: with a shell for projects whose Dockerfile has RUN lines.
BASE_IMG ?= helm-operator:latest
BASE_IMAGE ?= scratch
# install, deploy and deploy-helm use the current kubeconfig; publish uses HELM, too.
KUBECTL ?= $(or $(shell command -v kubectl),$(TEST_CLUSTER_FOLDER)/bin/kubectl)
HELM ?= $(or $(shell command -v helm),$(TEST_CLUSTER_FOLDER)/bin/helm)
IGNORE_NOT_FOUND ?= true
# Seconds per fuzz target.
FUZZ_SECONDS ?= 60
# A part of the mutants (1/8) and extra arguments for cargo-mutants.
SHARD ?=
MUTANTS ?=

# Programs that do not run under cargo find the test cluster here, too.
export TEST_CLUSTER_FOLDER ?= $(CURDIR)/target/cluster
CLUSTER := cargo run --quiet -p test-cluster --bin cluster --

##@ Daily loop, in this order

.PHONY: cluster
cluster: ## Build the test control plane; takes minutes once, then nothing.
ifeq ($(USE_KUBECONFIG)$(KUBEBUILDER_ASSETS),)
	@crates/test-cluster/tools/build
	@crates/test-cluster/tools/build --sharder || { [ -z "$${CI:-}" ] && echo "the sharder cannot be built here: tests of shards are skipped" >&2; }
endif

# The names of the packages with these manifests; some have a prefix that the crate's folder lacks.
packages = $(shell grep -hsm1 '^name = ' $(1) | cut -d'"' -f2)
PACKAGE = $(foreach crate,$(P),$(or $(call packages,crates/$(crate)/Cargo.toml),$(crate)))

.PHONY: build
build: ## Compile the operator; P=CRATE compiles one crate.
	cargo build $(addprefix -p ,$(PACKAGE)) $(CARGO_FLAGS)

# The other crates test without a control plane; helm-operator's tests of upstream's project are skipped then.
NEED_CLUSTER := memcached-operator test-cluster registry
# Cluster tests mostly wait, so more tests run at once than two cores would suggest.
export RUST_TEST_THREADS ?= 4

.PHONY: test
test: $(if $(P),$(if $(filter $(NEED_CLUSTER),$(P)),cluster),cluster) ## Run all tests; P=CRATE tests one crate, TEST=NAME filters by name.
	cargo test $(or $(addprefix -p ,$(PACKAGE)),--workspace) $(CARGO_FLAGS) $(TEST)

.PHONY: lint
lint: docs ## Check format, clippy and docs, plus licences and sources if cargo-deny is installed.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources; \
	else echo "cargo-deny is not installed: skipping licences and sources"; fi

.PHONY: demo
demo: ## Start a control plane, run the operator, apply both samples; KEEP=1 leaves it running.
	@KEEP='$(KEEP)' hack/demo

##@ Development

.PHONY: help
help: ## Show this help.
	@[ -t 1 ] && bold=$$'\e[1m' blue=$$'\e[36m' off=$$'\e[0m' || bold= blue= off=; \
	awk -v bold="$$bold" -v blue="$$blue" -v off="$$off" 'BEGIN {FS = ":.*## "; printf "Usage: make TARGET [VARIABLE=value]\n"} \
	  /^##@ / {printf "\n%s%s%s\n", bold, substr($$0, 5), off} \
	  /^[a-z-]+:.*## / {printf "  %s%-17s%s %s\n", blue, $$1, off, $$2}' $(MAKEFILE_LIST)

.PHONY: all
all: build ## Same as build.

.PHONY: fmt
fmt: ## Format the code.
	cargo fmt --all

# Apart from lint, which needs no internet.
.PHONY: advisories
advisories: ## Check dependencies against the advisories of RustSec, which it fetches. Needs cargo-deny.
	cargo deny check advisories

.PHONY: docs
docs: ## Build the API documentation; a broken link is an error.
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet

PROJECT_VERSION = $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: book
book: ## Build the book in docs to target/book. Needs mdbook.
	@mdbook --version >/dev/null 2>&1 || { echo "mdbook is not installed; run: cargo install mdbook --locked" >&2; exit 1; }
	MDBOOK_BOOK__TITLE='Hybrid Helm Operator $(PROJECT_VERSION)' mdbook build

# VERSIONS=../versions.html links to the list that publish-site writes.
VERSIONS ?=
.PHONY: site
site: ## Build the book with the API documentation of the published crates to target/site. Needs mdbook.
	@mdbook --version >/dev/null 2>&1 || { echo "mdbook is not installed; run: cargo install mdbook --locked" >&2; exit 1; }
	@VERSIONS='$(VERSIONS)' hack/site $(patsubst --package,,$(PUBLISHED))

.PHONY: publish-site
publish-site: ## Add target/site to the branch gh-pages of REMOTE, as the folder of its version and as the latest.
	@hack/publish-site '$(REMOTE)'

.PHONY: manifests
manifests: ## Regenerate config/crd and the roles in config/rbac.
	cargo run --quiet $(CARGO_FLAGS) -- generate crds
	cargo run --quiet $(CARGO_FLAGS) -- generate rbac

.PHONY: flags
flags: ## Regenerate docs/flags.md from the help of run.
	UPDATE_GENERATED=1 cargo test -p helm-operator --lib the_page_of_flags

.PHONY: chart
chart: ## Regenerate what charts/ copies from config, and its tables of values.
	UPDATE_GENERATED=1 cargo test -p memcached-operator --test main own_chart::files

.PHONY: generate
generate: manifests ## Same as manifests: no code is generated.

.PHONY: run
run: ## Run the operator on this machine against the current kubeconfig, and serve charts and sources again when they are saved.
	cargo run $(CARGO_FLAGS) -- run --watches-file=./watches.yaml --reload

# cargo-mutants numbers shards from 0.
.PHONY: mutants
mutants: ## Mutation-test the code that writes to a cluster; SHARD=1/8 runs a part, MUTANTS="--re TEXT" a selection.
	@cargo mutants --version >/dev/null 2>&1 || { echo "cargo-mutants is not installed; run: cargo install cargo-mutants --locked" >&2; exit 1; }
	cargo mutants --no-shuffle --output target --package hybrid-outside --package helm-release --package hybrid-controller --package helm-operator $(MUTANTS) \
	  $(if $(SHARD),--shard "$$(( $(firstword $(subst /, ,$(SHARD))) - 1 ))/$(lastword $(subst /, ,$(SHARD)))")

# The packages that a registry may have.
PUBLISHED = $(addprefix --package ,$(call packages,$(shell grep -L '^publish = false' crates/*/Cargo.toml)))

.PHONY: publishable
publishable: ## Package the crates that are published, and compile each package on its own; nothing is uploaded.
	cargo test -p memcached-operator --test main publishable
	cargo package $(PUBLISHED) $(CARGO_FLAGS)

# The commit whose API the crates' next version is compared with.
SINCE ?= $(shell git describe --tags --abbrev=0 2>/dev/null)

.PHONY: semver
semver: ## Find changes of the published crates' API that the version does not allow, SINCE=COMMIT (the last tag). Needs cargo-semver-checks.
	@[ -n '$(SINCE)' ] || echo "There is no tag yet, so no API was promised; SINCE=COMMIT compares with a commit."
	@[ -z '$(SINCE)' ] || cargo semver-checks $(PUBLISHED) --baseline-rev '$(SINCE)'

.PHONY: release
release: ## Build programs, images, charts and notes of VERSION in target/dist; UBI_BASE=IMAGE adds images on that base. No Docker.
	@UBI_BASE='$(UBI_BASE)' PROCESSORS='$(PROCESSORS)' hack/release '$(VERSION)'

.PHONY: regctl
regctl: ## Install only the writer of images that a release has, for the test of an image on another base. Needs Go.
	@hack/release regctl

.PHONY: hot-functions
hot-functions: cluster ## Find the functions that a released program runs, which the next release links side by side. Needs valgrind.
	hack/hot-functions

.PHONY: reproduce
reproduce: ## Build VERSION again in another folder, and compare each file with target/dist.
	@hack/reproduce '$(VERSION)'

.PHONY: publish
publish: ## Upload the images and charts of target/dist to REGISTRY, and sign them if cosign is installed; PLAIN_HTTP=1 for a trial.
	@HELM='$(HELM)' PLAIN_HTTP='$(PLAIN_HTTP)' hack/publish '$(REGISTRY)'

WASM := wasm32-wasip1

.PHONY: wasm
wasm: ## Check that rendering compiles for WebAssembly, if that rustup target is installed.
	@if [ -d "$$(rustc --print sysroot)/lib/rustlib/$(WASM)" ]; then cargo check -p hybrid-helm --target $(WASM); \
	else echo "$(WASM) is not installed, nothing checked; run: rustup target add $(WASM)"; [ -z "$${CI:-}" ]; fi

.PHONY: playground
playground: ## Build the page that renders charts in a browser to target/playground, and test it in Node and Chromium.
	hack/playground

##@ Compare with Helm

.PHONY: cases
cases: ## Rewrite the committed answers of Go's libraries that unit tests compare with.
	cd tools/cases && go run . ../../crates
	cd tools/patches && go run . ../../crates

# Without VECTORS and CORPUS: the cases in this repository.
OWN_CASES := --vectors crates/conformance/own/vectors.jsonl --corpus crates/conformance/own
GIVEN_CASES = $(addprefix --vectors ,$(VECTORS)) $(addprefix --corpus ,$(CORPUS))

.PHONY: conformance
conformance: ## Compare rendering with Helm's recorded output; VECTORS="FILE…" CORPUS="DIR…" replace our own cases.
	TZ=UTC cargo run --release --quiet -p conformance --bin conformance -- --unread $(or $(strip $(GIVEN_CASES)),$(OWN_CASES))

.PHONY: value-fuzz
value-fuzz: cluster ## Render charts with random values with Helm and here; CORPUS="DIR…" adds charts, RENDERS (1000) and SEED (1) choose.
	cargo build --release --quiet -p conformance --bin value-fuzz
	$(or $(CARGO_TARGET_DIR),target)/release/value-fuzz --helm '$(TEST_CLUSTER_FOLDER)/bin/helm' --renders $(or $(RENDERS),1000) --seed $(or $(SEED),1) \
	  crates/conformance/own crates/parity/own helm-charts examples $(CORPUS)

.PHONY: alerts
alerts: ## Evaluate the alerts of config/prometheus with Prometheus: each fires when it should, and none in a quiet hour. Needs Go.
	hack/alerts

.PHONY: helm-next
helm-next: ## Build the newest Helm (VERSION=main: its newest commit) and print which charts render differently; CORPUS="DIR…" adds charts.
	CORPUS='$(CORPUS)' hack/helm-next $(VERSION)

.PHONY: plans
plans: cluster ## Compare plans with the writes that follow, in nine changes of our own charts, or of CHARTS (100) of CORPUS="DIR…"; SHARD=i/n, ONLY="TEXT…".
	cargo build --release --quiet -p helm-operator
	cargo run --release --quiet -p parity -- --plans '$(or $(CHARTS),100)' --limit 3600 \
	  $(addprefix --corpus ,$(CORPUS)) $(addprefix --shard ,$(SHARD)) $(addprefix --only ,$(ONLY))

.PHONY: parity
parity: cluster ## Compare live objects with Helm's; CORPUS="DIR…" replaces our own charts, SHARD=i/n and ONLY="TEXT…" select.
	cargo build --release --quiet -p helm-operator
	cargo run --release --quiet -p parity -- $(addprefix --corpus ,$(CORPUS)) $(addprefix --shard ,$(SHARD)) $(addprefix --only ,$(ONLY))

.PHONY: plots
plots: ## Draw the figures in docs/figures from the measurements there.
	cargo run -q -p conformance --bin plots

.PHONY: bench-scale
bench-scale: cluster ## Measure memory, CPU and a restart with N resources (default 1000); OPERATOR=BINARY measures another build.
	$(if $(OPERATOR),,cargo build --release --quiet -p helm-operator)
	hack/bench-scale '$(or $(N),1000)' $(OPERATOR)

.PHONY: scoreboard
scoreboard: ## Measure this operator and its peers with N="50 300 1000" resources, and write docs/scoreboard.md; ONLY="TEXT…" selects. Needs Go.
	hack/scoreboard $(N)

.PHONY: bench-shards
bench-shards: cluster ## Measure three shards with N (3000) resources and the real sharder: a crash, a drain, an orderly end, keys made.
	@crates/test-cluster/tools/build --sharder
	N='$(or $(N),3000)' RUST_TEST_THREADS=1 cargo test --release --test main -- --ignored --nocapture shards::

.PHONY: fleets
fleets: ## Check config/*/fleet.yaml against the CustomResourceDefinitions in the folder CRDS, from checkouts of the projects.
	hack/fleets '$(CRDS)'

.PHONY: bench-page
bench-page: cluster ## Measure the page over N (5000) releases with VIEWERS (20) and SLOW (0) slow readers; OPERATOR=BINARY measures another build.
	$(if $(OPERATOR),,cargo build --release --quiet -p helm-operator)
	hack/bench-page '$(or $(N),5000)' '$(or $(VIEWERS),20)' $(OPERATOR)

AXE := target/browser/node_modules/axe-core/axe.min.js

.PHONY: pictures
pictures: cluster ## Take the pictures of docs/web.md with Chromium, and check accessibility with axe-core. Needs npm.
	npm install --silent --no-save --prefix target/browser axe-core@4.14.1
	AXE=$(AXE) PICTURES=docs/figures cargo test -p memcached-operator --test main -- the_page_works_in_a_browser --nocapture

.PHONY: long-run
long-run: cluster ## Edit N (1000) resources for MINUTES (30) while leaders end; checks memory, watches and objects. OPERATOR=BINARY tries another build.
	$(if $(OPERATOR),,cargo build --release --quiet -p helm-operator)
	hack/long-run '$(or $(MINUTES),30)' $(OPERATOR)

.PHONY: bench-hostile
bench-hostile: cluster ## Measure how long good resources (GOOD, default 1000) take beside hostile ones (HOSTILE, default 50); OPERATOR=BINARY measures another build.
	$(if $(OPERATOR),,cargo build --release --quiet -p helm-operator)
	hack/bench-hostile '$(or $(GOOD),1000)' '$(or $(HOSTILE),50)' $(OPERATOR)

.PHONY: bench-render
bench-render: ## Time rendering against Helm's engine; CHARTS="DIR…" adds charts, CORPUS=DIR a whole corpus, HEAVIEST=N its heaviest. Needs Go.
	CORPUS='$(CORPUS)' HEAVIEST='$(HEAVIEST)' hack/bench-render $(CHARTS)

.PHONY: simulate
simulate: ## Play random scripts against whole managers in memory for MINUTES (10), from seed FROM (1) on; SEED=N plays one, TRACE=1 prints every step, TWICE=1 compares two runs of each seed, NEAR=FILE plays the script in it at other times.
	cargo run --quiet --profile simulation -p simulation $(CARGO_FLAGS) -- $(if $(SEED),--seed '$(SEED)',--minutes '$(or $(MINUTES),10)' $(if $(FROM),--from '$(FROM)')) $(if $(TRACE),--trace) $(if $(TWICE),--twice) $(if $(NEAR),--near '$(NEAR)')

.PHONY: simulate-mutants
simulate-mutants: ## Show which seeded faults the simulation finds, and how soon; SECONDS_EACH (120), ONLY="01 17" selects.
	@hack/simulate-mutants '$(or $(SECONDS_EACH),120)' $(ONLY)

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZ_SECONDS; FUZZ_TARGETS="…" selects. Needs cargo-fuzz.
	@hack/fuzz '$(FUZZ_SECONDS)' $(FUZZ_TARGETS)

.PHONY: fuzz-build
fuzz-build: ## Compile the fuzz targets without running them.
	cargo build --manifest-path fuzz/Cargo.toml

.PHONY: model
model: cluster ## Try random edits, crashes and API faults for MINUTES (default 1) with new seeds; SEED=N repeats one.
	MODEL_MINUTES='$(or $(MINUTES),1)' $(if $(SEED),MODEL_SEED='$(SEED)') cargo test --test main $(CARGO_FLAGS) -- --nocapture model::

.PHONY: tutorials
tutorials: cluster ## Type public tutorials in empty folders; prints each command with its seconds and last line.
	cargo test --test main $(CARGO_FLAGS) -- --nocapture tutorials::

.PHONY: moved
moved: cluster ## Run other people's Helm operators, unchanged; PROJECTS=DIR has them, UPSTREAM=BINARY swaps both ways.
	$(if $(PROJECTS),,$(error PROJECTS names a folder of projects: make moved PROJECTS=DIR))
	cargo build --quiet -p helm-operator
	hack/moved '$(PROJECTS)' $(UPSTREAM)

##@ Test cluster

.PHONY: cluster-oldest
cluster-oldest: ## Build a control plane of the oldest supported Kubernetes; takes minutes once.
	@crates/test-cluster/tools/build --oldest

.PHONY: test-oldest
test-oldest: cluster-oldest ## Run the operator's cluster tests on it; TEST="NAME…" filters by name.
	KUBEBUILDER_ASSETS='$(TEST_CLUSTER_FOLDER)/oldest' cargo test --test main $(CARGO_FLAGS) -- $(TEST)

.PHONY: e2e-node
e2e-node: ## Run the tests that need containers on a real node; needs root on Debian; elsewhere skipped, in CI a failure.
	@hack/e2e-node

.PHONY: cluster-up
cluster-up: cluster ## Start a cluster, leave it running and print its export KUBECONFIG line.
	@$(CLUSTER) up

.PHONY: cluster-down
cluster-down: ## Stop what cluster-up or demo KEEP=1 left running.
	@$(CLUSTER) down

##@ Deployment

.PHONY: install
install: ## Install the CRDs in the current cluster.
	$(KUBECTL) apply -k config/crd

.PHONY: uninstall
uninstall: ## Delete the CRDs, and with them every custom resource.
	$(KUBECTL) delete --ignore-not-found=$(IGNORE_NOT_FOUND) -k config/crd

.PHONY: deploy
deploy: ## Deploy CRDs, RBAC and the operator image IMG to the current cluster.
	$(KUBECTL) kustomize config/default | sed 's|image: controller:latest|image: $(IMG)|' | $(KUBECTL) apply -f -

# A release of each chart, in one namespace.
RELEASE := memcached-operator
IN_NAMESPACE := --namespace $(RELEASE)-system
# IMG as values of the chart. A digest has a colon, too, and one in front of the last slash belongs to a port.
IMG_NAME = $(firstword $(subst @, ,$(IMG)))
IMG_TAG = $(word 2,$(subst :, ,$(notdir $(IMG_NAME))))
IMG_DIGEST = $(word 2,$(subst @, ,$(IMG)))
IMG_VALUES = image.repository=$(patsubst %:$(IMG_TAG),%,$(IMG_NAME)),image.tag=$(IMG_TAG),image.digest=$(IMG_DIGEST)
.PHONY: deploy-helm
deploy-helm: ## Deploy the same with Helm: the charts in charts/, with the image IMG.
	$(HELM) upgrade --install $(RELEASE)-crds charts/hybrid-helm-operator-crds $(IN_NAMESPACE) --create-namespace \
	  --set-file definitions.memcacheds=config/crd/bases/cache.my.domain_memcacheds.yaml \
	  --set-file definitions.memcachedbackups=config/crd/bases/cache.my.domain_memcachedbackups.yaml
	$(HELM) upgrade --install $(RELEASE) charts/hybrid-helm-operator $(IN_NAMESPACE) \
	  --set-string '$(IMG_VALUES)' \
	  --set-file rbac.generated.memcached=config/rbac/memcached_role.yaml \
	  --set-file rbac.generated.memcachedbackup=config/rbac/memcachedbackup_role.yaml

# Custom resources go first, while the operator can still clean up after them. If that fails, the operator stays.
KINDS := memcacheds.cache.my.domain memcachedbackups.cache.my.domain
DELETE_RESOURCES = $(foreach kind,$(KINDS),found="$$($(KUBECTL) get crd $(kind) --ignore-not-found -o name)"; [ -z "$$found" ] || $(KUBECTL) delete --all --all-namespaces $(kind);)

.PHONY: undeploy-helm
undeploy-helm: ## Remove what deploy-helm created, except the definitions.
	$(DELETE_RESOURCES)
	$(HELM) uninstall $(RELEASE) $(RELEASE)-crds $(IN_NAMESPACE) --ignore-not-found

.PHONY: undeploy
undeploy: ## Remove everything that deploy created.
	$(DELETE_RESOURCES)
	$(KUBECTL) delete --ignore-not-found=$(IGNORE_NOT_FOUND) -k config/default

.PHONY: bundle
bundle: ## Write an OLM bundle with the image IMG to bundle; VERSION and CHANNELS describe it.
	$(KUBECTL) kustomize config/default | sed 's|image: controller:latest|image: $(IMG)|' \
	  | cargo run --quiet $(CARGO_FLAGS) -- generate bundle --version $(or $(VERSION),0.0.1) --channels $(or $(CHANNELS),alpha)

.PHONY: validate-bundle
validate-bundle: ## Let upstream's operator-sdk validate the bundle; builds it from its Go module.
	@KUBECTL='$(KUBECTL)' hack/validate-bundle

.PHONY: docker-build
docker-build: ## Build the image IMG.
	$(CONTAINER_TOOL) build -t $(IMG) .

.PHONY: docker-build-base
docker-build-base: ## Build the base image BASE_IMG: helm-operator alone, for a project's "FROM …/helm-operator".
	$(CONTAINER_TOOL) build -t $(BASE_IMG) --target helm-operator --build-arg BASE_IMAGE=$(BASE_IMAGE) .

.PHONY: docker-push
docker-push: ## Push the image IMG.
	$(CONTAINER_TOOL) push $(IMG)
