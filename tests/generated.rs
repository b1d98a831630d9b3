//! Committed generated files are up to date. `make manifests` rewrites them.

use std::path::Path;
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
    for folder in ["", "examples/hybrid-values", "examples/reverse-words-chart"] {
        let mut lint = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
        lint.args(["lint", "--strict"]).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
        let output = lint.output().unwrap();
        assert!(output.status.success(), "{folder}: {}", String::from_utf8_lossy(&output.stdout));
    }
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
