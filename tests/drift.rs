//! Drift policies and fields that are handed over to other managers, on a real control plane.

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account::is_operators;
use crate::chart::condition;
use crate::client_side::whole;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};
use crate::reader::get;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/quiet");

/// Starts an operator that serves Holders with these drift settings.
fn start(cluster: &TestCluster, namespace: &Namespace<'_>, drift: Value) -> Operator {
    install_kind(cluster);
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHART, "drift": drift}]);
    Operator::start_in(cluster, &[namespace], &watch.to_string())
}

/// Creates or changes the release `web` with these objects, and waits until it is deployed.
fn deploy(namespace: &Namespace<'_>, objects: &[Value]) {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    HOLDER.set(namespace, "web", &json!({"objects": texts}));
    HOLDER.wait_for(namespace, "web", "Deployed");
}

/// Returns a Deployment with three replicas.
fn deployment(image: &str) -> Value {
    let labels = json!({"app": "web"});
    let container = json!({"name": "main", "image": image, "args": ["a", "b"]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {"note": "chart"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}

fn autoscaler() -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": []},
    })
}

/// Scales as kube-controller-manager does for an autoscaler. No metrics are served here, so the real one never scales.
fn scale(namespace: &Namespace<'_>, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}}).to_string();
    let manager = "--field-manager=kube-controller-manager";
    let what = ["patch", "deployment", "web", "--subresource=scale", "--type=merge", manager, "-p", &patch];
    namespace.kubectl(what).unwrap();
}

fn live(namespace: &Namespace<'_>) -> Value {
    get(namespace, ["deployment", "web"])
}

fn replicas(namespace: &Namespace<'_>) -> Value {
    live(namespace)["spec"]["replicas"].clone()
}

fn image(namespace: &Namespace<'_>) -> Value {
    live(namespace)["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

/// Returns the fields that the operator applies.
fn applied_fields(namespace: &Namespace<'_>) -> Value {
    let live = whole(namespace, ["deployment", "web"]);
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    let ours = entries.iter().find(|entry| entry["manager"] == "helm-operator" && entry["operation"] == "Apply");
    ours.unwrap()["fieldsV1"].clone()
}

/// Returns the number of the operator's writes to the chart's objects and its records.
fn writes(cluster: &TestCluster, namespace: &Namespace<'_>) -> usize {
    let requests = cluster.requests().unwrap();
    let ours = requests.iter().filter(|r| is_operators(r) && r.namespace == namespace.name() && r.is_write());
    ours.filter(|r| ["deployments", "secrets", "configmaps"].contains(&&*r.resource)).count()
}

/// Waits until the operator has written once since `before`. The audit log shows a write a moment after its effect.
fn wrote_once(cluster: &TestCluster, namespace: &Namespace<'_>, before: usize) {
    eventually("the repair alone", || match writes(cluster, namespace) - before {
        1 => Ok(()),
        other => Err(other),
    });
}

/// Waits until the operator has handled all earlier events of Deployments: changes the image, and waits for the repair.
fn repaired(namespace: &Namespace<'_>, chart: &str) {
    namespace.kubectl(["set", "image", "deployment/web", "main=theirs:1"]).unwrap();
    eventually("repair of the image", || match image(namespace) {
        image if image == chart => Ok(()),
        image => Err(image),
    });
}

#[test]
fn an_autoscaler_of_the_chart_scales_freely_and_the_rest_is_repaired() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("autoscaled").unwrap();
    let _operator = start(cluster, &namespace, json!({}));
    deploy(&namespace, &[deployment("a:1"), autoscaler()]);
    assert_eq!((replicas(&namespace), &applied_fields(&namespace)["f:spec"]["f:replicas"]), (json!(3), &Value::Null));
    let before = writes(cluster, &namespace);
    for size in [1, 5, 1] {
        scale(&namespace, size);
    }
    repaired(&namespace, "a:1");
    wrote_once(cluster, &namespace, before);
    assert_eq!(replicas(&namespace), 1);

    scale(&namespace, 5);
    deploy(&namespace, &[deployment("b:1"), autoscaler()]);
    eventually("upgrade", || if image(&namespace) == "b:1" { Ok(()) } else { Err(image(&namespace)) });
    assert_eq!(replicas(&namespace), 5);
    deploy(&namespace, &[deployment("b:1")]);
    eventually("the chart's replicas", || if replicas(&namespace) == 3 { Ok(()) } else { Err(replicas(&namespace)) });
}

#[test]
fn an_autoscaler_outside_the_release_keeps_its_replicas_until_it_is_gone() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("scaled").unwrap();
    let operator = start(cluster, &namespace, json!({}));
    deploy(&namespace, &[deployment("a:1")]);
    namespace.apply(&autoscaler().to_string()).unwrap();
    let before = writes(cluster, &namespace);
    for size in [1, 5, 1] {
        scale(&namespace, size);
    }
    repaired(&namespace, "a:1");
    wrote_once(cluster, &namespace, before);
    assert_eq!(replicas(&namespace), 1);
    operator.terminate();
    scale(&namespace, 4);
    let _operator = start(cluster, &namespace, json!({}));
    deploy(&namespace, &[deployment("b:1")]);
    eventually("upgrade", || if image(&namespace) == "b:1" { Ok(()) } else { Err(image(&namespace)) });
    assert_eq!(replicas(&namespace), 4);

    namespace.kubectl(["delete", "hpa", "web"]).unwrap();
    repaired(&namespace, "b:1");
    eventually("the chart's replicas", || if replicas(&namespace) == 3 { Ok(()) } else { Err(replicas(&namespace)) });
}

#[test]
fn ignored_fields_start_with_the_charts_value_and_belong_to_others_from_then_on() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("ignored").unwrap();
    let paths = json!([
        "/spec/replicas",
        "/metadata/annotations/note",
        "/spec/template/spec/containers/[name=main]/image",
        // The API server tracks arguments as one field.
        "/spec/template/spec/containers/0/args/0",
    ]);
    let drift = json!({"ignore": [{"group": "apps", "kind": "Deployment", "name": "web", "paths": paths}]});
    // First without the rules, so that the operator owns the fields: then leaving them out would reset them.
    let operator = start(cluster, &namespace, json!({}));
    deploy(&namespace, &[deployment("a:1")]);
    operator.terminate();
    let _operator = start(cluster, &namespace, drift);
    let mut next = deployment("b:1");
    (next["spec"]["replicas"], next["metadata"]["annotations"]["note"]) = (json!(9), json!("new"));
    next["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["c", "d"]);
    next["metadata"]["annotations"]["step"] = "2".into();
    deploy(&namespace, &[next.clone()]);
    let annotation = |key: &str| live(&namespace)["metadata"]["annotations"][key].clone();
    eventually("upgrade", || if annotation("step") == "2" { Ok(()) } else { Err(live(&namespace)) });
    let seen = || {
        let live = live(&namespace);
        let args = live["spec"]["template"]["spec"]["containers"][0]["args"].clone();
        (live["spec"]["replicas"].clone(), annotation("note"), image(&namespace), args)
    };
    let expected = (json!(3), json!("chart"), json!("a:1"), json!(["a", "b"]));
    eventually("released fields", || {
        let fields = applied_fields(&namespace).to_string();
        let owned = ["f:replicas", "f:note", "f:image", "f:args"].iter().any(|field| fields.contains(field));
        if owned { Err(fields) } else { Ok(()) }
    });
    assert_eq!(seen(), expected);

    let before = writes(cluster, &namespace);
    namespace.kubectl(["set", "image", "deployment/web", "main=theirs:1"]).unwrap();
    namespace.kubectl(["scale", "deployment/web", "--replicas=2"]).unwrap();
    namespace.kubectl(["annotate", "deployment/web", "note-"]).unwrap();
    namespace.kubectl(["annotate", "deployment/web", "step=theirs", "--overwrite"]).unwrap();
    eventually("repair", || if annotation("step") == "2" { Ok(()) } else { Err(live(&namespace)) });
    assert_eq!(seen(), (json!(2), Value::Null, json!("theirs:1"), json!(["a", "b"])));
    wrote_once(cluster, &namespace, before);

    namespace.kubectl(["delete", "deployment", "web"]).unwrap();
    eventually("a new Deployment", || if live(&namespace).is_object() { Ok(()) } else { Err("gone") });
    assert_eq!(seen(), (json!(9), json!("new"), json!("b:1"), json!(["c", "d"])), "the chart's values");
}

#[test]
fn an_edited_key_of_a_list_item_is_repaired() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("edited-port").unwrap();
    let _operator = start(cluster, &namespace, json!({}));
    let service = |ports: Value| {
        let spec = json!({"selector": {"app": "web"}, "ports": ports});
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
    };
    let seen = || get(&namespace, ["service", "web"])["spec"]["ports"].clone();
    let numbers = || seen().as_array().unwrap().iter().map(|port| port["port"].clone()).collect::<Vec<_>>();
    let charts = [
        json!([{"port": 80, "targetPort": 8080}]),
        json!([{"name": "http", "port": 80}, {"name": "https", "port": 443}]),
    ];
    for ports in charts {
        deploy(&namespace, &[service(ports.clone())]);
        let expected: Vec<Value> = ports.as_array().unwrap().iter().map(|port| port["port"].clone()).collect();
        eventually("chart's ports", || if numbers() == expected { Ok(()) } else { Err(seen()) });
        let edit = json!([{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]).to_string();
        namespace
            .kubectl(["patch", "service", "web", "--type=json", "-p", &edit, "--field-manager=kubectl-edit"])
            .unwrap();
        eventually("repaired ports", || {
            let (mut now, mut expected) = (numbers(), expected.clone());
            now.sort_by_key(Value::to_string);
            expected.sort_by_key(Value::to_string);
            if now == expected { Ok(()) } else { Err(seen()) }
        });
    }
}

#[test]
fn detected_drift_is_named_until_it_is_undone() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("detected").unwrap();
    let operator = start(cluster, &namespace, json!({"policy": "detect"}));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "stringData": {"a": "1"}});
    deploy(&namespace, &[deployment("a:1"), secret]);
    let before = writes(cluster, &namespace);
    namespace.kubectl(["set", "image", "deployment/web", "main=theirs:1"]).unwrap();
    let patch = json!({"stringData": {"a": "hunter2"}}).to_string();
    namespace.kubectl(["patch", "secret", "web", "-p", &patch, "--field-manager=rotator"]).unwrap();
    let message =
        || condition(&HOLDER.get(&namespace, "web"), "Drifted")["message"].as_str().unwrap_or_default().to_owned();
    let texts = [
        "kubectl-set changed .spec.template.spec.containers[name=main].image of Deployment \"web\"",
        "rotator changed .data.a of Secret \"web\"",
    ];
    eventually("condition", || {
        let message = message();
        if texts.iter().all(|text| message.contains(text)) { Ok(()) } else { Err(message) }
    });
    eventually("events", || {
        let events = HOLDER.events_of(&namespace, "web");
        let told = |text: &&str| events.contains(&format!("DriftDetected: {text}"));
        if texts.iter().all(told) { Ok(()) } else { Err(events) }
    });
    assert_eq!((image(&namespace), writes(cluster, &namespace)), (json!("theirs:1"), before));
    let read = format!("{} {} {}", HOLDER.get(&namespace, "web"), HOLDER.events_of(&namespace, "web"), operator.log());
    assert!(!read.contains("hunter2") && !read.contains("aHVudGVyMg"), "{read}");

    namespace.kubectl(["annotate", "holder/web", "helm.sdk.operatorframework.io/drift=repair"]).unwrap();
    eventually("no condition", || if message().is_empty() { Ok(()) } else { Err(message()) });
    assert_eq!(image(&namespace), "a:1");
}

/// Returns a ConfigMap whose manifest names an owner that does not exist.
fn orphan(name: &str) -> Value {
    let owner =
        json!({"apiVersion": "v1", "kind": "Secret", "name": "nobody", "uid": "8d3c1f0e-5d0b-4c38-9d1b-111111111111"});
    let metadata = json!({"name": name, "ownerReferences": [owner]});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
}

/// Returns a `pre-delete` hook, because of which the release's objects get no owner reference of ours.
fn last_hook() -> Value {
    let annotations = json!({"helm.sh/hook": "pre-delete"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hook", "annotations": annotations}})
}

#[test]
fn an_owner_in_a_manifest_sets_no_garbage_collector_on_the_object() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("dangling").unwrap();
    let _operator = start(cluster, &namespace, json!({}));
    let uid = |name: &str| get(&namespace, ["configmap", name])["metadata"]["uid"].clone();
    let releases = [("owned", vec![orphan("one")]), ("free", vec![orphan("two"), last_hook()])];
    for (name, objects) in &releases {
        let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
        HOLDER.set(&namespace, name, &json!({"objects": texts}));
        HOLDER.wait_for(&namespace, name, "Ready");
    }
    let before = [uid("one"), uid("two")];
    // The collector has judged both once it has judged one that has such an owner.
    namespace.apply(&orphan("three").to_string()).unwrap();
    eventually("the collector", || match get(&namespace, ["configmap", "three"]) {
        Value::Null => Ok(()),
        live => Err(live),
    });
    assert_eq!([uid("one"), uid("two")], before);
    for (name, _) in &releases {
        assert_eq!(condition(&HOLDER.get(&namespace, name), "Irreconcilable"), &Value::Null);
    }
    let owners = |name: &str| get(&namespace, ["configmap", name])["metadata"]["ownerReferences"].clone();
    assert_eq!((owners("one")[0]["kind"].clone(), owners("one")[1].clone()), (json!("Holder"), Value::Null));
    assert_eq!(owners("two"), Value::Null);
}

#[test]
fn what_kubernetes_itself_deletes_each_time_is_damped_and_named() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("fleeting").unwrap();
    let _operator = start(cluster, &namespace, json!({}));
    // The token controller deletes the token of an account that does not exist.
    let annotations = json!({"kubernetes.io/service-account.name": "nobody"});
    let token = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "token", "annotations": annotations}});
    HOLDER.set(&namespace, "web", &json!({"objects": [token.to_string()]}));
    let told = eventually("the loop", || match condition(&HOLDER.get(&namespace, "web"), "Irreconcilable").clone() {
        told if told["reason"] == "DriftLoop" => Ok(told["message"].to_string()),
        told => Err(told),
    });
    assert!(told.contains("someone keeps deleting Secret \\\"token\\\""), "{told}");
    let requests = cluster.requests().unwrap();
    let of_token = |r: &&test_cluster::Request| {
        is_operators(r) && r.namespace == namespace.name() && r.name == "token" && r.is_write()
    };
    let written = requests.iter().filter(of_token).count();
    assert!(written <= 8, "{written} writes");

    HOLDER.set(&namespace, "web", &json!({"objects": [orphan("one").to_string()]}));
    HOLDER.wait_for(&namespace, "web", "Ready");
    assert_eq!(condition(&HOLDER.get(&namespace, "web"), "Irreconcilable"), &Value::Null);
}
