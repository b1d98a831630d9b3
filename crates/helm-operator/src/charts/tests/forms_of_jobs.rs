//! Tests of a Job whose record does not say that it ran in this form, and that expires while the next action runs: a
//! resource whose values change and change back while attempts end halfway, runs it once.

use helm_release::kube::Call;

use super::failure_policy::refuse;
use super::finished_jobs::{LOAD, feed_jobs, keeping, loading};
use super::*;

async fn reconcile(world: &World) {
    feed_jobs(world);
    world.reconcile().await;
    feed_jobs(world);
}

/// Returns the image of the live Job.
fn image(world: &World) -> Option<Value> {
    world.server.object(LOAD).map(|job| job["spec"]["image"].clone())
}

/// Reconciles once while the server refuses to rewrite records, so that none says what was applied.
async fn reconcile_unrecorded(world: &World) {
    let rewrites = |call: &Call| call.method == http::Method::PATCH && call.path.contains("/secrets/sh.helm.release");
    world.server.refuse(move |call| rewrites(call).then(|| Error::from_status(500, "", "away")));
    reconcile(world).await;
    world.server.accept();
}

/// Lets the next process apply this resource, while the Job, which has finished, expires after the first write of the
/// action. Checks that it does not run again.
async fn expires_during_the_next_action(server: Arc<MemoryApi>, spec: Value) {
    let world = keeping(server);
    let server = Arc::downgrade(&world.server);
    world.server.refuse(move |call| {
        if call.method == http::Method::PATCH && call.path.starts_with(&format!("{MAPS}/b")) {
            server.upgrade()?.remove(LOAD);
        }
        None
    });
    let value = spec["value"].clone();
    world.edit(|p| p["spec"] = spec);
    for _ in 0..3 {
        reconcile(&world).await;
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert_eq!((image(&world), world.value_of("b")), (None, value), "{:#?}", world.server.log());
    assert!(world.history().last().unwrap().ends_with(" deployed"), "{:?}", world.history());
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_once_although_an_attempt_with_another_form_failed_before_it_after_the_one_that_made_it() {
    let world = keeping(World::new(loading("1", "a")).server);
    reconcile_unrecorded(&world).await;
    let world = keeping(world.server);
    refuse(&world, 422);
    world.edit(|p| p["spec"] = loading("bad", "b"));
    reconcile(&world).await;
    assert_eq!((image(&world), world.history()), (Some(json!("a")), vec!["1 failed".to_owned(), "2 failed".into()]));
    world.server.accept();
    expires_during_the_next_action(world.server, loading("2", "a")).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_once_although_an_upgrade_was_about_to_delete_it_and_was_taken_back() {
    let world = World::new(loading("1", "a"));
    world.server.make_immutable("jobs", "/spec/image");
    reconcile(&world).await;
    world.server.refuse(|call| {
        let deletes = call.method == http::Method::DELETE && call.path.starts_with(LOAD);
        deletes.then(|| Error::from_status(500, "", "away"))
    });
    world.edit(|p| p["spec"] = loading("2", "b"));
    reconcile(&world).await;
    assert_eq!((image(&world), world.history().last().unwrap().as_str()), (Some(json!("a")), "2 pending-upgrade"));
    world.server.accept();
    expires_during_the_next_action(world.server, loading("3", "a")).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_once_although_only_its_former_form_is_recorded_as_finished() {
    let world = World::new(loading("1", "x"));
    reconcile(&world).await;
    world.server.remove(LOAD);
    world.edit(|p| p["spec"] = loading("2", "a"));
    reconcile_unrecorded(&world).await;
    assert_eq!((image(&world), world.history().last().unwrap().as_str()), (Some(json!("a")), "2 pending-upgrade"));
    expires_during_the_next_action(world.server, loading("2", "a")).await;
}
