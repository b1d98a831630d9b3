//! Resources that wait for others, on a real control plane: a hundred in a random graph, with the API server's audit log
//! as the witness of their order, and of the silence while they wait.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use test_cluster::{Namespace, Request, TestCluster};

use crate::account::user;
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/holder");

/// The number of resources.
const MANY: u64 = 100;

/// Returns for each resource those that it depends on. Each depends only on earlier ones, so none is in a cycle.
fn graph() -> Vec<BTreeSet<u64>> {
    let mut state = 20_261_125_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..MANY).map(|at| (0..random(4)).filter(|_| at > 0).map(|_| random(at.max(1))).collect()).collect()
}

fn holder(at: u64, on: &BTreeSet<u64>) -> Value {
    let other = |on: &u64| json!({"group": "test.my.domain", "kind": "Holder", "name": format!("r{on}")});
    let mut entries: Vec<Value> = on.iter().map(other).collect();
    if entries.is_empty() {
        entries.push(json!({"kind": "ConfigMap", "name": "gate", "until": "exists"}));
    }
    let annotations = json!({"helm.sdk.operatorframework.io/depends-on": Value::from(entries).to_string()});
    let metadata = json!({"name": format!("r{at}"), "annotations": annotations});
    let spec = json!({"map": format!("map-{at}"), "value": "x"});
    json!({"apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": metadata, "spec": spec})
}

/// Returns the operator's finished requests in the namespace, except watches, and events, which are written in the
/// background.
fn requests(cluster: &TestCluster, namespace: &Namespace<'_>) -> Vec<Request> {
    let user = user(namespace.name());
    let all = cluster.requests().unwrap().into_iter();
    let own = all.filter(|request| request.user == user || request.user == "operator");
    let counts = |request: &Request| request.verb != "watch" && request.resource != "events";
    own.filter(|request| request.namespace == namespace.name() && counts(request)).collect()
}

fn reconciles(operator: &Operator) -> u64 {
    let metrics = operator.get("Serving metrics server", "/metrics");
    let counts = metrics.lines().filter(|line| line.starts_with("controller_runtime_reconcile_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

#[test]
fn a_hundred_resources_are_installed_in_the_order_of_their_graph_and_wait_without_a_request() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("depends").unwrap();
    crate::operator::install_kinds(cluster);
    install_kind(cluster);
    let watch = json!([{
        "group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHART, "reconcilePeriod": "1s",
        "dependsOnAnnotation": {"kinds": ["ConfigMap", "Holder.test.my.domain"]},
    }]);
    let operator = Operator::start_in(cluster, &[&namespace], &watch.to_string());
    let graph = graph();
    // The last are first: as many as possible wait.
    let mut items: Vec<Value> = graph.iter().zip(0..).map(|(on, at)| holder(at, on)).collect();
    items.reverse();
    namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    let all =
        || -> Value { serde_json::from_str(&namespace.kubectl(["get", "holders", "-o", "json"]).unwrap()).unwrap() };
    let count = |list: &Value, kind: &str, reason: &str| {
        let items = list["items"].as_array().unwrap().iter();
        items.filter(|one| condition(one, kind)["status"] == "True" && condition(one, kind)["reason"] == reason).count()
    };
    eventually("all wait", || {
        let waiting = count(&all(), "Reconciling", "DependencyNotReady");
        if waiting == MANY as usize { Ok(()) } else { Err(waiting) }
    });
    let first = HOLDER.get(&namespace, "r0");
    let told = condition(&first, "Ready")["message"].as_str().unwrap().to_owned();
    assert_eq!(told, "waiting for ConfigMap \"gate\" (does not exist)");

    // Each is reconciled every second, and asks for nothing once its message is written.
    eventually("two rounds without a request", || {
        let (before, began) = (requests(cluster, &namespace).len(), reconciles(&operator));
        eventually("two rounds", || {
            let done = reconciles(&operator) - began;
            if done >= 2 * MANY { Ok(()) } else { Err(done) }
        });
        let asked = requests(cluster, &namespace)[before..].to_vec();
        if asked.is_empty() { Ok(()) } else { Err(asked) }
    });

    namespace.kubectl(["create", "configmap", "gate"]).unwrap();
    eventually("all are ready", || {
        let ready = count(&all(), "Ready", "Ready");
        if ready == MANY as usize { Ok(()) } else { Err(ready) }
    });
    let made = requests(cluster, &namespace);
    let applied = |at: u64| {
        let is_it = |request: &Request| {
            request.resource == "configmaps" && request.name == format!("map-{at}") && request.verb == "patch"
        };
        made.iter().position(is_it).unwrap_or_else(|| panic!("map-{at} was applied"))
    };
    for (on, at) in graph.iter().zip(0..) {
        on.iter().for_each(|on| assert!(applied(*on) < applied(at), "r{at} waits for r{on}"));
    }
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

#[test]
fn a_kind_that_appears_later_a_cycle_and_a_deletion_in_reverse_order() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("depends-more").unwrap();
    crate::operator::install_kinds(cluster);
    install_kind(cluster);
    let definition = "late.depends.my.domain";
    let watch = json!([{
        "group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHART,
        "dependsOnAnnotation": {"kinds": ["CustomResourceDefinition.apiextensions.k8s.io", "Holder.test.my.domain"]},
    }]);
    let operator = Operator::start_in(cluster, &[&namespace], &watch.to_string());
    let set = |name: &str, on: Value| {
        let annotations = json!({"helm.sdk.operatorframework.io/depends-on": json!([on]).to_string()});
        let metadata = json!({"name": name, "annotations": annotations});
        let spec = json!({"map": format!("map-{name}"), "value": "x"});
        let object = json!({"apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": metadata, "spec": spec});
        namespace.apply(&object.to_string()).unwrap();
    };
    let on_holder =
        |name: &str| json!({"group": "test.my.domain", "kind": "Holder", "name": name, "reverseDeletion": true});
    let says = |name: &str, kind: &str, reason: &str| {
        eventually(reason, || {
            let resource = HOLDER.get(&namespace, name);
            let found = condition(&resource, kind).clone();
            if found["reason"] == reason { Ok(found["message"].as_str().unwrap().to_owned()) } else { Err(found) }
        })
    };

    // fluxcd/flux2#3042: a definition that another release brings.
    set("user", json!({"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition", "name": definition}));
    says("user", "Reconciling", "DependencyNotReady");
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let names = json!({"kind": "Late", "plural": "late", "singular": "late", "listKind": "LateList"});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": definition},
        "spec": {"group": "depends.my.domain", "scope": "Namespaced", "names": names, "versions": [version]}});
    cluster.apply(&crd.to_string()).unwrap();
    HOLDER.wait_for(&namespace, "user", "Ready");
    cluster.kubectl(["delete", "crd", definition]).unwrap();

    set("a", on_holder("b"));
    set("b", on_holder("a"));
    let told = says("a", "Stalled", "DependencyCycle");
    assert!(told.contains("Holder \"a\" → Holder \"b\" → Holder \"a\""), "{told}");
    namespace.kubectl(["annotate", "holder", "b", "helm.sdk.operatorframework.io/depends-on-"]).unwrap();
    HOLDER.wait_for(&namespace, "a", "Ready");

    namespace.kubectl(["delete", "holder", "b", "--wait=false"]).unwrap();
    let told = says("b", "Reconciling", "DependentsExist");
    assert!(told.ends_with("Holder \"a\""), "{told}");
    namespace.kubectl(["delete", "holder", "a", "b", "--timeout=60s"]).unwrap();
    let (_, log) = operator.terminate();
    assert!(!log.contains("panicked"), "{log}");
}
