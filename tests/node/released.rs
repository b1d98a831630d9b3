//! The images that `make release` wrote, installed by the charts: they run as the charts demand, serve, are upgraded
//! without a new revision, and leave nothing.

use std::collections::BTreeMap;
use std::env;
use std::fs;

use serde_json::{Value, json};
use test_cluster::{Namespace, eventually};

use super::{addresses, ask, cluster};
use crate::chart::{set, wait_ready};
use crate::own_chart::{DEFINITIONS, OPERATOR, RIGHTS, chart_before_its_last_change, in_namespace, restricted};
use crate::reader::get;

const NAME: &str = "rel-hybrid-helm-operator";

/// Returns the Helm values that select a released image. Without one, prints that the test is skipped.
fn image(name: &str) -> Option<String> {
    let Some(version) = env::var_os("E2E_NODE_RELEASE") else {
        eprintln!("skipped: no release, run `make release VERSION=…` first");
        return None;
    };
    let version = version.into_string().unwrap();
    Some(format!("image.repository=released.local/{name},image.tag={version},image.pullPolicy=Never"))
}

/// Returns the operator's only pod, once it is ready.
fn ready_pod(own: &Namespace<'_>) -> Value {
    own.kubectl(["rollout", "status", &format!("deployment/{NAME}"), "--timeout=120s"]).unwrap();
    eventually("one ready pod", || {
        let text = own.kubectl(["get", "pods", "-l", "app.kubernetes.io/instance=rel", "-o", "json"]).unwrap();
        let pods = serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().clone();
        match &pods[..] {
            [pod] if pod["status"]["containerStatuses"][0]["ready"] == true => Ok(pod.clone()),
            _ => Err(pods),
        }
    })
}

/// Returns what a restart or a revision of a release would change.
fn served(namespace: &Namespace<'_>, name: &str) -> BTreeMap<String, Value> {
    let text = namespace.kubectl(["get", "pods", "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    let pods = list["items"].as_array().unwrap().iter();
    let pods = pods.map(|pod| (pod["metadata"]["name"].to_string(), pod["metadata"]["uid"].clone()));
    let release = get(namespace, ["memcached", name])["status"]["deployedRelease"].clone();
    pods.chain([("release".to_owned(), release)]).collect()
}

#[test]
#[ignore = "needs a node that runs containers: make e2e-node"]
fn the_released_reference_operator_is_installed_upgraded_and_removed_by_its_charts() {
    let Some(image) = image("memcached-operator") else { return };
    let cluster = cluster();
    let (own, served_here) = (restricted(cluster, "released"), cluster.namespace("served").unwrap());
    let helm = |arguments: &[&str]| in_namespace(cluster, &own, arguments);
    let crds = ["memcacheds", "memcachedbackups"]
        .map(|plural| format!("definitions.{plural}=config/crd/bases/cache.my.domain_{plural}.yaml"));
    helm(&[
        "upgrade",
        "--install",
        "crds",
        DEFINITIONS,
        "--take-ownership",
        "--force-conflicts",
        "--set-file",
        &crds[0],
        "--set-file",
        &crds[1],
    ]);

    let folder = tempfile::tempdir().unwrap();
    // In a shallow clone, which has no earlier chart, today's is upgraded to itself.
    let earlier = chart_before_its_last_change(folder.path()).unwrap_or_else(|| OPERATOR.into());
    // Other tests serve theirs.
    let namespaces = format!("namespaces={{{}}}", served_here.name());
    let values = ["--set", &image, "--set", &namespaces, "--set-file", RIGHTS[0], "--set-file", RIGHTS[1]];
    helm(&[&["install", "rel", earlier.to_str().unwrap()], &values[..]].concat());

    let pod = ready_pod(&own);
    let container = &pod["spec"]["containers"][0]["securityContext"];
    assert_eq!(
        (&container["readOnlyRootFilesystem"], &pod["spec"]["securityContext"]["runAsNonRoot"]),
        (&json!(true), &json!(true))
    );
    set(&served_here, "web", json!({"replicaCount": 1}));
    wait_ready(&served_here, "web");
    for address in addresses(&served_here, "web", 1, 64) {
        assert!(ask(&address, "set word 0 0 5\r\nhello\r\n").unwrap().starts_with("STORED"));
    }

    let before = served(&served_here, "web");
    // Both charts may make the same pod; an annotation changes it, so that another process takes over.
    helm(&[&["upgrade", "rel", OPERATOR], &values[..], &["--set-string", "podAnnotations.upgraded=true"]].concat());
    let upgraded = ready_pod(&own);
    assert_ne!(upgraded["metadata"]["uid"], pod["metadata"]["uid"]);
    // Proves that the new process works: it repairs.
    served_here.kubectl(["delete", "service/web-memcached"]).unwrap();
    eventually("repaired service", || served_here.kubectl(["get", "service/web-memcached"]));
    assert_eq!(served(&served_here, "web"), before, "an upgrade restarts no release");
    assert_eq!(upgraded["status"]["containerStatuses"][0]["restartCount"], 0);

    served_here.kubectl(["delete", "memcached/web", "--timeout=60s"]).unwrap();
    helm(&["uninstall", "rel", "--wait"]);
    helm(&["uninstall", "crds", "--wait"]);
    let kinds = "deployment,pod,service,serviceaccount,configmap,role,rolebinding";
    let of_cluster = ["serviceaccount/default", "configmap/kube-root-ca.crt"];
    // Helm does not wait until the pod has ended.
    eventually("nothing left", || {
        let names = own.kubectl(["get", kinds, "-o", "name"]).unwrap();
        let left: Vec<&str> = names.lines().filter(|name| !of_cluster.contains(name)).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
    });
}

/// A chart without containers, as files of a ConfigMap.
const CHART: [(&str, &str); 2] = [
    ("Chart.yaml", "{apiVersion: v2, name: note, version: 0.1.0}"),
    (
        "map.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}'}, data: {text: '{{ .Values.text }}'}}",
    ),
];

#[test]
#[ignore = "needs a node that runs containers: make e2e-node"]
fn the_released_base_image_serves_a_chart_from_a_volume() {
    let Some(image) = image("helm-operator") else { return };
    let cluster = cluster();
    crate::chart_kinds::define(cluster);
    let (own, served_here) = (restricted(cluster, "base"), cluster.namespace("notes").unwrap());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": CHART.into_iter().collect::<BTreeMap<_, _>>()});
    own.apply(&map.to_string()).unwrap();
    let items = json!([{"key": "Chart.yaml", "path": "Chart.yaml"}, {"key": "map.yaml", "path": "templates/map.yaml"}]);
    let values = json!({
        "namespaces": [served_here.name()],
        "watches": [{"group": "test.my.domain", "version": "v1", "kind": "Widget", "chart": "/charts/note"}],
        "chartVolumes": {"note": {"configMap": {"name": "note", "items": items}}},
        "rbac": {"rules": [
            {"apiGroups": ["test.my.domain"], "resources": ["widgets", "widgets/status"], "verbs": ["get", "list", "watch", "patch", "update"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        ]},
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), values.to_string()).unwrap();
    in_namespace(
        cluster,
        &own,
        &["install", "rel", OPERATOR, "--set", &image, "--values", file.path().to_str().unwrap()],
    );
    ready_pod(&own);
    let widget = crate::resource::Kind("Widget");
    widget.set(&served_here, "first", &json!({"text": "hello"}));
    widget.wait_for(&served_here, "first", "Ready");
    assert_eq!(get(&served_here, ["configmap", "first"])["data"]["text"], "hello");
    served_here.kubectl(["delete", "widget/first", "--timeout=60s"]).unwrap();
    in_namespace(cluster, &own, &["uninstall", "rel", "--wait"]);
}
