//! Tests of `rollout`: a new chart reaches the canaries, then shares of the others, and stops or goes back if its gate
//! is not met, whenever the process ends.

use super::hooks::{filled, hook};
use super::requests::undeclare_handled;
use super::rollout::{hide, refuse, set_deployment_ready, show};
use super::*;
use crate::chart_metrics::Census as _;
use crate::reconcile::decide::progression::{Part, Phase, Reached};
use crate::watches::{OnFailure, OnGateFailure, RolloutRule, rollout_of};

/// The canaries are the last two.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "x", "y"];

/// What releases report that wait because the rollout is stopped.
const HALTED: &str = "True/RolloutHalted";
const ROLLED_BACK: &str = "True/RolloutRolledBack";

fn keys() -> [ResourceKey; 6] {
    NAMES.map(|name| ResourceKey::new("ns", name))
}

fn rule(on_failure: OnGateFailure) -> Arc<RolloutRule> {
    let canary = kube::core::Selector::from_iter([("tier", "canary")]);
    Arc::new(rollout_of(Some(canary), &[50], "", on_failure))
}

/// Creates a controller that has just started.
fn serving(server: Arc<MemoryApi>, chart: &'static str, on_failure: OnGateFailure) -> World {
    World::with_events(server, Arc::new(Stub { chart, ..Stub::default() }), |settings| {
        settings.rollout = Some(rule(on_failure));
    })
}

/// Creates a controller that brings v2, and that only timers and changes wake.
fn without_period(server: Arc<MemoryApi>, rule: Arc<RolloutRule>) -> World {
    World::with_events(server, Arc::new(Stub { chart: "v2", ..Stub::default() }), |settings| {
        (settings.rollout, settings.period) = (Some(rule), Duration::ZERO);
    })
}

/// Creates such a controller that pauses for an hour after each step.
fn pausing(server: Arc<MemoryApi>, gate: &str, on_failure: OnGateFailure) -> World {
    let canary = kube::core::Selector::from_iter([("tier", "canary")]);
    let rule = rollout_of(Some(canary), &[50], gate, on_failure);
    without_period(server, Arc::new(RolloutRule { bake_for: Duration::from_secs(3600), ..rule }))
}

/// Creates six releases of one chart.
async fn installed(on_failure: OnGateFailure) -> World {
    install(serving(empty(), "v1", on_failure)).await
}

/// Returns a server without resources.
fn empty() -> Arc<MemoryApi> {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    server
}

async fn install(world: World) -> World {
    for name in NAMES {
        let (path, mut resource) = primary("ns", name, json!({"maps": [name], "value": "x"}));
        let tier = if name < "x" { "other" } else { "canary" };
        resource["metadata"]["labels"] = json!({"tier": tier});
        world.server.put(&path, resource, "user");
    }
    for key in keys() {
        world.reconcile_one(&key).await;
    }
    world
}

/// Makes a release look as if an upstream operator had made it.
fn give_to_upstream(world: &World, name: &str) {
    let (path, record) = (primary("ns", name, Value::Null).0, format!("{SECRETS}/sh.helm.release.v1.{name}.v1"));
    let mut resource = world.server.object(&path).unwrap();
    resource["status"] = Value::Null;
    let uid = resource["metadata"]["uid"].clone();
    world.server.put(&path, resource, "user");
    let mut secret = world.server.object(&record).unwrap();
    let owner = json!({"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": name, "uid": uid});
    (secret["metadata"]["annotations"], secret["metadata"]["ownerReferences"]) = (json!({}), json!([owner]));
    let labels = secret["metadata"]["labels"].as_object_mut().unwrap();
    labels.retain(|label, _| ["name", "owner", "status", "version"].contains(&label.as_str()));
    world.server.put(&record, secret, "manager");
}

/// Makes a release one whose takeover sealed its record and was then cut off.
fn cut_off_takeover(world: &World, name: &str) {
    let path = format!("{SECRETS}/sh.helm.release.v1.{name}.v1");
    let mut record = world.server.object(&path).unwrap();
    let text = &mut record["metadata"]["annotations"][MARKS_ANNOTATION];
    let whole = Marks::parse(text.as_str().unwrap()).unwrap();
    *text = Marks { inputs: String::new(), complete: false, ..whole }.to_text().into();
    world.server.put(&path, record, "operator");
    reseal(&world.server, &path);
}

/// Reconciles each release this many times, ten minutes apart.
async fn reconcile_all(world: &World, rounds: usize) {
    for _ in 0..rounds {
        world.feed();
        for key in keys() {
            reconcile::reconcile(&world.shared, &key, &(), Priority::Retry).await;
        }
        world.feed();
        tokio::time::advance(Duration::from_secs(600)).await;
    }
}

fn with_chart(world: &World, chart: &str) -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| world.value_of(name).as_str().unwrap().ends_with(chart)).collect()
}

fn reconciling(world: &World, name: &str) -> String {
    let condition = world.condition_of(&ResourceKey::new("ns", name), "Reconciling").unwrap_or_default();
    condition.splitn(3, '/').take(2).collect::<Vec<_>>().join("/")
}

/// Returns the releases in the order in which their objects were last written.
fn order(world: &World, from: usize) -> Vec<String> {
    let log = world.server.log();
    let written = log[from..].iter().filter_map(|line| line.strip_prefix("PATCH ")?.strip_prefix(&format!("{MAPS}/")));
    written.map(|rest| rest.split('?').next().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_chart_reaches_the_canaries_then_a_share_then_the_others() {
    let world = installed(OnGateFailure::Halt).await;
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    let from = world.server.log().len();
    world.work_for(10 * SECOND).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
    let mut order = order(&world, from);
    assert_eq!(order.len(), 6);
    [0..2, 2..4, 4..6].into_iter().for_each(|step| order[step].sort());
    assert_eq!(order, ["x", "y", "a", "b", "c", "d"]);
    assert!(NAMES.iter().all(|name| reconciling(&world, name).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn releases_that_are_yet_to_be_taken_over_take_their_turns() {
    let world = installed(OnGateFailure::Halt).await;
    NAMES.iter().for_each(|name| give_to_upstream(&world, name));
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    let from = world.server.log().len();
    world.work_for(10 * SECOND).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
    check_order(&order(&world, from));
    assert!(NAMES.iter().all(|name| reconciling(&world, name).is_empty()));
}

/// Checks that no step began before the one before it was over.
fn check_order(order: &[String]) {
    let last = |names: [&str; 2]| order.iter().rposition(|name| names.contains(&name.as_str())).unwrap();
    let first = |names: [&str; 2]| order.iter().position(|name| names.contains(&name.as_str())).unwrap();
    assert!(last(["x", "y"]) < first(["a", "b"]) && last(["a", "b"]) < first(["c", "d"]), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn releases_that_are_yet_to_be_imported_take_their_turns() {
    let world = installed(OnGateFailure::Halt).await;
    // No status names a release, so that only an import finds them.
    for name in NAMES {
        let path = primary("ns", name, Value::Null).0;
        let mut resource = world.server.object(&path).unwrap();
        resource["status"] = Value::Null;
        world.server.put(&path, resource, "user");
    }
    let from = world.server.log().len();
    let world = World::with_events(world.server, Arc::new(Stub { chart: "v2", ..Stub::default() }), |settings| {
        (settings.rollout, settings.home) = (Some(rule(OnGateFailure::Halt)), Home::in_namespace("records"));
    });
    reconcile_all(&world, 8).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
    check_order(&order(&world, from));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_another_resource_took_over_before_the_records_moved_holds_no_rollout_back() {
    let world = installed(OnGateFailure::Halt).await;
    let taken = world.shared.storage.get("ns", "a", 1).await.unwrap();
    let (owner, owner_type) = ("another".into(), "Redis.cache.my.domain".into());
    let marks = Marks { owner, owner_type, ..taken.marks.clone().unwrap() };
    let mut release = taken.release.facts().clone();
    release.version = 2;
    world.shared.storage.create(&release, &marks).await.unwrap();
    let world = World::with_events(world.server, Arc::new(Stub { chart: "v2", ..Stub::default() }), |settings| {
        (settings.rollout, settings.home) = (Some(rule(OnGateFailure::Halt)), Home::in_namespace("records"));
    });
    assert_eq!(world.shared.turns.part(&keys()[0]), Some(Part::Uncompared { failed: false }));
    reconcile_all(&world, 8).await;
    let condition = world.condition_of(&keys()[0], "Irreconcilable").unwrap();
    assert!(condition.starts_with("True/ReleaseConflict/"), "{condition}");
    assert_eq!(with_chart(&world, "v2"), ["b", "c", "d", "x", "y"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_canary_that_is_yet_to_be_taken_over_halts_the_rollout_over_restarts() {
    let world = installed(OnGateFailure::Halt).await;
    ["a", "x"].iter().for_each(|name| give_to_upstream(&world, name));
    refuse(&world.server, "x");
    let mut world = serving(world.server, "v2", OnGateFailure::Halt);
    for _ in 0..2 {
        reconcile_all(&world, 5).await;
        assert_eq!(with_chart(&world, "v2"), [""; 0]);
        assert_eq!(["a", "b"].map(|name| reconciling(&world, name)), ["True/RolloutHalted"; 2]);
        // Events are published in the background.
        let sent = || world.server.log().iter().filter(|line| !line.contains("/events")).count();
        let before = sent();
        world.reconcile_one(&keys()[0]).await;
        assert_eq!(sent(), before, "it is compared once");
        world = serving(world.server, "v2", OnGateFailure::Halt);
    }
    world.server.accept();
    reconcile_all(&world, 8).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
}

#[tokio::test(start_paused = true)]
async fn releases_that_are_taken_over_as_they_are_begin_no_rollout() {
    let serving = |server: Arc<MemoryApi>| {
        World::with_events(server, Arc::new(with_sources()), |settings| {
            settings.rollout = Some(rule(OnGateFailure::Halt));
        })
    };
    for give in [give_to_upstream, cut_off_takeover] {
        let world = install(serving(empty())).await;
        NAMES.iter().for_each(|name| give(&world, name));
        let world = serving(world.server);
        reconcile_all(&world, 3).await;
        for key in keys() {
            let release = world.shared.cache.release(&key).unwrap();
            let (version, newest) = release.newest().unwrap();
            let marks = newest.marks.as_ref().unwrap();
            assert!(
                version == 1 && newest.is_sealed() && marks.complete && !marks.inputs.is_empty(),
                "{key}: {newest:?}"
            );
        }
        assert_eq!(rollout_events(&world).await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_canary_halts_the_rollout_until_it_no_longer_fails() {
    let world = installed(OnGateFailure::Halt).await;
    refuse(&world.server, "x");
    let mut world = serving(world.server, "v2", OnGateFailure::Halt);
    for _ in 0..2 {
        reconcile_all(&world, 5).await;
        assert_eq!(with_chart(&world, "v2"), [""; 0], "nor the other canary");
        assert_eq!(reconciling(&world, "a"), "True/RolloutHalted");
        let condition = world.condition_of(&keys()[0], "Reconciling").unwrap();
        assert!(
            condition.contains("halted at step 1 of 3 (canaries)")
                && condition.contains("1 upgraded, 0 ready, 1 failed"),
            "{condition}"
        );
        assert!(world.condition_of(&keys()[0], "Ready").unwrap().starts_with("True/Ready/"));
        world = serving(world.server, "v2", OnGateFailure::Halt);
    }
    world.server.accept();
    reconcile_all(&world, 5).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_may_not_delete_what_it_drops_halts_the_rollout_until_it_may() {
    let (world, x) = (installed(OnGateFailure::Halt).await, ResourceKey::new("ns", "x"));
    edit(&world, "x", "maps", json!(["x", "e"]));
    edit(&world, "x", "by", json!({"v2": {"maps": ["x"]}}));
    world.reconcile_one(&x).await;
    assert!(world.server.object(&format!("{MAPS}/e")).is_some());
    world.server.refuse(|call| {
        let is_it = call.method == http::Method::DELETE && call.path.contains("/configmaps/e");
        is_it.then(|| Error::from_status(403, "Forbidden", "denied by policy"))
    });
    let mut world = serving(world.server, "v2", OnGateFailure::Halt);
    for _ in 0..2 {
        reconcile_all(&world, 5).await;
        let newest = world.shared.cache.release(&x).unwrap().newest().unwrap().1.status;
        assert_eq!((with_chart(&world, "v2"), newest), (vec!["x"], Status::PendingUpgrade));
        assert_eq!(reconciling(&world, "a"), "True/RolloutHalted");
        let condition = world.condition_of(&keys()[0], "Reconciling").unwrap();
        assert!(condition.contains("1 upgraded, 0 ready, 1 failed"), "{condition}");
        world = serving(world.server, "v2", OnGateFailure::Halt);
    }
    world.server.accept();
    reconcile_all(&world, 5).await;
    assert_eq!((with_chart(&world, "v2"), world.server.object(&format!("{MAPS}/e"))), (NAMES.to_vec(), None));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_waited_for_memory_says_that_the_rollout_is_halted_since() {
    let world = installed(OnGateFailure::Halt).await;
    let path = primary("ns", "a", Value::Null).0;
    let mut hooked = world.server.object(&path).unwrap();
    (hooked["spec"]["hooks"], hooked["metadata"]["generation"]) = (json!([hook("back", "pre-rollback")]), 2.into());
    world.server.put(&path, hooked, "user");
    world.reconcile_one(&keys()[0]).await;
    refuse(&world.server, "b");
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    let others = filled(&world);
    assert!(others.is_some());
    reconcile_all(&world, 2).await;
    assert_eq!((with_chart(&world, "v2"), reconciling(&world, "a")), (vec!["x", "y"], "True/ActionQueued".into()));
    reconcile_all(&world, 1).await;
    assert_eq!(reconciling(&world, "a"), "True/RolloutHalted");
    assert!(world.shared.memory.of(&keys()[0]).lacking.is_none());
    drop(others);
    world.server.accept();
    reconcile_all(&world, 12).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
}

/// Returns the events of rollouts, which are on the process, oldest first.
async fn rollout_events(world: &World) -> Vec<String> {
    // They are published in the background.
    tokio::time::sleep(SECOND).await;
    let events = events(&world.server).into_iter().filter(|event| event["regarding"]["kind"] == "Lease");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events.map(|event| [&event["type"], &event["reason"], &event["note"]].map(text).join(" ")).collect()
}

#[tokio::test(start_paused = true)]
async fn each_step_is_published_once_however_many_releases_and_processes_there_are() {
    let world = installed(OnGateFailure::Halt).await;
    let world = serving(world.server, "v1", OnGateFailure::Halt);
    world.work_for(10 * SECOND).await;
    assert_eq!(rollout_events(&world).await, [""; 0]);
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    world.work_for(10 * SECOND).await;
    assert_eq!(
        rollout_events(&world).await,
        [
            "Normal RolloutStarted the rollout of chart memcached-0.1.0 to Memcached begins: 6 releases, step 1 of 3 \
             (canaries)",
            "Normal RolloutStep the rollout of chart memcached-0.1.0 to Memcached has passed its gate (canaries): \
             2 upgraded, 2 ready, 0 failed; now step 2 of 3 (50% of the others)",
            "Normal RolloutStep the rollout of chart memcached-0.1.0 to Memcached has passed its gate (50% of the others): \
             4 upgraded, 4 ready, 0 failed; now step 3 of 3 (the remainder)",
            "Normal RolloutCompleted the rollout of chart memcached-0.1.0 to Memcached is complete: no release waits; \
             6 upgraded, 6 ready, 0 failed",
        ]
    );
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    world.work_for(10 * SECOND).await;
    assert_eq!(rollout_events(&world).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_halt_and_its_end_are_published_once_and_counted_by_metrics() {
    let world = installed(OnGateFailure::Halt).await;
    refuse(&world.server, "x");
    let mut world = serving(world.server, "v2", OnGateFailure::Halt);
    for _ in 0..2 {
        reconcile_all(&world, 5).await;
        let expected = "Warning RolloutHalted the rollout of chart memcached-0.1.0 to Memcached is halted at step 1 of 3 \
             (canaries), because its gate is not met (releases.ready == releases.updated): 1 upgraded, 0 ready, 1 failed";
        assert_eq!(rollout_events(&world).await[1..], [expected]);
        world = serving(world.server, "v2", OnGateFailure::Halt);
    }
    let rollout = |world: &World| world.shared.count().rollout.unwrap();
    let halted = rollout(&world);
    assert_eq!((halted.phase, halted.step, halted.steps), (Some("halted"), 1, 3));
    assert_eq!(halted.upgraded, 0.0);
    world.server.accept();
    reconcile_all(&world, 5).await;
    assert!(
        rollout_events(&world).await[2].starts_with("Normal RolloutResumed "),
        "{:?}",
        rollout_events(&world).await
    );
    assert!(
        rollout_events(&world).await.last().unwrap().starts_with("Normal RolloutCompleted "),
        "{:?}",
        rollout_events(&world).await
    );
    let over = rollout(&world);
    assert_eq!((over.phase, over.step, over.upgraded), (None, 0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn a_canary_whose_upgrade_waits_for_a_silent_server_is_named_once() {
    let (world, x) = (installed(OnGateFailure::Halt).await, ResourceKey::new("ns", "x"));
    world.server.serve("route.my.domain/v1", "Route", "routes");
    let route = json!({"apiVersion": "route.my.domain/v1", "kind": "Route", "metadata": {"name": "web"}});
    edit(&world, "x", "objects", json!([route]));
    world.reconcile_one(&x).await;
    let live = world.server.object("/apis/route.my.domain/v1/namespaces/ns/routes/web").unwrap();
    world.server.unserve("route.my.domain/v1", "Route");
    world.server.serve_stale("route.my.domain/v1");
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    world.shared.applier.mapper.refresh().await.unwrap();
    reconcile_all(&world, 7).await;
    assert_eq!(rollout_events(&world).await.len(), 1, "seven attempts fail within half a minute");
    reconcile_all(&world, 5).await;
    assert_eq!(with_chart(&world, "v2"), ["y"], "it is not skipped");
    assert_eq!(reconciling(&world, "a"), "True/RolloutWaiting");
    let events = rollout_events(&world).await;
    let [started, obstructed] = &events[..] else { panic!("{events:#?}") };
    let expected = "Warning RolloutObstructed the rollout of chart memcached-0.1.0 to Memcached is held up at step 1 of 3 \
         (canaries) by ns/x, which cannot be upgraded now: cannot make the next revision: the API server behind APIService \
         \"v1.route.my.domain\" does not answer";
    assert!(started.starts_with("Normal RolloutStarted ") && obstructed.starts_with(expected), "{events:#?}");
    world.server.serve("route.my.domain/v1", "Route", "routes");
    world.server.accept();
    reconcile_all(&world, 5).await;
    assert!(with_chart(&world, "v2").contains(&"x"));
    let now = world.server.object("/apis/route.my.domain/v1/namespaces/ns/routes/web").unwrap();
    assert_eq!(now["metadata"]["uid"], live["metadata"]["uid"], "it was never deleted");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_is_published_once() {
    let world = installed(OnGateFailure::Rollback).await;
    refuse(&world.server, "b");
    let mut world = serving(world.server, "v2", OnGateFailure::Rollback);
    for _ in 0..2 {
        reconcile_all(&world, 5).await;
        let back =
            rollout_events(&world).await.into_iter().filter(|event| event.starts_with("Warning RolloutRolledBack "));
        assert_eq!(back.count(), 1);
        assert_eq!(world.shared.count().rollout.unwrap().phase, Some("rolled-back"));
        world = serving(world.server, "v2", OnGateFailure::Rollback);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_by_its_owner_and_a_request_are_not_held() {
    let world = installed(OnGateFailure::Halt).await;
    refuse(&world.server, "x");
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    reconcile_all(&world, 4).await;
    let change = |name: &str, change: &dyn Fn(&mut Value)| {
        let path = primary("ns", name, Value::Null).0;
        let mut object = world.server.object(&path).unwrap();
        change(&mut object);
        world.server.put(&path, object, "user");
    };
    change("c", &|object| (object["spec"]["value"], object["metadata"]["generation"]) = ("y".into(), 2.into()));
    let token = json!({"helm.sdk.operatorframework.io/reconcile-now": "one"});
    change("d", &|object| object["metadata"]["annotations"] = token.clone());
    reconcile_all(&world, 4).await;
    assert_eq!(with_chart(&world, "v2"), ["c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_rolled_out_is_taken_back_and_stays_so_until_the_next_chart() {
    let world = installed(OnGateFailure::Rollback).await;
    refuse(&world.server, "b");
    let mut world = serving(world.server, "v2", OnGateFailure::Rollback);
    for _ in 0..3 {
        reconcile_all(&world, 5).await;
        assert_eq!(with_chart(&world, "v1"), NAMES);
        for name in ["a", "c", "x", "y"] {
            assert_eq!(reconciling(&world, name), "True/RolloutRolledBack", "{name}");
            assert!(world.condition_of(&ResourceKey::new("ns", name), "Ready").unwrap().starts_with("True/Ready/"));
        }
        let revisions = |name: &str| world.shared.cache.release(&ResourceKey::new("ns", name)).unwrap().revisions.len();
        assert_eq!(["a", "c", "x"].map(revisions), [3, 1, 3], "the third is the rollback");
        world = serving(world.server, "v2", OnGateFailure::Rollback);
    }
    // A request for one release upgrades that release.
    let path = primary("ns", "c", Value::Null).0;
    let mut object = world.server.object(&path).unwrap();
    object["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/reconcile-now": "one"});
    world.server.put(&path, object, "user");
    reconcile_all(&world, 4).await;
    assert_eq!(with_chart(&world, "v2"), ["c"]);
    let world = serving(world.server, "v3", OnGateFailure::Rollback);
    reconcile_all(&world, 5).await;
    assert_eq!(with_chart(&world, "v3"), NAMES);
}

/// Creates a controller that has just started, rolls v2 out, and keeps ten revisions.
fn keeping_revisions(server: Arc<MemoryApi>) -> World {
    World::with_events(server, Arc::new(Stub { chart: "v2", ..Stub::default() }), |settings| {
        (settings.rollout, settings.max_history) = (Some(rule(OnGateFailure::Rollback)), 10);
    })
}

/// Creates six releases and a process that has taken v2 back from `x`, the only one that it had brought it to.
async fn with_a_canary_taken_back() -> World {
    let x = ResourceKey::new("ns", "x");
    let world = keeping_revisions(with_a_canary_in_trouble(false).await.server);
    // It does not become ready in time.
    for _ in 0..3 {
        world.reconcile_one(&x).await;
        tokio::time::advance(Duration::from_secs(601)).await;
    }
    world.reconcile_one(&x).await;
    assert_eq!(
        (world.value_of("x"), world.shared.count().rollout.unwrap().phase),
        (json!("x by v1"), Some("rolled-back"))
    );
    world
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_back_from_the_only_release_reaches_no_other_while_a_person_stops_that_one() {
    let x = ResourceKey::new("ns", "x");
    let mut world = with_a_canary_taken_back().await;
    for annotation in [Some(("suspend", "true")), Some(("pin", "2")), Some(("pin", "1")), None] {
        let path = primary("ns", "x", Value::Null).0;
        let mut object = world.server.object(&path).unwrap();
        let named = annotation.map(|(name, value)| (format!("helm.sdk.operatorframework.io/{name}"), json!(value)));
        object["metadata"]["annotations"] = Value::Object(named.into_iter().collect());
        world.server.put(&path, object, "user");
        for _ in 0..2 {
            reconcile_all(&world, 3).await;
            assert_eq!(with_chart(&world, "v2"), [""; 0], "{annotation:?}");
            assert_eq!(reconciling(&world, "a"), "True/RolloutRolledBack", "{annotation:?}");
            world = keeping_revisions(world.server);
        }
    }
    let newest = world.shared.cache.release(&x).unwrap().newest().unwrap().1.marks.clone().unwrap();
    assert_eq!(newest.rolled_back_to, Some(1), "the pin was obeyed");
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_back_from_a_release_does_not_return_when_a_person_changes_that_with_helm() {
    for is_suspended in [false, true] {
        let (world, path) = (with_a_canary_taken_back().await, primary("ns", "x", Value::Null).0);
        let made = revision(&world, "x") + 1;
        upgrade_with_helm(&world, "x").await;
        if is_suspended {
            let mut object = world.server.object(&path).unwrap();
            object["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/suspend": "true"});
            world.server.put(&path, object, "user");
        }
        reconcile_all(&world, 4).await;
        assert_eq!(with_chart(&world, "v2"), [""; 0], "suspended: {is_suspended}");
        assert_eq!((world.value_of("x"), revision(&world, "x")), (json!("x by hand after v1"), made));
        assert_eq!(world.shared.count().rollout.unwrap().phase, Some("rolled-back"));
        assert_eq!(reconciling(&world, "a"), "True/RolloutRolledBack", "suspended: {is_suspended}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_back_from_a_release_does_not_return_when_helm_fails_to_change_it() {
    for restarts in [false, true] {
        let world = with_a_canary_taken_back().await;
        fail_to_upgrade_with_helm(&world, "x").await;
        let world = if restarts { keeping_revisions(world.server) } else { world };
        reconcile_all(&world, 4).await;
        assert_eq!((with_chart(&world, "v2"), world.value_of("x")), (vec![], json!("x by v1")), "{restarts}");
        assert_eq!(world.shared.count().rollout.unwrap().phase, Some("rolled-back"), "restarts: {restarts}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_vanishes_while_its_status_is_written_keeps_no_place_in_the_rollout() {
    let world = installed(OnGateFailure::Halt).await;
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    let (server, path) = (world.server.clone(), primary("ns", "a", Value::Null).0);
    let gone = path.clone();
    world.server.refuse(move |call| {
        if call.path.starts_with(&format!("{gone}/status")) {
            server.remove(&gone);
        }
        None
    });
    world.reconcile_one(&keys()[0]).await;
    world.server.accept();
    assert_eq!(world.server.object(&path), None, "its status was written");
    assert!(!world.shared.turns.knows(&keys()[0]) && world.shared.queue.timers() == 0);
    reconcile_all(&world, 6).await;
    assert_eq!(with_chart(&world, "v2"), ["b", "c", "d", "x", "y"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_token_was_judged_late_is_looked_at_when_the_pause_of_a_step_ends() {
    let world = installed(OnGateFailure::Halt).await;
    let ([a, .., x, y], path) = (keys(), primary("ns", "a", Value::Null).0);
    let mut resource = world.server.object(&path).unwrap();
    resource["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/retry-now": "one"});
    world.server.put(&path, resource, "user");
    let world = pausing(world.server, "", OnGateFailure::Halt);
    // At first, the server does not say whether the status can report the token.
    world.server.refuse(|call| call.path.ends_with("dryRun=All").then(|| Error::from_status(503, "", "away")));
    world.reconcile_one(&a).await;
    world.server.accept();
    undeclare_handled(&world);
    tokio::time::advance(SECOND).await;
    for key in [&a, &x, &y, &x, &y] {
        world.reconcile_one(key).await;
    }
    assert_eq!(with_chart(&world, "v2"), ["x", "y"]);
    assert_eq!(world.reconcile_one(&a).await, ReconcileResult::RequeueAfter, "{}", reconciling(&world, "a"));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_of_a_rollout_holds_nothing_once_its_rule_is_gone() {
    let world = installed(OnGateFailure::Rollback).await;
    refuse(&world.server, "b");
    let world = serving(world.server, "v2", OnGateFailure::Rollback);
    reconcile_all(&world, 5).await;
    assert_eq!(with_chart(&world, "v1"), NAMES);
    world.server.accept();
    let world = World::with_events(world.server, Arc::new(Stub { chart: "v2", ..Stub::default() }), |_| {});
    reconcile_all(&world, 5).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
    assert!(NAMES.iter().all(|name| reconciling(&world, name).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_recreated_resource_gets_its_release_back_while_the_rollout_is_halted() {
    let world = installed(OnGateFailure::Halt).await;
    refuse(&world.server, "x");
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    reconcile_all(&world, 5).await;
    let path = primary("ns", "a", Value::Null).0;
    world.recreate(&path);
    world.server.remove(&format!("{MAPS}/a"));
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    reconcile_all(&world, 2).await;
    let (resource, map) = (world.server.object(&path).unwrap(), world.server.object(&format!("{MAPS}/a")).unwrap());
    assert_eq!(resource["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(map["metadata"]["ownerReferences"][0]["uid"], resource["metadata"]["uid"]);
    assert_eq!((with_chart(&world, "v2"), world.value_of("a")), (vec![], json!("x by v1")));
    world.server.accept();
    reconcile_all(&world, 5).await;
    assert_eq!(with_chart(&world, "v2"), NAMES, "its turn comes");
}

/// Creates a controller that has yet to list its namespace. Returns it with that namespace and the canaries, which are
/// hidden.
async fn before_the_canaries_are_listed() -> (World, WatchScope, [Vec<(String, Value)>; 2]) {
    let world = installed(OnGateFailure::Halt).await;
    let canaries = ["x", "y"].map(|name| hide(&world.server, &primary("ns", name, Value::Null).0));
    let (world, scope) = (serving(world.server, "v2", OnGateFailure::Halt), WatchScope::namespace("ns"));
    world.shared.unseen.require([scope.clone()]);
    (world, scope, canaries)
}

#[tokio::test(start_paused = true)]
async fn no_step_begins_before_the_canaries_may_be_listed() {
    let (world, scope, canaries) = before_the_canaries_are_listed().await;
    world.open();
    reconcile_all(&world, 3).await;
    assert_eq!((with_chart(&world, "v2"), reconciling(&world, "a")), (vec![], "True/RolloutUnknown".into()));
    canaries.into_iter().for_each(|canary| show(&world.server, canary));
    world.relist(&scope, "ns");
    reconcile_all(&world, 1).await;
    assert_eq!(with_chart(&world, "v2"), ["x", "y"]);
    reconcile_all(&world, 5).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
}

#[tokio::test(start_paused = true)]
async fn no_step_begins_without_the_canaries_whose_list_ends_just_before_the_start() {
    let (world, scope, canaries) = before_the_canaries_are_listed().await;
    canaries.into_iter().for_each(|canary| show(&world.server, canary));
    world.relist(&scope, "ns");
    restore::open(&world.shared);
    for name in ["a", "b", "c", "d"] {
        reconcile::reconcile(&world.shared, &ResourceKey::new("ns", name), &(), Priority::Retry).await;
    }
    assert_eq!(with_chart(&world, "v2"), [""; 0], "the canaries come first");
    reconcile_all(&world, 6).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
}

#[tokio::test(start_paused = true)]
async fn no_step_begins_without_the_canaries_once_the_last_release_whose_records_were_unknown_is_gone() {
    let world = installed(OnGateFailure::Halt).await;
    let last = world.add("other", "z", json!({"maps": ["z"], "value": "x"}));
    world.reconcile_one(&last).await;
    let canaries = ["x", "y"].map(|name| hide(&world.server, &primary("ns", name, Value::Null).0));
    let unrecorded = hide(&world.server, "/other/memcacheds/");
    let (world, scope) = (serving(world.server, "v2", OnGateFailure::Halt), WatchScope::namespace("ns"));
    world.releases.lost(&WatchScope::namespace("other"));
    world.shared.unseen.require([scope.clone()]);
    world.open();
    show(&world.server, unrecorded);
    reconcile_all(&world, 1).await;
    canaries.into_iter().for_each(|canary| show(&world.server, canary));
    world.relist(&scope, "ns");
    assert!(world.shared.unseen.is_any());
    world.server.remove(&primary("other", "z", Value::Null).0);
    world.feed();
    assert!(!world.shared.unseen.is_any());
    for name in ["a", "b", "c", "d"] {
        reconcile::reconcile(&world.shared, &ResourceKey::new("ns", name), &(), Priority::Retry).await;
    }
    assert_eq!(with_chart(&world, "v2"), [""; 0], "the canaries come first");
    reconcile_all(&world, 6).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
}

/// Nothing fails, but canaries that were not ready before prove nothing.
#[tokio::test(start_paused = true)]
async fn canaries_that_prove_nothing_are_woken_and_taken_back_when_the_pause_ends() {
    let _simulation = outside::Simulation::begin("2026-01-01T12:00:00Z".parse().unwrap(), 1);
    let (world, [a, .., x, y]) = (installed(OnGateFailure::Rollback).await, keys());
    for (name, key) in [("x", &x), ("y", &y)] {
        edit(&world, name, "deployments", json!([name]));
        world.reconcile_one(key).await;
        set_deployment_ready(&world, name, false);
        world.reconcile_one(key).await;
    }
    let world = pausing(world.server, "releases.ready / releases.updated >= 0.5", OnGateFailure::Rollback);
    world.open();
    for key in [&x, &y, &x, &y, &a] {
        world.reconcile_one(key).await;
    }
    assert_eq!(with_chart(&world, "v2"), ["x", "y"]);
    assert_eq!(world.shared.count().rollout.unwrap().phase, Some("baking"));
    tokio::time::advance(Duration::from_secs(3600)).await;
    // The timers.
    woken(&world).await;
    world.reconcile_one(&a).await;
    let woken = woken(&world).await;
    assert!(woken.contains(&x) && woken.contains(&y), "{woken:?}");
    for key in [&x, &y] {
        world.reconcile_one(key).await;
    }
    assert_eq!(with_chart(&world, "v1"), NAMES);
}

/// Takes all keys from the queue, until none comes for a second.
async fn woken(world: &World) -> Vec<ResourceKey> {
    let mut woken = Vec::new();
    while let Ok(key) = tokio::time::timeout(SECOND, world.shared.queue.next()).await {
        world.shared.queue.done(&key);
        woken.push(key);
    }
    woken
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_status_is_written_while_the_pause_ends_looks_at_its_turn_again() {
    let _simulation = outside::Simulation::begin("2026-01-01T12:00:00Z".parse().unwrap(), 1);
    let (world, [_, b, .., x, y]) = (installed(OnGateFailure::Halt).await, keys());
    let world = pausing(world.server, "", OnGateFailure::Halt);
    world.open();
    for key in [&x, &y, &x, &y] {
        world.reconcile_one(key).await;
    }
    let Phase::Baking(until) = world.shared.turns.progress().phase else { panic!("no pause") };
    woken(&world).await;
    tokio::time::advance(Duration::try_from(until.duration_since(outside::now())).unwrap() - SECOND).await;
    world.server.slow_down(2 * SECOND);
    reconcile::reconcile(&world.shared, &b, &(), Priority::Retry).await;
    assert!(outside::now() > until && world.value_of("b") == "x by v1", "it was decided before the pause ended");
    let woken = woken(&world).await;
    assert!(woken.contains(&b), "{woken:?}");
}

/// Changes a resource's `spec` as its owner would.
fn edit(world: &World, name: &str, field: &str, value: Value) {
    let path = primary("ns", name, Value::Null).0;
    let mut object = world.server.object(&path).unwrap();
    let generation = object["metadata"]["generation"].as_i64().unwrap();
    (object["spec"][field], object["metadata"]["generation"]) = (value, (generation + 1).into());
    world.server.put(&path, object, "user");
}

/// Gives a resource this annotation and no other, or none.
fn annotate(world: &World, name: &str, annotation: Option<(&str, &str)>) {
    let path = primary("ns", name, Value::Null).0;
    let mut object = world.server.object(&path).unwrap();
    let named = annotation.map(|(key, value)| (format!("helm.sdk.operatorframework.io/{key}"), json!(value)));
    object["metadata"]["annotations"] = Value::Object(named.into_iter().collect());
    world.server.put(&path, object, "user");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_person_no_longer_stops_waits_while_the_rollout_is_stopped() {
    for (on_failure, reason) in [(OnGateFailure::Halt, HALTED), (OnGateFailure::Rollback, ROLLED_BACK)] {
        for stop in [("suspend", "true"), ("pin", "1")] {
            let world = installed(on_failure).await;
            annotate(&world, "a", Some(stop));
            refuse(&world.server, "x");
            let world = serving(world.server, "v2", on_failure);
            reconcile_all(&world, 4).await;
            assert_eq!(world.shared.turns.part(&keys()[0]), Some(Part::None));
            annotate(&world, "a", None);
            reconcile_all(&world, 4).await;
            assert_eq!(with_chart(&world, "v2"), [""; 0], "{stop:?}");
            assert_eq!(reconciling(&world, "a"), reason, "{stop:?}");
            if on_failure == OnGateFailure::Halt {
                world.server.accept();
                reconcile_all(&world, 8).await;
                assert_eq!(with_chart(&world, "v2"), NAMES, "{stop:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_owner_undoes_a_change_that_failed_waits_while_the_rollout_is_halted() {
    let world = installed(OnGateFailure::Halt).await;
    ["a", "x"].into_iter().for_each(|name| refuse(&world.server, name));
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    edit(&world, "a", "value", "y".into());
    reconcile_all(&world, 4).await;
    assert_eq!(world.shared.turns.part(&keys()[0]), Some(Part::None));
    world.server.accept();
    refuse(&world.server, "x");
    edit(&world, "a", "value", "x".into());
    reconcile_all(&world, 4).await;
    assert_eq!((with_chart(&world, "v2"), world.value_of("a")), (vec![], json!("x by v1")));
    world.server.accept();
    reconcile_all(&world, 8).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
}

/// Creates six releases at v1, of which the canary `x` has a Deployment and was ready, and a process that has brought v2
/// to `x` alone, which is refused or does not become ready.
async fn with_a_canary_in_trouble(is_refused: bool) -> World {
    let (world, x) = (installed(OnGateFailure::Rollback).await, ResourceKey::new("ns", "x"));
    edit(&world, "x", "deployments", json!(["x"]));
    world.reconcile_one(&x).await;
    set_deployment_ready(&world, "x", true);
    world.reconcile_one(&x).await;
    let world = serving(world.server, "v2", OnGateFailure::Rollback);
    set_deployment_ready(&world, "x", false);
    if is_refused {
        refuse(&world.server, "x");
    }
    world.reconcile_one(&x).await;
    world.server.accept();
    assert_eq!(world.value_of("x"), if is_refused { "x by v1" } else { "x by v2" });
    assert!(world.shared.rollout.holds(&x));
    world
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_stops_the_rollout_by_its_own_report_is_woken_to_be_taken_back() {
    let (world, [.., x, _]) = (with_a_canary_in_trouble(false).await, keys());
    let world = without_period(world.server, rule(OnGateFailure::Rollback));
    world.open();
    let phase = || world.shared.count().rollout.unwrap().phase;
    for _ in 0..5 {
        world.feed();
        woken(&world).await;
        reconcile::reconcile(&world.shared, &x, &(), Priority::Retry).await;
        if phase() == Some("rolled-back") {
            break;
        }
        tokio::time::advance(Duration::from_secs(601)).await;
    }
    assert_eq!((world.value_of("x"), phase()), (json!("x by v2"), Some("rolled-back")));
    let woken = woken(&world).await;
    assert!(woken.contains(&x), "{woken:?}");
    for key in [&x, &x] {
        world.reconcile_one(key).await;
    }
    assert_eq!(with_chart(&world, "v1"), NAMES);
}

/// Fails the gate, and checks that the change of `x` by its owner outlasts that, also in another process.
async fn is_kept(mut world: World) {
    let x = ResourceKey::new("ns", "x");
    let revision = |world: &World| world.shared.cache.release(&x).unwrap().newest().unwrap().0;
    refuse(&world.server, "y");
    let made = revision(&world);
    for _ in 0..2 {
        reconcile_all(&world, 5).await;
        assert_eq!((world.value_of("x"), revision(&world)), (json!("mine by v2"), made));
        assert_eq!((with_chart(&world, "v2"), reconciling(&world, "a")), (vec!["x"], "True/RolloutRolledBack".into()));
        world = serving(world.server, "v2", OnGateFailure::Rollback);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_owner_changed_to_help_a_release_is_not_taken_back() {
    for is_refused in [false, true] {
        let (world, x) = (with_a_canary_in_trouble(is_refused).await, ResourceKey::new("ns", "x"));
        edit(&world, "x", "value", "mine".into());
        world.reconcile_one(&x).await;
        assert_eq!(world.value_of("x"), "mine by v2", "refused: {is_refused}");
        is_kept(world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_by_the_owner_that_meets_the_rollback_is_kept() {
    let (world, [.., x, y]) = (with_a_canary_in_trouble(false).await, keys());
    refuse(&world.server, "y");
    world.reconcile_one(&y).await;
    assert_eq!(world.shared.count().rollout.unwrap().phase, Some("rolled-back"));
    edit(&world, "x", "value", "mine".into());
    world.reconcile_one(&x).await;
    is_kept(world).await;
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_nobody_can_see_for_long_is_not_taken_back() {
    let (world, [.., x, y]) = (with_a_canary_in_trouble(false).await, keys());
    // No watch reports it.
    set_deployment_ready(&world, "x", true);
    world.server.refuse(|call| {
        let reads = call.method == http::Method::GET && call.path.contains("/deployments/");
        reads.then(|| Error::from_status(500, "InternalError", "no answer"))
    });
    for _ in 0..5 {
        for key in [&x, &y] {
            reconcile::reconcile(&world.shared, key, &(), Priority::Retry).await;
        }
        tokio::time::advance(Duration::from_secs(300)).await;
    }
    assert_eq!((world.condition_of(&x, "Stalled"), with_chart(&world, "v2")), (None, vec!["x", "y"]));
    assert_eq!(world.shared.count().rollout.unwrap().phase, Some("moving"));
    world.server.accept();
    reconcile_all(&world, 5).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
}

/// Creates a controller that has just started, whose rollouts have one step with a gate and then no release left.
fn in_one_step(server: Arc<MemoryApi>, chart: &'static str) -> World {
    World::with_events(server, Arc::new(Stub { chart, ..Stub::default() }), |settings| {
        settings.rollout = Some(Arc::new(rollout_of(None, &[100], "", OnGateFailure::Rollback)));
    })
}

/// Creates six releases that a rollout has brought to v2. Since then, the owner of `c` has changed its `spec`, and `b`
/// has failed.
async fn rolled_out() -> World {
    let (world, [_, b, c, ..]) = (install(in_one_step(empty(), "v1")).await, keys());
    edit(&world, "b", "deployments", json!(["b"]));
    world.reconcile_one(&b).await;
    set_deployment_ready(&world, "b", true);
    world.reconcile_one(&b).await;
    let world = in_one_step(world.server, "v2");
    reconcile_all(&world, 3).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
    edit(&world, "c", "value", "mine".into());
    world.reconcile_one(&c).await;
    set_deployment_ready(&world, "b", false);
    reconcile_all(&world, 3).await;
    assert!(matches!(world.shared.turns.part(&b), Some(Part::Reached { state: Reached::Failed, .. })));
    world
}

/// Upgrades a release as a person does with helm, which rewrites the record of the revision before without annotations.
async fn upgrade_with_helm(world: &World, name: &str) {
    let newest = revision(world, name);
    let path = |version: u32| format!("{SECRETS}/sh.helm.release.v1.{name}.v{version}");
    let mut release = world.shared.storage.get("ns", name, newest).await.unwrap().release.facts().clone();
    let mut before = world.server.object(&path(newest)).unwrap();
    for (version, status) in [(newest, Status::Superseded), (newest + 1, Status::Deployed)] {
        (release.version, release.info.status) = (version, status);
        if version > newest {
            release.manifest = release.manifest.replace(" by ", " by hand after ");
        }
        let record = Packed::pack(&release).unwrap().to_record().into_bytes();
        before["metadata"]["annotations"] = Value::Null;
        before["metadata"]["labels"]["status"] = status.as_str().into();
        before["metadata"]["labels"]["version"] = version.to_string().into();
        before["data"]["release"] = serde_json::to_value(ByteString(record)).unwrap();
        let metadata = json!({"name": release.key(), "labels": before["metadata"]["labels"]});
        let new = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": before["data"]});
        world.server.put(&path(version), if version > newest { new } else { before.clone() }, "helm");
    }
    let map = format!("{MAPS}/{name}");
    let mut live = world.server.object(&map).unwrap();
    live["data"]["value"] = live["data"]["value"].as_str().unwrap().replace(" by ", " by hand after ").into();
    world.server.put(&map, live, "helm");
}

/// Lets an upgrade of a release with helm fail, which leaves the record of the deployed revision as it is.
async fn fail_to_upgrade_with_helm(world: &World, name: &str) {
    let deployed = revision(world, name);
    let path = |version: u32| format!("{SECRETS}/sh.helm.release.v1.{name}.v{version}");
    let mut release = world.shared.storage.get("ns", name, deployed).await.unwrap().release.facts().clone();
    (release.version, release.info.status) = (deployed + 1, Status::Failed);
    let record = Packed::pack(&release).unwrap().to_record().into_bytes();
    let mut labels = world.server.object(&path(deployed)).unwrap()["metadata"]["labels"].clone();
    labels["status"] = Status::Failed.as_str().into();
    labels["version"] = release.version.to_string().into();
    let data = json!({"release": serde_json::to_value(ByteString(record)).unwrap()});
    let metadata = json!({"name": release.key(), "labels": labels});
    let failed = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
    world.server.put(&path(release.version), failed, "helm");
}

/// Returns the number of a release's newest revision.
fn revision(world: &World, name: &str) -> u32 {
    world.shared.cache.release(&ResourceKey::new("ns", name)).unwrap().newest().unwrap().0
}

#[tokio::test(start_paused = true)]
async fn what_a_person_does_with_helm_after_a_rollout_is_undone_at_once_and_begins_none() {
    for restarts in [false, true] {
        let world = rolled_out().await;
        let ([a, _, c, ..], published) = (keys(), rollout_events(&world).await);
        assert_eq!(NAMES.map(|name| revision(&world, name)), [2, 3, 3, 2, 2, 2]);
        upgrade_with_helm(&world, "a").await;
        upgrade_with_helm(&world, "c").await;
        let world = if restarts { in_one_step(world.server, "v2") } else { world };
        for (key, value) in [(&a, "x by v2"), (&c, "mine by v2")] {
            world.reconcile_one(key).await;
            assert_eq!(world.value_of(&key.name), value, "restarts: {restarts}");
        }
        reconcile_all(&world, 3).await;
        assert_eq!(NAMES.map(|name| revision(&world, name)), [4, 3, 5, 2, 2, 2], "restarts: {restarts}");
        assert_eq!(world.shared.count().rollout.unwrap().phase, None);
        assert_eq!(rollout_events(&world).await, published, "restarts: {restarts}");
        let undoing = world.shared.cache.release(&c).unwrap().newest().unwrap().1.marks.clone().unwrap();
        assert!(restarts || undoing.before.is_none(), "its owner brought v2 to it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_release_that_a_person_changed_with_helm_begins_no_rollout_when_it_is_resumed() {
    let world = rolled_out().await;
    let (path, published) = (primary("ns", "a", Value::Null).0, rollout_events(&world).await);
    let annotate = |annotations: Value| {
        let mut resource = world.server.object(&path).unwrap();
        resource["metadata"]["annotations"] = annotations;
        world.server.put(&path, resource, "user");
    };
    annotate(json!({"helm.sdk.operatorframework.io/suspend": "true"}));
    reconcile_all(&world, 1).await;
    upgrade_with_helm(&world, "a").await;
    reconcile_all(&world, 2).await;
    assert_eq!(world.value_of("a"), "x by hand after v2");
    annotate(json!({}));
    reconcile_all(&world, 3).await;
    assert_eq!(NAMES.map(|name| revision(&world, name)), [4, 3, 3, 2, 2, 2]);
    assert_eq!((world.value_of("a"), rollout_events(&world).await), (json!("x by v2"), published));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_person_changed_with_helm_while_no_process_ran_takes_its_turn_in_the_next_rollout() {
    let world = installed(OnGateFailure::Halt).await;
    upgrade_with_helm(&world, "a").await;
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    let from = world.server.log().len();
    reconcile_all(&world, 8).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
    check_order(&order(&world, from));
}

#[tokio::test(start_paused = true)]
async fn releases_that_a_person_changed_with_helm_while_no_process_ran_wait_for_the_gate_of_the_canaries() {
    for is_compared_late in [false, true] {
        let (world, [.., x, y]) = (installed(OnGateFailure::Halt).await, keys());
        edit(&world, "x", "deployments", json!(["x"]));
        world.reconcile_one(&x).await;
        set_deployment_ready(&world, "x", true);
        world.reconcile_one(&x).await;
        for name in ["a", "b", "c", "d"] {
            upgrade_with_helm(&world, name).await;
        }
        let world = serving(world.server, "v2", OnGateFailure::Halt);
        set_deployment_ready(&world, "x", false);
        if is_compared_late {
            world.reconcile_one(&x).await;
            world.reconcile_one(&y).await;
        }
        reconcile_all(&world, 4).await;
        assert_eq!(with_chart(&world, "v2"), ["x", "y"], "compared late: {is_compared_late}");
        set_deployment_ready(&world, "x", true);
        reconcile_all(&world, 8).await;
        assert_eq!(with_chart(&world, "v2"), NAMES, "compared late: {is_compared_late}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_person_changed_with_helm_does_not_get_back_what_the_others_lose() {
    let (world, [.., x, y]) = (installed(OnGateFailure::Rollback).await, keys());
    refuse(&world.server, "y");
    let world = serving(world.server, "v2", OnGateFailure::Rollback);
    world.reconcile_one(&x).await;
    assert_eq!(world.value_of("x"), "x by v2");
    upgrade_with_helm(&world, "x").await;
    world.reconcile_one(&y).await;
    assert_eq!(world.shared.count().rollout.unwrap().phase, Some("rolled-back"));
    world.reconcile_one(&x).await;
    assert_eq!((world.value_of("x"), revision(&world, "x")), (json!("x by hand after v2"), 3));
    assert_eq!(reconciling(&world, "x"), "True/RolloutRolledBack");
}

#[tokio::test(start_paused = true)]
async fn what_the_rollout_brought_to_a_release_is_taken_back_although_helm_failed_to_change_it_since() {
    for restarts in [false, true] {
        let (world, [.., x, y]) = (installed(OnGateFailure::Rollback).await, keys());
        let world = keeping_revisions(world.server);
        world.reconcile_one(&x).await;
        assert_eq!((world.value_of("x"), revision(&world, "x")), (json!("x by v2"), 2));
        fail_to_upgrade_with_helm(&world, "x").await;
        let world = if restarts { keeping_revisions(world.server) } else { world };
        world.reconcile_one(&x).await;
        let repeated = world.shared.cache.release(&x).unwrap().newest().unwrap().1.clone();
        assert_eq!((revision(&world, "x"), repeated.status), (4, Status::Deployed), "restarts: {restarts}");
        assert!(repeated.marks.unwrap().before.is_some(), "restarts: {restarts}");
        assert!(matches!(world.shared.turns.part(&x), Some(Part::Reached { .. })), "restarts: {restarts}");
        refuse(&world.server, "y");
        world.reconcile_one(&y).await;
        assert_eq!(world.shared.count().rollout.unwrap().phase, Some("rolled-back"));
        world.reconcile_one(&x).await;
        assert_eq!(world.value_of("x"), "x by v1", "restarts: {restarts}");
    }
}

/// Rolls v2 out, ends the process after each number of writes, and checks how far the next process gets.
async fn survive(on_failure: OnGateFailure, broken: &'static str, end: impl Fn(&World)) {
    for writes in 0.. {
        let world = installed(on_failure).await;
        if !broken.is_empty() {
            refuse(&world.server, broken);
        }
        let world = serving(world.server, "v2", on_failure);
        world.server.fail_after(Some(writes));
        reconcile_all(&world, 4).await;
        let died = world.server.writes_left() == Some(0);
        world.server.fail_after(None);
        let world = serving(world.server, "v2", on_failure);
        reconcile_all(&world, 5).await;
        end(&world);
        if !died {
            assert!(writes > 12, "the scenario wrote nothing");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_goes_on_after_an_end_at_any_write() {
    survive(OnGateFailure::Halt, "", |world| assert_eq!(with_chart(world, "v2"), NAMES)).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_goes_on_after_an_end_at_any_write() {
    survive(OnGateFailure::Rollback, "b", |world| assert_eq!(with_chart(world, "v1"), NAMES)).await;
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_its_owner_has_broken_is_no_part_of_the_rollout() {
    let world = installed(OnGateFailure::Halt).await;
    let path = primary("ns", "x", Value::Null).0;
    let mut broken = world.server.object(&path).unwrap();
    broken["spec"]["broken"] = true.into();
    world.server.put(&path, broken, "user");
    let world = serving(world.server, "v2", OnGateFailure::Halt);
    reconcile_all(&world, 5).await;
    assert_eq!(with_chart(&world, "v2"), ["a", "b", "c", "d", "y"]);
}

/// Creates a controller that upgrades one release at a time, and leaves one that fails as it is.
fn keeping(server: Arc<MemoryApi>, chart: &'static str) -> World {
    World::with_events(server, Arc::new(Stub { chart, ..Stub::default() }), |settings| {
        settings.rollout = Some(rule(OnGateFailure::Halt));
        (settings.max_parallel_upgrades, settings.on_failure) = (1, OnFailure::Keep);
    })
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_of_a_release_that_failed_comes_back_while_the_next_rollout_is_halted() {
    let (world, d) = (installed(OnGateFailure::Halt).await, ResourceKey::new("ns", "d"));
    edit(&world, "d", "maps", json!(["d", "e"]));
    world.reconcile_one(&d).await;
    refuse(&world.server, "d");
    let world = keeping(world.server, "v2");
    reconcile_all(&world, 12).await;
    world.server.refuse(|call| {
        let is_canary = call.method != http::Method::GET && call.path.contains("/configmaps/x");
        is_canary.then(|| Error::from_status(403, "Forbidden", "no"))
    });
    let world = keeping(world.server, "v3");
    reconcile_all(&world, 5).await;
    let [lost, changed] = ["d", "e"].map(|name| format!("{MAPS}/{name}"));
    let uid = world.server.object(&lost).unwrap()["metadata"]["uid"].clone();
    world.server.remove(&lost);
    let mut object = world.server.object(&changed).unwrap();
    object["data"]["value"] = "mine".into();
    world.server.put(&changed, object, "kubectl");
    reconcile_all(&world, 2).await;
    assert_ne!(world.server.object(&lost).unwrap()["metadata"]["uid"], uid);
    assert_eq!(world.value_of("d"), "x by v1", "as the deployed revision has it");
    assert_eq!(world.value_of("e"), "mine", "the failed upgrade may have applied it");
    let newest = world.shared.cache.release(&d).unwrap().newest().unwrap().1.status;
    assert_eq!(newest, Status::Failed, "the rollout has not reached it");
}

#[tokio::test(start_paused = true)]
async fn what_an_upgrade_removed_before_it_failed_stays_away_while_the_next_rollout_is_halted() {
    let (world, d) = (installed(OnGateFailure::Halt).await, ResourceKey::new("ns", "d"));
    edit(&world, "d", "maps", json!(["d", "e"]));
    let dropping = json!({"maps": ["e"], "hooks": [{"name": "check", "events": ["post-upgrade"]}]});
    edit(&world, "d", "by", json!({"v2": dropping}));
    world.reconcile_one(&d).await;
    assert_eq!(world.value_of("d"), "x by v1");
    world.server.refuse(|call| {
        let is_hook = call.method == http::Method::POST && call.path.contains("/jobs");
        is_hook.then(|| Error::from_status(403, "Forbidden", "no"))
    });
    let world = keeping(world.server, "v2");
    reconcile_all(&world, 12).await;
    let dropped = format!("{MAPS}/d");
    assert_eq!((world.server.object(&dropped), world.value_of("e")), (None, json!("x by v2")));
    world.server.refuse(|call| {
        let is_canary = call.method != http::Method::GET && call.path.contains("/configmaps/x");
        is_canary.then(|| Error::from_status(403, "Forbidden", "no"))
    });
    let world = keeping(world.server, "v3");
    let from = world.server.log().len();
    reconcile_all(&world, 5).await;
    assert!(!order(&world, from).contains(&"d".to_owned()), "{:?}", world.server.log());
    assert_eq!(world.server.object(&dropped), None);
    let newest = world.shared.cache.release(&d).unwrap().newest().unwrap().1.status;
    assert_eq!(newest, Status::Failed, "the rollout has not reached it");
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_last_upgrade_failed_goes_before_no_canary_and_keeps_no_place_from_it() {
    let world = installed(OnGateFailure::Halt).await;
    refuse(&world.server, "d");
    let world = keeping(world.server, "v2");
    reconcile_all(&world, 12).await;
    assert_eq!(with_chart(&world, "v2"), ["a", "b", "c", "x", "y"]);
    let d = ResourceKey::new("ns", "d");
    let newest = |world: &World| world.shared.cache.release(&d).unwrap().newest().unwrap().1.status;
    assert_eq!(newest(&world), Status::Failed, "it is not rolled back");
    let world = keeping(world.server, "v3");
    let from = world.server.log().len();
    reconcile_all(&world, 12).await;
    let mut order = order(&world, from);
    assert_eq!(order.len(), 6, "{order:?}");
    [0..2, 2..4, 4..6].into_iter().for_each(|step| order[step].sort());
    assert_eq!(order, ["x", "y", "a", "b", "c", "d"]);
    assert_eq!((with_chart(&world, "v3").len(), newest(&world)), (6, Status::Deployed));
}

/// A release that takes over the slot of one that fails to render must not keep it while the rollout is halted, because
/// the rollout continues with the failed one.
#[tokio::test(start_paused = true)]
async fn a_halted_rollout_keeps_no_place_from_the_release_that_it_waits_for() {
    let world = installed(OnGateFailure::Halt).await;
    let (path, [a, b, ..]) = (primary("ns", "a", Value::Null).0, keys());
    let mut slow = world.server.object(&path).unwrap();
    (slow["spec"]["seconds"], slow["metadata"]["generation"]) = (1.into(), 2.into());
    world.server.put(&path, slow, "user");
    world.reconcile_one(&a).await;
    let stub = Arc::new(Stub { chart: "v2", ..Stub::default() });
    let world = World::with_events(world.server, stub.clone(), |settings| {
        settings.rollout = Some(Arc::new(rollout_of(None, &[50], "", OnGateFailure::Halt)));
        settings.max_parallel_upgrades = 1;
    });
    *stub.faulty.lock().unwrap() = "a".into();
    world.feed();
    // The second one queues while the first one renders.
    let of = |key| reconcile::reconcile(&world.shared, key, &(), Priority::Normal);
    tokio::join!(of(&a), of(&b));
    reconcile_all(&world, 3).await;
    assert_eq!((with_chart(&world, "v2"), reconciling(&world, "y")), (vec![], "True/RolloutHalted".into()));
    stub.faulty.lock().unwrap().clear();
    reconcile_all(&world, 12).await;
    assert_eq!(with_chart(&world, "v2"), NAMES);
}
