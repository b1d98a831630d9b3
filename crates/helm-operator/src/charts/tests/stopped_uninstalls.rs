//! Tests of an uninstall after a failed upgrade that an annotation stops between its last hook and its first deletion.

use std::cell::Cell;

use super::failure_policy::{pin, refuse, retry, uids, uninstalling};
use super::finished_jobs::{LOAD, feed_jobs, loading};
use super::hooks;
use super::*;

/// How far the uninstall has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its record says that its hooks have succeeded.
    HooksDone,
    /// Its record says that the deletions begin.
    DeletionRecorded,
}

fn has_come_to(world: &World, stage: Stage) -> bool {
    let record = world.server.object(&record_path(1)).unwrap_or_default();
    let marks = record["metadata"]["annotations"][MARKS_ANNOTATION].as_str().and_then(Marks::parse);
    marks.is_some_and(|marks| {
        let has_finished = marks.objects.iter().any(|object| object.expires);
        marks.hooks_done && has_finished == (stage == Stage::HooksDone)
    })
}

/// Returns a release with a finished Job that the server has deleted, and the uids of its other objects. Its upgrade is
/// about to fail. Requests take a while from now on.
async fn before_its_uninstall(chart_hooks: Value) -> (World, Vec<Value>) {
    let mut spec = loading("1", "a");
    spec["hooks"] = chart_hooks;
    let world = uninstalling(World::new(spec).server);
    world.reconcile().await;
    world.server.remove(LOAD);
    let before = uids(&world);
    refuse(&world, 422);
    world.edit(|p| p["spec"]["value"] = "bad".into());
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

#[tokio::test(start_paused = true)]
async fn a_pin_that_comes_before_the_first_deletion_keeps_every_object_and_runs_no_finished_job_again() {
    let farewell = |policies: Value| json!([{"name": "farewell", "events": ["pre-delete"], "policies": policies}]);
    for (chart_hooks, stage) in [
        // The deletion of the hook's Job precedes the record of the deletions.
        (farewell(json!(["hook-succeeded"])), Stage::HooksDone),
        (farewell(json!([])), Stage::HooksDone),
        (farewell(json!([])), Stage::DeletionRecorded),
        (json!([]), Stage::DeletionRecorded),
    ] {
        let case = format!("{chart_hooks}, {stage:?}");
        let (world, before) = before_its_uninstall(chart_hooks).await;
        change_at(&world, stage, pin).await;
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(600)).await;
            feed_jobs(&world);
            hooks::reconcile(&world, "Complete").await;
        }
        assert_eq!(uids(&world), before, "{case}: {:#?}", world.server.log());
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "{case}");
        assert_eq!((world.server.object(LOAD), world.value_of("b")), (None, json!("1")), "{case}");
        assert_eq!(world.state("Pinned"), "True/PinAnnotation", "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_comes_before_the_first_deletion_keeps_every_object_until_it_ends() {
    let (world, before) = before_its_uninstall(json!([])).await;
    let pause = json!({"helm.sdk.operatorframework.io/pause": "true"});
    change_at(&world, Stage::DeletionRecorded, |world| world.edit(|p| p["metadata"]["annotations"] = pause)).await;
    retry(&world).await;
    assert_eq!(uids(&world), before, "{:#?}", world.server.log());
    assert_eq!(world.history(), ["1 uninstalling", "2 failed"]);
    world.server.accept();
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({});
        p["spec"]["value"] = "2".into();
    });
    for _ in 0..2 {
        retry(&world).await;
    }
    assert_eq!((world.value_of("b"), world.history()), (json!("2"), vec!["1 deployed".to_owned()]), "installed again");
    assert!(world.server.object(LOAD).is_some(), "its Job went with the release");
}
