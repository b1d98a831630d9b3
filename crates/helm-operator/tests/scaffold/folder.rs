//! A project in a temporary folder, and the commands that its user runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use test_cluster::TestCluster;

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_helm-operator");

/// A project in a temporary folder.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs the operator's program with these arguments, separated by spaces.
    pub(crate) fn run(&self, line: &str) -> Result<String, String> {
        let output = Command::new(PROGRAM).args(line.split_whitespace()).current_dir(self.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    /// Runs make as the project's user would, against the cluster.
    pub(crate) fn make(&self, cluster: &TestCluster, words: &[&str]) {
        let output = Command::new("make")
            .args(words)
            .arg(format!("KUBECTL={}", cluster.bin("kubectl").display()))
            .arg(format!("HELM_OPERATOR={PROGRAM}"))
            .env("KUBECONFIG", cluster.kubeconfig_path())
            .env_remove("MAKEFLAGS")
            .current_dir(self.path())
            .output()
            .unwrap();
        let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "make {words:?}: {}{}", said(&output.stdout), said(&output.stderr));
    }

    /// Returns all files with their contents.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, found) } else { found.push((path.clone(), fs::read(&path).unwrap())) }
            }
        }
        let mut found = Vec::new();
        walk(self.path(), &mut found);
        found.sort();
        found
    }
}
