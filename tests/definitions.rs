//! A definition that is deleted while its kind is served, and that returns, on a real control plane.

use std::fs;

use serde_json::{Value, json};
use test_cluster::TestCluster;

use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};
use crate::reader::get;
use crate::resource::Kind;

const VASE: Kind = Kind("Vase");
const NAME: &str = "crd/vases.test.my.domain";

const MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {size: '{{ .Values.size }}'}
";

fn define(cluster: &TestCluster) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "vases.test.my.domain"},
        "spec": {
            "group": "test.my.domain", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "Vase", "listKind": "VaseList", "plural": "vases", "singular": "vase"},
        },
    });
    cluster.apply(&definition.to_string()).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", NAME]).unwrap();
}

#[test]
fn a_deleted_definition_uninstalls_its_releases_says_so_and_is_served_when_it_returns() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    install_kind(cluster);
    define(cluster);
    let namespace = cluster.namespace("definitions").unwrap();
    let charts = tempfile::tempdir().unwrap();
    fs::create_dir(charts.path().join("templates")).unwrap();
    fs::write(charts.path().join("Chart.yaml"), "apiVersion: v2\nname: vase\nversion: 0.1.0\n").unwrap();
    fs::write(charts.path().join("templates/map.yaml"), MAP).unwrap();
    let watch = |kind: &str| json!({"group": "test.my.domain", "version": "v1", "kind": kind, "chart": charts.path()});
    let watches = json!([watch("Vase"), watch("Holder")]).to_string();
    let operator = Operator::start_watches(cluster, &namespace, &watches, &[]);
    for (kind, name) in [(&VASE, "one"), (&VASE, "two"), (&HOLDER, "other")] {
        kind.set(&namespace, name, &json!({"size": 1}));
        kind.wait_for(&namespace, name, "Ready");
    }
    let map = |name: &str| get(&namespace, ["configmap", name]);
    let uid = |name: &str| map(name)["metadata"]["uid"].clone();
    let (first, other) = (uid("one"), uid("other"));

    cluster.kubectl(["delete", NAME, "--timeout=60s"]).unwrap();
    assert_eq!((map("one"), map("two")), (Value::Null, Value::Null), "the releases went first");
    let told = operator.logged("Cannot watch Vase resources");
    assert!(told.contains("install the definition of its kind"), "{told}");
    HOLDER.set(&namespace, "other", &json!({"size": 2}));
    eventually("another kind", || if map("other")["data"]["size"] == "2" { Ok(()) } else { Err(map("other")) });
    assert_eq!(uid("other"), other);
    let ready = operator.get("Serving health probes", "/readyz");
    assert!(ready.starts_with("HTTP/1.1 200"), "one kind that went makes no other wait: {ready}");

    define(cluster);
    VASE.set(&namespace, "one", &json!({"size": 3}));
    VASE.wait_for(&namespace, "one", "Ready");
    assert_eq!(map("one")["data"]["size"], "3");
    assert_ne!(uid("one"), first);
    operator.logged("Watching Vase resources again");
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("which is a bug"), "{log}");
    // Once, and a reminder every half minute.
    let lines = log.lines().filter(|line| line.contains("annot watch Vase resources")).count();
    assert!(lines <= 4, "{log}");
}
