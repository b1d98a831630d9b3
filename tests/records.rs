//! Who can prove a release record, on a real control plane. A tenant who may only `edit` one namespace attacks the records
//! of a release there, with an operator that has all permissions: the tenant's writes must have no effect beyond the
//! tenant's own permissions. The keys change while the operator runs.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use helm_release::release::{Hook, HookEvent, Packed, Release, Status};
use helm_release::storage::{Key, MARKS_ANNOTATION, SEAL_ANNOTATION};
use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account::is_operator;
use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::reader::get;
use crate::scopes;

const TENANT: &str = "--as=ed";
const STORES: &str = "stores.v1.test.my.domain";

const TEMPLATE: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {size: '{{ .Values.size }}'}
{{- if eq (int .Values.size) 1 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-once'}
{{- end }}
{{- if eq (int .Values.size) 9 }}{{ fail \"too large\" }}{{ end }}
";

fn chart(folder: &Path) -> String {
    let chart = folder.join("store");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: store\nversion: 0.1.0\n").unwrap();
    fs::write(chart.join("values.yaml"), "size: 1\n").unwrap();
    fs::write(chart.join("templates/all.yaml"), TEMPLATE).unwrap();
    chart.display().to_string()
}

/// Returns the Secret of a revision, as the tenant reads it.
fn read(namespace: &Namespace<'_>, version: u32) -> Value {
    let name = format!("sh.helm.release.v1.web.v{version}");
    serde_json::from_str(&namespace.kubectl([TENANT, "get", "secret", &name, "-o", "json"]).unwrap()).unwrap()
}

/// Creates or replaces a Secret as the tenant.
fn write(cluster: &TestCluster, namespace: &Namespace<'_>, mut secret: Value) {
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        secret["metadata"].as_object_mut().unwrap().remove(field);
    }
    let name = secret["metadata"]["name"].as_str().unwrap().to_owned();
    namespace.kubectl([TENANT, "delete", "secret", &name, "--ignore-not-found"]).unwrap();
    cluster.kubectl_with_input(["-n", namespace.name(), TENANT, "create", "-f", "-"], &secret.to_string()).unwrap();
}

/// Changes the content of a record, as anyone who knows Helm's format can.
fn change(secret: &mut Value, change: impl FnOnce(&mut Release)) {
    let record = STANDARD.decode(secret["data"]["release"].as_str().unwrap()).unwrap();
    let mut release = Packed::from_record(&record, Default::default()).unwrap();
    change(&mut release);
    secret["data"]["release"] = STANDARD.encode(Packed::pack(&release).unwrap().to_record()).into();
    secret["metadata"]["labels"]["status"] = release.info.status.as_str().into();
}

/// Returns a binding that makes the tenant an administrator.
fn binding(namespace: &str) -> String {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ed"}]);
    let metadata = json!({"name": format!("pwned-{namespace}")});
    let object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": role, "subjects": subjects});
    format!("---\n{object}\n")
}

/// Returns a Job that an uninstall would run.
fn hook() -> Hook {
    let pod =
        json!({"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Never", "serviceAccountName": "default"});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "evil"}, "spec": {"template": {"spec": pod}}});
    let (name, kind, manifest) = ("evil".into(), "Job".into(), job.to_string());
    Hook { name, kind, manifest, events: vec![HookEvent::PreDelete, HookEvent::PreUpgrade], ..Hook::default() }
}

fn set(namespace: &Namespace<'_>, size: u32) {
    let store = json!({"apiVersion": "test.my.domain/v1", "kind": "Store", "metadata": {"name": "web"}, "spec": {"size": size}});
    namespace.apply(&store.to_string()).unwrap();
}

/// Waits until the store's current generation has a condition with this reason; returns the deployed revision.
fn wait_for(namespace: &Namespace<'_>, [kind, reason]: [&str; 2]) -> u32 {
    eventually(reason, || {
        let store = get(namespace, [STORES, "web"]);
        let is_new = store["status"]["observedGeneration"] == store["metadata"]["generation"];
        let revision = store["status"]["deployedRelease"]["revision"].as_u64();
        if is_new && condition(&store, kind)["reason"] == reason { Ok(revision.unwrap() as u32) } else { Err(store) }
    })
}

fn maps(namespace: &Namespace<'_>) -> String {
    namespace.kubectl(["get", "configmaps", "-l", "app.kubernetes.io/managed-by=Helm", "-o", "name"]).unwrap()
}

#[test]
fn a_tenant_who_forges_release_records_gets_nothing_beyond_his_rights() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    scopes::define(cluster);
    let (namespace, victim) = (cluster.namespace("records").unwrap(), cluster.namespace("victim").unwrap());
    namespace.kubectl(["create", "rolebinding", "ed", "--clusterrole=edit", "--user=ed"]).unwrap();
    victim.kubectl(["create", "configmap", "precious"]).unwrap();
    let charts = tempfile::tempdir().unwrap();
    let watches = json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart(charts.path())}]);
    let start = || Operator::start_as_in(&cluster.operator_kubeconfig_path(), namespace.name(), &watches.to_string());
    let operator = start();
    set(&namespace, 1);
    assert_eq!(wait_for(&namespace, ["Ready", "Ready"]), 1);
    let old = read(&namespace, 1);

    // A pending revision with a forged manifest.
    let mut forged = old.clone();
    (forged["metadata"]["name"], forged["metadata"]["labels"]["version"]) =
        ("sh.helm.release.v1.web.v2".into(), "2".into());
    change(&mut forged, |release| {
        (release.version, release.manifest) = (2, binding(namespace.name()));
        release.hooks = vec![hook()];
        release.info.status = Status::PendingUpgrade;
    });
    write(cluster, &namespace, forged);
    wait_for(&namespace, ["UnprovenRecords", "UnprovenRecords"]);
    set(&namespace, 2);
    let newest = wait_for(&namespace, ["Ready", "Ready"]);
    assert_eq!(maps(&namespace), "configmap/web\n");

    // The deployed revision with additional content, drift, and a restart.
    let mut edited = read(&namespace, newest);
    change(&mut edited, |release| {
        release.manifest = format!("{}{}", release.manifest, binding(namespace.name()));
        release.hooks = vec![hook()];
    });
    drop(operator);
    write(cluster, &namespace, edited);
    namespace.kubectl([TENANT, "delete", "configmap", "web"]).unwrap();
    let operator = start();
    eventually("the repair", || namespace.kubectl(["get", "configmap/web"]));
    let newest = wait_for(&namespace, ["Ready", "Ready"]);

    // An authentic record from when the release had more objects, while the chart does not render.
    set(&namespace, 9);
    wait_for(&namespace, ["Irreconcilable", "RenderError"]);
    for version in 1..=newest {
        let name = format!("secret/sh.helm.release.v1.web.v{version}");
        namespace.kubectl([TENANT, "delete", &name, "--ignore-not-found"]).unwrap();
    }
    write(cluster, &namespace, old.clone());
    drop(operator);
    let operator = start();
    wait_for(&namespace, ["Irreconcilable", "RenderError"]);
    set(&namespace, 3);
    let newest = wait_for(&namespace, ["Ready", "Ready"]);
    assert_eq!(maps(&namespace), "configmap/web\n");

    // An inventory with another owner's object, and hooks, before the resource is deleted.
    drop(operator);
    let mut last = read(&namespace, newest);
    change(&mut last, |release| release.hooks = vec![hook()]);
    let marks = last["metadata"]["annotations"][MARKS_ANNOTATION].as_str().unwrap();
    let marks = marks.replace(&format!("{:?},\"web\"", namespace.name()), &format!("{:?},\"precious\"", victim.name()));
    assert!(marks.contains("precious"), "{marks}");
    last["metadata"]["annotations"][MARKS_ANNOTATION] = marks.replace("\"h\":false", "\"h\":true").into();
    write(cluster, &namespace, last);
    let operator = start();
    namespace.kubectl(["delete", STORES, "web", "--timeout=60s"]).unwrap();
    drop(operator);

    victim.kubectl(["get", "configmap/precious"]).unwrap();
    assert_eq!(maps(&namespace), "", "nothing of the release is left");
    let all = cluster.kubectl(["get", "clusterrolebindings", "-o", "name"]).unwrap();
    assert!(!all.contains("pwned"), "{all}");
    assert_ne!(cluster.kubectl([TENANT, "auth", "can-i", "*", "*", "-A"]).unwrap_or_default().trim(), "yes");
    let requests = cluster.requests().unwrap();
    let foreign = requests.iter().filter(|r| is_operator(&r.user) && r.is_write()).filter(|r| {
        r.name.starts_with("pwned")
            || r.name == "evil"
            || r.namespace == victim.name()
            || (r.namespace == namespace.name() && r.resource == "jobs")
    });
    assert_eq!(foreign.collect::<Vec<_>>(), Vec::<&test_cluster::Request>::new());
}

const KEY: &str = "helm-operator-record-key";

/// Returns the entries of the Secret with the keys; none if it does not exist.
fn keys(namespace: &Namespace<'_>) -> serde_json::Map<String, Value> {
    let secret = namespace.kubectl(["get", "secret", KEY, "-o", "json"]).unwrap_or_default();
    let secret: Value = serde_json::from_str(&secret).unwrap_or_default();
    secret["data"].as_object().cloned().unwrap_or_default()
}

/// Waits until the Secret has a key that seals other than `old`.
fn new_key(namespace: &Namespace<'_>, old: &Value) -> Value {
    eventually("another key", || match keys(namespace).remove("current") {
        Some(key) if key != *old => Ok(key),
        other => Err(other),
    })
}

/// Returns the identity of the key that sealed a revision.
fn sealed_by(namespace: &Namespace<'_>, version: u32) -> String {
    let seal = read(namespace, version)["metadata"]["annotations"][SEAL_ANNOTATION].clone();
    seal.as_str().unwrap().split_once('.').unwrap().0.to_owned()
}

/// Returns the identity of a key.
fn id(key: &Value) -> String {
    let key = Key::new(&STANDARD.decode(key.as_str().unwrap()).unwrap()).unwrap();
    format!("{key:?}").trim_start_matches("Key(").trim_end_matches(')').to_owned()
}

#[test]
fn a_key_is_rotated_deleted_and_revoked_without_a_restart() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    scopes::define(cluster);
    let namespace = cluster.namespace("keys").unwrap();
    namespace.kubectl(["create", "rolebinding", "ed", "--clusterrole=edit", "--user=ed"]).unwrap();
    let charts = tempfile::tempdir().unwrap();
    let watches = json!([{"group": "test.my.domain", "version": "v1", "kind": "Store", "chart": chart(charts.path())}]);
    fs::write(charts.path().join("watches.yaml"), watches.to_string()).unwrap();
    let file = format!("--watches-file={}", charts.path().join("watches.yaml").display());
    let own = format!("--record-key-namespace={}", namespace.name());
    let _operator = Operator::start_as(&cluster.operator_kubeconfig_path(), &namespace, &[&file, &own]);
    let map = || get(&namespace, ["configmap", "web"])["metadata"]["resourceVersion"].clone();
    set(&namespace, 1);
    wait_for(&namespace, ["Ready", "Ready"]);
    let first = keys(&namespace)["current"].clone();

    // Rotated: nothing is written; the next record has the new seal.
    let patch = json!({"data": {"current": null, "a": first}}).to_string();
    namespace.kubectl(["patch", "secret", KEY, "--type=merge", "-p", &patch]).unwrap();
    let second = new_key(&namespace, &first);
    assert_eq!(sealed_by(&namespace, 1), id(&first));
    set(&namespace, 2);
    assert_eq!(wait_for(&namespace, ["Ready", "Ready"]), 2);
    assert_eq!((sealed_by(&namespace, 2), id(&first) == id(&second)), (id(&second), false));
    let applied = map();

    // Deleted: made again with another key, beside the known ones.
    namespace.kubectl(["delete", "secret", KEY]).unwrap();
    let third = new_key(&namespace, &second);
    let known = keys(&namespace);
    assert!(known.len() == 3 && known.values().any(|k| *k == first) && known.values().any(|k| *k == second));

    // Revoked: the deployed revision is compared and sealed again, and no object is written.
    let revoked: serde_json::Map<_, _> =
        known.keys().filter(|name| *name != "current").map(|name| (name.clone(), Value::Null)).collect();
    namespace.kubectl(["patch", "secret", KEY, "--type=merge", "-p", &json!({"data": revoked}).to_string()]).unwrap();
    eventually("the seal of the newest key", || match sealed_by(&namespace, 2) {
        seal if seal == id(&third) => Ok(()),
        seal => Err(seal),
    });
    wait_for(&namespace, ["UnprovenRecords", "UnprovenRecords"]);
    assert_eq!((map(), wait_for(&namespace, ["Ready", "Ready"])), (applied, 2));
}
