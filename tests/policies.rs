//! Settings of watches.yaml that decide about a release's life cycle, on a real control plane: CEL, `onFailure`,
//! `crds`, and a missing chart.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};
use crate::reader::get;

const QUIET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/quiet");

/// Starts an operator that serves Holders with this chart and these settings.
fn start(cluster: &TestCluster, namespace: &Namespace<'_>, chart: &str, settings: Value) -> Operator {
    install_kind(cluster);
    let mut watch = json!({"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart});
    settings.as_object().unwrap().iter().for_each(|(key, value)| watch[key] = value.clone());
    Operator::start_in(cluster, &[namespace], &json!([watch]).to_string())
}

fn set(namespace: &Namespace<'_>, objects: &[Value]) {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    HOLDER.set(namespace, "web", &json!({"objects": texts}));
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

/// Waits until this condition of `web` has the status and its message contains the text.
fn told(namespace: &Namespace<'_>, kind: &str, status: &str, text: &str) -> Value {
    eventually(text, || {
        let holder = get(namespace, ["holder", "web"]);
        let found = condition(&holder, kind);
        let has_text = found["message"].as_str().unwrap_or_default().contains(text);
        if found["status"] == status && has_text { Ok(holder) } else { Err(holder["status"].clone()) }
    })
}

#[test]
fn expressions_decide_readiness_and_compute_status_fields() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("cel").unwrap();
    let rule = json!({
        "kind": "ConfigMap",
        "ready": "self.data.?phase.orValue('') == 'done'",
        "failed": "self.data.?phase.orValue('') == 'broken'",
        "message": "'the phase is ' + self.data.?phase.orValue('unknown')",
    });
    let fields =
        json!({"phase": "objects.ConfigMap.state.data.?phase.orValue(null)", "copies": "size(objects.ConfigMap)"});
    let _operator = start(cluster, &namespace, QUIET, json!({"readiness": [rule], "status": fields}));
    set(&namespace, &[map("state", "x")]);
    let holder = told(&namespace, "Ready", "False", "the phase is unknown");
    assert_eq!((&holder["status"]["copies"], &holder["status"]["phase"]), (&json!(1), &Value::Null));
    let phase = |phase: &str| {
        let patch = json!({"data": {"phase": phase}}).to_string();
        namespace.kubectl(["patch", "configmap", "state", "--type=merge", "-p", &patch]).unwrap();
    };
    phase("broken");
    told(&namespace, "Stalled", "True", "the phase is broken");
    phase("done");
    HOLDER.wait_for(&namespace, "web", "Ready");
    let status = get(&namespace, ["holder", "web"])["status"].clone();
    assert_eq!((&status["phase"], condition(&json!({"status": status}), "Stalled")), (&json!("done"), &Value::Null));
    assert_eq!(HOLDER.revision(&namespace, "web"), 1, "no repair, no upgrade");
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}

#[test]
fn a_failed_upgrade_uninstalls_the_release_if_that_is_the_policy() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("on-failure").unwrap();
    let _operator = start(cluster, &namespace, QUIET, json!({"onFailure": "uninstall", "retries": 0}));
    set(&namespace, &[map("a", "1")]);
    HOLDER.wait_for(&namespace, "web", "Ready");
    let mut bad = map("b", "1");
    bad["kind"] = "Service".into();
    bad["spec"] = json!({"ports": [{"port": 70_000}]});
    bad.as_object_mut().unwrap().remove("data");
    set(&namespace, &[map("a", "2"), bad]);
    told(&namespace, "ReleaseFailed", "True", "spec.ports[0].port");
    told(&namespace, "Stalled", "True", "1 attempts failed");
    let records = || namespace.kubectl(["get", "secrets", "-l", "owner=helm", "-o", "name"]).unwrap();
    eventually("nothing left", || match (get(&namespace, ["configmap", "a"]), records()) {
        (Value::Null, records) if records.is_empty() => Ok(()),
        left => Err(left),
    });
    eventually("events", || match HOLDER.events_of(&namespace, "web") {
        events if events.contains("Uninstalled: ") && events.contains("RetriesExceeded: ") => Ok(()),
        events => Err(events),
    });
    set(&namespace, &[map("a", "3")]);
    HOLDER.wait_for(&namespace, "web", "Ready");
    assert_eq!(get(&namespace, ["configmap", "a"])["data"]["value"], "3");
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}

const GEARS: &str = "gears.crds.my.domain";

/// Writes a chart with a definition of Gears in these versions, the last of which is stored, and a ConfigMap.
fn write_chart(folder: &Path, versions: &[&str]) {
    for name in ["crds", "templates"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let version = |name: &&str| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": Some(name) == versions.last(), "schema": schema})
    };
    let names = json!({"kind": "Gear", "listKind": "GearList", "plural": "gears", "singular": "gear"});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": GEARS},
        "spec": {"group": "crds.my.domain", "scope": "Namespaced", "names": names, "versions": versions},
    });
    fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: gears\nversion: 1.0.0\n").unwrap();
    fs::write(folder.join("crds/gears.yaml"), definition.to_string()).unwrap();
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shown}\ndata: {value: {{ .Values.value | quote }}}\n";
    fs::write(folder.join("templates/map.yaml"), template).unwrap();
}

/// Returns the versions of the live definition.
fn versions(cluster: &TestCluster) -> String {
    let columns = "jsonpath={.spec.versions[*].name}";
    cluster.kubectl(["get", "crd", GEARS, "--ignore-not-found", "-o", columns]).unwrap()
}

/// Sets the chart's value and waits until it is deployed.
fn deploy(namespace: &Namespace<'_>, value: &str) {
    HOLDER.set(namespace, "web", &json!({"value": value}));
    eventually("deployed value", || {
        let found = get(namespace, ["configmap", "shown"])["data"]["value"].clone();
        if found == value { Ok(()) } else { Err((found, get(namespace, ["holder", "web"])["status"].clone())) }
    });
    HOLDER.wait_for(namespace, "web", "Ready");
}

#[test]
fn definitions_are_created_and_replaced_by_policy_and_no_stored_version_is_lost() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("crds").unwrap();
    let chart = tempfile::tempdir().unwrap();
    let path = chart.path().to_str().unwrap();
    write_chart(chart.path(), &["v1"]);
    let skips = start(cluster, &namespace, path, json!({"crds": "skip"}));
    deploy(&namespace, "skipped");
    assert_eq!(versions(cluster), "");
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
    skips.kill();

    let creates = start(cluster, &namespace, path, json!({"crds": "create"}));
    deploy(&namespace, "created");
    assert_eq!(versions(cluster), "v1");
    creates.kill();
    write_chart(chart.path(), &["v1", "v2"]);
    let creates = start(cluster, &namespace, path, json!({"crds": "create"}));
    deploy(&namespace, "not replaced");
    assert_eq!(versions(cluster), "v1", "as with Helm");
    creates.kill();

    let replaces = start(cluster, &namespace, path, json!({"crds": "createOrReplace"}));
    deploy(&namespace, "replaced");
    assert_eq!(versions(cluster), "v1 v2");
    replaces.kill();
    write_chart(chart.path(), &["v2"]);
    let _replaces = start(cluster, &namespace, path, json!({"crds": "createOrReplace"}));
    HOLDER.set(&namespace, "web", &json!({"value": "refused"}));
    let text = "objects are stored in version v1, which the chart's definition lacks: migrate them first";
    eventually(text, || {
        let holder = get(&namespace, ["holder", "web"]);
        if holder["status"]["conditions"].to_string().contains(text) { Ok(()) } else { Err(holder["status"].clone()) }
    });
    assert_eq!(
        (versions(cluster).as_str(), &get(&namespace, ["configmap", "shown"])["data"]["value"]),
        ("v1 v2", &json!("replaced"))
    );

    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
    assert_eq!(versions(cluster), "v1 v2", "an uninstall keeps definitions");
    cluster.kubectl(["delete", "crd", GEARS, "--timeout=30s"]).unwrap();
}

#[test]
fn a_chart_whose_folder_is_gone_is_served_until_the_next_start() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("no-chart").unwrap();
    let chart = tempfile::tempdir().unwrap();
    let path = chart.path().to_str().unwrap().to_owned();
    write_chart(chart.path(), &["v1"]);
    let settings = || json!({"crds": "skip"});
    let operator = start(cluster, &namespace, &path, settings());
    deploy(&namespace, "before");
    drop(chart);
    deploy(&namespace, "after");
    namespace.kubectl(["delete", "configmap", "shown"]).unwrap();
    eventually("repair", || if get(&namespace, ["configmap", "shown"]).is_object() { Ok(()) } else { Err("none") });
    operator.kill();
    let operator = start(cluster, &namespace, &path, settings());
    let told = operator.logged(&path);
    assert!(told.contains("No such file") || told.contains("no such file"), "{told}");
    let (status, log) = operator.wait();
    assert!(!status.success(), "{log}");
    assert_eq!(get(&namespace, ["configmap", "shown"])["data"]["value"], "after", "nothing is lost meanwhile");
    write_chart(Path::new(&path), &["v1"]);
    let operator = start(cluster, &namespace, &path, settings());
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
    assert!(get(&namespace, ["configmap", "shown"]).is_null());
    operator.kill();
    fs::remove_dir_all(path).unwrap();
}
