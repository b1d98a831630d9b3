//! Tests of releases that a person pins to a revision.

use super::hooks::{self, hook, with_hooks};
use super::reporting::published;
use super::*;
use crate::chart_metrics::Census as _;

fn pin(world: &World, revision: Option<&str>) {
    world.edit(|p| {
        let annotations = revision.map(|revision| json!({"helm.sdk.operatorframework.io/pin": revision}));
        p["metadata"]["annotations"] = annotations.unwrap_or_default();
    });
}

fn set(world: &World, value: &str) {
    world.edit(|p| p["spec"]["value"] = value.into());
}

/// Creates a release with two revisions.
async fn upgraded() -> World {
    let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    set(&world, "2");
    world.reconcile().await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_pinned_release_returns_to_its_revision_and_stays_until_the_annotation_goes() {
    let world = upgraded().await;
    pin(&world, Some("1"));
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("1"), "3 deployed"));
    let events = published(&world).await;
    let back = "Normal RolledBack x1: rolled back to revision 1 as revision 3: the annotation pin asks for it";
    assert!(events.contains(&back.to_owned()), "{events:#?}");
    let says = "True/PinAnnotation/the release stays at revision 1, which revision 3 repeats: changes of spec, chart and values wait \
        until the annotation helm.sdk.operatorframework.io/pin is removed";
    assert_eq!(world.condition("Pinned").unwrap(), says);
    assert_eq!(world.state("Ready"), "True/Ready");
    assert_eq!(world.requests().await, 0);
    set(&world, "3");
    let renamed = Stub { chart: "another", ..Stub::default() };
    let world = World::with_events(world.server, Arc::new(renamed), |_| {});
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("1"), "3 deployed"));
    world.server.remove(&format!("{MAPS}/b"));
    world.reconcile().await;
    assert_eq!(world.value_of("b"), "1", "drift is repaired");
    pin(&world, None);
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.condition("Pinned")), (json!("3 by another"), None));
    assert_eq!(world.history().last().unwrap(), "4 deployed");
}

/// Returns a release that is pinned to its first revision, of a resource that has changed since.
async fn pinned_to_the_first() -> World {
    let world = upgraded().await;
    pin(&world, Some("1"));
    world.reconcile().await;
    set(&world, "3");
    world
}

/// Recreates the resource, and starts a new process.
fn recreated(world: World) -> World {
    world.recreate(PRIMARY);
    World::on(world.server)
}

#[tokio::test(start_paused = true)]
async fn a_pinned_release_that_is_taken_over_follows_the_resource_once_the_annotation_goes() {
    let world = pinned_to_the_first().await;
    let metadata = |world: &World| world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"].clone();
    let before = metadata(&world);
    let world = recreated(world);
    world.reconcile().await;
    let (after, resource) = (metadata(&world), world.server.object(PRIMARY).unwrap());
    assert_eq!((&after["uid"], world.value_of("a")), (&before["uid"], json!("1")));
    assert_eq!(after["ownerReferences"][0]["uid"], resource["metadata"]["uid"], "it is taken over");
    assert_ne!(after["ownerReferences"], before["ownerReferences"]);
    assert_eq!(world.history().last().unwrap(), "3 deployed");
    pin(&world, None);
    world.reconcile().await;
    assert_eq!((world.history().last().unwrap().as_str(), world.value_of("a")), ("4 deployed", json!("3")));
}

#[tokio::test(start_paused = true)]
async fn a_pinned_release_whose_records_were_put_back_stays_as_it_is_and_says_so() {
    let world = World::new(spec());
    world.reconcile().await;
    let old = world.server.object(&record_path(1)).unwrap();
    set(&world, "2");
    world.reconcile().await;
    pin(&world, Some("1"));
    world.reconcile().await;
    set(&world, "3");
    (1..=3).for_each(|version| world.server.remove(&record_path(version)));
    world.server.put(&record_path(1), old, "tenant");
    let map = world.server.object(&format!("{MAPS}/a")).unwrap();
    let world = World::on(world.server);
    world.reconcile().await;
    let says = "True/InvalidAnnotation/annotation helm.sdk.operatorframework.io/pin: the newest record of the release is that of revision 1, \
        older than revision 3 in the status, so it does not show what is running; without the annotation, the chart decides";
    assert_eq!(world.condition("Irreconcilable").unwrap(), says);
    assert_eq!(world.server.object(&format!("{MAPS}/a")).unwrap(), map);
    pin(&world, None);
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.state("Ready")), (json!("3"), "True/Ready".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_pinned_revision_whose_record_somebody_changed_is_not_taken_over() {
    let world = pinned_to_the_first().await;
    let mut release = world.shared.storage.get("ns", "web", 3).await.unwrap().release.facts().clone();
    release.info.notes = "changed".into();
    let mut secret = world.server.object(&record_path(3)).unwrap();
    let content = Packed::pack(&release).unwrap().to_record().into_bytes();
    secret["data"]["release"] = serde_json::to_value(ByteString(content)).unwrap();
    world.server.put(&record_path(3), secret, "tenant");
    let map = world.server.object(&format!("{MAPS}/a")).unwrap();
    let world = recreated(world);
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/InvalidAnnotation/"), "{condition}");
    assert_eq!(world.server.object(&format!("{MAPS}/a")).unwrap(), map);
}

#[tokio::test(start_paused = true)]
async fn a_pinned_release_applies_everything_again_on_request() {
    let world = upgraded().await;
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({
            "helm.sdk.operatorframework.io/pin": "1", "helm.sdk.operatorframework.io/reconcile-now": "t",
        });
    });
    world.reconcile().await;
    world.reconcile().await;
    let status = &world.server.object(PRIMARY).unwrap()["status"];
    assert_eq!((world.value_of("a"), &status["lastHandled"]["reconcileNow"]), (json!("1"), &json!("t")));
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_not_there_is_named_and_nothing_happens() {
    let world = upgraded().await;
    for (revision, expected) in [
        ("7", "the release cannot return to revision 7; it has these: 1, 2, of which one that was deployed counts"),
        ("first", "must be the number of a revision, as in \"3\""),
        ("0", "must be the number of a revision, as in \"3\""),
    ] {
        pin(&world, Some(revision));
        world.reconcile().await;
        let condition = world.condition("Irreconcilable").unwrap();
        let expected = format!("True/InvalidAnnotation/annotation helm.sdk.operatorframework.io/pin: {expected}");
        assert_eq!(condition, expected);
        assert_eq!((world.value_of("a"), world.history().len()), (json!("2"), 2));
    }
    pin(&world, Some("2"));
    world.reconcile().await;
    assert_eq!(
        (world.history().len(), world.state("Pinned").as_str()),
        (2, "True/PinAnnotation"),
        "it is there already"
    );
}

#[tokio::test(start_paused = true)]
async fn a_return_to_a_pinned_revision_ends_alike_wherever_it_is_interrupted() {
    let runs = std::cell::Cell::new(0);
    let pinned = async || {
        runs.set(runs.get() + 1);
        let world = upgraded().await;
        pin(&world, Some("1"));
        world
    };
    let is_back = |world: &World| {
        let all = ["1 superseded", "2 superseded", "3 deployed"];
        assert_eq!(world.history(), all, "run {}", runs.get());
        assert_eq!((world.value_of("a"), world.state("Pinned").as_str()), (json!("1"), "True/PinAnnotation"));
    };
    survive(pinned, is_back).await;
    assert!(runs.get() > 6, "the scenario wrote nothing");
}

#[tokio::test(start_paused = true)]
async fn the_revision_to_return_to_outlasts_attempts_that_fail() {
    let world = upgraded().await;
    pin(&world, Some("1"));
    world.server.refuse(|call| {
        let is_map = call.method == http::Method::PATCH && call.path.contains("/configmaps/a");
        is_map.then(|| Error::from_status(403, "Forbidden", "exceeded quota"))
    });
    for _ in 0..5 {
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(3600)).await;
    }
    world.server.accept();
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.condition("Irreconcilable")), (json!("1"), None), "{:?}", world.history());
}

#[tokio::test(start_paused = true)]
async fn the_history_keeps_a_revision_from_the_moment_that_a_person_pins_the_release_to_it() {
    let resource = with_hooks(json!([hook("migrate", "pre-upgrade")]));
    let world = World::with_events(World::new(resource).server, Arc::new(Stub::default()), |settings| {
        settings.max_history = 2;
    });
    hooks::reconcile(&world, "Complete").await;
    set(&world, "2");
    hooks::reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    set(&world, "3");
    // The pin ends the hook, and with it revision 3, which is beyond the limit.
    hooks::reconcile_while(&world, |world| pin(world, Some("1"))).await;
    assert_eq!(world.history(), ["1 superseded", "2 superseded", "4 deployed"]);
    assert_eq!((world.value_of("a"), world.state("Pinned").as_str()), (json!("1"), "True/PinAnnotation"));
    assert!(world.server.object(&record_path(1)).is_some(), "its record is still there");
}

#[tokio::test(start_paused = true)]
async fn objects_name_their_owner_as_the_revision_does_that_a_release_returns_to() {
    let backup = json!([hook("backup", "pre-delete")]);
    for (first, second, is_referenced) in [(&backup, &json!([]), false), (&json!([]), &backup, true)] {
        let world = World::new(with_hooks(first.clone()));
        world.reconcile().await;
        world.edit(|p| (p["spec"]["hooks"], p["spec"]["value"]) = (second.clone(), "2".into()));
        world.reconcile().await;
        pin(&world, Some("1"));
        world.reconcile().await;
        assert_eq!(world.history().last().unwrap(), "3 deployed");
        for map in world.maps() {
            let metadata = world.server.object(&format!("{MAPS}/{map}")).unwrap()["metadata"].take();
            assert_eq!(metadata["ownerReferences"].is_array(), is_referenced, "{metadata}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resources_are_counted_while_their_release_stays_at_a_pinned_revision() {
    let world = upgraded().await;
    assert_eq!(world.shared.count().pinned, 0);
    pin(&world, Some("1"));
    world.feed();
    assert_eq!(world.shared.count().pinned, 0, "the rollback has not ended");
    for (revision, expected) in [
        (Some("1"), 1),
        // It cannot return to this one, so it is held nowhere.
        (Some("7"), 0),
        // It is there already.
        (Some("3"), 1),
        (None, 0),
    ] {
        pin(&world, revision);
        world.reconcile().await;
        assert_eq!(world.shared.count().pinned, expected, "{revision:?}");
    }
}
