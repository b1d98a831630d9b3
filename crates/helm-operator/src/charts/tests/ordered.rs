//! Tests of ordered releases in whole reconciles: one group after the other, waits without a worker and a request, and a kill at any time.

use std::sync::atomic::AtomicBool;

use helm_release::action::{Health, LiveView as _};
use helm_release::kube::{ObjectKey, Slot, Unready};

use super::finished_jobs::{LOAD, feed_jobs};
use super::hooks::count;
use super::reporting::published;
use super::*;
use crate::reconcile::decide::progression::{Part, Reached};
use crate::reconcile::step_context::StepContext;
use crate::watches::{OnFailure, OnGateFailure, rollout_of};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";
const MINUTE: Duration = Duration::from_secs(60);

/// Returns a Deployment of a group that waits for others.
fn deployment(name: &str, group: &str, on: &[&str]) -> Value {
    let mut annotations = json!({});
    for (key, text) in
        [("helm.sh/resource-group", group.to_owned()), ("helm.sh/depends-on/resource-groups", json!(on).to_string())]
    {
        if !text.is_empty() && text != "[]" {
            annotations[key] = text.into();
        }
    }
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": name}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "annotations": annotations}, "spec": spec})
}

/// Returns a shop: its database first, then its web server, and then its notes.
fn shop() -> Value {
    let objects = [deployment("web", "web", &["database"]), deployment("db", "database", &[])];
    json!({"maps": ["notes"], "value": "1", "objects": objects})
}

fn ordered(settings: &mut Settings) {
    settings.sequencing = Sequencing::Ordered;
}

fn world(spec: Value) -> World {
    on(World::new(spec).server)
}

/// Creates a controller that has just started.
fn on(server: Arc<MemoryApi>) -> World {
    World::with_events(server, Arc::new(Stub::default()), ordered)
}

/// Creates a controller that leaves what failed.
fn keeping(server: Arc<MemoryApi>) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| {
        ordered(settings);
        settings.on_failure = OnFailure::Keep;
    })
}

fn live(world: &World, name: &str) -> Option<Value> {
    world.server.object(&format!("{DEPLOYMENTS}/{name}"))
}

/// Returns the names of the Deployments.
fn deployments(world: &World) -> Vec<String> {
    let paths = world.server.paths();
    paths.iter().filter_map(|path| path.strip_prefix(DEPLOYMENTS)?.strip_prefix('/')).map(str::to_owned).collect()
}

/// Sets the status of a Deployment, which no watch reports.
fn put_status(world: &World, name: &str, status: Value) {
    let mut object = live(world, name).unwrap();
    object["status"] = status;
    world.server.put(&format!("{DEPLOYMENTS}/{name}"), object, "kube-controller-manager");
}

fn set_status(world: &World, name: &str, status: Value) {
    put_status(world, name, status);
    world.feed();
}

/// Returns the status of a Deployment that is available.
fn available(world: &World, name: &str) -> Value {
    let generation = live(world, name).unwrap()["metadata"]["generation"].clone();
    let conditions = json!([
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ]);
    json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
        "availableReplicas": 1, "conditions": conditions})
}

fn make_available(world: &World, name: &str) {
    set_status(world, name, available(world, name));
}

/// Makes each Deployment available half a minute after it was applied, for ever.
async fn roll_out(world: &World) {
    loop {
        tokio::time::sleep(MINUTE / 2).await;
        for name in deployments(world) {
            let object = live(world, &name).unwrap();
            let has_conditions = object["metadata"]["annotations"]["helm.sh/readiness-success"].is_string();
            if !has_conditions && object["status"]["observedGeneration"] != object["metadata"]["generation"] {
                make_available(world, &name);
            }
        }
        world.feed();
    }
}

/// Reconciles while Deployments become available.
async fn reconcile(world: &World) {
    tokio::select! {
        _ = world.reconcile() => {}
        () = roll_out(world) => unreachable!("it has no end"),
    }
}

/// Reconciles until the process is killed after this time.
async fn killed_after(world: &World, seconds: u64) {
    tokio::select! {
        () = reconcile(world) => {}
        () = tokio::time::sleep(SECOND * seconds as u32) => {}
    }
}

/// Returns each object's uid.
fn uids(world: &World) -> Vec<(String, Value)> {
    let mut paths = world.server.paths();
    paths.retain(|path| path.starts_with(DEPLOYMENTS) || path.starts_with(MAPS));
    paths
        .into_iter()
        .map(|path| (path.clone(), world.server.object(&path).unwrap()["metadata"]["uid"].clone()))
        .collect()
}

/// Returns the objects in the order of their first write of this kind.
fn first(world: &World, method: &str) -> Vec<&'static str> {
    let names = ["db", "web", "notes"];
    let mut seen: Vec<&'static str> = Vec::new();
    for line in world.server.log().iter().filter(|line| line.starts_with(method)) {
        let is_it = |name: &&&str| [DEPLOYMENTS, MAPS].iter().any(|kind| line.ends_with(&format!("{kind}/{name}")));
        if let Some(name) = names.iter().find(is_it).filter(|name| !seen.contains(name)) {
            seen.push(*name);
        }
    }
    seen
}

/// A worker's slot that records whether it has been given up.
#[derive(Default)]
struct Noted(AtomicBool);

impl Slot for Noted {
    fn leave(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn enter(&self) -> BoxFuture<'_, ()> {
        self.0.store(false, Ordering::SeqCst);
        Box::pin(async {})
    }
}

/// Deletes the resource. Returns the objects in the order in which they are deleted.
async fn deleted(world: &World) -> Vec<&'static str> {
    world.delete();
    for _ in 0..5 {
        world.reconcile().await;
    }
    first(world, "DELETE")
}

#[tokio::test(start_paused = true)]
async fn each_group_is_applied_once_those_that_it_waits_for_are_ready_and_a_wait_takes_no_worker_and_no_request() {
    let (world, key, slot) = (world(shop()), key(), Noted::default());
    let cluster = async {
        tokio::time::sleep(MINUTE / 2).await;
        assert_eq!((deployments(&world), world.maps().len()), (vec!["db".to_owned()], 0));
        assert!(slot.0.load(Ordering::SeqCst), "the worker is free");
        let status = world.server.object(PRIMARY).unwrap()["status"].to_string();
        let waits = "waiting for group \\\"memcached database\\\" (round 1 of 3): Deployment \\\"db\\\": ";
        assert!(status.contains(waits), "{status}");
        let before = world.server.log().len();
        tokio::time::sleep(MINUTE * 8).await;
        assert_eq!(world.server.log().len(), before, "no request while nothing changes");
        make_available(&world, "db");
        tokio::time::sleep(MINUTE / 2).await;
        assert_eq!((deployments(&world), world.maps().len()), (vec!["db".to_owned(), "web".into()], 0));
        make_available(&world, "web");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = reconcile::reconcile(&world.shared, &key, &slot, Priority::Retry) => {}
        () = cluster => unreachable!("it has no end"),
    }
    world.feed();
    assert_eq!((world.maps(), world.history()), (vec!["notes".to_owned()], vec!["1 deployed".to_owned()]));
    assert!(!slot.0.load(Ordering::SeqCst), "the worker is taken again");
    assert_eq!(world.state("Ready"), "True/Ready");
    assert_eq!(world.requests().await, 0, "nothing is left to do");
    let stub = on(world.server.clone());
    assert_eq!(stub.requests().await, 0, "nor for another process");
}

#[tokio::test(start_paused = true)]
async fn without_the_key_all_objects_are_applied_at_once() {
    let world = World::new(shop());
    world.reconcile().await;
    assert_eq!((deployments(&world).len(), world.maps().len(), world.history()), (2, 1, vec!["1 deployed".to_owned()]));
    let record = world.server.object(&format!("{SECRETS}/sh.helm.release.v1.web.v1")).unwrap();
    let marks = record["metadata"]["annotations"][MARKS_ANNOTATION].as_str().unwrap();
    assert!(!marks.contains("\"g\""), "and the record is as before: {marks}");
}

/// Runs what `prepare` has prepared with a process that dies after each of its writes, and then with others until `end` holds. Objects keep their uids.
async fn survive(prepare: impl AsyncFn() -> World, end: impl Fn(&World)) {
    for writes in 0.. {
        let world = prepare().await;
        world.server.fail_after(Some(writes));
        for _ in 0..6 {
            if world.server.writes_left() != Some(0) {
                reconcile(&world).await;
            }
        }
        let died = world.server.writes_left() == Some(0);
        world.server.fail_after(None);
        let before = uids(&world);
        let world = on(world.server);
        for _ in 0..6 {
            reconcile(&world).await;
            tokio::time::advance(MINUTE * 10).await;
        }
        end(&world);
        let after = uids(&world);
        let is_other = |(path, uid): &&(String, Value)| after.iter().any(|(other, new)| other == path && new != uid);
        assert_eq!(before.iter().find(is_other), None, "after {writes} writes");
        if !died {
            assert!(writes > 3, "the scenario wrote nothing");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_ordered_install_that_dies_after_any_write_goes_on_where_it_was() {
    survive(
        async || world(shop()),
        |world| {
            assert_eq!(first(world, "PATCH"), ["db", "web", "notes"]);
            assert_eq!(
                (world.history(), world.state("Ready")),
                (vec!["1 deployed".to_owned()], "True/Ready".to_owned())
            );
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_ordered_upgrade_that_dies_after_any_write_goes_on_where_it_was() {
    let prepare = async || {
        let world = world(shop());
        reconcile(&world).await;
        let mut next = shop();
        next["objects"].as_array_mut().unwrap().iter_mut().for_each(|object| object["spec"]["paused"] = false.into());
        next["value"] = "2".into();
        world.edit(|p| p["spec"] = next);
        world
    };
    survive(prepare, |world| {
        assert_eq!(world.history().last().unwrap(), "2 deployed");
        assert_eq!((world.value_of("notes"), world.state("Ready")), (json!("2"), "True/Ready".to_owned()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_ordered_uninstall_that_dies_after_any_write_is_completed_in_reverse() {
    let prepare = async || {
        let world = world(shop());
        reconcile(&world).await;
        world.delete();
        world
    };
    survive(prepare, |world| {
        assert_eq!(first(world, "DELETE"), ["notes", "web", "db"]);
        assert!(deployments(world).is_empty() && world.maps().is_empty() && world.server.object(PRIMARY).is_none());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_while_it_waits_is_continued_without_applying_anything_twice() {
    for seconds in (0..80).step_by(5) {
        let world = world(shop());
        killed_after(&world, seconds).await;
        let before = uids(&world);
        let world = on(world.server);
        for _ in 0..3 {
            reconcile(&world).await;
            tokio::time::advance(MINUTE).await;
        }
        assert_eq!(world.history(), ["1 deployed"], "after {seconds} s");
        assert!(before.iter().all(|known| uids(&world).contains(known)), "after {seconds} s");
        for (path, _) in uids(&world) {
            assert_eq!(count(&world, &format!("PATCH {path}")), 1, "{path} after {seconds} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn later_groups_are_deleted_first_and_earlier_ones_once_they_are_gone() {
    let world = world(shop());
    reconcile(&world).await;
    let mut web = live(&world, "web").unwrap();
    web["metadata"]["finalizers"] = json!(["x/y"]);
    world.server.put(&format!("{DEPLOYMENTS}/web"), web, "user");
    world.delete();
    for _ in 0..4 {
        world.reconcile().await;
    }
    assert_eq!((deployments(&world), world.maps().len()), (vec!["db".to_owned(), "web".into()], 0));
    assert!(live(&world, "web").unwrap()["metadata"]["deletionTimestamp"].is_string());
    assert!(live(&world, "db").unwrap()["metadata"]["deletionTimestamp"].is_null(), "web still exists");
    world.server.remove(&format!("{DEPLOYMENTS}/web"));
    for _ in 0..3 {
        world.reconcile().await;
    }
    assert!(deployments(&world).is_empty() && world.server.object(PRIMARY).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_a_chart_drops_is_deleted_in_reverse() {
    let world = world(shop());
    reconcile(&world).await;
    world.edit(|p| p["spec"] = json!({"maps": ["other"], "value": "1"}));
    reconcile(&world).await;
    assert_eq!(first(&world, "DELETE"), ["notes", "web", "db"]);
    assert_eq!((world.maps(), world.history().last().unwrap().as_str()), (vec!["other".to_owned()], "2 deployed"));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_fails_or_takes_too_long_fails_the_release_and_says_what_to_do() {
    let conditions = |object: &mut Value| {
        object["metadata"]["annotations"]["helm.sh/readiness-success"] = json!(["{.phase} == Up"]).to_string().into();
        object["metadata"]["annotations"]["helm.sh/readiness-failure"] = json!(["{.phase} == Down"]).to_string().into();
    };
    let mut spec = shop();
    conditions(&mut spec["objects"][1]);
    for (status, expected) in [
        (
            Some(json!({"phase": "Down"})),
            "group \"memcached database\" failed: Deployment \"db\": {.phase} == Down (helm.sh/readiness-failure); correct it",
        ),
        (
            None,
            "group \"memcached database\" is not ready: Deployment \"db\": no condition of helm.sh/readiness-success holds, and for 10m0s nothing changed; look at",
        ),
    ] {
        let world = keeping(World::new(spec.clone()).server);
        let cluster = async {
            tokio::time::sleep(MINUTE).await;
            status.into_iter().for_each(|status| set_status(&world, "db", status));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = world.reconcile() => {}
            () = cluster => unreachable!("it has no end"),
        }
        let condition = world.condition("ReleaseFailed").unwrap();
        assert!(condition.starts_with(&format!("True/GroupNotReady/{expected}")), "{condition}");
        assert_eq!((deployments(&world), world.history()), (vec!["db".to_owned()], vec!["1 failed".to_owned()]));
        // The next attempt continues once it is ready.
        set_status(&world, "db", json!({"phase": "Up"}));
        tokio::time::advance(MINUTE * 60).await;
        reconcile(&world).await;
        assert_eq!(world.history().last().unwrap(), "2 deployed");
        assert_eq!((world.condition("ReleaseFailed"), world.state("Ready").as_str()), (None, "True/Ready"));
    }
}

/// The message of a refusal that does not name its cause.
const NO_ANSWER: &str = "no answer";

/// Refuses all reads of Deployments with this code and message.
fn refuse_reads(world: &World, code: u16, message: &'static str) {
    refuse_deployments(world, http::Method::GET, code, message);
}

fn refuse_deployments(world: &World, method: http::Method, code: u16, message: &'static str) {
    world.server.refuse(move |call| {
        let refused = call.method == method && call.path.starts_with(DEPLOYMENTS);
        refused.then(|| Error::from_status(code, "", message))
    });
}

/// Refuses all reads of Deployments with this code. With 403, their watch ends, too.
fn hide_deployments(world: &World, code: u16) {
    refuse_reads(world, code, NO_ANSWER);
    if code == 403 {
        let kind = Arc::new(resource("apps/v1", "Deployment", "deployments"));
        Dependents(world.shared.clone(), kind, 1).lost(&WatchScope::ALL);
    }
}

/// Reconciles while the database becomes ready, but no Deployment can be read.
async fn reconcile_blindly(world: &World, code: u16) {
    let cluster = async {
        tokio::time::sleep(MINUTE).await;
        hide_deployments(world, code);
        put_status(world, "db", available(world, "db"));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = world.reconcile() => {}
        () = cluster => unreachable!("it has no end"),
    }
}

/// Checks that the action is interrupted and has deleted nothing, and completes it.
async fn check_continued(world: &World, code: u16, interrupted: &[&str], completed: &[&str]) {
    assert_eq!(world.history(), interrupted, "{code}");
    let condition = world.condition("Irreconcilable").unwrap();
    let why = "group \"memcached database\" is not known to be ready: cannot read Deployment \"db\": no answer";
    assert_eq!((condition, world.condition("ReleaseFailed")), (format!("True/Unanswered/{why}"), None));
    assert_eq!(first(world, "DELETE"), Vec::<&str>::new());
    let before = uids(world);
    world.server.accept();
    tokio::time::advance(MINUTE * 10).await;
    reconcile(world).await;
    assert_eq!(world.history(), completed, "{code}");
    assert_eq!(world.state("Ready"), "True/Ready", "{code}");
    assert!(before.iter().all(|known| uids(world).contains(known)), "{code}");
}

#[tokio::test(start_paused = true)]
async fn an_install_whose_objects_cannot_be_read_until_the_limit_is_not_removed() {
    for code in [403, 500] {
        let world = world(shop());
        reconcile_blindly(&world, code).await;
        check_continued(&world, code, &["1 pending-install"], &["1 deployed"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_whose_objects_cannot_be_read_until_the_limit_is_neither_rolled_back_nor_uninstalled() {
    for (policy, code) in [(OnFailure::Rollback, 403), (OnFailure::Rollback, 500), (OnFailure::Uninstall, 403)] {
        let world = World::with_events(World::new(shop()).server, Arc::new(Stub::default()), |settings| {
            ordered(settings);
            settings.on_failure = policy;
        });
        reconcile(&world).await;
        world.edit(|p| p["spec"]["objects"][1]["spec"]["paused"] = false.into());
        reconcile_blindly(&world, code).await;
        check_continued(&world, code, &["1 deployed", "2 pending-upgrade"], &["1 superseded", "2 deployed"]).await;
    }
}

const CONVERSION: &str =
    "conversion webhook for apps/v1, Kind=Deployment failed: no endpoints available for service \"a\"";

/// Creates a controller that rolls this version of the chart out in steps.
fn rolling(server: Arc<MemoryApi>, chart: &'static str) -> World {
    World::with_events(server, Arc::new(Stub { chart, ..Stub::default() }), |settings| {
        ordered(settings);
        settings.rollout = Some(Arc::new(rollout_of(None, &[50], "", OnGateFailure::Halt)));
    })
}

/// Returns a release that is ready with the first version of its chart, and whose database the second one changes.
async fn before_the_rollout() -> World {
    let mut spec = shop();
    let mut objects = spec["objects"].clone();
    objects[1]["spec"]["paused"] = false.into();
    spec["by"] = json!({"v2": {"objects": objects}});
    let world = rolling(World::new(spec).server, "v1");
    reconcile(&world).await;
    make_available(&world, "web");
    reconcile(&world).await;
    assert_eq!(world.state("Ready"), "True/Ready");
    rolling(world.server, "v2")
}

/// Checks the state in the rollout of a release that the second version has reached.
fn check_reached(world: &World, state: Reached, behaviour: &str) {
    let part = world.shared.turns.part(&key());
    let is_in = matches!(part, Some(Part::Reached { state: now, .. }) if now == state);
    assert!(is_in, "{behaviour}: {state:?}: {part:?}");
}

/// Reconciles while the database waits and, from the first minute on, no Deployment can be read.
async fn reconcile_refused(world: &World, code: u16, message: &'static str) {
    let refused = async {
        tokio::time::sleep(MINUTE).await;
        refuse_reads(world, code, message);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = world.reconcile() => {}
        () = refused => unreachable!("it has no end"),
    }
    assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"], "{code}");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_the_server_refuses_to_show_for_long_counts_as_failed_in_a_rollout_unlike_an_outage() {
    for (code, message, at_last) in [
        (403, NO_ANSWER, Reached::Failed),
        (500, NO_ANSWER, Reached::Moving),
        (503, NO_ANSWER, Reached::Moving),
        // The upgrade may have broken the webhook.
        (500, CONVERSION, Reached::Failed),
    ] {
        let world = before_the_rollout().await;
        for state in [Reached::Moving, at_last] {
            reconcile_refused(&world, code, message).await;
            check_reached(&world, state, &format!("{code} {message}"));
            tokio::time::advance(MINUTE * 10).await;
        }
        world.server.accept();
        reconcile(&world).await;
        assert_eq!(world.history(), ["1 superseded", "2 deployed"], "{code}");
        let part = world.shared.turns.part(&key());
        assert!(!matches!(part, Some(Part::Reached { state: Reached::Failed, .. })), "{code}: {part:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_a_conversion_webhook_fails_for_long_counts_as_failed_in_a_rollout() {
    for (message, at_last) in [(CONVERSION, Reached::Failed), (NO_ANSWER, Reached::Moving)] {
        let world = before_the_rollout().await;
        refuse_deployments(&world, http::Method::PATCH, 500, message);
        for state in [Reached::Moving, at_last] {
            reconcile(&world).await;
            assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"], "{message}");
            check_reached(&world, state, message);
            tokio::time::advance(MINUTE * 20).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_the_server_refused_to_show_once_does_not_count_as_failed_however_long_ago() {
    let world = before_the_rollout().await;
    reconcile_refused(&world, 403, NO_ANSWER).await;
    tokio::time::advance(MINUTE * 20).await;
    // Something wakes the release before its next look.
    let primary = world.shared.cache.primary(&key()).unwrap();
    StepContext::new(&world.shared, &key(), &()).note_part(&primary, None);
    check_reached(&world, Reached::Moving, "refused once");
    reconcile_refused(&world, 403, NO_ANSWER).await;
    check_reached(&world, Reached::Failed, "refused again");
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_has_missed_is_asked_for_before_the_release_fails() {
    let world = world(shop());
    let cluster = async {
        loop {
            tokio::time::sleep(MINUTE / 2).await;
            deployments(&world).iter().for_each(|name| put_status(&world, name, available(&world, name)));
        }
    };
    tokio::select! {
        _ = world.reconcile() => {}
        () = cluster => unreachable!("it has no end"),
    }
    assert_eq!((deployments(&world).len(), world.history()), (2, vec!["1 deployed".to_owned()]));
    assert!(count(&world, &format!("GET {DEPLOYMENTS}/db")) < 4, "once, and before the first write");
}

#[tokio::test(start_paused = true)]
async fn a_failed_upgrade_is_rolled_back_in_order() {
    let world = world(shop());
    reconcile(&world).await;
    let mut next = shop();
    next["objects"].as_array_mut().unwrap().iter_mut().for_each(|object| object["spec"]["paused"] = false.into());
    next["value"] = "2".into();
    world.edit(|p| p["spec"] = next);
    let cluster = async {
        tokio::time::sleep(MINUTE).await;
        let failed =
            json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "no"}]);
        let generation = live(&world, "db").unwrap()["metadata"]["generation"].clone();
        set_status(&world, "db", json!({"observedGeneration": generation, "conditions": failed}));
        roll_out(&world).await;
    };
    tokio::select! {
        _ = world.reconcile() => {}
        () = cluster => unreachable!("it has no end"),
    }
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!(live(&world, "db").unwrap()["spec"]["paused"], Value::Null);
    assert_eq!(
        (live(&world, "web").unwrap()["spec"]["paused"].clone(), world.value_of("notes")),
        (Value::Null, json!("1"))
    );
    assert!(published(&world).await.iter().any(|event| event.starts_with("Warning GroupNotReady")));
    assert_eq!(deleted(&world).await, ["notes", "web", "db"], "a rollback keeps the order");
}

#[tokio::test(start_paused = true)]
async fn another_spec_or_a_deletion_ends_a_wait() {
    for is_deleted in [false, true] {
        let world = world(shop());
        let cluster = async {
            tokio::time::sleep(MINUTE).await;
            if is_deleted {
                world.delete();
            } else {
                world.edit(|p| p["spec"]["objects"] = json!([]));
            }
            world.feed();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = world.reconcile() => {}
            () = cluster => unreachable!("it has no end"),
        }
        for _ in 0..3 {
            world.reconcile().await;
        }
        assert!(deployments(&world).is_empty(), "{:?}", deployments(&world));
        if is_deleted {
            assert!(world.server.object(PRIMARY).is_none());
        } else {
            assert_eq!(
                (world.maps(), world.history().last().unwrap().as_str()),
                (vec!["notes".to_owned()], "2 deployed")
            );
            let events = published(&world).await;
            assert!(events.iter().any(|event| event.starts_with("Normal GroupInterrupted")), "{events:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_ties_again_what_the_failed_upgrade_tied_otherwise() {
    let mut spec = shop();
    spec["hooks"] = json!([{"name": "backup", "events": ["pre-delete"]}]);
    let world = world(spec);
    reconcile(&world).await;
    let tied = |world: &World| {
        let metadata = live(world, "db").unwrap()["metadata"].take();
        (
            metadata["uid"].clone(),
            metadata["ownerReferences"].is_array(),
            metadata["annotations"]["operator-sdk/primary-resource"].clone(),
        )
    };
    let before = tied(&world);
    assert!(!before.1 && before.2 == "ns/web", "{before:?}");
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_second = call.path.contains("/configmaps/notes") && body.contains("\"2\"");
        is_second.then(|| Error::from_status(422, "Invalid", "no"))
    });
    world.edit(|p| (p["spec"]["hooks"], p["spec"]["value"]) = (json!([]), "2".into()));
    reconcile(&world).await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!(tied(&world), before);
    assert!(count(&world, &format!("PATCH {DEPLOYMENTS}/db")) >= 3, "the failed upgrade had tied it otherwise");
}

#[tokio::test(start_paused = true)]
async fn an_order_that_does_not_exist_is_an_error_before_the_first_write() {
    for (objects, expected) in [
        (
            json!([deployment("a", "a", &["b"]), deployment("b", "b", &["a"])]),
            "resource groups of chart memcached wait for each other: a → b → a",
        ),
        (
            json!([deployment("a", "a", &["databse"])]),
            "resource group \"a\" of chart memcached waits for \"databse\", which no object is in",
        ),
    ] {
        let world = world(json!({"objects": objects}));
        world.reconcile().await;
        let condition = world.condition("Irreconcilable").unwrap();
        assert_eq!(condition, format!("True/InvalidOrder/{expected}"));
        assert!(world.condition("Stalled").unwrap().starts_with("True/InvalidOrder/correct the annotations"));
        assert!(deployments(&world).is_empty() && world.history().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired_without_a_wait() {
    let world = world(shop());
    reconcile(&world).await;
    for name in ["db", "web"] {
        world.server.remove(&format!("{DEPLOYMENTS}/{name}"));
    }
    world.reconcile().await;
    assert_eq!(
        (deployments(&world), world.history()),
        (vec!["db".to_owned(), "web".into()], vec!["1 deployed".to_owned()])
    );
    assert_eq!(deleted(&world).await, ["notes", "web", "db"], "a repair keeps the order");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_respond_is_asked_for_one_object() {
    let mut spec = shop();
    spec["objects"].as_array_mut().unwrap().push(deployment("cache", "database", &[]));
    let (world, before) = (world(spec), std::cell::Cell::new(0));
    let reads = || world.server.log().iter().filter(|line| line.starts_with(&format!("GET {DEPLOYMENTS}/"))).count();
    let cluster = async {
        tokio::time::sleep(MINUTE).await;
        world.server.refuse(|call| {
            let reads = call.method == http::Method::GET && call.path.starts_with(DEPLOYMENTS);
            reads.then(|| Error::Transport("reset".into()))
        });
        before.set(reads());
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = world.reconcile() => {}
        () = cluster => unreachable!("it has no end"),
    }
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/Unanswered/"));
    assert_eq!(reads() - before.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn objects_that_no_watch_covers_are_read() {
    let server = World::new(shop()).server;
    let world = World::unwatched(server, |settings| {
        ordered(settings);
        settings.watch_dependent_resources = false;
    });
    reconcile(&world).await;
    assert_eq!((deployments(&world).len(), world.maps().len(), world.history()), (2, 1, vec!["1 deployed".to_owned()]));
    assert!(count(&world, &format!("GET {DEPLOYMENTS}/db")) < 15, "every few seconds");
}

/// Returns a shop whose web server waits for a Job.
fn migrating(value: u32) -> Value {
    let metadata = json!({"name": "load", "annotations": {"helm.sh/resource-group": "tables"}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"image": "a"}});
    let mut web = deployment("web", "web", &["tables"]);
    web["spec"]["revisionHistoryLimit"] = value.into();
    json!({"maps": ["notes"], "value": "1", "objects": [web, job]})
}

/// Returns a server whose policy gives each Job a TTL.
fn expiring(spec: Value) -> Arc<MemoryApi> {
    let server = World::new(spec).server;
    server.change(|server| {
        server.mutate(|plural, object| {
            if plural == "jobs" {
                object["spec"]["ttlSecondsAfterFinished"] = 60.into();
            }
        });
    });
    server
}

/// Creates a controller that has just started, with or without watches of the chart's objects.
fn started(server: Arc<MemoryApi>, is_watched: bool) -> World {
    if !is_watched {
        return World::unwatched(server, |settings| {
            ordered(settings);
            settings.watch_dependent_resources = false;
        });
    }
    let world = on(server);
    feed_jobs(&world);
    world
}

fn see_jobs(world: &World) {
    if world.shared.settings.watch_dependent_resources {
        feed_jobs(world);
    }
}

/// Lets the Job succeed half a minute after it was applied, for ever.
async fn run_job(world: &World) {
    loop {
        tokio::time::sleep(MINUTE / 2).await;
        if let Some(mut job) = world.server.object(LOAD) {
            job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
            world.server.put(LOAD, job, "kube-controller-manager");
        }
        see_jobs(world);
    }
}

/// Reconciles while Deployments become available and the Job succeeds.
async fn migrate(world: &World) {
    tokio::select! {
        () = reconcile(world) => {}
        () = run_job(world) => unreachable!("it has no end"),
    }
}

/// Reconciles until the process is killed after it has applied this form of the web server.
async fn killed_after_web(world: &World, value: u32) {
    let applied = async {
        while live(world, "web").is_none_or(|web| web["spec"]["revisionHistoryLimit"] != value) {
            tokio::time::sleep(SECOND).await;
        }
    };
    tokio::select! {
        () = migrate(world) => unreachable!("the web server is not available yet"),
        () = applied => {}
    }
}

/// Deletes the Job, as its TTL does.
fn expire(world: &World) {
    world.server.remove(LOAD);
    see_jobs(world);
}

/// Checks that this form of the web server is deployed, although the Job ran once and is gone.
fn check_migrated(world: &World, value: u32) {
    let last = world.history().last().cloned();
    assert_eq!((last, world.condition("ReleaseFailed")), (Some(format!("{value} deployed")), None));
    assert_eq!(live(world, "web").unwrap()["spec"]["revisionHistoryLimit"], value);
    let log = world.server.log();
    let writes = log.iter().filter(|line| line.contains("/jobs") && !line.starts_with("GET")).count();
    assert_eq!((writes, world.server.object(LOAD)), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_whose_ttl_the_server_added_holds_up_no_later_round() {
    for is_watched in [true, false] {
        let world = started(expiring(migrating(1)), is_watched);
        migrate(&world).await;
        let before = uids(&world);
        expire(&world);
        world.edit(|p| p["spec"] = migrating(2));
        migrate(&world).await;
        check_migrated(&world, 2);
        assert_eq!(uids(&world), before, "watched: {is_watched}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_definition_is_gone_is_not_one_that_has_finished() {
    let (world, key) = (world(shop()), key());
    let context = StepContext::new(&world.shared, &key, &());
    let unserved = Health::Unready(Unready::because("the server does not serve its kind"));
    for (api_version, kind, expected) in [("batch/v1", "Job", Health::Absent), ("x.y/v1", "Load", unserved)] {
        let (group, _) = api_version.split_once('/').unwrap();
        let object = ObjectKey::new(group, kind, "ns", "load");
        assert!(context.applier.ask(&object, api_version).await.unwrap().is_none(), "{kind}");
        assert_eq!(context.answered(&object, None), expected, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_expired_while_no_process_ran_holds_up_no_continuation() {
    for value in [1, 2] {
        let world = started(expiring(migrating(1)), true);
        if value == 2 {
            migrate(&world).await;
            expire(&world);
            world.edit(|p| p["spec"] = migrating(2));
        }
        killed_after_web(&world, value).await;
        let before = uids(&world);
        world.server.remove(LOAD);
        let world = started(world.server, true);
        for _ in 0..3 {
            migrate(&world).await;
            tokio::time::advance(MINUTE).await;
        }
        check_migrated(&world, value);
        assert!(before.iter().all(|known| uids(&world).contains(known)), "revision {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_order_is_known_after_a_restart_although_the_record_does_not_list_the_objects() {
    let world = world(shop());
    killed_after(&world, 10).await;
    assert_eq!(deployments(&world), ["db"]);
    let before = uids(&world);
    omit_objects(&world.server, 1);
    let world = on(world.server);
    tokio::select! {
        _ = world.reconcile() => unreachable!("the database is not available"),
        () = tokio::time::sleep(MINUTE) => {}
    }
    assert_eq!((deployments(&world), world.maps().len()), (vec!["db".to_owned()], 0));
    omit_objects(&world.server, 1);
    let world = on(world.server);
    for _ in 0..3 {
        reconcile(&world).await;
        tokio::time::advance(MINUTE).await;
    }
    assert_eq!((world.history(), first(&world, "PATCH")), (vec!["1 deployed".to_owned()], vec!["db", "web", "notes"]));
    assert!(before.iter().all(|known| uids(&world).contains(known)));
    omit_objects(&world.server, 1);
    let world = on(world.server);
    assert_eq!(deleted(&world).await, ["notes", "web", "db"]);
}
