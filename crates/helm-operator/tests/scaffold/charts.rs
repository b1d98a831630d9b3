//! Tests of charts' definitions on a real API server.

use std::path::Path;

use test_cluster::TestCluster;

use crate::folder::Folder;

#[test]
fn definitions_of_charts_with_and_without_a_schema_accept_every_default_and_reject_nonsense() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let folder = Folder::new();
    folder.run("init --domain schema.test --project-name schema").unwrap();
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../helm-charts/memcached");
    folder
        .run(&format!("create api --group cache --version v1 --kind Strict --helm-chart {}", charts.display()))
        .unwrap();
    folder.run("create api --group cache --version v1 --kind Loose").unwrap();
    let kustomized = cluster.kubectl(["kustomize", &format!("{}/config/crd", folder.path().display())]).unwrap();
    cluster.kubectl_with_input(["apply", "--server-side", "-f", "-"], &kustomized).unwrap();
    for kind in ["stricts", "looses"] {
        let name = format!("{kind}.cache.schema.test");
        cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", &name]).unwrap();
        let structural = "jsonpath={.status.conditions[?(@.type=='NonStructuralSchema')].status}";
        assert_eq!(cluster.kubectl(["get", "crd", &name, "-o", structural]).unwrap(), "");
    }
    let namespace = cluster.namespace("schema").unwrap();
    let apply = |kind: &str, spec: &str| {
        let text = format!("{{apiVersion: cache.schema.test/v1, kind: {kind}, metadata: {{name: x}}, spec: {spec}}}");
        namespace.apply(&text).map_err(|error| error.to_string())
    };
    for sample in ["strict", "loose"] {
        namespace.apply(&folder.text(&format!("config/samples/cache_v1_{sample}.yaml"))).unwrap();
    }
    // A null removes a default; values that a chart does not list may concern a subchart.
    for kind in ["Strict", "Loose"] {
        apply(
            kind,
            "{resources: null, livenessProbe: null, replicaCount: 2, global: {x: 1}, image: {pullPolicy: null}}",
        )
        .unwrap();
    }
    apply("Loose", "{livenessProbe: {httpGet: {port: 8080}}, image: {tag: 1}}").unwrap();
    for (kind, spec, complaint) in [
        ("Strict", "{replicaCount: two}", "spec.replicaCount"),
        ("Strict", "{replicaCount: -1}", "spec.replicaCount"),
        ("Strict", "{image: {pullPolicy: Sometimes}}", "spec.image.pullPolicy"),
        ("Loose", "{replicaCount: [2]}", "spec.replicaCount"),
        ("Loose", "{ingress: true}", "spec.ingress"),
        ("Loose", "{ingress: {enabled: perhaps}}", "spec.ingress.enabled"),
    ] {
        let error = apply(kind, spec).unwrap_err();
        assert!(error.contains(complaint), "{error}");
    }
}
