//! Tests of faults at every single request of an install, an upgrade, a failed upgrade, a failed install, a repair, a
//! recreation and an uninstall: the process dies, the server is unavailable or rejects the request, or its response is
//! lost. The final state must equal that of an undisturbed run, and no hook may run twice.

use std::collections::BTreeMap;

use helm_release::kube::{Call, Disturbance};

use super::*;

const JOBS: &str = "/apis/batch/v1/namespaces/ns/jobs";

/// The state to compare once nothing changes any more.
struct End {
    objects: BTreeMap<String, Value>,
    /// The revisions with their status; empty if each attempt adds some.
    revisions: Vec<String>,
    /// The number of hook runs.
    hooks: usize,
    /// The requests, only for the message of a failing test.
    log: Vec<String>,
}

impl End {
    /// Returns the differences: an object's JSON in both states, or the counts.
    fn differences(&self, other: &End) -> Vec<String> {
        let paths: std::collections::BTreeSet<&String> = self.objects.keys().chain(other.objects.keys()).collect();
        let shown = |end: &End, path: &String| end.objects.get(path).map(Value::to_string).unwrap_or_default();
        let differs = |path: &&String| self.objects.get(*path) != other.objects.get(*path);
        let objects = paths.into_iter().filter(differs);
        let objects = objects.map(|path| format!("{path}: {} and not {}", shown(self, path), shown(other, path)));
        let rest = |end: &End| format!("{:?}, {} hooks", end.revisions, end.hooks);
        let counts = (rest(self) != rest(other)).then(|| format!("{} and not {}", rest(self), rest(other)));
        objects.chain(counts).collect()
    }
}

/// A scenario: its preparation, its disturbed part, and whether failing attempts may add revisions.
struct Scenario {
    name: &'static str,
    prepare: fn(&World),
    change: fn(&World),
    adds_revisions: bool,
}

const SCENARIOS: [Scenario; 7] = [
    Scenario { name: "install", prepare: |_| (), change: |_| (), adds_revisions: false },
    Scenario { name: "upgrade", prepare: |_| (), change: upgrade, adds_revisions: false },
    Scenario {
        name: "failed upgrade",
        prepare: refuse_bad_values,
        change: upgrade_to_bad_values,
        adds_revisions: true,
    },
    Scenario { name: "failed install", prepare: refuse_all_values, change: |_| (), adds_revisions: true },
    Scenario { name: "repair", prepare: |_| (), change: remove_a_map, adds_revisions: false },
    Scenario { name: "recreation", prepare: fix_selectors, change: select_others, adds_revisions: false },
    Scenario { name: "uninstall", prepare: |_| (), change: World::delete, adds_revisions: false },
];

fn upgrade(world: &World) {
    world.edit(|p| (p["spec"]["maps"], p["spec"]["value"]) = (json!(["a", "d"]), "2".into()));
}

fn upgrade_to_bad_values(world: &World) {
    world.edit(|p| p["spec"]["value"] = "bad".into());
}

fn remove_a_map(world: &World) {
    world.server.remove(&format!("{MAPS}/b"));
}

fn fix_selectors(world: &World) {
    world.server.make_immutable("deployments", "/spec/selector");
}

fn select_others(world: &World) {
    world.edit(|p| p["spec"]["objects"][0]["spec"]["selector"] = "b".into());
}

fn refuse_bad_values(world: &World) {
    refuse(world, "bad");
}

fn refuse_all_values(world: &World) {
    refuse(world, "1");
}

/// Permanently rejects `b` with this value.
fn refuse(world: &World, value: &'static str) {
    world.server.refuse(move |call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let hit = call.path.contains("/configmaps")
            && body.contains("\"name\":\"b\"")
            && body.contains(&format!("\"value\":\"{value}\""));
        hit.then(|| Error::from_status(403, "Forbidden", "b is frozen"))
    });
}

/// Returns a Deployment that may be recreated.
fn deployment() -> Value {
    let metadata = json!({"name": "web", "annotations": {"helm.sdk.operatorframework.io/recreate": "true"}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"selector": "a"}})
}

fn fresh(objects: Value) -> World {
    let mut spec = spec();
    spec["objects"] = objects;
    let hook = |event: &str| json!({"name": event, "events": [event]});
    spec["hooks"] =
        ["pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-delete", "post-delete"].map(hook).into();
    World::new(spec)
}

/// Reconciles while every Job completes five seconds after its creation; adds their number to `hooks`.
async fn reconcile(world: &World, hooks: &AtomicUsize) {
    let end_jobs = async {
        loop {
            tokio::time::sleep(5 * SECOND).await;
            for path in world.server.paths().into_iter().filter(|path| path.starts_with(JOBS)) {
                let mut job = world.server.object(&path).unwrap();
                if job["status"].is_null() {
                    job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
                    world.server.put(&path, job, "kube-controller-manager");
                    hooks.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    };
    tokio::select! {
        _ = world.reconcile() => {}
        () = end_jobs => unreachable!("it has no end"),
        // A request that is never answered: the process is killed.
        () = tokio::time::sleep(Duration::from_secs(7200)) => {}
    }
}

/// Returns the server's objects without what differs between runs.
fn end(world: &World, hooks: usize, scenario: &Scenario) -> End {
    let mut objects = BTreeMap::new();
    // The garbage collector deletes Jobs of hooks with their owner.
    let is_gone = world.server.object(PRIMARY).is_none();
    let is_compared = |path: &String| !(path.starts_with(SECRETS) || is_gone && path.starts_with(JOBS));
    for path in world.server.paths().into_iter().filter(is_compared) {
        let mut object = world.server.object(&path).unwrap();
        for field in ["uid", "resourceVersion", "managedFields", "generation", "ownerReferences"] {
            object["metadata"][field] = Value::Null;
        }
        object["metadata"]["annotations"]["helm.sdk.operatorframework.io/hook-run"] = Value::Null;
        for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = Value::Null;
        }
        object["status"]["nextAttempt"] = Value::Null;
        for revision in object["status"]["history"].as_array_mut().into_iter().flatten() {
            revision["updated"] = Value::Null;
        }
        if scenario.adds_revisions {
            object["status"]["deployedRelease"]["revision"] = Value::Null;
            // Message and reason depend on the number of upgrades.
            object["status"]["conditions"] = Value::Null;
            object["status"]["history"] = Value::Null;
        }
        objects.insert(path, object);
    }
    let mut revisions = if scenario.adds_revisions { Vec::new() } else { world.history() };
    // Of several deployed revisions the newest counts, for Helm as well; marking the older one as superseded is not
    // repeated.
    let older = revisions.len().saturating_sub(1);
    revisions[..older].iter_mut().for_each(|line| *line = line.replace("deployed", "superseded"));
    let hooks = if scenario.adds_revisions { 0 } else { hooks };
    End { objects, revisions, hooks, log: world.server.log() }
}

/// Runs a scenario with a fault at its nth request; returns its final state and whether there was such a request.
async fn run(scenario: &Scenario, fault: Option<(usize, Disturbance)>, dies: bool) -> (End, bool) {
    run_at(scenario, fault, dies, Duration::ZERO).await
}

/// Runs a scenario as [`run`] does, on a server whose requests take this long.
async fn run_at(scenario: &Scenario, fault: Option<(usize, Disturbance)>, dies: bool, delay: Duration) -> (End, bool) {
    let objects = if scenario.name == "recreation" { json!([deployment()]) } else { json!([]) };
    let mut world = fresh(objects);
    world.server.slow_down(delay);
    let hooks = AtomicUsize::new(0);
    if !scenario.name.ends_with("install") || scenario.name == "uninstall" {
        reconcile(&world, &hooks).await;
        hooks.store(0, Ordering::SeqCst);
    }
    (scenario.prepare)(&world);
    (scenario.change)(&world);
    if let Some((request, how)) = fault {
        world.server.disturb_request(request, how);
    }
    reconcile(&world, &hooks).await;
    let reached = !world.server.awaits_disturbance();
    if dies {
        world = World::on(world.server);
    }
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(600)).await;
        reconcile(&world, &hooks).await;
    }
    (end(&world, hooks.load(Ordering::SeqCst), scenario), reached)
}

async fn check(how: Disturbance, dies: bool) {
    for scenario in &SCENARIOS {
        let (undisturbed, _) = run(scenario, None, dies).await;
        for request in 0.. {
            let (disturbed, reached) = run(scenario, Some((request, how)), dies).await;
            let differences = disturbed.differences(&undisturbed);
            assert!(
                differences.is_empty(),
                "{}, {how:?} at request {request}: {differences:#?}\n{:#?}",
                scenario.name,
                disturbed.log
            );
            if !reached {
                assert!(request > 0, "{} sent only {request} requests", scenario.name);
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_killed_at_any_request_is_continued_by_the_next() {
    check(Disturbance::Unanswered, true).await;
}

#[tokio::test(start_paused = true)]
async fn any_request_may_fail_to_reach_the_server() {
    check(Disturbance::Unreachable, false).await;
}

#[tokio::test(start_paused = true)]
async fn any_answer_may_be_lost_or_cut_off() {
    check(Disturbance::AnswerLost, false).await;
    check(Disturbance::CutOff, false).await;
}

#[tokio::test(start_paused = true)]
async fn any_request_may_meet_a_conflict_an_overload_or_an_internal_error() {
    for code in [409, 429, 500] {
        check(Disturbance::Refused(code), false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_an_hour_changes_nothing() {
    let world = fresh(json!([]));
    let hooks = AtomicUsize::new(0);
    reconcile(&world, &hooks).await;
    let before = world.history();
    world.server.refuse(|_: &Call| Some(Error::Transport("connection refused".into())));
    remove_a_map(&world);
    for _ in 0..6 {
        reconcile(&world, &hooks).await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    world.server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile(&world, &hooks).await;
    assert_eq!((world.history(), world.maps().len(), hooks.load(Ordering::SeqCst)), (before, 3, 2));
    assert_eq!(world.state("Ready"), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_gets_the_same_requests_and_each_once() {
    let writes = |end: &End| end.log.iter().filter(|line| !line.starts_with("GET")).count();
    for scenario in &SCENARIOS {
        let (fast, _) = run(scenario, None, false).await;
        let (slow, _) = run_at(scenario, None, false, 20 * SECOND).await;
        let differences = slow.differences(&fast);
        assert!(differences.is_empty(), "{}: {differences:#?}", scenario.name);
        // The status may be written while a step waits.
        let progress = |end: &End| end.log.iter().filter(|line| line.ends_with("/status")).count();
        assert_eq!(writes(&slow) - progress(&slow), writes(&fast) - progress(&fast), "{}", scenario.name);
    }
}
