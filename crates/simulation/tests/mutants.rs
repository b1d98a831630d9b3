//! Checks that every patch of a seeded fault still applies. Otherwise, only the next `make simulate-mutants` would reveal
//! that one is outdated.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the patches in the order of their numbers, as `hack/simulate-mutants` applies them.
fn patches() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let entries = std::fs::read_dir(folder).expect("there are seeded faults").filter_map(Result::ok);
    let paths = entries.map(|entry| entry.path());
    let mut patches: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "patch")).collect();
    patches.sort();
    patches
}

#[test]
fn every_seeded_fault_applies_to_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let patches = patches();
    assert!(patches.len() > 32, "twelve mends and twenty more, and the switch: {}", patches.len());
    let check = ["apply", "--check", "--recount"];
    let git = Command::new("git").current_dir(root).args(check).args(patches).output().expect("git runs");
    assert!(git.status.success(), "make these patches again:\n{}", String::from_utf8_lossy(&git.stderr));
}
