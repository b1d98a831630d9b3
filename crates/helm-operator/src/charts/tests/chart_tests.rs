//! Tests of a chart's tests as a gate: when they run, where their outcome is, and what a failure leads to.

use helm_release::kube::Disturbance;
use helm_release::storage::Tests;

use super::helm_commands::{helm_supersedes, helm_writes, manifest};
use super::hooks::{JOBS, complete, count, hook, killed_after, last, phases, with_hooks};
use super::reporting::published;
use super::*;
use crate::watches::{ChartTests, OnFailure, OnTestFailure};

fn tested(on_failure: OnTestFailure) -> impl Fn(&mut Settings) {
    move |settings: &mut Settings| {
        settings.chart_tests = ChartTests { enable: true, on_failure, ..ChartTests::default() };
    }
}

/// Reconciles while Jobs end in this way, once more after the watches of new kinds have listed.
async fn reconcile(world: &World, how: &str) -> ReconcileResult {
    hooks::reconcile(world, how).await;
    hooks::reconcile(world, how).await
}

/// Creates a controller that runs the chart's test hooks.
fn world(on_failure: OnTestFailure, hooks: Value) -> World {
    on(World::new(with_hooks(hooks)).server, on_failure)
}

/// Creates a controller that has just started.
fn on(server: Arc<MemoryApi>, on_failure: OnTestFailure) -> World {
    World::with_events(server, Arc::new(Stub::default()), tested(on_failure))
}

/// Replaces the process.
fn restarted(world: World, on_failure: OnTestFailure) -> World {
    on(world.server, on_failure)
}

fn tests() -> Value {
    json!([hook("check", "test")])
}

fn set(world: &World, value: &str) {
    world.edit(|p| p["spec"]["value"] = value.into());
}

/// Ends the Job `gone` as succeeded and `z-check` as failed, again and again.
async fn end_as_told(server: &MemoryApi) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        for (name, how) in [("gone", "Complete"), ("z-check", "Failed")] {
            let path = format!("{JOBS}/{name}");
            let Some(mut job) = server.object(&path).filter(|job| job["status"].is_null()) else { continue };
            job["status"]["conditions"] = json!([{"type": how, "status": "True", "message": "as told"}]);
            server.put(&path, job, "kube-controller-manager");
        }
    }
}

fn test_marks(world: &World) -> Option<Tests> {
    world.shared.cache.release(&key()).unwrap().deployed_marks().unwrap().tests
}

#[tokio::test(start_paused = true)]
async fn tests_run_once_after_each_install_and_upgrade_and_their_outcome_is_where_helm_has_it() {
    let world = world(
        OnTestFailure::Report,
        json!([hook("z-last", "test"), hook("a-first", "test"), hook("up", "post-upgrade")]),
    );
    reconcile(&world, "Complete").await;
    assert_eq!(phases(&world, 1).await, ["z-last Succeeded", "a-first Succeeded", "up NotRun"]);
    assert_eq!((world.history(), test_marks(&world)), (vec!["1 deployed".to_owned()], Some(Tests::Passed)));
    assert_eq!(world.condition("TestSuccess").unwrap(), "True/TestSucceeded/revision 1 passed its tests");
    assert_eq!(world.state("Ready"), "True/Ready");
    let passed =
        "Normal TestSucceeded x1: revision 1 passed its tests; hooks: Job \"a-first\" (0s), Job \"z-last\" (0s)";
    assert!(published(&world).await.contains(&passed.to_owned()), "{:#?}", published(&world).await);
    reconcile(&world, "Complete").await;
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2, "once");
    let world = restarted(world, OnTestFailure::Report);
    assert_eq!(world.requests().await, 0, "the marks say that they ran");
    set(&world, "2");
    reconcile(&world, "Complete").await;
    assert_eq!(phases(&world, 2).await, ["z-last Succeeded", "a-first Succeeded", "up Succeeded"]);
    assert_eq!(world.condition("TestSuccess").unwrap(), "True/TestSucceeded/revision 2 passed its tests");
    assert_eq!(count(&world, &format!("DELETE {JOBS}")), 2, "before each is created again");
}

#[tokio::test(start_paused = true)]
async fn tests_of_a_revision_that_another_resource_took_over_record_nothing_for_the_former_owner() {
    let world = world(OnTestFailure::Report, json!([hook("smoke", "test")]));
    let marks = |world: &World| world.server.object(&record_path(1)).unwrap()["metadata"]["annotations"].clone();
    let taken_over = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(phases(&world, 1).await, ["smoke Running"]);
        put_as_anothers(&world.server, &record_path(1), world.server.object(&record_path(1)).unwrap());
        complete(&world.server, "smoke");
        marks(&world)
    };
    let (_, theirs) = tokio::join!(world.reconcile(), taken_over);
    assert_eq!(marks(&world), theirs);
}

#[tokio::test(start_paused = true)]
async fn tests_that_are_off_or_of_an_earlier_revision_do_not_run() {
    let world = World::new(with_hooks(tests()));
    reconcile(&world, "Complete").await;
    let world = restarted(world, OnTestFailure::Report);
    reconcile(&world, "Complete").await;
    assert_eq!((count(&world, &format!("POST {JOBS}")), world.condition("TestSuccess")), (0, None));
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/upgrade-disable-hooks": "true"});
        p["spec"]["value"] = "2".into();
    });
    reconcile(&world, "Complete").await;
    assert_eq!((count(&world, &format!("POST {JOBS}")), world.condition("TestSuccess")), (0, None));
}

#[tokio::test(start_paused = true)]
async fn tests_wait_until_every_object_is_ready() {
    let world = world(OnTestFailure::Report, tests());
    world.edit(|p| p["spec"]["deployments"] = json!(["app"]));
    reconcile(&world, "Complete").await;
    assert_eq!(count(&world, &format!("POST {JOBS}")), 0);
    let waits = "Unknown/TestsPending/the tests of revision 1 start once every object is ready";
    assert_eq!(world.condition("TestSuccess").unwrap(), waits);
    let path = "/apis/apps/v1/namespaces/ns/deployments/app";
    let mut app = world.server.object(path).unwrap();
    let available = json!({"type": "Available", "status": "True"});
    app["status"] = json!({"observedGeneration": app["metadata"]["generation"], "replicas": 1, "readyReplicas": 1,
        "updatedReplicas": 1, "availableReplicas": 1, "conditions": [available]});
    world.server.put(path, app, "kube-controller-manager");
    reconcile(&world, "Complete").await;
    assert_eq!(world.state("TestSuccess"), "True/TestSucceeded");
}

#[tokio::test(start_paused = true)]
async fn a_failed_test_is_reported_and_runs_again_on_request() {
    let world = world(OnTestFailure::Report, json!([hook("a", "test"), hook("b", "test")]));
    reconcile(&world, "Failed").await;
    let why = "revision 1 failed its tests: hook memcached/templates/a.yaml failed: Job \"a\": as told";
    assert_eq!(world.condition("TestSuccess").unwrap(), format!("False/TestFailed/{why}"));
    assert_eq!((world.state("Ready").as_str(), world.condition("ReleaseFailed")), ("True/Ready", None));
    assert_eq!(phases(&world, 1).await, ["a Failed", "b NotRun"], "the rest is not run, as in Helm");
    assert_eq!(world.history(), ["1 deployed"]);
    assert!(published(&world).await.contains(&format!("Warning TestFailed x1: {why}")));
    let world = restarted(world, OnTestFailure::Report);
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(world.requests().await, 0, "nothing is tried again");
    assert_eq!(world.condition("TestSuccess").unwrap(), format!("False/TestFailed/{why}"), "the status still says why");
    let token = json!({"helm.sdk.operatorframework.io/retry-now": "1"});
    world.edit(|p| p["metadata"]["annotations"] = token);
    reconcile(&world, "Complete").await;
    assert_eq!(world.state("TestSuccess"), "True/TestSucceeded");
    assert_eq!(phases(&world, 1).await, ["a Succeeded", "b Succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_fails_its_tests_is_rolled_back_once_and_its_inputs_are_not_tried_again() {
    let world = world(OnTestFailure::Rollback, tests());
    reconcile(&world, "Complete").await;
    set(&world, "bad");
    reconcile(&world, "Failed").await;
    let all = ["1 superseded", "2 superseded", "3 deployed"];
    assert_eq!((world.value_of("a"), world.history()), (json!("1"), all.map(str::to_owned).to_vec()));
    let why = "revision 2 failed its tests: hook memcached/templates/check.yaml failed: Job \"check\": as told";
    assert_eq!(world.condition("TestSuccess").unwrap(), format!("False/TestFailed/{why}"));
    assert_eq!(world.condition("ReleaseFailed").unwrap(), format!("True/TestFailed/{why}; it was rolled back"));
    assert!(world.condition("Stalled").unwrap().starts_with("True/TestFailed/correct spec or the chart; to try"));
    let events = published(&world).await;
    assert!(events.contains(&format!("Warning TestFailed x1: {why}")), "{events:#?}");
    let back = "Normal RolledBack x1: rolled back to revision 1 as revision 3: revision 2 failed its tests";
    assert!(events.contains(&back.to_owned()), "{events:#?}");
    for _ in 0..2 {
        let world = on(world.server.clone(), OnTestFailure::Rollback);
        tokio::time::advance(Duration::from_secs(3600)).await;
        reconcile(&world, "Complete").await;
        assert_eq!(world.history().last().unwrap(), "3 deployed", "nor by another process");
        assert_eq!(world.condition("ReleaseFailed").unwrap(), format!("True/TestFailed/{why}; it was rolled back"));
    }
    world.server.remove(&format!("{MAPS}/b"));
    let world = restarted(world, OnTestFailure::Rollback);
    reconcile(&world, "Complete").await;
    assert_eq!(world.value_of("b"), "1", "what is deployed is repaired");
    set(&world, "good");
    reconcile(&world, "Complete").await;
    assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("good"), "4 deployed"));
    assert_eq!((world.state("TestSuccess").as_str(), world.condition("ReleaseFailed")), ("True/TestSucceeded", None));
}

#[tokio::test(start_paused = true)]
async fn a_full_reconcile_of_a_release_whose_inputs_are_rejected_applies_what_is_deployed_once() {
    let world = world(OnTestFailure::Rollback, tests());
    reconcile(&world, "Complete").await;
    set(&world, "bad");
    reconcile(&world, "Failed").await;
    let (runs, from) = (count(&world, &format!("POST {JOBS}")), world.server.log().len());
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/reconcile-now": "one"}));
    reconcile(&world, "Complete").await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["status"]["lastHandled"], json!({"reconcileNow": "one"}));
    let log = world.server.log();
    let applied = log[from..].iter().filter(|line| line.starts_with(&format!("PATCH {MAPS}")));
    assert_eq!((applied.count(), count(&world, &format!("POST {JOBS}"))), (3, runs));
    assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("1"), "3 deployed"));
    assert_eq!(world.state("ReleaseFailed"), "True/TestFailed");
    assert_eq!(world.requests().await, 0, "once");
}

#[tokio::test(start_paused = true)]
async fn a_failed_repair_of_a_release_whose_inputs_are_rejected_ends_with_its_drift() {
    let world = world(OnTestFailure::Rollback, tests());
    reconcile(&world, "Complete").await;
    set(&world, "bad");
    reconcile(&world, "Failed").await;
    let path = format!("{MAPS}/b");
    let intact = world.server.object(&path).unwrap();
    let mut changed = intact.clone();
    changed["data"]["value"] = "mine".into();
    world.server.put(&path, changed, "kubectl");
    world.server.refuse(|call| {
        let is_write = call.method == http::Method::PATCH && call.path.contains("configmaps/b");
        is_write.then(|| Error::from_status(422, "Invalid", "no"))
    });
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    let said = world.condition("Irreconcilable").unwrap();
    assert!(said.contains("cannot apply ConfigMap \"b\""), "{said}");
    tokio::time::advance(SECOND).await;
    world.server.restore(&path, intact);
    world.reconcile().await;
    assert_eq!((world.condition("Irreconcilable"), world.state("ReleaseFailed").as_str()), (None, "True/TestFailed"));
}

#[tokio::test(start_paused = true)]
async fn a_recreated_resource_with_rejected_inputs_gets_back_what_was_deployed() {
    let world = world(OnTestFailure::Rollback, tests());
    reconcile(&world, "Complete").await;
    set(&world, "bad");
    reconcile(&world, "Failed").await;
    let inputs = |world: &World| world.shared.cache.release(&key()).unwrap().deployed_marks().unwrap().inputs.clone();
    let (recorded, runs) = (inputs(&world), count(&world, &format!("POST {JOBS}")));
    // Its definition was deleted, and with it the resource. The garbage collector deleted the objects.
    world.recreate(PRIMARY);
    world.maps().iter().for_each(|map| world.server.remove(&format!("{MAPS}/{map}")));
    let world = restarted(world, OnTestFailure::Rollback);
    for _ in 0..2 {
        reconcile(&world, "Complete").await;
        let primary = world.server.object(PRIMARY).unwrap();
        assert_eq!(primary["metadata"]["finalizers"], json!([FINALIZER]));
        for map in ["a", "b", "c"] {
            let object = world.server.object(&format!("{MAPS}/{map}")).unwrap();
            assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], primary["metadata"]["uid"]);
            assert_eq!(object["data"]["value"], "1");
        }
        assert_eq!((world.history().last().unwrap().as_str(), inputs(&world)), ("3 deployed", recorded.clone()));
    }
    assert_eq!(count(&world, &format!("POST {JOBS}")), runs, "nothing is tried again");
    assert_eq!(world.state("ReleaseFailed"), "True/TestFailed");
    world.delete();
    reconcile(&world, "Complete").await;
    assert_eq!((world.maps(), world.server.object(PRIMARY)), (Vec::<String>::new(), None));
}

#[tokio::test(start_paused = true)]
async fn tests_that_another_resource_passed_run_again_for_the_one_that_takes_its_release_over() {
    for is_of_another_kind in [false, true] {
        let world = world(OnTestFailure::Report, tests());
        reconcile(&world, "Complete").await;
        assert_eq!((test_marks(&world), count(&world, &format!("POST {JOBS}"))), (Some(Tests::Passed), 1));
        replace_resource(&world, is_of_another_kind);
        let world = taking_over(world.server, |_| ());
        for _ in 0..2 {
            killed_after(&world, 30).await;
        }
        assert_eq!(world.history(), ["1 deployed"], "it is taken over without a revision");
        assert_eq!((test_marks(&world), world.maps().len()), (Some(Tests::Due), 3), "{is_of_another_kind}");
        assert_eq!(phases(&world, 1).await, ["check Running"], "{is_of_another_kind}");
        reconcile(&world, "Complete").await;
        assert_eq!(world.condition("TestSuccess").unwrap(), "True/TestSucceeded/revision 1 passed its tests");
        assert_eq!(count(&world, &format!("POST {JOBS}")), 2, "once for each resource");
    }
}

/// Puts another resource in the place of one whose release is deployed, and whose objects go with it.
fn replace_resource(world: &World, is_of_another_kind: bool) {
    let made = world.server.paths().into_iter().filter(|path| path.starts_with(MAPS) || path.starts_with(JOBS));
    made.for_each(|path| world.server.remove(&path));
    if is_of_another_kind {
        put_as_anothers(&world.server, &record_path(1), world.server.object(&record_path(1)).unwrap());
    }
    world.recreate(PRIMARY);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/adopt": "true"}));
}

/// Creates a controller that runs the chart's tests and takes any release over.
fn taking_over(server: Arc<MemoryApi>, change: impl FnOnce(&mut Settings)) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| {
        tested(OnTestFailure::Report)(settings);
        settings.adopt = helm_release::kube::Adopt::Any;
        change(settings);
    })
}

#[tokio::test(start_paused = true)]
async fn tests_that_another_resource_passed_run_again_although_the_records_move_before_the_takeover_ends() {
    for is_of_another_kind in [false, true] {
        let world = world(OnTestFailure::Report, tests());
        reconcile(&world, "Complete").await;
        replace_resource(&world, is_of_another_kind);
        let before = world.server.object(PRIMARY).unwrap()["spec"].clone();
        // The new resource's first upgrade fails, and is kept.
        world.server.refuse(|call| {
            let is_written = call.method != http::Method::GET && call.path.contains("/deployments");
            is_written.then(|| Error::from_status(422, "Invalid", "no"))
        });
        world.edit(|p| p["spec"]["deployments"] = json!(["late"]));
        let world = taking_over(world.server, |settings| settings.on_failure = OnFailure::Keep);
        world.reconcile().await;
        assert_eq!(world.history(), ["1 deployed", "2 failed"], "{is_of_another_kind}");
        world.server.accept();
        world.edit(|p| p["spec"] = before);
        let passed = Some(Tests::Passed);
        let world = taking_over(world.server, |settings| settings.home = Home::in_namespace("records"));
        reconcile(&world, "Complete").await;
        assert_eq!(world.history(), ["3 deployed"], "it is imported and taken over, {is_of_another_kind}");
        assert_eq!((phases(&world, 3).await, test_marks(&world)), (vec!["check Succeeded".to_owned()], passed));
        assert_eq!(count(&world, &format!("POST {JOBS}")), 2, "once for each resource, {is_of_another_kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_inputs_are_tried_again_on_request_and_rejected_again() {
    let world = world(OnTestFailure::Rollback, tests());
    reconcile(&world, "Complete").await;
    set(&world, "bad");
    reconcile(&world, "Failed").await;
    let ask = |token: &str| {
        let token = json!({"helm.sdk.operatorframework.io/retry-now": token});
        world.edit(|p| p["metadata"]["annotations"] = token);
    };
    ask("1");
    reconcile(&world, "Failed").await;
    assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("1"), "5 deployed"));
    reconcile(&world, "Failed").await;
    assert_eq!(world.history().last().unwrap(), "5 deployed", "once per request");
    ask("2");
    reconcile(&world, "Complete").await;
    assert_eq!((world.value_of("a"), world.state("TestSuccess").as_str()), (json!("bad"), "True/TestSucceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_first_revision_that_fails_its_tests_stays() {
    let world = world(OnTestFailure::Rollback, tests());
    reconcile(&world, "Failed").await;
    let condition = world.condition("TestSuccess").unwrap();
    assert!(condition.ends_with("as told; there is no earlier revision to roll back to"), "{condition}");
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
    reconcile(&world, "Complete").await;
    assert_eq!(count(&world, &format!("POST {JOBS}")), 1);
}

#[tokio::test(start_paused = true)]
async fn a_test_that_never_ends_is_stopped_by_its_timeout_and_by_another_spec() {
    let world = world(OnTestFailure::Report, tests());
    tokio::time::timeout(Duration::from_secs(400), world.reconcile()).await.unwrap();
    let condition = world.condition("TestSuccess").unwrap();
    assert!(condition.contains("did not finish within 5m0s: still waiting for Job \"check\" to finish"), "{condition}");
    set(&world, "2");
    killed_after(&world, 30).await;
    let running = restarted(world, OnTestFailure::Report);
    assert_eq!(phases(&running, 2).await, ["check Running"]);
    tokio::join!(running.reconcile(), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        running.edit(|p| p["spec"]["value"] = "3".into());
        running.feed();
        tokio::time::sleep(Duration::from_secs(10)).await;
        complete(&running.server, "check");
    });
    assert_eq!((running.value_of("a"), running.history().last().unwrap().as_str()), (json!("3"), "3 deployed"));
    assert_eq!(running.state("TestSuccess"), "True/TestSucceeded");
}

#[tokio::test(start_paused = true)]
async fn tests_and_their_rollback_end_alike_wherever_they_are_interrupted() {
    let gone = json!({"name": "gone", "events": ["test"], "policies": ["hook-succeeded"]});
    for writes in 0.. {
        let world = world(OnTestFailure::Rollback, json!([gone, hook("z-check", "test")]));
        reconcile(&world, "Complete").await;
        set(&world, "bad");
        world.server.fail_after(Some(writes));
        tokio::select! {
            () = async { _ = world.reconcile().await } => {}
            () = end_as_told(&world.server) => {}
            () = tokio::time::sleep(Duration::from_secs(300)) => {}
        }
        let died = world.server.writes_left() == Some(0);
        world.server.fail_after(None);
        let world = restarted(world, OnTestFailure::Rollback);
        tokio::select! {
            () = async {
                for _ in 0..3 {
                    world.reconcile().await;
                    tokio::time::advance(Duration::from_secs(600)).await;
                }
            } => {}
            () = end_as_told(&world.server) => {}
        }
        let all = ["1 superseded", "2 superseded", "3 deployed"];
        assert_eq!(
            (world.value_of("a"), world.history()),
            (json!("1"), all.map(str::to_owned).to_vec()),
            "after {writes} writes"
        );
        assert_eq!(count(&world, &format!("POST {JOBS}")), 4, "after {writes} writes: {:#?}", world.server.log());
        assert_eq!(world.state("ReleaseFailed"), "True/TestFailed");
        if !died {
            assert!(writes > 15, "the scenario wrote nothing");
            return;
        }
    }
}

/// Serves the write that records this outcome of a revision's tests, and loses its answer.
fn lose_the_answer_to(world: &World, version: u32, outcome: Tests) {
    let (server, path, has_served) = (Arc::downgrade(&world.server), record_path(version), AtomicBool::new(false));
    world.server.refuse(move |call| {
        let is_write = call.method == http::Method::PATCH && call.path.starts_with(&path);
        let (_, json) = call.body.as_ref().filter(|_| is_write)?;
        let patch: Value = serde_json::from_slice(json).ok()?;
        let marks = Marks::parse(patch["metadata"]["annotations"][MARKS_ANNOTATION].as_str()?)?;
        if marks.tests != Some(outcome) || has_served.swap(true, Ordering::SeqCst) {
            return None;
        }
        let served = server.upgrade()?.change(|server| server.serve(&call.into()));
        assert!(served.is_ok(), "it is only not answered");
        Some(Error::Transport("connection reset".into()))
    });
}

/// Reconciles while tests fail. The operator sees no events, only the responses to its requests.
async fn reconcile_unaware(world: &World) {
    let reconciled = async { crate::reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await };
    tokio::select! {
        _ = reconciled => {}
        () = end_as_told(&world.server) => unreachable!("it has no end"),
    }
}

#[tokio::test(start_paused = true)]
async fn tests_whose_recorded_outcome_was_not_answered_do_not_run_again() {
    let world = world(OnTestFailure::Rollback, json!([hook("z-check", "test")]));
    reconcile(&world, "Complete").await;
    set(&world, "bad");
    world.feed();
    lose_the_answer_to(&world, 2, Tests::Rejected);
    reconcile_unaware(&world).await;
    assert_eq!((test_marks(&world), world.value_of("a")), (Some(Tests::Due), json!("bad")));
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile_unaware(&world).await;
    reconcile(&world, "Failed").await;
    let all = ["1 superseded", "2 superseded", "3 deployed"];
    assert_eq!((world.value_of("a"), world.history()), (json!("1"), all.map(str::to_owned).to_vec()));
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2, "one for each revision that is tested");
    assert_eq!(world.state("ReleaseFailed"), "True/TestFailed");
}

/// Asks for failed tests to run again.
fn ask_again(world: &World) {
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/retry-now": "1"}));
    world.feed();
}

#[tokio::test(start_paused = true)]
async fn tests_that_were_asked_for_again_run_once_although_their_outcome_was_not_answered() {
    for outcome in [Tests::Failed, Tests::Rejected] {
        let world = world(OnTestFailure::Report, json!([hook("z-check", "test")]));
        reconcile(&world, "Complete").await;
        set(&world, "bad");
        reconcile(&world, "Failed").await;
        assert_eq!((test_marks(&world), count(&world, &format!("POST {JOBS}"))), (Some(Tests::Failed), 2));
        let is_undone = outcome == Tests::Rejected;
        let world = if is_undone { restarted(world, OnTestFailure::Rollback) } else { world };
        reconcile(&world, "Failed").await;
        ask_again(&world);
        lose_the_answer_to(&world, 2, outcome);
        for _ in 0..2 {
            reconcile_unaware(&world).await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        reconcile(&world, "Failed").await;
        assert_eq!(count(&world, &format!("POST {JOBS}")), 3, "once again, {outcome:?}");
        let newest = if is_undone { "3 deployed" } else { "2 deployed" };
        assert_eq!(world.history().last().unwrap(), newest, "{outcome:?}");
        assert_eq!(world.state("TestSuccess"), "False/TestFailed", "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_inputs_that_were_asked_for_again_are_tried_once_although_their_outcome_was_not_answered() {
    let world = world(OnTestFailure::Rollback, json!([hook("z-check", "test")]));
    reconcile(&world, "Complete").await;
    set(&world, "bad");
    reconcile(&world, "Failed").await;
    assert_eq!(world.history().last().unwrap(), "3 deployed");
    ask_again(&world);
    lose_the_answer_to(&world, 4, Tests::Rejected);
    for _ in 0..2 {
        reconcile_unaware(&world).await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    reconcile(&world, "Failed").await;
    assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("1"), "5 deployed"));
    assert_eq!(count(&world, &format!("POST {JOBS}")), 3, "one for each revision that is tested");
}

/// Returns a release whose upgrade a process deployed that died while the test of the second revision ran.
async fn after_a_death_in_a_test() -> World {
    let smoke = json!({"name": "smoke", "events": ["test"], "policies": ["hook-succeeded", "hook-failed"]});
    let world = world(OnTestFailure::Rollback, json!([smoke]));
    reconcile(&world, "Complete").await;
    set(&world, "2");
    killed_after(&world, 30).await;
    restarted(world, OnTestFailure::Rollback)
}

#[tokio::test(start_paused = true)]
async fn a_test_that_a_dead_process_started_ends_before_the_next_revision_begins() {
    let world = after_a_death_in_a_test().await;
    assert_eq!(phases(&world, 2).await, ["smoke Running"]);
    set(&world, "3");
    reconcile(&world, "Complete").await;
    assert_eq!(
        (world.value_of("a"), world.history()),
        (json!("3"), ["1 superseded", "2 superseded", "3 deployed"].map(str::to_owned).to_vec())
    );
    assert_eq!(phases(&world, 2).await, ["smoke Failed"]);
    assert_eq!(world.condition("TestSuccess").unwrap(), "True/TestSucceeded/revision 3 passed its tests");
    assert_eq!(count(&world, &format!("POST {JOBS}")), 3, "one for each revision");
}

/// Creates a controller that runs the chart's tests and keeps its records in the namespace `records`.
fn recording(server: Arc<MemoryApi>) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| {
        tested(OnTestFailure::Rollback)(settings);
        settings.home = Home::in_namespace("records");
    })
}

#[tokio::test(start_paused = true)]
async fn a_test_that_a_dead_process_started_ends_before_its_release_is_imported_and_runs_again() {
    for spec in [Value::Null, json!({"ttlSecondsAfterFinished": 60})] {
        for (create, change) in
            [(Disturbance::AnswerLost, "1"), (Disturbance::Refused(500), "1"), (Disturbance::Refused(500), "2")]
        {
            let smoke = json!({"name": "smoke", "events": ["test"], "policies": ["hook-failed"], "spec": spec});
            let world = world(OnTestFailure::Rollback, json!([smoke]));
            killed_after(&world, 30).await;
            let uid =
                |world: &World| world.server.object(&format!("{JOBS}/smoke")).map(|job| job["metadata"]["uid"].clone());
            let first = uid(&world);
            assert!(first.is_some());
            set(&world, change);
            let world = recording(world.server);
            world.server.disturb("POST /api/v1/namespaces/records/secrets", 1, create);
            killed_after(&world, 20).await;
            assert_eq!(uid(&world), None, "{spec} {create:?}: its own record may not exist yet");
            let world = recording(world.server);
            for _ in 0..2 {
                reconcile(&world, "Complete").await;
                tokio::time::advance(Duration::from_secs(600)).await;
            }
            let newest = if change == "1" { "2 deployed" } else { "3 deployed" };
            assert_eq!((world.history().last().unwrap().as_str(), test_marks(&world)), (newest, Some(Tests::Passed)));
            assert_ne!(uid(&world), first, "{spec} {create:?}");
        }
    }
}

/// Returns the status of a revision's record, as its label says.
fn recorded(world: &World, version: u32) -> Value {
    world.server.object(&record_path(version)).map_or(Value::Null, |mut one| one["metadata"]["labels"]["status"].take())
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_helm_replaces_while_its_test_runs_stays_replaced_and_has_not_failed() {
    for is_seen in [true, false] {
        let world = world(OnTestFailure::Rollback, tests());
        let helm = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(recorded(&world, 1), "deployed");
            helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a"], "2"), Duration::from_secs(60));
            helm_supersedes(&world, 1).await;
            match is_seen {
                true => world.feed(),
                false => complete(&world.server, "check"),
            }
        };
        tokio::join!(world.reconcile(), helm);
        let both = (recorded(&world, 1), recorded(&world, 2));
        assert_eq!(both, (json!("superseded"), json!("pending-upgrade")), "seen: {is_seen}");
        let is_left = world.server.object(&format!("{JOBS}/check")).is_some();
        assert_eq!((is_left, count(&world, &format!("POST {JOBS}"))), (!is_seen, 1), "it does not run beside helm");
        assert_eq!((world.state("Irreconcilable").as_str(), world.condition("ReleaseFailed")), (IN_FLIGHT, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_test_that_cannot_be_ended_once_helm_has_replaced_its_revision_is_named_in_an_event() {
    let answers: [fn() -> Error; 3] = [
        || Error::from_status(403, "Forbidden", "denied by policy"),
        || Error::from_status(500, "InternalError", "failed calling webhook"),
        || Error::Transport("reset".into()),
    ];
    for answer in answers {
        let world = world(OnTestFailure::Rollback, tests());
        let helm = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            world.server.refuse(move |call| {
                let is_end = call.method == http::Method::DELETE && call.path.starts_with(JOBS);
                is_end.then(answer)
            });
            helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a"], "2"), Duration::from_secs(60));
            helm_supersedes(&world, 1).await;
            world.feed();
        };
        tokio::join!(world.reconcile(), helm);
        assert!(world.server.object(&format!("{JOBS}/check")).is_some(), "{:?}", answer());
        let events = published(&world).await;
        let left: Vec<_> = events.iter().filter(|event| event.starts_with("Warning HookLeft ")).collect();
        assert!(matches!(&left[..], [one] if one.contains("Job \"check\"")), "{:?}: {events:?}", answer());
    }
}

const IN_FLIGHT: &str = "True/ReleaseInFlight";

#[tokio::test(start_paused = true)]
async fn a_test_does_not_run_beside_an_upgrade_with_helm_that_has_only_begun() {
    let world = world(OnTestFailure::Rollback, tests());
    let helm = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        helm_writes(&world, 2, Status::PendingUpgrade, &manifest(&["a"], "2"), Duration::from_secs(60));
        world.feed();
    };
    let began = tokio::time::Instant::now();
    tokio::join!(world.reconcile(), helm);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!((world.server.object(&format!("{JOBS}/check")), recorded(&world, 1)), (None, json!("deployed")));
    assert_eq!((world.state("Irreconcilable").as_str(), world.condition("ReleaseFailed")), (IN_FLIGHT, None));
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_helm_replaces_while_the_test_of_a_dead_process_ends_stays_replaced() {
    let world = after_a_death_in_a_test().await;
    set(&world, "3");
    let server = Arc::downgrade(&world.server);
    world.server.refuse(move |call| {
        if call.method == http::Method::DELETE && call.path.contains("/jobs/smoke") {
            let server = server.upgrade()?;
            let mut record = server.object(&record_path(2))?;
            record["metadata"]["annotations"] = Value::Null;
            record["metadata"]["labels"]["status"] = "superseded".into();
            server.put(&record_path(2), record, "helm");
        }
        None
    });
    world.reconcile().await;
    assert_eq!((recorded(&world, 2), recorded(&world, 3)), (json!("superseded"), Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_test_that_a_dead_process_started_ends_before_the_hooks_of_the_uninstall_begin() {
    let hooks = json!([hook("check", "test"), hook("farewell", "pre-delete")]);
    for disabled in [false, true] {
        let world = world(OnTestFailure::Report, hooks.clone());
        reconcile(&world, "Complete").await;
        set(&world, "2");
        killed_after(&world, 30).await;
        let world = restarted(world, OnTestFailure::Report);
        assert_eq!(phases(&world, 2).await, ["check Running", "farewell NotRun"]);
        if disabled {
            let annotations = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"});
            world.edit(|p| p["metadata"]["annotations"] = annotations);
        }
        world.delete();
        reconcile(&world, "Complete").await;
        assert_eq!((world.server.object(PRIMARY), world.maps()), (None, vec![]));
        assert_eq!(world.server.object(&format!("{JOBS}/check")), None, "disabled: {disabled}");
        if !disabled {
            assert!(last(&world, &format!("DELETE {JOBS}/check")) < last(&world, &format!("POST {JOBS}")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_waits_for_objects_records_once_that_a_test_ended() {
    let world = world(OnTestFailure::Report, tests());
    let annotations = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"});
    world.edit(|p| p["metadata"]["annotations"] = annotations);
    reconcile(&world, "Complete").await;
    set(&world, "2");
    killed_after(&world, 30).await;
    let world = restarted(world, OnTestFailure::Report);
    assert_eq!(phases(&world, 2).await, ["check Running"]);
    let mut held = world.server.object(&format!("{MAPS}/b")).unwrap();
    held["metadata"]["finalizers"] = json!(["x/y"]);
    world.server.put(&format!("{MAPS}/b"), held, "someone");
    world.delete();
    reconcile(&world, "Complete").await;
    assert_eq!(phases(&world, 2).await, ["check Failed"]);
    assert_eq!((world.maps(), world.server.object(&format!("{JOBS}/check"))), (vec!["b".to_owned()], None));
    let records = || count(&world, &format!("PATCH {SECRETS}/sh.helm.release.v1.web.v2"));
    let recorded = records();
    reconcile(&world, "Complete").await;
    assert_eq!((records(), world.maps()), (recorded, vec!["b".to_owned()]));
}

/// Ends the Job as failed, with a pod that wrote this log.
async fn fail_with_log(world: &World, log: Value) -> ReconcileResult {
    let start_pods = async {
        loop {
            tokio::time::sleep(SECOND).await;
            let Some(job) = world.server.object(&format!("{JOBS}/check")) else { continue };
            let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "check", "uid": job["metadata"]["uid"],
                "controller": true});
            let labels = json!({"batch.kubernetes.io/job-name": "check"});
            let pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "check-x", "namespace": "ns", "labels": labels, "ownerReferences": [owner]},
                "spec": {"containers": [{"name": "work"}]},
                "status": {"containerStatuses": [{"name": "work", "state": {"terminated": {"exitCode": 1}}}]}});
            world.server.put("/api/v1/namespaces/ns/pods/check-x", pod, "kubelet");
            world.server.put("/api/v1/namespaces/ns/pods/check-x/log", log.clone(), "kubelet");
        }
    };
    tokio::select! {
        result = reconcile(world, "Failed") => result,
        () = start_pods => unreachable!("it has no end"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_failed_hooks_log_is_in_an_event_only_by_choice_and_redacted() {
    for (is_on, event) in [(false, "pre-install"), (true, "pre-install"), (true, "test")] {
        let mut spec = with_hooks(json!([hook("check", event)]));
        spec["password"] = "Correct-Horse-9".into();
        let world = World::with_events(World::new(spec).server, Arc::new(Stub::default()), |settings| {
            tested(OnTestFailure::Report)(settings);
            settings.hook_logs = is_on;
        });
        fail_with_log(&world, json!({"cannot log in with": "Correct-Horse-9", "because": "locked"})).await;
        let events = published(&world).await;
        let logs: Vec<&String> = events.iter().filter(|event| event.starts_with("Warning HookLog ")).collect();
        let reads = world.server.log().iter().filter(|line| line.contains("/pods")).count();
        if !is_on {
            assert_eq!((logs.len(), reads), (0, 0));
            continue;
        }
        assert_eq!(logs.len(), 1, "{events:#?}");
        let expected = "Warning HookLog x1: the log of pod \"check-x\", container \"work\" ends with: ";
        assert!(logs[0].starts_with(expected) && logs[0].contains("locked"), "{logs:?}");
        assert!(!events.concat().contains("Correct-Horse-9"), "{events:#?}");
    }
}

/// Only control characters after the ASCII ones reach the log unescaped, because the server in memory answers in JSON.
#[tokio::test(start_paused = true)]
async fn a_value_is_redacted_in_a_hooks_log_whether_control_characters_split_or_belong_to_it() {
    let split: String = "Correct-Horse-9".chars().flat_map(|c| [c, '\u{7f}']).collect();
    for (password, logged) in [("Correct-Horse-9", &*split), ("Correct\u{7f}Horse", "Correct\u{7f}Horse")] {
        let mut spec = with_hooks(json!([hook("check", "pre-install")]));
        spec["password"] = password.into();
        let world = World::with_events(World::new(spec).server, Arc::new(Stub::default()), |settings| {
            settings.hook_logs = true;
        });
        fail_with_log(&world, json!({"cannot log in with": logged, "because": "locked"})).await;
        let events = published(&world).await;
        assert!(events.iter().any(|event| event.contains(" HookLog ") && event.contains("locked")), "{events:#?}");
        let printed: String = events.concat().chars().filter(|c| !c.is_control()).collect();
        assert!(!printed.contains("Correct-Horse-9") && !printed.contains("CorrectHorse"), "{events:#?}");
    }
}
