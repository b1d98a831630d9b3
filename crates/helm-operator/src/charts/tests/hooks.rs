//! Tests of a chart's hooks in whole reconciles (restarts, waits, failures), against the API server in memory, where
//! the tests end the Jobs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller::metrics::ReconcileResult;
use controller::runtime::priority::Priority;
use controller::runtime::reflector::EventHandler as _;
use helm_release::kube::{Disturbance, Error, MemoryApi, Resource};
use outside::sync::lock;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::charts::handlers::{Dependents, Primaries};
use crate::charts::tests::failure_policy;
use crate::charts::tests::reporting::published;
use crate::charts::tests::{MAPS, PRIMARY, SECRETS, Stub, World, events, key, record_path, spec, with_sources};
use crate::reconcile;
use crate::reconcile::controller_context::Settings;
use crate::reconcile::decide::action_room::{ActionStart, Guest, Reservation};
use crate::reconcile::steps::uninstall::WITHOUT_HOOKS;

pub(super) const JOBS: &str = "/apis/batch/v1/namespaces/ns/jobs";

pub(super) fn with_hooks(hooks: Value) -> Value {
    let mut spec = spec();
    spec["hooks"] = hooks;
    spec
}

pub(super) fn hook(name: &str, event: &str) -> Value {
    json!({"name": name, "events": [event]})
}

/// Ends every running Job, five seconds after each check.
async fn end_jobs(server: &MemoryApi, how: &str) {
    loop {
        sleep(Duration::from_secs(5)).await;
        for path in server.paths().into_iter().filter(|path| path.starts_with(JOBS)) {
            let mut job = server.object(&path).unwrap();
            if job["status"].is_null() {
                job["status"]["conditions"] = json!([{"type": how, "status": "True", "message": "as told"}]);
                server.put(&path, job, "kube-controller-manager");
            }
        }
    }
}

/// Completes the Job with this name.
pub(super) fn complete(server: &MemoryApi, name: &str) {
    end(server, name, "Complete");
}

/// Ends the Job with this name in this way.
fn end(server: &MemoryApi, name: &str, how: &str) {
    let path = format!("{JOBS}/{name}");
    let mut job = server.object(&path).unwrap();
    job["status"]["conditions"] = json!([{"type": how, "status": "True"}]);
    server.put(&path, job, "kube-controller-manager");
}

/// Reconciles while Jobs end in this way.
pub(super) async fn reconcile(world: &World, how: &str) -> ReconcileResult {
    tokio::select! {
        result = world.reconcile() => result,
        () = end_jobs(&world.server, how) => unreachable!("it has no end"),
    }
}

/// Reconciles while Jobs end in this way, before any event arrives.
pub(super) async fn reconcile_unaware(world: &World, how: &str) {
    let key = key();
    tokio::select! {
        _ = reconcile::reconcile(&world.shared, &key, &(), Priority::Retry) => {}
        () = end_jobs(&world.server, how) => unreachable!("it has no end"),
    }
}

/// Reconciles until the process is killed after this time.
pub(super) async fn killed_after(world: &World, seconds: u64) {
    tokio::select! {
        _ = world.reconcile() => {}
        () = sleep(Duration::from_secs(seconds)) => {}
    }
}

/// Reconciles until the process is killed after 30 seconds. Only the Job of this hook ends before.
async fn killed_after_the_end_of(world: &World, hook: &str) {
    let ends = async {
        sleep(Duration::from_secs(5)).await;
        complete(&world.server, hook);
    };
    tokio::join!(killed_after(world, 30), ends);
}

pub(super) fn count(world: &World, request: &str) -> usize {
    world.server.log().iter().filter(|line| line.starts_with(request)).count()
}

/// Returns the phases of a revision's hooks, as `helm` reads them.
pub(super) async fn phases(world: &World, version: u32) -> Vec<String> {
    let release = world.shared.storage.get("ns", "web", version).await.unwrap().release.facts().clone();
    release.hooks.iter().map(|hook| format!("{} {:?}", hook.name, hook.last_run.phase)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_chart_without_hooks_costs_no_extra_write_and_each_hook_costs_one_record() {
    // Status writes about the wait do not count.
    let writes = |world: &World| {
        world.server.log().iter().filter(|line| !line.starts_with("GET") && !line.ends_with("/status")).count()
    };
    let world = World::new(spec());
    world.reconcile().await;
    let plain = writes(&world);
    let world =
        World::new(with_hooks(json!([hook("a", "pre-install"), hook("b", "pre-install"), hook("c", "post-upgrade")])));
    reconcile(&world, "Complete").await;
    // Two objects, a record before each, one after both.
    assert_eq!(writes(&world), plain + 5);
    assert_eq!(phases(&world, 1).await, ["a Succeeded", "b Succeeded", "c NotRun"]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_says_that_no_hook_runs_because_the_records_are_gone() {
    let start = |server| World::with_events(server, Arc::new(with_sources()), |_| {});
    let hooked = || with_hooks(json!([hook("backup", "pre-delete")]));
    for (resource, is_seen, is_published) in [(hooked(), true, true), (hooked(), false, true), (spec(), true, false)] {
        let world = start(World::new(resource).server);
        world.reconcile().await;
        world.server.remove(&format!("{SECRETS}/sh.helm.release.v1.web.v1"));
        let world = if is_seen { world } else { start(world.server) };
        world.delete();
        reconcile(&world, "Complete").await;
        assert_eq!((world.server.object(PRIMARY), count(&world, &format!("POST {JOBS}"))), (None, 0));
        let events = published(&world).await;
        let skipped =
            "Warning HookSkipped x1: the release is uninstalled without its hooks: no record of it has them any more";
        assert_eq!(events.iter().any(|event| event == skipped), is_published, "seen: {is_seen}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_hooks_ran_does_not_say_that_none_runs_although_its_last_answer_is_lost() {
    let hooks = with_hooks(json!([hook("backup", "pre-delete"), hook("gone", "post-delete")]));
    let world = World::with_events(World::new(hooks).server, Arc::new(with_sources()), |_| {});
    world.reconcile().await;
    world.server.disturb(&format!("DELETE {SECRETS}/"), 1, Disturbance::AnswerLost);
    world.delete();
    for _ in 0..3 {
        reconcile(&world, "Complete").await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert_eq!((world.server.object(PRIMARY), count(&world, &format!("POST {JOBS}"))), (None, 2));
    let events = published(&world).await;
    assert!(!events.iter().any(|event| event.contains("HookSkipped")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_without_records_that_waits_for_objects_says_once_that_no_hook_runs() {
    let hooks = with_hooks(json!([hook("backup", "pre-delete")]));
    let world = World::with_events(World::new(hooks).server, Arc::new(with_sources()), |_| {});
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
    world.reconcile().await;
    let mut held = world.server.object(&format!("{MAPS}/a")).unwrap();
    held["metadata"]["finalizers"] = json!(["x/y"]);
    world.server.put(&format!("{MAPS}/a"), held, "someone");
    world.server.remove(&format!("{SECRETS}/sh.helm.release.v1.web.v1"));
    world.delete();
    for _ in 0..3 {
        reconcile(&world, "Complete").await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert_eq!(world.maps(), ["a"], "it still waits");
    let events = published(&world).await;
    let skipped: Vec<_> = events.iter().filter(|event| event.contains("HookSkipped")).collect();
    assert!(matches!(&skipped[..], [once] if once.starts_with("Warning HookSkipped x1: ")), "{skipped:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hook_running_when_the_operator_dies_is_found_again() {
    let world = World::new(with_hooks(json!([hook("first", "pre-install"), hook("migrate", "pre-install")])));
    killed_after_the_end_of(&world, "first").await;
    world.feed();
    assert_eq!((world.history(), world.maps()), (vec!["1 pending-install".to_owned()], vec![]));
    assert_eq!(phases(&world, 1).await, ["first Succeeded", "migrate Running"]);
    let world = World::on(world.server);
    reconcile(&world, "Complete").await;
    assert_eq!((world.history(), world.maps().len()), (vec!["1 deployed".to_owned()], 3));
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2, "{:?}", world.server.log());
    assert_eq!(count(&world, &format!("DELETE {JOBS}")), 0);
    assert_eq!(world.state("Ready"), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn a_recreated_resource_runs_the_hooks_of_an_install_that_its_predecessor_began() {
    let seed = json!({"name": "seed", "events": ["post-install"], "spec": {"ttlSecondsAfterFinished": 22}});
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install"), seed])));
    killed_after_the_end_of(&world, "migrate").await;
    assert_eq!(phases(&world, 1).await, ["migrate Succeeded", "seed Running"]);
    // The garbage collector deletes what the first resource made.
    for path in world.server.paths().into_iter().filter(|path| path.starts_with(JOBS) || path.starts_with(MAPS)) {
        world.server.remove(&path);
    }
    world.recreate(PRIMARY);
    let world = World::on(world.server);
    reconcile(&world, "Complete").await;
    assert_eq!((world.history(), world.maps().len()), (vec!["1 failed".to_owned(), "2 deployed".to_owned()], 3));
    assert_eq!(phases(&world, 2).await, ["migrate Succeeded", "seed Succeeded"]);
    assert_eq!(count(&world, &format!("POST {JOBS}")), 4, "each resource has run both: {:?}", world.server.log());
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_for_a_hook_at_once_and_the_next_process_resumes_it() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
    let stop = async {
        sleep(Duration::from_secs(30)).await;
        world.shared.stopping.cancel();
    };
    let began = tokio::time::Instant::now();
    let (result, ()) = tokio::join!(world.reconcile(), stop);
    assert!(matches!(result, ReconcileResult::RequeueAfter));
    assert_eq!(began.elapsed(), Duration::from_secs(30), "at once");
    assert_eq!(world.condition("ReleaseFailed"), None);
    world.feed();
    assert_eq!(phases(&world, 1).await, ["migrate Running"]);
    let job = uid_of(&world, "migrate");
    let world = World::on(world.server);
    reconcile(&world, "Complete").await;
    assert_eq!((world.history(), uid_of(&world, "migrate")), (vec!["1 deployed".to_owned()], job));
}

/// Takes the whole room of actions for other namespaces; returns `None` if an action holds a part of it.
pub(super) fn filled(world: &World) -> Option<[Reservation; 2]> {
    let held = [Reservation::default(), Reservation::default()];
    let room = &world.shared.action_room;
    let other = |name| Guest { namespace: name, uid: name, now: tokio::time::Instant::now() };
    let take =
        |(one, name): (&Reservation, &'static str)| one.replace(room, other(name), Some(usize::MAX), ActionStart::New);
    let has_all = held.iter().zip(["x", "y"]).all(take);
    has_all.then_some(held)
}

fn assert_waits_for_room(world: &World) {
    let waits = world.condition("Reconciling").unwrap();
    assert!(waits.starts_with("True/ActionQueued/waiting for memory"), "{waits}");
    assert!(world.shared.memory.of(&key()).failure.is_none(), "no attempt is counted");
    assert_eq!(world.condition("ReleaseFailed"), None);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_without_memory_for_its_hooks_writes_nothing_and_begins_once_there_is_some() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-upgrade")])));
    world.reconcile().await;
    let others = filled(&world);
    assert!(others.is_some());
    world.edit(|p| p["spec"]["value"] = "2".into());
    let writes =
        || world.server.log().iter().filter(|line| !line.starts_with("GET") && !line.ends_with("/status")).count();
    let before = writes();
    for _ in 0..3 {
        assert!(matches!(world.reconcile().await, ReconcileResult::RequeueAfter));
        assert_waits_for_room(&world);
        assert_eq!((world.history(), writes()), (vec!["1 deployed".to_owned()], before));
    }
    world.server.remove(&format!("{MAPS}/b"));
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.value_of("b")), (json!("1"), json!("1")), "drift is repaired meanwhile");
    assert_waits_for_room(&world);
    drop(others);
    reconcile(&world, "Complete").await;
    assert_eq!((world.history(), world.value_of("a")), (vec!["1 superseded".into(), "2 deployed".into()], json!("2")));
    assert_eq!((count(&world, &format!("POST {JOBS}")), world.condition("Reconciling")), (1, None));
    assert!(filled(&world).is_some(), "nothing is held any more");
}

#[tokio::test(start_paused = true)]
async fn an_action_that_waits_for_nothing_long_needs_no_memory_even_if_it_fails() {
    let world = World::new(with_hooks(json!([hook("test", "test"), hook("seed", "post-install")])));
    reconcile(&world, "Complete").await;
    let others = filled(&world);
    assert!(others.is_some());
    failure_policy::refuse(&world, 422);
    world.edit(|p| p["spec"]["value"] = "bad".into());
    world.reconcile().await;
    assert_eq!((world.history().last().unwrap().as_str(), world.value_of("b")), ("3 deployed", json!("1")));
    assert!(world.condition("ReleaseFailed").is_some());
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_reserves_memory_for_the_hooks_of_its_rollback_which_run_with_that() {
    let world = World::new(with_hooks(json!([hook("back", "pre-rollback")])));
    world.reconcile().await;
    let others = filled(&world);
    assert!(others.is_some());
    failure_policy::refuse(&world, 422);
    world.edit(|p| p["spec"]["value"] = "bad".into());
    world.reconcile().await;
    assert_waits_for_room(&world);
    assert_eq!(world.history(), ["1 deployed"]);
    drop(others);
    let look = async {
        sleep(Duration::from_secs(10)).await;
        assert_eq!(phases(&world, 3).await, ["back Running"]);
        assert!(filled(&world).is_none(), "the action holds a part");
        let job = uid_of(&world, "back");
        complete(&world.server, "back");
        job
    };
    let (_, job) = tokio::join!(world.reconcile(), look);
    assert_eq!((world.history().last().unwrap().as_str(), world.value_of("b")), ("3 deployed", json!("1")));
    assert_eq!((uid_of(&world, "back"), count(&world, &format!("POST {JOBS}"))), (job, 1));
    assert!(world.condition("ReleaseFailed").is_some() && filled(&world).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_action_is_continued_at_once_even_without_memory() {
    for event in ["pre-install", "pre-delete"] {
        let world = World::new(with_hooks(json!([hook("migrate", event)])));
        if event == "pre-delete" {
            world.reconcile().await;
            world.delete();
        }
        killed_after(&world, 30).await;
        assert!(filled(&world).is_some(), "what is dropped holds nothing");
        let job = uid_of(&world, "migrate");
        let world = World::on(world.server);
        let others = filled(&world);
        assert!(others.is_some() && job.is_string());
        let ends = async {
            sleep(Duration::from_secs(10)).await;
            complete(&world.server, "migrate");
        };
        tokio::join!(world.reconcile(), ends);
        let left = if event == "pre-delete" { vec![] } else { vec!["1 deployed".to_owned()] };
        assert_eq!((world.history(), uid_of(&world, "migrate")), (left, job), "{event}");
        assert_eq!((count(&world, &format!("POST {JOBS}")), count(&world, &format!("DELETE {JOBS}"))), (1, 0));
        drop(others);
        assert!(filled(&world).is_some(), "nothing is held any more");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_hook_that_the_server_deletes_never_counts_as_succeeded_for_lack_of_memory() {
    let ttl = json!({"ttlSecondsAfterFinished": 60});
    let world = World::new(with_hooks(json!([{"name": "migrate", "events": ["pre-upgrade"], "spec": ttl}])));
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    killed_after(&world, 30).await;
    assert_eq!(phases(&world, 2).await, ["migrate Running"]);
    let world = World::on(world.server);
    let others = filled(&world);
    assert!(others.is_some());
    let fails = async {
        sleep(Duration::from_secs(10)).await;
        end(&world.server, "migrate", "Failed");
        sleep(Duration::from_secs(60)).await;
        world.server.remove(&format!("{JOBS}/migrate"));
    };
    tokio::join!(world.reconcile(), fails);
    drop(others);
    assert_eq!((world.value_of("a"), phases(&world, 2).await), (json!("1"), vec!["migrate Failed".to_owned()]));
    assert_eq!(count(&world, &format!("POST {JOBS}")), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_waits_for_memory_only_if_it_runs_hooks() {
    for (event, waits) in [("pre-delete", true), ("post-delete", true), ("test", false)] {
        let world = World::new(with_hooks(json!([hook("backup", event)])));
        world.reconcile().await;
        let others = filled(&world);
        assert!(others.is_some());
        world.delete();
        world.reconcile().await;
        assert_eq!((world.server.object(PRIMARY).is_some(), world.maps().len()), (waits, if waits { 3 } else { 0 }));
        if waits {
            assert_waits_for_room(&world);
        }
        drop(others);
        reconcile(&world, "Complete").await;
        assert_eq!((world.server.object(PRIMARY), world.maps().len()), (None, 0), "{event}");
        assert_eq!(count(&world, &format!("POST {JOBS}")), usize::from(waits), "{event}");
        assert!(filled(&world).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_ends_the_wait_of_an_action_and_gives_its_memory_back() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
    reconcile_while(&world, |world| {
        assert!(filled(world).is_none(), "the install holds a part");
        world.delete();
    })
    .await;
    assert_eq!((world.server.object(PRIMARY), filled(&world).is_some()), (None, true));
}

#[tokio::test(start_paused = true)]
async fn other_values_start_another_action_with_its_own_hooks() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
    killed_after(&world, 30).await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    let world = World::on(world.server);
    reconcile(&world, "Complete").await;
    assert_eq!(world.value_of("a"), json!("2"));
    assert_eq!(world.history(), ["1 failed", "2 deployed"], "each attempt has its record");
    assert_eq!(count(&world, &format!("DELETE {JOBS}/migrate")), 1);
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2);
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_one_more_source_of_the_same_values_continues_an_action() {
    let shared = r#"[{"kind": "Secret", "name": "shared", "optional": true}]"#;
    let sources: Vec<crate::values_from::ValuesSource> = serde_json::from_str(shared).unwrap();
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
    let world = World::rendering(world.server, Arc::new(with_sources()));
    world.server.disturb(&format!("PATCH {MAPS}/c"), 1, Disturbance::Refused(500));
    reconcile(&world, "Complete").await;
    let before = uid_of(&world, "migrate");
    assert_eq!(world.history(), ["1 pending-install"]);
    let add = |settings: &mut Settings| settings.values_from = sources;
    let world = World::with_events(world.server, Arc::new(with_sources()), add);
    reconcile(&world, "Complete").await;
    assert_eq!((world.history(), uid_of(&world, "migrate")), (vec!["1 deployed".to_owned()], before));
    assert_eq!(count(&world, &format!("POST {JOBS}")), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_only_hooks_show_is_a_revision_and_a_deletion_runs_the_hooks_of_today() {
    let hooks = |place: &str| {
        let to = json!({"to": place});
        json!([{"name": "tell", "events": ["post-upgrade"], "spec": to}, {"name": "backup", "events": ["pre-delete"], "spec": to}])
    };
    let world = World::new(with_hooks(hooks("old")));
    reconcile(&world, "Complete").await;
    let uid = |world: &World| world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
    let (before, place) = (uid(&world), |world: &World, job: &str| {
        world.server.object(&format!("{JOBS}/{job}")).unwrap()["spec"]["to"].clone()
    });
    world.edit(|p| p["spec"]["hooks"] = hooks("new"));
    reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    assert_eq!((place(&world, "tell"), uid(&world)), (json!("new"), before));
    // A change that affects neither objects nor hooks creates no revision.
    world.edit(|p| p["spec"]["unused"] = 1.into());
    reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    world.delete();
    reconcile(&world, "Complete").await;
    assert_eq!(place(&world, "backup"), "new");
}

/// Deploys a release of this spec and changes it, in a process that dies after no write, one write and so on, until one
/// survives. Each time another process continues, and the result is checked.
async fn interrupted_after_each_write(spec: Value, change: impl Fn(&World), check: impl Fn(&World, usize)) {
    interrupted_while_jobs_end("Complete", spec, change, check).await;
}

/// Interrupts a change as `interrupted_after_each_write` does, while Jobs end in this way.
async fn interrupted_while_jobs_end(how: &str, spec: Value, change: impl Fn(&World), check: impl Fn(&World, usize)) {
    for writes in 0.. {
        let world = World::new(spec.clone());
        reconcile(&world, how).await;
        change(&world);
        world.server.fail_after(Some(writes));
        tokio::select! {
            _ = reconcile(&world, how) => {}
            () = sleep(Duration::from_secs(300)) => {}
        }
        let died = world.server.writes_left() == Some(0);
        world.server.fail_after(None);
        let world = World::on(world.server);
        for _ in 0..3 {
            reconcile(&world, how).await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        check(&world, writes);
        if !died {
            assert!(writes > 10, "the scenario wrote nothing");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_hook_runs_twice_wherever_an_upgrade_is_interrupted() {
    let both = json!({"name": "both", "events": ["pre-upgrade", "post-upgrade"]});
    let gone = json!({"name": "gone", "events": ["post-upgrade"], "policies": ["hook-succeeded"]});
    let both_gone =
        json!({"name": "both-gone", "events": ["pre-upgrade", "post-upgrade"], "policies": ["hook-succeeded"]});
    let after = hook("after", "post-upgrade");
    let hooks = json!([hook("before", "pre-upgrade"), both, both_gone, gone, after]);
    let upgrade = |world: &World| world.edit(|p| p["spec"]["value"] = "2".into());
    interrupted_after_each_write(with_hooks(hooks), upgrade, |world, writes| {
        assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("2"), "2 deployed"));
        // `before`, `both` and `both-gone` twice, `gone` and `after`.
        assert_eq!(count(world, &format!("POST {JOBS}")), 7, "after {writes} writes: {:#?}", world.server.log());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_both_events_goes_on_when_its_upgrade_is_continued() {
    for spec in [Value::Null, json!({"ttlSecondsAfterFinished": 60})] {
        let events = ["pre-upgrade", "post-upgrade"];
        let both = json!({"name": "both", "events": events, "policies": ["hook-succeeded"], "spec": spec});
        let world = World::new(with_hooks(json!([both])));
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        killed_after_the_end_of(&world, "both").await;
        assert_eq!((world.value_of("a"), phases(&world, 2).await), (json!("2"), vec!["both Running".to_owned()]));
        let second = uid_of(&world, "both");
        let world = World::on(world.server);
        let ends = async {
            sleep(Duration::from_secs(20)).await;
            assert!(second.is_string() && uid_of(&world, "both") == second, "{spec}: {:#?}", world.server.log());
            complete(&world.server, "both");
        };
        tokio::join!(world.reconcile(), ends);
        assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
        let runs = (count(&world, &format!("POST {JOBS}")), count(&world, &format!("DELETE {JOBS}/both")));
        assert_eq!((runs, uid_of(&world, "both")), ((2, 2), Value::Null), "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_both_events_leaves_no_job_if_nothing_continues_its_action() {
    for (events, version) in [(["pre-upgrade", "post-upgrade"], 2), (["pre-delete", "post-delete"], 1)] {
        let world = World::new(with_hooks(json!([{"name": "both", "events": events, "policies": ["hook-succeeded"]}])));
        world.reconcile().await;
        match version {
            1 => world.delete(),
            _ => world.edit(|p| p["spec"]["value"] = "2".into()),
        }
        world.server.refuse(|call| {
            let is_clean_up = call.method == http::Method::DELETE && call.path.starts_with(JOBS);
            is_clean_up.then(|| Error::from_status(503, "ServiceUnavailable", "away"))
        });
        killed_after_the_end_of(&world, "both").await;
        assert_eq!(phases(&world, version).await, ["both NotRun"], "it runs again");
        assert!(uid_of(&world, "both").is_string());
        world.server.accept();
        world.edit(|p| {
            p["spec"]["value"] = "3".into();
            p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"});
        });
        let world = World::on(world.server);
        reconcile(&world, "Complete").await;
        assert_eq!(uid_of(&world, "both"), Value::Null, "{events:?}: {:#?}", world.server.log());
        let runs = count(&world, &format!("POST {JOBS}"));
        if version == 1 {
            assert_eq!((world.server.paths(), runs), (vec![], 1));
        } else {
            assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("3"), "3 deployed"));
            assert_eq!(runs, 3);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_hook_that_is_deleted_never_counts_as_succeeded_wherever_its_upgrade_is_interrupted() {
    let ttl = json!({"ttlSecondsAfterFinished": 60});
    let migrate = json!({"name": "migrate", "events": ["pre-upgrade"], "policies": ["hook-failed"], "spec": ttl});
    let upgrade = |world: &World| world.edit(|p| p["spec"]["value"] = "2".into());
    interrupted_while_jobs_end("Failed", with_hooks(json!([migrate])), upgrade, |world, writes| {
        assert_eq!(world.value_of("a"), "1", "after {writes} writes: {:#?}", world.server.log());
    })
    .await;
}

/// The revisions whose hooks have run, in the order of the runs.
type Runs = Arc<Mutex<Vec<String>>>;

/// Notes from now on for which revision each hook runs.
fn noting_runs(world: &World) -> Runs {
    let runs = Runs::default();
    let noted = runs.clone();
    world.server.refuse(move |call| {
        let (_, body) =
            call.body.as_ref().filter(|_| call.method == http::Method::POST && call.path.starts_with(JOBS))?;
        let job: Value = serde_json::from_slice(body).unwrap();
        let run = job["metadata"]["annotations"][helm_release::kube::HOOK_RUN_ANNOTATION].as_str().unwrap();
        lock(&noted).push(run.split('.').next().unwrap().to_owned());
        None
    });
    runs
}

/// Checks that hooks have run, and none twice for a revision.
fn check_runs(runs: &Runs, when: &str) {
    let all = lock(runs).clone();
    let each: std::collections::BTreeSet<&String> = all.iter().collect();
    assert!(!all.is_empty() && all.len() == each.len(), "{when}: {all:?}");
}

/// Asks for another value than before.
fn ask(world: &World, value: &str) {
    world.edit(|p| p["spec"]["value"] = value.into());
}

/// Asks for the value 2 again in another process, and checks that it is deployed.
async fn deploys_2_again(server: Arc<MemoryApi>, when: &str) {
    server.fail_after(None);
    let world = World::on(server);
    ask(&world, "2");
    for _ in 0..3 {
        reconcile(&world, "Complete").await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    let history = world.history();
    assert!(history.last().unwrap().ends_with(" deployed"), "{when}: {history:?}");
    assert_eq!(world.value_of("a"), json!("2"), "{when}");
}

/// Asks for an upgrade to the value 2, and later for the value 3 in a process that dies after no write, one write and so
/// on. Then the value 2 is asked for again. Checks that no hook has run twice for a revision.
async fn asked_for_again_after(dies: impl AsyncFn(World, usize) -> Arc<MemoryApi>) {
    for event in ["pre-upgrade", "post-upgrade"] {
        for writes in 0..5 {
            let world = World::new(with_hooks(json!([hook("migrate", event)])));
            world.reconcile().await;
            let runs = noting_runs(&world);
            ask(&world, "2");
            let server = dies(world, writes).await;
            let when = format!("{event}, {writes} writes");
            deploys_2_again(server, &when).await;
            check_runs(&runs, &when);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_hook_runs_twice_for_a_revision_wherever_it_is_given_up_and_then_asked_for_again() {
    asked_for_again_after(async |world: World, writes| {
        killed_after(&world, 30).await;
        ask(&world, "3");
        let world = World::on(world.server);
        world.server.fail_after(Some(writes));
        killed_after(&world, 300).await;
        world.server
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_hook_runs_twice_for_a_revision_wherever_its_interruption_ends_and_it_is_then_asked_for_again() {
    asked_for_again_after(async |world: World, writes| {
        let change = async {
            sleep(Duration::from_secs(10)).await;
            ask(&world, "3");
            world.feed();
            world.server.fail_after(Some(writes));
        };
        tokio::join!(killed_after(&world, 300), change);
        world.server
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_hook_ends_although_its_record_is_gone() {
    let world =
        World::new(with_hooks(json!([{"name": "migrate", "events": ["pre-upgrade"], "policies": ["hook-failed"]}])));
    world.reconcile().await;
    ask(&world, "2");
    let mut first = Value::Null;
    reconcile_while(&world, |world| {
        first = uid_of(world, "migrate");
        world.server.remove(&record_path(2));
        ask(world, "3");
    })
    .await;
    assert_eq!((world.history().last().unwrap().as_str(), world.value_of("a")), ("2 deployed", json!("3")));
    assert!(first.is_string() && uid_of(&world, "migrate") != first);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_hook_whose_failure_cannot_be_recorded_ends_before_the_next_one_begins() {
    let migrating = |number: &str| {
        let mut spec = with_hooks(json!([hook(&format!("migrate-{number}"), "pre-upgrade")]));
        spec["value"] = number.into();
        spec
    };
    let world = World::new(migrating("1"));
    world.reconcile().await;
    world.edit(|p| p["spec"] = migrating("2"));
    reconcile_while(&world, |world| {
        world.server.refuse(|call| {
            let is_record = call.method == http::Method::PATCH && call.path.starts_with(&record_path(2));
            is_record.then(|| Error::from_status(403, "Forbidden", "denied by policy"))
        });
        world.edit(|p| p["spec"] = migrating("3"));
    })
    .await;
    assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
    assert_eq!((uid_of(&world, "migrate-2").is_string(), uid_of(&world, "migrate-3")), (true, Value::Null));
    world.server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!((uid_of(&world, "migrate-2"), uid_of(&world, "migrate-3").is_string()), (Value::Null, true));
    assert!(last(&world, &format!("DELETE {JOBS}/migrate-2")) < last(&world, &format!("POST {JOBS}")));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_a_dead_process_started_ends_if_its_revision_fails_before_it_is_waited_for_again() {
    let migrate = json!({"name": "migrate", "events": ["post-upgrade"], "policies": ["hook-failed"]});
    let world = World::new(with_hooks(json!([migrate])));
    world.reconcile().await;
    ask(&world, "2");
    killed_after(&world, 30).await;
    assert!(uid_of(&world, "migrate").is_string());
    let path = format!("{MAPS}/a");
    let mut drifted = world.server.object(&path).unwrap();
    drifted["data"]["value"] = "drifted".into();
    world.server.put(&path, drifted, "kubectl");
    world.server.refuse(move |call| {
        let is_change = call.method == http::Method::PATCH && call.path.starts_with(&path);
        is_change.then(|| Error::from_status(422, "Invalid", "denied by policy"))
    });
    let world = World::rendering(world.server, Arc::new(Stub::default()));
    world.reconcile().await;
    assert_eq!(world.history()[..2], ["1 deployed", "2 failed"]);
    assert_eq!(uid_of(&world, "migrate"), Value::Null);
    assert_eq!(phases(&world, 2).await, ["migrate Failed"]);
}

#[tokio::test(start_paused = true)]
async fn no_failed_hook_runs_twice_for_a_revision_wherever_its_upgrade_is_interrupted() {
    let failing = json!([{"name": "migrate", "events": ["pre-upgrade"], "policies": ["hook-failed"]}]);
    let runs = Mutex::new(Runs::default());
    let upgrade = |world: &World| {
        *lock(&runs) = noting_runs(world);
        ask(world, "2");
    };
    interrupted_while_jobs_end("Failed", with_hooks(failing), upgrade, |_, writes| {
        check_runs(&lock(&runs), &format!("{writes} writes"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_becomes_a_hook_exists_wherever_the_upgrade_is_interrupted() {
    for event in ["pre-upgrade", "post-upgrade"] {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"}});
        let mut spec = spec();
        spec["objects"] = json!([job]);
        let upgrade = |world: &World| {
            world.edit(|p| {
                p["spec"] = with_hooks(json!([hook("load", event)]));
                p["spec"]["value"] = "2".into();
            });
        };
        interrupted_after_each_write(spec, upgrade, |world, writes| {
            assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("2"), "2 deployed"));
            assert!(uid_of(world, "load").is_string(), "{event}, after {writes} writes: {:#?}", world.server.log());
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_objects_does_not_run_hooks_again() {
    let world = World::new(with_hooks(json!([hook("farewell", "pre-delete"), hook("gone", "post-delete")])));
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
    reconcile(&world, "Complete").await;
    let mut held = world.server.object(&format!("{MAPS}/a")).unwrap();
    held["metadata"]["finalizers"] = json!(["x/y"]);
    world.server.put(&format!("{MAPS}/a"), held, "someone");
    world.delete();
    for _ in 0..20 {
        reconcile(&world, "Complete").await;
    }
    assert_eq!(count(&world, &format!("POST {JOBS}")), 1, "{:?}", world.server.log());
    assert_eq!((world.maps(), world.history()), (vec!["a".to_owned()], vec!["1 uninstalling".to_owned()]));
    let waits = "Waiting until all resources are deleted: ConfigMap ns/a (finalizers: x/y)";
    assert_eq!(world.condition("Deployed").unwrap(), format!("False/UninstallSuccessful/{waits}"));
    assert_eq!(world.condition("Ready").unwrap(), "False/Uninstalling/ConfigMap ns/a (finalizers: x/y)");
    // A restart keeps all of it.
    let world = World::on(world.server);
    reconcile(&world, "Complete").await;
    assert_eq!(count(&world, &format!("POST {JOBS}")), 1);
    world.server.remove(&format!("{MAPS}/a"));
    reconcile(&world, "Complete").await;
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2);
    assert_eq!(world.server.paths(), [format!("{JOBS}/farewell"), format!("{JOBS}/gone")]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_is_not_awaited_although_no_event_reports_it() {
    let world = World::new(spec());
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
    world.reconcile().await;
    world.delete();
    world.reconcile().await;
    assert_eq!(world.server.paths(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_leaves_no_hook_that_goes_when_it_succeeds_wherever_it_is_interrupted() {
    let gone = |name: &str, events: &[&str]| json!({"name": name, "events": events, "policies": ["hook-succeeded"]});
    let both = gone("both", &["pre-delete", "post-delete"]);
    let spec = with_hooks(json!([gone("farewell", &["pre-delete"]), both, gone("gone", &["post-delete"])]));
    interrupted_after_each_write(spec, World::delete, |world, writes| {
        assert!(world.server.paths().is_empty(), "after {writes} writes: {:?}", world.server.paths());
        // `farewell`, `both` twice and `gone`.
        assert_eq!(count(world, &format!("POST {JOBS}")), 4, "after {writes} writes: {:#?}", world.server.log());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_the_hooks_of_a_deletion_made_outlives_it_wherever_it_is_interrupted() {
    let spec = with_hooks(json!([hook("backup", "pre-delete"), hook("gone", "post-delete")]));
    interrupted_after_each_write(spec, World::delete, |world, writes| {
        let left = [format!("{JOBS}/backup"), format!("{JOBS}/gone")];
        assert_eq!(world.server.paths(), left, "after {writes} writes");
        // Each is still the one that ran.
        assert_eq!(count(world, &format!("POST {JOBS}")), 2, "after {writes} writes");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_pre_delete_hook_keeps_everything_and_its_error_names_the_way_out() {
    let world = World::new(with_hooks(json!([hook("ok", "pre-delete"), hook("z-farewell", "pre-delete")])));
    reconcile(&world, "Complete").await;
    world.delete();
    tokio::join!(
        async {
            // The first Job succeeds, the second fails.
            sleep(Duration::from_secs(1)).await;
            complete(&world.server, "ok");
        },
        async {
            assert_eq!(reconcile(&world, "Failed").await, ReconcileResult::Error);
        }
    );
    let failed = world.condition("ReleaseFailed").unwrap();
    assert!(
        failed.starts_with(
            "True/UninstallError/hook memcached/templates/z-farewell.yaml failed: Job \"z-farewell\": as told"
        ),
        "{failed}"
    );
    assert!(failed.ends_with("helm.sdk.operatorframework.io/uninstall-disable-hooks to \"true\""), "{failed}");
    assert_eq!((world.maps().len(), world.history()), (3, vec!["1 uninstalling".to_owned()]));
    assert_eq!(phases(&world, 1).await, ["ok Succeeded", "z-farewell Failed"]);
    for _ in 0..8 {
        tokio::time::advance(Duration::from_secs(600)).await;
        reconcile(&world, "Failed").await;
    }
    assert_eq!(world.maps().len(), 3);
    assert_eq!(count(&world, &format!("POST {JOBS}")), 1 + 9, "what succeeded is not run again");
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"})
    });
    tokio::time::advance(Duration::from_secs(600)).await;
    let failed = uid_of(&world, "z-farewell");
    world.reconcile().await;
    assert!(world.server.object(PRIMARY).is_none() && world.maps().is_empty());
    assert!(failed.is_string() && uid_of(&world, "z-farewell") == failed, "it stays for its owner to look at");
}

#[tokio::test(start_paused = true)]
async fn a_post_delete_hook_that_always_fails_is_given_up() {
    let world = World::new(with_hooks(json!([hook("gone", "post-delete")])));
    reconcile(&world, "Complete").await;
    world.delete();
    for tries in 1..5 {
        assert_eq!(reconcile(&world, "Failed").await, ReconcileResult::Error);
        assert_eq!(count(&world, &format!("POST {JOBS}")), tries);
        assert!(world.condition("ReleaseFailed").unwrap().contains("gone.yaml failed"));
        assert!(world.maps().is_empty() && world.server.object(PRIMARY).is_some());
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    // The count survives a restart.
    let world = World::on(world.server);
    tokio::time::advance(Duration::from_secs(60)).await;
    reconcile(&world, "Failed").await;
    assert_eq!(count(&world, &format!("POST {JOBS}")), 5);
    assert_eq!(world.server.paths(), [format!("{JOBS}/gone")]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_removes_no_release_before_its_post_delete_hook_has_run() {
    let world = World::new(with_hooks(json!([hook("gone", "post-delete")])));
    reconcile(&world, "Complete").await;
    world.delete();
    world.server.refuse(|call| {
        let is_new_job = call.method == http::Method::POST && call.path.starts_with(JOBS);
        is_new_job.then(|| Error::from_status(500, "InternalError", "etcdserver: no leader"))
    });
    for _ in 0..6 {
        assert_eq!(reconcile(&world, "Complete").await, ReconcileResult::Error);
        assert!(world.server.object(PRIMARY).is_some());
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    world.server.accept();
    reconcile(&world, "Complete").await;
    assert!(world.server.object(PRIMARY).is_none());
    assert_eq!(world.server.paths(), [format!("{JOBS}/gone")], "it has run");
    assert_eq!(world.server.object(&format!("{JOBS}/gone")).unwrap()["status"]["conditions"][0]["type"], "Complete");
    sleep(Duration::from_secs(1)).await;
    let given_up = |event: &Value| event["reason"] == "HookGivenUp";
    assert!(!events(&world.server).iter().any(given_up), "{:?}", events(&world.server));
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_hook_comes_from_the_annotation_or_the_watch_and_zero_means_none() {
    let limited = |annotation: Option<&'static str>| async move {
        let world = World::new(with_hooks(json!([hook("slow", "pre-install")])));
        if let Some(text) = annotation {
            world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/hook-timeout": text}));
        }
        let began = tokio::time::Instant::now();
        tokio::select! {
            _ = world.reconcile() => {}
            () = sleep(Duration::from_secs(10_000)) => {}
        }
        (began.elapsed().as_secs_f64().round(), world.condition("ReleaseFailed").unwrap_or_default())
    };
    let (seconds, failed) = limited(None).await;
    assert!(
        seconds == 3600.0
            && failed.contains("slow.yaml did not finish within 1h0m0s: still waiting for Job \"slow\" to finish"),
        "{failed}"
    );
    assert_eq!(limited(Some("90s")).await.0, 90.0);
    assert_eq!(limited(Some("0")).await.0, 10_000.0);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_annotation_is_reported_and_does_not_block_deletion() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/hook-timeout": "soon"}));
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    let expected =
        "True/InvalidAnnotation/annotation helm.sdk.operatorframework.io/hook-timeout: time: invalid duration \"soon\"";
    assert_eq!(world.condition("Irreconcilable").unwrap(), expected);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/hook-timeout": "2h"}));
    world.reconcile().await;
    assert_eq!(world.condition("Irreconcilable"), None);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/hook-timeout": "soon"}));
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_hooks_name_that_is_someone_elses_is_a_conflict() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
    let annotations = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
    world.server.put(
        &format!("{JOBS}/migrate"),
        json!({"metadata": {"name": "migrate", "annotations": annotations}}),
        "helm",
    );
    world.reconcile().await;
    let expected = "True/ReleaseConflict/hook memcached/templates/migrate.yaml cannot replace Job \"migrate\": it belongs to release \"other\" in namespace \"ns\"";
    assert_eq!(world.condition("ReleaseFailed").unwrap(), expected);
    assert_eq!(count(&world, &format!("DELETE {JOBS}")), 0);
    assert!(
        world.server.paths().iter().all(|path| !path.starts_with(SECRETS) && !path.starts_with(MAPS)),
        "{:?}",
        world.server.paths()
    );
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_deleted_with_its_namespace_although_hooks_cannot_be_created_there() {
    let world = World::new(with_hooks(json!([hook("farewell", "pre-delete"), hook("gone", "post-delete")])));
    reconcile(&world, "Complete").await;
    world.server.refuse(|call| {
        let terminating = || Error::from_status(403, "NamespaceTerminating", "namespace ns is being terminated");
        (call.method == http::Method::POST).then(terminating)
    });
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2, "each is tried once");
}

#[tokio::test(start_paused = true)]
async fn a_hook_rejected_by_a_webhook_is_retried_within_the_same_revision() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
    world.server.refuse(|call| {
        let is_new_job = call.method == http::Method::POST && call.path.starts_with(JOBS);
        is_new_job.then(|| Error::from_status(500, "InternalError", "webhook is down"))
    });
    let began = tokio::time::Instant::now();
    assert_eq!(reconcile(&world, "Complete").await, ReconcileResult::Error);
    assert!(began.elapsed() < Duration::from_secs(150));
    let failed = world.condition("Irreconcilable").unwrap();
    let expected = "True/Unanswered/cannot run hook memcached/templates/migrate.yaml: webhook is down";
    assert_eq!(failed, expected);
    world.server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile(&world, "Complete").await;
    assert_eq!((world.history(), world.maps().len()), (vec!["1 deployed".to_owned()], 3));
}

/// Creates a deleted resource that waits for its objects, each kept by another finalizer.
async fn deleted_and_held(maps: &[&str]) -> World {
    let world = World::new(json!({"maps": maps, "value": "1"}));
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}));
    world.reconcile().await;
    for map in maps {
        let path = format!("{MAPS}/{map}");
        let mut held = world.server.object(&path).unwrap();
        held["metadata"]["finalizers"] = json!(["x/y"]);
        world.server.put(&path, held, "someone");
    }
    world.delete();
    world
}

#[tokio::test(start_paused = true)]
async fn a_message_names_a_few_of_the_objects_it_waits_for() {
    let world = deleted_and_held(&["a", "b", "c", "d", "e"]).await;
    world.reconcile().await;
    let one = |name: &str| format!("ConfigMap ns/{name} (finalizers: x/y)");
    let said = world.condition("Ready").unwrap();
    assert_eq!(said, format!("False/Uninstalling/{}, {}, {} and 2 more", one("a"), one("b"), one("c")));
    world.server.remove(&format!("{MAPS}/a"));
    world.reconcile().await;
    let said = world.condition("Ready").unwrap();
    assert_eq!(said, format!("False/Uninstalling/{}, {}, {} and 1 more", one("b"), one("c"), one("d")));
    // The finalizers are named only if they can be read.
    world.server.refuse(|call| {
        let held = ["c", "d", "e"].iter().any(|name| call.path.starts_with(&format!("{MAPS}/{name}")));
        (call.method == http::Method::GET && held).then(|| Error::from_status(503, "", "away"))
    });
    world.server.remove(&format!("{MAPS}/b"));
    world.reconcile().await;
    let said = world.condition("Ready").unwrap();
    assert_eq!(said, "False/Uninstalling/ConfigMap ns/c, ConfigMap ns/d, ConfigMap ns/e");
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_waits_for_unwatched_objects_and_names_them() {
    let world = deleted_and_held(&["a"]).await;
    world.feed();
    let maps =
        Resource { api_version: "v1".into(), kind: "ConfigMap".into(), plural: "configmaps".into(), namespaced: true };
    let live = world.server.object(&format!("{MAPS}/a")).unwrap();
    Dependents(world.shared.clone(), Arc::new(maps), 1).deleted(Arc::new(serde_json::from_value(live).unwrap()));
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert_eq!(world.condition("Ready").unwrap(), "False/Uninstalling/ConfigMap ns/a (finalizers: x/y)");
    assert_eq!(world.maps(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_does_not_wait_for_an_object_that_became_somebody_elses_unseen() {
    let world = deleted_and_held(&["a"]).await;
    world.reconcile().await;
    let path = format!("{MAPS}/a");
    let mut others = world.server.object(&path).unwrap();
    world.server.remove(&path);
    others["metadata"] = json!({"name": "a", "namespace": "ns", "finalizers": ["x/y"]});
    world.server.put(&path, others, "someone");
    // The watch missed both events.
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
    assert!(world.server.object(PRIMARY).is_none(), "{:?}", world.condition("Ready"));
    assert!(world.server.object(&path).is_some());
}

/// Replaces the digest of a release's inputs with that of another version of the operator.
fn of_another_version(world: &World) {
    let path = format!("{SECRETS}/sh.helm.release.v1.web.v1");
    let mut record = world.server.object(&path).unwrap();
    let marks = &mut record["metadata"]["annotations"][helm_release::storage::MARKS_ANNOTATION];
    let mut noted: Value = serde_json::from_str(marks.as_str().unwrap()).unwrap();
    noted["i"] = "1:0123456789abcdef".into();
    *marks = noted.to_string().into();
    world.server.put(&path, record, "helm-operator");
    crate::charts::tests::reseal(&world.server, &path);
}

#[tokio::test(start_paused = true)]
async fn a_hook_started_by_another_version_of_the_operator_is_found_again() {
    for (same, runs) in [(true, 1), (false, 2)] {
        let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
        killed_after(&world, 30).await;
        of_another_version(&world);
        if !same {
            world.edit(|p| p["spec"]["value"] = "2".into());
        }
        let world = World::rendering(world.server, std::sync::Arc::new(with_sources()));
        reconcile(&world, "Complete").await;
        let (value, history) = if same { ("1", vec!["1 deployed"]) } else { ("2", vec!["1 failed", "2 deployed"]) };
        assert_eq!(world.value_of("a"), json!(value));
        assert_eq!(world.history(), history);
        assert_eq!(count(&world, &format!("POST {JOBS}")), runs, "same inputs: {same}");
    }
}

/// Reconciles while hooks never end by themselves; after ten seconds, `act` changes the resource.
pub(super) async fn reconcile_while(world: &World, act: impl FnOnce(&World)) -> ReconcileResult {
    // The following steps may need its Jobs to end.
    reconcile_until(world, act, "Complete").await
}

/// Reconciles. After ten seconds, `act` changes something, and from then on Jobs end in this way.
pub(super) async fn reconcile_until(world: &World, act: impl FnOnce(&World), how: &str) -> ReconcileResult {
    let later = async {
        sleep(Duration::from_secs(10)).await;
        act(world);
        world.feed();
        end_jobs(&world.server, how).await
    };
    tokio::select! {
        result = world.reconcile() => result,
        () = later => unreachable!("it has no end"),
    }
}

fn uid_of(world: &World, job: &str) -> Value {
    world.server.object(&format!("{JOBS}/{job}")).map_or(Value::Null, |job| job["metadata"]["uid"].clone())
}

#[tokio::test(start_paused = true)]
async fn another_spec_ends_the_wait_for_a_hook_and_each_revision_runs_it_once() {
    for event in ["pre-upgrade", "post-upgrade"] {
        let world = World::new(with_hooks(json!([hook("migrate", event)])));
        world.reconcile().await;
        world.edit(|p| p["spec"]["value"] = "2".into());
        let mut first = Value::Null;
        let began = tokio::time::Instant::now();
        reconcile_while(&world, |world| {
            first = uid_of(world, "migrate");
            world.edit(|p| p["spec"]["value"] = "3".into());
        })
        .await;
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert_eq!((world.value_of("a"), world.state("Ready")), (json!("3"), "True/Ready".to_owned()));
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
        assert_eq!(
            (phases(&world, 2).await, phases(&world, 3).await),
            (vec!["migrate Failed".to_owned()], vec!["migrate Succeeded".to_owned()])
        );
        assert_eq!(count(&world, &format!("POST {JOBS}")), 2, "{event}: one for each revision");
        assert!(first.is_string() && uid_of(&world, "migrate") != first);
        let said = world.shared.storage.get("ns", "web", 2).await.unwrap().release.facts().info.description.clone();
        let expected = "Upgrade \"web\" failed: hook memcached/templates/migrate.yaml was interrupted while waiting for Job \"migrate\" to finish: the spec changed";
        assert_eq!(said, expected);
        assert_eq!(world.condition("ReleaseFailed"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_goes_back_ends_the_wait_too_and_nothing_is_rolled_back_in_between() {
    let world = World::new(with_hooks(json!([hook("migrate", "post-upgrade"), hook("back", "pre-rollback")])));
    world.reconcile().await;
    let uid = world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
    world.edit(|p| p["spec"]["value"] = "2".into());
    reconcile_while(&world, |world| world.edit(|p| p["spec"]["value"] = "1".into())).await;
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!(world.value_of("a"), "1");
    assert_eq!(world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"], uid);
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2, "no hook of a rollback");
}

#[tokio::test(start_paused = true)]
async fn a_corrected_install_leaves_nothing_of_the_interrupted_one() {
    let renamed = |name: &str| with_hooks(json!([hook(name, "pre-install")]));
    let world = World::new(renamed("wrong"));
    reconcile_while(&world, |world| world.edit(|p| p["spec"] = renamed("right"))).await;
    assert_eq!((world.history().last().unwrap().as_str(), world.maps().len()), ("2 deployed", 3));
    assert_eq!((uid_of(&world, "wrong"), uid_of(&world, "right").is_string()), (Value::Null, true));
}

/// Returns where the last request that starts like this is in the server's log.
pub(super) fn last(world: &World, request: &str) -> Option<usize> {
    world.server.log().iter().rposition(|line| line.starts_with(request))
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_a_dead_process_started_ends_before_the_one_of_the_next_revision_begins() {
    let renamed = |name: &str| with_hooks(json!([hook(name, "pre-install")]));
    let world = World::new(renamed("migrate-1"));
    killed_after(&world, 30).await;
    assert!(uid_of(&world, "migrate-1").is_string());
    world.edit(|p| p["spec"] = renamed("migrate-2"));
    let world = World::on(world.server);
    reconcile(&world, "Complete").await;
    assert_eq!((world.history(), world.maps().len()), (vec!["1 failed".to_owned(), "2 deployed".to_owned()], 3));
    assert_eq!((uid_of(&world, "migrate-1"), uid_of(&world, "migrate-2").is_string()), (Value::Null, true));
    assert!(last(&world, &format!("DELETE {JOBS}/migrate-1")) < last(&world, &format!("POST {JOBS}")));
    let both = (phases(&world, 1).await, phases(&world, 2).await);
    assert_eq!(both, (vec!["migrate-1 Failed".to_owned()], vec!["migrate-2 Succeeded".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_a_dead_process_started_ends_once_an_attempt_writes_the_next_revision() {
    let renamed = |name: &str| with_hooks(json!([hook(name, "pre-install")]));
    let world = World::new(renamed("migrate-1"));
    killed_after(&world, 30).await;
    let first = uid_of(&world, "migrate-1");
    assert!(first.is_string());
    let path = format!("{MAPS}/b");
    let annotations = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
    world.server.put(&path, json!({"metadata": {"name": "b", "annotations": annotations}}), "helm");
    let before = world.server.object(&path);
    world.edit(|p| p["spec"] = renamed("migrate-2"));
    let world = World::on(world.server);
    world.reconcile().await;
    assert!(world.condition("ReleaseFailed").unwrap().starts_with("True/ReleaseConflict/"));
    assert_eq!((world.history(), world.server.object(&path)), (vec!["1 pending-install".to_owned()], before));
    assert_eq!((uid_of(&world, "migrate-1"), uid_of(&world, "migrate-2")), (first, Value::Null), "it goes on");
    world.server.remove(&path);
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile(&world, "Complete").await;
    assert_eq!(world.history(), ["1 failed", "2 deployed"]);
    assert_eq!((uid_of(&world, "migrate-1"), uid_of(&world, "migrate-2").is_string()), (Value::Null, true));
    assert!(last(&world, &format!("DELETE {JOBS}/migrate-1")) < last(&world, &format!("POST {JOBS}")));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_a_dead_process_started_ends_before_those_of_the_uninstall_begin() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-upgrade"), hook("farewell", "pre-delete")])));
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    killed_after(&world, 30).await;
    assert!(uid_of(&world, "migrate").is_string());
    let world = World::on(world.server);
    world.delete();
    reconcile(&world, "Complete").await;
    assert_eq!(world.server.paths(), [format!("{JOBS}/farewell")]);
    assert!(last(&world, &format!("DELETE {JOBS}/migrate")) < last(&world, &format!("POST {JOBS}")));
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2);
    // No hook of the uninstall gives a reason to look.
    let world = World::new(with_hooks(json!([hook("migrate", "post-install")])));
    killed_after(&world, 30).await;
    let world = World::on(world.server);
    world.delete();
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn disabling_hooks_ends_one_that_a_dead_process_started() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
    killed_after(&world, 30).await;
    assert!(uid_of(&world, "migrate").is_string());
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/install-disable-hooks": "true"})
    });
    let world = World::on(world.server);
    world.reconcile().await;
    assert_eq!((world.history(), world.maps().len()), (vec!["1 deployed".to_owned()], 3));
    assert_eq!((uid_of(&world, "migrate"), phases(&world, 1).await), (Value::Null, vec!["migrate Failed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn disabling_hooks_leaves_one_that_a_dead_process_started_and_that_cannot_be_ended() {
    let refuse_ends = |world: &World| {
        world.server.refuse(|call| {
            let is_end = call.method == http::Method::DELETE && call.path.starts_with(JOBS);
            is_end.then(|| Error::from_status(500, "InternalError", "failed calling webhook"))
        });
    };
    // With the same values, the revision is continued; with others, it is given up.
    for (value, history) in [("1", vec!["1 deployed"]), ("2", vec!["1 pending-install", "2 deployed"])] {
        let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
        killed_after(&world, 30).await;
        let running = uid_of(&world, "migrate");
        assert!(running.is_string());
        world.edit(|p| {
            p["spec"]["value"] = value.into();
            p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/install-disable-hooks": "true"})
        });
        let world = World::on(world.server);
        refuse_ends(&world);
        world.reconcile().await;
        assert_eq!((world.history(), world.maps().len()), (history.iter().map(|s| s.to_string()).collect(), 3));
        assert_eq!((uid_of(&world, "migrate"), world.value_of("a")), (running, json!(value)));
    }
}

/// Creates a controller whose hooks may take a minute.
fn impatient(server: Arc<MemoryApi>) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| settings.hook_timeout = Duration::from_secs(60))
}

/// Upgrades a release whose hook does not end. The end of its Job fails in this way.
async fn not_ended(is_answered: bool) -> (World, Value) {
    let world = impatient(World::new(with_hooks(json!([hook("migrate", "post-upgrade")]))).server);
    world.reconcile().await;
    ask(&world, "2");
    world.server.refuse(move |call| {
        let is_end = call.method == http::Method::DELETE && call.path.starts_with(JOBS);
        is_end.then(|| match is_answered {
            true => Error::from_status(500, "InternalError", "failed calling webhook"),
            false => Error::Transport("reset".into()),
        })
    });
    world.reconcile().await;
    assert_eq!((world.history(), world.value_of("a")), (given("1 deployed, 2 pending-upgrade"), json!("2")));
    let job = uid_of(&world, "migrate");
    assert!(job.is_string());
    (world, job)
}

/// Returns these revisions.
fn given(history: &str) -> Vec<String> {
    history.split(", ").map(str::to_owned).collect()
}

/// Reconciles again and again, ten minutes apart.
async fn retry_times(world: &World, attempts: u32) {
    for _ in 0..attempts {
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_waits_long_for_the_end_of_a_hook_that_the_server_refuses_but_not_for_ever() {
    for restarts in [false, true] {
        let (world, job) = not_ended(true).await;
        retry_times(&world, if restarts { 3 } else { 0 }).await;
        let world = if restarts { impatient(world.server) } else { world };
        retry_times(&world, 10).await;
        assert_eq!(world.history(), given("1 deployed, 2 pending-upgrade"), "restarts: {restarts}");
        let said = world.condition("Irreconcilable").unwrap_or_default();
        assert!(said.contains("still waiting for Job \"migrate\" to be deleted"), "{said}");
        retry_times(&world, 1).await;
        assert_eq!(world.history(), given("1 superseded, 2 failed, 3 deployed"), "restarts: {restarts}");
        assert_eq!((world.value_of("a"), uid_of(&world, "migrate")), (json!("1"), job), "restarts: {restarts}");
        assert_eq!(phases(&world, 2).await, ["migrate Failed"]);
        let said = world.condition("ReleaseFailed").unwrap_or_default();
        assert!(said.starts_with("True/UpgradeError/revision 2 was given up: hook "), "{said}");
        let events = published(&world).await;
        let left: Vec<_> = events.iter().filter(|event| event.starts_with("Warning HookLeft x1: ")).collect();
        assert!(matches!(&left[..], [once] if once.contains("Job \"migrate\" to be deleted")), "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_whose_end_is_not_answered_is_waited_for_without_limit() {
    let (world, job) = not_ended(false).await;
    retry_times(&world, 15).await;
    assert_eq!((world.history(), uid_of(&world, "migrate")), (given("1 deployed, 2 pending-upgrade"), job.clone()));
    world.server.accept();
    retry_times(&world, 1).await;
    assert!(!world.history().contains(&"2 pending-upgrade".to_owned()), "{:?}", world.history());
    assert_ne!(uid_of(&world, "migrate"), job);
}

#[tokio::test(start_paused = true)]
async fn a_corrected_resource_waits_as_long_for_the_end_of_a_hook_and_is_then_deployed_beside_it() {
    let (world, job) = not_ended(true).await;
    world.edit(|p| {
        p["spec"] = spec();
        p["spec"]["value"] = "3".into();
    });
    retry_times(&world, 10).await;
    assert_eq!(world.history(), given("1 deployed, 2 pending-upgrade"));
    retry_times(&world, 1).await;
    assert_eq!(world.history(), given("1 superseded, 2 failed, 3 deployed"));
    assert_eq!((world.value_of("a"), uid_of(&world, "migrate")), (json!("3"), job));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_waits_without_limit_for_the_end_of_a_hook_that_the_server_refuses() {
    let (world, job) = not_ended(true).await;
    world.delete();
    retry_times(&world, 15).await;
    assert_eq!((world.history(), uid_of(&world, "migrate")), (given("1 deployed, 2 pending-upgrade"), job));
    let said = ["ReleaseFailed", "Irreconcilable"].map(|kind| world.condition(kind));
    assert!(said.iter().flatten().any(|said| said.ends_with(WITHOUT_HOOKS)), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn disabling_the_hooks_of_a_deletion_ends_one_that_a_dead_process_started() {
    let world = World::new(with_hooks(json!([hook("farewell", "pre-delete")])));
    world.reconcile().await;
    world.delete();
    killed_after(&world, 30).await;
    assert!(uid_of(&world, "farewell").is_string());
    assert_eq!(phases(&world, 1).await, ["farewell Running"]);
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"})
    });
    let world = World::on(world.server);
    world.reconcile().await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test(start_paused = true)]
async fn disabling_the_hooks_of_a_deletion_leaves_one_that_a_dead_process_started_and_that_cannot_be_ended() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-upgrade")])));
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    killed_after(&world, 30).await;
    let running = uid_of(&world, "migrate");
    assert!(running.is_string());
    world.server.refuse(|call| {
        let is_end = call.method == http::Method::DELETE && call.path.starts_with(JOBS);
        is_end.then(|| Error::from_status(500, "InternalError", "failed calling webhook"))
    });
    let world = World::on(world.server);
    world.delete();
    world.reconcile().await;
    let said = world.server.object(PRIMARY).unwrap()["status"]["conditions"].to_string();
    assert!(said.contains("; to uninstall without hooks"), "{said}");
    assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
    world.edit(|p| {
        p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/uninstall-disable-hooks": "true"})
    });
    // While it waits for the end of the hook, an event shows the record that says so.
    let later = async {
        sleep(Duration::from_secs(30)).await;
        world.feed();
    };
    tokio::join!(world.reconcile(), later);
    assert_eq!(world.server.paths(), [format!("{JOBS}/migrate")], "{:#?}", world.server.log());
    assert_eq!(uid_of(&world, "migrate"), running);
}

/// The first attempts leave the history, which has room for three revisions.
#[tokio::test(start_paused = true)]
async fn an_install_that_is_corrected_again_and_again_remains_an_install() {
    for (how, history, maps) in [("Complete", vec!["3 failed", "4 failed", "5 deployed"], 3), ("Failed", vec![], 0)] {
        let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
        let mut jobs = Vec::new();
        let corrections = async {
            for value in 2..=5 {
                sleep(Duration::from_secs(10)).await;
                jobs.push(uid_of(&world, "migrate"));
                world.edit(|p| p["spec"]["value"] = value.to_string().into());
                world.feed();
            }
            end_jobs(&world.server, how).await
        };
        tokio::select! {
            _ = world.reconcile() => {}
            () = corrections => unreachable!("it has no end"),
        }
        assert_eq!((world.history(), world.maps().len()), (history.into_iter().map(str::to_owned).collect(), maps));
        jobs.push(uid_of(&world, "migrate"));
        jobs.dedup();
        assert_eq!((jobs.len(), count(&world, &format!("POST {JOBS}"))), (5, 5), "{how}: each attempt has its own");
        if how == "Complete" {
            assert_eq!(phases(&world, 5).await, ["migrate Succeeded"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_ends_the_wait_for_a_hook_and_leaves_nothing() {
    for event in ["pre-install", "post-install"] {
        let world = World::new(with_hooks(json!([hook("migrate", event)])));
        let began = tokio::time::Instant::now();
        reconcile_while(&world, World::delete).await;
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert!(world.server.paths().is_empty(), "{event}: {:?}", world.server.paths());
    }
    // The hooks of the uninstall run, once.
    let world = World::new(with_hooks(json!([hook("migrate", "pre-upgrade"), hook("farewell", "pre-delete")])));
    world.reconcile().await;
    world.edit(|p| p["spec"]["value"] = "2".into());
    reconcile_while(&world, World::delete).await;
    assert_eq!(world.server.paths(), [format!("{JOBS}/farewell")]);
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2);
}

#[tokio::test(start_paused = true)]
async fn the_deletion_hooks_of_an_install_that_never_ended_run() {
    let hooks = json!([hook("migrate", "post-install"), hook("farewell", "pre-delete"), hook("gone", "post-delete")]);
    for restarts in [false, true] {
        let mut world = World::new(with_hooks(hooks.clone()));
        if restarts {
            killed_after(&world, 30).await;
            world = World::on(world.server);
            world.delete();
            reconcile(&world, "Complete").await;
        } else {
            reconcile_while(&world, World::delete).await;
        }
        assert_eq!(count(&world, &format!("POST {JOBS}")), 3, "restarts: {restarts}");
        assert!(world.server.object(PRIMARY).is_none() && world.maps().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn disabling_hooks_ends_the_wait_for_one_even_while_the_resource_is_deleted() {
    let disable = |action: &'static str| {
        move |world: &World| {
            let key = format!("helm.sdk.operatorframework.io/{action}-disable-hooks");
            world.edit(|p| p["metadata"]["annotations"] = json!({key: "true"}));
        }
    };
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install"), hook("farewell", "pre-delete")])));
    reconcile_while(&world, disable("install")).await;
    assert_eq!((world.history().last().unwrap().as_str(), uid_of(&world, "migrate")), ("2 deployed", Value::Null));
    world.delete();
    reconcile_while(&world, disable("uninstall")).await;
    assert!(world.server.paths().is_empty(), "{:?}", world.server.paths());
    assert_eq!(count(&world, &format!("POST {JOBS}")), 2);
}

#[tokio::test(start_paused = true)]
async fn anything_else_leaves_a_running_hook_alone() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
    let mut first = Value::Null;
    reconcile_while(&world, |world| {
        first = uid_of(world, "migrate");
        world.edit(|p| p["metadata"]["labels"] = json!({"a": "b"}));
    })
    .await;
    assert_eq!((world.history(), uid_of(&world, "migrate")), (vec!["1 deployed".to_owned()], first));
}

/// Reconciles. After ten seconds, `act` changes the resource, and the watch reports it as deleted. Returns the uid that the
/// hook's Job had by then.
async fn reconcile_until_it_leaves(world: &World, act: impl FnOnce(&World)) -> Value {
    let leaves = async {
        sleep(Duration::from_secs(10)).await;
        let mut last = world.server.object(PRIMARY).unwrap();
        act(world);
        if let Some(now) = world.server.object(PRIMARY) {
            last["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
        }
        Primaries(world.shared.clone()).deleted(serde_json::from_value(last).unwrap());
        uid_of(world, "migrate")
    };
    let (_, first) = tokio::join!(world.reconcile(), leaves);
    first
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_another_operator_selects_takes_its_running_hook_along() {
    for event in ["pre-install", "post-install"] {
        let a = World::new(with_hooks(json!([hook("migrate", event)])));
        let relabel = |world: &World| world.edit(|p| p["metadata"]["labels"] = json!({"shard": "b"}));
        let first = reconcile_until_it_leaves(&a, relabel).await;
        assert!(first.is_string() && uid_of(&a, "migrate") == first, "{event}: the Job runs on");
        assert_eq!(phases(&a, 1).await, ["migrate Running"]);
        let b = World::on(a.server);
        assert_eq!(b.history(), ["1 pending-install"]);
        reconcile(&b, "Complete").await;
        assert_eq!((b.history(), uid_of(&b, "migrate")), (vec!["1 deployed".to_owned()], first));
        assert_eq!(count(&b, &format!("POST {JOBS}")), 1, "{event}: {:?}", b.server.log());
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_whose_finalizers_someone_removes_ends_the_wait_for_its_hook() {
    let world = World::new(with_hooks(json!([hook("migrate", "pre-install")])));
    let first = reconcile_until_it_leaves(&world, |world| world.server.remove(PRIMARY)).await;
    assert!(first.is_string() && uid_of(&world, "migrate").is_null());
    assert_eq!(phases(&world, 1).await, ["migrate Failed"]);
}

/// Refuses changes of the ConfigMap `a`, and changes the resource: its upgrade fails.
fn refuse_the_next_value(world: &World) {
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.server.refuse(|call| {
        let is_new = call.path.starts_with(&format!("{MAPS}/a")) && call.method == http::Method::PATCH;
        is_new.then(|| Error::from_status(422, "Invalid", "no"))
    });
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_a_rollback_that_a_dead_process_began_ends_before_those_of_an_upgrade_to_the_same_inputs_begin() {
    let world = World::new(with_hooks(json!([hook("back", "pre-rollback"), hook("migrate", "pre-upgrade")])));
    world.reconcile().await;
    refuse_the_next_value(&world);
    killed_after_the_end_of(&world, "migrate").await;
    assert_eq!(phases(&world, 3).await, ["back Running", "migrate NotRun"]);
    assert!(uid_of(&world, "back").is_string());
    world.server.accept();
    world.edit(|p| p["spec"]["value"] = "1".into());
    let world = World::on(world.server);
    reconcile(&world, "Complete").await;
    // The history has room for three revisions.
    assert_eq!(
        (world.history(), world.value_of("a")),
        (["1 superseded", "3 failed", "4 deployed"].map(str::to_owned).to_vec(), json!("1"))
    );
    assert_eq!((uid_of(&world, "back"), count(&world, &format!("POST {JOBS}"))), (Value::Null, 3));
    assert!(last(&world, &format!("DELETE {JOBS}/back")) < last(&world, &format!("POST {JOBS}")));
    assert_eq!(phases(&world, 3).await, ["back Failed", "migrate NotRun"]);
    assert_eq!(phases(&world, 4).await, ["back NotRun", "migrate Succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn another_spec_ends_the_wait_for_a_hook_of_a_rollback() {
    let world = World::new(with_hooks(json!([hook("back", "pre-rollback")])));
    world.reconcile().await;
    refuse_the_next_value(&world);
    reconcile_while(&world, |world| {
        world.server.accept();
        world.edit(|p| p["spec"]["value"] = "3".into());
    })
    .await;
    reconcile(&world, "Complete").await;
    assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("3"), "4 deployed"));
    assert_eq!(count(&world, &format!("POST {JOBS}")), 1);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_release_with_deletion_hooks_have_no_owner_reference() {
    let world = World::new(json!({"maps": ["a"], "value": "1"}));
    let metadata = || world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"].clone();
    let references = || metadata()["ownerReferences"].as_array().map_or(0, Vec::len);
    world.reconcile().await;
    let uid = metadata()["uid"].clone();
    assert_eq!(references(), 1);
    for event in ["pre-delete", "post-delete"] {
        world.edit(|primary| primary["spec"]["hooks"] = json!([{"name": "backup", "events": [event], "spec": {}}]));
        world.reconcile().await;
        assert_eq!((references(), &metadata()["uid"]), (0, &uid), "{event}");
        assert_eq!(metadata()["annotations"]["operator-sdk/primary-resource"], "ns/web");
        assert_eq!(world.requests().await, 0, "it is not drift");
    }
    world.edit(|primary| primary["spec"]["hooks"] = json!([]));
    world.reconcile().await;
    assert_eq!((references(), &metadata()["uid"]), (1, &uid));
    assert_eq!(metadata()["annotations"]["operator-sdk/primary-resource"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_failed_hook_is_that_of_its_own_pod_in_its_own_namespace() {
    let spec = with_hooks(json!([{"name": "check", "namespace": "infra", "events": ["pre-install"]}]));
    let world = World::with_events(World::new(spec).server, Arc::new(Stub::default()), |settings| {
        settings.hook_logs = true;
    });
    let pod = |namespace: &str, name: &str, uid: &Value| {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "check", "uid": uid, "controller": true});
        let labels = json!({"batch.kubernetes.io/job-name": "check"});
        let pod = json!({
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "work"}]},
            "status": {"containerStatuses": [{"name": "work", "state": {"terminated": {"exitCode": 1}}}]},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        world.server.put(&path, pod, "kubelet");
        world.server.put(&format!("{path}/log"), json!({"from": name}), "kubelet");
    };
    let fail = async {
        let path = "/apis/batch/v1/namespaces/infra/jobs/check";
        loop {
            sleep(Duration::from_secs(5)).await;
            let Some(mut job) = world.server.object(path) else { continue };
            if job["status"].is_null() {
                pod("infra", "own", &job["metadata"]["uid"]);
                pod("infra", "stranger", &"another".into());
                pod("ns", "namesake", &"a third".into());
                job["status"]["conditions"] = json!([{"type": "Failed", "status": "True", "message": "as told"}]);
                world.server.put(path, job, "kube-controller-manager");
            }
        }
    };
    tokio::select! {
        _ = world.reconcile() => {}
        () = fail => unreachable!("it has no end"),
    }
    let logs: Vec<String> = published(&world).await.into_iter().filter(|event| event.contains(" HookLog ")).collect();
    let quotes = |name: &str| logs.iter().any(|log| log.contains(name));
    assert!(quotes("own") && !quotes("stranger") && !quotes("namesake"), "{logs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_the_labels_of_a_hook_in_another_namespace_does_not_explain_its_wait() {
    let spec = with_hooks(json!([{"name": "slow", "namespace": "infra", "events": ["pre-install"],
        "spec": {"selector": {"matchLabels": {"job-name": "slow"}}}}]));
    let world = World::with_events(World::new(spec).server, Arc::new(Stub::default()), |_| {});
    let pod = |namespace: &str, owner: &Value, message: &str| {
        let unscheduled =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "slow", "uid": owner, "controller": true});
        let metadata = json!({"name": message, "labels": {"job-name": "slow"}, "ownerReferences": [owner]});
        let pod = json!({"metadata": metadata, "status": {"phase": "Pending", "conditions": [unscheduled]}});
        world.server.put(&format!("/api/v1/namespaces/{namespace}/pods/{message}"), pod, "kubelet");
    };
    let mut namesake = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "slow", "uid": "a third"}});
    namesake["spec"]["selector"] = json!({"matchLabels": {"job-name": "slow"}});
    world.server.put(&format!("{JOBS}/slow"), namesake, "user");
    pod("ns", &"a third".into(), "namesake");
    let said = async {
        loop {
            if let Some(job) = world.server.object("/apis/batch/v1/namespaces/infra/jobs/slow") {
                pod("infra", &"another".into(), "a-stranger");
                pod("infra", &job["metadata"]["uid"], "own");
            }
            match world.condition("Reconciling") {
                Some(said) if said.contains("Unschedulable") => return said,
                _ => sleep(Duration::from_secs(1)).await,
            }
        }
    };
    let said = tokio::select! {
        said = said => said,
        () = sleep(Duration::from_secs(60)) => panic!("{:?}", world.condition("Reconciling")),
        _ = world.reconcile() => unreachable!("the hook never ends"),
    };
    assert!(said.ends_with("pod \"own\": Unschedulable: own"), "{said}");
}
