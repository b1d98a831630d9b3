//! Tests of `maxParallelUpgrades`: a new chart reaches a few releases at a time, and a broken one stops there.

use helm_release::storage::Before;

use super::hooks::{complete, filled, hook};
use super::*;
use crate::watches::OnFailure;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn keys() -> [ResourceKey; 4] {
    NAMES.map(|name| ResourceKey::new("ns", name))
}

fn serving(server: Arc<MemoryApi>, chart: &'static str, places: usize) -> World {
    serving_at(Home::default(), server, chart, places)
}

fn serving_at(home: Home, server: Arc<MemoryApi>, chart: &'static str, places: usize) -> World {
    World::with_events(server, Arc::new(Stub { chart, ..Stub::default() }), |settings| {
        (settings.home, settings.max_parallel_upgrades) = (home, places);
    })
}

/// Creates four releases of one chart, and the next version of it.
async fn rolling_out(places: usize) -> World {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let world = serving(server, "v1", places);
    for name in NAMES {
        world.add("ns", name, json!({"maps": [name], "value": "x"}));
    }
    for key in keys() {
        world.reconcile_one(&key).await;
    }
    serving(world.server, "v2", places)
}

fn upgraded(world: &World) -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| world.value_of(name).as_str().unwrap().ends_with("by v2")).collect()
}

/// Rejects the upgrade of the ConfigMaps whose name starts with this.
pub(super) fn refuse(server: &MemoryApi, name: &'static str) {
    server.refuse(move |call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let hit = call.path.contains(&format!("/configmaps/{name}")) && body.contains("by v2");
        hit.then(|| Error::from_status(403, "Forbidden", "no"))
    });
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_all_are_upgraded() {
    let world = rolling_out(0).await;
    for key in keys() {
        world.reconcile_one(&key).await;
    }
    assert_eq!(upgraded(&world), NAMES);
}

#[tokio::test(start_paused = true)]
async fn each_upgrade_lets_the_next_one_start_and_nobody_waits_with_a_worker() {
    let world = rolling_out(1).await;
    world.feed();
    world.open();
    let mut rounds = 0;
    while let Ok(key) = tokio::time::timeout(Duration::from_secs(1), world.shared.queue.next()).await {
        reconcile::reconcile(&world.shared, &key, &(), Priority::Retry).await;
        world.shared.queue.done(&key);
        rounds += 1;
    }
    assert_eq!(upgraded(&world), NAMES);
    assert!(rounds <= 12, "{rounds} reconciles");
    for key in keys() {
        assert_eq!(world.condition_of(&key, "Reconciling"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_fails_stops_the_roll_out_and_the_others_say_that_they_wait() {
    let world = rolling_out(2).await;
    refuse(&world.server, "a");
    refuse(&world.server, "b");
    for _ in 0..5 {
        for key in keys() {
            world.reconcile_one(&key).await;
        }
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert_eq!(upgraded(&world), [] as [&str; 0]);
    let [a, _, c, d] = keys();
    assert!(world.condition_of(&a, "ReleaseFailed").unwrap().contains("UpgradeError"));
    let waits = world.condition_of(&c, "Reconciling").unwrap();
    assert!(waits.starts_with("True/UpgradeQueued/waiting for other upgrades: at most 2 run at a time"), "{waits}");
    assert!(world.condition_of(&d, "Ready").unwrap().starts_with("True/Ready/"));
    // They stay stopped after a restart, and a deleted or suspended resource frees its slot.
    let world = serving(world.server.clone(), "v2", 2);
    world.reconcile_one(&c).await;
    assert_eq!(upgraded(&world), [] as [&str; 0]);
    suspend(&world, "a");
    world.reconcile_one(&a).await;
    world.reconcile_one(&c).await;
    world.reconcile_one(&d).await;
    assert_eq!(upgraded(&world), ["c", "d"]);
}

/// Removes a resource during its controller's next request after this many. Returns the number of requests so far.
fn vanishing_after(world: &World, key: &ResourceKey, requests: usize) -> Arc<AtomicUsize> {
    let (server, shared, key) = (world.server.clone(), world.shared.clone(), key.clone());
    let (path, count) = (primary(&key.namespace, &key.name, Value::Null).0, Arc::<AtomicUsize>::default());
    let counted = count.clone();
    world.server.refuse(move |call| {
        // Events are published in the background.
        let is_next = !call.path.contains("/events") && counted.fetch_add(1, Ordering::SeqCst) == requests;
        if let Some(known) = shared.cache.primary(&key).filter(|_| is_next) {
            server.remove(&path);
            shared.primary_deleted(&key, known.uid());
        }
        None
    });
    count
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_vanishes_during_any_request_of_its_upgrade_keeps_no_place() {
    for requests in 0.. {
        let world = rolling_out(1).await;
        let [a, b, ..] = keys();
        let count = vanishing_after(&world, &a, requests);
        world.reconcile_one(&a).await;
        world.server.accept();
        if count.load(Ordering::SeqCst) <= requests {
            assert!(requests > 3, "the upgrade took only {requests} requests");
            return;
        }
        assert!(world.shared.cache.primary(&a).is_none());
        assert_eq!(world.shared.rollout.place(&a), None, "after {requests} requests");
        world.reconcile_one(&b).await;
        assert_eq!(world.value_of("b"), "x by v2", "after {requests} requests");
    }
}

/// Removes the objects whose path contains this. Returns them.
pub(super) fn hide(server: &MemoryApi, text: &str) -> Vec<(String, Value)> {
    let paths = server.paths().into_iter().filter(|path| path.contains(text));
    let hidden = paths.map(|path| {
        let object = server.object(&path).unwrap();
        server.remove(&path);
        (path, object)
    });
    hidden.collect()
}

/// Stores what was hidden again, unchanged.
pub(super) fn show(server: &MemoryApi, hidden: Vec<(String, Value)>) {
    hidden.into_iter().for_each(|(path, object)| server.restore(&path, object));
}

/// Creates two releases at v1. Then `x`, which is in another namespace, fails with v2 and keeps the only place. Returns
/// the keys of `x` and the other.
pub(super) async fn with_a_failure_elsewhere() -> (Arc<MemoryApi>, ResourceKey, ResourceKey) {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let world = serving(server, "v1", 1);
    let x = world.add("other", "x", json!({"maps": ["x"], "value": "x"}));
    let b = world.add("ns", "b", json!({"maps": ["b"], "value": "x"}));
    for key in [&x, &b] {
        world.reconcile_one(key).await;
    }
    refuse(&world.server, "x");
    let world = serving(world.server, "v2", 1);
    world.reconcile_one(&x).await;
    assert!(world.shared.rollout.holds(&x));
    (world.server, x, b)
}

/// Creates a controller that has yet to list the namespace of `x`, after [`with_a_failure_elsewhere`]. Returns it with
/// that namespace, what is hidden there, and the keys of `x` and the other.
async fn before_the_list_elsewhere() -> (World, WatchScope, Vec<(String, Value)>, [ResourceKey; 2]) {
    let (server, x, b) = with_a_failure_elsewhere().await;
    let (other, hidden) = (WatchScope::namespace("other"), hide(&server, "/other/memcacheds/"));
    let world = serving(server, "v2", 1);
    world.shared.unseen.require([other.clone()]);
    (world, other, hidden, [x, b])
}

/// Returns the status, the reason and the message of what a release waits for.
pub(super) fn waits(world: &World, key: &ResourceKey) -> String {
    world.condition_of(key, "Reconciling").unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_a_place_before_the_releases_that_may_have_it_are_listed() {
    let (world, other, hidden, [x, b]) = before_the_list_elsewhere().await;
    world.open();
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1");
    assert!(waits(&world, &b).starts_with("True/RolloutUnknown/"), "{}", waits(&world, &b));
    show(&world.server, hidden);
    world.relist(&other, "other");
    assert!(world.shared.rollout.holds(&x), "before its first reconcile");
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1");
    assert!(waits(&world, &b).starts_with("True/UpgradeQueued/"), "{}", waits(&world, &b));
    world.server.accept();
    for _ in 0..2 {
        world.reconcile_one(&x).await;
        world.reconcile_one(&b).await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert_eq!((world.value_of("b"), waits(&world, &b)), (json!("x by v2"), String::new()));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_waits_for_a_list_is_woken_once_the_server_does_not_serve_the_kind() {
    let (world, other, _, [_, b]) = before_the_list_elsewhere().await;
    world.open();
    world.reconcile_one(&b).await;
    assert!(waits(&world, &b).starts_with("True/RolloutUnknown/"), "{}", waits(&world, &b));
    let woken = async || tokio::time::timeout(Duration::from_secs(1), world.shared.queue.next()).await.ok();
    while let Some(key) = woken().await {
        world.shared.queue.done(&key);
    }
    unserve_resources(&world, &other).await;
    assert_eq!(woken().await, Some(b));
    assert!(!world.shared.unseen.is_any());
}

/// Stops serving the resources' kind, which ends the watch of all resources and refuses the list of this scope.
async fn unserve_resources(world: &World, scope: &WatchScope) {
    world.server.unserve("cache.my.domain/v1", "Memcached");
    world.shared.applier.mapper.refresh().await.unwrap();
    let primaries = Primaries(world.shared.clone());
    [&WatchScope::ALL, scope].into_iter().for_each(|scope| primaries.lost(scope));
}

#[tokio::test(start_paused = true)]
async fn a_place_waits_again_for_a_list_that_never_ended_once_the_server_serves_the_kind_again() {
    let (world, other, hidden, [x, b]) = before_the_list_elsewhere().await;
    world.open();
    unserve_resources(&world, &other).await;
    assert!(!world.shared.unseen.is_any());
    world.server.accept();
    world.server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    world.feed();
    // Discovery is as old as the refusal.
    Primaries(world.shared.clone()).lost(&other);
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1");
    assert!(waits(&world, &b).starts_with("True/RolloutUnknown/"), "{}", waits(&world, &b));
    show(&world.server, hidden);
    world.relist(&other, "other");
    assert!(world.shared.rollout.holds(&x) && !world.shared.unseen.is_any());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_listed_while_the_start_restores_the_others_keeps_its_place() {
    let (world, other, hidden, [x, b]) = before_the_list_elsewhere().await;
    restore::begin(&world.shared);
    show(&world.server, hidden);
    world.relist(&other, "other");
    restore::open(&world.shared);
    assert!(world.shared.rollout.holds(&x), "before its first reconcile");
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1");
    assert!(waits(&world, &b).starts_with("True/UpgradeQueued/"), "{}", waits(&world, &b));
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_a_place_before_the_records_of_the_releases_that_may_have_it_are_watched() {
    for is_deleted in [false, true] {
        let (server, x, b) = with_a_failure_elsewhere().await;
        let (resource, records) = (hide(&server, "/other/memcacheds/"), hide(&server, "/other/secrets/"));
        let (world, other) = (serving(server, "v2", 1), WatchScope::namespace("other"));
        world.releases.lost(&other);
        world.open();
        show(&world.server, resource);
        world.reconcile_one(&b).await;
        assert_eq!(world.value_of("b"), "x by v1");
        assert!(waits(&world, &b).starts_with("True/RolloutUnknown/"), "{}", waits(&world, &b));
        if is_deleted {
            world.server.remove(&primary("other", "x", Value::Null).0);
            world.reconcile_one(&b).await;
            assert_eq!(world.value_of("b"), "x by v2");
            continue;
        }
        show(&world.server, records);
        world.relist(&other, "other");
        assert!(world.shared.rollout.holds(&x), "before its first reconcile");
        world.reconcile_one(&b).await;
        assert_eq!(world.value_of("b"), "x by v1");
        assert!(waits(&world, &b).starts_with("True/UpgradeQueued/"), "{}", waits(&world, &b));
    }
}

#[tokio::test(start_paused = true)]
async fn upgrades_wait_for_no_records_of_a_resource_that_was_never_installed() {
    let mut world = rolling_out(1).await;
    let new = world.add("other", "new", json!({"maps": ["new"], "value": "x"}));
    // The second time, its status says that its records cannot be watched.
    for _ in 0..2 {
        world = serving(world.server, "v2", 1);
        world.releases.lost(&WatchScope::namespace("other"));
        restore::restore(&world.shared);
        assert!(!world.shared.unseen.is_any());
        world.reconcile_one(&new).await;
        assert!(world.condition_of(&new, "Ready").unwrap().starts_with("False/RecordsForbidden/"));
    }
    world.reconcile_one(&keys()[0]).await;
    assert_eq!(upgraded(&world), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn what_upgrades_wait_for_since_a_later_list_is_logged() {
    let (server, x, _) = with_a_failure_elsewhere().await;
    let resource = hide(&server, "/other/memcacheds/");
    let (world, other) = (serving(server, "v2", 1), WatchScope::namespace("other"));
    world.releases.lost(&other);
    world.open();
    let records = ["release records (Secrets) in namespace other".to_owned()];
    for _ in 0..2 {
        show(&world.server, resource.clone());
        world.feed();
        world.reconcile_one(&x).await;
        assert!(!world.shared.unseen.report(&records), "it was, and would be no news");
        world.relist(&other, "other");
        assert!(!world.shared.unseen.report(&[]), "they may be watched");
        hide(&world.server, "/other/memcacheds/");
        world.feed();
        world.releases.lost(&other);
    }
}

/// Creates a process with one slot that may list the resources of another namespace only after its start, and may not
/// watch their records, which are hidden.
fn blind(server: Arc<MemoryApi>, chart: &'static str) -> World {
    let resources = hide(&server, "/other/memcacheds/");
    let world = serving(server, chart, 1);
    world.releases.lost(&WatchScope::namespace("other"));
    world.open();
    show(&world.server, resources);
    world
}

/// Creates a release in another namespace, which is ready with v2.
async fn with_a_ready_release_elsewhere() -> (Arc<MemoryApi>, ResourceKey) {
    let mut server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let x = ResourceKey::new("other", "x");
    for chart in ["v1", "v2"] {
        let world = serving(server, chart, 1);
        if chart == "v1" {
            world.add("other", "x", json!({"maps": ["x"], "value": "x"}));
        }
        world.reconcile_one(&x).await;
        world.reconcile_one(&x).await;
        assert!(world.condition_of(&x, "Ready").unwrap().starts_with("True/Ready/"));
        server = world.server;
    }
    (server, x)
}

/// Makes the conditions of a resource look as if they had been written long after its records.
fn postdate(server: &MemoryApi, key: &ResourceKey) {
    let path = primary(&key.namespace, &key.name, Value::Null).0;
    let mut object = server.object(&path).unwrap();
    for condition in object["status"]["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = "2100-01-01T00:00:00Z".into();
    }
    server.put(&path, object, "clock");
}

/// The report that the records are not watched replaces the status that said so, for the next process, too.
#[tokio::test(start_paused = true)]
async fn a_release_that_was_ready_takes_no_place_once_its_records_are_watched() {
    for is_restarted in [false, true] {
        let (server, x) = with_a_ready_release_elsewhere().await;
        let records = hide(&server, "/other/secrets/");
        let mut world = blind(server, "v3");
        world.reconcile_one(&x).await;
        assert!(world.condition_of(&x, "Ready").unwrap().starts_with("False/RecordsForbidden/"));
        if is_restarted {
            postdate(&world.server, &x);
            world = blind(world.server, "v3");
            world.feed();
        }
        assert!(world.shared.unseen.is_any());
        show(&world.server, records);
        world.relist(&WatchScope::namespace("other"), "other");
        assert!(!world.shared.unseen.is_any() && !world.shared.rollout.holds(&x), "restarted: {is_restarted}");

        let world = serving(world.server, "v3", 1);
        assert!(!world.shared.rollout.holds(&x), "restarted: {is_restarted}");
        tokio::time::advance(Duration::from_secs(60)).await;
        world.reconcile_one(&x).await;
        let release = world.shared.cache.release(&x).unwrap();
        let (version, newest) = release.newest().unwrap();
        assert_eq!((version, newest.marks.as_ref().unwrap().before), (3, Some(Before::Ready)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_failed_keeps_its_place_once_its_records_are_watched_by_the_second_process() {
    let (server, x, b) = with_a_failure_elsewhere().await;
    let records = hide(&server, "/other/secrets/");
    let world = blind(server, "v2");
    // The second time, its earlier failure does not hold it any longer.
    for _ in 0..2 {
        world.reconcile_one(&x).await;
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert!(world.condition_of(&x, "Ready").unwrap().starts_with("False/RecordsForbidden/"));
    assert_eq!(world.condition_of(&x, "ReleaseFailed"), None);
    postdate(&world.server, &x);
    let world = blind(world.server, "v2");
    world.feed();
    assert!(world.shared.unseen.is_any());
    show(&world.server, records);
    world.relist(&WatchScope::namespace("other"), "other");
    assert!(!world.shared.unseen.is_any() && world.shared.rollout.holds(&x));
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1");
}

/// Sets the annotation that leaves a release alone.
fn suspend(world: &World, name: &str) {
    let path = primary("ns", name, Value::Null).0;
    let mut suspended = world.server.object(&path).unwrap();
    suspended["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspend": "true"});
    world.server.put(&path, suspended, "user");
}

#[tokio::test(start_paused = true)]
async fn a_chart_that_no_longer_fails_takes_the_failed_ones_first() {
    let world = rolling_out(1).await;
    refuse(&world.server, "b");
    let [a, b, c, d] = keys();
    world.reconcile_one(&b).await;
    world.reconcile_one(&a).await;
    assert_eq!(upgraded(&world), [] as [&str; 0]);
    world.server.accept();
    let world = serving(world.server, "fixed by v2", 1);
    for key in [&a, &c, &d] {
        world.reconcile_one(key).await;
    }
    assert_eq!(upgraded(&world), [] as [&str; 0]);
    tokio::time::advance(Duration::from_secs(60)).await;
    for key in [&b, &a, &c, &d] {
        world.reconcile_one(key).await;
    }
    assert_eq!(upgraded(&world), NAMES);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_resource_itself_and_a_request_do_not_wait() {
    let world = rolling_out(1).await;
    refuse(&world.server, "a");
    let [a, b, c, d] = keys();
    world.reconcile_one(&a).await;
    let change = |name: &str, change: &dyn Fn(&mut Value)| {
        let path = primary("ns", name, Value::Null).0;
        let mut object = world.server.object(&path).unwrap();
        change(&mut object);
        world.server.put(&path, object, "user");
    };
    change("b", &|object| (object["spec"]["value"], object["metadata"]["generation"]) = ("y".into(), 2.into()));
    let token = json!({"helm.sdk.operatorframework.io/reconcile-now": "one"});
    change("c", &|object| object["metadata"]["annotations"] = token.clone());
    for key in [&b, &c, &d] {
        world.reconcile_one(key).await;
    }
    assert_eq!(upgraded(&world), ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_does_not_render_makes_room_for_the_next() {
    let world = rolling_out(1).await;
    let [a, b, ..] = keys();
    let path = primary("ns", "a", Value::Null).0;
    let mut broken = world.server.object(&path).unwrap();
    (broken["spec"]["broken"], broken["metadata"]["generation"]) = (true.into(), 2.into());
    world.server.put(&path, broken, "user");
    world.reconcile_one(&a).await;
    let world = serving(world.server, "v2", 1);
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    assert_eq!(upgraded(&world), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_waits_for_memory_leaves_its_place_to_the_next() {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let world = serving(server, "v1", 1);
    let hooks = json!([hook("migrate", "pre-upgrade")]);
    let a = world.add("ns", "a", json!({"maps": ["a"], "value": "x", "hooks": hooks}));
    let b = world.add("ns", "b", json!({"maps": ["b"], "value": "x"}));
    for key in [&a, &b] {
        world.reconcile_one(key).await;
    }
    let world = serving(world.server, "v2", 1);
    let others = filled(&world);
    assert!(others.is_some());
    for _ in 0..2 {
        world.reconcile_one(&a).await;
        assert!(!world.shared.rollout.holds(&a) && !world.shared.rollout.is_waiting(&a));
        let waits = world.condition_of(&a, "Reconciling").unwrap();
        assert!(waits.starts_with("True/ActionQueued/"), "{waits}");
    }
    world.reconcile_one(&b).await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("x by v1"), json!("x by v2")));
    drop(others);
    let ends = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(world.shared.rollout.holds(&a));
        complete(&world.server, "migrate");
    };
    tokio::join!(world.reconcile_one(&a), ends);
    assert_eq!(world.value_of("a"), "x by v2");
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired_while_an_upgrade_waits() {
    let world = rolling_out(1).await;
    refuse(&world.server, "a");
    let [a, b, ..] = keys();
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    world.server.remove(&format!("{MAPS}/b"));
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_release_makes_room_only_if_it_was_not_ready_before_its_upgrade() {
    for was_ready in [false, true] {
        let server = Arc::new(MemoryApi::new());
        server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
        let world = serving(server, "v1", 1);
        let a = world.add("ns", "a", json!({"maps": ["a"], "deployments": ["a"], "value": "x"}));
        let b = world.add("ns", "b", json!({"maps": ["b"], "value": "x"}));
        world.reconcile_one(&a).await;
        world.reconcile_one(&b).await;
        set_ready(&world, was_ready);
        world.reconcile_one(&a).await;
        let world = serving(world.server.clone(), "v2", 1);
        set_ready(&world, false);
        for _ in 0..5 {
            world.reconcile_one(&a).await;
            world.reconcile_one(&b).await;
            tokio::time::advance(Duration::from_secs(300)).await;
        }
        assert!(world.condition_of(&a, "Stalled").unwrap().starts_with("True/ProgressTimeout/"));
        assert_eq!(world.value_of("a"), "x by v2");
        let expected = if was_ready { "x by v1" } else { "x by v2" };
        assert_eq!(world.value_of("b"), expected, "ready before: {was_ready}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_progress_timeout_an_unready_release_keeps_its_place_until_it_is_suspended() {
    let server = with_deployment(false).await.server;
    let world = World::with_events(server, Arc::new(Stub { chart: "v2", ..Stub::default() }), |settings| {
        (settings.max_parallel_upgrades, settings.progress_timeout) = (1, Duration::ZERO);
    });
    let [a, b, ..] = keys();
    for _ in 0..5 {
        world.reconcile_one(&a).await;
        world.reconcile_one(&b).await;
        tokio::time::advance(Duration::from_secs(3600)).await;
    }
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("x by v2"), json!("x by v1")));
    let waits = world.condition_of(&b, "Reconciling").unwrap();
    assert!(waits.ends_with("stops the others until its resource is corrected, suspended or deleted"), "{waits}");
    suspend(&world, "a");
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v2");
}

fn set_ready(world: &World, ready: bool) {
    set_deployment_ready(world, "a", ready);
}

/// Sets whether the Deployment with this name is ready.
pub(super) fn set_deployment_ready(world: &World, name: &str, ready: bool) {
    let path = format!("/apis/apps/v1/namespaces/ns/deployments/{name}");
    let mut live = world.server.object(&path).unwrap();
    let count = u32::from(ready);
    live["status"] = json!({
        "replicas": 1, "updatedReplicas": 1, "readyReplicas": count, "availableReplicas": count,
        "conditions": [{"type": "Available", "status": if ready { "True" } else { "False" }}],
    });
    world.server.put(&path, live, "kube-controller-manager");
}

/// Creates two releases at v1, of which `a` has a Deployment, and a controller with one slot that serves v2.
async fn with_deployment(was_ready: bool) -> World {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let world = serving(server, "v1", 1);
    let [a, b, ..] = keys();
    world.add("ns", "a", json!({"maps": ["a"], "deployments": ["a"], "value": "x"}));
    world.add("ns", "b", json!({"maps": ["b"], "value": "x"}));
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    set_ready(&world, was_ready);
    world.reconcile_one(&a).await;
    serving(world.server, "v2", 1)
}

/// Upgrades a release that was ready and does not become ready again.
async fn with_an_upgrade_that_is_not_ready() -> World {
    let world = with_deployment(true).await;
    set_ready(&world, false);
    world.reconcile_one(&keys()[0]).await;
    assert_eq!(world.value_of("a"), "x by v2");
    world
}

fn restarted(world: &World) -> World {
    serving(world.server.clone(), "v2", 1)
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_never_became_ready_keeps_its_place_over_restarts() {
    let world = with_an_upgrade_that_is_not_ready().await;
    let [a, b, ..] = keys();
    let mut world = restarted(&world);
    for _ in 0..3 {
        for key in [&b, &a, &b] {
            world.reconcile_one(key).await;
        }
        assert_eq!(world.value_of("b"), "x by v1");
        tokio::time::advance(Duration::from_secs(700)).await;
        world = restarted(&world);
    }
    set_ready(&world, true);
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v2");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_never_became_ready_keeps_its_place_although_its_records_move() {
    let world = with_an_upgrade_that_is_not_ready().await;
    let [a, b, ..] = keys();
    let world = serving_at(Home::in_namespace("records"), world.server, "v2", 1);
    for key in [&b, &a, &b] {
        world.reconcile_one(key).await;
    }
    assert_eq!(world.value_of("b"), "x by v1");
    set_ready(&world, true);
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v2");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_not_ready_before_its_upgrade_makes_room_after_a_restart_too() {
    let world = with_deployment(false).await;
    let [a, b, ..] = keys();
    world.reconcile_one(&a).await;
    let world = restarted(&world);
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1", "it is not stalled yet");
    for _ in 0..5 {
        world.reconcile_one(&a).await;
        world.reconcile_one(&b).await;
        tokio::time::advance(Duration::from_secs(300)).await;
    }
    assert_eq!(world.value_of("b"), "x by v2");
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_upgrade_keeps_its_place_over_a_restart() {
    let world = with_deployment(true).await;
    let [a, b, ..] = keys();
    world.server.refuse(|call| {
        let is_write = call.method != http::Method::GET && call.path.contains("/configmaps/a");
        is_write.then(|| Error::from_status(503, "", "away"))
    });
    world.reconcile_one(&a).await;
    world.server.accept();
    let world = restarted(&world);
    world.reconcile_one(&b).await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("x by v1"), json!("x by v1")));
    world.reconcile_one(&a).await;
    // The server in memory drops the status on an apply.
    set_ready(&world, true);
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("x by v2"), json!("x by v2")));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_whose_status_was_not_written_keeps_its_place_over_a_restart() {
    let world = with_deployment(true).await;
    let [a, b, ..] = keys();
    set_ready(&world, false);
    world.server.refuse(|call| call.path.contains("/status").then(|| Error::from_status(503, "", "away")));
    world.reconcile_one(&a).await;
    world.server.accept();
    assert_eq!(world.value_of("a"), "x by v2");
    let world = restarted(&world);
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1", "the status of a is that of its first revision");
    set_ready(&world, true);
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v2");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_failed_before_it_waits_is_woken_by_a_free_place() {
    let world = with_deployment(true).await;
    let [a, b, ..] = keys();
    set_ready(&world, false);
    world.server.refuse(|call| {
        let is_new = call.method == http::Method::POST && call.path.contains("/secrets");
        is_new.then(|| Error::from_status(403, "Forbidden", "no"))
    });
    world.reconcile_one(&b).await;
    world.server.accept();
    world.reconcile_one(&a).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..2 {
        world.reconcile_one(&b).await;
    }
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("x by v2"), json!("x by v1")));
    set_ready(&world, true);
    world.reconcile_one(&a).await;
    assert!(world.shared.rollout.holds(&b), "it was next in line");
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v2");
}

/// Creates three releases at v1, of which `a` and `b` have a ready Deployment, and a process with one slot that has
/// brought v2 to `a`, which is not ready yet. The others wait.
async fn with_two_in_line() -> World {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let world = serving(server, "v1", 1);
    let [a, b, c, _] = keys();
    world.add("ns", "a", json!({"maps": ["a"], "deployments": ["a"], "value": "x"}));
    world.add("ns", "b", json!({"maps": ["b"], "deployments": ["b"], "value": "x"}));
    world.add("ns", "c", json!({"maps": ["c"], "value": "x"}));
    for key in [&a, &b, &c] {
        world.reconcile_one(key).await;
    }
    for (name, key) in [("a", &a), ("b", &b)] {
        set_deployment_ready(&world, name, true);
        world.reconcile_one(key).await;
    }
    let world = serving(world.server, "v2", 1);
    set_ready(&world, false);
    for key in [&a, &b, &c] {
        world.reconcile_one(key).await;
    }
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("x by v2"), json!("x by v1")));
    assert!(world.shared.rollout.is_waiting(&b) && world.shared.rollout.is_waiting(&c));
    world
}

/// Makes `a` ready with its new chart.
async fn finish_a(world: &World) {
    set_ready(world, true);
    world.reconcile_one(&keys()[0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_its_owner_changes_in_line_leaves_its_place_to_the_next_even_if_it_is_not_ready() {
    for (is_given, is_refused) in [(false, false), (false, true), (true, false), (true, true)] {
        let world = with_two_in_line().await;
        let [_, b, c, _] = keys();
        if is_refused {
            refuse(&world.server, "b");
        }
        if is_given {
            finish_a(&world).await;
            assert!(world.shared.rollout.holds(&b), "it was next in line");
        }
        let path = primary("ns", "b", Value::Null).0;
        let mut object = world.server.object(&path).unwrap();
        (object["spec"]["value"], object["metadata"]["generation"]) = ("y".into(), 2.into());
        world.server.put(&path, object, "user");
        set_deployment_ready(&world, "b", false);
        world.reconcile_one(&b).await;
        assert_eq!(world.value_of("b"), if is_refused { "x by v1" } else { "y by v2" });
        let rollout = &world.shared.rollout;
        assert!(!rollout.is_waiting(&b) && !rollout.holds(&b), "given: {is_given}, refused: {is_refused}");
        let activity = world.condition_of(&b, "Reconciling").unwrap_or_default();
        assert!(!activity.contains("UpgradeQueued"), "{activity}");
        if !is_given {
            finish_a(&world).await;
        }
        world.reconcile_one(&c).await;
        assert_eq!(world.value_of("c"), "x by v2", "given: {is_given}, refused: {is_refused}");
        assert!(!restarted(&world).shared.rollout.holds(&b), "after a restart");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_is_not_ready_keeps_its_place_while_someone_changes_its_objects() {
    let world = with_deployment(true).await;
    let [a, b, ..] = keys();
    set_ready(&world, false);
    world.reconcile_one(&a).await;
    for _ in 0..8 {
        let mut changed = world.server.object(&format!("{MAPS}/a")).unwrap();
        changed["data"]["value"] = "mine".into();
        world.server.put(&format!("{MAPS}/a"), changed, "fighter");
        world.reconcile_one(&a).await;
    }
    assert!(world.condition_of(&a, "Irreconcilable").unwrap().contains("DriftLoop"));
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1");
    finish_a(&world).await;
    assert!(world.condition_of(&a, "Irreconcilable").unwrap().contains("DriftLoop"));
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v2", "the others do not wait for the end of a drift loop");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_failed_keeps_its_place_while_the_server_does_not_answer() {
    let world = rolling_out(1).await;
    refuse(&world.server, "a");
    let [a, b, ..] = keys();
    world.reconcile_one(&a).await;
    assert!(world.condition_of(&a, "ReleaseFailed").unwrap().contains("UpgradeError"));
    // Otherwise the dry run of the rejected object fails the attempt before its record is created.
    world.server.accept();
    world.server.refuse(|call| {
        let is_record = call.method == http::Method::POST && call.path.contains("/secrets");
        is_record.then(|| Error::from_status(503, "", "away"))
    });
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile_one(&a).await;
    assert_eq!(world.condition_of(&a, "ReleaseFailed"), None);
    assert!(world.condition_of(&a, "Irreconcilable").is_some(), "nothing was tried");
    world.server.accept();
    world.reconcile_one(&b).await;
    assert_eq!(upgraded(&world), [] as [&str; 0]);
}

/// Creates a controller with one slot that serves v2 and does not undo failed upgrades.
fn keeping(server: Arc<MemoryApi>) -> World {
    World::with_events(server, Arc::new(Stub { chart: "v2", ..Stub::default() }), |settings| {
        (settings.max_parallel_upgrades, settings.on_failure) = (1, OnFailure::Keep);
    })
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_fails_again_after_a_restart_keeps_its_place_although_its_release_stalls() {
    let world = keeping(with_deployment(true).await.server);
    let [a, b, ..] = keys();
    refuse(&world.server, "a");
    world.reconcile_one(&a).await;
    set_ready(&world, false);
    let world = keeping(world.server);
    for _ in 0..5 {
        world.reconcile_one(&a).await;
        world.reconcile_one(&b).await;
        tokio::time::advance(Duration::from_secs(300)).await;
    }
    assert!(world.condition_of(&a, "ReleaseFailed").unwrap().contains("UpgradeError"));
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("x by v1"), json!("x by v1")));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_fails_again_stops_no_others_if_its_release_was_unready_before_the_first_attempt() {
    let world = keeping(with_deployment(false).await.server);
    let [a, b, ..] = keys();
    refuse(&world.server, "a");
    for _ in 0..8 {
        world.reconcile_one(&a).await;
        tokio::time::advance(Duration::from_secs(300)).await;
    }
    assert!(world.condition_of(&a, "ReleaseFailed").unwrap().contains("UpgradeError"));
    let release = world.shared.cache.release(&a).unwrap();
    let (_, newest) = release.newest().unwrap();
    assert_eq!(newest.marks.as_ref().unwrap().before, Some(Before::Unready), "it says so of each attempt");
    world.reconcile_one(&b).await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("x by v1"), json!("x by v2")));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_becomes_unready_long_after_its_upgrade_stops_no_others_after_a_restart() {
    let world = with_deployment(true).await;
    let [a, b, ..] = keys();
    world.reconcile_one(&a).await;
    finish_a(&world).await;
    assert_eq!(world.value_of("a"), "x by v2");
    assert!(!world.shared.rollout.holds(&a));
    set_ready(&world, false);
    world.reconcile_one(&a).await;
    postdate(&world.server, &a);
    let world = restarted(&world);
    for _ in 0..5 {
        world.reconcile_one(&a).await;
        world.reconcile_one(&b).await;
        tokio::time::advance(Duration::from_secs(300)).await;
    }
    assert!(world.condition_of(&a, "Stalled").unwrap().starts_with("True/ProgressTimeout/"));
    assert_eq!(world.value_of("b"), "x by v2");
}

/// Creates a controller with one slot, whose resources each have a Secret with values.
fn with_own_sources(server: Arc<MemoryApi>, chart: &'static str) -> World {
    with_retries(server, chart, None)
}

/// Creates such a controller, which retries a failed attempt at most this often.
fn with_retries(server: Arc<MemoryApi>, chart: &'static str, retries: Option<u32>) -> World {
    let source = r#"[{"kind": "Secret", "name": "$(name)-values", "optional": true}]"#;
    World::with_events(server, Arc::new(Stub { chart, ..Stub::default() }), |settings| {
        (settings.max_parallel_upgrades, settings.retries) = (1, retries);
        settings.values_from = serde_json::from_str(source).unwrap();
    })
}

/// Sets the value that `a` has from its Secret.
fn set_source(world: &World, value: &str) {
    set_source_of(world, "a", value);
}

/// Sets the value that a release has from its Secret.
fn set_source_of(world: &World, name: &str, value: &str) {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(format!("value: {value}"));
    let secret = json!({"metadata": {"name": format!("{name}-values")}, "data": {"values.yaml": text}});
    world.server.put(&format!("{SECRETS}/{name}-values"), secret, "user");
}

/// Creates two releases at v1, of which `a` has its value from a Secret, and changes that.
async fn with_changed_source(deployments: &[&str]) -> World {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let world = with_own_sources(server, "v1");
    set_source(&world, "old");
    world.add("ns", "a", json!({"maps": ["a"], "deployments": deployments}));
    world.add("ns", "b", json!({"maps": ["b"], "value": "x"}));
    let [a, b, ..] = keys();
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("a"), "old by v1");
    set_source(&world, "new");
    world
}

#[tokio::test(start_paused = true)]
async fn sources_are_read_and_only_a_change_of_one_waits_while_some_releases_are_not_listed() {
    let [a, ..] = keys();
    let world = with_changed_source(&[]).await;
    world.reconcile_one(&a).await;
    let world = with_own_sources(world.server, "v1");
    world.shared.unseen.require([WatchScope::namespace("other")]);
    let read = format!("GET {SECRETS}/a-values");
    let reads = || world.server.log().iter().filter(|line| **line == read).count();
    let before = reads();
    world.reconcile_one(&a).await;
    assert_eq!((reads() - before, waits(&world, &a)), (1, String::new()));
    set_source(&world, "newer");
    world.reconcile_one(&a).await;
    assert_eq!((reads() - before, world.value_of("a")), (2, json!("new by v1")));
    assert!(waits(&world, &a).starts_with("True/RolloutUnknown/"), "{}", waits(&world, &a));
}

/// Gives the inputs of a recorded revision the scheme of another version of the operator.
fn change_scheme(server: &MemoryApi, path: &str) {
    let mut record = server.object(path).unwrap();
    let text = &mut record["metadata"]["annotations"][MARKS_ANNOTATION];
    let marks = Marks::parse(text.as_str().unwrap()).unwrap();
    *text = Marks { inputs: marks.inputs.replacen("2:", "1:", 1), ..marks }.to_text().into();
    server.restore(path, record);
    reseal(server, path);
}

#[tokio::test(start_paused = true)]
async fn a_digest_of_another_scheme_is_compared_while_some_releases_are_not_listed() {
    let limited = |server: Arc<MemoryApi>| {
        World::with_events(server, Arc::new(with_sources()), |settings| settings.max_parallel_upgrades = 1)
    };
    let world = limited(World::new(spec()).server);
    world.reconcile().await;
    change_scheme(&world.server, &record_path(1));
    let world = limited(world.server);
    world.shared.unseen.require([WatchScope::namespace("other")]);
    world.reconcile().await;
    assert_eq!((world.history(), world.condition("Reconciling")), (vec!["1 deployed".to_owned()], None));
    let release = world.shared.cache.release(&key()).unwrap();
    assert!(release.deployed_marks().unwrap().inputs.starts_with("2:"));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_fails_because_of_its_own_source_makes_room_and_stops_no_roll_out() {
    let world = with_changed_source(&[]).await;
    let [a, b, ..] = keys();
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_hit = call.path.contains("/configmaps/a") && body.contains("new by");
        is_hit.then(|| Error::from_status(403, "Forbidden", "no"))
    });
    world.reconcile_one(&a).await;
    assert!(world.condition_of(&a, "ReleaseFailed").unwrap().contains("UpgradeError"));
    assert!(!world.shared.rollout.holds(&a));
    let world = with_own_sources(world.server, "v2");
    assert!(!world.shared.rollout.holds(&a), "after a restart");
    world.reconcile_one(&b).await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("old by v1"), json!("x by v2")));
    // The new chart fails, too, and that stops others.
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile_one(&a).await;
    assert!(world.shared.rollout.holds(&a));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_may_not_delete_what_its_own_source_drops_stops_no_others() {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let world = with_own_sources(server, "v1");
    let [a, b, ..] = keys();
    set_source_of(&world, "a", "old\nmaps: [a, e]");
    set_source_of(&world, "b", "old\nmaps: [b]");
    for (name, key) in [("a", &a), ("b", &b)] {
        world.add("ns", name, json!({"deployments": []}));
        world.reconcile_one(key).await;
    }
    let dropped = format!("{MAPS}/e");
    assert!(world.server.object(&dropped).is_some());
    world.server.refuse(|call| {
        let is_it = call.method == http::Method::DELETE && call.path.contains("/configmaps/e");
        is_it.then(|| Error::from_status(403, "Forbidden", "denied by policy"))
    });
    set_source_of(&world, "a", "new\nmaps: [a]");
    for _ in 0..2 {
        world.reconcile_one(&a).await;
        assert!(world.condition_of(&a, "Irreconcilable").unwrap().starts_with("True/DeletionRefused/"));
        assert_eq!((world.value_of("a"), world.shared.rollout.holds(&a)), (json!("new by v1"), false));
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    set_source_of(&world, "b", "new\nmaps: [b]");
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "new by v1");
    world.server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile_one(&a).await;
    assert_eq!((world.server.object(&dropped), world.shared.rollout.holds(&a)), (None, false));
    assert_eq!(world.condition_of(&a, "Irreconcilable"), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_gets_a_place_for_inputs_that_are_not_tried_again_leaves_it_to_the_next() {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let world = with_retries(server, "v1", Some(0));
    let [a, b, c, _] = keys();
    for (name, key, deployments) in [("a", &a, json!([])), ("b", &b, json!(["b"])), ("c", &c, json!([]))] {
        set_source_of(&world, name, "old");
        world.add("ns", name, json!({"maps": [name], "deployments": deployments}));
        world.reconcile_one(key).await;
    }
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_hit = call.path.contains("/configmaps/a") && body.contains("bad by");
        is_hit.then(|| Error::from_status(403, "Forbidden", "no"))
    });
    set_source(&world, "bad");
    world.reconcile_one(&a).await;
    assert!(world.condition_of(&a, "Stalled").unwrap().contains("RetriesExceeded"));
    set_source_of(&world, "b", "new");
    set_deployment_ready(&world, "b", false);
    world.reconcile_one(&b).await;
    let rollout = &world.shared.rollout;
    assert!(!rollout.holds(&a) && rollout.holds(&b), "b is not ready yet");
    for value in ["good", "bad"] {
        set_source(&world, value);
        world.reconcile_one(&a).await;
        assert!(rollout.is_waiting(&a), "{value}");
    }
    set_source_of(&world, "c", "new");
    world.reconcile_one(&c).await;
    set_deployment_ready(&world, "b", true);
    world.reconcile_one(&b).await;
    assert!(rollout.holds(&a), "it was next in line");
    world.reconcile_one(&a).await;
    assert!(rollout.holds(&c), "a may not be tried again");
    world.reconcile_one(&c).await;
    assert_eq!((world.value_of("a"), world.value_of("c")), (json!("old by v1"), json!("new by v1")));
    // A change queues it again.
    set_source(&world, "good");
    world.reconcile_one(&a).await;
    assert_eq!(world.value_of("a"), "good by v1");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_stalls_because_of_its_own_source_keeps_its_place_only_until_then() {
    let world = with_changed_source(&["a"]).await;
    let [a, ..] = keys();
    set_source(&world, "old");
    set_ready(&world, true);
    world.reconcile_one(&a).await;
    set_source(&world, "new");
    set_ready(&world, false);
    world.reconcile_one(&a).await;
    assert_eq!(world.value_of("a"), "new by v1");
    assert!(world.shared.rollout.holds(&a), "it is not stalled yet");
    assert!(!with_own_sources(world.server.clone(), "v1").shared.rollout.holds(&a), "after a restart");
    for _ in 0..5 {
        world.reconcile_one(&a).await;
        tokio::time::advance(Duration::from_secs(300)).await;
    }
    assert!(world.condition_of(&a, "Stalled").unwrap().starts_with("True/ProgressTimeout/"));
    assert!(!world.shared.rollout.holds(&a));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_is_not_ready_keeps_its_place_while_its_source_cannot_be_read() {
    let world = with_changed_source(&["a"]).await;
    let [a, b, ..] = keys();
    set_source(&world, "old");
    set_ready(&world, true);
    world.reconcile_one(&a).await;
    let world = with_own_sources(world.server, "v2");
    set_ready(&world, false);
    world.reconcile_one(&a).await;
    assert_eq!(world.value_of("a"), "old by v2");
    let deployed = world.server.object(&format!("{MAPS}/a")).unwrap();
    set_source(&world, "old");
    world.server.refuse(|call| {
        let is_read = call.path.ends_with("/secrets/a-values") && call.body.is_none();
        is_read.then(|| Error::from_status(503, "", "away"))
    });
    world.reconcile_one(&a).await;
    assert!(world.condition_of(&a, "Irreconcilable").is_some(), "its inputs are unknown");
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v1", "the new chart broke a");
    world.server.accept();
    set_ready(&world, true);
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile_one(&a).await;
    world.reconcile_one(&b).await;
    assert_eq!(world.value_of("b"), "x by v2");
    assert_eq!(world.server.object(&format!("{MAPS}/a")).unwrap(), deployed, "its inputs are the same");
}

#[tokio::test(start_paused = true)]
async fn an_unready_install_and_an_unready_change_of_the_resource_take_no_place() {
    for changes in [false, true] {
        let server = Arc::new(MemoryApi::new());
        server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
        let world = serving(server, "v1", 1);
        let [a, b, ..] = keys();
        world.add("ns", "b", json!({"maps": ["b"], "value": "x"}));
        world.reconcile_one(&b).await;
        let world = serving(world.server, "v2", 1);
        world.add("ns", "a", json!({"maps": ["a"], "deployments": ["a"], "value": "x"}));
        world.reconcile_one(&a).await;
        if changes {
            let path = primary("ns", "a", Value::Null).0;
            let mut object = world.server.object(&path).unwrap();
            (object["spec"]["value"], object["metadata"]["generation"]) = ("y".into(), 2.into());
            world.server.put(&path, object, "user");
            world.reconcile_one(&a).await;
        }
        set_ready(&world, false);
        world.reconcile_one(&a).await;
        let world = restarted(&world);
        world.reconcile_one(&b).await;
        assert_eq!(world.value_of("b"), "x by v2", "changes: {changes}");
    }
}
