//! Tests of resources that move between the shards of a ring. The shards are
//! controllers on the same API server in memory; the tests assign, as the sharder would.

use controller::runtime::freshness::Epoch;
use controller::runtime::reflector::EventHandler as _;
use controller::shards::{Ring, ShardSelector};
use tokio::time::sleep;

use super::hooks::{JOBS, count, hook, phases, reconcile, with_hooks};
use super::rollout::{hide, show, waits, with_a_failure_elsewhere};
use super::*;
use crate::charts::handlers::Primaries;

const SHARD: &str = "shard.alpha.sharding.timebertt.dev/ring";
const DRAIN: &str = "drain.alpha.sharding.timebertt.dev/ring";

/// Returns the controller of a shard with this name.
fn shard(server: &Arc<MemoryApi>, name: &str) -> World {
    let share = Some(Ring::new("ring", Some(name)).unwrap().into());
    World::taking(server.clone(), Arc::new(Stub::default()), Acceptance { share, ..Acceptance::default() })
}

/// Creates a resource of the first of two shards.
fn two(spec: Value) -> (World, World) {
    let server = World::new(spec).server;
    label(&server, SHARD, Some("a"));
    (shard(&server, "a"), shard(&server, "b"))
}

/// Sets or removes a label, as the sharder does: without a new generation.
fn label(server: &MemoryApi, key: &str, value: Option<&str>) {
    let mut primary = server.object(PRIMARY).unwrap();
    match value {
        Some(value) => primary["metadata"]["labels"][key] = value.into(),
        None => _ = primary["metadata"]["labels"].as_object_mut().unwrap().remove(key),
    }
    server.put(PRIMARY, primary, "sharder");
}

fn labels(server: &MemoryApi) -> Vec<String> {
    let labels = server.object(PRIMARY).unwrap()["metadata"]["labels"].clone();
    let labels = labels.as_object().cloned().unwrap_or_default();
    labels
        .into_iter()
        .filter(|(key, _)| key.contains("sharding"))
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

/// Returns the uids of the release's objects.
fn uids(world: &World) -> Vec<Value> {
    let uid = |name: &String| world.server.object(&format!("{MAPS}/{name}")).unwrap()["metadata"]["uid"].clone();
    world.maps().iter().map(uid).collect()
}

fn writes(server: &MemoryApi) -> Vec<String> {
    server.log().into_iter().filter(|line| !line.starts_with("GET")).collect()
}

/// Delivers the event by which the resource leaves a shard's watch: its last state there, with the version of the change.
fn leaves(world: &World, last: &Value) {
    let mut last = last.clone();
    last["metadata"]["resourceVersion"] = world.server.object(PRIMARY).unwrap()["metadata"]["resourceVersion"].clone();
    Primaries(world.shared.clone()).deleted(serde_json::from_value(last).unwrap());
}

/// Delivers the event by which the resource enters a shard's watch, or changes there.
fn arrives(world: &World) {
    let epoch = Epoch { number: 1, began: Instant::now(), is_list: false };
    let primary = world.server.object(PRIMARY).unwrap();
    Primaries(world.shared.clone()).changed(serde_json::from_value(primary).unwrap(), epoch);
}

#[tokio::test(start_paused = true)]
async fn a_shard_serves_only_what_is_assigned_to_it() {
    let (a, b) = two(spec());
    b.reconcile().await;
    assert_eq!(writes(&b.server), Vec::<String>::new());
    a.reconcile().await;
    assert_eq!((a.history(), a.maps().len()), (vec!["1 deployed".to_owned()], 3));
}

/// Every shard watches the objects of all.
#[tokio::test(start_paused = true)]
async fn the_objects_of_another_shard_wake_nothing_and_leave_nothing_behind() {
    let (a, b) = two(spec());
    a.feed();
    a.reconcile().await;
    b.feed();
    let mut map = a.server.object(&format!("{MAPS}/a")).unwrap();
    map["data"]["key"] = "edited".into();
    a.server.put(&format!("{MAPS}/a"), map, "user");
    b.open();
    while is_woken(&b) {}
    b.feed();
    assert!(!is_woken(&b));
    reconcile::reconcile(&b.shared, &key(), &(), Priority::Normal).await;
    assert_eq!(b.shared.shard.as_ref().unwrap().serving(), 0);
    assert_eq!(a.shared.shard.as_ref().unwrap().serving(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_leaves_is_dropped_and_nothing_is_deleted() {
    let (a, b) = two(spec());
    a.reconcile().await;
    let (before, last) = (uids(&a), a.server.object(PRIMARY).unwrap());
    label(&a.server, SHARD, Some("b"));
    leaves(&a, &last);
    let written = writes(&a.server).len();
    assert!(a.shared.cache.primary(&key()).is_none() && a.shared.queue.timers() == 0);
    reconcile::reconcile(&a.shared, &key(), &(), Priority::Normal).await;
    assert_eq!(writes(&a.server).len(), written, "{:?}", writes(&a.server));
    b.feed();
    arrives(&b);
    b.reconcile().await;
    assert_eq!((uids(&b), b.history()), (before, vec!["1 deployed".to_owned()]));
    assert!(!writes(&b.server).iter().any(|line| line.starts_with("DELETE")), "{:?}", writes(&b.server));
    // A late event from before brings nothing back, and a list of before neither.
    let epoch = Epoch { number: 1, began: Instant::now(), is_list: false };
    Primaries(a.shared.clone()).changed(serde_json::from_value(last).unwrap(), epoch);
    assert!(a.shared.cache.primary(&key()).is_none());
    label(&a.server, SHARD, Some("a"));
    arrives(&a);
    assert!(a.shared.cache.primary(&key()).is_some(), "it comes back");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_counts_only_for_the_shard_that_a_fresh_read_names() {
    let (a, b) = two(spec());
    a.reconcile().await;
    let mut deleted = a.server.object(PRIMARY).unwrap();
    a.delete();
    // The shard has seen the deletion, and not that the resource was moved.
    deleted["metadata"] = a.server.object(PRIMARY).unwrap()["metadata"].clone();
    label(&a.server, SHARD, Some("b"));
    let epoch = Epoch { number: 1, began: Instant::now(), is_list: false };
    Primaries(a.shared.clone()).changed(serde_json::from_value(deleted).unwrap(), epoch);
    assert!(a.shared.cache.primary(&key()).unwrap().deleting);
    let written = writes(&a.server).len();
    reconcile::reconcile(&a.shared, &key(), &(), Priority::Normal).await;
    assert_eq!((writes(&a.server).len(), a.maps().len()), (written, 3), "{:?}", writes(&a.server));
    b.reconcile().await;
    assert_eq!(b.maps(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_acknowledged_in_one_write_after_which_nothing_follows() {
    let (a, b) = two(spec());
    a.reconcile().await;
    a.edit(|primary| primary["spec"]["value"] = "2".into());
    label(&a.server, DRAIN, Some("true"));
    let written = writes(&a.server).len();
    a.reconcile().await;
    let patch = format!("PATCH {PRIMARY}");
    assert_eq!(writes(&a.server)[written..], [patch], "no upgrade, no status");
    assert_eq!(labels(&a.server), Vec::<String>::new());
    assert!(a.shared.cache.primary(&key()).is_none());
    label(&a.server, SHARD, Some("b"));
    b.feed();
    b.reconcile().await;
    assert_eq!((b.history(), b.value_of("a")), (vec!["1 superseded".into(), "2 deployed".into()], "2".into()));
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_meets_another_write_is_tried_again_with_the_new_version() {
    let (a, _) = two(spec());
    a.reconcile().await;
    label(&a.server, DRAIN, Some("true"));
    a.feed();
    a.edit(|primary| primary["metadata"]["annotations"] = json!({"x": "y"}));
    reconcile::reconcile(&a.shared, &key(), &(), Priority::Normal).await;
    assert_eq!((labels(&a.server).len(), a.shared.queue.timers()), (2, 1));
    reconcile::reconcile(&a.shared, &key(), &(), Priority::Normal).await;
    assert_eq!(labels(&a.server).len(), 0);
}

/// No shard serves the resource meanwhile, so the waits have a limit.
#[tokio::test(start_paused = true)]
async fn a_drain_that_the_server_refuses_is_tried_ever_more_slowly_until_it_is_withdrawn() {
    let (a, _) = two(spec());
    a.reconcile().await;
    let refuse = || {
        label(&a.server, DRAIN, Some("true"));
        a.feed();
        is_woken(&a);
        a.server.refuse(|call| call.path.starts_with(PRIMARY).then(|| Error::from_status(403, "Forbidden", "no role")));
    };
    let refused = async || {
        reconcile::reconcile(&a.shared, &key(), &(), Priority::Normal).await;
        let began = Instant::now();
        let next = a.shared.queue.next().await;
        a.shared.queue.done(&next);
        began.elapsed().as_secs()
    };
    refuse();
    for wait in [0, 1, 2, 4, 8, 16, 30, 30] {
        assert_eq!(refused().await, wait);
    }
    a.server.accept();
    label(&a.server, DRAIN, None);
    a.reconcile().await;
    refuse();
    assert_eq!(refused().await, 0, "it is another drain");
    a.server.accept();
    a.reconcile().await;
    assert_eq!(labels(&a.server), Vec::<String>::new());
}

/// The shard must not count the resource as another one's: no event follows.
#[tokio::test(start_paused = true)]
async fn a_drain_whose_labels_a_webhook_puts_back_is_tried_ever_more_slowly_until_they_go() {
    let (a, _) = two(spec());
    a.reconcile().await;
    label(&a.server, DRAIN, Some("true"));
    a.feed();
    is_woken(&a);
    a.server.change(|server| {
        server.mutate(|plural, object| {
            if plural == "memcacheds" {
                object["metadata"]["labels"] = json!({SHARD: "a", DRAIN: "true"});
            }
        });
    });
    for wait in [0, 1, 2, 4] {
        reconcile::reconcile(&a.shared, &key(), &(), Priority::Normal).await;
        let began = Instant::now();
        let next = a.shared.queue.next().await;
        a.shared.queue.done(&next);
        assert_eq!(began.elapsed().as_secs(), wait);
    }
    a.server.change(|server| server.clear_webhooks());
    reconcile::reconcile(&a.shared, &key(), &(), Priority::Normal).await;
    assert_eq!((labels(&a.server), a.shared.cache.primary(&key()).is_none()), (Vec::new(), true));
}

/// Assigns a resource that was installed by shard `a` to shard `b`.
fn moved(a: &World, b: &World) {
    label(&a.server, SHARD, Some("b"));
    arrives(b);
    is_woken(b);
}

/// Refuses to list records.
fn hide_records(server: &MemoryApi) {
    server.refuse(|call| {
        let is_list = call.path.starts_with(&format!("{SECRETS}?labelSelector"));
        is_list.then(|| Error::from_status(403, "Forbidden", "no role"))
    });
}

#[tokio::test(start_paused = true)]
async fn a_resource_whose_records_may_not_be_read_is_taken_over_ever_more_slowly_until_they_may_be() {
    let (a, b) = two(spec());
    a.reconcile().await;
    moved(&a, &b);
    hide_records(&a.server);
    for wait in [0, 1, 2, 4, 8, 16, 30, 30] {
        reconcile::reconcile(&b.shared, &key(), &(), Priority::Normal).await;
        let began = Instant::now();
        let next = b.shared.queue.next().await;
        b.shared.queue.done(&next);
        assert_eq!(began.elapsed().as_secs(), wait);
    }
    assert_eq!(b.history(), Vec::<String>::new());
    b.server.accept();
    reconcile::reconcile(&b.shared, &key(), &(), Priority::Normal).await;
    assert_eq!((b.history(), b.shared.memory.of(&key()).unmoved.clone()), (vec!["1 deployed".to_owned()], None));
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_comes_while_its_records_may_not_be_watched_says_so_and_is_taken_over_once_they_may_be() {
    let (a, b) = two(spec());
    a.reconcile().await;
    let scope = WatchScope::namespace("ns");
    b.releases.lost(&scope);
    moved(&a, &b);
    hide_records(&a.server);
    let lists = |server: &MemoryApi| server.log().iter().filter(|line| **line == format!("GET {SECRETS}")).count();
    let before = lists(&b.server);
    for _ in 0..3 {
        reconcile::reconcile(&b.shared, &key(), &(), Priority::Normal).await;
    }
    let condition = b.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/RecordsForbidden/"), "{condition}");
    assert_eq!(lists(&b.server) - before, 1, "only the watch can end it");
    b.server.accept();
    b.relist(&scope, "ns");
    b.reconcile().await;
    assert_eq!((b.history(), b.state("Ready")), (vec!["1 deployed".to_owned()], "True/Ready".into()));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_runs_for_an_hour_does_not_hold_a_drain_and_the_next_shard_awaits_the_same_job() {
    let (a, b) = two(with_hooks(json!([hook("migrate", "pre-install")])));
    let drain = async {
        sleep(SECOND * 30).await;
        label(&a.server, DRAIN, Some("true"));
        arrives(&a);
        std::future::pending::<()>().await;
    };
    let (began, key_of_web) = (Instant::now(), key());
    a.feed();
    tokio::select! {
        _ = reconcile::reconcile(&a.shared, &key_of_web, &(), Priority::Normal) => {}
        _ = drain => unreachable!("it waits for ever"),
    }
    assert!(began.elapsed() < SECOND * 40, "{:?}", began.elapsed());
    let uid = |world: &World| world.server.object(&format!("{JOBS}/migrate")).unwrap()["metadata"]["uid"].clone();
    let job = uid(&a);
    let written = writes(&a.server).len();
    reconcile::reconcile(&a.shared, &key(), &(), Priority::Normal).await;
    assert_eq!((writes(&a.server).len(), labels(&a.server).len()), (written + 1, 0), "only the acknowledgement");
    label(&a.server, SHARD, Some("b"));
    arrives(&b);
    reconcile(&b, "Complete").await;
    assert_eq!((uid(&b), count(&b, &format!("POST {JOBS}"))), (job, 1));
    assert_eq!(
        (b.history(), phases(&b, 1).await),
        (vec!["1 deployed".to_owned()], vec!["migrate Succeeded".to_owned()])
    );
    assert_eq!(count(&b, &format!("DELETE {JOBS}")), 0);
    assert_eq!(b.state("Ready"), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn a_write_for_a_resource_that_has_gone_is_not_sent() {
    let (a, _) = two(json!({"value": "1", "maps": ["a", "b"], "seconds": 5}));
    a.feed();
    let moved = async {
        sleep(SECOND).await;
        let last = a.server.object(PRIMARY).unwrap();
        label(&a.server, SHARD, Some("b"));
        leaves(&a, &last);
        writes(&a.server)
    };
    let key = key();
    let running = reconcile::reconcile(&a.shared, &key, &(), Priority::Normal);
    let (_, before) = tokio::join!(running, moved);
    assert_eq!(writes(&a.server), before, "it was rendering, and then writes nothing");
    assert_eq!((a.history(), a.maps()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn the_records_of_a_resource_that_comes_are_read_because_their_watch_may_be_behind() {
    let (a, b) = two(spec());
    a.reconcile().await;
    b.feed();
    a.edit(|primary| primary["spec"]["value"] = "2".into());
    a.reconcile().await;
    label(&a.server, SHARD, Some("b"));
    let written = writes(&b.server).len();
    arrives(&b);
    reconcile::reconcile(&b.shared, &key(), &(), Priority::Normal).await;
    let objects: Vec<String> =
        writes(&b.server)[written..].iter().filter(|line| !line.contains("/status")).cloned().collect();
    assert_eq!(objects, Vec::<String>::new(), "revision 2 is known");
    assert_eq!((b.history().len(), b.value_of("a")), (2, "2".into()));
}

/// Empties the queue; returns whether something was in it.
fn is_woken(world: &World) -> bool {
    world.open();
    let mut is_woken = false;
    while let Some(key) = world.shared.queue.next().now_or_never() {
        world.shared.queue.done(&key);
        is_woken = true;
    }
    is_woken
}

/// Assigns all resources to a shard with one place for upgrades to the second chart. Another namespace is not listed
/// yet, and the resources there are hidden.
fn with_one_place(server: Arc<MemoryApi>, unlisted: &WatchScope) -> (World, Vec<(String, Value)>) {
    for path in server.paths().into_iter().filter(|path| path.contains("/memcacheds/")) {
        let mut resource = server.object(&path).unwrap();
        resource["metadata"]["labels"] = json!({SHARD: "a"});
        server.put(&path, resource, "sharder");
    }
    let hidden = hide(&server, &format!("/{}/memcacheds/", unlisted.only().unwrap()));
    let share = Some(Ring::new("ring", Some("a")).unwrap().into());
    let world = World::start(
        server,
        Arc::new(Stub { chart: "v2", ..Stub::default() }),
        Events::default(),
        ChartObjects::Watched,
        |settings| settings.max_parallel_upgrades = 1,
        Acceptance { share, ..Acceptance::default() },
        Extensions::default(),
    );
    world.shared.unseen.require([unlisted.clone()]);
    world.open();
    (world, hidden)
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_a_place_in_a_shard_before_the_reconciles_of_those_that_are_listed_late_read_their_records() {
    let (server, x, b) = with_a_failure_elsewhere().await;
    let other = WatchScope::namespace("other");
    let (a, resource) = with_one_place(server, &other);
    show(&a.server, resource);
    a.relist(&other, "other");
    a.reconcile_one(&b).await;
    assert_eq!(a.value_of("b"), "x by v1");
    assert!(waits(&a, &b).starts_with("True/RolloutUnknown/"), "{}", waits(&a, &b));
    a.reconcile_one(&x).await;
    assert!(a.shared.rollout.holds(&x) && !a.shared.unseen.is_any());
    a.reconcile_one(&b).await;
    assert_eq!(a.value_of("b"), "x by v1");
    assert!(waits(&a, &b).starts_with("True/UpgradeQueued/"), "{}", waits(&a, &b));
    a.server.accept();
    for _ in 0..3 {
        a.reconcile_one(&x).await;
        a.reconcile_one(&b).await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert_eq!((a.value_of("b"), waits(&a, &b)), (json!("x by v2"), String::new()));
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_a_place_in_a_shard_while_the_records_of_those_that_are_listed_late_may_not_be_read() {
    let (server, x, b) = with_a_failure_elsewhere().await;
    let other = WatchScope::namespace("other");
    let records = hide(&server, "/other/secrets/");
    let (a, resource) = with_one_place(server, &other);
    a.releases.lost(&other);
    a.server.refuse(|call| {
        let is_record = call.path.starts_with("/api/v1/namespaces/other/secrets");
        is_record.then(|| Error::from_status(403, "Forbidden", "no role"))
    });
    show(&a.server, resource);
    a.feed();
    restore::listed(&a.shared, &other);
    // The second time, its earlier failure does not hold it any longer.
    for _ in 0..2 {
        a.reconcile_one(&x).await;
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    a.reconcile_one(&b).await;
    assert_eq!(a.value_of("b"), "x by v1");
    assert!(waits(&a, &b).starts_with("True/RolloutUnknown/"), "{}", waits(&a, &b));
    show(&a.server, records);
    a.relist(&other, "other");
    assert!(a.shared.rollout.holds(&x) && !a.shared.unseen.is_any());
}

/// Delivers the deletion of a resource of which this is the last state.
fn deleted(world: &World, last: Value) {
    Primaries(world.shared.clone()).deleted(serde_json::from_value(last).unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_late_deletion_of_a_former_resource_does_not_end_the_writes_of_the_one_that_has_its_name() {
    let (a, _) = two(spec());
    a.feed();
    let mut former = a.server.object(PRIMARY).unwrap();
    former["metadata"]["uid"] = "former".into();
    let shard = a.shared.shard.as_ref().unwrap();
    let holding = shard.begin(&key());
    deleted(&a, former);
    assert!(a.shared.cache.primary(&key()).is_some() && !holding.is_leaving());
    let own = a.server.object(PRIMARY).unwrap();
    deleted(&a, own);
    assert!(a.shared.cache.primary(&key()).is_none() && holding.is_leaving());
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_the_answer_to_another_write_shows_is_acknowledged() {
    let (a, _) = two(spec());
    a.reconcile().await;
    a.feed();
    is_woken(&a);
    label(&a.server, DRAIN, Some("true"));
    a.shared.primary_written(serde_json::from_value(a.server.object(PRIMARY).unwrap()).unwrap());
    // The event of the label has a version that is already known.
    arrives(&a);
    assert!(is_woken(&a), "nothing else wakes the resource");
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_answered_with_the_same_shard_again_continues_the_work() {
    let (a, _) = two(spec());
    a.reconcile().await;
    label(&a.server, DRAIN, Some("true"));
    a.feed();
    is_woken(&a);
    // The new shard has died, so the sharder's webhook assigns the resource to this one again.
    let server = a.server.clone();
    label(&server, DRAIN, None);
    a.shared.primary_written(serde_json::from_value(server.object(PRIMARY).unwrap()).unwrap());
    arrives(&a);
    assert!(is_woken(&a));
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_comes_by_an_event_or_a_list_brings_its_failure_with_it() {
    for by_list in [false, true] {
        let (a, b) = two(json!({"broken": true}));
        assert_eq!(a.reconcile().await, ReconcileResult::Error);
        b.open();
        // It has failed for long.
        let mut primary = a.server.object(PRIMARY).unwrap();
        for condition in primary["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = "2020-01-01T00:00:00Z".into();
        }
        a.server.put(PRIMARY, primary.clone(), "clock");
        label(&a.server, SHARD, Some("b"));
        leaves(&a, &primary);
        if by_list {
            b.feed()
        } else {
            arrives(&b)
        }
        let result = reconcile::reconcile(&b.shared, &key(), &(), Priority::Normal).await;
        assert_eq!((result, b.shared.queue.timers()), (ReconcileResult::RequeueAfter, 1), "by a list: {by_list}");
    }
}

/// A shard does not know all resources that depend on one, so it must not promise to keep it for them.
#[tokio::test(start_paused = true)]
async fn a_shard_refuses_reverse_deletion_instead_of_forgetting_it() {
    let server = World::new(spec()).server;
    label(&server, SHARD, Some("a"));
    let mut primary = server.object(PRIMARY).unwrap();
    let entry = json!([{"group": "db.example.com", "kind": "Database", "name": "db", "reverseDeletion": true}]);
    primary["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/depends-on": entry.to_string()});
    server.put(PRIMARY, primary, "user");
    let a = shard(&server, "a");
    a.reconcile().await;
    let ready = a.condition("Ready").unwrap();
    assert!(ready.contains("[0]: reverseDeletion") && ready.contains("--controller-ring"), "{ready}");
    assert_eq!(a.history(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_served_in_one_range_only_and_so_is_a_namesake_that_follows_it() {
    let server = World::new(spec()).server;
    let mut primary = server.object(PRIMARY).unwrap();
    let is_first = |half: &ShardSelector| half.selects(primary["metadata"]["uid"].as_str().unwrap(), "");
    let bounds = ["0x0000000000000000', '0x8000000000000000", "0x8000000000000000', '0x10000000000000000"];
    let mut halves =
        bounds.map(|both| format!("shardRange(object.metadata.uid, '{both}')").parse::<ShardSelector>().unwrap());
    halves.sort_by_key(|half| !is_first(half));
    let [a, b] = halves.clone().map(|half| {
        let acceptance = Acceptance { share: Some(half.into()), ..Acceptance::default() };
        World::taking(server.clone(), Arc::new(Stub::default()), acceptance)
    });
    b.reconcile().await;
    assert_eq!(writes(&server), Vec::<String>::new());
    a.reconcile().await;
    assert_eq!((a.history(), a.maps().len()), (vec!["1 deployed".to_owned()], 3));

    // Someone removes the finalizer while a step runs, and creates the resource again.
    let step = a.shared.shard.as_ref().unwrap().begin(&key());
    leaves(&a, &server.object(PRIMARY).unwrap());
    assert!(step.is_leaving(), "the step ends");
    let other = (0..).map(|n| format!("uid-{n}")).find(|uid| halves[1].selects(uid, "")).unwrap();
    primary["metadata"]["uid"] = other.into();
    primary["metadata"]["resourceVersion"] = (server.version() + 1).to_string().into();
    // A put would keep the uid.
    server.restore(PRIMARY, primary);
    arrives(&a);
    let written = writes(&server).len();
    reconcile::reconcile(&a.shared, &key(), &(), Priority::Normal).await;
    assert!(a.shared.cache.primary(&key()).is_none());
    assert_eq!(writes(&server).len(), written, "{:?}", writes(&server));
}

#[tokio::test(start_paused = true)]
async fn rings_with_different_keys_replace_each_others_records_ever_more_slowly() {
    for charts in [["one", "other"], ["one", "one"]] {
        let server = World::new(spec()).server;
        label(&server, SHARD, Some("a"));
        let [one, other] = [0, 1].map(|number: usize| {
            let share = Some(Ring::new("ring", Some("a")).unwrap().into());
            let acceptance = Acceptance { share, ..Acceptance::default() };
            let stub = Arc::new(Stub { chart: charts[number], ..Stub::default() });
            let keys = Keyring::new(Key::new(&[number as u8 + 1; 32]).unwrap(), Vec::new());
            let (events, objects) = (Events::default(), ChartObjects::Watched);
            World::begin((server.clone(), keys), stub, events, objects, |_| {}, acceptance, Extensions::default())
        });
        let mut message = None;
        for _ in 0..600 {
            one.reconcile().await;
            message = one.condition("Irreconcilable").or(message);
            other.reconcile().await;
            tokio::time::advance(SECOND).await;
        }
        let is_record = |line: &String| line.starts_with("PATCH") && line.contains("sh.helm.release.v1");
        let records = writes(&server).into_iter().filter(is_record).count();
        assert!((10..=100).contains(&records), "{charts:?}: {records} writes in ten minutes");
        let message = message.unwrap();
        assert!(message.starts_with("True/OtherOperator/revision "), "{charts:?}: {message}");
        assert!(message.contains("was made with helm or by another operator"), "{message}");
    }
}
