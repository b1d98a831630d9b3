//! Immutable fields on a real control plane: rejected changes, recreated objects, and guards.

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};
use crate::reader::get;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/quiet");
const RECREATE: &str = "helm.sdk.operatorframework.io/recreate";

fn start(cluster: &TestCluster, namespace: &Namespace<'_>, recreate: Value) -> Operator {
    install_kind(cluster);
    let watch =
        json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHART, "recreate": recreate}]);
    Operator::start_in(cluster, &[namespace], &watch.to_string())
}

fn set(namespace: &Namespace<'_>, objects: &[Value]) {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    HOLDER.set(namespace, "web", &json!({"objects": texts}));
}

/// Waits until this revision is deployed; fails with the status.
fn wait_for_revision(namespace: &Namespace<'_>, revision: u32) {
    eventually("revision", || {
        let holder = get(namespace, ["holder", "web"]);
        if holder["status"]["deployedRelease"]["revision"] == revision { Ok(()) } else { Err(holder["status"].clone()) }
    });
}

/// Waits until the upgrade to the current generation failed; returns the message.
fn wait_for_failure(namespace: &Namespace<'_>) -> String {
    let holder = eventually("failure", || {
        let holder = get(namespace, ["holder", "web"]);
        let failed = condition(&holder, "ReleaseFailed");
        let current = failed["observedGeneration"] == holder["metadata"]["generation"];
        if failed["reason"] == "UpgradeError" && current { Ok(holder) } else { Err(holder["status"].clone()) }
    });
    condition(&holder, "ReleaseFailed")["message"].as_str().unwrap().to_owned()
}

fn uid(namespace: &Namespace<'_>, what: [&str; 2]) -> Value {
    get(namespace, what)["metadata"]["uid"].clone()
}

/// Returns the notes of the events about recreated objects.
fn recreated(namespace: &Namespace<'_>) -> Vec<String> {
    let events = namespace.kubectl(["get", "events", "--field-selector=reason=Recreated", "-o", "json"]).unwrap();
    let events: Value = serde_json::from_str(&events).unwrap();
    let notes = events["items"].as_array().unwrap().iter().map(|event| event["message"].as_str().unwrap().to_owned());
    notes.collect()
}

fn template(image: &str, labels: &Value, restart: &str) -> Value {
    let container = json!({"name": "main", "image": image});
    json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": restart, "containers": [container]}})
}

fn job(image: &str) -> Value {
    let template = template(image, &json!({"job": "load"}), "Never");
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"}, "spec": {"template": template}})
}

fn deployment(selector: &str, annotations: Value) -> Value {
    let labels = json!({"app": selector});
    let template = template("a:1", &labels, "Always");
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    let metadata = json!({"name": "web", "annotations": annotations});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
}

#[test]
fn a_job_whose_template_changes_is_run_anew_after_its_pods_are_gone() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("recreate-job").unwrap();
    let _operator = start(cluster, &namespace, json!([]));
    set(&namespace, &[job("a:1")]);
    wait_for_revision(&namespace, 1);
    let pods = || namespace.kubectl(["get", "pods", "-l", "job=load", "-o", "name"]).unwrap();
    let old = eventually("pod", || if pods().is_empty() { Err("none") } else { Ok(pods()) });
    let before = uid(&namespace, ["job", "load"]);
    set(&namespace, &[job("b:1")]);
    wait_for_revision(&namespace, 2);
    let live = get(&namespace, ["job", "load"]);
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "b:1");
    assert_ne!(live["metadata"]["uid"], before);
    assert!(!pods().lines().any(|pod| old.contains(pod)), "the old Job's pod is gone before the new Job exists");
    let expected = ["deleted Job \"load\" to create it anew: immutable fields change: spec.template"];
    eventually("event", || if recreated(&namespace) == expected { Ok(()) } else { Err(recreated(&namespace)) });
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}

#[test]
fn a_deployment_gets_another_selector_only_if_it_asks_for_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("recreate-ask").unwrap();
    let _operator = start(cluster, &namespace, json!([]));
    set(&namespace, &[deployment("a", json!({}))]);
    wait_for_revision(&namespace, 1);
    let before = uid(&namespace, ["deployment", "web"]);
    set(&namespace, &[deployment("b", json!({}))]);
    let told = wait_for_failure(&namespace);
    assert!(
        told.starts_with("cannot apply Deployment \"web\", and cannot recreate it, because nothing asks for it"),
        "{told}"
    );
    assert!(told.contains("spec.selector") && told.contains("field is immutable"), "{told}");
    assert_eq!(uid(&namespace, ["deployment", "web"]), before);
    set(&namespace, &[deployment("b", json!({RECREATE: "true"}))]);
    eventually("the new selector", || {
        let live = get(&namespace, ["deployment", "web"]);
        if live["spec"]["selector"]["matchLabels"]["app"] == "b" { Ok(()) } else { Err(live["spec"].clone()) }
    });
    HOLDER.wait_for(&namespace, "web", "Ready");
    eventually("event", || if recreated(&namespace).len() == 1 { Ok(()) } else { Err(recreated(&namespace)) });
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}

/// Returns an object of a kind with immutable fields, in one of two variants.
fn variant(kind: &str, which: usize) -> Value {
    let object = |api_version: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}});
        rest.as_object().unwrap().iter().for_each(|(key, value)| object[key] = value.clone());
        object
    };
    let value = ["one", "two"][which];
    let labels = json!({"app": "web"});
    match kind {
        "Service" => {
            let mut service = object("v1", json!({"spec": {"ports": [{"port": 80}]}}));
            if which == 1 {
                service["spec"]["clusterIP"] = "None".into();
            }
            service
        }
        "ConfigMap" => object("v1", json!({"immutable": true, "data": {"a": value}})),
        "Secret" => object("v1", json!({"immutable": true, "stringData": {"a": value}})),
        "RoleBinding" => {
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": value});
            object("rbac.authorization.k8s.io/v1", json!({"roleRef": role}))
        }
        "StatefulSet" | "DaemonSet" => {
            let selector = if which == 0 { labels.clone() } else { json!({"app": "web", "tier": "x"}) };
            let template = template("a:1", &json!({"app": "web", "tier": "x"}), "Always");
            let mut set =
                object("apps/v1", json!({"spec": {"selector": {"matchLabels": selector}, "template": template}}));
            if kind == "StatefulSet" {
                set["spec"]["serviceName"] = value.into();
            }
            set
        }
        "PersistentVolumeClaim" => {
            let storage = json!({"requests": {"storage": "1Gi"}});
            object(
                "v1",
                json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": value, "resources": storage}}),
            )
        }
        other => panic!("no {other}"),
    }
}

#[test]
fn each_kinds_refusal_is_recognised_and_what_holds_data_is_guarded() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("recreate-kinds").unwrap();
    let _operator = start(cluster, &namespace, json!([{}]));
    let kinds = ["Service", "ConfigMap", "Secret", "RoleBinding", "StatefulSet", "DaemonSet"];
    let all = |which: usize| kinds.map(|kind| variant(kind, which));
    let uids = || kinds.map(|kind| uid(&namespace, [kind, "web"]));
    set(&namespace, &all(0));
    wait_for_revision(&namespace, 1);
    let before = uids();
    set(&namespace, &all(1));
    wait_for_revision(&namespace, 2);
    let after = uids();
    for (at, kind) in kinds.iter().enumerate() {
        assert!(before[at].is_string() && after[at].is_string() && before[at] != after[at], "{kind}");
    }
    eventually("events", || if recreated(&namespace).len() == 6 { Ok(()) } else { Err(recreated(&namespace)) });

    let claims = [variant("PersistentVolumeClaim", 0), variant("PersistentVolumeClaim", 1)];
    set(&namespace, &claims[..1]);
    wait_for_revision(&namespace, 3);
    let claim = uid(&namespace, ["pvc", "web"]);
    set(&namespace, &claims[1..]);
    let told = wait_for_failure(&namespace);
    assert!(
        told.contains("because a PersistentVolumeClaim holds data: save what you need, and delete it yourself"),
        "{told}"
    );
    assert_eq!(uid(&namespace, ["pvc", "web"]), claim);
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}
