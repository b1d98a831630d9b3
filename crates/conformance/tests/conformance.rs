//! Runs the program on this repository's cases, and on the shared ones if they exist.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // Tests may panic, and print what they skip.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the program; panics with its output if a case fails.
fn check(args: &[PathBuf]) {
    let output = Command::new(env!("CARGO_BIN_EXE_conformance")).args(args).env("TZ", "UTC").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", text.lines().last().unwrap_or_default());
}

fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("own")
}

#[test]
fn our_snippets_and_charts_render_as_with_helm() {
    check(&["--vectors".into(), own().join("vectors.jsonl"), "--corpus".into(), own()]);
}

#[test]
fn shared_snippets_render_as_with_helm() {
    let names = ["dev", "yaml-emit", "yaml-parse", "semver", "float", "glob", "regex"];
    let files: Option<Vec<PathBuf>> =
        names.iter().map(|name| shared_cases::path(&format!("vectors/{name}.jsonl"))).collect();
    let Some(files) = files else { return };
    check(&std::iter::once("--vectors".into()).chain(files).collect::<Vec<PathBuf>>());
}

#[test]
fn shared_charts_render_as_with_helm() {
    let Some(archive) = shared_cases::path("corpus/corpus.tgz") else { return };
    let unpacked = tempfile::tempdir().unwrap();
    let done = Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(unpacked.path()).status().unwrap();
    assert!(done.success(), "cannot unpack {}", archive.display());
    check(&["--corpus".into(), unpacked.path().join("dev")]);
}

#[test]
fn random_values_render_as_with_helm() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("TEST_CLUSTER_FOLDER").map_or_else(|| root.join("target/cluster"), PathBuf::from);
    let helm = folder.join("bin/helm");
    if !helm.exists() {
        println!("skipped: Helm is not built; run make cluster");
        return;
    }
    let mut fuzz = Command::new(env!("CARGO_BIN_EXE_value-fuzz"));
    fuzz.args(["--renders", "150", "--helm"]).arg(&helm).args([
        own(),
        root.join("crates/parity/own"),
        root.join("examples"),
    ]);
    let output = fuzz.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", text.lines().last().unwrap_or_default());
}
