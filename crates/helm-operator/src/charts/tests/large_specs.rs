//! Tests of specs that the operator does not keep in memory, or does not read at all.

use super::*;

/// Returns a spec that is larger than what is always kept.
fn large(value: &str) -> Value {
    let mut spec = spec();
    (spec["value"], spec["padding"]) = (value.into(), "x".repeat(2000).into());
    spec
}

fn reads(world: &World) -> usize {
    world.server.log().iter().filter(|line| **line == format!("GET {PRIMARY}")).count()
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_is_not_kept_is_read_when_it_is_needed_and_only_then() {
    let server = World::new(large("1")).server;
    let world = World::on(server);
    world.shared.cache.fill_room();
    world.feed();
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert!(world.shared.cache.primary(&key()).unwrap().spec.is_away());
    assert_eq!((world.value_of("a"), world.state("Ready"), reads(&world)), (json!("2"), "True/Ready".into(), 1));
    assert_eq!(world.requests().await, 0, "nothing is left to do");
    world.edit(|p| p["spec"]["value"] = "3".into());
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().len(), reads(&world)), (json!("3"), 2, 2));
    world.edit(|p| p["spec"]["broken"] = true.into());
    world.edit(|p| p["spec"]["told"] = "n0tforlogs".into());
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.contains("templates/a.yaml:3:5") && !condition.contains("n0tforlogs"), "{condition}");
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

/// After the record key was lost, the chart must show whose the record is.
#[tokio::test(start_paused = true)]
async fn a_spec_that_is_not_kept_is_read_before_a_record_is_compared_with_the_chart() {
    let server = World::new(large("1")).server;
    World::on(server.clone()).reconcile().await;
    let another = Keyring::new(Key::new(&[2; 32]).unwrap(), Vec::new());
    let world = World::sealing(server, Stub::default(), another);
    world.shared.cache.fill_room();
    world.edit(|p| p["metadata"]["labels"] = json!({"a": "b"}));
    world.reconcile().await;
    assert!(world.shared.cache.primary(&key()).unwrap().spec.is_away());
    assert_eq!((world.condition("Irreconcilable"), world.state("Ready")), (None, "True/Ready".to_owned()));
    assert_eq!(world.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_cannot_be_read_again_is_asked_for_later() {
    let server = World::new(large("1")).server;
    let world = World::on(server);
    world.shared.cache.fill_room();
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.server.disturb(PRIMARY, 1, helm_release::kube::Disturbance::Refused(500));
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").is_some_and(|condition| condition.starts_with("True/Unanswered/")));
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.state("Ready")), (json!("2"), "True/Ready".into()));
}

#[tokio::test(start_paused = true)]
async fn a_spec_beyond_the_limit_is_named_and_harms_neither_its_release_nor_its_deletion() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|p| p["spec"]["padding"] = "x".repeat(1 << 20).into());
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(
        condition.starts_with("True/InvalidValues/spec has 10486") && condition.contains("valuesFrom"),
        "{condition}"
    );
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 deployed".to_owned()]));
    world.edit(|p| p["spec"] = spec());
    world.reconcile().await;
    assert_eq!(world.state("Ready"), "True/Ready");
    world.edit(|p| p["spec"]["padding"] = "x".repeat(1 << 20).into());
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}
