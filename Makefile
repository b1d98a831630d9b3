# The names that users of operator-sdk type. CI runs `make lint test` and nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The image that docker-build, docker-push and deploy use.
IMG ?= controller:latest
CONTAINER_TOOL ?= docker
# Extra words for cargo: make build CARGO_FLAGS=--release
CARGO_FLAGS ?=
# Where install and deploy go: the current kubeconfig's cluster.
KUBECTL ?= $(or $(shell command -v kubectl),$(CURDIR)/target/cluster/bin/kubectl)
IGNORE_NOT_FOUND ?= true
# Seconds per fuzz target.
FUZZ_SECONDS ?= 60
# Which part of the mutants, such as 1/8, and further words for cargo-mutants.
SHARD ?=
MUTANTS ?=

CLUSTER := cargo run --quiet -p test-cluster --bin cluster --

##@ General

.PHONY: help
help: ## Show this.
	@[ -t 1 ] && bold=$$'\e[1m' blue=$$'\e[36m' off=$$'\e[0m' || bold= blue= off=; \
	awk -v bold="$$bold" -v blue="$$blue" -v off="$$off" 'BEGIN {FS = ":.*## "; printf "Usage: make TARGET [VARIABLE=value]\n"} \
	  /^##@ / {printf "\n%s%s%s\n", bold, substr($$0, 5), off} \
	  /^[a-z-]+:.*## / {printf "  %s%-15s%s %s\n", blue, $$1, off, $$2}' $(MAKEFILE_LIST)

.PHONY: all
all: build ## Same as build.

.PHONY: demo
demo: ## See it work: a control plane, the operator and both samples; KEEP=1 leaves them running.
	@KEEP='$(KEEP)' hack/demo

##@ Development

.PHONY: build
build: ## Build the operator and the command line.
	cargo build $(CARGO_FLAGS)

.PHONY: test
test: cluster ## Run all tests; those that need a cluster start one.
	cargo test --workspace $(CARGO_FLAGS)

# cargo-mutants counts shards from 0.
.PHONY: mutants
mutants: ## Change the code that reaches a cluster and see whether unit tests notice; SHARD=1/8 for a part, MUTANTS="--re TEXT" for those whose file or function has it.
	@cargo mutants --version >/dev/null 2>&1 || { echo "cargo-mutants is missing: cargo install cargo-mutants --locked" >&2; exit 1; }
	cargo mutants --no-shuffle --output target --package helm --package helm-operator $(MUTANTS) \
	  $(if $(SHARD),--shard "$$(( $(firstword $(subst /, ,$(SHARD))) - 1 ))/$(lastword $(subst /, ,$(SHARD)))")

.PHONY: fmt
fmt: ## Format the code.
	cargo fmt --all

.PHONY: lint
lint: docs ## Check format, lints, documentation and, with cargo-deny, licences and advisories.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check; else echo "cargo-deny is not installed: licences and advisories not checked"; fi

.PHONY: docs
docs: ## Build the documentation of the crates; a broken link is an error.
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet

.PHONY: manifests
manifests: ## Rewrite what is generated under config/crd.
	UPDATE_GENERATED=1 cargo test --test main generated

.PHONY: generate
generate: manifests ## Same as manifests: no code is generated.

.PHONY: run
run: ## Run the operator here, against the current kubeconfig.
	cargo run $(CARGO_FLAGS) -- run --watches-file=./watches.yaml

##@ Test cluster

.PHONY: cluster
cluster: ## Build the control plane that tests use, once (not with USE_KUBECONFIG or KUBEBUILDER_ASSETS).
ifeq ($(USE_KUBECONFIG)$(KUBEBUILDER_ASSETS),)
	@tools/build
endif

.PHONY: cluster-up
cluster-up: cluster ## Start a cluster, leave it running and print the line that points kubectl at it.
	@$(CLUSTER) up

.PHONY: cluster-down
cluster-down: ## End what cluster-up or demo KEEP=1 left running.
	@$(CLUSTER) down

##@ Deployment

.PHONY: install
install: ## Put the kinds on the current cluster.
	$(KUBECTL) apply -k config/crd

.PHONY: uninstall
uninstall: ## Take the kinds, and with them every resource, off the current cluster.
	$(KUBECTL) delete --ignore-not-found=$(IGNORE_NOT_FOUND) -k config/crd

.PHONY: deploy
deploy: ## Put kinds, rights and the operator (IMG) on the current cluster.
	$(KUBECTL) kustomize config/default | sed 's|image: controller:latest|image: $(IMG)|' | $(KUBECTL) apply -f -

# The resources go first, while the operator is there to clean up after them.
.PHONY: undeploy
undeploy: ## Take all of it off again.
	-$(KUBECTL) delete memcacheds,memcachedbackups --all --all-namespaces
	$(KUBECTL) delete --ignore-not-found=$(IGNORE_NOT_FOUND) -k config/default

.PHONY: docker-build
docker-build: ## Build the image IMG.
	$(CONTAINER_TOOL) build -t $(IMG) .

.PHONY: docker-push
docker-push: ## Push the image IMG.
	$(CONTAINER_TOOL) push $(IMG)

##@ The engine

# Without VECTORS and CORPUS: the project's own cases.
OWN_CASES := --vectors crates/conformance/own/vectors.jsonl --corpus crates/conformance/own
GIVEN_CASES = $(addprefix --vectors ,$(VECTORS)) $(addprefix --corpus ,$(CORPUS))

.PHONY: conformance
conformance: ## Compare with Helm's recorded answers: VECTORS="FILE…" CORPUS="DIR…", else the project's own.
	TZ=UTC cargo run --release --quiet -p conformance --bin conformance -- $(or $(strip $(GIVEN_CASES)),$(OWN_CASES))

.PHONY: parity
parity: cluster ## Compare live objects with Helm's: CORPUS="DIR…" SHARD=i/n ONLY="TEXT…" (minutes a shard), else the project's own charts.
	cargo build --release --quiet -p helm-operator
	cargo run --release --quiet -p parity -- $(addprefix --corpus ,$(CORPUS)) $(addprefix --shard ,$(SHARD)) $(addprefix --only ,$(ONLY))

.PHONY: bench-render
bench-render: ## Time rendering, in turn with Helm's engine where it is at hand; CHARTS="DIR…" adds charts, CORPUS=DIR all of a corpus.
	CORPUS='$(CORPUS)' hack/bench-render $(CHARTS)

.PHONY: fuzz
fuzz: ## Run each fuzz target (FUZZ_TARGETS="…", default all) for FUZZ_SECONDS; needs cargo-fuzz.
	@hack/fuzz '$(FUZZ_SECONDS)' $(FUZZ_TARGETS)
