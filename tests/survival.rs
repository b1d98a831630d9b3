//! What survives failed attempts, deletions, cleanups and restores, on a real control plane with its own garbage
//! collector, TTL controller and managed fields. Compares the identity of what remains, not only its name.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use test_cluster::{Component, Namespace, Options, TestCluster, eventually_within};

use crate::chart::condition;
use crate::chart_kinds::{define, events_of, serve, set, start, wait_for, writes};
use crate::hooks::{finish, pod_of, wait_said};
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};
use crate::quiet::INJECTED;
use crate::reader::get;

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn map(namespace: &Namespace<'_>, name: &str) -> Value {
    get(namespace, ["configmap", name])
}

fn job(name: &str, fate: &str, metadata: &Value, spec: &Value) -> String {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec});
    job["metadata"]["name"] = name.into();
    job["spec"]["template"] = json!({
        "metadata": {"annotations": {"test-cluster/pod": fate}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "busybox"}]},
    });
    job.to_string()
}

/// Creates an object that only the resource's own deletion, through the garbage collector, can remove. It blocks a
/// foreground deletion.
fn create_sentinel(namespace: &Namespace<'_>, of: &str) {
    let owner = json!({
        "apiVersion": "test.my.domain/v1", "kind": "Widget", "name": of, "uid": uid(&get(namespace, ["widget", of])),
        "blockOwnerDeletion": true,
    });
    let metadata = json!({"name": "sentinel", "ownerReferences": [owner]});
    namespace.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string()).unwrap();
}

/// Returns a ConfigMap as a manifest.
fn map_of(name: &str, data: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).to_string()
}

/// Waits until the events of a resource say that its failed upgrade was rolled back.
fn wait_rolled_back(events: impl Fn() -> String) {
    eventually("rollback", || match events() {
        events if events.contains("RolledBack") => Ok(()),
        events => Err(events),
    });
}

fn wait_gone(namespace: &Namespace<'_>, kind: &str, name: &str) {
    eventually("its end", || match get(namespace, [kind, name]) {
        Value::Null => Ok(()),
        left => Err(left),
    });
}

/// Waits until the garbage collector has deleted every dependent it knows of a resource in foreground deletion. It
/// takes its finalizer off only then. A dependent that it meets after that stays until the resource itself is gone.
fn wait_collected(namespace: &Namespace<'_>, name: &str) {
    eventually("end of the collection", || match get(namespace, ["widget", name])["metadata"]["finalizers"].take() {
        Value::Array(left) if !left.contains(&json!("foregroundDeletion")) => Ok(()),
        left => Err(left),
    });
}

#[test]
fn a_backup_hook_runs_before_a_foreground_deletion_takes_the_workloads() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("foreground").unwrap();
    let _operator = start(cluster, &namespace);
    let annotations = json!({"annotations": {"helm.sh/hook": "pre-delete", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}});
    set(&namespace, "web", json!({"extra": job("web-backup", "stuck", &annotations, &json!({"backoffLimit": 0}))}));
    wait_for(&namespace, "web", "Ready");
    create_sentinel(&namespace, "web");
    let before = map(&namespace, "web");
    namespace.kubectl(["delete", "widget", "web", "--cascade=foreground", "--wait=false"]).unwrap();
    let pod = pod_of(&namespace, "web-backup");
    let backup = get(&namespace, ["job", "web-backup"]);
    wait_collected(&namespace, "web");
    assert_eq!(uid(&map(&namespace, "web")), uid(&before), "what the hook backs up");
    assert_eq!(map(&namespace, "web")["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(uid(&get(&namespace, ["job", "web-backup"])), uid(&backup), "the hook itself");
    finish(&namespace, &pod);
    namespace.kubectl(["wait", "--for=delete", "widget/web", "--timeout=60s"]).unwrap();
    assert_eq!(map(&namespace, "web"), Value::Null);
    let made = writes(cluster, &namespace).into_iter().filter(|line| line == "create jobs/web-backup").count();
    assert_eq!(made, 1, "it ran once");
}

#[test]
fn a_failed_install_or_upgrade_leaves_what_it_adopted_and_so_does_the_garbage_collector() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("adopted").unwrap();
    let _operator = start(cluster, &namespace);
    let set = |name: &str, extra: String| {
        let annotations = json!({"helm.sdk.operatorframework.io/adopt": "true"});
        let widget = json!({
            "apiVersion": "test.my.domain/v1", "kind": "Widget", "metadata": {"name": name, "annotations": annotations},
            "spec": {"extra": extra},
        });
        namespace.apply(&widget.to_string()).unwrap();
    };
    for (name, is_upgrade) in [("web", false), ("older", true)] {
        let (precious, refused) = (format!("{name}-precious"), format!("{name}-refused"));
        if is_upgrade {
            set(name, String::new());
            wait_for(&namespace, name, "Ready");
        }
        namespace.apply(&map_of(&precious, &json!({"theirs": "x"}))).unwrap();
        let before = map(&namespace, &precious);
        let adopts = map_of(&precious, &json!({"ours": "y"}));
        set(name, format!("{adopts}\n---\n{}\n", map_of(&refused, &json!({"no/key": "z"}))));
        if is_upgrade {
            // It drops what the failed upgrade has adopted.
            wait_rolled_back(|| events_of(&namespace, name));
        }
        wait_said(&namespace, name, "ReleaseFailed", &refused);
        assert_eq!(uid(&map(&namespace, &precious)), uid(&before), "{name}");
        create_sentinel(&namespace, name);
        namespace.kubectl(["delete", "widget", name, "--timeout=60s"]).unwrap();
        wait_gone(&namespace, "configmap", "sentinel");
        let left = map(&namespace, &precious);
        assert_eq!((uid(&left), &left["data"]["theirs"]), (uid(&before), &json!("x")), "{name}");
        assert_eq!(left["metadata"]["ownerReferences"], Value::Null, "{name}");
        assert_eq!(map(&namespace, name), Value::Null);
    }
}

/// Names that managers of fields have by default: those of a kubebuilder project, and of `kubectl apply`.
const MANAGERS: [&str; 2] = ["manager", "kubectl-client-side-apply"];

#[test]
fn fields_of_managers_with_a_default_name_survive_a_failed_upgrade_and_a_good_one() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("managers").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"colour": "green"}));
    wait_for(&namespace, "web", "Ready");
    let finalizers = MANAGERS.map(|manager| format!("test.my.domain/{manager}"));
    for (n, manager) in MANAGERS.into_iter().enumerate() {
        let metadata = json!({"finalizers": finalizers[..=n], "annotations": {manager: "1"}});
        let theirs = json!({"metadata": metadata, "data": {manager: "x"}}).to_string();
        let manager = format!("--field-manager={manager}");
        namespace.kubectl(["patch", "configmap", "web", "--type=merge", &manager, "-p", &theirs]).unwrap();
    }
    let before = map(&namespace, "web");
    let check = |colour: &str| {
        let now = map(&namespace, "web");
        assert_eq!((uid(&now), &now["data"]["colour"]), (uid(&before), &json!(colour)));
        for manager in MANAGERS {
            assert_eq!(now["data"][manager], "x", "{now}");
            assert_eq!(now["metadata"]["annotations"][manager], "1", "{now}");
        }
        assert_eq!(now["metadata"]["finalizers"], json!(finalizers));
    };
    let refused = map_of("web-refused", &json!({"no/key": "z"}));
    set(&namespace, "web", json!({"colour": "yellow", "extra": refused}));
    wait_rolled_back(|| events_of(&namespace, "web"));
    check("green");
    set(&namespace, "web", json!({"colour": "blue"}));
    wait_for(&namespace, "web", "Ready");
    check("blue");
    let release = json!({"metadata": {"finalizers": null}}).to_string();
    namespace.kubectl(["patch", "configmap", "web", "--type=merge", "-p", &release]).unwrap();
}

#[test]
fn ca_bundles_that_managers_with_a_default_name_inject_survive_a_failed_upgrade_and_a_good_one() {
    const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/quiet");
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    install_kind(cluster);
    let namespace = cluster.namespace("injected").unwrap();
    let watch = json!([{
        "group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHART, "objects": {"clusterScoped": "any"},
    }]);
    let _operator = Operator::start_in(cluster, &[&namespace], &watch.to_string());
    let webhooks = MANAGERS.map(|manager| {
        json!({
            "name": format!("{manager}.my.domain"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"name": "nobody", "namespace": namespace.name()}},
            "rules": [{"apiGroups": ["nothing.my.domain"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}],
        })
    });
    // A name for this test alone: the object is the whole cluster's.
    let kind = "validatingwebhookconfiguration";
    let set = |colour: &str, more: &[String]| {
        let metadata = json!({"name": namespace.name(), "annotations": {"colour": colour}});
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata, "webhooks": webhooks,
        });
        let objects = [&[configuration.to_string()], more].concat();
        HOLDER.set(&namespace, "web", &json!({"objects": objects}));
    };
    set("green", &[]);
    HOLDER.wait_for(&namespace, "web", "Ready");
    for (n, manager) in MANAGERS.into_iter().enumerate() {
        let path = format!("/webhooks/{n}/clientConfig/caBundle");
        let patch = json!([{"op": "add", "path": path, "value": *INJECTED}]).to_string();
        let manager = format!("--field-manager={manager}");
        cluster.kubectl(["patch", kind, namespace.name(), "--type=json", &manager, "-p", &patch]).unwrap();
    }
    let before = get(&namespace, [kind, namespace.name()]);
    let check = |colour: &str| {
        let now = get(&namespace, [kind, namespace.name()]);
        assert_eq!((uid(&now), &now["metadata"]["annotations"]["colour"]), (uid(&before), &json!(colour)));
        let bundles = [0_usize, 1].map(|n| now["webhooks"][n]["clientConfig"]["caBundle"].clone());
        assert_eq!(bundles, [json!(*INJECTED), json!(*INJECTED)], "{now}");
    };
    set("yellow", &[map_of("web-refused", &json!({"no/key": "z"}))]);
    wait_rolled_back(|| HOLDER.events_of(&namespace, "web"));
    check("green");
    set("blue", &[]);
    HOLDER.wait_for(&namespace, "web", "Ready");
    check("blue");
    namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}

#[test]
fn what_live_objects_keep_survives_an_upgrade_that_drops_it_the_resource_and_the_garbage_collector() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("kept").unwrap();
    let _operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"extra": map_of("web-dropped", &json!({"theirs": "x"}))}));
    wait_for(&namespace, "web", "Ready");
    namespace.kubectl(["annotate", "configmap", "web", "web-dropped", "helm.sh/resource-policy=keep"]).unwrap();
    let maps = || ["web", "web-dropped"].map(|name| map(&namespace, name));
    let before = maps();
    let uids = before.each_ref().map(uid);
    set(&namespace, "web", json!({"colour": "green"}));
    wait_for(&namespace, "web", "Ready");
    eventually("the upgrade", || match map(&namespace, "web")["data"]["colour"].clone() {
        colour if colour == "green" => Ok(()),
        colour => Err(colour),
    });
    let upgraded = maps();
    assert_eq!(upgraded.each_ref().map(uid), uids, "the one that is dropped stays");
    assert_eq!(upgraded[1]["metadata"]["ownerReferences"], Value::Null);
    create_sentinel(&namespace, "web");
    namespace.kubectl(["delete", "widget", "web", "--timeout=60s"]).unwrap();
    wait_gone(&namespace, "configmap", "sentinel");
    let left = maps();
    assert_eq!(left.each_ref().map(uid), uids);
    for kept in &left {
        let metadata = &kept["metadata"];
        assert_eq!((&metadata["ownerReferences"], &metadata["deletionTimestamp"]), (&Value::Null, &Value::Null));
    }
}

/// Grants the operator permissions on Jobs that are not hooks: the chart's templates have none.
fn grant_jobs(cluster: &TestCluster, namespace: &Namespace<'_>) {
    let api = "rbac.authorization.k8s.io/v1";
    let metadata = json!({"name": "jobs", "namespace": namespace.name()});
    let rules = json!([{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": namespace.name(), "namespace": "test-operators"}]);
    let bound = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jobs"});
    let all = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules},
        {"apiVersion": api, "kind": "RoleBinding", "metadata": metadata, "roleRef": bound, "subjects": subjects},
    ]});
    cluster.apply(&all.to_string()).unwrap();
}

#[test]
fn a_job_that_its_ttl_removed_has_finished_and_stays_so_after_a_restart() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("ttl").unwrap();
    grant_jobs(cluster, &namespace);
    let operator = start(cluster, &namespace);
    set(&namespace, "web", json!({"extra": job("web-once", "", &json!({}), &json!({"ttlSecondsAfterFinished": 1}))}));
    eventually("a Job", || match writes(cluster, &namespace) {
        all if all.contains(&"patch jobs/web-once".to_owned()) => Ok(()),
        all => Err(all),
    });
    wait_gone(&namespace, "job", "web-once");
    let repair = || {
        namespace
            .kubectl(["patch", "configmap", "web", "--type=merge", "-p", r#"{"data": {"colour": "red"}}"#])
            .unwrap();
        eventually("repair", || match map(&namespace, "web")["data"]["colour"].clone() {
            colour if colour == "blue" => Ok(()),
            colour => Err(colour),
        });
        wait_for(&namespace, "web", "Ready");
    };
    repair();
    drop(operator);
    let _operator = serve(cluster, &namespace);
    repair();
    assert_eq!(get(&namespace, ["job", "web-once"]), Value::Null);
    let made = writes(cluster, &namespace).into_iter().filter(|line| line == "patch jobs/web-once").count();
    assert_eq!(made, 1, "it ran once");
}

/// Timeout for noticing a restore: on a busy machine, the API server's own start is slow.
const RESTORED: Duration = Duration::from_secs(300);

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.as_ref().unwrap(), to.join(entry.as_ref().unwrap().file_name()));
        if entry.path().is_dir() { copy(&entry.path(), &to) } else { fs::copy(entry.path(), to).map(drop).unwrap() }
    }
}

#[test]
fn after_a_restore_of_etcd_changes_are_seen_without_a_restart() {
    if TestCluster::shared_or_skip().is_none() {
        return;
    }
    let cluster = TestCluster::start(Options::default()).unwrap();
    define(&cluster);
    let namespace = cluster.namespace("restored").unwrap();
    let operator = serve(&cluster, &namespace);
    set(&namespace, "web", json!({"colour": "green"}));
    wait_for(&namespace, "web", "Ready");
    let before = map(&namespace, "web");

    let (data, backup) = (cluster.folder().join("etcd"), cluster.folder().join("etcd-backup"));
    cluster.kill(Component::Etcd).unwrap();
    copy(&data, &backup);
    cluster.restart(Component::Etcd).unwrap();
    // The restore takes back more than a hundred versions.
    let later = |n: u32| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("later-{n}")}});
    let items: Vec<Value> = (0..100).map(later).collect();
    namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    set(&namespace, "web", json!({"colour": "yellow"}));
    eventually("an upgrade", || match map(&namespace, "web")["data"]["colour"].clone() {
        colour if colour == "yellow" => Ok(()),
        colour => Err(colour),
    });
    wait_for(&namespace, "web", "Ready");

    cluster.kill(Component::Etcd).unwrap();
    fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    cluster.restart(Component::Etcd).unwrap();
    cluster.restart(Component::ApiServer).unwrap();
    let restored = map(&namespace, "web");
    assert_eq!((uid(&restored), &restored["data"]["colour"]), (uid(&before), &json!("green")));
    set(&namespace, "web", json!({"colour": "blue"}));
    set(&namespace, "two", json!({"colour": "green"}));
    eventually_within(RESTORED, "the changes after the restore", || {
        let (one, two) = (map(&namespace, "web"), map(&namespace, "two"));
        if one["data"]["colour"] == "blue" && two["data"]["colour"] == "green" {
            Ok(())
        } else {
            Err((one, two, operator.log()))
        }
    });
    assert_eq!(uid(&map(&namespace, "web")), uid(&before));
    wait_for(&namespace, "web", "Ready");
    let widget = get(&namespace, ["widget", "web"]);
    assert_eq!(
        (&widget["status"]["deployedRelease"]["revision"], &condition(&widget, "Ready")["status"]),
        (&json!(2), &json!("True")),
        "{}",
        operator.log()
    );
}
