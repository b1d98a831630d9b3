//! Tests of what remains after a failure, how often it is retried, and when the resource is stalled.

use helm_release::kube::{Call, CrdPolicy, Disturbance};

use super::hooks;
use super::reporting::published;
use super::*;
use crate::values_from::ValuesSource;
use crate::watches::OnFailure;

/// Creates a controller with this policy and limit.
fn world(on_failure: OnFailure, retries: Option<u32>) -> World {
    let server = World::new(spec()).server;
    World::with_events(server, Arc::new(Stub::default()), |settings| {
        (settings.on_failure, settings.retries) = (on_failure, retries);
    })
}

/// Rejects the ConfigMap `b` with a value that starts with `bad`, permanently (422) or as an outage (503).
pub(super) fn refuse(world: &World, code: u16) {
    world.server.refuse(move |call| is_bad(call).then(|| Error::from_status(code, "Invalid", "no")));
}

fn is_bad(call: &Call) -> bool {
    let body = body_of(call);
    let is_b = call.path.contains("/configmaps/b") || body.contains("\"name\":\"b\"");
    call.path.contains("/configmaps") && is_b && body.contains("\"value\":\"bad")
}

fn body_of(call: &Call) -> String {
    call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default()
}

fn set(world: &World, value: &str) {
    world.edit(|p| p["spec"]["value"] = value.into());
}

/// Returns the uids of the ConfigMaps.
pub(super) fn uids(world: &World) -> Vec<Value> {
    let maps = world.maps().into_iter().map(|name| world.server.object(&format!("{MAPS}/{name}")).unwrap());
    maps.map(|mut map| map["metadata"]["uid"].take()).collect()
}

/// Creates a controller that has just started, and that uninstalls the release of a failed upgrade.
pub(super) fn uninstalling(server: Arc<MemoryApi>) -> World {
    let uninstall = |settings: &mut Settings| settings.on_failure = OnFailure::Uninstall;
    World::with_events(server, Arc::new(Stub::default()), uninstall)
}

/// Pins the release to its first revision.
pub(super) fn pin(world: &World) {
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/pin": "1"}));
}

/// Refuses the deletion of the ConfigMap `b`.
fn refuse_deletion(world: &World) {
    world.server.refuse(|call| {
        let deletes_b = call.method == http::Method::DELETE && call.path.starts_with(&format!("{MAPS}/b"));
        deletes_b.then(|| Error::from_status(403, "Forbidden", "no"))
    });
}

pub(super) async fn retry(world: &World) {
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
}

#[tokio::test(start_paused = true)]
async fn kept_failures_stay_until_the_next_attempt_continues_from_them() {
    let world = world(OnFailure::Keep, None);
    refuse(&world, 422);
    set(&world, "bad");
    world.reconcile().await;
    assert_eq!(world.history(), ["1 failed"], "the install");
    assert!(!world.maps().contains(&"b".to_owned()));
    set(&world, "1");
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history().last().cloned()), (3, Some("2 deployed".to_owned())));
    set(&world, "bad, too");
    world.reconcile().await;
    assert_eq!(world.history()[1..], ["2 deployed", "3 failed"], "nothing is rolled back");
    set(&world, "2");
    world.reconcile().await;
    assert_eq!((world.value_of("b"), world.condition("ReleaseFailed")), (json!("2"), None));
}

#[tokio::test(start_paused = true)]
async fn a_failed_upgrade_can_uninstall_the_release_and_the_next_attempt_installs_it() {
    let world = world(OnFailure::Uninstall, None);
    world.reconcile().await;
    refuse(&world, 422);
    set(&world, "bad");
    world.reconcile().await;
    assert_eq!((world.maps(), world.history()), (vec![], vec![]));
    assert!(world.condition("ReleaseFailed").unwrap().starts_with("True/UpgradeError/"));
    assert!(published(&world).await.iter().any(|event| event.starts_with("Warning Uninstalled ")));
    retry(&world).await;
    assert!(world.condition("ReleaseFailed").unwrap().starts_with("True/InstallError/"));
    set(&world, "2");
    world.reconcile().await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
}

/// Gives the ConfigMap `b` to another owner just before the first write of it.
fn take_before_the_write(world: &World) {
    let server = Arc::downgrade(&world.server);
    world.server.refuse(move |call| {
        let (server, path) = (server.upgrade()?, format!("{MAPS}/b"));
        let mut object = server.object(&path)?;
        if call.method == http::Method::PATCH && call.path.starts_with(&path) && object["data"]["value"] == "1" {
            let owner = json!({"apiVersion": "x/v1", "kind": "Other", "name": "o", "uid": "o", "controller": true});
            (object["metadata"]["ownerReferences"], object["data"]["value"]) = (json!([owner]), "theirs".into());
            server.put(&path, object, "other");
        }
        None
    });
}

#[tokio::test(start_paused = true)]
async fn an_object_that_another_owner_takes_during_an_upgrade_costs_the_release_nothing() {
    for policy in [OnFailure::Uninstall, OnFailure::Rollback] {
        let world = world(policy, None);
        world.reconcile().await;
        take_before_the_write(&world);
        set(&world, "2");
        world.reconcile().await;
        assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"], "{policy:?}");
        let said = world.condition("Irreconcilable").unwrap_or_default();
        assert!(said.contains("Other \"o\", its controller"), "{policy:?}: {said}");
        retry(&world).await;
        assert_eq!((world.maps().len(), world.value_of("b")), (3, json!("theirs")), "{policy:?}");
        let said = world.condition("ReleaseFailed").unwrap_or_default();
        assert!(said.starts_with("True/ReleaseConflict/") && said.contains("Other \"o\", its controller"), "{said}");
        world.server.remove(&format!("{MAPS}/b"));
        for _ in 0..2 {
            retry(&world).await;
        }
        let newest = world.history().pop().unwrap_or_default();
        assert!(newest.ends_with(" deployed"), "{policy:?}: {newest}");
        assert_eq!((world.maps().len(), world.value_of("b")), (3, json!("2")), "{policy:?}");
    }
}

/// Serves the first creation of a revision's record, and answers as to a client that repeats it because a load balancer
/// lost the answer.
fn repeat_the_creation_of(world: &World, version: u32) {
    let (server, path, has_served) = (Arc::downgrade(&world.server), record_path(version), AtomicBool::new(false));
    world.server.refuse(move |call| {
        let (_, json) = call.body.as_ref().filter(|_| call.method == http::Method::POST)?;
        let secret: Value = serde_json::from_slice(json).ok()?;
        let is_record = path == format!("{SECRETS}/{}", secret["metadata"]["name"].as_str()?);
        if !is_record || has_served.swap(true, Ordering::SeqCst) {
            return None;
        }
        server.upgrade()?.put(&path, secret, "helm-operator");
        Some(Error::from_status(409, "AlreadyExists", "it exists"))
    });
}

#[tokio::test(start_paused = true)]
async fn a_rollback_goes_on_although_the_request_that_records_it_is_repeated() {
    let world = world(OnFailure::Rollback, Some(1));
    world.reconcile().await;
    refuse(&world, 422);
    repeat_the_creation_of(&world, 3);
    set(&world, "bad");
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "{:#?}", world.server.log());
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("1"), json!("1")));
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_after_a_failed_upgrade_that_has_to_wait_is_completed_before_the_next_install() {
    let (farewell, gone) = (hooks::hook("farewell", "pre-delete"), hooks::hook("gone", "post-delete"));
    let spec = hooks::with_hooks(json!([hooks::hook("migrate", "pre-install"), farewell, gone]));
    for restarts in [false, true] {
        let mut world = uninstalling(World::new(spec.clone()).server);
        world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
        hooks::reconcile(&world, "Complete").await;
        let mut held = world.server.object(&format!("{MAPS}/b")).unwrap();
        held["metadata"]["finalizers"] = json!(["x/y"]);
        world.server.put(&format!("{MAPS}/b"), held, "someone");
        refuse(&world, 422);
        set(&world, "bad");
        hooks::reconcile(&world, "Complete").await;
        if restarts {
            world = uninstalling(world.server);
        }
        retry(&world).await;
        assert_eq!(world.history(), ["1 uninstalling", "2 failed"], "it still waits");
        assert_eq!(world.maps(), ["b"]);
        let said = world.condition(if restarts { "Irreconcilable" } else { "ReleaseFailed" }).unwrap();
        assert!(said.contains("is being uninstalled: ConfigMap ns/b (finalizers: x/y)"), "{said}");
        world.server.accept();
        world.server.remove(&format!("{MAPS}/b"));
        set(&world, "2");
        hooks::reconcile(&world, "Complete").await;
        assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
        // `migrate` twice.
        assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 4, "{:#?}", world.server.log());
    }
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_after_a_failed_upgrade_without_deletion_hooks_goes_on_and_puts_nothing_back() {
    for (restarts, has_farewell) in [(false, false), (true, false), (false, true), (true, true)] {
        let case = format!("restarts: {restarts}, with a hook: {has_farewell}");
        let farewell = has_farewell.then(|| hooks::hook("farewell", "pre-delete"));
        let chart: Vec<Value> = [hooks::hook("migrate", "pre-install")].into_iter().chain(farewell).collect();
        let mut world = uninstalling(World::new(hooks::with_hooks(chart.into())).server);
        let annotate = |world: &World, annotations: Value| world.edit(|p| p["metadata"]["annotations"] = annotations);
        let wait = "helm.sdk.operatorframework.io/uninstall-wait";
        let disable_hooks = "helm.sdk.operatorframework.io/uninstall-disable-hooks";
        annotate(&world, json!({wait: "true", disable_hooks: "true"}));
        hooks::reconcile(&world, "Complete").await;
        let mut held = world.server.object(&format!("{MAPS}/b")).unwrap();
        held["metadata"]["finalizers"] = json!(["x/y"]);
        world.server.put(&format!("{MAPS}/b"), held, "someone");
        refuse(&world, 422);
        set(&world, "bad");
        world.reconcile().await;
        // While it waits, after the events of its deletions, and with another spec.
        for corrects in [false, false, true] {
            if corrects {
                annotate(&world, json!({wait: "true"}));
                set(&world, "2");
                world = if restarts { uninstalling(world.server) } else { world };
                retry(&world).await;
            }
            assert_eq!(world.history(), ["1 uninstalling", "2 failed"], "{case}");
            assert_eq!(world.maps(), ["b"], "{case}");
            world.reconcile().await;
        }
        world.server.remove(&format!("{MAPS}/b"));
        tokio::time::advance(Duration::from_secs(600)).await;
        hooks::reconcile(&world, "Complete").await;
        assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
        // `migrate` twice, and no hook of a deletion that began without them.
        assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 2, "{:#?}", world.server.log());
    }
}

/// Installs a release, whose upgrade then fails, and whose uninstall is refused halfway.
async fn half_uninstalled() -> World {
    let world = world(OnFailure::Uninstall, None);
    world.reconcile().await;
    refuse(&world, 422);
    refuse_deletion(&world);
    set(&world, "bad");
    world.reconcile().await;
    world
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_after_a_failed_upgrade_that_is_refused_halfway_goes_on_and_puts_nothing_back() {
    let world = half_uninstalled().await;
    let left = world.maps();
    assert!(left.len() < 3 && left.contains(&"b".to_owned()), "{left:?}");
    world.reconcile().await;
    assert_eq!(world.history(), ["1 uninstalling", "2 failed"]);
    assert_eq!(world.maps(), left);
    world.server.accept();
    retry(&world).await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_after_a_failed_upgrade_whose_hook_a_dead_process_started_goes_on_or_is_called_off() {
    let spec = hooks::with_hooks(json!([hooks::hook("farewell", "pre-delete")]));
    for next in ["bad", "bad, too", "2"] {
        let world = uninstalling(World::new(spec.clone()).server);
        hooks::reconcile(&world, "Complete").await;
        let before = uids(&world);
        refuse(&world, 422);
        set(&world, "bad");
        hooks::killed_after(&world, 30).await;
        assert_eq!(hooks::phases(&world, 1).await, ["farewell Running"]);
        let world = uninstalling(world.server);
        assert_eq!(world.history(), ["1 uninstalling", "2 failed"]);
        if next != "bad" {
            set(&world, next);
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        hooks::reconcile(&world, "Complete").await;
        let runs = hooks::count(&world, &format!("POST {}", hooks::JOBS));
        if next == "2" {
            assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
            assert_eq!((uids(&world), world.value_of("b")), (before, json!("2")), "nothing was deleted");
            let job = world.server.object(&format!("{}/farewell", hooks::JOBS));
            assert_eq!((job, runs, hooks::phases(&world, 1).await), (None, 1, vec!["farewell Failed".to_owned()]));
        } else {
            // What failed again is uninstalled as well, or was installed and is removed.
            let expected = if next == "bad" { 1 } else { 2 };
            assert_eq!((world.maps(), world.history(), runs), (vec![], vec![], expected), "{next}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_attempt_uninstalls_the_release_although_a_hook_of_the_first_uninstall_failed() {
    let world = uninstalling(World::new(hooks::with_hooks(json!([hooks::hook("farewell", "pre-delete")]))).server);
    hooks::reconcile(&world, "Complete").await;
    refuse(&world, 422);
    set(&world, "bad");
    hooks::reconcile(&world, "Failed").await;
    assert_eq!((world.maps().len(), world.history()[0].as_str()), (3, "1 uninstalling"));
    tokio::time::advance(Duration::from_secs(600)).await;
    hooks::reconcile(&world, "Complete").await;
    assert_eq!((world.maps(), world.history()), (vec![], vec![]));
    assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 2);
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_whose_hook_failed_is_called_off_although_the_corrected_resource_disables_hooks() {
    let world = uninstalling(World::new(hooks::with_hooks(json!([hooks::hook("farewell", "pre-delete")]))).server);
    hooks::reconcile(&world, "Complete").await;
    let before = uids(&world);
    refuse(&world, 422);
    set(&world, "bad");
    hooks::reconcile(&world, "Failed").await;
    assert_eq!(world.history(), ["1 uninstalling", "2 failed"]);
    let annotations = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"});
    world.edit(|p| p["metadata"]["annotations"] = annotations);
    set(&world, "2");
    retry(&world).await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!((uids(&world), world.value_of("b")), (before, json!("2")), "nothing was deleted");
}

#[tokio::test(start_paused = true)]
async fn a_pin_calls_an_uninstall_off_whose_hook_runs_or_was_started_by_a_dead_process() {
    let spec = hooks::with_hooks(json!([hooks::hook("farewell", "pre-delete")]));
    for dies in [false, true] {
        let world = uninstalling(World::new(spec.clone()).server);
        hooks::reconcile(&world, "Complete").await;
        let before = uids(&world);
        refuse(&world, 422);
        set(&world, "bad");
        let world = if dies {
            hooks::killed_after(&world, 30).await;
            pin(&world);
            uninstalling(world.server)
        } else {
            hooks::reconcile_while(&world, pin).await;
            world
        };
        assert_eq!(world.history(), ["1 uninstalling", "2 failed"], "dies: {dies}");
        tokio::time::advance(Duration::from_secs(600)).await;
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "dies: {dies}");
        assert_eq!((uids(&world), world.value_of("a")), (before, json!("1")), "nothing was deleted");
        let job = world.server.object(&format!("{}/farewell", hooks::JOBS));
        let runs = hooks::count(&world, &format!("POST {}", hooks::JOBS));
        assert_eq!((job, runs, hooks::phases(&world, 1).await), (None, 1, vec!["farewell Failed".to_owned()]));
        assert_eq!(world.state("Pinned"), "True/PinAnnotation");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pin_stops_an_uninstall_that_has_deleted_objects_and_none_of_its_hooks_runs_again() {
    let spec = hooks::with_hooks(json!([hooks::hook("farewell", "pre-delete"), hooks::hook("gone", "post-delete")]));
    for restarts in [false, true] {
        let mut world = uninstalling(World::new(spec.clone()).server);
        hooks::reconcile(&world, "Complete").await;
        let uid = |world: &World| world.server.object(&format!("{MAPS}/b")).unwrap()["metadata"]["uid"].clone();
        let before = uid(&world);
        refuse(&world, 422);
        refuse_deletion(&world);
        set(&world, "bad");
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history(), ["1 uninstalling", "2 failed"]);
        assert!(world.maps().len() < 3, "{:?}", world.maps());
        world.server.accept();
        pin(&world);
        if restarts {
            world = uninstalling(world.server);
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "restarts: {restarts}");
        assert_eq!((world.maps().len(), world.value_of("a"), uid(&world)), (3, json!("1"), before));
        assert_eq!(world.state("Pinned"), "True/PinAnnotation");
        world.edit(|p| p["metadata"]["annotations"] = json!({}));
        set(&world, "2");
        hooks::reconcile(&world, "Complete").await;
        assert_eq!((world.history().last().unwrap().as_str(), world.value_of("b")), ("4 deployed", json!("2")));
        // `farewell`, once.
        assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 1, "{:#?}", world.server.log());
    }
}

#[tokio::test(start_paused = true)]
async fn a_return_to_a_pinned_revision_from_a_half_done_uninstall_ends_alike_wherever_it_is_interrupted() {
    let prepare = async || {
        let world = half_uninstalled().await;
        assert_eq!(world.history(), ["1 uninstalling", "2 failed"]);
        world.server.accept();
        pin(&world);
        world
    };
    survive(prepare, |world| {
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "{:#?}", world.server.log());
        assert_eq!((world.maps().len(), world.value_of("a")), (3, json!("1")));
        assert_eq!(
            (world.state("Pinned").as_str(), world.state("Ready").as_str()),
            ("True/PinAnnotation", "True/Ready")
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_goes_on_if_the_return_to_a_pinned_revision_is_given_up() {
    let world = uninstalling(World::new(hooks::with_hooks(json!([hooks::hook("farewell", "pre-delete")]))).server);
    hooks::reconcile(&world, "Complete").await;
    refuse(&world, 422);
    refuse_deletion(&world);
    set(&world, "bad");
    hooks::reconcile(&world, "Complete").await;
    pin(&world);
    world.server.refuse(|call| {
        let is_map = call.method == http::Method::PATCH && call.path.contains("/configmaps/");
        is_map.then(|| Error::from_status(403, "Forbidden", "exceeded quota"))
    });
    hooks::reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["1 uninstalling", "2 failed", "3 failed"]);
    world.server.accept();
    world.edit(|p| p["metadata"]["annotations"] = json!({}));
    set(&world, "2");
    for _ in 0..2 {
        retry(&world).await;
    }
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]), "it is installed again");
    assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 1, "{:#?}", world.server.log());
}

/// Upgrades the release. A hook of the upgrade fails at once after this change.
async fn upgrade_until(world: &World, change: impl FnOnce(&World)) {
    world.edit(|p| {
        p["spec"] = hooks::with_hooks(json!([hooks::hook("check", "pre-upgrade")]));
        p["spec"]["value"] = "2".into();
    });
    hooks::reconcile_while(world, |world| {
        change(world);
        let path = format!("{}/check", hooks::JOBS);
        let mut job = world.server.object(&path).unwrap();
        job["status"]["conditions"] = json!([{"type": "Failed", "status": "True", "message": "no"}]);
        world.server.put(&path, job, "kube-controller-manager");
    })
    .await;
}

/// Returns a release whose upgrade failed right after this annotation was set, and the uids of its objects, which stay.
async fn failed_after_annotating(key: &str, value: &str) -> (World, Vec<Value>) {
    let world = world(OnFailure::Uninstall, None);
    world.reconcile().await;
    let before = uids(&world);
    let annotations = json!({format!("helm.sdk.operatorframework.io/{key}"): value});
    upgrade_until(&world, |world| world.edit(|p| p["metadata"]["annotations"] = annotations)).await;
    assert_eq!((before.len(), uids(&world)), (3, before.clone()));
    assert_eq!(world.history(), ["1 deployed", "2 failed"]);
    (world, before)
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_hook_deletes_nothing_of_a_release_that_was_pinned_meanwhile() {
    let (world, before) = failed_after_annotating("pin", "1").await;
    world.reconcile().await;
    assert_eq!((uids(&world), world.value_of("a")), (before, json!("1")));
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "it returns to what is pinned");
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_hook_deletes_nothing_of_a_release_whose_values_came_to_differ_meanwhile() {
    let sources: Vec<ValuesSource> = serde_json::from_str(r#"[{"kind": "Secret", "name": "shared"}]"#).unwrap();
    let put = |server: &MemoryApi, values: &str| {
        let secret = json!({"metadata": {"name": "shared"}, "data": {"values.yaml": values}});
        server.put(&format!("{SECRETS}/shared"), secret, "user");
    };
    let server = World::new(spec()).server;
    put(&server, "");
    let world = World::with_events(server, Arc::new(Stub::default()), |settings| {
        (settings.values_from, settings.on_failure) = (sources, OnFailure::Uninstall);
    });
    world.reconcile().await;
    let before = uids(&world);
    // `more: 1`
    upgrade_until(&world, |world| put(&world.server, "bW9yZTogMQ==")).await;
    assert_eq!((before.len(), uids(&world)), (3, before.clone()));
    assert_eq!(world.history(), ["1 deployed", "2 failed"]);
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_hook_deletes_nothing_of_a_resource_that_was_paused_meanwhile() {
    let (world, before) = failed_after_annotating("pause", "true").await;
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({});
        p["spec"] = spec();
    });
    set(&world, "3");
    world.reconcile().await;
    assert_eq!((uids(&world), world.value_of("a")), (before, json!("3")), "the next attempt starts from there");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_writes_nothing_uninstalls_nothing_after_the_failure_of_other_values() {
    let (world, before) = failed_after_annotating("pause", "true").await;
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({});
        p["spec"] = spec();
        p["spec"]["unknown"] = true.into();
    });
    for _ in 0..3 {
        retry(&world).await;
        assert!(world.condition("ReleaseFailed").unwrap().contains("no matches for kind \"Unknown\""));
        assert_eq!((uids(&world), world.history()), (before.clone(), vec!["1 deployed".to_owned(), "2 failed".into()]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_object_is_cleaned_up_after_although_its_failure_could_not_be_recorded_at_first() {
    for is_upgrade in [false, true] {
        let world = world(OnFailure::Uninstall, None);
        if is_upgrade {
            world.reconcile().await;
        }
        set(&world, "bad");
        world.server.refuse(|call| {
            let is_record = call.path.contains("/secrets/") && body_of(call).contains("\"status\":\"failed\"");
            let code = if is_record { 403 } else { 422 };
            (is_record || is_bad(call)).then(|| Error::from_status(code, "Invalid", "no"))
        });
        world.reconcile().await;
        let left = world.history();
        assert!(left.last().unwrap().contains("pending"), "{left:?}");
        world.server.accept();
        refuse(&world, 422);
        retry(&world).await;
        assert_eq!((uids(&world), world.history()), (vec![], vec![]), "after {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_neither_uninstalls_nor_uses_up_retries() {
    let world = world(OnFailure::Uninstall, Some(1));
    world.reconcile().await;
    refuse(&world, 503);
    set(&world, "bad");
    for _ in 0..5 {
        retry(&world).await;
    }
    assert_eq!((world.maps().len(), world.condition("Stalled")), (3, None));
    assert!(world.condition("Reconciling").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_someone_deletes_to_make_it_anew_uses_up_no_retries_and_is_made() {
    const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dbs.x.y";
    let (api_version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let definition = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "dbs.x.y"}});
    let server = World::new(spec()).server;
    server.serve_cluster_scoped(api_version, kind, "customresourcedefinitions");
    server.put(DEFINITION, definition.clone(), "someone");
    let mut dying = server.object(DEFINITION).unwrap();
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    dying["metadata"]["finalizers"] = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    server.restore(DEFINITION, dying);
    let world = World::with_events(server, Arc::new(Stub::default()), |settings| {
        (settings.crds, settings.retries) = (CrdPolicy::CreateOrReplace, Some(0));
    });
    world.reconcile().await;
    world.edit(|p| (p["spec"]["crds"], p["spec"]["value"]) = (json!([definition]), "2".into()));
    world.reconcile().await;
    for _ in 0..3 {
        retry(&world).await;
    }
    assert_eq!((world.history(), world.condition("Stalled")), (vec!["1 deployed".to_owned()], None));
    let told = ["Irreconcilable", "Reconciling", "Ready"].map(|name| world.condition(name).unwrap_or_default());
    // The name is masked, because it is also a value.
    assert!(told.iter().any(|text| text.contains(": it is being deleted")), "{told:?}");
    world.server.remove(DEFINITION);
    retry(&world).await;
    assert!(world.server.object(DEFINITION).is_some());
    assert_eq!((world.value_of("a"), world.condition("Irreconcilable")), (json!("2"), None));
}

#[tokio::test(start_paused = true)]
async fn after_its_retries_a_resource_is_stalled_until_its_inputs_change_or_a_retry_is_asked_for() {
    let world = world(OnFailure::Rollback, Some(2));
    world.reconcile().await;
    refuse(&world, 422);
    set(&world, "bad");
    world.reconcile().await;
    let stalled = world.condition("Stalled").unwrap();
    assert!(stalled.starts_with("True/UpgradeError/correct spec or the chart, or what"), "{stalled}");
    retry(&world).await;
    retry(&world).await;
    let stalled = world.condition("Stalled").unwrap();
    let expected =
        "True/RetriesExceeded/3 attempts failed, the last one as the message of Ready says; to try again, change";
    assert!(stalled.starts_with(expected), "{stalled}");
    assert_eq!(world.value_of("b"), "1", "rolled back");
    let given_up = published(&world).await.into_iter().filter(|event| event.contains("RetriesExceeded")).count();
    assert_eq!(given_up, 1);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(world.requests().await, 0);
    }
    world.server.accept();
    let token = json!({"helm.sdk.operatorframework.io/retry-now": "1"});
    world.edit(|p| p["metadata"]["annotations"] = token);
    world.reconcile().await;
    assert_eq!((world.value_of("b"), world.condition("Stalled")), (json!("bad"), None));
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired_while_a_resource_is_stalled() {
    let world = world(OnFailure::Rollback, Some(0));
    world.reconcile().await;
    refuse(&world, 422);
    set(&world, "bad");
    world.reconcile().await;
    assert!(world.condition("Stalled").unwrap().starts_with("True/RetriesExceeded/1 attempts"));
    world.server.remove(&format!("{MAPS}/a"));
    world.reconcile().await;
    assert_eq!(world.value_of("a"), "1");
}

#[tokio::test(start_paused = true)]
async fn a_failed_install_whose_removal_is_not_answered_is_removed_before_its_hooks_run_again() {
    for is_lost in [false, true] {
        let server = World::new(hooks::with_hooks(json!([hooks::hook("check", "post-install")]))).server;
        let none = |settings: &mut Settings| settings.retries = Some(0);
        let world = World::with_events(server, Arc::new(Stub::default()), none);
        match is_lost {
            true => world.server.disturb(&format!("DELETE {}", record_path(1)), 1, Disturbance::AnswerLost),
            false => world.server.refuse(|call| {
                let is_away = call.method == http::Method::DELETE && call.path.starts_with(MAPS);
                is_away.then(|| Error::from_status(503, "ServiceUnavailable", "away"))
            }),
        }
        for _ in 0..3 {
            hooks::reconcile(&world, "Failed").await;
            tokio::time::advance(Duration::from_secs(600)).await;
            assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 1, "lost: {is_lost}");
        }
        world.server.accept();
        hooks::reconcile(&world, "Failed").await;
        let ended = (world.maps().len(), world.history().len(), world.state("Stalled"));
        assert_eq!(ended, (0, 0, "True/RetriesExceeded".to_owned()), "lost: {is_lost}");
        assert_eq!(hooks::count(&world, &format!("POST {}", hooks::JOBS)), 1, "lost: {is_lost}");
    }
}
