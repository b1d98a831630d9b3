//! What `make release` writes, as far as it is decided without building: which version everything has, the notes, what
//! the images are made of, and that the workflow runs only programs that are pinned.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use serde_json::{Value, json};

use crate::publishable;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn release_in(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(folder.join("hack/release")).args(arguments).output().unwrap()
}

fn told(arguments: &[&str]) -> String {
    let output = release_in(root(), arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_file_has_the_version_that_is_released() {
    told(&["check", VERSION]);
    let manifest = read("Cargo.toml");
    let dependencies: Vec<&str> = manifest.lines().filter(|line| line.contains("{ path = \"crates/")).collect();
    for line in dependencies.iter().filter(|line| line.contains("version = ")) {
        assert!(line.contains(&format!("version = \"{VERSION}\"")), "{line}");
    }
}

/// Copies what the check reads to a folder, changes one text there, and returns what the check says.
fn check_with(file: &str, from: &str, to: &str, version: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let charts = ["charts/hybrid-helm-operator/Chart.yaml", "charts/hybrid-helm-operator-crds/Chart.yaml"];
    for path in ["hack/release", "Cargo.toml", "CHANGELOG.md"].iter().chain(&charts) {
        let copy = folder.path().join(path);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(root().join(path), &copy).unwrap();
        if *path == file {
            let text = read(path);
            assert!(text.contains(from), "{file} has no {from:?}");
            fs::write(copy, text.replace(from, to)).unwrap();
        }
    }
    let git = |arguments: &[&str]| {
        let ours = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
        let output = Command::new("git").args(ours).args(arguments).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "release"]);
    git(&["tag", &format!("v{version}")]);
    let output = release_in(folder.path(), &["check", version]);
    assert_eq!(output.status.success(), output.stderr.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_disagrees_is_named_before_anything_is_built() {
    let dated = format!("## {VERSION} (2026-12-01)");
    let open = format!("## {VERSION} (not released yet)");
    let chart = "charts/hybrid-helm-operator/Chart.yaml";
    for (file, from, to, version, wanted) in [
        ("CHANGELOG.md", &*open, &*dated, VERSION, ""),
        ("CHANGELOG.md", &open, &open, VERSION, "still says that"),
        ("CHANGELOG.md", &open, "## 0.0.1", VERSION, "CHANGELOG.md has no section"),
        ("CHANGELOG.md", &open, &dated, "7.0.0", "VERSION is 7.0.0, but Cargo.toml says"),
        (chart, "\nversion: ", "\nversion: 9", VERSION, "Chart.yaml has another version than"),
        (chart, "\nappVersion: ", "\nappVersion: 9", VERSION, "Chart.yaml has another appVersion than"),
    ] {
        if !read(file).contains(from) {
            continue; // The section has its date already.
        }
        let said = check_with(file, from, to, version);
        assert!(if wanted.is_empty() { said.is_empty() } else { said.contains(wanted) }, "{file}, {to:?}: {said}");
    }
    for version in ["", "v0.1.0", "0.1", "0.1.0; true"] {
        assert!(!release_in(root(), &["check", version]).status.success(), "{version:?}");
    }
}

#[test]
fn notes_are_the_section_of_the_version_with_links_that_work_elsewhere() {
    let notes = told(&["notes", VERSION]);
    assert!(!notes.starts_with('\n') && !notes.contains("\n## ") && notes.contains("### Charts"), "{notes}");
    let targets: Vec<&str> = notes.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(targets.len() > 10);
    for target in targets {
        let path = target.split_once(&format!("/blob/v{VERSION}/"));
        let path = path.map_or_else(|| panic!("{target}"), |(_, path)| path.split('#').next().unwrap());
        assert!(root().join(path).exists(), "{target}");
    }
    assert_eq!(told(&["notes", "99.0.0"]), "");
}

/// Returns the instructions of a stage of the Dockerfile, with variables filled in and sources by their last name.
fn stage(name: &str) -> Vec<String> {
    let text = read("Dockerfile");
    let stages = text.split("\nFROM ").skip(1);
    let mut lines = stages
        .map(str::lines)
        .find_map(|mut lines| {
            let from = lines.next()?;
            let this =
                if name == "memcached-operator" { from == "scratch" } else { from.ends_with(&format!(" AS {name}")) };
            this.then_some(lines)
        })
        .unwrap()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut variables = Vec::new();
    let mut found: Vec<String> = lines
        .by_ref()
        .map(|line| {
            if let Some(pairs) = line.strip_prefix("ENV ") {
                variables.extend(pairs.split(' ').filter_map(|pair| pair.split_once('=')));
            }
            let filled = variables
                .iter()
                .fold(line.to_owned(), |line, (key, value)| line.replace(&format!("${{{key}}}"), value));
            match filled.strip_prefix("COPY --from=").and_then(|rest| rest.split_once("/out/")) {
                Some((_, rest)) => format!("COPY {rest}"),
                None => filled,
            }
        })
        .collect();
    found.sort();
    found
}

#[test]
fn images_are_those_of_the_dockerfile() {
    for name in ["helm-operator", "memcached-operator"] {
        let mut lines: Vec<String> = told(&["image", name]).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, stage(name), "{name}");
    }
}

/// Installs the tools for one processor, then for two and with another Rust, by programs that only print what they do.
const TOOLS: &str = r#"
. hack/release image helm-operator > "$CARGO_TARGET_DIR/log"
mkdir -p "$tools"
rust=1
rustc() { case $1 in --version) echo "$rust" ;; *) echo "$CARGO_TARGET_DIR/rust-$rust" ;; esac; }
rustup() { mkdir -p "$CARGO_TARGET_DIR/rust-$rust/lib/rustlib/$3"; echo "target $3"; }
cargo() { echo tools; }
go() { :; }
python3() { :; }
for processors in amd64 "amd64 arm64"; do install_tools; install_tools; done
rust=2
install_tools
"#;

#[test]
fn rusts_targets_are_there_whatever_an_earlier_release_needed() {
    let folder = tempfile::tempdir().unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-euc", TOOLS]).current_dir(root()).env("CARGO_TARGET_DIR", folder.path());
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    let (amd64, arm64) = ("target x86_64-unknown-linux-musl", "target aarch64-unknown-linux-musl");
    assert_eq!(told.lines().collect::<Vec<_>>(), [amd64, "tools", arm64, amd64, arm64, "tools"]);
}

/// Makes a base image for two processors, in an OCI layout with Docker's media types.
const BASE: &str = r#"
cd "$CARGO_TARGET_DIR"
mkdir -p root/etc && echo ID=base > root/etc/os-release && tar -C root -cf layer.tar etc
for processor in amd64 arm64; do
  image=ocidir://$PWD/base:$processor
  regctl image create "$image" --platform "linux/$processor"
  regctl image mod "$image" --replace --layer-add tar=layer.tar --user root --env PATH=/usr/bin --config-cmd '["/bin/sh"]' \
    --label name=base --label theirs=kept
  regctl image mod "$image" --replace --to-docker
done
regctl index create "ocidir://$PWD/base:all" --ref "ocidir://$PWD/base:amd64" --ref "ocidir://$PWD/base:arm64"
"#;

/// Makes the image on a base, as a release does, with texts as programs, and reads the archive.
const ON_BASE: &str = r#"
. hack/release image helm-operator > "$CARGO_TARGET_DIR/log"
version=1.2.3 commit=0123 date=2026-01-01T00:00:00Z
export SOURCE_DATE_EPOCH=1767225600
mkdir -p "$dist" "$work/licenses"
echo text > "$work/licenses/LICENSE"
for processor in $processors; do
  mkdir -p "$(dirname "$(program helm-operator "$processor")")"
  echo "for $processor" > "$(program helm-operator "$processor")"
done
images helm-operator "ocidir://$CARGO_TARGET_DIR/base:$TAG" -ubi
regctl image import "ocidir://$CARGO_TARGET_DIR/read:all" "$dist/helm-operator-ubi_${version}_oci.tar"
"#;

/// Returns the folder with regctl. Without it, prints that the test is skipped.
fn regctl() -> Option<PathBuf> {
    let target = root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let folder = target.join("release-tools/bin");
    if folder.join("regctl").is_file() {
        return Some(folder);
    }
    eprintln!("skipped: no regctl in {}, which `make regctl` installs", folder.display());
    None
}

#[test]
fn an_image_on_a_base_of_each_processor_has_the_program_and_what_the_base_has() {
    let Some(tools) = regctl() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", tools.display(), env::var("PATH").unwrap());
    let run = |script: &str, tag: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-euc", script]).current_dir(root()).env_remove("PROCESSORS");
        bash.env("PATH", &path).env("CARGO_TARGET_DIR", folder.path()).env("TAG", tag).output().unwrap()
    };
    let told = |script: &str| {
        let output = run(script, "all");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    told(BASE);
    let refused = run(ON_BASE, "amd64");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("base:amd64 has no image for linux/arm64"), "{said}");
    told(ON_BASE);
    for processor in ["amd64", "arm64"] {
        let asked = |what: &str, file: &str| {
            let image = "\"ocidir://$CARGO_TARGET_DIR/read:all\"";
            told(&format!("regctl {what} --platform linux/{processor} {image} {file}"))
        };
        let manifest = asked("manifest get --format raw-body", "");
        assert!(!manifest.contains("docker"), "{manifest}");
        let image: Value = serde_json::from_str(&asked("image inspect", "")).unwrap();
        let config = &image["config"];
        assert_eq!(image["architecture"], processor);
        let entrypoint = json!(["/usr/local/bin/helm-operator", "run", "--watches-file=./watches.yaml"]);
        assert_eq!((&config["Entrypoint"], &config["Cmd"]), (&entrypoint, &Value::Null));
        assert_eq!((&config["User"], &config["WorkingDir"]), (&json!("1001"), &json!("/opt/helm")));
        assert_eq!(config["Env"], json!(["PATH=/usr/bin", "HOME=/opt/helm", "USER_NAME=helm", "USER_UID=1001"]));
        let labels = ["name", "version", "theirs"].map(|name| config["Labels"][name].as_str().unwrap_or_default());
        assert_eq!(labels, ["helm-operator-ubi", "1.2.3", "kept"]);
        assert_eq!(asked("image get-file", "/etc/os-release"), "ID=base\n");
        assert_eq!(asked("image get-file", "/usr/local/bin/helm-operator"), format!("for {processor}\n"));
        assert_eq!(asked("image get-file", "/licenses/LICENSE"), "text\n");
    }
    let built = format!("PROCESSORS=amd64 arm64\nUBI_BASE=ocidir://{}/base:all\n", folder.path().display());
    assert_eq!(told("hack/release built"), built, "what `make reproduce` builds again");
}

#[test]
fn the_oldest_rust_that_is_promised_is_the_one_that_everything_is_tested_with() {
    let promised = read("Cargo.toml").split("rust-version = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(read("rust-toolchain.toml").contains(&format!("channel = \"{promised}.")), "{promised}");
}

#[test]
fn the_krew_plugin_names_the_archives_that_are_written() {
    let text = read("tools/release/krew.yaml");
    let plugin: Value = serde_yaml::from_str(&text.replace('@', "_")).unwrap();
    let script = read("hack/release");
    for platform in plugin["spec"]["platforms"].as_array().unwrap() {
        let processor = platform["selector"]["matchLabels"]["arch"].as_str().unwrap();
        let file = platform["uri"].as_str().unwrap().rsplit('/').next().unwrap();
        assert_eq!(file, format!("helm-operator__VERSION__linux_{processor}.tar.gz"));
        assert_eq!(platform["sha256"], format!("_SHA256_{processor}_"));
        assert!(script.contains("helm-operator_${version}_linux_$1.tar.gz"));
        assert!(script.contains(&format!("    {processor}) echo")) || script.contains(&format!("{processor}) echo")));
    }
    assert!(plugin["spec"]["shortDescription"].as_str().unwrap().len() <= 50, "krew refuses longer ones");
}

fn workflows() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(".github/workflows")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns the targets that a text calls in lines that begin with this word, without variables and flags.
fn made<'t>(text: &'t str, start: &str) -> BTreeSet<&'t str> {
    let calls = text.lines().filter_map(|line| line.split_once(start)).map(|(_, call)| call);
    let words = calls.flat_map(str::split_whitespace);
    words.filter(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')).collect()
}

#[test]
fn workflows_call_targets_that_exist_and_ci_every_check_that_contributing_lists() {
    let makefile = read("Makefile");
    for path in workflows() {
        let workflow = fs::read_to_string(&path).unwrap();
        for target in made(&workflow, "make ") {
            assert!(makefile.contains(&format!("\n{target}:")), "{} calls make {target}", path.display());
        }
    }
    let workflow = read(".github/workflows/ci.yml");
    let called = made(&workflow, "make ");
    let page = read("CONTRIBUTING.md");
    let listed = page.split("CI runs ").nth(1).unwrap().split("`. ").next().unwrap();
    let listed: BTreeSet<&str> =
        listed.split('`').skip(1).step_by(2).flat_map(|call| call.trim_start_matches("make ").split(' ')).collect();
    assert!(listed.is_subset(&called), "CONTRIBUTING.md lists {listed:?}, ci.yml calls {called:?}");
}

#[test]
fn workflows_test_with_the_history_that_upgrades_of_charts_need() {
    for (file, job) in [("ci.yml", "check"), ("release.yml", "release")] {
        let workflow: Value = serde_yaml::from_str(&read(&format!(".github/workflows/{file}"))).unwrap();
        let depth = &workflow["jobs"][job]["steps"][0]["with"]["fetch-depth"];
        assert_eq!(*depth, 0, "{file}: a shallow clone lacks the earlier chart, so no upgrade from it is tested");
    }
}

#[test]
fn a_release_without_a_registry_fails_before_it_builds() {
    let workflow: Value = serde_yaml::from_str(&read(".github/workflows/release.yml")).unwrap();
    let steps = workflow["jobs"]["release"]["steps"].as_array().unwrap();
    let first = steps.iter().find(|step| step["run"].is_string()).unwrap();
    assert_eq!(first["env"], json!({"REGISTRY": "${{ vars.REGISTRY }}"}));
    for (registry, passes) in [("", false), ("registry.example.com/operators", true)] {
        let mut bash = Command::new("bash");
        bash.args(["-ec", first["run"].as_str().unwrap()]).env("REGISTRY", registry);
        assert_eq!(bash.output().unwrap().status.success(), passes, "{registry}");
    }
}

#[test]
fn e2e_node_is_skipped_where_something_is_missing_but_fails_in_ci() {
    let elsewhere = "uname() { echo Other; }; export -f uname; hack/e2e-node";
    for (ci, wanted) in [("", 0), ("true", 1)] {
        let output = Command::new("bash").args(["-c", elsewhere]).current_dir(root()).env("CI", ci).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(wanted), "skipped: make e2e-node needs Linux\n"));
    }
    // `sudo` passes on only the variables that it is told to.
    for path in workflows() {
        let workflow = fs::read_to_string(&path).unwrap();
        for line in workflow.lines().filter(|line| line.contains("make e2e-node")) {
            assert!(line.contains("sudo --preserve-env=PATH,HOME,CI "), "{}: {line}", path.display());
        }
    }
}

#[test]
fn the_provenance_of_every_image_is_attested_by_its_digest() {
    let workflow: Value = serde_yaml::from_str(&read(".github/workflows/release.yml")).unwrap();
    let steps = workflow["jobs"]["release"]["steps"].as_array().unwrap();
    let attested: Vec<&Value> =
        steps.iter().map(|step| &step["with"]).filter(|with| with["subject-name"].is_string()).collect();
    let names = ["helm-operator", "memcached-operator", "helm-operator-ubi"];
    assert!(read("hack/release").contains("\nprograms=\"helm-operator memcached-operator\"\n"), "no other image");
    assert_eq!(attested.len(), names.len(), "{attested:?}");
    for name in names {
        let digest = format!("${{{{ steps.images.outputs.{name} }}}}");
        let subject = format!("${{{{ vars.REGISTRY }}}}/{name}");
        let mut wanted = json!({"subject-name": subject, "subject-digest": digest});
        wanted["push-to-registry"] = true.into();
        wanted["create-storage-record"] = false.into();
        assert!(attested.contains(&&wanted), "{name}: {attested:?}");
    }
}

#[test]
fn the_provenance_of_all_files_is_one_of_them_where_scorecard_looks() {
    let workflow: Value = serde_yaml::from_str(&read(".github/workflows/release.yml")).unwrap();
    let steps = workflow["jobs"]["release"]["steps"].as_array().unwrap();
    let run =
        |start: &str| steps.iter().position(|step| step["run"].as_str().is_some_and(|run| run.starts_with(start)));
    let attested = steps.iter().position(|step| step["id"] == "attest").unwrap();
    let copied = run("cp \"$BUNDLE\" target/dist/provenance.intoto.jsonl").unwrap();
    assert_eq!(steps[attested]["with"], json!({"subject-checksums": "target/dist/SHA256SUMS"}));
    assert_eq!(steps[copied]["env"], json!({"BUNDLE": "${{ steps.attest.outputs.bundle-path }}"}));
    assert!(attested < copied && Some(copied) < run("gh release create"));
}

#[test]
fn workflows_run_actions_by_commit_and_with_few_rights() {
    for path in workflows() {
        let text = fs::read_to_string(&path).unwrap();
        let workflow: Value = serde_yaml::from_str(&text).unwrap();
        let name = path.display();
        assert_eq!(workflow["permissions"], json!({"contents": "read"}), "{name}");
        for line in text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("uses: ")) {
            let (action, version) =
                line.split_once(" # v").unwrap_or_else(|| panic!("{name}: {line} names no version"));
            let commit = action.split_once('@').unwrap().1;
            assert!(commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{name}: {line}");
            assert!(version.split('.').count() == 3, "{name}: {line}");
        }
    }
}

#[test]
fn only_the_job_that_pushes_keeps_the_credentials_of_its_checkout() {
    let is_checkout = |step: &&Value| step["uses"].as_str().is_some_and(|uses| uses.starts_with("actions/checkout@"));
    for path in workflows() {
        let workflow: Value = serde_yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for (name, job) in workflow["jobs"].as_object().unwrap() {
            for step in job["steps"].as_array().unwrap().iter().filter(is_checkout) {
                let is_kept = step["with"]["persist-credentials"] != false;
                assert_eq!(is_kept, name == "site", "{}: {name}", path.display());
            }
        }
    }
}

#[test]
fn dependabot_reads_every_go_module() {
    let config: Value = serde_yaml::from_str(&read(".github/dependabot.yml")).unwrap();
    let go =
        config["updates"].as_array().unwrap().iter().find(|update| update["package-ecosystem"] == "gomod").unwrap();
    let listed: Vec<&str> = go["directories"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut files = BTreeSet::new();
    for folder in ["tools", "crates/test-cluster/tools"] {
        publishable::files(root(), &root().join(folder), &mut files);
    }
    let modules: Vec<&str> = files.iter().filter_map(|file| file.strip_suffix("/go.mod")).collect();
    assert!(modules.len() > 10, "{modules:?}");
    for module in modules {
        let (above, _) = module.rsplit_once('/').unwrap();
        let is_listed = [format!("/{module}"), format!("/{above}/*")].iter().any(|folder| listed.contains(&&**folder));
        assert!(is_listed, "{module} is not in {listed:?}");
    }
}

#[test]
fn what_runs_is_linked_side_by_side_whatever_the_hashes_in_its_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for script in ["rust-lld", "names"] {
        fs::copy(root().join("tools/release").join(script), tools.join(script)).unwrap();
    }
    fs::write(tools.join("functions"), "own::served\ngone::function\nmemcpy\n").unwrap();
    // Instead of linking, it shows what it would put first.
    let linker = folder.path().join("rust-lld");
    fs::write(
        &linker,
        "#!/bin/sh\nfor last; do case $last in --symbol-ordering-file=*) cat ${last#*=} ;; esac; done\n",
    )
    .unwrap();
    fs::set_permissions(&linker, PermissionsExt::from_mode(0o755)).unwrap();
    let source = folder.path().join("own.rs");
    fs::write(&source, "pub fn idle() {}\npub fn served() {}\n").unwrap();
    let path = format!("{}:{}", folder.path().display(), env::var("PATH").unwrap());
    let run = |command: &mut Command| {
        let output = command.env("PATH", &path).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let compile = ["--crate-type=lib", "--emit=obj", "-Csymbol-mangling-version=v0", "-Clink-dead-code", "own.rs"];
    run(Command::new("rustc").args(compile));
    let order = run(Command::new(tools.join("rust-lld")).args(["own.o", "--output", "program"]));
    let order: Vec<&str> = order.lines().collect();
    assert!(matches!(order[..], ["memcpy", served] if served.ends_with("3own6served")), "{order:?}");
}
