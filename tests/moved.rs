//! State that real operators bring with them when they move here: definitions whose status lacks fields, and charts
//! that render resources of the same operator.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::reader::get;

const MAP: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}'}, data: {size: '{{ .Values.size }}'}}";

/// Defines a kind whose status has this schema.
fn define(cluster: &TestCluster, kind: &str, status: &Value) {
    let plural = format!("{}s", kind.to_lowercase());
    let name = format!("{plural}.moved.my.domain");
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut properties = json!({"spec": open});
    if !status.is_null() {
        properties["status"] = status.clone();
    }
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": "moved.my.domain", "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": [version]}});
    cluster.apply(&crd.to_string()).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", &format!("crd/{name}")]).unwrap();
}

/// Writes a chart with one template; returns the entry of watches.yaml that serves it.
fn watch(folder: &Path, kind: &str, template: &str) -> Value {
    let chart = folder.join(kind);
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: {}\nversion: 0.1.0\n", kind.to_lowercase()))
        .unwrap();
    fs::write(chart.join("templates/all.yaml"), template).unwrap();
    json!({"group": "moved.my.domain", "version": "v1", "kind": kind, "chart": chart})
}

fn set(namespace: &Namespace<'_>, kind: &str, size: u32) {
    let resource =
        json!({"apiVersion": "moved.my.domain/v1", "kind": kind, "metadata": {"name": "web"}, "spec": {"size": size}});
    namespace.apply(&resource.to_string()).unwrap();
}

fn wait_for_size(namespace: &Namespace<'_>, map: &str, size: u32) {
    let size = size.to_string();
    eventually("size", || match get(namespace, ["configmap", map]) {
        map if map["data"]["size"] == *size => Ok(()),
        map => Err(map),
    });
}

#[test]
fn what_fits_a_definitions_status_is_written_and_the_rest_is_logged_once() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let text = json!({"type": "string"});
    let conditions = json!({"type": "array", "items": {"type": "object", "required": ["type", "status"], "properties": {
        "type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": text}}});
    define(cluster, "Slim", &json!({"type": "object", "properties": {"conditions": conditions}}));
    let namespace = cluster.namespace("slim").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let operator = Operator::start_in(cluster, &[&namespace], &json!([watch(charts.path(), "Slim", MAP)]).to_string());
    for size in [1, 2] {
        set(&namespace, "Slim", size);
        wait_for_size(&namespace, "web", size);
    }
    let slim = eventually("ready resource", || match get(&namespace, ["slim", "web"]) {
        slim if condition(&slim, "Ready")["status"] == "True" => Ok(slim),
        slim => Err(slim),
    });
    assert_eq!(slim["status"].as_object().unwrap().keys().collect::<Vec<_>>(), ["conditions"], "{slim}");
    let line = operator.logged("The schema of the status lacks fields, which are not written");
    assert!(line.contains("generate crds --force"), "{line}");
    // The server names them over several rounds.
    for field in [".status.conditions.observedGeneration", ".status.deployedRelease", ".status.readyObjects"] {
        assert_eq!(operator.log().matches(field).count(), 1, "{field}: {}", operator.log());
    }
    assert!(!operator.log().contains("Cannot write the status"), "{}", operator.log());
}

#[test]
fn a_definition_without_a_status_is_served_and_named_once() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster, "Bare", &Value::Null);
    let namespace = cluster.namespace("bare").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let operator = Operator::start_in(cluster, &[&namespace], &json!([watch(charts.path(), "Bare", MAP)]).to_string());
    for size in [1, 2, 3] {
        set(&namespace, "Bare", size);
        wait_for_size(&namespace, "web", size);
    }
    operator.logged("The schema of the status lacks fields, which are not written");
    assert_eq!(operator.log().matches("The schema of the status lacks fields").count(), 1, "{}", operator.log());
    assert!(!operator.log().contains("Cannot write the status"), "{}", operator.log());
}

const OUTER: &str = "
apiVersion: moved.my.domain/v1
kind: Inner
metadata: {name: '{{ .Release.Name }}-inner'}
spec: {size: {{ .Values.size }}}
";

#[test]
fn a_resource_that_another_resource_of_the_operator_renders_is_no_drift() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    define(cluster, "Outer", &open);
    define(cluster, "Inner", &open);
    let namespace = cluster.namespace("nested").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let watches = json!([watch(charts.path(), "Outer", OUTER), watch(charts.path(), "Inner", MAP)]);
    let _operator = Operator::start_in(cluster, &[&namespace], &watches.to_string());
    for size in [1, 2] {
        set(&namespace, "Outer", size);
        wait_for_size(&namespace, "web-inner", size);
    }
    for what in [["outer", "web"], ["inner", "web-inner"]] {
        eventually(what[0], || match get(&namespace, what) {
            one if condition(&one, "Ready")["status"] == "True"
                && one["status"]["deployedRelease"]["revision"] == 2 =>
            {
                Ok(())
            }
            one => Err(one),
        });
    }
    // Events are published in order, so that of a repair would come before.
    let columns = "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}";
    let events = eventually("both upgrades", || match namespace.kubectl(["get", "events", "-o", columns]).unwrap() {
        events if events.lines().filter(|event| event.starts_with("Upgraded: ")).count() == 2 => Ok(events),
        events => Err(events),
    });
    assert!(!events.contains("DriftCorrected"), "{events}");
    namespace.kubectl(["delete", "outer", "web", "--timeout=60s"]).unwrap();
    eventually("deleted release", || match get(&namespace, ["configmap", "web-inner"]) {
        Value::Null => Ok(()),
        map => Err(map),
    });
}

#[test]
fn a_chart_and_its_subchart_may_ship_the_same_hooks() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster, "Twin", &Value::Null);
    let namespace = cluster.namespace("twin").unwrap();
    let charts = tempfile::tempdir().unwrap();
    let annotations =
        "{helm.sh/hook: 'pre-install,pre-upgrade,post-delete', helm.sh/hook-delete-policy: hook-succeeded}";
    let hooks = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: cleaner, annotations: {annotations}}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: cleaner, annotations: {annotations}}}\nrules: []\n---\n"
    );
    let operator = {
        let watch = watch(charts.path(), "Twin", &format!("{hooks}{MAP}"));
        let sub = charts.path().join("Twin/charts/sub");
        fs::create_dir_all(sub.join("templates")).unwrap();
        fs::write(sub.join("Chart.yaml"), "apiVersion: v2\nname: sub\nversion: 0.1.0\n").unwrap();
        fs::write(sub.join("templates/hooks.yaml"), &hooks).unwrap();
        Operator::start_in(cluster, &[&namespace], &json!([watch]).to_string())
    };
    for size in [1, 2] {
        set(&namespace, "Twin", size);
        wait_for_size(&namespace, "web", size);
    }
    namespace.kubectl(["delete", "twin", "web", "--timeout=60s"]).unwrap();
    assert!(!operator.log().contains("UninstallError"), "{}", operator.log());
    assert_eq!(
        namespace.kubectl(["get", "role,serviceaccount", "-o", "name"]).unwrap().trim(),
        "serviceaccount/default"
    );
}
