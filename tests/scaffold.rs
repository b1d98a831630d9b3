//! The hybrid project of upstream's tutorial, created by the real program, builds, passes its own tests, in memory and
//! on a control plane, and generates the files that it commits.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_cluster::TestCluster;

use crate::shared_build::share_build;

const PROGRAM: &str = env!("CARGO_BIN_EXE_memcached-operator");

/// Creates the hybrid project of upstream's tutorial in a persistent folder, so that a second run compiles little.
fn hybrid_project() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("target/scaffold/hybrid-operator");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let run = |line: &str, answers: &str| {
        let mut child = Command::new(PROGRAM);
        child
            .args(line.split_whitespace())
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(answers.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let library = root.join("crates/helm-operator");
    run(
        &format!(
            "init --plugins=hybrid.helm.sdk.operatorframework.io --project-version=3 --domain hybrid.test --repo example.com/hybrid-operator --library-path {}",
            library.display()
        ),
        "",
    );
    run("create api --plugins helm.sdk.operatorframework.io/v1 --group cache --version v1 --kind Memcached", "");
    run("create api --group cache --version v1 --kind MemcachedBackup --plugins=go/v3", "y\ny\n");
    run("create api --group cache --version v1 --kind MemcachedBackup --resource --controller --plugins=go/v3", "");
    folder
}

#[test]
fn a_hybrid_project_builds_passes_its_tests_and_generates_what_it_commits() {
    let folder = hybrid_project();
    share_build(&folder);
    let target = Path::new(PROGRAM).ancestors().nth(2).unwrap();
    let cargo = |words: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(words).env("CARGO_TARGET_DIR", target).env("CARGO_NET_OFFLINE", "true").current_dir(&folder);
        let output = cargo.output().unwrap();
        let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "cargo {words:?}: {}{}", said(&output.stdout), said(&output.stderr));
        said(&output.stdout)
    };
    let tested = cargo(&["test", "--quiet"]);
    assert!(tested.contains("4 passed"), "{tested}");
    cargo(&["run", "--quiet", "--", "generate", "crds"]);
    let crd = fs::read_to_string(folder.join("config/crd/bases/cache.hybrid.test_memcachedbackups.yaml")).unwrap();
    assert!(crd.contains("description: Number of pods."), "{crd}");
    cargo(&["run", "--quiet", "--", "generate", "crds", "--check"]);
    cargo(&["run", "--quiet", "--", "generate", "rbac", "--check"]);
    cargo(&["run", "--quiet", "--", "lint", "--strict"]);
    assert!(tested.contains("1 ignored"), "a plain `cargo test` starts no control plane: {tested}");
    if TestCluster::shared_or_skip().is_some() {
        let tested = cargo(&["test", "--quiet", "--test", "cluster", "--", "--ignored"]);
        assert!(tested.contains("1 passed"), "{tested}");
    }
}
