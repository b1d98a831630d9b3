//! Tests of specs and metadata that the operator does not keep in memory, or does not read at all.

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

#[tokio::test(start_paused = true)]
async fn annotations_beyond_the_limit_are_named_and_harm_neither_the_release_nor_its_deletion() {
    let key_of_ours = "helm.sdk.operatorframework.io/upgrade-description";
    let describe = |world: &World, bytes: usize| {
        world.edit(|p| p["metadata"]["annotations"] = json!({key_of_ours: "\u{1}".repeat(bytes)}));
    };
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    describe(&world, 200_000);
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    let expected = format!("True/InvalidAnnotation/annotation {key_of_ours}: the long values");
    assert!(condition.starts_with(&expected) && condition.contains("have 200000 bytes"), "{condition}");
    assert_eq!((world.value_of("a"), world.history()), (json!("1"), vec!["1 deployed".to_owned()]));
    describe(&world, 8000);
    world.reconcile().await;
    assert_eq!((world.state("Ready"), world.value_of("a")), ("True/Ready".to_owned(), json!("2")));
    world.edit(|p| p["spec"]["broken"] = true.into());
    world.reconcile().await;
    let inputs = world.shared.memory.of(&key()).failure.as_ref().unwrap().inputs.len();
    assert!(inputs < 100, "a failure keeps a digest of the annotations: {inputs}");
    describe(&world, 200_000);
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn finalizers_that_are_not_kept_stay_when_ours_comes_and_goes() {
    let world = World::new(spec());
    let others: Vec<String> = (0..100).map(|n| format!("their.org/{n}")).collect();
    world.edit(|p| p["metadata"]["finalizers"] = json!(others));
    world.work_for(SECOND).await;
    let finalizers = || world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"].clone();
    let all: Vec<&str> = others.iter().map(String::as_str).chain([FINALIZER]).collect();
    assert_eq!((finalizers(), world.state("Ready")), (json!(all), "True/Ready".to_owned()));
    world.delete();
    world.work_for(SECOND).await;
    assert_eq!((finalizers(), world.maps()), (json!(others), Vec::new()));
    let ready = world.condition("Ready").unwrap();
    assert!(ready.starts_with("False/Uninstalled/") && ready.ends_with("their.org/31, and 68 more"), "{ready}");
}
