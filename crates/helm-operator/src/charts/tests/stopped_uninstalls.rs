//! Tests of an uninstall after a failed upgrade that an annotation or a correction stops before its first deletion, and of
//! a deletion that a pause stops.

use std::cell::Cell;

use super::failure_policy::{pin, refuse, retry, uids, uninstalling};
use super::finished_jobs::{LOAD, feed_jobs, loading};
use super::hooks;
use super::*;
use crate::values_from::ValuesSource;
use crate::watches::OnFailure;

/// How far the uninstall has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its record says that its hooks have succeeded.
    HooksDone,
    /// Its record says that the deletions begin.
    DeletionRecorded,
}

fn marks_of(world: &World, version: u32) -> Option<Marks> {
    let record = world.server.object(&record_path(version)).unwrap_or_default();
    record["metadata"]["annotations"][MARKS_ANNOTATION].as_str().and_then(Marks::parse)
}

/// Returns whether a Job of the revision has finished, according to its record.
fn has_finished(marks: &Marks) -> bool {
    marks.objects.iter().any(|object| object.expires)
}

fn has_come_to(world: &World, stage: Stage) -> bool {
    let is_at = |marks: Marks| marks.hooks_done && has_finished(&marks) == (stage == Stage::HooksDone);
    marks_of(world, 1).is_some_and(is_at)
}

/// Where the release's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Spec,
    Secret,
}

impl Place {
    /// Creates a controller that has just started, and that uninstalls the release of a failed upgrade.
    fn start(self, server: Arc<MemoryApi>) -> World {
        if self == Place::Spec {
            return uninstalling(server);
        }
        let sources: Vec<ValuesSource> = serde_json::from_str(r#"[{"kind": "Secret", "name": "shared"}]"#).unwrap();
        World::with_events(server, Arc::new(Stub::default()), |settings| {
            (settings.values_from, settings.on_failure) = (sources, OnFailure::Uninstall);
        })
    }

    fn set(self, server: &MemoryApi, value: &str) {
        if self == Place::Secret {
            let text = ByteString(json!({"value": value}).to_string().into());
            let secret = json!({"metadata": {"name": "shared"}, "data": {"values.yaml": text}});
            return server.put(&format!("{SECRETS}/shared"), secret, "user");
        }
        let mut primary = server.object(PRIMARY).unwrap();
        primary["spec"]["value"] = value.into();
        let generation = primary["metadata"]["generation"].as_i64().unwrap_or_default();
        primary["metadata"]["generation"] = (generation + 1).into();
        server.put(PRIMARY, primary, "user");
    }
}

fn farewell(policies: Value) -> Value {
    json!([{"name": "farewell", "events": ["pre-delete"], "policies": policies}])
}

/// Returns a release with a finished Job that the server has deleted, and the uids of its other objects. Its upgrade is
/// about to fail. Requests take a while from now on.
async fn before_its_uninstall(chart_hooks: Value, place: Place) -> (World, Vec<Value>) {
    let mut spec = loading("1", "a");
    spec["hooks"] = chart_hooks;
    if place == Place::Secret {
        spec.as_object_mut().unwrap().remove("value");
    }
    let server = World::new(spec).server;
    place.set(&server, "1");
    let world = place.start(server);
    world.reconcile().await;
    world.server.remove(LOAD);
    let before = uids(&world);
    refuse(&world, 422);
    place.set(&world.server, "bad");
    world.server.slow_down(Duration::from_millis(100));
    (world, before)
}

/// Reconciles while hooks succeed. `act` changes the resource as soon as the uninstall has come to this stage.
async fn change_at(world: &World, stage: Stage, act: impl FnOnce(&World)) {
    let has_acted = Cell::new(false);
    let later = async {
        while !has_come_to(world, stage) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        act(world);
        world.feed();
        has_acted.set(true);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = hooks::reconcile(world, "Complete") => {}
        () = later => unreachable!("it has no end"),
    }
    assert!(has_acted.get(), "{stage:?}: {:#?}", world.server.log());
    world.server.slow_down(Duration::ZERO);
}

/// Returns the chart's hooks and the stages at which an uninstall can be stopped with them.
fn stops() -> [(Value, Stage); 4] {
    [
        // The deletion of the hook's Job precedes the record of the deletions.
        (farewell(json!(["hook-succeeded"])), Stage::HooksDone),
        (farewell(json!([])), Stage::HooksDone),
        (farewell(json!([])), Stage::DeletionRecorded),
        (json!([]), Stage::DeletionRecorded),
    ]
}

/// Lets the resource make two more attempts, whose hooks succeed.
async fn try_twice(world: &World) {
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(600)).await;
        feed_jobs(world);
        hooks::reconcile(world, "Complete").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_comes_before_the_first_deletion_keeps_every_object_and_runs_no_finished_job_again() {
    for (chart_hooks, stage) in stops() {
        let case = format!("{chart_hooks}, {stage:?}");
        let (world, before) = before_its_uninstall(chart_hooks, Place::Spec).await;
        change_at(&world, stage, pin).await;
        try_twice(&world).await;
        assert_eq!(uids(&world), before, "{case}: {:#?}", world.server.log());
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "{case}");
        assert_eq!((world.server.object(LOAD), world.value_of("b")), (None, json!("1")), "{case}");
        assert_eq!(world.state("Pinned"), "True/PinAnnotation", "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_comes_before_the_first_deletion_lets_no_job_of_the_failed_revision_run_again() {
    for (chart_hooks, stage) in stops() {
        let case = format!("{chart_hooks}, {stage:?}");
        let (world, _) = before_its_uninstall(chart_hooks, Place::Spec).await;
        let is_noted = |world: &World| marks_of(world, 2).is_some_and(|marks| has_finished(&marks));
        change_at(&world, stage, |world| {
            assert!(is_noted(world), "{case}");
            pin(world);
        })
        .await;
        assert!(is_noted(&world), "{case}: {:#?}", world.server.log());
    }
}

#[tokio::test(start_paused = true)]
async fn a_correction_that_comes_before_the_first_deletion_is_deployed_with_the_objects_that_are_there() {
    let cases = [Place::Spec, Place::Secret].into_iter().flat_map(|place| stops().map(|stop| (place, stop)));
    for (place, (chart_hooks, stage)) in cases {
        let case = format!("{place:?}, {chart_hooks}, {stage:?}");
        let (world, before) = before_its_uninstall(chart_hooks, place).await;
        change_at(&world, stage, |world| place.set(&world.server, "2")).await;
        try_twice(&world).await;
        assert_eq!(uids(&world), before, "{case}: {:#?}", world.server.log());
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "{case}");
        assert_eq!((world.server.object(LOAD), world.value_of("b")), (None, json!("2")), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_correction_ends_the_hook_of_an_uninstall_after_a_failed_upgrade_and_is_deployed() {
    let (world, before) = before_its_uninstall(farewell(json!([])), Place::Spec).await;
    hooks::reconcile_while(&world, |world| Place::Spec.set(&world.server, "2")).await;
    try_twice(&world).await;
    assert_eq!(uids(&world), before, "{:#?}", world.server.log());
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!((world.value_of("b"), hooks::phases(&world, 1).await), (json!("2"), vec!["farewell Failed".to_owned()]));
    assert_eq!(world.server.object(&format!("{}/farewell", hooks::JOBS)), None);
}

#[tokio::test(start_paused = true)]
async fn a_correction_lets_the_hook_after_the_deletions_end_and_is_installed() {
    for place in [Place::Spec, Place::Secret] {
        let gone = json!([{"name": "gone", "events": ["post-delete"], "policies": []}]);
        let (world, _) = before_its_uninstall(gone, place).await;
        world.server.slow_down(Duration::ZERO);
        hooks::reconcile_while(&world, |world| {
            assert!(world.maps().is_empty(), "its hook runs");
            place.set(&world.server, "2");
        })
        .await;
        try_twice(&world).await;
        let runs = hooks::count(&world, &format!("POST {}", hooks::JOBS));
        assert_eq!((runs, world.value_of("b")), (1, json!("2")), "{place:?}: {:#?}", world.server.log());
        assert_eq!(world.history(), ["1 deployed"], "{place:?}: installed again");
    }
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_that_a_dead_process_has_prepared_goes_on_unless_a_correction_calls_it_off() {
    for corrects in [false, true] {
        let (world, before) = before_its_uninstall(farewell(json!([])), Place::Spec).await;
        let prepared = async {
            while !has_come_to(&world, Stage::HooksDone) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            _ = hooks::reconcile(&world, "Complete") => unreachable!("the process dies before"),
            () = prepared => {}
        }
        world.server.slow_down(Duration::ZERO);
        let world = uninstalling(world.server);
        assert_eq!(world.history(), ["1 uninstalling", "2 failed"]);
        assert_eq!(uids(&world), before);
        if corrects {
            Place::Spec.set(&world.server, "2");
        }
        try_twice(&world).await;
        let runs = hooks::count(&world, &format!("POST {}", hooks::JOBS));
        if corrects {
            assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
            assert_eq!((uids(&world), world.value_of("b"), runs), (before, json!("2"), 1), "nothing was deleted");
        } else {
            assert_eq!((world.maps(), world.history(), runs), (vec![], vec![], 1), "{:#?}", world.server.log());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_comes_before_the_first_deletion_keeps_every_object_until_it_ends() {
    for corrects in [false, true] {
        let (world, before) = before_its_uninstall(json!([]), Place::Spec).await;
        let pause = json!({"helm.sdk.operatorframework.io/pause": "true"});
        change_at(&world, Stage::DeletionRecorded, |world| world.edit(|p| p["metadata"]["annotations"] = pause)).await;
        retry(&world).await;
        assert_eq!(uids(&world), before, "{:#?}", world.server.log());
        assert_eq!(world.history(), ["1 uninstalling", "2 failed"]);
        world.server.accept();
        let value = if corrects { "2" } else { "bad" };
        world.edit(|p| {
            p["metadata"]["annotations"] = json!({});
            p["spec"]["value"] = value.into();
        });
        try_twice(&world).await;
        if corrects {
            assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
            assert_eq!((uids(&world), world.value_of("b"), world.server.object(LOAD)), (before, json!("2"), None));
        } else {
            assert_eq!(world.value_of("b"), "bad");
            assert_eq!(world.history(), ["1 deployed"], "installed again");
            assert!(world.server.object(LOAD).is_some(), "its Job went with the release");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_during_the_hook_of_a_deletion_keeps_what_is_left_until_it_ends_and_no_hook_runs_again() {
    let (backup, gone) = (hooks::hook("backup", "pre-delete"), hooks::hook("gone", "post-delete"));
    let charts = [
        (json!([backup, gone]), vec!["backup Succeeded", "gone NotRun"], 2),
        (json!([gone]), vec!["gone Succeeded"], 1),
    ];
    for ((chart_hooks, phases, runs), restarts) in charts.iter().flat_map(|chart| [(chart, false), (chart, true)]) {
        let case = format!("{chart_hooks}, restarts: {restarts}");
        let mut world = World::new(hooks::with_hooks(chart_hooks.clone()));
        world.reconcile().await;
        let record = world.server.object(&record_path(1)).unwrap()["metadata"]["uid"].clone();
        world.delete();
        let (mut before, mut job) = (Vec::new(), Vec::new());
        let jobs = |world: &World| {
            let paths = world.server.paths().into_iter().filter(|path| path.starts_with(hooks::JOBS));
            paths.map(|path| world.server.object(&path).unwrap()["metadata"]["uid"].clone()).collect::<Vec<_>>()
        };
        hooks::reconcile_while(&world, |world| {
            (before, job) = (uids(world), jobs(world));
            world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/pause": "true"}));
        })
        .await;
        if restarts {
            world = World::on(world.server);
        }
        retry(&world).await;
        assert_eq!((uids(&world), jobs(&world)), (before, job.clone()), "{case}: {:#?}", world.server.log());
        assert_eq!(world.history(), ["1 uninstalling"], "{case}");
        assert_eq!(hooks::phases(&world, 1).await, *phases, "{case}");
        let left = world.server.object(&record_path(1)).unwrap();
        assert_eq!((&left["metadata"]["uid"], world.server.object(PRIMARY).is_some()), (&record, true), "{case}");
        world.edit(|p| p["metadata"]["annotations"] = json!({}));
        hooks::reconcile(&world, "Complete").await;
        let rest = (world.server.object(PRIMARY), world.server.object(&record_path(1)), world.maps());
        assert_eq!(rest, (None, None, vec![]), "{case}");
        let count = hooks::count(&world, &format!("POST {}", hooks::JOBS));
        assert_eq!((jobs(&world).len(), jobs(&world)[0].clone(), count), (*runs, job[0].clone(), *runs), "{case}");
    }
}
