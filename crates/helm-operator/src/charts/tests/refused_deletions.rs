//! Tests of deletions that the server refuses: what a chart drops stays, and the release is neither undone nor upgraded
//! again because of it. What hooks that succeeded have left holds up their action for a while only.

use super::hooks::{self, JOBS, count, hook, with_hooks};
use super::reporting::published;
use super::*;
use crate::watches::OnFailure;

/// Creates a controller with this policy and without retries.
fn serving(spec: Value, policy: OnFailure) -> World {
    World::with_events(World::new(spec).server, Arc::new(Stub::default()), |settings| {
        (settings.on_failure, settings.retries) = (policy, Some(0));
    })
}

/// Refuses the deletion of the ConfigMap with this name.
fn refuse_deletion(world: &World, name: &'static str) {
    world.server.refuse(move |call| {
        let is_it = call.method == http::Method::DELETE && call.path.starts_with(&format!("{MAPS}/{name}"));
        is_it.then(|| Error::from_status(403, "Forbidden", "denied by policy"))
    });
}

/// Reconciles after the longest backoff.
async fn retry(world: &World) {
    tokio::time::advance(Duration::from_secs(600)).await;
    hooks::reconcile(world, "Complete").await;
}

fn runs(world: &World) -> usize {
    count(world, &format!("POST {JOBS}"))
}

fn applies(world: &World) -> usize {
    count(world, &format!("PATCH {MAPS}/"))
}

/// Returns a release whose upgrade drops the ConfigMap `c`, which may not be deleted.
async fn with_refused_deletion(policy: OnFailure) -> World {
    let spec = with_hooks(json!([hook("early", "pre-upgrade"), hook("late", "post-upgrade")]));
    let world = serving(spec, policy);
    hooks::reconcile(&world, "Complete").await;
    refuse_deletion(&world, "c");
    world.edit(|p| (p["spec"]["maps"], p["spec"]["value"]) = (json!(["a", "b"]), "2".into()));
    hooks::reconcile(&world, "Complete").await;
    world
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_waits_until_it_may_delete_what_it_drops_and_repeats_nothing_else() {
    for policy in [OnFailure::Rollback, OnFailure::Uninstall, OnFailure::Keep] {
        let world = with_refused_deletion(policy).await;
        let applied = applies(&world);
        for _ in 0..3 {
            assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"], "{policy:?}");
            assert_eq!((world.value_of("a"), world.maps().len()), (json!("2"), 3), "{policy:?}");
            let condition = world.condition("Irreconcilable").unwrap();
            let why = "cannot delete ConfigMap \"c\", which the release no longer contains: denied by policy; grant";
            assert!(condition.starts_with(&format!("True/DeletionRefused/{why}")), "{condition}");
            assert_eq!((world.condition("ReleaseFailed"), world.condition("Reconciling")), (None, None));
            assert_eq!(world.state("Stalled"), "True/DeletionRefused");
            retry(&world).await;
        }
        assert_eq!((applies(&world), runs(&world)), (applied, 1), "{policy:?}: the first hook has run once");
        assert!(published(&world).await.iter().any(|event| event.starts_with("Warning DeletionRefused ")));
        world.server.accept();
        retry(&world).await;
        assert_eq!((world.maps(), runs(&world)), (vec!["a".to_owned(), "b".into()], 2));
        assert_eq!(world.history(), ["1 superseded", "2 deployed"], "{policy:?}");
        assert_eq!((world.condition("Irreconcilable"), world.state("Ready").as_str()), (None, "True/Ready"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_keeps_nothing_else_that_the_chart_drops() {
    for name in ["b", "c", "d"] {
        let world = serving(json!({"maps": ["a", "b", "c", "d"], "value": "1"}), OnFailure::Rollback);
        world.reconcile().await;
        refuse_deletion(&world, name);
        world.edit(|p| p["spec"]["maps"] = json!(["a"]));
        world.reconcile().await;
        assert_eq!(world.maps(), ["a", name]);
        assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_deleted_may_be_kept() {
    let world = with_refused_deletion(OnFailure::Rollback).await;
    let path = format!("{MAPS}/c");
    let mut kept = world.server.object(&path).unwrap();
    kept["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
    world.server.put(&path, kept, "user");
    retry(&world).await;
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 superseded".to_owned(), "2 deployed".into()]));
    assert!(world.server.object(&path).unwrap()["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty));
}

#[tokio::test(start_paused = true)]
async fn another_spec_ends_an_upgrade_that_waits_for_a_deletion() {
    let world = with_refused_deletion(OnFailure::Rollback).await;
    world.edit(|p| (p["spec"]["maps"], p["spec"]["value"]) = (json!(["a", "b", "c"]), "3".into()));
    hooks::reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!((world.value_of("c"), world.condition("Irreconcilable")), (json!("3"), None));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_may_not_delete_what_the_upgrade_made_is_completed_later_and_repeats_nothing_else() {
    let world = serving(with_hooks(json!([hook("undo", "pre-rollback")])), OnFailure::Rollback);
    hooks::reconcile(&world, "Complete").await;
    failure_policy::refuse(&world, 422);
    refuse_deletion(&world, "d");
    world.edit(|p| (p["spec"]["maps"], p["spec"]["value"]) = (json!(["a", "b", "c", "d"]), "bad".into()));
    hooks::reconcile(&world, "Complete").await;
    let applied = applies(&world);
    for _ in 0..3 {
        assert_eq!(world.history(), ["1 deployed", "2 failed", "3 pending-rollback"]);
        assert_eq!((world.value_of("a"), world.value_of("b"), world.maps().len()), (json!("1"), json!("1"), 4));
        let condition = world.condition("ReleaseFailed").unwrap();
        assert!(condition.contains("; rollback failed: cannot delete ConfigMap \"d\", which the"), "{condition}");
        retry(&world).await;
    }
    assert_eq!((applies(&world), runs(&world)), (applied, 1));
    world.server.accept();
    retry(&world).await;
    assert_eq!((world.maps().len(), runs(&world)), (3, 1));
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!(world.state("Stalled"), "True/RetriesExceeded", "no retries are left");
}

/// Returns a release whose hook of this event leaves no Job once it has succeeded, and whose Jobs may not be deleted.
async fn with_refused_clean_up(event: &str, refusal: fn() -> Error) -> World {
    let annotations = json!({"helm.sh/hook-delete-policy": "hook-succeeded"});
    let gone = json!({"name": "gone", "events": [event], "policies": ["hook-succeeded"], "annotations": annotations});
    let server = World::new(with_hooks(json!([gone]))).server;
    let world = World::with_events(server, Arc::new(Stub::default()), |settings| {
        (settings.retries, settings.hook_timeout) = (Some(0), Duration::from_secs(60));
    });
    hooks::reconcile(&world, "Complete").await;
    world.server.refuse(move |call| {
        let is_it = call.method == http::Method::DELETE && call.path.starts_with(JOBS);
        is_it.then(refusal)
    });
    world
}

fn denied() -> Error {
    Error::from_status(403, "Forbidden", "denied by policy")
}

fn failing_webhook() -> Error {
    Error::from_status(500, "InternalError", "failed calling webhook")
}

/// Retries until this is so. Returns how often.
async fn retried_until(world: &World, is_so: impl Fn(&World) -> bool) -> usize {
    for retries in 0..20 {
        if is_so(world) {
            return retries;
        }
        retry(world).await;
    }
    unreachable!("{:?} {:?}", world.history(), world.maps())
}

/// Returns the events that name what an action goes on beside.
async fn left(world: &World) -> Vec<String> {
    let events = published(world).await;
    events.into_iter().filter(|event| event.starts_with("Warning HookLeft ")).collect()
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_goes_on_after_ten_refusals_beside_a_job_that_has_succeeded() {
    for event in ["pre-upgrade", "post-upgrade"] {
        for refusal in [denied as fn() -> Error, failing_webhook] {
            let world = with_refused_clean_up(event, refusal).await;
            world.edit(|p| p["spec"]["value"] = "2".into());
            hooks::reconcile(&world, "Complete").await;
            assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"], "{event}");
            let said = world.condition("Irreconcilable").unwrap_or_default();
            assert!(said.contains("has succeeded, but Job \"gone\" cannot be deleted"), "{said}");
            let retries = retried_until(&world, |world| world.history() == ["1 superseded", "2 deployed"]).await;
            assert!((9..=11).contains(&retries), "{event}: {retries}");
            assert_eq!((world.value_of("a"), runs(&world)), (json!("2"), 1), "{event}");
            assert!(world.server.object(&format!("{JOBS}/gone")).is_some());
            let left = left(&world).await;
            assert!(matches!(&left[..], [once] if once.contains("x1") && once.contains("Job \"gone\"")), "{left:?}");
            assert_eq!((world.condition("Irreconcilable"), world.state("Ready").as_str()), (None, "True/Ready"));
            // The next revision deletes it first.
            world.server.accept();
            world.edit(|p| p["spec"]["value"] = "3".into());
            retried_until(&world, |world| world.history().contains(&"3 deployed".to_owned())).await;
            assert_eq!(world.server.object(&format!("{JOBS}/gone")), None, "{event}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_waits_for_an_answer_to_the_deletion_of_a_job_that_has_succeeded() {
    let world = with_refused_clean_up("pre-upgrade", || Error::Transport("reset".into())).await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    for _ in 0..15 {
        retry(&world).await;
        assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
    }
    world.server.accept();
    retry(&world).await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    assert_eq!((left(&world).await, runs(&world)), (vec![], 1));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_goes_on_after_ten_refusals_beside_a_job_that_has_succeeded_and_says_so_once() {
    for refusal in [denied as fn() -> Error, failing_webhook] {
        let world = with_refused_clean_up("pre-delete", refusal).await;
        world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
        let mut held = world.server.object(&format!("{MAPS}/a")).unwrap();
        held["metadata"]["finalizers"] = json!(["x/y"]);
        world.server.put(&format!("{MAPS}/a"), held, "someone");
        world.delete();
        hooks::reconcile(&world, "Complete").await;
        assert_eq!(world.maps().len(), 3);
        let retries = retried_until(&world, |world| world.maps() == ["a"]).await;
        assert!((9..=11).contains(&retries), "{retries}");
        for _ in 0..3 {
            retry(&world).await;
            let said = ["ReleaseFailed", "Irreconcilable"].map(|kind| world.condition(kind).unwrap_or_default());
            assert!(!said.iter().any(|said| said.contains("cannot be deleted")), "it waits for the map: {said:?}");
        }
        let left = left(&world).await;
        assert!(matches!(&left[..], [once] if once.contains("x1") && once.contains("Job \"gone\"")), "{left:?}");
        assert_eq!((runs(&world), world.maps()), (1, vec!["a".to_owned()]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_waits_as_long_for_a_job_that_has_succeeded_beside_a_hook_that_may_still_run() {
    let world = with_refused_clean_up("pre-delete", denied).await;
    world.edit(|p| p["spec"]["hooks"].as_array_mut().unwrap().push(hook("early", "pre-upgrade")));
    hooks::reconcile_while(&world, World::delete).await;
    let events = left(&world).await;
    assert!(matches!(&events[..], [once] if once.contains("Job \"early\"")), "{events:?}");
    assert_eq!(world.maps().len(), 3);
    let retries = retried_until(&world, |world| world.maps().is_empty()).await;
    assert!((8..=11).contains(&retries), "{retries}");
    let events = left(&world).await;
    assert!(events.iter().any(|event| event.contains("Job \"gone\"")), "{events:?}");
}
