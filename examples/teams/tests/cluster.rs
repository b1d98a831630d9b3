//! Both kinds on a real control plane: deployed with `config/default`, run with the rights of the operator's own ServiceAccount.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::process::Command;

use serde_json::{Value, json};
use test_cluster::{Process, TestCluster, eventually};

const SYSTEM: &str = "teams-operator-system";
const ACCOUNT: &str = "teams-operator-controller-manager";

fn start(cluster: &TestCluster) -> Process {
    cluster.deploy(concat!(env!("CARGO_MANIFEST_DIR"), "/config/default")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_teams"));
    command.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.args(["--webhook-bind-address=127.0.0.1:0", "--leader-elect", "--leader-election-id=teams-operator"]);
    command.arg(format!("--leader-election-namespace={SYSTEM}"));
    command.env("KUBECONFIG", cluster.kubeconfig_of(SYSTEM, ACCOUNT).unwrap());
    Process::start(cluster, &mut command).unwrap()
}

fn quota(cluster: &TestCluster, namespace: &str, expected: &Value) {
    cluster.wait_for(&["resourcequota", "team", "-n", namespace], "/spec/hard/requests.cpu", expected);
}

#[test]
fn a_team_provides_its_namespaces_and_takes_nothing_else_with_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (dev, test) = (cluster.namespace("red-dev").unwrap(), cluster.namespace("red-test").unwrap());
    let operator = start(cluster);
    let refused = eventually("a refusal by the webhook", || {
        let team = json!({"apiVersion": "platform.example.com/v2", "kind": "Team", "metadata": {"name": "empty"}, "spec": {"members": []}});
        match cluster.kubectl_with_input(["create", "--dry-run=server", "-f", "-"], &team.to_string()) {
            Ok(created) => Err(created),
            Err(error) if error.to_string().contains("webhook") => Err(error.to_string()),
            Err(error) => Ok(error.to_string()),
        }
    });
    assert!(refused.contains("spec.members: a team has at least one member"), "{refused}");
    let set_quota = |cpu: &str| {
        let spec = json!({"members": ["alan", "ada", "ada"], "quota": {"requests.cpu": cpu}});
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
    cluster.wait_for(&["team", "red"], "/status/namespaces", &json!(namespaces));
    cluster.wait_for(&["team", "red"], "/status/conditions/0/message", &json!("2 of 2 workspaces are ready"));
    let owner = json!({"spec": {"members": [{"name": "ada", "role": "Owner"}, {"name": "alan"}]}}).to_string();
    cluster.kubectl(["patch", "teams.v2.platform.example.com", "red", "--type=merge", "-p", &owner]).unwrap();
    cluster.wait_for(&["teams.v1.platform.example.com", "red"], "/spec/members", &json!(["ada", "alan"]));
    cluster.wait_for(&["teams.v2.platform.example.com", "red"], "/spec/members/0/role", &json!("Owner"));
    let workspace = ["workspace", "team", "-n", dev.name()];
    let uid = cluster.get(&workspace).unwrap()["metadata"]["uid"].clone();

    let hand = cluster.namespace("red-hand").unwrap();
    let own = json!({"apiVersion": "platform.example.com/v1", "kind": "Workspace", "metadata": {"name": "team"}, "spec": {"team": "red"}});
    hand.apply(&own.to_string()).unwrap();
    quota(cluster, hand.name(), &json!("4"));

    set_quota("8");
    quota(cluster, dev.name(), &json!("8"));
    quota(cluster, hand.name(), &json!("8"));
    quota(cluster, test.name(), &json!("8"));

    label(test.name(), "platform.example.com/team-");
    cluster.wait_for(&["workspace", "team", "-n", test.name()], "/metadata/name", &Value::Null);
    quota(cluster, test.name(), &Value::Null);
    assert_eq!(cluster.get(&workspace).unwrap()["metadata"]["uid"], uid, "the other namespace keeps its own");

    cluster.kubectl(["delete", "team", "red", "--timeout=30s"]).unwrap();
    quota(cluster, dev.name(), &Value::Null);
    let (status, log) = operator.terminate().unwrap();
    assert!(status.success() && !log.contains("\"level\":\"error\""), "{log}");
}
