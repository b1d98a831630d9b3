//! `rollback`: a release that a person pins to a revision, on a real control plane.

use std::process::{Command, Output};

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};
use crate::reader::get;

const CHECKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/checked");

/// Runs `rollback` for the resource `web`.
fn rollback(cluster: &TestCluster, namespace: &Namespace<'_>, watches: &str, flags: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.yaml");
    std::fs::write(&file, watches).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(["rollback", "Holder", "web", "-n", namespace.name(), "--watches-file"]).arg(&file).args(flags);
    command.args(["--kubeconfig"]).arg(cluster.kubeconfig_path()).output().unwrap()
}

fn set(namespace: &Namespace<'_>, value: &str) {
    HOLDER.set(namespace, "web", &json!({"value": value}));
}

/// Waits until the ConfigMap has this value and the resource is ready.
fn wait_for(namespace: &Namespace<'_>, value: &str) {
    eventually(value, || {
        let (map, holder) = (get(namespace, ["configmap", "web"]), HOLDER.get(namespace, "web"));
        let is_ready = condition(&holder, "Ready")["status"] == "True";
        if map["data"]["value"] == value && is_ready { Ok(()) } else { Err((map, holder)) }
    });
}

#[test]
fn a_rollback_by_command_holds_until_it_is_ended() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("pinned").unwrap();
    install_kind(cluster);
    let watches = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHECKED}]).to_string();
    let operator = Operator::start_in(cluster, &[&namespace], &watches);
    for value in ["1", "2"] {
        set(&namespace, value);
        wait_for(&namespace, value);
    }
    let run = |flags: &[&str]| {
        let output = rollback(cluster, &namespace, &watches, flags);
        let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), told)
    };
    let (_, planned) = run(&["--to", "1", "--dry-run"]);
    assert!(planned.contains("+  value: \"1\""), "{planned}");
    assert_eq!(get(&namespace, ["configmap", "web"])["data"]["value"], "2", "nothing was written");
    let (code, told) = run(&["--to", "1"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("the release stays at revision 1, which revision 3 repeats"), "{told}");
    assert_eq!(get(&namespace, ["configmap", "web"])["data"]["value"], "1");

    set(&namespace, "3");
    operator.kill();
    let _operator = Operator::start_in(cluster, &[&namespace], &watches);
    eventually("the new generation", || {
        let holder = HOLDER.get(&namespace, "web");
        let is_current = holder["status"]["observedGeneration"] == holder["metadata"]["generation"];
        if is_current { Ok(()) } else { Err(holder) }
    });
    assert_eq!(HOLDER.revision(&namespace, "web"), 3, "the spec waits");
    let (code, told) = run(&["--to", "7"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("the release cannot return to revision 7"), "{told}");
    let (code, told) = run(&["--end"]);
    assert_eq!(code, Some(0), "{told}");
    wait_for(&namespace, "3");
    assert_eq!(condition(&HOLDER.get(&namespace, "web"), "Pinned"), &Value::Null);
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}
