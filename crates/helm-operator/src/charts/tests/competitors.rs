//! Tests of two processes on the same resources at the same time.

use super::reporting::published;
use super::*;

/// Creates two processes with charts that render differently, both of which have listed everything.
async fn two() -> (World, World) {
    let one = World::new(spec());
    one.reconcile().await;
    let other = Stub { chart: "other", ..Stub::default() };
    let other = World::with_events(one.server.clone(), Arc::new(other), |_| {});
    (one, other)
}

/// Returns the warnings that name another operator.
async fn named(world: &World) -> Vec<String> {
    let events = published(world).await.into_iter();
    events.filter_map(|event| event.strip_prefix("Warning OtherOperator x1: ").map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_process_that_comes_after_another_one_is_not_held_up() {
    let (_, next) = two().await;
    next.reconcile().await;
    next.reconcile().await;
    assert_eq!(next.history(), ["1 superseded", "2 deployed"]);
    assert_eq!((next.condition("Irreconcilable"), named(&next).await), (None, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn two_processes_with_different_charts_take_turns_ever_more_slowly() {
    let (one, other) = two().await;
    let mut message = None;
    for _ in 0..1200 {
        one.reconcile().await;
        message = one.condition("Irreconcilable").or(message);
        other.reconcile().await;
        tokio::time::advance(SECOND).await;
    }
    one.feed();
    let newest = one.shared.cache.release(&key()).unwrap().newest().unwrap().0;
    // 4 + 4 + 8 + 8 + … seconds.
    assert!((10..=20).contains(&newest), "{newest} revisions in 20 minutes");
    let message = message.unwrap();
    assert!(
        message.starts_with("True/OtherOperator/another operator also serves this resource: operator-"),
        "{message}"
    );
    assert!(message.contains("--leader-election-id"), "{message}");
    assert!(!named(&other).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_only_labels_the_records_of_this_process_is_no_other_operator() {
    let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    for round in 2..=9_u32 {
        let path = record_path(round - 1);
        let mut record = world.server.object(&path).unwrap();
        record["metadata"]["labels"]["backup"] = "yes".into();
        world.server.put(&path, record, "backup");
        let value = json!(round.to_string());
        world.edit(|p| p["spec"]["value"] = value.clone());
        world.reconcile().await;
        assert_eq!((world.value_of("a"), world.condition("Irreconcilable")), (value, None), "revision {round}");
        assert!(world.history().last().unwrap().starts_with(&format!("{round} ")), "{:?}", world.history());
    }
    assert_eq!(named(&world).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_changed_resource_is_not_held_up() {
    let (one, other) = two().await;
    other.reconcile().await;
    one.reconcile().await;
    assert_eq!(one.history(), ["1 superseded", "2 deployed"]);
    one.edit(|p| p["spec"]["value"] = "2".into());
    one.reconcile().await;
    assert_eq!((one.history().len(), one.value_of("a")), (3, json!("2")));
}

#[tokio::test(start_paused = true)]
async fn an_action_of_another_process_is_left_alone_and_reported_by_name() {
    let (one, other) = two().await;
    other.reconcile().await;
    set_status(&one.server, 2, "pending-upgrade");
    let before = one.server.log().len();
    one.reconcile().await;
    let message = one.condition("Irreconcilable").unwrap();
    let name = other.releases.writer();
    let expected = format!(
        "True/OtherOperator/another operator also serves this resource: {name} is working on revision 2 of release \"web\" (pending-upgrade)"
    );
    assert!(message.starts_with(&expected), "{message}");
    let log = one.server.log()[before..].join("\n");
    assert!(!log.contains("configmaps") && !log.contains("secrets"), "{log}");
    // A process that starts now finds a record of a process that has ended, and other inputs.
    let next = World::on(one.server.clone());
    next.reconcile().await;
    assert_eq!(next.history(), ["1 superseded", "2 failed", "3 deployed"]);
}

/// Sets the status of a revision's record.
fn set_status(server: &MemoryApi, version: u32, status: &str) {
    let path = record_path(version);
    let mut record = server.object(&path).unwrap();
    record["metadata"]["labels"]["status"] = status.into();
    server.put(&path, record, "helm-operator");
    reseal(server, &path);
}

#[tokio::test(start_paused = true)]
async fn a_failed_revision_of_another_process_is_replaced_after_a_wait() {
    let (one, other) = two().await;
    other.reconcile().await;
    set_status(&one.server, 1, "deployed");
    set_status(&one.server, 2, "failed");
    let mut primary = one.server.object(PRIMARY).unwrap();
    primary["status"]["deployedRelease"]["revision"] = 1.into();
    one.server.put(PRIMARY, primary, "helm-operator");
    assert_ne!(one.reconcile().await, ReconcileResult::Error);
    let message = one.condition("Irreconcilable").unwrap();
    assert!(message.starts_with("True/OtherOperator/another operator also serves this resource: "), "{message}");
    assert_eq!(one.history(), ["1 deployed", "2 failed"], "it waits first");
    tokio::time::advance(60 * SECOND).await;
    one.reconcile().await;
    assert_eq!(one.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!((one.condition("Irreconcilable"), one.value_of("a")), (None, json!("1")));
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_another_process_has_just_made_is_no_failure() {
    let (one, other) = two().await;
    one.edit(|p| p["spec"]["value"] = "2".into());
    one.feed();
    other.reconcile().await;
    // Its event has not arrived yet.
    let result = reconcile::reconcile(&one.shared, &key(), &(), Priority::Retry).await;
    assert_eq!((result, one.condition("ReleaseFailed")), (ReconcileResult::RequeueAfter, None));
    assert_eq!(one.condition("Irreconcilable"), None);
}

#[tokio::test(start_paused = true)]
async fn two_equal_processes_are_named_once_and_write_nothing_twice() {
    let one = World::new(spec());
    one.reconcile().await;
    let other = World::with_events(one.server.clone(), Arc::new(Stub::default()), |_| {});
    one.edit(|p| p["spec"]["value"] = "2".into());
    one.reconcile().await;
    other.reconcile().await;
    other.reconcile().await;
    assert_eq!(other.history(), ["1 superseded", "2 deployed"]);
    let named = named(&other).await;
    let name = one.releases.writer();
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(named[0].starts_with(&format!("another operator also serves this resource: {name} wrote its release")));
}
