//! Both kinds on a real control plane: deployed with `config/default`, run with the rights of the operator's own ServiceAccount.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::process::Command;

use serde_json::{Value, json};
use test_cluster::{Process, TestCluster, eventually};

const SYSTEM: &str = "teams-operator-system";
const ACCOUNT: &str = "teams-operator-controller-manager";

fn start(cluster: &TestCluster) -> Process {
    let config = format!("{}/config/default", env!("CARGO_MANIFEST_DIR"));
    cluster.kubectl(["apply", "--server-side", "-k", &config]).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_teams"));
    command.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.env("KUBECONFIG", cluster.kubeconfig_of(SYSTEM, ACCOUNT).unwrap());
    Process::start(cluster, &mut command).unwrap()
}

fn get(cluster: &TestCluster, object: &[&str]) -> Value {
    let mut args = vec!["get", "-o", "json", "--ignore-not-found"];
    args.extend(object);
    serde_json::from_str(&cluster.kubectl(args).unwrap()).unwrap_or_default()
}

/// Waits until the value at the pointer is this; `Null` where there is no object.
fn wait_for(cluster: &TestCluster, object: &[&str], pointer: &str, expected: &Value) {
    eventually(&format!("{pointer} of {object:?}"), || {
        let found = get(cluster, object).pointer(pointer).cloned().unwrap_or_default();
        if found == *expected { Ok(()) } else { Err(found) }
    });
}

fn quota(cluster: &TestCluster, namespace: &str, expected: &Value) {
    wait_for(cluster, &["resourcequota", "team", "-n", namespace], "/spec/hard/requests.cpu", expected);
}

#[test]
fn a_team_provides_its_namespaces_and_takes_nothing_else_with_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (dev, test) = (cluster.namespace("red-dev").unwrap(), cluster.namespace("red-test").unwrap());
    let operator = start(cluster);
    let set_quota = |cpu: &str| {
        let spec = json!({"members": ["ada", "alan"], "quota": {"requests.cpu": cpu}});
        let meta = json!({"name": "red"});
        let team = json!({"apiVersion": "platform.example.com/v1", "kind": "Team", "metadata": meta, "spec": spec});
        dev.apply(&team.to_string()).unwrap();
    };
    let label = |namespace: &str, label: &str| _ = cluster.kubectl(["label", "namespace", namespace, label]).unwrap();
    set_quota("4");
    label(dev.name(), "platform.example.com/team=red");
    label(test.name(), "platform.example.com/team=red");
    quota(cluster, dev.name(), &json!("4"));
    quota(cluster, test.name(), &json!("4"));
    let mut namespaces = [dev.name(), test.name()];
    namespaces.sort_unstable();
    wait_for(cluster, &["team", "red"], "/status/namespaces", &json!(namespaces));
    wait_for(cluster, &["team", "red"], "/status/conditions/0/message", &json!("2 of 2 workspaces are ready"));
    let workspace = ["workspace", "team", "-n", dev.name()];
    let uid = get(cluster, &workspace)["metadata"]["uid"].clone();

    set_quota("8");
    quota(cluster, dev.name(), &json!("8"));
    quota(cluster, test.name(), &json!("8"));

    label(test.name(), "platform.example.com/team-");
    wait_for(cluster, &["workspace", "team", "-n", test.name()], "/metadata/name", &Value::Null);
    quota(cluster, test.name(), &Value::Null);
    assert_eq!(get(cluster, &workspace)["metadata"]["uid"], uid, "the other namespace keeps its own");

    cluster.kubectl(["delete", "team", "red", "--timeout=30s"]).unwrap();
    quota(cluster, dev.name(), &Value::Null);
    let (status, log) = operator.terminate().unwrap();
    assert!(status.success() && !log.contains("\"level\":\"error\""), "{log}");
}
