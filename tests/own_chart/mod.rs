//! The charts in `charts`, which install an operator: their files, what they render to, and what they do in a cluster.

mod files;
mod installed;
mod rendered;

pub(crate) use installed::{chart_before_its_last_change, in_namespace, restricted};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use test_cluster::TestCluster;

/// The chart of the operator.
pub(crate) const OPERATOR: &str = "charts/hybrid-helm-operator";

/// The chart of definitions.
pub(crate) const DEFINITIONS: &str = "charts/hybrid-helm-operator-crds";

/// What every install needs: no image is published yet.
const IMAGE: &str = "image.repository=registry.example.com/helm-operator";

/// The rights of the reference operator's charts and code, as `generate rbac` writes them.
pub(crate) const RIGHTS: [&str; 2] = [
    "rbac.generated.memcached=config/rbac/memcached_role.yaml",
    "rbac.generated.memcachedbackup=config/rbac/memcachedbackup_role.yaml",
];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn yaml(path: &str) -> Value {
    serde_yaml::from_str(&read(path)).unwrap()
}

/// Returns the values that the chart has for tests: every file of its folder `ci`.
fn variants() -> Vec<PathBuf> {
    let files = fs::read_dir(root().join(OPERATOR).join("ci")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 2, "{files:?}");
    files
}

/// Runs a program on a chart, in the repository.
fn run<'a>(mut program: Command, arguments: impl IntoIterator<Item = &'a str>) -> Output {
    program.args(arguments).current_dir(root()).output().unwrap()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns this repository's program.
fn ours() -> Command {
    Command::new(env!("CARGO_BIN_EXE_memcached-operator"))
}

/// Returns real Helm, or says that it is not there.
fn helm() -> Option<&'static TestCluster> {
    let cluster = TestCluster::shared_or_skip()?;
    if cluster.bin("helm").is_file() {
        return Some(cluster);
    }
    eprintln!("skipped: no helm beside the control plane");
    None
}

/// Renders the operator's chart with these flags.
fn objects(flags: &[&str]) -> Vec<Value> {
    objects_in("ns", flags)
}

/// Renders the operator's chart for this namespace.
fn objects_in(namespace: &str, flags: &[&str]) -> Vec<Value> {
    let arguments = [&["template", "rel", OPERATOR, "--namespace", namespace, "--set", IMAGE], flags].concat();
    let text = succeeded(&run(ours(), arguments));
    let documents = text.split("---\n").map(|document| serde_yaml::from_str::<Value>(document).unwrap());
    documents.filter(Value::is_object).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn one<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = of_kind(objects, kind).into_iter().find(|object| object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}
