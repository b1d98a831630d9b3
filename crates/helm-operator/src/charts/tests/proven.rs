//! Tests of forged, edited, copied and replayed records: nothing in them is applied, restored or run, and the release
//! loses nothing.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use helm_release::kube::{Allowed, Reach};
use helm_release::release::{HookEvent, Release};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::reporting::published;
use super::unanswered::Ailing;
use super::*;
use crate::watches::OnFailure;

const PWNED: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/pwned";
const JOBS: &str = "/apis/batch/v1/namespaces/ns/jobs";

/// Returns an object that a tenant must not be able to apply.
fn pwned() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "pwned"}, "rules": []})
}

/// Creates a server that has the kinds of these tests.
fn server(spec: Value) -> Arc<MemoryApi> {
    let world = World::new(spec);
    world.server.serve_cluster_scoped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles");
    world.server.serve("batch/v1", "Job", "jobs");
    world.server
}

async fn installed(spec: Value) -> World {
    let world = World::on(server(spec));
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
    world
}

/// Returns the Secret of a record with changed content, as anyone who may write Secrets can create it: labels, marks
/// and seal stay.
async fn with_content(world: &World, version: u32, change: impl FnOnce(&mut Release)) -> Value {
    let mut release = world.shared.storage.get("ns", "web", version).await.unwrap().release.facts().clone();
    change(&mut release);
    let content = Packed::pack(&release).unwrap().to_record().into_bytes();
    let mut secret = world.server.object(&record_path(version)).unwrap();
    secret["data"]["release"] = serde_json::to_value(ByteString(content)).unwrap();
    secret["metadata"]["labels"]["status"] = release.info.status.as_str().into();
    secret
}

/// Replaces the content of a record.
async fn edit_record(world: &World, version: u32, change: impl FnOnce(&mut Release)) {
    let secret = with_content(world, version, change).await;
    world.server.put(&record_path(version), secret, "tenant");
}

/// Copies the record of revision 1 to revision 2.
async fn forge(world: &World, status: Status) {
    let mut secret = with_content(world, 1, |release| {
        release.version = 2;
        release.info.status = status;
        release.manifest = format!("---\n{}\n", pwned());
    })
    .await;
    secret["metadata"]["name"] = "sh.helm.release.v1.web.v2".into();
    secret["metadata"]["labels"]["version"] = "2".into();
    world.server.put(&record_path(2), secret, "tenant");
}

/// Rejects the ConfigMap `d` in every kind of write.
fn refuse_d(world: &World) {
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, body)| String::from_utf8_lossy(body)).unwrap_or_default();
        let is_d = call.path.contains("/configmaps") && body.contains("\"name\":\"d\"");
        is_d.then(|| Error::from_status(422, "Invalid", "no"))
    });
}

/// Creates a process that has just started, on the same server.
fn restarted(world: World) -> World {
    World::on(world.server)
}

#[tokio::test(start_paused = true)]
async fn a_forged_revision_is_not_applied_and_is_reported() {
    for status in
        [Status::PendingUpgrade, Status::PendingInstall, Status::PendingRollback, Status::Deployed, Status::Failed]
    {
        for restarts in [false, true] {
            let mut world = installed(spec()).await;
            forge(&world, status).await;
            if restarts {
                world = restarted(world);
            }
            world.reconcile().await;
            assert!(world.server.object(PWNED).is_none(), "{status:?}");
            assert_eq!((world.maps(), world.value_of("a")), (vec!["a".into(), "b".into(), "c".into()], json!("1")));
            let condition = world.condition("UnprovenRecords").unwrap();
            assert!(condition.starts_with("True/UnprovenRecords/in namespace \"ns\", this operator did not write the release records sh.helm.release.v1.web.v2 as they are"), "{condition}");
            assert_eq!(world.state("Ready"), "True/Ready", "{status:?}");
            assert_eq!(world.requests().await, 0, "once");
            world.server.remove(&record_path(2));
            world.reconcile().await;
            assert_eq!(world.condition("UnprovenRecords"), None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_action_resumes_only_from_what_this_operator_rendered() {
    let world = World::on(server(json!({"maps": ["a", "b"], "value": "1"})));
    // The writes of the finalizer and the record.
    world.server.fail_after(Some(2));
    world.reconcile().await;
    world.server.fail_after(None);
    let world = restarted(world);
    assert_eq!(world.history(), ["1 pending-install"]);
    let evil = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "evil"}, "spec": {}});
    edit_record(&world, 1, |release| {
        release.manifest = format!("---\n{}\n", pwned());
        let (name, manifest) = ("evil".into(), evil.to_string());
        release.hooks =
            vec![Hook { name, manifest, kind: "Job".into(), events: vec![HookEvent::PreInstall], ..Hook::default() }];
    })
    .await;
    let world = restarted(world);
    world.reconcile().await;
    assert!(world.server.object(PWNED).is_none() && world.server.object(&format!("{JOBS}/evil")).is_none());
    assert_eq!((world.maps().len(), world.history()), (2, vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn drift_is_not_repaired_from_a_changed_record() {
    for warm in [false, true] {
        let mut world = installed(spec()).await;
        edit_record(&world, 1, |release| {
            release.manifest = format!("{}---\n{}\n", release.manifest.replace("\"1\"", "\"theirs\""), pwned());
        })
        .await;
        if !warm {
            world = restarted(world);
        }
        world.server.remove(&format!("{MAPS}/a"));
        world.reconcile().await;
        assert_eq!((world.value_of("a"), world.server.object(PWNED)), (json!("1"), None));
        let newest = world.shared.storage.get("ns", "web", world.history().len() as u32).await.unwrap();
        // A process that remembers the record does not need the seal.
        assert_eq!(newest.release.is_sealed(), !warm);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_upgrade_is_not_rolled_back_to_a_changed_record() {
    let world = installed(spec()).await;
    edit_record(&world, 1, |release| release.manifest = format!("{}---\n{}\n", release.manifest, pwned())).await;
    let world = restarted(world);
    refuse_d(&world);
    world.edit(|p| p["spec"]["maps"] = json!(["a", "d"]));
    for _ in 0..3 {
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert!(world.server.object(PWNED).is_none());
    assert!(world.condition("ReleaseFailed").is_some(), "the upgrade failed");
    assert!(world.maps().contains(&"a".to_owned()), "{:?}", world.maps());
}

#[tokio::test(start_paused = true)]
async fn edited_marks_delete_nothing_of_others_and_the_release_still_goes_as_a_whole() {
    for deletes in [false, true] {
        let world = installed(spec()).await;
        let precious = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious", "annotations": {"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"}}});
        world.server.put(&format!("{MAPS}/precious"), precious, "user");
        world.server.put(
            &format!("{MAPS}/plain"),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}}),
            "user",
        );
        let mut secret = world.server.object(&record_path(1)).unwrap();
        let marks = secret["metadata"]["annotations"][MARKS_ANNOTATION].as_str().unwrap();
        // Replaces each of two objects with another one.
        let marks = marks.replace("\"a\"", "\"precious\"").replace("\"b\"", "\"plain\"");
        secret["metadata"]["annotations"][MARKS_ANNOTATION] = marks.into();
        world.server.put(&record_path(1), secret, "tenant");
        let world = restarted(world);
        match deletes {
            true => world.delete(),
            false => world.edit(|p| p["spec"]["maps"] = json!(["c"])),
        }
        world.reconcile().await;
        let left: &[&str] = if deletes { &["plain", "precious"] } else { &["c", "plain", "precious"] };
        assert_eq!(world.maps(), left, "deletes: {deletes}");
        assert_eq!(world.server.object(PRIMARY).is_none(), deletes);
    }
}

/// Returns a spec with a hook that runs before the release is uninstalled.
fn with_hook() -> Value {
    json!({"maps": ["a"], "value": "1", "hooks": [{"name": "bye", "events": ["pre-delete"], "spec": {}}]})
}

/// Completes all Jobs.
fn finish_jobs(server: &MemoryApi) {
    for path in server.paths().into_iter().filter(|path| path.starts_with(JOBS)) {
        let mut job = server.object(&path).unwrap();
        job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        server.put(&path, job, "job-controller");
    }
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_runs_the_charts_hooks_in_place_of_a_changed_records() {
    let world = installed(with_hook()).await;
    edit_record(&world, 1, |release| {
        release.hooks[0].manifest = release.hooks[0].manifest.replace("\"bye\"", "\"evil\"");
        release.hooks[0].events.push(HookEvent::PostDelete);
    })
    .await;
    let world = restarted(world);
    world.delete();
    let server = world.server.clone();
    let jobs = async {
        loop {
            finish_jobs(&server);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = jobs => {}
        () = async {
            for _ in 0..4 {
                world.reconcile().await;
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
        } => {}
    }
    let log = world.server.log().join("\n");
    assert!(
        world.server.object(PRIMARY).is_none() && world.maps().is_empty(),
        "{:?}",
        world.condition("ReleaseFailed")
    );
    assert!(!log.contains("evil") && log.contains("jobs/bye"), "{log}");
}

/// Returns a release with a hook that is being deleted and whose record someone changed.
async fn deleted_with_a_changed_record(renderer: Arc<dyn Renderer>) -> World {
    let world = installed(with_hook()).await;
    edit_record(&world, 1, |release| release.info.notes = "changed".into()).await;
    // Otherwise, the record is left to the process that wrote it a moment ago.
    let path = record_path(1);
    let mut record = world.server.object(&path).unwrap();
    record["metadata"]["annotations"].as_object_mut().unwrap().remove(helm_release::storage::WRITER_ANNOTATION);
    world.server.put(&path, record, "tenant");
    let world = World::with_events(world.server, renderer, |_| {});
    world.delete();
    world
}

/// Checks that an uninstall has run its hook and left nothing.
fn check_uninstalled(world: &World) {
    assert!(world.server.object(PRIMARY).is_none() && world.maps().is_empty(), "{:?}", world.server.paths());
    assert_eq!(hooks::count(world, &format!("POST {JOBS}")), 1);
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_deletes_nothing_while_the_render_of_the_charts_hooks_is_postponed() {
    let world = deleted_with_a_changed_record(Arc::new(Slow(Arc::new(Stub::default())))).await;
    assert_eq!((world.reconcile_at_first(&key()).await, world.maps()), (1, vec!["a".to_owned()]));
    hooks::reconcile(&world, "Complete").await;
    check_uninstalled(&world);
    let events = published(&world).await;
    assert!(!events.iter().any(|event| event.contains("HookSkipped")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_waits_while_nothing_is_known_about_the_chart_and_names_the_way_out() {
    let away = || RenderError::Unanswered { reason: "ChartUnavailable", message: "the registry is away".into() };
    let killed = || RenderError::Unanswered { reason: "RenderLimit", message: "the worker was killed".into() };
    type Failing = fn() -> RenderError;
    let cases: [(Failing, &str, bool); 3] = [
        (away, "True/ChartUnavailable/the registry is away; ", true),
        (killed, "True/RenderLimit/the worker was killed; ", true),
        (away, "True/ChartUnavailable/the registry is away; ", false),
    ];
    for (error, expected, is_back) in cases {
        let stub = Stub { renders: AtomicUsize::new(1), ..Stub::default() };
        let world = deleted_with_a_changed_record(Arc::new(Ailing(stub, error))).await;
        assert_eq!((world.reconcile().await, world.maps()), (ReconcileResult::Error, vec!["a".to_owned()]));
        let condition = world.condition("Irreconcilable").unwrap();
        assert!(condition.starts_with(expected), "{condition}");
        assert!(condition.ends_with("/uninstall-disable-hooks to \"true\""), "{condition}");
        if is_back {
            let world = restarted(world);
            tokio::time::advance(Duration::from_secs(600)).await;
            hooks::reconcile(&world, "Complete").await;
            check_uninstalled(&world);
            continue;
        }
        let disabled = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"});
        world.edit(|p| p["metadata"]["annotations"] = disabled);
        world.reconcile().await;
        assert!(world.server.paths().iter().all(|path| path.contains("/events/")), "{:?}", world.server.paths());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_gives_up_no_revision_that_another_resource_begins_while_the_chart_renders() {
    let world = deleted_with_a_changed_record(Arc::new(Stub::default())).await;
    world.edit(|p| p["spec"]["seconds"] = 60.into());
    let (map, path) = (uid(&world), record_path(2));
    let later = async {
        tokio::time::sleep(10 * SECOND).await;
        let mut secret = with_content(&world, 1, |release| {
            (release.version, release.info.status) = (2, Status::PendingUpgrade);
        })
        .await;
        secret["metadata"]["name"] = "sh.helm.release.v1.web.v2".into();
        secret["metadata"]["labels"]["version"] = "2".into();
        put_as_anothers(&world.server, &path, secret);
        world.feed();
        world.server.object(&path)
    };
    let (_, begun) = tokio::join!(world.reconcile(), later);
    assert_eq!(world.server.object(&path), begun, "{:#?}", world.server.log());
    assert_eq!((uid(&world), hooks::count(&world, &format!("POST {JOBS}"))), (map, 0));
}

#[tokio::test(start_paused = true)]
async fn a_record_without_its_hooks_takes_none_from_the_release() {
    let starting = |server| World::rendering(server, Arc::new(with_sources()));
    let world = starting(server(with_hook()));
    world.reconcile().await;
    edit_record(&world, 1, |release| release.hooks.clear()).await;
    let mut secret = world.server.object(&record_path(1)).unwrap();
    secret["metadata"]["annotations"] = Value::Null;
    world.server.put(&record_path(1), secret, "tenant");
    let world = starting(world.server);
    world.reconcile().await;
    let owners = &world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["ownerReferences"];
    assert_eq!((world.history(), owners.is_array()), (vec!["1 deployed".to_owned()], false), "taken over");
    world.delete();
    hooks::reconcile(&world, "Complete").await;
    assert!(world.server.object(PRIMARY).is_none() && world.maps().is_empty());
    assert_eq!(hooks::count(&world, &format!("POST {JOBS}")), 1);
}

#[tokio::test(start_paused = true)]
async fn a_changed_record_with_fewer_objects_leaves_none_behind() {
    let world = installed(spec()).await;
    edit_record(&world, 1, |release| release.manifest = String::new()).await;
    let mut secret = world.server.object(&record_path(1)).unwrap();
    secret["metadata"]["annotations"] = Value::Null;
    world.server.put(&record_path(1), secret, "tenant");
    let world = restarted(world);
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn records_that_name_somebody_else_keep_no_object_of_a_deleted_resource() {
    let world = installed(spec()).await;
    let mut secret = world.server.object(&record_path(1)).unwrap();
    secret["metadata"]["annotations"] = Value::Null;
    secret["metadata"]["labels"]["helm.sdk.operatorframework.io/owner"] = "another".into();
    world.server.remove(&record_path(1));
    world.server.put(&record_path(1), secret, "tenant");
    let world = restarted(world);
    world.delete();
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.server.object(PRIMARY)), (0, None));
    assert!(world.server.object(&record_path(1)).is_some(), "what is not ours stays");
}

#[tokio::test(start_paused = true)]
async fn an_older_record_that_was_put_back_restores_nothing() {
    for how in ["does not render", "is refused"] {
        let world = installed(spec()).await;
        let old = world.server.object(&record_path(1)).unwrap();
        world.edit(|p| p["spec"]["maps"] = json!(["a"]));
        world.reconcile().await;
        assert_eq!(
            (world.maps(), world.history()),
            (vec!["a".to_owned()], vec!["1 superseded".to_owned(), "2 deployed".into()])
        );
        // The record is authentic, and from a time when the release had more objects.
        world.server.remove(&record_path(2));
        world.server.remove(&record_path(1));
        world.server.put(&record_path(1), old, "tenant");
        world.edit(|p| match how {
            "does not render" => p["spec"]["broken"] = true.into(),
            _ => p["spec"]["maps"] = json!(["a", "d"]),
        });
        refuse_d(&world);
        let world = restarted(world);
        for _ in 0..3 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        assert_eq!(world.maps(), ["a"], "{how}");
        assert_eq!(world.server.object(PRIMARY).unwrap()["status"]["deployedRelease"]["revision"], 2, "{how}");
        world.edit(|p| (p["spec"]["broken"], p["spec"]["maps"]) = (Value::Null, json!(["a"])));
        world.reconcile().await;
        assert_eq!((world.maps(), world.state("Ready")), (vec!["a".to_owned()], "True/Ready".to_owned()));
    }
}

/// The inputs are those of the record, which is why only the values that its render generated tell it apart.
#[tokio::test(start_paused = true)]
async fn an_older_record_that_was_put_back_restores_no_generated_value() {
    let rendering = |server: &Arc<MemoryApi>, renders: usize| {
        World::rendering(server.clone(), Arc::new(Stub { renders: AtomicUsize::new(renders), ..random() }))
    };
    let world = rendering(&server(spec()), 0);
    world.reconcile().await;
    let old = world.server.object(&record_path(1)).unwrap();
    world.edit(|p| p["spec"]["more"] = 1.into());
    world.reconcile().await;
    world.edit(|p| p["spec"].as_object_mut().unwrap().retain(|key, _| key != "more"));
    world.reconcile().await;
    assert_eq!(world.history().len(), 3);
    assert_ne!(world.value_of("a"), "password 0");
    for version in 1..=3 {
        world.server.remove(&record_path(version));
    }
    world.server.put(&record_path(1), old, "tenant");
    let world = rendering(&world.server, 100);
    let was_written = Arc::new(AtomicBool::new(false));
    let seen = was_written.clone();
    world.server.refuse(move |call| {
        let body = call.body.as_ref().map(|(_, body)| String::from_utf8_lossy(body)).unwrap_or_default();
        seen.fetch_or(call.path.starts_with(MAPS) && body.contains("password 0"), Ordering::SeqCst);
        None
    });
    world.reconcile().await;
    assert!(!was_written.load(Ordering::SeqCst), "what was put back is never written");
    assert_ne!(world.value_of("a"), "password 0");
    assert_eq!((world.state("Ready"), world.requests().await), ("True/Ready".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn the_record_of_another_release_is_not_this_ones() {
    let world = installed(spec()).await;
    let other = world.add("ns", "other", json!({"maps": ["x"], "value": "9", "objects": [pwned()]}));
    world.reconcile_one(&other).await;
    let mut copy = world.server.object(&format!("{SECRETS}/sh.helm.release.v1.other.v1")).unwrap();
    world.server.remove(PWNED);
    world.server.refuse(|call| {
        (call.method != "GET" && call.path.contains("clusterroles")).then(|| Error::from_status(403, "Forbidden", "no"))
    });
    copy["metadata"]["name"] = "sh.helm.release.v1.web.v2".into();
    (copy["metadata"]["labels"]["name"], copy["metadata"]["labels"]["version"]) = ("web".into(), "2".into());
    world.server.put(&record_path(2), copy, "tenant");
    let world = restarted(world);
    world.reconcile().await;
    assert_eq!(
        (world.maps(), world.state("Ready")),
        (vec!["a".into(), "b".into(), "c".into(), "x".into()], "True/Ready".to_owned())
    );
}

/// Tests damaged records, which cannot be decoded.
#[tokio::test(start_paused = true)]
async fn a_damaged_record_stops_neither_the_next_revision_nor_the_deletion() {
    for (annotated, deletes) in [(true, false), (false, false), (true, true), (false, true)] {
        let world = installed(spec()).await;
        let mut secret = world.server.object(&record_path(1)).unwrap();
        secret["data"]["release"] = "AAAA".into();
        if !annotated {
            secret["metadata"]["annotations"] = Value::Null;
        }
        world.server.put(&record_path(1), secret, "tenant");
        let world = restarted(world);
        match deletes {
            true => world.delete(),
            false => world.server.remove(&format!("{MAPS}/a")),
        }
        world.reconcile().await;
        if deletes {
            assert!(world.server.paths().is_empty(), "{annotated}: {:?}", world.server.paths());
        } else {
            assert_eq!((world.value_of("a"), world.maps().len()), (json!("1"), 3), "{annotated}");
            assert_eq!(world.state("Ready"), "True/Ready", "{annotated}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_of_an_interrupted_action_stops_neither_the_same_inputs_nor_others() {
    for (is_first, edits) in [(true, false), (true, true), (false, false), (false, true)] {
        let world = World::on(server(spec()));
        if !is_first {
            world.reconcile().await;
            world.edit(|p| p["spec"]["value"] = "2".into());
        }
        // The finalizer and the record, or the record and an object.
        world.server.fail_after(Some(2));
        world.reconcile().await;
        world.server.fail_after(None);
        let path = record_path(if is_first { 1 } else { 2 });
        let mut secret = world.server.object(&path).unwrap();
        secret["data"]["release"] = "AAAA".into();
        world.server.put(&path, secret, "tenant");
        let world = restarted(world);
        if edits {
            world.edit(|p| p["spec"]["value"] = "3".into());
        }
        for _ in 0..3 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        let value = match (edits, is_first) {
            (true, _) => "3",
            (false, true) => "1",
            (false, false) => "2",
        };
        let faults = (world.condition("Irreconcilable"), world.condition("ReleaseFailed"));
        assert_eq!((world.maps().len(), world.value_of("a")), (3, json!(value)), "{is_first} {edits} {faults:?}");
        assert_eq!((world.state("Ready").as_str(), faults), ("True/Ready", (None, None)), "{:?}", world.history());
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_of_a_replaced_revision_does_not_keep_its_successor_from_being_ready() {
    for is_interrupted in [false, true] {
        let world = installed(spec()).await;
        let upgrade = |world: &World| world.edit(|p| p["spec"]["value"] = "2".into());
        if is_interrupted {
            let is_record = |path: &str| path.starts_with(&record_path(1));
            world.server.refuse(move |call| {
                (call.method == "PATCH" && is_record(&call.path)).then(|| Error::Transport("away".into()))
            });
            upgrade(&world);
            world.reconcile().await;
            world.server.accept();
            assert_eq!(world.history(), ["1 deployed", "2 deployed"]);
        }
        let mut secret = world.server.object(&record_path(1)).unwrap();
        secret["data"]["release"] = "AAAA".into();
        world.server.put(&record_path(1), secret, "tenant");
        let before = world.server.object(&record_path(1)).unwrap();
        let world = restarted(world);
        if !is_interrupted {
            upgrade(&world);
        }
        for _ in 0..3 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        assert_eq!((world.state("Ready"), world.condition("Irreconcilable")), ("True/Ready".to_owned(), None));
        assert_eq!(world.value_of("a"), "2");
        assert_eq!(world.history(), ["1 superseded", "2 deployed"], "{is_interrupted}");
        let after = world.server.object(&record_path(1)).unwrap();
        assert_eq!(after["metadata"]["labels"]["status"], "superseded");
        assert_eq!((&after["metadata"]["uid"], &after["data"]), (&before["metadata"]["uid"], &before["data"]));
        let unproven = world.condition("UnprovenRecords").unwrap();
        assert!(unproven.contains("the release records sh.helm.release.v1.web.v1 as they are"), "{unproven}");
    }
}

/// Returns a keyring of the second key, which accepts the seals of the first one if `previous`.
fn second_key(previous: bool) -> Keyring {
    let key = |byte| Key::new(&[byte; 32]).unwrap();
    Keyring::new(key(2), if previous { vec![key(1)] } else { Vec::new() })
}

/// Returns a stub that knows its chart and values without rendering, and renders a random value each time.
fn random_with_sources() -> Stub {
    Stub { has_sources: true, ..random() }
}

fn uid(world: &World) -> Value {
    world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_lost_key_loses_nothing() {
    for deployed_by_chart in [false, true] {
        let stub = || if deployed_by_chart { Stub::default() } else { random_with_sources() };
        let world = World::sealing(server(spec()), stub(), keys());
        world.reconcile().await;
        let (before, value) = (uid(&world), world.value_of("a"));
        let versions: Vec<Value> = world
            .maps()
            .iter()
            .map(|map| world.server.object(&format!("{MAPS}/{map}")).unwrap()["metadata"]["resourceVersion"].clone())
            .collect();
        let world = World::sealing(world.server, stub(), second_key(false));
        world.reconcile().await;
        assert_eq!((uid(&world), world.value_of("a"), world.history()), (before, value, vec!["1 deployed".to_owned()]));
        let after: Vec<Value> = world
            .maps()
            .iter()
            .map(|map| world.server.object(&format!("{MAPS}/{map}")).unwrap()["metadata"]["resourceVersion"].clone())
            .collect();
        assert_eq!(after, versions, "nothing is written that is there already");
        let world = World::sealing(world.server, stub(), second_key(false));
        assert_eq!(world.requests().await, 0, "its record has the new key's seal");
        assert_eq!((world.state("Ready"), world.condition("UnprovenRecords")), ("True/Ready".to_owned(), None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rotated_key_costs_nothing_and_takes_over_with_the_next_revision() {
    let world = installed(spec()).await;
    let world = World::sealing(world.server, Stub::default(), second_key(true));
    assert_eq!((world.requests().await, world.history()), (0, vec!["1 deployed".to_owned()]));
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    let world = World::sealing(world.server, Stub::default(), second_key(false));
    assert_eq!((world.requests().await, world.history()), (0, vec!["1 superseded".to_owned(), "2 deployed".into()]));
}

#[tokio::test(start_paused = true)]
async fn the_same_record_is_news_when_other_keys_prove_it_or_none_does() {
    let world = installed(spec()).await;
    let metadata = world.server.object(&record_path(1)).unwrap()["metadata"].clone();
    let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
    let releases = Releases::default();
    let mut epoch = Epoch { number: 0, began: Instant::now(), is_list: true };
    let (proves, lost) = (keys(), second_key(false));
    for (keys, is_news) in [(&proves, true), (&proves, false), (&lost, true), (&lost, false), (&proves, true)] {
        epoch.number += 1;
        let meta = RecordMeta::read(&metadata, keys).unwrap();
        assert_eq!(releases.store(&key(), meta, epoch), is_news, "{}", epoch.number);
    }
    epoch.is_list = false;
    let older = ObjectMeta { resource_version: Some("1".into()), ..metadata };
    assert!(!releases.store(&key(), RecordMeta::read(&older, &lost).unwrap(), epoch), "an older event is no news");
}

#[tokio::test(start_paused = true)]
async fn two_processes_with_one_key_prove_each_others_records() {
    let one = installed(spec()).await;
    let two = World::on(one.server.clone());
    two.edit(|p| p["spec"]["value"] = "2".into());
    two.reconcile().await;
    one.feed();
    assert_eq!((one.requests().await, two.requests().await), (0, 0));
    assert!(one.shared.cache.release(&key()).unwrap().broken().is_empty());
}

/// Imports a record as Helm writes it, with the resource's chart and values, and one additional object.
#[tokio::test(start_paused = true)]
async fn a_record_of_helm_is_imported_only_as_far_as_the_chart_renders_it_or_it_is_live() {
    for (what, extra, live_names_us, taken_over) in [
        ("the chart's objects", None, None, true),
        ("one more that does not exist", Some(pwned()), None, false),
        ("one more that a release of Helm's has", Some(pwned()), Some(false), false),
        ("one more that names the resource", Some(pwned()), Some(true), true),
    ] {
        let world = World::sealing(server(spec()), with_sources(), keys());
        world.reconcile().await;
        edit_record(&world, 1, |release| {
            if let Some(extra) = &extra {
                release.manifest = format!("{}---\n{extra}\n", release.manifest);
            }
        })
        .await;
        let mut secret = world.server.object(&record_path(1)).unwrap();
        secret["metadata"]["annotations"] = Value::Null;
        world.server.put(&record_path(1), secret, "helm");
        if let Some(names_us) = live_names_us {
            let mut live = pwned();
            live["metadata"]["annotations"] =
                json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
            if names_us {
                live["metadata"]["annotations"]["operator-sdk/primary-resource"] = "ns/web".into();
            }
            live["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
            world.server.put(PWNED, live, "helm");
        }
        let world = World::sealing(world.server, with_sources(), keys());
        world.reconcile().await;
        assert_eq!(world.server.object(PWNED).is_some(), live_names_us.is_some(), "{what}");
        assert_eq!(world.history().len(), if taken_over { 1 } else { 2 }, "{what}");
        assert_eq!((world.maps().len(), world.state("Ready")), (3, "True/Ready".to_owned()), "{what}");
        world.delete();
        world.reconcile().await;
        assert_eq!(world.server.object(PWNED).is_some(), live_names_us == Some(false), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forged_record_makes_the_operator_read_nothing_out_of_reach() {
    const FAR: &str = "/api/v1/namespaces/kube-system/configmaps/far";
    for guess in ["right", "wrong"] {
        let world = World::sealing(server(spec()), with_sources(), keys());
        world.reconcile().await;
        let metadata = json!({"name": "far", "namespace": "kube-system"});
        let mut far = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"pin": guess}});
        edit_record(&world, 1, |release| release.manifest = format!("{}---\n{far}\n", release.manifest)).await;
        let mut secret = world.server.object(&record_path(1)).unwrap();
        secret["metadata"]["annotations"] = Value::Null;
        world.server.put(&record_path(1), secret, "tenant");
        far["data"]["pin"] = "right".into();
        world.server.put(FAR, far, "someone");
        let before = world.server.object(FAR);
        let reads = Arc::new(AtomicUsize::new(0));
        let read = reads.clone();
        world.server.refuse(move |call| {
            let is_whole = call.method == "GET" && call.path == FAR && call.accept.is_none();
            read.fetch_add(usize::from(is_whole), Ordering::Relaxed);
            None
        });
        let own = Allowed::These(BTreeSet::new());
        let world = World::with_events(world.server, Arc::new(with_sources()), |settings| {
            settings.reach = Arc::new(Reach { namespaces: own, ..Reach::default() });
        });
        world.reconcile().await;
        assert_eq!(reads.load(Ordering::Relaxed), 0, "{guess}");
        assert_eq!((world.history().len(), world.state("Ready")), (2, "True/Ready".to_owned()), "{guess}");
        assert_eq!(world.server.object(FAR), before, "{guess}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_policy_deletes_what_runs_because_of_a_forged_failure() {
    for policy in [OnFailure::Rollback, OnFailure::Uninstall] {
        let world = installed(spec()).await;
        let mut secret = with_content(&world, 1, |release| release.info.status = Status::Failed).await;
        secret["metadata"]["labels"]["status"] = "failed".into();
        world.server.put(&record_path(1), secret, "tenant");
        world.edit(|p| p["spec"]["broken"] = true.into());
        let change = |settings: &mut Settings| settings.on_failure = policy;
        let world = World::with_events(world.server, Arc::new(Stub::default()), change);
        for _ in 0..3 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        assert_eq!(world.maps().len(), 3, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_processes_with_different_keys_take_slow_turns_and_make_no_revision() {
    let one = installed(spec()).await;
    let two = World::sealing(one.server.clone(), Stub::default(), second_key(false));
    let before = one.server.log().len();
    for _ in 0..10 {
        two.reconcile().await;
        one.reconcile().await;
    }
    let log = one.server.log()[before..].to_vec();
    let sealed = log.iter().filter(|line| line.starts_with("PATCH") && line.contains("sh.helm.release.v1")).count();
    assert_eq!((sealed, one.history()), (1, vec!["1 deployed".to_owned()]), "{log:?}");
    assert!(one.condition("Irreconcilable").unwrap().starts_with("True/OtherOperator/"));
}
