//! Committed generated files are up to date. `make manifests` rewrites them.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn generated_definitions_are_committed() {
    generate("crds");
}

#[test]
fn generated_rights_of_charts_are_committed() {
    generate("rbac");
}

#[test]
fn nothing_in_this_repository_would_fail_in_the_cluster() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in std::iter::once(root.to_owned()).chain(examples()) {
        let mut lint = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
        let output = lint.args(["lint", "--strict"]).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&output.stdout));
    }
}

/// Returns the folders of the examples with charts.
fn examples() -> Vec<PathBuf> {
    let all = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap();
    let folders: Vec<PathBuf> =
        all.map(|entry| entry.unwrap().path()).filter(|folder| folder.join("watches.yaml").exists()).collect();
    assert!(folders.len() > 5);
    folders
}

/// Runs the generator in this repository. It fails if a file is stale, or rewrites the file.
fn generate(what: &str) {
    let mut generate = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    generate.args(["generate", what]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GENERATED").is_none() {
        generate.arg("--check");
    }
    let output = generate.output().unwrap();
    assert!(output.status.success(), "run `make manifests`: {}", String::from_utf8_lossy(&output.stderr));
}
