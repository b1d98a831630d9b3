//! Tests of control annotations with tokens, of the condition of a suspended resource, and of the periodic apply.

use super::*;

fn annotate(world: &World, key: &str, value: &str) {
    let key = format!("helm.sdk.operatorframework.io/{key}");
    world.edit(|p| p["metadata"]["annotations"][key] = value.into());
}

fn handled(world: &World) -> Value {
    world.server.object(PRIMARY).unwrap()["status"]["lastHandled"].clone()
}

/// Returns each object that has been applied since then, except status and records.
fn applied_since(world: &World, from: usize) -> Vec<String> {
    let log = world.server.log()[from..].to_vec();
    log.into_iter().filter(|line| line.starts_with(&format!("PATCH {MAPS}"))).collect()
}

async fn installed_with(renderer: Arc<Stub>) -> World {
    let world = World::rendering(World::new(spec()).server, renderer);
    world.reconcile().await;
    world
}

#[tokio::test(start_paused = true)]
async fn reconcile_now_renders_and_applies_everything_once_per_token() {
    let renderer = Arc::new(Stub::default());
    let world = installed_with(renderer.clone()).await;
    for (token, renders) in [("one", 2), ("two", 3)] {
        let from = world.server.log().len();
        annotate(&world, "reconcile-now", token);
        world.reconcile().await;
        assert_eq!(renderer.renders.load(Ordering::SeqCst), renders);
        assert_eq!((applied_since(&world, from).len(), world.history()), (3, vec!["1 deployed".to_owned()]));
        assert_eq!(handled(&world), json!({"reconcileNow": token}));
        assert_eq!(world.requests().await, 0, "once");
    }
    let world = World::rendering(world.server, renderer.clone());
    assert_eq!((world.requests().await, renderer.renders.load(Ordering::SeqCst)), (0, 3), "nor after a restart");
    world.edit(|p| p["metadata"]["annotations"] = json!({}));
    world.reconcile().await;
    assert_eq!(handled(&world), json!({"reconcileNow": "two"}));
}

#[tokio::test(start_paused = true)]
async fn reconcile_now_upgrades_to_what_renders_differently_and_applies_the_rest() {
    let world = installed_with(Arc::new(random())).await;
    let mut changed = world.server.object(&format!("{MAPS}/b")).unwrap();
    changed["metadata"]["labels"]["extra"] = "x".into();
    world.server.put(&format!("{MAPS}/b"), changed, "kubectl");
    world.reconcile().await;
    annotate(&world, "reconcile-now", "one");
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().len()), (json!("password 2"), 2));
    assert_eq!((handled(&world), world.requests().await), (json!({"reconcileNow": "one"}), 0));
}

#[tokio::test(start_paused = true)]
async fn reconcile_now_ends_a_fight_and_a_token_of_a_suspended_resource_waits() {
    let world = installed_with(Arc::default()).await;
    let drift = || {
        let mut changed = world.server.object(&format!("{MAPS}/b")).unwrap();
        changed["data"]["value"] = "mine".into();
        world.server.put(&format!("{MAPS}/b"), changed, "fighter");
    };
    for _ in 0..8 {
        drift();
        world.reconcile().await;
    }
    assert_eq!(world.value_of("b"), "mine");
    annotate(&world, "suspend", "true");
    annotate(&world, "reconcile-now", "one");
    world.reconcile().await;
    assert_eq!((world.value_of("b"), handled(&world)), (json!("mine"), Value::Null));
    let suspended = "True/SuspendAnnotation/The annotation suspend is set: the release is left alone.";
    assert_eq!(world.condition("Suspended").unwrap(), suspended);
    annotate(&world, "suspend", "false");
    world.reconcile().await;
    assert_eq!((world.value_of("b"), world.condition("Suspended")), (json!("1"), None));
    assert_eq!(handled(&world), json!({"reconcileNow": "one"}));
}

/// Sets an annotation of a resource that has failed for long, which changes no generation.
fn annotate_failed(world: &World, key: &str, value: &str) {
    let mut resource = world.server.object(PRIMARY).unwrap();
    resource["metadata"]["annotations"][format!("helm.sdk.operatorframework.io/{key}")] = value.into();
    for condition in resource["status"]["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = "2020-01-01T00:00:00Z".into();
    }
    world.server.put(PRIMARY, resource, "user");
}

#[tokio::test(start_paused = true)]
async fn a_failed_resource_that_is_left_alone_before_a_start_says_so() {
    for (annotation, kind) in [("suspend", "Suspended"), ("pause", "Paused")] {
        let world = World::new(json!({"broken": true}));
        world.reconcile().await;
        annotate_failed(&world, annotation, "true");
        let world = World::on(world.server);
        assert!(world.shared.memory.of(&key()).restored_wait(Instant::now()).is_some(), "it is not time for a retry");
        world.reconcile().await;
        assert!(world.condition(kind).is_some_and(|said| said.starts_with("True/")), "{annotation}");
        assert_eq!(world.state("Irreconcilable"), "True/RenderError");
        world.reconcile().await;
        assert_eq!(world.requests().await, 0, "{annotation}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_reconcile_that_fails_is_reported_at_once_and_completed_by_a_retry() {
    let world = installed_with(Arc::default()).await;
    world.server.refuse(|call| {
        (call.path.contains("/configmaps/") && call.body.is_some())
            .then(|| Error::from_status(500, "InternalError", "away"))
    });
    annotate(&world, "reconcile-now", "one");
    world.reconcile().await;
    assert_eq!(handled(&world), json!({"reconcileNow": "one"}));
    assert!(world.condition("Irreconcilable").unwrap().contains("away"));
    world.server.accept();
    assert_eq!(world.requests().await, 0, "not before the wait is over");
    tokio::time::advance(Duration::from_secs(1)).await;
    let from = world.server.log().len();
    world.reconcile().await;
    assert_eq!((applied_since(&world, from).len(), world.condition("Irreconcilable")), (3, None));
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_of_a_full_reconcile_heals_and_the_token_is_handled() {
    for writes in 0..8 {
        let world = installed_with(Arc::new(random())).await;
        annotate(&world, "reconcile-now", "one");
        world.server.fail_after(Some(writes));
        world.reconcile().await;
        world.server.fail_after(None);
        let world = World::rendering(world.server, Arc::new(random()));
        for _ in 0..3 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        assert_eq!(handled(&world), json!({"reconcileNow": "one"}), "after {writes} writes");
        assert_eq!(world.history().last().map(|last| last.ends_with("deployed")), Some(true));
        assert_eq!(world.requests().await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn retry_now_ends_the_wait_after_a_failure_once_per_token() {
    let world = World::new(json!({"broken": true}));
    let renders = |world: &World| world.server.log().len();
    world.reconcile().await;
    assert_eq!(world.requests().await, 0, "held");
    annotate(&world, "retry-now", "one");
    let before = renders(&world);
    world.reconcile().await;
    assert!(renders(&world) > before);
    assert_eq!(handled(&world), json!({"retryNow": "one"}));
    let world = World::on(world.server);
    assert_eq!(world.requests().await, 0, "a handled token does not end the wait after a restart");
    annotate(&world, "retry-now", "two");
    world.reconcile().await;
    assert_eq!(handled(&world), json!({"retryNow": "two"}));
}

/// Refuses handled tokens in the status, as the server does if the kind's schema does not declare them.
pub(super) fn undeclare_handled(world: &World) {
    const WHY: &str = "failed to create typed patch object (ns/web; cache.my.domain/v1, Kind=Memcached): \
        .status.lastHandled: field not declared in schema";
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_refused = call.path.contains("/status?") && body.contains("lastHandled");
        is_refused.then(|| Error::from_status(500, "", WHY))
    });
}

#[tokio::test(start_paused = true)]
async fn reconcile_now_is_handled_once_although_the_status_cannot_report_it() {
    let world = installed_with(Arc::new(random())).await;
    undeclare_handled(&world);
    annotate(&world, "reconcile-now", "one");
    world.reconcile().await;
    let (history, value) = (world.history(), world.value_of("a"));
    assert_eq!((history.len(), handled(&world)), (2, Value::Null));
    let renderer = Arc::new(Stub { renders: AtomicUsize::new(100), ..random() });
    let world = World::rendering(world.server, renderer.clone());
    world.reconcile().await;
    assert_eq!((renderer.renders.load(Ordering::SeqCst), world.requests().await), (100, 0), "nor after a restart");
    assert_eq!((world.history(), world.value_of("a")), (history, value));
    annotate(&world, "reconcile-now", "two");
    world.reconcile().await;
    assert_eq!((world.history().len(), renderer.renders.load(Ordering::SeqCst) > 100), (3, true), "a new token counts");
}

#[tokio::test(start_paused = true)]
async fn retry_now_is_handled_once_although_the_status_cannot_report_it() {
    let world = World::new(json!({"broken": true}));
    undeclare_handled(&world);
    annotate(&world, "retry-now", "one");
    world.reconcile().await;
    annotate_failed(&world, "retry-now", "one");
    let renderer = Arc::new(Stub::default());
    let world = World::rendering(world.server, renderer.clone());
    world.reconcile().await;
    assert_eq!(renderer.renders.load(Ordering::SeqCst), 0, "it is not time for a retry");
}

/// Sets a token of an installed release, and starts another process, to which the server does not say whether the status
/// can report it.
async fn with_unjudged(key: &str, code: u16) -> (World, Arc<Stub>) {
    let world = installed_with(Arc::default()).await;
    annotate(&world, key, "one");
    world.server.refuse(move |call| call.path.ends_with("dryRun=All").then(|| Error::from_status(code, "", "away")));
    let renderer = Arc::new(Stub::default());
    (World::rendering(world.server, renderer.clone()), renderer)
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_set_before_a_start_is_handled_once_the_server_says_that_it_can_be_reported() {
    let (world, renderer) = with_unjudged("reconcile-now", 503).await;
    assert_ne!(world.reconcile().await, ReconcileResult::Error);
    assert_eq!((renderer.renders.load(Ordering::SeqCst), handled(&world)), (0, Value::Null));
    assert_eq!(world.requests().await, 0, "not so soon");
    assert_eq!((world.state("Ready"), world.condition("Irreconcilable")), ("True/Ready".into(), None));
    tokio::time::advance(SECOND).await;
    assert_eq!(world.requests().await, 1, "it asks again");
    world.server.accept();
    tokio::time::advance(SECOND).await;
    world.reconcile().await;
    assert_eq!((renderer.renders.load(Ordering::SeqCst), handled(&world)), (1, json!({"reconcileNow": "one"})));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_may_have_been_handled_holds_up_neither_a_repair_nor_an_upgrade_nor_a_deletion() {
    for (key, code) in [("reconcile-now", 500), ("reconcile-now", 503), ("retry-now", 503)] {
        let (world, renderer) = with_unjudged(key, code).await;
        world.server.remove(&format!("{MAPS}/b"));
        world.reconcile().await;
        assert_eq!((world.maps().len(), renderer.renders.load(Ordering::SeqCst)), (3, 0), "{key}, {code}");
        world.edit(|p| p["spec"]["value"] = "2".into());
        world.reconcile().await;
        assert_eq!((world.value_of("b"), world.history().len()), (json!("2"), 2), "{key}, {code}");
        world.delete();
        world.reconcile().await;
        assert!(world.server.object(PRIMARY).is_none(), "{key}, {code}: {:?}", world.condition("Irreconcilable"));
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_of_a_resource_that_is_deleted_before_a_start_are_judged_only_if_they_may_end_a_wait() {
    for (key, requests) in [("reconcile-now", 0), ("retry-now", 1)] {
        let (world, _) = with_unjudged(key, 503).await;
        world.delete();
        let before = world.server.log().len();
        world.reconcile().await;
        let asked = world.server.log()[before..].iter().take_while(|line| line.contains("/status")).count();
        assert_eq!(asked, requests, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_now_ends_the_wait_of_a_deletion() {
    let world = installed_with(Arc::default()).await;
    world.server.refuse(|call| (call.method == "DELETE").then(|| Error::from_status(403, "Forbidden", "no")));
    world.delete();
    world.reconcile().await;
    world.server.accept();
    assert_eq!(world.requests().await, 0, "held");
    annotate(&world, "retry-now", "one");
    world.reconcile().await;
    assert!(world.server.object(PRIMARY).is_none(), "{:?}", world.condition("ReleaseFailed"));
}

#[tokio::test(start_paused = true)]
async fn retry_now_counts_for_the_deletion_of_a_resource_that_is_otherwise_left_alone() {
    for annotation in ["suspend", "dry-run"] {
        let world = installed_with(Arc::default()).await;
        annotate(&world, annotation, "true");
        world.reconcile().await;
        world.server.refuse(|call| (call.method == "DELETE").then(|| Error::from_status(403, "Forbidden", "no")));
        world.delete();
        world.reconcile().await;
        annotate(&world, "retry-now", "one");
        world.reconcile().await;
        assert_eq!(handled(&world), json!({"retryNow": "one"}), "{annotation}");
    }
}

fn resyncing(server: Arc<MemoryApi>, hours: u64) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| {
        (settings.period, settings.full_resync) = (Duration::ZERO, Duration::from_secs(hours * 3600));
    })
}

#[tokio::test(start_paused = true)]
async fn without_a_full_resync_period_nothing_is_applied_again() {
    let world = resyncing(World::new(spec()).server, 0);
    world.reconcile().await;
    let from = world.server.log().len();
    tokio::time::advance(Duration::from_secs(1000 * 3600)).await;
    world.reconcile().await;
    assert_eq!(applied_since(&world, from), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn everything_is_applied_again_once_a_period_at_different_times() {
    let world = resyncing(World::new(spec()).server, 10);
    let add =
        |number: u32| world.add("ns", &format!("r{number}"), json!({"maps": [format!("m{number}")], "value": "1"}));
    let keys: Vec<ResourceKey> = (0..20).map(add).collect();
    for key in &keys {
        world.reconcile_one(key).await;
    }
    assert_eq!(world.shared.queue.timers(), 20, "each has a timer");
    let mut hours = Vec::new();
    for _ in 0..10 {
        let from = world.server.log().len();
        tokio::time::advance(Duration::from_secs(3600)).await;
        for key in &keys {
            world.reconcile_one(key).await;
        }
        hours.push(applied_since(&world, from).len());
    }
    let total: usize = hours.iter().sum();
    assert!((20..=26).contains(&total) && hours.iter().all(|count| *count <= 8), "{hours:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_full_resync_stays_reported_and_is_not_tried_before_its_time() {
    let world = resyncing(World::new(spec()).server, 10);
    world.reconcile().await;
    tokio::time::advance(Duration::from_secs(11 * 3600)).await;
    world.server.refuse(|call| {
        let is_apply = call.method == http::Method::PATCH && call.path.starts_with(MAPS);
        is_apply.then(|| Error::from_status(500, "", "no"))
    });
    world.reconcile().await;
    let failed = world.condition("Irreconcilable").unwrap();
    assert!(failed.starts_with("True/"), "{failed}");
    let writes = world.server.writes();
    // Something wakes the resource.
    for _ in 0..2 {
        world.reconcile().await;
    }
    assert_eq!((world.server.writes(), world.condition("Irreconcilable")), (writes, Some(failed)));
    world.server.accept();
    tokio::time::advance(Duration::from_secs(60)).await;
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None);
}

#[tokio::test(start_paused = true)]
async fn a_request_applies_what_only_is_watched_for_drift_and_a_full_resync_does_not() {
    let server = World::new(spec()).server;
    let world = World::with_events(server, Arc::new(Stub::default()), |settings| {
        settings.drift.policy = helm_release::kube::DriftPolicy::Detect;
        (settings.period, settings.full_resync) = (Duration::ZERO, Duration::from_secs(3600));
    });
    world.reconcile().await;
    let mut changed = world.server.object(&format!("{MAPS}/b")).unwrap();
    changed["data"]["value"] = "theirs".into();
    world.server.put(&format!("{MAPS}/b"), changed, "kubectl");
    world.reconcile().await;
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(3600)).await;
        world.reconcile().await;
    }
    assert_eq!(world.value_of("b"), "theirs");
    annotate(&world, "reconcile-now", "one");
    world.reconcile().await;
    assert_eq!((world.value_of("b"), world.condition("Drifted")), (json!("1"), None));
}
