//! Ordered releases on a real control plane, with the API server's audit log as the witness of their order, and of the silence while they wait.

use std::process::Command;

use serde_json::{Value, json};
use test_cluster::{Namespace, Request, TestCluster};

use crate::account::{kubeconfig, user};
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/steps");

/// Returns the operator's finished requests about the objects of a release.
fn requests(cluster: &TestCluster, namespace: &Namespace<'_>, release: &str) -> Vec<Request> {
    let user = user(namespace.name());
    let all = cluster.requests().unwrap().into_iter();
    let own = all.filter(|request| request.user == user || request.user == "operator");
    let is_of = |request: &Request| request.namespace == namespace.name() && request.name.contains(release);
    own.filter(|request| is_of(request) && !request.is_dry_run).collect()
}

/// Returns the planned changes of a resource, each with its round.
fn planned(cluster: &TestCluster, namespace: &Namespace<'_>, watches: &str, resource: &Value) -> Vec<(String, u64)> {
    let user = format!("--user={}", user(namespace.name()));
    let rule = ["create", "role", "holders", "--verb=create,update", "--resource=holders.test.my.domain"];
    namespace.kubectl(rule).unwrap();
    namespace.kubectl(["create", "rolebinding", "holders", "--role=holders", &user]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("watches.yaml"), watches).unwrap();
    std::fs::write(folder.path().join("shop.yaml"), resource.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(["diff", "-f", "shop.yaml", "-o", "json", "-n", namespace.name(), "--watches-file", "watches.yaml"]);
    command.arg("--kubeconfig").arg(kubeconfig(cluster, namespace.name(), Some(watches)));
    let output = command.current_dir(folder.path()).output().unwrap();
    let plans: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let changes = plans[0]["changes"].as_array().unwrap_or_else(|| panic!("{plans}"));
    let change = |one: &Value| (one["object"]["name"].as_str().unwrap().to_owned(), one["round"].as_u64().unwrap_or(0));
    changes.iter().map(change).collect()
}

/// Returns the names of the objects to which requests of this kind were sent, in the order of the first one.
fn order(requests: &[Request], verb: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let is_object = |one: &&Request| ["services", "configmaps"].contains(&one.resource.as_str()) && one.verb == verb;
    for request in requests.iter().filter(is_object) {
        if !names.contains(&request.name) {
            names.push(request.name.clone());
        }
    }
    names
}

fn reconciles(operator: &Operator) -> u64 {
    let metrics = operator.get("Serving metrics server", "/metrics");
    let counts = metrics.lines().filter(|line| line.starts_with("controller_runtime_reconcile_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

/// Sets the state that a Service's conditions read, once it exists.
fn set_state(namespace: &Namespace<'_>, name: &str, state: &str) {
    let status = json!({"status": {"loadBalancer": {"ingress": [{"hostname": state}]}}}).to_string();
    eventually(name, || {
        let patch = ["patch", "service", name, "--subresource=status", "--type=merge", "-p", &status];
        namespace.kubectl(patch).map(drop).map_err(|error| error.to_string())
    });
}

fn says(namespace: &Namespace<'_>, name: &str, text: &str) {
    eventually(text, || {
        let status = HOLDER.get(namespace, name)["status"].to_string();
        if status.contains(text) { Ok(()) } else { Err(status) }
    });
}

#[test]
fn groups_are_applied_in_order_without_a_request_in_between_and_deleted_in_reverse() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("ordered").unwrap();
    crate::operator::install_kinds(cluster);
    install_kind(cluster);
    // With one worker, a wait that held it would stop everything else.
    let watch = json!([{
        "group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHART, "sequencing": "ordered",
        "reconcilePeriod": "1s", "maxConcurrentReconciles": 1,
    }]);
    let operator = Operator::start_in(cluster, &[&namespace], &watch.to_string());
    HOLDER.set(&namespace, "other", &json!({"value": "1"}));
    set_state(&namespace, "other-db", "ready");
    set_state(&namespace, "other-web", "ready");
    HOLDER.wait_for(&namespace, "other", "Ready");

    let shop = json!({"apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": {"name": "shop"}, "spec": {"value": "1"}});
    let expected = [("shop-db", 1), ("shop-web", 2), ("shop-notes", 3)].map(|(name, round)| (name.to_owned(), round));
    assert_eq!(planned(cluster, &namespace, &watch.to_string(), &shop), expected);
    HOLDER.set(&namespace, "shop", &json!({"value": "1"}));
    says(&namespace, "shop", "round 1 of 3");
    let (before, began) = (requests(cluster, &namespace, "shop").len(), reconciles(&operator));
    eventually("other reconciles", || {
        let done = reconciles(&operator) - began;
        if done >= 5 { Ok(()) } else { Err(done) }
    });
    let asked = requests(cluster, &namespace, "shop")[before..].to_vec();
    assert_eq!(asked, [], "nothing is asked for while it waits");
    assert_eq!(order(&requests(cluster, &namespace, "shop"), "patch"), ["shop-db"]);

    // Another process resumes the install.
    let uid = |name: &str| -> Value {
        let object = namespace.kubectl(["get", "service", name, "-o", "json"]).unwrap();
        serde_json::from_str::<Value>(&object).unwrap()["metadata"]["uid"].clone()
    };
    let first = uid("shop-db");
    operator.kill();
    let operator = Operator::start_in(cluster, &[&namespace], &watch.to_string());
    set_state(&namespace, "shop-db", "ready");
    says(&namespace, "shop", "round 2 of 3");
    assert_eq!(uid("shop-db"), first);
    set_state(&namespace, "shop-web", "ready");
    let ready = HOLDER.wait_for(&namespace, "shop", "Ready");
    assert_eq!(condition(&ready, "Ready")["reason"], "Ready");
    let made = requests(cluster, &namespace, "shop");
    assert_eq!(order(&made, "patch"), ["shop-db", "shop-web", "shop-notes"]);
    let applies = made.iter().filter(|one| one.resource == "services" && one.verb == "patch").count();
    assert_eq!(applies, 2, "each once");

    // A finalizer holds up the earlier rounds.
    let finalizers = |list: &str| {
        let patch = format!(r#"{{"metadata": {{"finalizers": {list}}}}}"#);
        namespace.kubectl(["patch", "service", "shop-web", "--type=merge", "-p", &patch]).unwrap();
    };
    finalizers(r#"["test.my.domain/hold"]"#);
    namespace.kubectl(["delete", "holder", "shop", "--wait=false"]).unwrap();
    eventually("the second round is deleted", || {
        let deleted = order(&requests(cluster, &namespace, "shop"), "delete");
        if deleted.len() >= 2 { Ok(()) } else { Err(deleted) }
    });
    assert_eq!(order(&requests(cluster, &namespace, "shop"), "delete"), ["shop-notes", "shop-web"]);
    finalizers("[]");
    eventually("the resource is gone", || {
        let left = namespace.kubectl(["get", "holder", "shop", "--ignore-not-found", "-o", "name"]).unwrap();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    let deleted = order(&requests(cluster, &namespace, "shop"), "delete");
    assert_eq!(deleted, ["shop-notes", "shop-web", "shop-db"]);

    HOLDER.set(&namespace, "broken", &json!({"value": "1"}));
    set_state(&namespace, "broken-db", "failed");
    says(&namespace, "broken", "GroupNotReady");
    says(&namespace, "broken", "group \\\"steps database\\\" failed: Service \\\"broken-db\\\"");

    // Another one waits, and perhaps a second attempt of the broken one.
    HOLDER.set(&namespace, "waiting", &json!({"value": "1"}));
    says(&namespace, "waiting", "round 1 of 3");
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    assert!(log.contains("Stopping while the release waits: the process that serves it next resumes it"), "{log}");
}
