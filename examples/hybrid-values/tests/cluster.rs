//! The example on a real control plane: deployed with `config/default`, run with the rights of its own ServiceAccount.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::process::Command;

use serde_json::{Value, json};
use test_cluster::{Namespace, Process, TestCluster, eventually};

const SYSTEM: &str = "hybrid-values-system";
const ACCOUNT: &str = "hybrid-values-controller-manager";

/// Deploys the operator, whose pod is simulated, and runs it here.
fn start(cluster: &TestCluster, namespace: &Namespace<'_>) -> Process {
    cluster.deploy(concat!(env!("CARGO_MANIFEST_DIR"), "/config/default")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hybrid-values"));
    command.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--reconcile-period=0"]);
    command.env("KUBECONFIG", cluster.kubeconfig_of(SYSTEM, ACCOUNT).unwrap());
    command.env("WATCH_NAMESPACE", namespace.name()).current_dir(env!("CARGO_MANIFEST_DIR"));
    Process::start(cluster, &mut command).unwrap()
}

fn settings(namespace: &Namespace<'_>, data: Value) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "settings", "labels": {"hybrid-values/settings": "true"}}});
    namespace.apply(&map.to_string()).unwrap();
}

fn nginx(namespace: &Namespace<'_>, name: &str, spec: Value) {
    let nginx =
        json!({"apiVersion": "web.example.com/v1alpha1", "kind": "Nginx", "metadata": {"name": name}, "spec": spec});
    namespace.apply(&nginx.to_string()).unwrap();
}

/// Waits until the Deployment has these replicas and this tier.
fn wait_for(namespace: &Namespace<'_>, name: &str, replicas: i32, tier: &str) {
    eventually("mapped values", || {
        let found = namespace.kubectl(["get", "deployment", name, "-o", "json", "--ignore-not-found"]).unwrap();
        let spec = serde_json::from_str::<Value>(&found).unwrap_or_default()["spec"].clone();
        let labels = &spec["template"]["metadata"]["labels"];
        let is_so = spec["replicas"] == replicas && labels["tier"].as_str().unwrap_or_default() == tier;
        if is_so { Ok(()) } else { Err(format!("{spec}")) }
    });
}

fn reasons(namespace: &Namespace<'_>) -> Vec<String> {
    let found = namespace.kubectl(["get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reason}"]).unwrap();
    found.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn settings_reach_every_release_of_their_namespace_at_once() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (namespace, other) = (cluster.namespace("mapped").unwrap(), cluster.namespace("other").unwrap());
    let operator = start(cluster, &namespace);
    settings(&other, json!({"tier": "lead", "replicas": "9"}));
    nginx(&namespace, "own", json!({"image": {"repository": "nginx"}, "service": {"port": 80}, "replicaCount": 1}));
    nginx(&namespace, "free", json!({}));
    wait_for(&namespace, "own", 1, "");
    wait_for(&namespace, "free", 1, "");
    settings(&namespace, json!({"tier": "gold", "replicas": "2"}));
    wait_for(&namespace, "own", 1, "gold");
    wait_for(&namespace, "free", 2, "gold");
    settings(&namespace, json!({"tier": "silver", "replicas": "many"}));
    eventually("failure that names the setting", || {
        let message = "jsonpath={.status.conditions[?(@.type==\"Irreconcilable\")].message}";
        let message = namespace.kubectl(["get", "nginx", "free", "-o", message]).unwrap();
        if message.contains("key \"replicas\": \"many\" is not a number") { Ok(()) } else { Err(message) }
    });
    wait_for(&namespace, "free", 2, "gold");
    settings(&namespace, json!({"tier": "silver", "replicas": "3"}));
    wait_for(&namespace, "free", 3, "silver");
    for reason in ["Installing", "Upgrading", "Published"] {
        eventually(
            reason,
            || if reasons(&namespace).contains(&reason.to_owned()) { Ok(()) } else { Err(operator.log()) },
        );
    }
    namespace.kubectl(["delete", "nginx", "--all", "--timeout=60s"]).unwrap();
    namespace.kubectl(["wait", "--for=delete", "deployment/free", "--timeout=60s"]).unwrap();
}
