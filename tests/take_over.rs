//! Takes over releases of upstream operators: same pods, same release, fields now ours.
//!
//! The state was recorded from operator-sdk's Helm operator and from helm-operator-plugins with the chart of `helm
//! create memcached`. Without the recording, nothing is tested.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use helm_release::release::{Packed, Release};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::account::is_operators;
use crate::chart::{condition, wait_ready};
use crate::operator::{Operator, eventually, install_kinds};
use crate::reader::get;

const NAME: &str = "memcached-sample";

fn items(file: &Path) -> Vec<Value> {
    let list: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// The prerequisites of a takeover: an upstream's recorded state, a cluster, and the chart that the upstream served.
struct Stage {
    recording: PathBuf,
    cluster: &'static TestCluster,
    charts: tempfile::TempDir,
}

impl Stage {
    /// Prepares it; prints a message and returns `None` if something is missing.
    fn new(upstream: &str) -> Option<Stage> {
        let Some(recording) = shared_cases::path(&format!("upstream-state/{upstream}")) else {
            eprintln!("skipped: no recorded state of {upstream}");
            return None;
        };
        let cluster = TestCluster::shared_or_skip()?;
        let charts = tempfile::tempdir().unwrap();
        let made = cluster.command("helm").args(["create", "memcached"]).current_dir(charts.path()).output();
        if !made.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no helm; `make cluster` builds it");
            return None;
        }
        install_kinds(cluster);
        Some(Stage { recording, cluster, charts })
    }

    /// Starts an operator that serves the chart.
    fn start(&self, namespace: &Namespace<'_>) -> Operator {
        let chart = self.charts.path().join("memcached");
        let watch = json!([{"group": "cache.my.domain", "version": "v1", "kind": "Memcached", "chart": chart}]);
        Operator::start_watches(self.cluster, namespace, &watch.to_string(), &[])
    }
}

/// Strips an object for recreation: identity, status and server-assigned fields.
fn reborn(mut object: Value, owner: Option<&str>) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for own in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace"] {
        metadata.remove(own);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("deployment.kubernetes.io/revision");
    }
    if let (Some(uid), Some(owners)) = (owner, metadata.get_mut("ownerReferences")) {
        owners[0]["uid"] = uid.into();
    }
    let whole = object.as_object_mut().unwrap();
    whole.remove("status");
    if let Some(spec) = whole.get_mut("spec").and_then(Value::as_object_mut) {
        for assigned in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.remove(assigned);
        }
    }
    object
}

/// Creates an object as the upstream's field manager.
fn create(cluster: &TestCluster, namespace: &Namespace<'_>, object: &Value, manager: &str) {
    let arguments = ["create", "-n", namespace.name(), "--field-manager", manager, "-f", "-"];
    cluster.kubectl_with_input(arguments, &object.to_string()).unwrap();
}

/// Returns the field manager of an object in the recording.
fn manager(object: &Value) -> &str {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().find(|e| e["subresource"].is_null()).unwrap();
    own["manager"].as_str().unwrap()
}

/// Creates the resource with its status, the records and the objects.
pub(crate) fn restore(cluster: &TestCluster, namespace: &Namespace<'_>, folder: &Path) {
    let resource = items(&folder.join("cr.json")).remove(0);
    create(cluster, namespace, &reborn(resource.clone(), None), "kubectl-client-side-apply");
    let status = json!({"status": resource["status"]}).to_string();
    let objects = items(&folder.join("objects.json"));
    let upstream = manager(&objects[0]).to_owned();
    let patch = [
        "patch",
        "memcached",
        NAME,
        "--subresource=status",
        "--type=merge",
        "--field-manager",
        &upstream,
        "-p",
        &status,
    ];
    namespace.kubectl(patch).unwrap();
    let uid = get(namespace, ["memcached", NAME])["metadata"]["uid"].as_str().unwrap().to_owned();
    for record in items(&folder.join("secrets.json")) {
        create(cluster, namespace, &moved(reborn(record, Some(&uid)), namespace.name()), &upstream);
    }
    for mut object in objects.into_iter().map(|object| reborn(object, Some(&uid))) {
        object["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = namespace.name().into();
        create(cluster, namespace, &object, &upstream);
    }
}

/// Moves a record to another namespace.
fn moved(mut secret: Value, namespace: &str) -> Value {
    let data: ByteString = serde_json::from_value(secret["data"]["release"].take()).unwrap();
    let release = Packed::from_record(&data.0, BTreeMap::new()).unwrap();
    // helm-operator-plugins writes the namespace into the manifest.
    let manifest = release.manifest.replace("namespace: default", &format!("namespace: {namespace}"));
    let moved = Release { namespace: namespace.to_owned(), manifest, ..release };
    let record = Packed::pack(&moved).unwrap().to_record().into_bytes();
    secret["data"]["release"] = serde_json::to_value(ByteString(record)).unwrap();
    secret
}

/// Waits for this many pods, all ready; returns their names and uids.
pub(crate) fn pods(namespace: &Namespace<'_>, count: usize) -> BTreeMap<String, String> {
    eventually("ready pods", || {
        let list = namespace.kubectl(["get", "pods", "-o", "json"]).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let ready = |pod: &&Value| condition(pod, "Ready")["status"] == "True";
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ready = list["items"].as_array().into_iter().flatten().filter(ready);
        let found: BTreeMap<_, _> =
            ready.map(|p| (text(&p["metadata"]["name"]), text(&p["metadata"]["uid"]))).collect();
        if found.len() == count { Ok(found) } else { Err(found) }
    })
}

/// Returns the field managers of an object, except for status.
fn managers(namespace: &Namespace<'_>, kind: &str) -> Vec<String> {
    let answer = namespace.kubectl(["get", kind, NAME, "-o", "json", "--show-managed-fields"]).unwrap();
    let object: Value = serde_json::from_str(&answer).unwrap();
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().filter(|e| e["subresource"].is_null());
    own.map(|e| format!("{} {}", e["manager"].as_str().unwrap(), e["operation"].as_str().unwrap())).collect()
}

fn helm(cluster: &TestCluster, namespace: &Namespace<'_>, arguments: &[&str]) -> Value {
    let mut command = cluster.command("helm");
    command.args(arguments).args(["-n", namespace.name(), "-o", "json"]).env("KUBECONFIG", cluster.kubeconfig_path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns what swapping operators must not change: each object without the fields that only field managers and the
/// server use.
fn contents(namespace: &Namespace<'_>) -> BTreeMap<String, Value> {
    let kinds = "deployments,replicasets,pods,services,serviceaccounts,memcacheds";
    let list = namespace.kubectl(["get", kinds, "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let mut objects = BTreeMap::new();
    for mut object in list["items"].as_array().unwrap().iter().cloned() {
        let named = format!("{} {}", object["kind"], object["metadata"]["name"]);
        object.as_object_mut().unwrap().remove("status");
        let metadata = object["metadata"].as_object_mut().unwrap();
        ["managedFields", "resourceVersion"].iter().for_each(|field| _ = metadata.remove(*field));
        // helm-operator-plugins does not set the label that our watches select by.
        let labels = metadata.get_mut("labels").and_then(Value::as_object_mut);
        labels.map(|labels| labels.remove("helm.sdk.operatorframework.io/chart"));
        objects.insert(named, object);
    }
    objects
}

/// Returns the data of each release record.
fn records(namespace: &Namespace<'_>) -> BTreeMap<String, Value> {
    let list = namespace.kubectl(["get", "secrets", "-l", "owner=helm", "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|secret| (secret["metadata"]["name"].to_string(), secret["data"].clone())).collect()
}

/// Returns the operator's distinct writes so far: `patch deployments`.
fn writes(cluster: &TestCluster, namespace: &Namespace<'_>) -> BTreeSet<String> {
    let requests = cluster.requests().unwrap();
    let ours = requests.iter().filter(|r| is_operators(r) && r.namespace == namespace.name() && r.is_write());
    let ours = ours.filter(|r| !r.resource.starts_with("events") && !r.resource.starts_with("leases"));
    ours.map(|r| format!("{} {}", r.verb, r.resource)).collect()
}

/// Returns the statuses of conditions other than `Ready`.
fn conditions(resource: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = resource["status"]["conditions"].as_array().unwrap().iter();
    all.map(|c| (text(&c["type"]), text(&c["status"]))).filter(|(kind, _)| kind != "Ready").collect()
}

/// Returns the manifest in a record's data.
fn manifest(data: &Value) -> String {
    let data: ByteString = serde_json::from_value(data["release"].clone()).unwrap();
    Packed::from_record(&data.0, BTreeMap::new()).unwrap().manifest
}

fn take_over(upstream: &str) {
    let Some(stage) = Stage::new(upstream) else { return };
    let cluster = stage.cluster;
    let namespace = cluster.namespace("take-over").unwrap();
    restore(cluster, &namespace, &stage.recording);
    let before = pods(&namespace, 3);
    let (objects_before, records_before) = (contents(&namespace), records(&namespace));
    let conditions_before = conditions(&get(&namespace, ["memcached", NAME]));

    let operator = stage.start(&namespace);
    operator.logged("The record has the same chart and values");
    operator.logged("Took over release");
    let resource = wait_ready(&namespace, NAME);
    assert_eq!(resource["status"]["deployedRelease"]["revision"], 2, "{}", resource["status"]);
    assert_eq!(pods(&namespace, 3), before);
    assert_eq!(contents(&namespace), objects_before);
    assert_eq!(
        records(&namespace),
        records_before,
        "the upstream compares what it recorded, so going back costs nothing"
    );
    assert_eq!(conditions(&resource), conditions_before);
    let only = ["deployments", "memcacheds/status", "secrets", "serviceaccounts", "services"];
    assert_eq!(writes(cluster, &namespace), only.map(|resource| format!("patch {resource}")).into());
    for kind in ["deployment", "service", "serviceaccount"] {
        assert_eq!(managers(&namespace, kind), ["helm-operator Apply"], "{kind}");
    }
    assert_eq!(resource["status"]["deployedRelease"]["manifest"], Value::Null);

    let fewer = r#"{"spec": {"replicaCount": 1}}"#;
    namespace.kubectl(["patch", "memcached", NAME, "--type=merge", "-p", fewer]).unwrap();
    eventually("third revision", || {
        let resource = wait_ready(&namespace, NAME);
        if resource["status"]["deployedRelease"]["revision"] == 3 { Ok(()) } else { Err(resource) }
    });
    let left = pods(&namespace, 1);
    assert!(left.iter().all(|pod| before.contains_key(pod.0)), "{left:?} of {before:?}");
    let history = helm(cluster, &namespace, &["history", NAME]);
    let revisions: Vec<_> = history.as_array().unwrap().iter().map(|r| (&r["revision"], &r["status"])).collect();
    let last = &revisions[revisions.len() - 2..];
    assert_eq!(last, [(&json!(2), &json!("superseded")), (&json!(3), &json!("deployed"))]);
    namespace.kubectl(["delete", "memcached", NAME, "--timeout=60s"]).unwrap();
    assert_eq!(get(&namespace, ["deployment", NAME]), Value::Null);
}

#[test]
fn a_release_of_operator_sdk_is_taken_over_with_its_pods() {
    take_over("operator-sdk");
}

#[test]
fn a_release_of_helm_operator_plugins_is_taken_over_with_its_pods() {
    take_over("helm-operator-plugins");
}

#[test]
fn a_release_made_here_is_no_change_for_operator_sdk_and_both_upstreams_can_delete_its_resource() {
    let Some(stage) = Stage::new("operator-sdk") else { return };
    let namespace = stage.cluster.namespace("go-back").unwrap();
    let _operator = stage.start(&namespace);
    let resource = reborn(items(&stage.recording.join("cr.json")).remove(0), None);
    let body = json!({"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "metadata": {"name": NAME}, "spec": resource["spec"]});
    namespace.apply(&body.to_string()).unwrap();
    let resource = wait_ready(&namespace, NAME);
    assert_eq!(resource["metadata"]["finalizers"], json!(["uninstall-helm-release"]));
    let ours = records(&namespace).into_values().next().unwrap();
    let theirs = items(&stage.recording.join("secrets.json")).pop().unwrap();
    assert_eq!(manifest(&ours), manifest(&theirs["data"]));
}
