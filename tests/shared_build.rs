//! Lets a project that a test creates share compiled dependencies with this repository: the same versions, profiles and
//! features. Otherwise, each test of a project compiles some eighty crates again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Copies versions and profiles of this repository, and adds the features that its tests turn on.
pub(crate) fn share_build(project: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let profiles = &ours[ours.find("[profile.dev]").unwrap()..ours.find("[package]").unwrap()];
    let theirs = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    let package = &theirs[..theirs.find("[profile.dev]").unwrap_or(theirs.len())];
    let features = root.join("tests/fixtures/shared-build");
    let shared = format!("{package}\n[dependencies.shared-build]\npath = {features:?}\n\n{profiles}");
    fs::write(project.join("Cargo.toml"), shared).unwrap();
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
}

/// Points the project at this repository's library. Its own copy has the same content, but would be compiled again.
pub(crate) fn share_library(project: &Path) {
    let path = project.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    fs::write(path, manifest.replace("vendor/helm-operator/crates", &crates.display().to_string())).unwrap();
}

/// One compiled crate of a build: its name, whether it is for the build itself, and the features that are on.
type Unit = (String, String, Vec<String>);

/// Returns the registry's crates in a build.
fn registry_units(project: &Path, command: &[&str]) -> BTreeSet<Unit> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(command).args(["--unit-graph", "-Zunstable-options"]).current_dir(project);
    cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_NET_OFFLINE", "true");
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let graph: Value = serde_json::from_slice(&output.stdout).unwrap();
    let units = graph["units"].as_array().unwrap().iter();
    let is_library =
        |unit: &&Value| unit["pkg_id"].as_str().unwrap().starts_with("registry") && unit["mode"] == "build";
    let unit = |unit: &Value| {
        let features = unit["features"].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned());
        (unit["pkg_id"].as_str().unwrap().to_owned(), unit["platform"].to_string(), features.collect())
    };
    units.filter(is_library).map(unit).collect()
}

#[test]
fn a_project_of_a_test_has_the_features_of_this_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = registry_units(root, &["test", "--workspace", "--no-run"]);
    let project = tempfile::tempdir().unwrap();
    let library = root.join("crates/helm-operator");
    let manifest = format!(
        "[package]\nname = \"project\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nhelm-operator = {{ path = {library:?} }}\n\n[lib]\npath = \"lib.rs\"\n"
    );
    fs::write(project.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(project.path().join("lib.rs"), "").unwrap();
    share_build(project.path());
    let theirs = registry_units(project.path(), &["build"]);
    let other: Vec<&Unit> = theirs.difference(&ours).collect();
    assert!(
        other.is_empty(),
        "compiled again, unless tests/fixtures/shared-build turns on the same features: {other:#?}"
    );
}
