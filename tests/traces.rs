//! Traces of a real operator: each reconcile arrives at the collector with its requests, and without secrets.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::json;
use test_cluster::TestCluster;

use crate::chart_kinds::define;
use crate::notifications::serve;
use crate::operator::{Operator, eventually};

/// Starts a collector. Returns its address, and the bodies that arrive, with what is not text replaced.
fn collector() -> (String, Arc<Mutex<String>>) {
    let arrived: Arc<Mutex<String>> = Arc::default();
    let all = arrived.clone();
    let address = serve(move |_, body| all.lock().unwrap().push_str(&String::from_utf8_lossy(body)));
    (format!("{address}/v1/traces"), arrived)
}

#[test]
fn each_reconcile_arrives_with_its_requests_and_without_secrets() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("templates")).unwrap();
    fs::write(folder.path().join("Chart.yaml"), "apiVersion: v2\nname: traced\nversion: 0.1.0\n").unwrap();
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: traced-secret}\nstringData: {a: {{ .Values.password }}}\n";
    fs::write(folder.path().join("templates/secret.yaml"), secret).unwrap();
    let namespace = cluster.namespace("traced").unwrap();
    let (url, arrived) = collector();
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Widget", "chart": folder.path()}]);
    let operator =
        Operator::start_watches(cluster, &namespace, &watch.to_string(), &[&format!("--traces-endpoint={url}")]);
    let widget = json!({"apiVersion": "test.my.domain/v1", "kind": "Widget", "metadata": {"name": "web"},
        "spec": {"password": "hunter2-s3cret"}});
    namespace.apply(&widget.to_string()).unwrap();
    let path = format!("/api/v1/namespaces/{}/secrets/traced-secret", namespace.name());
    let resource = format!("{}/web", namespace.name());
    for expected in ["helm-operator", "reconcile Widget", &resource, "PATCH", &path] {
        eventually(expected, || {
            let arrived = arrived.lock().unwrap();
            if arrived.contains(expected) { Ok(()) } else { Err(arrived.clone()) }
        });
    }
    assert!(!arrived.lock().unwrap().contains("hunter2"));
    assert!(!operator.log().contains("Cannot send traces"), "{}", operator.log());
}
