//! Tests of `make undeploy`, in projects and in this repository, with a kubectl that logs its arguments.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::folder::Folder;

/// The Makefiles that have the target.
const MAKEFILES: [&str; 8] = [
    "crates/scaffold/templates/charts/Makefile",
    "crates/scaffold/templates/hybrid/Makefile",
    "Makefile",
    "examples/hybrid-values/Makefile",
    "examples/memcached-native/Makefile",
    "examples/reverse-words-chart/Makefile",
    "examples/reverse-words/Makefile",
    "examples/teams/Makefile",
];
const KINDS: &str = "KINDS=alphas.cache.undeploy.test memcacheds.cache.undeploy.test";

/// Runs `make undeploy` with a kubectl that answers as these branches of a shell's `case` say. Returns whether it
/// succeeds, and what it deletes.
fn undeploy(folder: &Folder, makefile: &str, branches: &str) -> (bool, String) {
    let [log, kubectl] = ["kubectl.log", "kubectl.sh"].map(|name| folder.path().join(name));
    fs::write(&log, "").unwrap();
    let script = format!("echo \"$*\" >> {}\ncase \"$*\" in\n{branches}\nesac\n", log.display());
    fs::write(&kubectl, script).unwrap();
    let mut command = Command::new("make");
    command.arg("--file").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(makefile));
    // Projects find their kinds in config/crd.
    if !makefile.contains("/templates/") {
        command.arg(KINDS);
    }
    command.args(["undeploy", &format!("KUBECTL=sh {}", kubectl.display())]);
    let output = command.env_remove("MAKEFLAGS").current_dir(folder.path()).output().unwrap();
    let asked = fs::read_to_string(log).unwrap();
    let deleted = asked.lines().filter(|line| line.starts_with("delete "));
    let last = deleted.filter_map(|line| line.split(' ').next_back());
    let plurals: Vec<&str> = last.filter_map(|kind| kind.split('.').next()).collect();
    (output.status.success(), plurals.join(" "))
}

#[test]
fn the_operator_goes_only_after_the_resources_of_every_kind_that_the_cluster_has() {
    let folder = Folder::new();
    folder.run("init --domain undeploy.test --project-name undeploy").unwrap();
    for kind in ["Alpha", "Memcached"] {
        folder.run(&format!("create api --group cache --version v1 --kind {kind}")).unwrap();
    }
    for (branches, is_done, deleted) in [
        ("get*) echo found ;;", true, "alphas memcacheds config/default"),
        // The cluster lacks the first kind.
        ("get*memcacheds*) echo found ;; delete*alphas*) exit 1 ;;", true, "memcacheds config/default"),
        ("get*) echo found ;; delete*alphas*) exit 1 ;;", false, "alphas"),
        ("get*memcacheds*) exit 1 ;;", false, ""),
    ] {
        for makefile in MAKEFILES {
            let expected = (is_done, deleted.to_owned());
            assert_eq!(undeploy(&folder, makefile, branches), expected, "{makefile}: {branches}");
        }
    }
}
