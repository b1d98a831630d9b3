//! Tests of the annotation `dry-run`: what would change is said, nothing is written, and nothing is remembered of it.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::reconcile::decide::state::Recorded;
use crate::reconcile::step_context::StepContext;
use crate::values_from::ValuesSource;

const DRY_RUN: &str = "helm.sdk.operatorframework.io/dry-run";

/// Sets or removes the annotation.
fn ask(world: &World, asked: bool) {
    world.edit(|primary| {
        let value = if asked { json!("true") } else { Value::Null };
        primary["metadata"]["annotations"][DRY_RUN] = value;
        primary["metadata"]["annotations"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
    });
}

/// Returns the reason and the message of the plan.
fn planned(world: &World) -> (String, String) {
    let condition =
        world.condition("Planned").unwrap_or_else(|| panic!("no plan: {}", world.server.object(PRIMARY).unwrap()));
    let mut parts = condition.splitn(3, '/').skip(1).map(str::to_owned);
    (parts.next().unwrap(), parts.next().unwrap())
}

/// Returns the objects of the cluster, except the resource itself and events.
fn objects(world: &World) -> Vec<String> {
    let is_other = |path: &String| path != PRIMARY && !path.contains("/events/");
    let paths = world.server.paths().into_iter().filter(is_other);
    paths.map(|path| format!("{path} {}", world.server.object(&path).unwrap())).collect()
}

async fn requests(world: &World) -> usize {
    let before = world.server.log().len();
    world.reconcile().await;
    world.server.log().len() - before
}

#[tokio::test(start_paused = true)]
async fn a_new_resource_is_planned_and_nothing_is_installed_until_the_annotation_goes() {
    let world = World::new(spec());
    ask(&world, true);
    let before = objects(&world);
    world.reconcile().await;
    let expected = "+3 ~0 -0\n+ ConfigMap ns/a\n+ ConfigMap ns/b\n+ ConfigMap ns/c";
    assert_eq!(planned(&world), ("WouldChange".to_owned(), expected.to_owned()));
    assert_eq!(objects(&world), before);
    let primary = world.server.object(PRIMARY).unwrap();
    assert_eq!(primary["metadata"].get("finalizers"), None, "a deletion must not wait for anyone");
    assert_eq!(world.condition("Reconciling"), None, "nothing follows by itself");
    assert!(world.shared.cache.release(&key()).is_none());
    assert_eq!(requests(&world).await, 0);
    world.feed();
    assert_eq!(requests(&world).await, 0, "nothing that the plan depends on has changed");
    ask(&world, false);
    world.reconcile().await;
    assert_eq!((world.maps(), world.condition("Planned")), (["a", "b", "c"].map(str::to_owned).to_vec(), None));
    assert_eq!(world.state("Ready"), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn a_change_is_planned_again_whenever_something_else_would_follow() {
    let world = World::new(spec());
    world.reconcile().await;
    ask(&world, true);
    world.reconcile().await;
    assert_eq!(planned(&world), ("NoChanges".to_owned(), "no changes".to_owned()));
    let before = objects(&world);
    world.edit(|primary| primary["spec"] = json!({"maps": ["a", "d"], "value": "2"}));
    world.reconcile().await;
    let expected = "+1 ~1 -2\n~ ConfigMap ns/a: data.value\n+ ConfigMap ns/d\n- ConfigMap ns/b\n- ConfigMap ns/c";
    let (reason, message) = planned(&world);
    let mut lines: Vec<&str> = message.lines().collect();
    let mut wanted: Vec<&str> = expected.lines().collect();
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!((&*reason, lines), ("WouldChange", wanted));
    assert_eq!(objects(&world), before);
    assert_eq!(world.history(), ["1 deployed"], "the cache knows nothing of what was rehearsed");
    let context_key = key();
    let context = StepContext::new(&world.shared, &context_key, &());
    assert_eq!(context.recorded(&world.shared.cache.primary(&key()).unwrap()), Recorded::Deployed);
    assert_eq!(requests(&world).await, 0);
    ask(&world, false);
    world.reconcile().await;
    assert_eq!(world.maps(), ["a", "d"]);
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_plan_goes_on_after_a_revision_that_has_to_be_given_up() {
    let world = World::new(hooks::with_hooks(json!([hooks::hook("migrate", "pre-upgrade")])));
    world.reconcile().await;
    let value = |world: &World, value: &str| world.edit(|primary| primary["spec"]["value"] = value.into());
    value(&world, "2");
    hooks::killed_after(&world, 30).await;
    // The next process dies after it has recorded the end of the hook.
    value(&world, "3");
    let world = World::on(world.server);
    world.server.fail_after(Some(1));
    hooks::killed_after(&world, 300).await;
    world.server.fail_after(None);
    assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
    value(&world, "2");
    ask(&world, true);
    let world = World::on(world.server);
    let before = objects(&world);
    world.reconcile().await;
    // Nothing ends the hook of the next revision here, so its Job goes as well.
    let message = planned(&world).1;
    assert!(
        message.contains("migrate.yaml did not finish within") && message.contains("\n- Job ns/migrate"),
        "{message}"
    );
    assert_eq!(objects(&world), before);
}

#[tokio::test(start_paused = true)]
async fn a_restart_plans_again_and_only_says_what_is_new() {
    let serve = |server: Arc<MemoryApi>, chart: &'static str| {
        World::with_events(server, Arc::new(Stub { chart, ..Stub::default() }), |_| {})
    };
    let published = async |world: &World| {
        world.shared.events.flush(Duration::from_secs(5)).await;
        let all = events(&world.server).into_iter().filter(|event| event["action"] == "Plan");
        all.map(|event| format!("{} {}", event["reason"].as_str().unwrap(), event["note"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    let first = serve(World::new(spec()).server, "v1");
    first.reconcile().await;
    ask(&first, true);
    first.reconcile().await;
    assert_eq!(published(&first).await, ["NoChanges no changes"]);
    let same = serve(first.server.clone(), "v1");
    same.reconcile().await;
    assert_eq!(published(&same).await.len(), 1, "it says nothing new");
    let other = serve(first.server.clone(), "v2");
    other.reconcile().await;
    assert_eq!((&*planned(&other).0, published(&other).await.len()), ("WouldChange", 2));
    assert_eq!(other.history(), ["1 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_changes_makes_a_new_plan() {
    let sources: Vec<ValuesSource> = serde_json::from_value(json!([{"kind": "ConfigMap", "name": "extra"}])).unwrap();
    let world = World::with_events(World::new(json!({})).server, Arc::new(with_sources()), |settings| {
        settings.values_from = sources;
    });
    let source = |maps: Value| {
        let data = json!({"values.yaml": json!({"maps": maps}).to_string()});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}, "data": data})
    };
    let path = format!("{MAPS}/extra");
    world.server.put(&path, source(json!(["a"])), "user");
    world.feed();
    ask(&world, true);
    world.reconcile().await;
    assert_eq!(planned(&world).1, "+1 ~0 -0\n+ ConfigMap ns/a");
    world.server.put(&path, source(json!(["a", "b"])), "user");
    world.feed();
    world.reconcile().await;
    assert_eq!(planned(&world).1, "+2 ~0 -0\n+ ConfigMap ns/a\n+ ConfigMap ns/b");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_no_plan() {
    let world = World::new(spec());
    world.reconcile().await;
    ask(&world, true);
    world.reconcile().await;
    world.delete();
    world.reconcile().await;
    assert!(world.maps().is_empty() && world.server.object(PRIMARY).is_none(), "{:?}", world.server.paths());
}

const CANARY: &str = "canary-8c1f";

#[tokio::test(start_paused = true)]
async fn a_plan_shows_no_content_of_any_object() {
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": value}});
    let start = json!({"maps": ["a"], "value": "one", "objects": [secret("other")]});
    let world = World::with_events(World::new(start).server, Arc::new(Stub::default()), |_| {});
    world.reconcile().await;
    ask(&world, true);
    world.edit(|primary| primary["spec"] = json!({"maps": ["a"], "value": CANARY, "objects": [secret(CANARY)]}));
    world.reconcile().await;
    let (reason, message) = planned(&world);
    assert!(reason == "WouldChange" && message.contains("~ Secret ns/s"), "{message}");
    world.shared.events.flush(Duration::from_secs(5)).await;
    let mut seen = format!("{} {:?}", world.server.object(PRIMARY).unwrap()["status"], events(&world.server));
    seen.push_str(&message);
    assert!(!seen.contains(CANARY), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_fails_says_why_and_the_release_stays_as_it_is() {
    let world = World::new(spec());
    world.reconcile().await;
    ask(&world, true);
    world.edit(|primary| primary["spec"] = json!({"broken": true}));
    world.reconcile().await;
    let (reason, message) = planned(&world);
    assert!(reason == "PlanFails" && message.starts_with("no changes; fails: "), "{reason}: {message}");
    assert_eq!((world.state("Ready"), world.maps().len()), ("True/Ready".to_owned(), 3));
    assert_eq!(requests(&world).await, 0, "the same plan is not made again");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_cannot_be_read_is_planned_later() {
    let world = World::new(spec());
    ask(&world, true);
    let is_off = Arc::new(AtomicBool::new(true));
    let off = is_off.clone();
    world.server.refuse(move |call| {
        let is_hit = off.load(Ordering::Relaxed) && call.method == "GET" && call.path == PRIMARY;
        is_hit.then(|| Error::from_status(503, "ServiceUnavailable", "away"))
    });
    world.reconcile().await;
    assert_eq!(planned(&world), ("PlanFailed".to_owned(), "away".to_owned()));
    is_off.store(false, Ordering::Relaxed);
    world.reconcile().await;
    assert_eq!(planned(&world).0, "WouldChange");
}

#[tokio::test(start_paused = true)]
async fn plans_wait_for_the_permit_that_the_process_has_once_and_the_last_one_stays_until_then() {
    let world = World::new(spec());
    ask(&world, true);
    world.reconcile().await;
    world.edit(|primary| primary["spec"]["maps"] = json!(["a"]));
    let before = world.server.object(PRIMARY);
    assert_eq!(world.reconcile_at_first(&key()).await, 1);
    assert_eq!(world.server.object(PRIMARY), before);
    world.reconcile().await;
    assert_eq!(planned(&world).1, "+1 ~0 -0\n+ ConfigMap ns/a");
    let restarted = World::on(world.server.clone());
    let before = restarted.server.object(PRIMARY);
    assert_eq!(restarted.reconcile_at_first(&key()).await, 1);
    assert_eq!(restarted.server.object(PRIMARY), before);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_was_corrected_passes_a_plan() {
    let world = World::new(spec());
    let corrected = world.add("ns", "corrected", json!({"broken": true}));
    world.reconcile_one(&corrected).await;
    let path = PRIMARY.replace("/web", "/corrected");
    let mut resource = world.server.object(&path).unwrap();
    (resource["spec"], resource["metadata"]["generation"]) = (spec(), 2.into());
    world.server.put(&path, resource, "user");
    ask(&world, true);
    world.feed();
    let queue = &world.shared.queue;
    world.open();
    let _running = (queue.next().await, queue.next().await);
    for key in [&key(), &corrected] {
        reconcile::reconcile(&world.shared, key, &(), Priority::Normal).await;
        queue.done(key);
    }
    assert_eq!(queue.sizes().retrying, 2);
    assert_eq!((queue.take_retry(), queue.take_retry()), (Some(corrected), Some(key())));
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_too_large_to_plan_fail_the_plan_once() {
    let world = World::new(spec());
    world.reconcile().await;
    let path = format!("{MAPS}/a");
    let usual = world.server.object(&path).unwrap();
    let mut large = usual.clone();
    large["data"].as_object_mut().unwrap().extend((0..150_000).map(|n| (format!("key{n}"), json!(""))));
    world.server.restore(&path, large.clone());
    ask(&world, true);
    world.edit(|primary| primary["spec"]["value"] = "2".into());
    world.reconcile().await;
    let (reason, message) = planned(&world);
    assert!(reason == "PlanFailed" && message.contains("too much memory"), "{reason}: {message}");
    assert_eq!((world.state("Ready"), world.history()), ("True/Ready".to_owned(), vec!["1 deployed".to_owned()]));
    assert!(world.server.object(&path) == Some(large));
    assert_eq!(requests(&world).await, 0, "the same plan is not made again");
    world.server.restore(&path, usual);
    world.edit(|primary| primary["spec"]["value"] = "3".into());
    world.reconcile().await;
    assert_eq!(planned(&world).0, "WouldChange");
}
