//! Tests of manual `helm` commands on our releases (running, finished, failed, abandoned), against the API server in
//! memory.

use std::sync::Arc;
use std::time::Duration;

use controller::runtime::key::ResourceKey;
use helm_release::kube::{Adopt, Error};
use helm_release::release::{ChartDocument, Info, Packed, Release, Status};
use helm_release::storage::Home;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::finished_jobs::keeping;
use super::hooks::{JOBS, complete, count, hook, killed_after, phases, reconcile_while, with_hooks};
use super::reporting::published;
use super::storage::{is_left_as_it_is_elsewhere, recording, recording_at, release};
use crate::charts::tests::{MAPS, PRIMARY, Stub, World, key, record_path, spec};
use crate::watches::OnFailure;

/// Returns Helm's manifest of these ConfigMaps.
pub(super) fn manifest(names: &[&str], value: &str) -> String {
    let map = |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}});
    names.iter().map(|name| format!("---\n{}\n", map(name))).collect()
}

/// Writes a record as Helm does: without annotations, with all labels of the previous revision.
pub(super) fn helm_writes(world: &World, version: u32, status: Status, manifest: &str, age: Duration) {
    helm_records(world, version, status, (manifest, json!({}), "0.2.0"), age);
}

/// Writes a record with this manifest, these values and this version of the chart, as Helm does.
pub(super) fn helm_records(
    world: &World,
    version: u32,
    status: Status,
    (manifest, config, chart): (&str, Value, &str),
    age: Duration,
) {
    let chart = json!({"metadata": {"name": "memcached", "version": chart, "appVersion": "1.6"}}).to_string();
    let release = Release {
        name: "web".into(),
        namespace: "ns".into(),
        version,
        info: Info { status, ..Info::default() },
        chart: Arc::new(ChartDocument::from_json(&chart).unwrap()),
        config,
        manifest: manifest.into(),
        hooks: Vec::new(),
        apply_method: "csa".into(),
        labels: Default::default(),
        record_uid: None,
        more: Default::default(),
    };
    let record = Packed::pack(&release).unwrap().to_record().into_bytes();
    let before = (1..=version).rev().find_map(|v| world.server.object(&record_path(v))).unwrap();
    let mut labels = before["metadata"]["labels"].clone();
    labels["status"] = status.as_str().into();
    labels["version"] = version.to_string().into();
    let written = Timestamp::now().as_second() - i64::try_from(age.as_secs()).unwrap();
    (labels["createdAt"], labels["modifiedAt"]) = (written.to_string().into(), written.to_string().into());
    let data = json!({"release": serde_json::to_value(ByteString(record)).unwrap()});
    let name = release.key();
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "data": data});
    world.server.put(&record_path(version), secret, "helm");
}

/// Marks our record as superseded as Helm does, which drops the annotation.
pub(super) async fn helm_supersedes(world: &World, version: u32) {
    let mut release = world.shared.storage.get("ns", "web", version).await.unwrap().release.facts().clone();
    release.info.status = Status::Superseded;
    let record = Packed::pack(&release).unwrap().to_record().into_bytes();
    let mut secret = world.server.object(&record_path(version)).unwrap();
    secret["metadata"]["annotations"] = Value::Null;
    secret["metadata"]["labels"]["status"] = "superseded".into();
    secret["data"]["release"] = serde_json::to_value(ByteString(record)).unwrap();
    world.server.put(&record_path(version), secret, "helm");
}

/// Writes a ConfigMap of the release as Helm does.
pub(super) fn helm_applies(world: &World, name: &str, value: &str) {
    let path = format!("{MAPS}/{name}");
    let annotations = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
    let metadata =
        json!({"name": name, "annotations": annotations, "labels": {"app.kubernetes.io/managed-by": "Helm"}});
    let old =
        world.server.object(&path).unwrap_or(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
    let mut map = old;
    map["data"]["value"] = value.into();
    world.server.put(&path, map, "helm");
}

async fn deployed() -> World {
    let world = World::new(spec());
    world.reconcile().await;
    world
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn an_upgrade_in_flight_is_left_alone_and_reported() {
    let world = deployed().await;
    helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a", "x"], "2"), MINUTE);
    helm_applies(&world, "a", "2");
    helm_applies(&world, "x", "2");
    world.edit(|p| p["spec"]["value"] = "3".into());
    let writes = world.server.writes();
    world.reconcile().await;
    // Only the status is written.
    assert_eq!(world.server.writes(), writes + 1);
    let said = world.condition("Irreconcilable").unwrap();
    let expected = "True/ReleaseInFlight/revision 2 of release \"web\" is pending-upgrade and was not written by this operator: a person's helm is running; the operator waits until it ends, or until 20";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(world.requests().await, 0);
    // The next reconcile is at the end of the ten minutes, one of which has passed.
    let again = world.shared.memory.of(&key()).failure.as_ref().unwrap().retry.at - tokio::time::Instant::now();
    assert!((530..=540).contains(&again.as_secs()), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_in_flight_that_ends_is_no_longer_reported_although_the_resource_is_suspended() {
    for restarts in [false, true] {
        let world = deployed().await;
        helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a", "b", "c"], "1"), MINUTE);
        world.reconcile().await;
        world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspend": "true"}));
        world.reconcile().await;
        assert_eq!(world.state("Irreconcilable"), "True/ReleaseInFlight");
        helm_writes(&world, 2, Status::Deployed, &manifest(&["a", "b", "c"], "1"), MINUTE);
        let world = if restarts { World::on(world.server) } else { world };
        world.reconcile().await;
        assert_eq!(world.condition("Irreconcilable"), None);
        assert_eq!(world.state("Suspended"), "True/SuspendAnnotation");
    }
}

#[tokio::test(start_paused = true)]
async fn what_helm_did_beside_a_release_that_is_recorded_elsewhere_changes_no_record() {
    for (status, age) in
        [(Status::PendingUpgrade, MINUTE), (Status::PendingUpgrade, 11 * MINUTE), (Status::Deployed, MINUTE)]
    {
        let world = recording(deployed().await.server, Stub::default());
        world.reconcile().await;
        assert_eq!(world.history(), ["2 deployed"]);
        helm_writes(&world, 2, status, &manifest(&["a", "x"], "2"), age);
        helm_applies(&world, "a", "2");
        let before = release(&world);
        let world = recording_at(Home::default(), world.server, Stub::default());
        world.reconcile().await;
        assert_eq!(world.state("Irreconcilable"), "True/ReleaseElsewhere", "{status:?}");
        assert_eq!(release(&world), before, "{status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_recorded_elsewhere_is_not_installed_again_once_helms_later_record_here_is_deleted() {
    let other = recording(deployed().await.server, Stub::default());
    other.reconcile().await;
    assert_eq!(other.history(), ["2 deployed"]);
    helm_writes(&other, 2, Status::Superseded, &manifest(&["a"], "2"), MINUTE);
    helm_writes(&other, 3, Status::Deployed, &manifest(&["a"], "2"), MINUTE);
    let world = recording_at(Home::default(), other.server, Stub::default());
    world.reconcile().await;
    (1..=3).for_each(|version| world.server.remove(&record_path(version)));
    world.feed();
    is_left_as_it_is_elsewhere(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_persons_rollback_ends_the_wait_for_a_hook_and_nothing_is_written_beside_it() {
    for event in ["pre-upgrade", "post-upgrade"] {
        let world = World::new(with_hooks(json!([hook("migrate", event)])));
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        let mut maps = 0;
        let began = tokio::time::Instant::now();
        reconcile_while(&world, |world| {
            helm_writes(world, 3, Status::PendingRollback, &manifest(&["a", "b", "c"], "1"), Duration::ZERO);
            maps = count(world, &format!("PATCH {MAPS}"));
        })
        .await;
        assert!(began.elapsed() < MINUTE, "{:?}", began.elapsed());
        assert_eq!(world.history(), ["1 deployed", "2 failed", "3 pending-rollback"]);
        assert_eq!(
            (count(&world, &format!("PATCH {MAPS}")), world.server.object(&format!("{JOBS}/migrate"))),
            (maps, None)
        );
        let said = world.condition("Irreconcilable").unwrap();
        assert!(said.starts_with("True/ReleaseInFlight/revision 3"), "{said}");
    }
}

/// Begins a person's rollback to the first revision, which replaces the Job at this path by its own. Returns its uid.
fn roll_back_with_hook(world: &World, path: &str) -> Value {
    helm_writes(world, 3, Status::PendingRollback, &manifest(&["a", "b", "c"], "1"), Duration::ZERO);
    world.server.remove(path);
    let metadata = json!({"name": "migrate", "annotations": {"helm.sh/hook": "pre-rollback"}});
    world.server.put(path, json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}), "helm");
    world.server.object(path).unwrap()["metadata"]["uid"].clone()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_beside_a_persons_rollback_that_begins_as_a_hook_ends_or_loses_its_job() {
    let path = format!("{JOBS}/migrate");
    for (spec, ends) in [
        (Value::Null, true),
        (Value::Null, false),
        (json!({"ttlSecondsAfterFinished": 0}), false),
        (json!({"ttlSecondsAfterFinished": 60}), false),
    ] {
        let server =
            World::new(with_hooks(json!([{"name": "migrate", "events": ["pre-upgrade"], "spec": spec}]))).server;
        let world = World::with_events(server, Arc::new(Stub::default()), |_| {});
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        let (mut maps, mut left) = (0, Value::Null);
        let uid = |world: &World| world.server.object(&path).map_or(Value::Null, |job| job["metadata"]["uid"].clone());
        reconcile_while(&world, |world| {
            if ends {
                complete(&world.server, "migrate");
                helm_writes(world, 3, Status::PendingRollback, &manifest(&["a", "b", "c"], "1"), Duration::ZERO);
            } else {
                roll_back_with_hook(world, &path);
            }
            (maps, left) = (count(world, &format!("PATCH {MAPS}")), uid(world));
        })
        .await;
        assert_eq!(world.history(), ["1 deployed", "2 failed", "3 pending-rollback"], "{spec}, ends: {ends}");
        assert_eq!((count(&world, &format!("PATCH {MAPS}")), uid(&world)), (maps, left), "{spec}, ends: {ends}");
        let phase = if ends { "migrate Succeeded" } else { "migrate Failed" };
        assert_eq!(phases(&world, 2).await, [phase], "{spec}, ends: {ends}");
        let events = published(&world).await;
        assert!(events.iter().any(|event| event.starts_with("Normal HookInterrupted ")), "{spec}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_job_that_a_persons_rollback_makes_under_the_name_of_a_hooks_outlives_that_hook() {
    let (events, policies) = (["pre-upgrade", "pre-rollback"], ["before-hook-creation", "hook-failed"]);
    let migrate = json!({"name": "migrate", "events": events, "policies": policies});
    let server = World::new(with_hooks(json!([migrate]))).server;
    let world = World::with_events(server, Arc::new(Stub::default()), |settings| settings.adopt = Adopt::Unowned);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"}));
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    let (path, mut helms) = (format!("{JOBS}/migrate"), Value::Null);
    reconcile_while(&world, |world| helms = roll_back_with_hook(world, &path)).await;
    let left = world.server.object(&path).map(|job| job["metadata"]["uid"].clone());
    assert_eq!((left, world.history().join(", ").as_str()), (Some(helms), "1 deployed, 2 failed, 3 pending-rollback"));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_finds_the_job_of_a_persons_rollback_under_its_name_is_interrupted() {
    for adopt in [Adopt::Never, Adopt::Unowned] {
        let (events, policies) = (["post-install", "pre-upgrade", "pre-rollback"], ["before-hook-creation"]);
        let migrate = json!({"name": "migrate", "events": events, "policies": policies});
        let server = World::new(with_hooks(json!([migrate]))).server;
        let world = World::with_events(server, Arc::new(Stub::default()), |settings| {
            (settings.adopt, settings.on_failure) = (adopt, OnFailure::Uninstall);
        });
        if adopt != Adopt::Never {
            world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"}));
        }
        super::hooks::reconcile(&world, "Complete").await;
        let path = format!("{JOBS}/migrate");
        let mut held = world.server.object(&path).unwrap();
        held["metadata"]["finalizers"] = json!(["x/y"]);
        world.server.put(&path, held, "someone");
        world.edit(|p| p["spec"]["value"] = "2".into());
        let mut helms = Value::Null;
        reconcile_while(&world, |world| helms = roll_back_with_hook(world, &path)).await;
        let left = world.server.object(&path).map(|job| job["metadata"]["uid"].clone());
        assert_eq!(left, Some(helms), "{adopt:?}");
        assert_eq!(world.history(), ["1 deployed", "2 failed", "3 pending-rollback"], "{adopt:?}");
        assert_eq!((world.maps().len(), world.value_of("a")), (3, json!("1")), "{adopt:?}");
        let events = published(&world).await;
        assert!(events.iter().any(|event| event.starts_with("Normal HookInterrupted ")), "{adopt:?}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_helm_rewrites_in_the_record_of_an_upgrade_ends_none_of_its_hooks() {
    // `helm test` writes the newest record whatever its status is, and `helm uninstall` marks it.
    for status in [Status::PendingUpgrade, Status::Uninstalling] {
        let world = World::new(with_hooks(json!([hook("migrate", "pre-upgrade")])));
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        reconcile_while(&world, |world| {
            helm_writes(world, 2, status, &manifest(&["a", "b", "c"], "2"), Duration::ZERO);
        })
        .await;
        assert_eq!(
            (world.history(), world.value_of("a")),
            (vec!["1 superseded".into(), "2 deployed".into()], json!("2"))
        );
        assert_eq!(count(&world, &format!("POST {JOBS}")), 1, "{status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_helm_rewrites_in_the_record_of_an_upgrade_after_a_dead_one_ends_none_of_its_hooks() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-upgrade")])));
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    killed_after(&world, 30).await;
    world.edit(|p| p["spec"]["value"] = "3".into());
    let world = World::on(world.server);
    reconcile_while(&world, |world| {
        helm_writes(world, 3, Status::PendingUpgrade, &manifest(&["a", "b", "c"], "3"), Duration::ZERO);
    })
    .await;
    assert_eq!((world.history().last().unwrap().as_str(), world.value_of("a")), ("3 deployed", json!("3")));
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_a_dead_process_started_ends_although_a_persons_revision_followed() {
    for is_deleted in [false, true] {
        let migrate = json!({"name": "migrate", "events": ["pre-upgrade"], "policies": ["hook-failed"]});
        let world = World::new(with_hooks(json!([migrate])));
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        killed_after(&world, 30).await;
        helm_supersedes(&world, 1).await;
        helm_writes(&world, 3, Status::Deployed, &manifest(&["a", "b", "c"], "1"), MINUTE);
        let world = World::on(world.server);
        if is_deleted {
            world.delete();
        }
        super::hooks::reconcile(&world, "Complete").await;
        if is_deleted {
            assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
        } else {
            let expected = ["2 failed", "3 superseded", "4 deployed"];
            assert_eq!((world.history(), world.value_of("a")), (expected.map(str::to_owned).to_vec(), json!("2")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_a_dead_process_started_ends_although_a_persons_revision_is_taken_over() {
    let migrate = json!({"name": "migrate", "events": ["pre-upgrade"], "policies": ["hook-failed"]});
    let world = World::new(with_hooks(json!([migrate])));
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    killed_after(&world, 30).await;
    helm_supersedes(&world, 1).await;
    helm_writes(&world, 3, Status::Deployed, &manifest(&["a", "b", "c"], "1"), MINUTE);
    world.edit(|p| p["spec"]["value"] = "1".into());
    assert!(world.server.object(&format!("{JOBS}/migrate")).is_some());
    let world = World::on(world.server);
    super::hooks::reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "no revision followed");
    assert_eq!(phases(&world, 2).await, ["migrate Failed"]);
    assert_eq!(world.server.object(&format!("{JOBS}/migrate")), None);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_succeeded_is_undone_once_without_orphans() {
    let world = deployed().await;
    helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a", "x"], "2"), MINUTE);
    world.reconcile().await;
    // Helm continues only now: b and c are not in its chart.
    helm_applies(&world, "a", "2");
    helm_applies(&world, "x", "2");
    ["b", "c"].iter().for_each(|name| world.server.remove(&format!("{MAPS}/{name}")));
    helm_supersedes(&world, 1).await;
    helm_writes(&world, 2, Status::Deployed, &manifest(&["a", "x"], "2"), MINUTE);
    world.reconcile().await;
    assert_eq!((world.maps(), world.value_of("a")), (vec!["a".to_owned(), "b".into(), "c".into()], json!("1")));
    assert_eq!(world.history(), ["1 superseded", "2 superseded", "3 deployed"]);
    assert_eq!(world.condition("Irreconcilable"), None);
    assert_eq!(world.state("Ready"), "True/Ready");
    assert_eq!(world.requests().await, 0);
    let world = World::on(world.server);
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_event_names_the_upgrade_that_is_undone_and_how_to_keep_one() {
    let server = World::new(spec()).server;
    let world = World::with_events(server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    helm_applies(&world, "a", "2");
    helm_supersedes(&world, 1).await;
    helm_writes(&world, 2, Status::Deployed, &manifest(&["a"], "2"), MINUTE);
    world.reconcile().await;
    let events = published(&world).await;
    let undone = events.iter().find(|event| event.contains("HelmChangeUndone"));
    let undone = undone.unwrap_or_else(|| panic!("{events:#?} {:?}", world.history()));
    assert!(undone.starts_with("Warning HelmChangeUndone x1: revision 2 was made with helm and is undone"), "{undone}");
    assert!(undone.contains("set the annotation helm.sdk.operatorframework.io/suspend to \"true\" first"), "{undone}");
    assert_eq!(world.history(), ["1 superseded", "2 superseded", "3 deployed"]);
}

const READER: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader";

fn reader(verb: &str) -> Value {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    let metadata = json!({"name": "reader"});
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules})
}

/// Returns the object as Helm makes it, or replaces it with `--force`.
fn with_helms_metadata(mut object: Value) -> Value {
    object["metadata"]["annotations"] =
        json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
    object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    object
}

#[tokio::test(start_paused = true)]
async fn what_a_person_replaced_outside_the_namespace_is_the_releases_again_once_it_is_annotated() {
    let world = World::new(json!({"objects": [reader("get")]}));
    world.reconcile().await;
    let uid = |world: &World| world.server.object(READER).unwrap()["metadata"]["uid"].clone();
    let before = uid(&world);
    world.server.put(READER, with_helms_metadata(reader("list")), "helm");
    assert_eq!(uid(&world), before, "it is replaced in place");
    helm_supersedes(&world, 1).await;
    helm_writes(&world, 2, Status::Deployed, &format!("---\n{}\n", reader("list")), MINUTE);
    world.reconcile().await;
    let refused = ["ReleaseFailed", "Irreconcilable"].into_iter().find_map(|kind| world.condition(kind));
    let condition = refused.unwrap();
    let missing = "missing key \"operator-sdk/primary-resource\": must be set to \"ns/web\"";
    assert!(condition.starts_with("True/ReleaseConflict/") && condition.contains(missing), "{condition}");
    let mut annotated = world.server.object(READER).unwrap();
    assert_eq!(annotated["rules"][0]["verbs"], json!(["list"]));
    annotated["metadata"]["annotations"]["operator-sdk/primary-resource"] = "ns/web".into();
    world.server.put(READER, annotated, "kubectl");
    tokio::time::advance(10 * MINUTE).await;
    world.reconcile().await;
    let verbs = world.server.object(READER).unwrap()["rules"][0]["verbs"].clone();
    assert_eq!((verbs, uid(&world)), (json!(["get"]), before));
    assert_eq!(world.history().last().unwrap(), "3 deployed");
}

#[tokio::test(start_paused = true)]
async fn an_event_names_what_only_a_persons_upgrade_made_outside_the_namespace() {
    for is_deleted in [false, true] {
        let world = World::with_events(deployed().await.server, Arc::new(Stub::default()), |_| {});
        world.server.put(READER, with_helms_metadata(reader("get")), "helm");
        let before = world.server.object(READER);
        helm_supersedes(&world, 1).await;
        let upgraded = format!("{}---\n{}\n", manifest(&["a"], "2"), reader("get"));
        helm_writes(&world, 2, Status::Deployed, &upgraded, MINUTE);
        if is_deleted {
            world.delete();
        }
        world.reconcile().await;
        assert_eq!(world.server.object(READER), before);
        let rest = (world.maps().len(), world.server.object(PRIMARY).is_some());
        assert_eq!(rest, if is_deleted { (0, false) } else { (3, true) });
        let events = published(&world).await;
        let is_named = |event: &String| {
            event.starts_with("Warning ObjectLeft ") && event.contains(": left ClusterRole \"reader\": only Helm's")
        };
        assert!(events.iter().any(is_named), "{is_deleted}: {events:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_does_not_wait_for_what_it_leaves() {
    let world = deployed().await;
    world.server.put(READER, with_helms_metadata(reader("get")), "helm");
    let before = world.server.object(READER);
    helm_supersedes(&world, 1).await;
    let upgraded = format!("{}---\n{}\n", manifest(&["a"], "2"), reader("get"));
    helm_writes(&world, 2, Status::Deployed, &upgraded, MINUTE);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
    world.delete();
    world.reconcile().await;
    assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 0), "it waits for nothing");
    assert_eq!(world.server.object(READER), before);
}

#[tokio::test(start_paused = true)]
async fn one_event_names_what_an_uninstall_leaves_however_often_it_looks() {
    let world = World::with_events(deployed().await.server, Arc::new(Stub::default()), |_| {});
    let mut upgraded = manifest(&["a"], "2");
    for name in ["v", "w", "x", "y", "z"] {
        let mut role = reader("get");
        role["metadata"]["name"] = name.into();
        upgraded.push_str(&format!("---\n{role}\n"));
        world.server.put(&READER.replace("reader", name), with_helms_metadata(role), "helm");
    }
    helm_supersedes(&world, 1).await;
    helm_writes(&world, 2, Status::Deployed, &upgraded, MINUTE);
    let path = format!("{MAPS}/a");
    let mut held = world.server.object(&path).unwrap();
    held["metadata"]["finalizers"] = json!(["example.com/backup"]);
    world.server.put(&path, held, "someone");
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
    world.delete();
    for _ in 0..3 {
        world.reconcile().await;
        assert!(world.server.object(PRIMARY).is_some(), "it waits");
        tokio::time::advance(10 * MINUTE).await;
    }
    world.server.remove(&path);
    world.reconcile().await;
    assert_eq!(world.server.object(PRIMARY), None);
    let events = published(&world).await;
    let left: Vec<&String> = events.iter().filter(|event| event.contains(" ObjectLeft ")).collect();
    let expected =
        "Warning ObjectLeft x1: left ClusterRole \"v\", ClusterRole \"w\", ClusterRole \"x\" and 2 more: only Helm's";
    assert!(left.len() == 1 && left[0].starts_with(expected), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_was_seen_in_flight_is_named_when_it_is_undone() {
    let server = World::new(spec()).server;
    let world = World::with_events(server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    let before = world.server.object(PRIMARY).unwrap()["status"]["deployedRelease"].clone();
    helm_writes(&world, 2, Status::PendingRollback, &manifest(&["a"], "2"), Duration::ZERO);
    world.reconcile().await;
    helm_applies(&world, "a", "2");
    helm_supersedes(&world, 1).await;
    // No revision is deployed at this moment, and the status keeps the previous one.
    world.reconcile().await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["status"]["deployedRelease"], before);
    helm_writes(&world, 2, Status::Deployed, &manifest(&["a"], "2"), Duration::ZERO);
    world.reconcile().await;
    let events = published(&world).await;
    let has = |text: &str| assert!(events.iter().any(|event| event.contains(text)), "{text}: {events:#?}");
    has("Warning HelmChangeUndone x1: revision 2 was made with helm and is undone");
    has("to revision 3: undoes revision 2, which was made with helm");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_changed_nothing_makes_no_revision() {
    let world = deployed().await;
    helm_supersedes(&world, 1).await;
    helm_writes(&world, 2, Status::Deployed, &manifest(&["a", "b", "c"], "1"), MINUTE);
    let world = World::on(world.server);
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    assert_eq!(world.requests().await, 0);
    world.edit(|p| p["spec"]["maps"] = json!(["a"]));
    world.reconcile().await;
    assert_eq!((world.maps(), world.history().len()), (vec!["a".to_owned()], 3));
}

/// Creates a suspended release with the ConfigMap `y`, which only its failed upgrade made, and so many upgrades by a person
/// since then.
async fn upgraded_by_a_person_after_a_failure(upgrades: u32) -> World {
    let world = keeping(World::new(spec()).server);
    world.reconcile().await;
    world.server.refuse(|call| {
        let is_written = call.method != http::Method::GET && call.path.contains("/deployments");
        is_written.then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.edit(|p| {
        (p["spec"]["maps"], p["spec"]["deployments"]) = (json!(["a", "b", "c", "y"]), json!(["late"]));
    });
    world.reconcile().await;
    world.server.accept();
    assert_eq!(world.maps(), ["a", "b", "c", "y"]);
    assert_eq!(world.history(), ["1 deployed", "2 failed"]);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspend": "true"}));
    ["a", "b", "c"].iter().for_each(|name| helm_applies(&world, name, "1"));
    for version in 3..3 + upgrades {
        helm_supersedes(&world, if version == 3 { 1 } else { version - 1 }).await;
        helm_writes(&world, version, Status::Deployed, &manifest(&["a", "b", "c"], "1"), MINUTE);
    }
    world.reconcile().await;
    assert_eq!(world.maps(), ["a", "b", "c", "y"], "not yet");
    world
}

#[tokio::test(start_paused = true)]
async fn what_only_a_failed_upgrade_made_goes_although_a_person_upgraded_after_it() {
    for (change, upgrades, maps, last) in [
        ("another spec", 1, vec!["a", "b", "c"], Some("4 deployed")),
        ("another spec", 3, vec!["a", "b", "c"], Some("6 deployed")),
        ("the spec of the person's upgrade", 1, vec!["a", "b", "c"], Some("3 deployed")),
        ("the spec of the person's upgrade", 3, vec!["a", "b", "c"], Some("5 deployed")),
        ("a deletion", 1, vec![], None),
        ("a deletion", 3, vec![], None),
    ] {
        let world = keeping(upgraded_by_a_person_after_a_failure(upgrades).await.server);
        world.edit(|p| (p["metadata"]["annotations"], p["spec"]) = (json!({}), spec()));
        match change {
            "another spec" => world.edit(|p| p["spec"]["value"] = "2".into()),
            "a deletion" => world.delete(),
            _ => {}
        }
        world.reconcile().await;
        assert_eq!(
            (world.maps(), world.history().last().map(String::as_str)),
            (maps.iter().map(|name| (*name).to_owned()).collect(), last),
            "{change} after {upgrades} upgrades"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_a_failed_upgrade_made_goes_although_a_person_upgraded_and_the_records_moved_since() {
    for (upgrades, value) in [(1, "1"), (1, "2"), (3, "1"), (3, "2")] {
        let world = recording(upgraded_by_a_person_after_a_failure(upgrades).await.server, Stub::default());
        world.edit(|p| (p["metadata"]["annotations"], p["spec"]) = (json!({}), spec()));
        world.edit(|p| p["spec"]["value"] = value.into());
        world.reconcile().await;
        assert_eq!(world.maps(), ["a", "b", "c"], "{value} after {upgrades} upgrades");
        assert_eq!(world.value_of("a"), value, "after {upgrades} upgrades");
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_a_persons_failed_or_killed_upgrade_made_goes_although_another_followed_unless_it_is_others() {
    for (status, value) in
        [(Status::Failed, "1"), (Status::Failed, "2"), (Status::PendingUpgrade, "1"), (Status::PendingUpgrade, "2")]
    {
        let world = deployed().await;
        world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspend": "true"}));
        ["a", "b", "c", "x"].iter().for_each(|name| helm_applies(&world, name, "1"));
        let others = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y"}});
        world.server.put(&format!("{MAPS}/y"), others, "someone");
        helm_writes(&world, 2, status, &manifest(&["a", "b", "c", "x", "y"], "1"), MINUTE);
        let unsuccessful = world.server.object(&record_path(2));
        helm_supersedes(&world, 1).await;
        helm_writes(&world, 3, Status::Deployed, &manifest(&["a", "b", "c"], "1"), MINUTE);
        world.reconcile().await;
        let world = World::on(world.server);
        world.edit(|p| (p["metadata"]["annotations"], p["spec"]["value"]) = (json!({}), value.into()));
        world.reconcile().await;
        assert_eq!(world.maps(), ["a", "b", "c", "y"], "{status:?}, {value}");
        assert_eq!(world.server.object(&record_path(2)), unsuccessful, "{status:?}, {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_a_persons_failed_command_made_goes_although_the_records_moved_since() {
    for was_deployed in [true, false] {
        let world = deployed().await;
        helm_applies(&world, "x", "1");
        helm_writes(&world, 2, Status::Failed, &manifest(&["a", "b", "c", "x"], "1"), MINUTE);
        if !was_deployed {
            // A rollback that fails leaves nothing deployed.
            helm_supersedes(&world, 1).await;
        }
        let uid = |world: &World| world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
        let before = uid(&world);
        let world = recording(world.server, super::with_sources());
        world.reconcile().await;
        assert_eq!((world.maps(), uid(&world)), (vec!["a".to_owned(), "b".into(), "c".into()], before));
        assert_eq!(world.history(), ["3 deployed"], "deployed: {was_deployed}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_in_flight_is_left_alone_although_the_records_moved() {
    for is_deleted in [false, true] {
        let world = deployed().await;
        helm_applies(&world, "x", "2");
        let upgrade = manifest(&["a", "b", "c", "x"], "2");
        helm_writes(&world, 2, Status::PendingUpgrade, &upgrade, MINUTE);
        let world = recording(world.server, super::with_sources());
        if is_deleted {
            world.delete();
        }
        world.reconcile().await;
        let said = world.condition("Irreconcilable").unwrap();
        let expected = "True/ReleaseInFlight/revision 2 of release \"web\" is pending-upgrade and was not written by this operator";
        assert!(said.starts_with(expected), "{said}");
        assert_eq!((world.maps().len(), world.history()), (4, vec![]), "deleted: {is_deleted}");

        helm_writes(&world, 2, Status::PendingUpgrade, &upgrade, 11 * MINUTE);
        tokio::time::advance(10 * MINUTE).await;
        world.reconcile().await;
        let left = if is_deleted { vec![] } else { vec!["a", "b", "c"] };
        assert_eq!(world.maps(), left, "deleted: {is_deleted}");
    }
}

/// Writes a revision of the resource's own chart and values with this manifest, as `helm upgrade --reuse-values` does.
fn helm_repeats(world: &World, manifest: &str) {
    let config = world.server.object(PRIMARY).unwrap()["spec"].clone();
    helm_records(world, 2, Status::Deployed, (manifest, config, "0.1.0"), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn what_a_post_renderer_did_in_an_upgrade_with_the_same_values_is_undone_once() {
    for (restarts, is_reported) in [(false, false), (true, false), (true, true)] {
        let stub = || Arc::new(super::with_sources());
        let world = World::rendering(World::new(spec()).server, stub());
        world.reconcile().await;
        helm_applies(&world, "a", "rendered again");
        helm_supersedes(&world, 1).await;
        helm_repeats(&world, &manifest(&["a", "b", "c"], "rendered again"));
        if is_reported {
            world.edit(|p| p["status"]["deployedRelease"]["revision"] = 2.into());
        }
        let world = if restarts { World::rendering(world.server, stub()) } else { world };
        world.reconcile().await;
        assert_eq!(world.value_of("a"), "1", "restarts: {restarts}, the status names it: {is_reported}");
        assert_eq!(world.history(), ["1 superseded", "2 superseded", "3 deployed"]);
        assert_eq!(world.requests().await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_post_renderer_did_is_undone_even_if_that_has_to_wait() {
    let limited = |server| {
        World::with_events(server, Arc::new(super::with_sources()), |settings| settings.max_parallel_upgrades = 1)
    };
    let world = limited(World::new(spec()).server);
    world.reconcile().await;
    let another = ResourceKey::new("ns", "another");
    assert!(world.shared.rollout.take(|| true, &another));
    helm_applies(&world, "a", "rendered again");
    helm_supersedes(&world, 1).await;
    helm_repeats(&world, &manifest(&["a", "b", "c"], "rendered again"));
    for _ in 0..3 {
        world.reconcile().await;
        assert_eq!(world.value_of("a"), "rendered again");
    }
    world.shared.rollout.leave(&another);
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "1");
    assert_eq!(world.history(), ["1 superseded", "2 superseded", "3 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn random_values_of_an_upgrade_with_the_same_values_stay() {
    let stub = || Arc::new(Stub { is_random: true, ..super::with_sources() });
    let world = World::rendering(World::new(spec()).server, stub());
    world.reconcile().await;
    helm_supersedes(&world, 1).await;
    ["a", "b", "c"].iter().for_each(|name| helm_applies(&world, name, "helm's password"));
    helm_repeats(&world, &manifest(&["a", "b", "c"], "helm's password"));
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().len()), (json!("helm's password"), 2));
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_upgrade_leaves_nothing_behind() {
    let world = deployed().await;
    helm_applies(&world, "a", "2");
    helm_applies(&world, "x", "2");
    helm_applies(&world, "y", "2");
    helm_writes(&world, 2, Status::Failed, &manifest(&["a", "x"], "2"), MINUTE);
    helm_writes(&world, 3, Status::Failed, &manifest(&["a", "y"], "2"), MINUTE);
    world.reconcile().await;
    assert_eq!((world.maps(), world.value_of("a")), (vec!["a".to_owned(), "b".into(), "c".into()], json!("1")));
    assert_eq!(world.history().last().unwrap(), "4 deployed");
}

#[tokio::test(start_paused = true)]
async fn a_failed_rollback_loses_nothing_that_was_deployed() {
    for restarts in [false, true] {
        let world = deployed().await;
        world.edit(|p| p["spec"] = json!({"maps": ["a", "b"], "value": "2"}));
        world.reconcile().await;
        helm_supersedes(&world, 2).await;
        helm_writes(&world, 3, Status::Failed, &manifest(&["a", "b", "c"], "1"), MINUTE);
        helm_applies(&world, "c", "1");
        let uid = world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
        let world = if restarts { World::on(world.server) } else { world };
        world.reconcile().await;
        assert_eq!((world.maps(), world.value_of("a")), (vec!["a".to_owned(), "b".into()], json!("2")));
        assert_eq!(world.history().last().unwrap(), "4 deployed");
        assert_eq!(world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"], uid);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_upgrade_is_healed_after_ten_minutes() {
    let world = deployed().await;
    helm_applies(&world, "a", "2");
    helm_applies(&world, "x", "2");
    helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a", "x"], "2"), 11 * MINUTE);
    world.reconcile().await;
    assert_eq!((world.maps(), world.value_of("a")), (vec!["a".to_owned(), "b".into(), "c".into()], json!("1")));
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    let abandoned = world.shared.storage.get("ns", "web", 2).await.unwrap().release.facts().clone();
    assert_eq!(abandoned.info.status, Status::Failed);
    assert_eq!(abandoned.info.description, "Abandoned: it was pending-upgrade and nothing happened for ten minutes");
    assert_eq!(world.state("Ready"), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn a_release_last_written_by_helm_is_still_ours() {
    // The only record lost its annotation; all others are Helm's.
    let world = deployed().await;
    helm_supersedes(&world, 1).await;
    helm_writes(&world, 2, Status::Deployed, &manifest(&["a"], "2"), MINUTE);
    world.server.remove(&record_path(1));
    let world = World::on(world.server);
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.condition("Irreconcilable")), (3, None));
    assert_eq!(world.history().last().unwrap(), "3 deployed");
}

#[tokio::test(start_paused = true)]
async fn a_resource_deleted_while_helm_runs_goes_with_everything_that_helm_made() {
    let world = deployed().await;
    helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a", "x"], "2"), MINUTE);
    world.delete();
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().contains("ReleaseInFlight"));
    assert_eq!(world.maps().len(), 3);
    helm_applies(&world, "x", "2");
    helm_writes(&world, 2, Status::Failed, &manifest(&["a", "x"], "2"), MINUTE);
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_helm_records_while_the_release_is_uninstalled_is_not_forgotten() {
    let world = deployed().await;
    world.delete();
    world.server.slow_down(Duration::from_secs(1));
    let helm = async {
        // The record goes last.
        while !world.maps().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a", "x"], "2"), Duration::ZERO);
        world.feed();
    };
    tokio::join!(world.reconcile(), helm);
    assert!(world.condition("Irreconcilable").unwrap().contains("ReleaseInFlight"));
    helm_applies(&world, "x", "2");
    helm_writes(&world, 2, Status::Failed, &manifest(&["a", "x"], "2"), MINUTE);
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn a_manual_uninstall_is_left_alone_and_then_reinstalled() {
    let world = deployed().await;
    helm_writes(&world, 1, Status::Uninstalling, &manifest(&["a", "b", "c"], "1"), MINUTE);
    ["a", "b"].iter().for_each(|name| world.server.remove(&format!("{MAPS}/{name}")));
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().contains("revision 1 of release \"web\" is uninstalling"));
    assert_eq!(world.maps(), ["c"]);
    world.server.remove(&format!("{MAPS}/c"));
    world.server.remove(&record_path(1));
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
    assert_eq!(world.condition("Irreconcilable"), None);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_first_deployment_is_kept() {
    let world = deployed().await;
    let first = async |world: &World, version| {
        world.shared.storage.get("ns", "web", version).await.unwrap().release.facts().info.first_deployed
    };
    let time = first(&world, 1).await;
    assert!(time.is_some());
    let world = World::on(world.server);
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!(first(&world, 2).await, time);
    // Another revision by Helm does not change it, although its record has the same content.
    let world = World::on(world.server);
    world.edit(|p| p["spec"]["value"] = "3".into());
    world.reconcile().await;
    assert_eq!(first(&world, 3).await, time);
    assert!(world.server.object(PRIMARY).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_a_person_begins_while_a_render_fails_is_not_rolled_back() {
    let world = deployed().await;
    world.edit(|p| (p["spec"]["broken"], p["spec"]["seconds"]) = (true.into(), 10.into()));
    let helm = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a", "b", "c"], "helm"), Duration::ZERO);
        world.feed();
        world.server.object(&record_path(2)).unwrap()["data"].clone()
    };
    let (_, record) = tokio::join!(world.reconcile(), helm);
    assert_eq!(world.server.object(&record_path(2)).unwrap()["data"], record, "it is Helm's");
    assert_eq!(
        (world.value_of("a"), world.history()),
        (json!("1"), vec!["1 deployed".into(), "2 pending-upgrade".into()])
    );
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/RenderError/"));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_a_person_began_unseen_is_not_overwritten() {
    let world = deployed().await;
    world.edit(|p| (p["spec"]["value"], p["spec"]["seconds"]) = ("2".into(), 10.into()));
    let helm = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a", "b", "c"], "helm"), Duration::ZERO);
        world.server.object(&record_path(2)).unwrap()
    };
    let (_, record) = tokio::join!(world.reconcile(), helm);
    assert_eq!((world.server.object(&record_path(2)), world.value_of("a")), (Some(record), json!("1")));
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().contains("ReleaseInFlight"));
}

#[tokio::test(start_paused = true)]
async fn what_upgrades_with_helm_again_and_again_is_named_and_undone_ever_more_slowly() {
    let server = World::new(spec()).server;
    let world = World::with_events(server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    let newest = |world: &World| {
        let release = world.shared.cache.release(&key()).unwrap();
        release.newest().map(|(version, revision)| (version, revision.is_sealed())).unwrap()
    };
    let mut said = None;
    for _ in 0..600 {
        let (version, is_ours) = newest(&world);
        if is_ours {
            helm_supersedes(&world, version).await;
            helm_writes(&world, version + 1, Status::Deployed, &manifest(&["a"], "helm"), MINUTE);
        }
        world.reconcile().await;
        said = world.condition("Irreconcilable").or(said);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    // 5 at once, and then after 4 + 8 + 16 + … seconds.
    let (version, _) = newest(&world);
    assert!((20..=30).contains(&version), "{version} revisions in ten minutes");
    let said = said.unwrap();
    assert!(said.starts_with("True/OtherOperator/revision "), "{said}");
    assert!(said.contains("of release \"web\" was made with helm or by another operator, and such"), "{said}");
    assert!(said.contains("suspend"), "{said}");
}

/// Makes a record unreadable; it keeps its metadata.
fn spoil(world: &World, version: u32) {
    let mut secret = world.server.object(&record_path(version)).unwrap();
    secret["data"]["release"] = serde_json::to_value(ByteString(b"garbage".to_vec())).unwrap();
    world.server.put(&record_path(version), secret, "user");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_decoded_does_not_block_a_deletion_for_ever() {
    let world = deployed().await;
    helm_supersedes(&world, 1).await;
    helm_writes(&world, 2, Status::Deployed, &manifest(&["a"], "helm"), Duration::ZERO);
    spoil(&world, 2);
    let foreign = json!({"metadata": {"name": "foreign"}});
    world.server.put(&format!("{MAPS}/foreign"), foreign, "user");
    world.delete();
    world.reconcile().await;
    assert!(world.server.object(PRIMARY).is_none());
    assert_eq!(world.maps(), ["foreign"]);
    assert!(world.server.object(&record_path(2)).is_none(), "the record goes, too");
}
