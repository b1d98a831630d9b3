use std::sync::{Arc, Mutex};

use helm::manifest::HOOK_DELETE_ANNOTATION;
use jiff::{SignedDuration, Timestamp};
use outside::{Call, Disturbance, Error, MemoryApi, Purpose};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::decide::{
    Absence, Evidence, Expiry, HookResult, Look, abandon, absence, created, evidence, expiry, order, outcome,
    to_clean_up,
};
use super::*;

/// A reach without limits.
static EVERYWHERE: std::sync::LazyLock<Reach> = std::sync::LazyLock::new(Reach::default);
use crate::release::HookPhase;
use crate::sample::{self, decoration};

const JOBS: &str = "/apis/batch/v1/namespaces/ns/jobs";
const JOB: &str = "/apis/batch/v1/namespaces/ns/jobs/j";
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

fn map(name: &str, weight: i64) -> Hook {
    Hook { weight, ..sample::hook(name, &[HookEvent::PreInstall]) }
}

fn job(spec: &str) -> Hook {
    let manifest = format!("apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\nspec: {{{spec}}}\n");
    Hook { kind: "Job".into(), manifest, ..map("j", 0) }
}

/// Returns a hook whose Job has a generated name.
fn generated_job(policy: DeletePolicy) -> Hook {
    let manifest = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}\n".to_owned();
    Hook { name: String::new(), manifest, delete_policies: vec![policy], ..job("") }
}

fn release(hooks: Vec<Hook>) -> Release {
    Release { version: 3, hooks, ..sample::release() }
}

/// Returns a release whose only hook started some time ago, and the stamp of that run.
fn begun(hook: Hook, phase: HookPhase, ago: Duration) -> (Release, String) {
    let started = Timestamp::now() - SignedDuration::try_from(ago).unwrap();
    let last_run = LastRun { started_at: Some(started), phase, ..LastRun::default() };
    let delete_policies = vec![DeletePolicy::BeforeHookCreation];
    (release(vec![Hook { last_run, delete_policies, ..hook }]), format!("3.{started}"))
}

/// The reports and records of a run.
#[derive(Default)]
struct Notes {
    waits: Mutex<Vec<String>>,
    phases: Mutex<Vec<Vec<HookPhase>>>,
    refuse: Mutex<Vec<Error>>,
    interrupted: Mutex<Option<&'static str>>,
    left: Mutex<Vec<String>>,
    left_by_succeeded: Mutex<Vec<String>>,
}

impl Slot for Notes {
    fn leave(&self) {}

    fn enter(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    fn waiting_for(&self, what: &str, _: &str) {
        self.waits.lock().unwrap().push(what.to_owned());
    }

    fn interruption(&self) -> Option<&'static str> {
        *self.interrupted.lock().unwrap()
    }

    fn hook_left(&self, what: &str) {
        self.left.lock().unwrap().push(what.to_owned());
    }

    fn succeeded_hook_left(&self, what: &str) {
        self.left_by_succeeded.lock().unwrap().push(what.to_owned());
    }
}

impl Journal for Notes {
    fn record<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<(), JournalError>> {
        if let Some(error) = self.refuse.lock().unwrap().pop() {
            return Box::pin(ready(Err(error.into())));
        }
        self.phases.lock().unwrap().push(release.hooks.iter().map(|hook| hook.last_run.phase).collect());
        Box::pin(ready(Ok(())))
    }
}

/// A server and the settings for running hooks on it.
struct World {
    server: Arc<MemoryApi>,
    applier: Applier,
    notes: Notes,
    timeout: Option<Duration>,
    unclaimed: Adopt,
    leaves_succeeded: bool,
}

impl World {
    fn new() -> World {
        let server = Arc::new(MemoryApi::new());
        let applier = Applier::new(server.clone());
        let timeout = Some(Duration::from_secs(300));
        World { server, applier, notes: Notes::default(), timeout, unclaimed: Adopt::Never, leaves_succeeded: false }
    }

    /// Creates a world whose server has a policy that gives each Job a TTL.
    fn with_added_ttl() -> World {
        let world = World::new();
        world.server.change(|server| {
            server.mutate(|plural, object| {
                if plural == "jobs" {
                    object["spec"]["ttlSecondsAfterFinished"] = 0.into();
                }
            });
        });
        world
    }

    fn hook_run<'a>(&'a self, decoration: &'a Decoration) -> HookRun<'a> {
        HookRun {
            reach: &EVERYWHERE,
            decoration,
            timeout: self.timeout,
            unclaimed: self.unclaimed,
            slot: &self.notes,
            journal: &self.notes,
            patience: Patience::UntilInterrupted,
            leaves_succeeded: self.leaves_succeeded,
        }
    }

    async fn run(&self, release: &mut Release) -> Result<(), HookError> {
        let decoration = decoration();
        let run = self.hook_run(&decoration);
        self.applier.run_hooks(release, HookEvent::PreInstall, &run).await?;
        self.applier.clean_up_hooks(release, HookEvent::PreInstall, None, &run).await
    }

    /// Runs the hooks of an event; returns the skipped ones.
    async fn run_at(&self, event: HookEvent, release: &mut Release) -> Result<Vec<String>, HookError> {
        release.hooks.iter_mut().for_each(|hook| hook.events = vec![event]);
        let decoration = decoration();
        let run = self.hook_run(&decoration);
        let skipped = self.applier.run_hooks(release, event, &run).await?;
        Ok(skipped.iter().map(ToString::to_string).collect())
    }

    async fn abandon(&self, release: &mut Release) -> Result<(), HookError> {
        let decoration = decoration();
        let run = self.hook_run(&decoration);
        self.applier.abandon_hooks(release, &run).await
    }

    /// Runs hooks, and changes the server after some time.
    async fn run_while(
        &self,
        release: &mut Release,
        after: u64,
        act: impl FnOnce(&MemoryApi),
    ) -> Result<(), HookError> {
        let later = async {
            sleep(Duration::from_secs(after)).await;
            act(&self.server);
        };
        tokio::join!(self.run(release), later).0
    }

    fn writes(&self) -> Vec<String> {
        let log = self.server.log();
        log.into_iter().filter(|line| !line.starts_with("GET")).collect()
    }
}

fn end(server: &MemoryApi, condition: &str) {
    end_at(server, JOB, condition);
}

fn end_at(server: &MemoryApi, path: &str, condition: &str) {
    let mut job = server.object(path).unwrap();
    job["status"]["conditions"] = json!([{"type": condition, "status": "True", "message": "out of luck"}]);
    server.put(path, job, "kube-controller-manager");
}

fn complete(server: &MemoryApi) {
    end(server, "Complete");
}

/// Stores the Job of a run as an earlier process created it.
fn put_job(server: &MemoryApi, stamp: &str, spec: Value) {
    let annotations = json!({
        "meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns", HOOK_RUN_ANNOTATION: stamp,
    });
    let metadata = json!({"name": "j", "annotations": annotations, "labels": {"app.kubernetes.io/managed-by": "Helm"}});
    server.put(
        JOB,
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}),
        "helm-operator",
    );
}

/// Adds another controller's finalizer to the Job.
fn hold(server: &MemoryApi) {
    let mut held = server.object(JOB).unwrap();
    held["metadata"]["finalizers"] = json!(["x/y"]);
    server.put(JOB, held, "someone");
}

#[tokio::test(start_paused = true)]
async fn hooks_run_by_weight_and_are_deleted_by_policy() {
    let world = World::new();
    let c = Hook { delete_policies: vec![DeletePolicy::HookSucceeded], ..map("c", 0) };
    let mut release =
        release(vec![map("b", 5), map("a", -1), c, Hook { events: vec![HookEvent::PostInstall], ..map("d", 0) }]);
    world.run(&mut release).await.unwrap();
    assert_eq!(
        world.writes(),
        [format!("POST {MAPS}"), format!("POST {MAPS}"), format!("POST {MAPS}"), format!("DELETE {MAPS}/c")]
    );
    assert_eq!(world.server.paths(), [format!("{MAPS}/a"), format!("{MAPS}/b")]);
    use HookPhase::{NotRun, Running, Succeeded};
    assert_eq!(
        release.hooks.iter().map(|h| h.last_run.phase).collect::<Vec<_>>(),
        [Succeeded, Succeeded, Succeeded, NotRun]
    );
    assert!(release.hooks[0].last_run.completed_at >= release.hooks[0].last_run.started_at);
    // Each run is recorded before its object is created.
    let phases = world.notes.phases.lock().unwrap().clone();
    assert_eq!(
        phases,
        [
            [NotRun, Running, NotRun, NotRun],
            [NotRun, Succeeded, Running, NotRun],
            [Running, Succeeded, Succeeded, NotRun]
        ]
    );
    let annotations = world.server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["annotations"].clone();
    let started = release.hooks[1].last_run.started_at.unwrap();
    assert_eq!(annotations[HOOK_RUN_ANNOTATION], format!("3.{started}"));
    assert_eq!(annotations["meta.helm.sh/release-name"], "web");
}

#[tokio::test(start_paused = true)]
async fn succeeded_hooks_do_not_run_again() {
    let world = World::new();
    let mut release = release(vec![map("a", 0), job("")]);
    release.hooks.iter_mut().for_each(|hook| hook.last_run.phase = HookPhase::Succeeded);
    world.run(&mut release).await.unwrap();
    assert_eq!(world.server.log(), Vec::<String>::new());
    assert!(world.notes.phases.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_without_hooks_send_no_request() {
    let world = World::new();
    let mut release = release(vec![Hook { events: vec![HookEvent::PostInstall], ..map("d", 0) }]);
    world.run(&mut release).await.unwrap();
    assert_eq!(world.server.log(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn long_jobs_are_awaited_and_reported() {
    let world = World { timeout: None, ..World::new() };
    let mut release = release(vec![job("")]);
    let began = Instant::now();
    world.run_while(&mut release, 7200, complete).await.unwrap();
    assert!((7200..7203).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(release.hooks[0].last_run.phase, HookPhase::Succeeded);
    let waits = world.notes.waits.lock().unwrap();
    assert_eq!(waits[0], "hook c/templates/j.yaml: waiting for Job \"j\" to finish (0s)");
    assert!(
        waits.last().unwrap().ends_with(" (1h59m59s)") || waits.last().unwrap().ends_with(" (1h59m58s)"),
        "{:?}",
        waits.last()
    );
}

#[tokio::test(start_paused = true)]
async fn endless_jobs_time_out() {
    let world = World::new();
    let mut release = release(vec![job("")]);
    let began = Instant::now();
    let error = world.run(&mut release).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook c/templates/j.yaml did not finish within 5m0s: still waiting for Job \"j\" to finish"
    );
    assert_eq!(began.elapsed().as_secs_f64().round(), 300.0);
    assert_eq!(release.hooks[0].last_run.phase, HookPhase::Failed);
    assert!(world.notes.waits.lock().unwrap().iter().all(|wait| wait.ends_with(" of 5m0s)")));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_times_out_goes_if_the_chart_deletes_it_before_each_run() {
    use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    for (policies, is_left) in
        [(vec![], false), (vec![BeforeHookCreation], false), (vec![HookFailed], false), (vec![HookSucceeded], true)]
    {
        let world = World::new();
        let mut release = release(vec![Hook { delete_policies: policies.clone(), ..job("") }]);
        let error = world.run(&mut release).await.unwrap_err();
        assert!(matches!(error, HookError::TimedOut { .. }), "{error}");
        assert_eq!(world.server.object(JOB).is_some(), is_left, "{policies:?}");
    }
}

/// Returns how the server is told to delete the dependents of what it deletes.
fn propagations(server: &MemoryApi) -> Arc<Mutex<Vec<(String, Value)>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    server.refuse(move |call| {
        if let Some((_, body)) = call.body.as_ref().filter(|_| call.method == http::Method::DELETE) {
            let body: Value = serde_json::from_slice(body).unwrap();
            noted.lock().unwrap().push((call.path.clone(), body["propagationPolicy"].clone()));
        }
        None
    });
    seen
}

#[tokio::test(start_paused = true)]
async fn a_job_is_deleted_after_its_pods_so_that_they_do_not_run_beside_those_of_the_next_one() {
    let world = World::new();
    let seen = propagations(&world.server);
    let both = |hook: Hook| Hook { delete_policies: vec![DeletePolicy::HookSucceeded], ..hook };
    let mut release = release(vec![both(map("a", -1)), both(job(""))]);
    world.run_while(&mut release, 5, complete).await.unwrap();
    let expected = [(JOB.to_owned(), json!("Foreground")), (format!("{MAPS}/a"), json!("Background"))];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_failed_job_fails_the_hook_and_skips_later_ones() {
    let world = World::new();
    let failing = Hook { delete_policies: vec![DeletePolicy::HookFailed], ..job("") };
    let first = Hook { delete_policies: vec![DeletePolicy::HookSucceeded], ..map("first", -1) };
    let mut release = release(vec![first, failing, map("z", 1)]);
    let error = world.run_while(&mut release, 5, |server| end(server, "Failed")).await.unwrap_err();
    assert_eq!(error.to_string(), "hook c/templates/j.yaml failed: Job \"j\": out of luck");
    assert_eq!(world.server.paths(), Vec::<String>::new());
    use HookPhase::{Failed, NotRun, Succeeded};
    assert_eq!(release.hooks.iter().map(|h| h.last_run.phase).collect::<Vec<_>>(), [Succeeded, Failed, NotRun]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_job_with_a_ttl_is_deleted_once_its_failure_is_recorded() {
    use HookPhase::{Failed, Running, Unknown};
    for refused in [false, true] {
        let world = World::new();
        let failing = Hook { delete_policies: vec![DeletePolicy::HookFailed], ..job("ttlSecondsAfterFinished: 60") };
        let mut release = release(vec![failing]);
        let fail = |server: &MemoryApi| {
            end(server, "Failed");
            let error = refused.then(|| Error::from_status(403, "Forbidden", "no"));
            world.notes.refuse.lock().unwrap().extend(error);
        };
        let error = world.run_while(&mut release, 5, fail).await.unwrap_err();
        assert_eq!(error.to_string(), "hook c/templates/j.yaml failed: Job \"j\": out of luck");
        let phases = world.notes.phases.lock().unwrap().clone();
        match refused {
            true => assert_eq!((phases, world.server.paths()), (vec![vec![Unknown], vec![Running]], vec![JOB.into()])),
            false => assert_eq!((phases.last(), world.server.paths()), (Some(&vec![Failed]), Vec::<String>::new())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_job_with_a_ttl_is_deleted_once_its_failure_is_recorded() {
    let world = World::new();
    let mut release = release(vec![job("ttlSecondsAfterFinished: 60")]);
    let interrupt = |_: &MemoryApi| *world.notes.interrupted.lock().unwrap() = Some("its spec changed");
    assert!(world.run_while(&mut release, 5, interrupt).await.unwrap_err().is_interruption());
    assert_eq!(world.server.paths(), Vec::<String>::new());
    assert_eq!(world.notes.phases.lock().unwrap().last(), Some(&vec![HookPhase::Failed]));
}

/// Fails each deletion as a webhook does that is away.
fn fail_deletions(server: &MemoryApi) {
    server.refuse(|call| {
        let is_deletion = call.method == http::Method::DELETE;
        is_deletion.then(|| Error::from_status(500, "InternalError", "failed calling webhook"))
    });
}

/// Forbids each deletion of an object whose path begins like this.
fn forbid_deletions(server: &MemoryApi, of: &'static str) {
    server.refuse(move |call| {
        let is_deletion = call.method == http::Method::DELETE && call.path.starts_with(of);
        is_deletion.then(|| Error::from_status(403, "Forbidden", "no"))
    });
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_job_that_cannot_be_deleted_for_now_leaves_the_outcome_open() {
    let world = World::new();
    let mut release = release(vec![job("")]);
    let interrupt = |server: &MemoryApi| {
        fail_deletions(server);
        *world.notes.interrupted.lock().unwrap() = Some("its spec changed");
    };
    let error = world.run_while(&mut release, 5, interrupt).await.unwrap_err();
    let why = "hook c/templates/j.yaml was interrupted while waiting for Job \"j\" to finish: its spec changed";
    assert_eq!(error.to_string(), format!("{why}; it may still run, because its end was not answered"));
    assert!(error.is_unanswered() && !error.is_interruption());
    assert!(outside::chain(&error).contains("Job \"j\" to be deleted"), "{}", outside::chain(&error));
    assert_eq!((world.server.paths(), release.hooks[0].last_run.phase), (vec![JOB.to_owned()], HookPhase::Failed));
    assert!(world.abandon(&mut release).await.unwrap_err().is_unanswered());
    world.server.accept();
    world.abandon(&mut release).await.unwrap();
    assert_eq!(world.server.paths(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_job_that_may_not_be_deleted_is_reported() {
    let world = World::new();
    let mut release = release(vec![job("")]);
    let interrupt = |server: &MemoryApi| {
        forbid_deletions(server, "");
        *world.notes.interrupted.lock().unwrap() = Some("its spec changed");
    };
    let error = world.run_while(&mut release, 5, interrupt).await.unwrap_err();
    assert!(error.is_interruption(), "{error}");
    let expected = "hook c/templates/j.yaml may still run, because Job \"j\" cannot be deleted (HTTP 403 Forbidden)";
    assert_eq!(*world.notes.left.lock().unwrap(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_run_or_may_not_be_read_or_deleted_holds_up_nothing_that_follows_an_abandoned_hook() {
    let done = LastRun { phase: HookPhase::Succeeded, started_at: Some(Timestamp::now()), ..LastRun::default() };
    let settings = Hook { delete_policies: vec![DeletePolicy::HookSucceeded], last_run: done, ..map("a", -1) };
    for (method, path, code) in [
        (http::Method::DELETE, format!("{MAPS}/a"), 500),
        (http::Method::GET, format!("{MAPS}/a"), 500),
        (http::Method::GET, JOB.to_owned(), 403),
        (http::Method::DELETE, JOB.to_owned(), 403),
    ] {
        let world = World::new();
        let (mut release, stamp) = begun(job(""), HookPhase::Running, Duration::from_secs(60));
        release.hooks.push(settings.clone());
        put_job(&world.server, &stamp, json!({}));
        world.server.refuse({
            let (method, path) = (method.clone(), path.clone());
            move |call| {
                let is_refused = call.method == method && call.path == path;
                is_refused.then(|| Error::from_status(code, "Forbidden", "no"))
            }
        });
        assert!(world.abandon(&mut release).await.is_ok(), "{method} {path} {code}");
        let left = world.notes.left.lock().unwrap();
        let expected =
            "hook c/templates/j.yaml may still run, because Job \"j\" cannot be deleted (HTTP 403 Forbidden)";
        assert_eq!(left.iter().any(|what| what == expected), path == JOB, "{method} {path}: {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_the_server_refuses_differs_from_one_that_it_does_not_answer() {
    for is_answered in [true, false] {
        let world = World::new();
        let (mut release, stamp) = begun(job(""), HookPhase::Running, Duration::from_secs(60));
        put_job(&world.server, &stamp, json!({}));
        if is_answered {
            fail_deletions(&world.server);
        } else {
            world.server.refuse(|call| (call.method == http::Method::DELETE).then(|| Error::Transport("reset".into())));
        }
        let error = world.abandon(&mut release).await.unwrap_err();
        assert!(error.is_unanswered() && error.is_outage(), "{error}");
        assert_eq!(error.is_refused_end(), is_answered, "{}", outside::chain(&error));
        let what = error.with_object();
        let expected = "hook c/templates/j.yaml may still run, because its end was not answered: ";
        assert!(what.starts_with(expected) && what.contains("Job \"j\" to be deleted ("), "{what}");
        assert!(!what.contains("webhook"), "{what}: the server's words may quote values");
    }
}

/// Returns a hook that is a list with a Job.
fn job_in_list() -> Hook {
    let manifest = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: batch/v1, kind: Job, metadata: {name: j}}\n";
    Hook { kind: "List".into(), manifest: manifest.into(), ..job("") }
}

#[test]
fn a_job_that_has_run_does_not_run_again_after_a_later_failure_even_in_a_list() {
    for (hook, is_again) in [(map("a", 0), true), (job(""), false), (job_in_list(), false)] {
        let kind = hook.kind.clone();
        let ended = |hook, phase| Hook { last_run: LastRun { phase, ..LastRun::default() }, ..hook };
        let first = Hook { delete_policies: vec![DeletePolicy::HookSucceeded], ..hook };
        let mut hooks = [ended(first, HookPhase::Succeeded), ended(job(""), HookPhase::Failed)];
        decide::expect_again(&mut hooks, &[0, 1]);
        assert_eq!(hooks[0].last_run.phase == HookPhase::NotRun, is_again, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_in_a_list_is_ended_as_any_other() {
    let world = World::new();
    let (mut release, stamp) = begun(job_in_list(), HookPhase::Running, Duration::from_secs(60));
    put_job(&world.server, &stamp, json!({}));
    fail_deletions(&world.server);
    assert!(world.abandon(&mut release).await.unwrap_err().is_unanswered());
    world.server.accept();
    world.abandon(&mut release).await.unwrap();
    assert_eq!(world.server.paths(), Vec::<String>::new());
}

/// Returns a hook that is a list of these objects.
fn list(items: &[Value]) -> Hook {
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    Hook { kind: "List".into(), manifest, ..job("") }
}

/// Returns a hook that is a list of two Jobs.
fn two_jobs() -> Hook {
    list(&["j", "k"].map(|name| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}})))
}

#[tokio::test(start_paused = true)]
async fn a_job_in_a_list_is_ended_when_another_one_fails() {
    use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    for (policies, left) in [
        (vec![], vec!["j"]),
        (vec![BeforeHookCreation], vec!["j"]),
        (vec![HookFailed], vec![]),
        (vec![HookSucceeded], vec!["j", "k"]),
    ] {
        let world = World::new();
        let mut release = release(vec![Hook { delete_policies: policies.clone(), ..two_jobs() }]);
        let error = world.run_while(&mut release, 5, |server| end(server, "Failed")).await.unwrap_err();
        assert!(matches!(error, HookError::Failed { .. }), "{policies:?}: {error}");
        let left: Vec<String> = left.iter().map(|name| format!("{JOBS}/{name}")).collect();
        assert_eq!(world.server.paths(), left, "{policies:?}");
        let ends = left.len() < 2;
        let recorded = world.notes.phases.lock().unwrap().last().unwrap().clone();
        assert_eq!(recorded == [HookPhase::Failed], ends, "{policies:?}: before the deletion");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_in_a_list_is_ended_when_another_object_is_not_created() {
    let world = World::new();
    world.server.disturb(&format!("POST {MAPS}"), 1, Disturbance::Refused(422));
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let error = world.run(&mut release(vec![list(&[job, map])])).await.unwrap_err();
    assert!(matches!(error, HookError::Api { source: Error::Refused { code: 422, .. }, .. }), "{error}");
    assert_eq!(world.writes(), [format!("POST {JOBS}"), format!("DELETE {JOB}")]);
}

#[tokio::test(start_paused = true)]
async fn a_job_in_a_list_that_may_not_be_deleted_is_reported_once_another_one_has_failed() {
    let world = World::new();
    let fail = |server: &MemoryApi| {
        forbid_deletions(server, "");
        end(server, "Failed");
    };
    let error = world.run_while(&mut release(vec![two_jobs()]), 5, fail).await.unwrap_err();
    assert!(matches!(error, HookError::Failed { .. }), "{error}");
    let expected = "hook c/templates/j.yaml may still run, because Job \"k\" cannot be deleted (HTTP 403 Forbidden)";
    assert_eq!(*world.notes.left.lock().unwrap(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_job_in_a_list_that_cannot_be_ended_for_now_leaves_the_outcome_open() {
    let world = World::new();
    let mut release = release(vec![two_jobs()]);
    let fail = |server: &MemoryApi| {
        fail_deletions(server);
        end(server, "Failed");
    };
    let error = world.run_while(&mut release, 5, fail).await.unwrap_err();
    assert!(matches!(error, HookError::Unended { .. }) && error.is_unanswered(), "{error}");
    world.server.accept();
    world.abandon(&mut release).await.unwrap();
    assert_eq!(world.server.paths(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_job_in_a_list_that_may_not_be_deleted_does_not_keep_an_interrupted_one() {
    let world = World::new();
    let interrupt = |server: &MemoryApi| {
        forbid_deletions(server, JOB);
        *world.notes.interrupted.lock().unwrap() = Some("its spec changed");
    };
    let error = world.run_while(&mut release(vec![two_jobs()]), 5, interrupt).await.unwrap_err();
    assert!(error.is_interruption(), "{error}");
    assert_eq!(world.server.paths(), [JOB]);
    let expected =
        "hook c/templates/j.yaml may still run, because Job \"j\" or Job \"k\" cannot be deleted (HTTP 403 Forbidden)";
    assert_eq!(*world.notes.left.lock().unwrap(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_hook_whose_job_is_being_deleted_is_not_waited_for() {
    let world = World::new();
    let (release, stamp) = begun(job(""), HookPhase::Failed, Duration::from_secs(60));
    put_job(&world.server, &stamp, json!({}));
    hold(&world.server);
    let (decoration, began) = (decoration(), Instant::now());
    let run = world.hook_run(&decoration);
    world.applier.end_failed(&release, &run).await.unwrap();
    let first = began.elapsed();
    world.applier.end_failed(&release, &run).await.unwrap();
    assert_eq!((first.is_zero(), began.elapsed()), (false, first));
}

#[tokio::test(start_paused = true)]
async fn a_failed_hook_is_ended_unless_it_has_ended_by_itself() {
    for has_ended in [false, true] {
        let world = World::new();
        let (release, stamp) = begun(job(""), HookPhase::Failed, Duration::from_secs(60));
        put_job(&world.server, &stamp, json!({}));
        if has_ended {
            end(&world.server, "Failed");
        }
        let decoration = decoration();
        let run = world.hook_run(&decoration);
        if !has_ended {
            fail_deletions(&world.server);
            assert!(world.applier.end_failed(&release, &run).await.unwrap_err().is_unanswered());
            world.server.accept();
        }
        world.applier.end_failed(&release, &run).await.unwrap();
        assert_eq!(world.server.object(JOB).is_some(), has_ended);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_hook_has_failed_and_what_its_own_run_made_goes() {
    let of_another_run = "2.2026-01-01T00:00:00Z".to_owned();
    for is_own in [true, false] {
        let world = World::new();
        // Longer ago than a hook may take.
        let (mut release, stamp) = begun(job(""), HookPhase::Running, Duration::from_secs(4000));
        put_job(&world.server, if is_own { &stamp } else { &of_another_run }, json!({}));
        let before = world.server.object(JOB).unwrap()["metadata"]["uid"].clone();
        world.abandon(&mut release).await.unwrap();
        let left = world.server.object(JOB).map(|job| job["metadata"]["uid"].clone());
        assert_eq!(left, Some(before).filter(|_| !is_own));
        let last_run = &release.hooks[0].last_run;
        assert_eq!((last_run.phase, last_run.completed_at.is_some()), (HookPhase::Failed, true));
        assert_eq!(*world.notes.phases.lock().unwrap(), [[HookPhase::Failed]], "recorded");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_an_abandoned_hook_is_deleted_before_its_failure_is_recorded() {
    let world = World::new();
    let (mut release, stamp) = begun(job("ttlSecondsAfterFinished: 60"), HookPhase::Running, Duration::from_secs(60));
    put_job(&world.server, &stamp, json!({"ttlSecondsAfterFinished": 60}));
    world.notes.refuse.lock().unwrap().push(Error::from_status(500, "InternalError", "no leader"));
    assert!(world.abandon(&mut release).await.unwrap_err().is_unanswered());
    assert_eq!(world.server.paths(), [JOB]);
    world.abandon(&mut release).await.unwrap();
    assert_eq!(world.server.paths(), Vec::<String>::new());
}

#[test]
fn only_hooks_that_began_are_abandoned_and_lose_what_an_interruption_would_delete() {
    use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    use HookPhase::{Failed, NotRun, Running, Succeeded, Unknown};
    for (phase, policy, then, is_left) in [
        (Running, BeforeHookCreation, Failed, true),
        (Unknown, HookFailed, Failed, true),
        (Running, HookSucceeded, Failed, false),
        (Failed, BeforeHookCreation, Failed, true),
        (Succeeded, HookSucceeded, Succeeded, true),
        (Succeeded, BeforeHookCreation, Succeeded, false),
        // It has succeeded at the first of its events.
        (NotRun, HookSucceeded, NotRun, true),
        (NotRun, BeforeHookCreation, NotRun, false),
    ] {
        let (mut release, _) = begun(job(""), phase, Duration::from_secs(1));
        release.hooks[0].delete_policies = vec![policy];
        let left = abandon(&mut release.hooks, Timestamp::now());
        assert_eq!((release.hooks[0].last_run.phase, !left.is_empty()), (then, is_left), "{phase:?}, {policy:?}");
    }
    // A phase that a newer version of Helm recorded.
    let mut never_begun = release(vec![job("")]);
    never_begun.hooks[0].last_run.phase = Unknown;
    assert!(abandon(&mut never_begun.hooks, Timestamp::now()).is_empty());
}

#[test]
fn a_hook_that_has_begun_at_the_next_event_is_cleaned_up_after_that() {
    use HookEvent::{PostInstall, PreInstall};
    use HookPhase::{Failed, NotRun, Running, Succeeded};
    let next = Some(PostInstall);
    for (events, phase, next, goes) in [
        (vec![PreInstall], Succeeded, next, true),
        (vec![PreInstall, PostInstall], NotRun, next, true),
        (vec![PreInstall, PostInstall], Running, next, false),
        (vec![PreInstall, PostInstall], Succeeded, next, false),
        (vec![PreInstall, PostInstall], Failed, next, false),
        (vec![PreInstall, PostInstall], Succeeded, None, true),
        (vec![PostInstall], Succeeded, next, false),
    ] {
        let (mut release, _) = begun(job(""), phase, Duration::from_secs(1));
        let hook = &mut release.hooks[0];
        (hook.events, hook.delete_policies) = (events.clone(), vec![DeletePolicy::HookSucceeded]);
        assert_eq!(!to_clean_up(&release.hooks, PreInstall, next).is_empty(), goes, "{events:?} {phase:?} {next:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_polls_are_retried() {
    let world = World::new();
    let mut release = release(vec![job("")]);
    let restart = |server: &MemoryApi| {
        server.disturb("GET /apis/batch", 20, Disturbance::Unreachable);
        server.disturb("GET /apis/batch", 2, Disturbance::Refused(503));
        server.disturb("GET /apis/batch", 1, Disturbance::Refused(429));
        server.disturb("GET /apis/batch", 1, Disturbance::Unanswered);
        complete(server);
    };
    world.run_while(&mut release, 10, restart).await.unwrap();
    assert_eq!(world.writes(), [format!("POST {JOBS}")]);
    let waits = world.notes.waits.lock().unwrap();
    assert!(waits.iter().any(|wait| wait.contains("Job \"j\" to finish (cannot reach the API server)")), "{waits:?}");
    assert!(waits.iter().any(|wait| wait.contains("(no answer within 30 s)")), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permanently_rejected_poll_fails_the_hook() {
    let world = World::new();
    let mut release = release(vec![job("")]);
    let error = world.run_while(&mut release, 10, |server| server.disturb("GET", 1, Disturbance::Refused(403))).await;
    assert!(matches!(error.unwrap_err(), HookError::Api { source: Error::Refused { code: 403, .. }, .. }));
}

#[tokio::test(start_paused = true)]
async fn timeouts_name_an_unreachable_server() {
    let world = World::new();
    let mut release = release(vec![job("")]);
    let without_slot = |server: &MemoryApi| server.disturb("GET /apis/batch", 100_000, Disturbance::Unreachable);
    let error = world.run_while(&mut release, 10, without_slot).await.unwrap_err();
    let expected = "hook c/templates/j.yaml is not known to have finished within 5m0s: still waiting for Job \"j\" to finish (cannot reach the API server)";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_once_even_if_responses_are_lost() {
    for how in [Disturbance::Unreachable, Disturbance::AnswerLost, Disturbance::Refused(503)] {
        for manifest in ["name: j", "generateName: j-"] {
            let world = World::new();
            world.server.disturb("POST", 1, how);
            let hook = Hook {
                manifest: format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{{manifest}}}\n"),
                ..map("j", 0)
            };
            let mut release = release(vec![hook]);
            world.run(&mut release).await.unwrap();
            assert_eq!(world.server.paths().len(), 1, "{how:?} {manifest}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn objects_with_generated_names_are_created_once_even_if_the_search_for_them_fails() {
    for search in [Disturbance::Refused(503), Disturbance::Refused(403), Disturbance::Unanswered] {
        let world = World::new();
        world.server.disturb("POST", 1, Disturbance::AnswerLost);
        world.server.disturb(&format!("GET {MAPS}/j-"), 1, search);
        let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: j-}\n".to_owned();
        let ran = world.run(&mut release(vec![Hook { manifest, ..map("j", 0) }])).await;
        assert_eq!((ran.is_ok(), world.server.paths().len()), (true, 1), "{search:?}: {ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_a_chart_leaves_open_differs_for_each_run_and_is_short_enough() {
    let world = World::new();
    let long = "a".repeat(80);
    let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{generateName: {long}}}\n");
    for _ in 0..2 {
        world.run(&mut release(vec![Hook { manifest: manifest.clone(), ..map("j", 0) }])).await.unwrap();
    }
    let paths = world.server.paths();
    assert_eq!(paths.len(), 2);
    for path in paths {
        let name = path.rsplit('/').next().unwrap();
        assert!(name.len() == 63 && name.starts_with("aaaa"), "{name}");
        assert_eq!(world.server.object(&path).unwrap()["metadata"]["generateName"], *long);
    }
}

fn terminating() -> Error {
    Error::from_status(403, "NamespaceTerminating", "namespace ns is being terminated")
}

#[tokio::test(start_paused = true)]
async fn deletions_skip_hooks_in_terminating_namespaces() {
    for event in [HookEvent::PreDelete, HookEvent::PostDelete] {
        let world = World::new();
        let in_other = Hook {
            manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other}\n".into(),
            ..map("b", 1)
        };
        let creates = |call: &Call| call.method == http::Method::POST && call.path.starts_with(MAPS);
        world.server.refuse(move |call| creates(call).then(terminating));
        let mut release = release(vec![map("a", 0), in_other, map("c", 2)]);
        let skipped = world.run_at(event, &mut release).await.unwrap();
        assert_eq!(skipped, ["cannot run hook c/templates/a.yaml", "cannot run hook c/templates/c.yaml"]);
        assert_eq!(world.server.paths(), ["/api/v1/namespaces/other/configmaps/b"]);
        let phases: Vec<_> = release.hooks.iter().map(|hook| hook.last_run.phase).collect();
        assert_eq!(phases, [HookPhase::Failed, HookPhase::Succeeded, HookPhase::Failed]);
    }
}

#[tokio::test(start_paused = true)]
async fn other_actions_and_errors_fail_at_hooks_that_cannot_be_created() {
    use HookEvent::{PostUpgrade, PreDelete, PreInstall};
    let forbidden: fn() -> Error = || Error::from_status(403, "Forbidden", "no");
    for (event, refusal) in
        [(PreInstall, terminating as fn() -> Error), (PostUpgrade, terminating), (PreDelete, forbidden)]
    {
        let world = World::new();
        world.server.refuse(move |call| (call.method == http::Method::POST).then(refusal));
        let error = world.run_at(event, &mut release(vec![map("a", 0)])).await.unwrap_err();
        assert!(matches!(error, HookError::Api { source: Error::Refused { code: 403, .. }, .. }), "{event:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn creates_that_keep_being_rejected_fail_before_the_timeout() {
    let began = Instant::now();
    let world = World { timeout: Some(Duration::from_secs(3600)), ..World::new() };
    world.server.disturb("POST", 100_000, Disturbance::Refused(500));
    let error = world.run(&mut release(vec![map("a", 0)])).await.unwrap_err();
    assert!(matches!(error, HookError::Api { source: Error::Refused { code: 500, .. }, .. }), "{error}");
    let took = began.elapsed().as_secs();
    assert!((120..140).contains(&took), "{took} s");
    let waits = world.notes.waits.lock().unwrap();
    assert!((10..25).contains(&waits.len()), "{} waits", waits.len());
    assert!(
        waits[0].contains("waiting for ConfigMap \"a\" to be created (") && waits[0].contains("InternalError"),
        "{waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_names_a_refusal_without_what_the_server_quotes() {
    let world = World { timeout: Some(Duration::from_secs(60)), ..World::new() };
    let refusal = || Error::from_status(500, "InternalError", "admission webhook cannot check hunter2");
    world.server.refuse(move |call| (call.method == http::Method::POST).then(refusal));
    world.notes.refuse.lock().unwrap().push(refusal());
    let error = world.run(&mut release(vec![map("a", 0)])).await.unwrap_err();
    let waits = world.notes.waits.lock().unwrap();
    let named = "hook c/templates/a.yaml: waiting for the release to be recorded (HTTP 500 InternalError)";
    assert!(waits[0].starts_with(named), "{waits:?}");
    assert!(waits.len() > 5 && !waits.iter().any(|wait| wait.contains("hunter2")), "{waits:?}");
    assert!(error.to_string().ends_with("ConfigMap \"a\" to be created (HTTP 500 InternalError)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn outages_restart_the_rejection_limit() {
    let world = World { timeout: Some(Duration::from_secs(3600)), ..World::new() };
    // Each series of rejections is shorter than two minutes; the outage between them restarts the limit.
    world.server.disturb("POST", 12, Disturbance::Refused(503));
    world.server.disturb("POST", 1, Disturbance::Unreachable);
    world.server.disturb("POST", 6, Disturbance::Refused(503));
    let began = Instant::now();
    world.run(&mut release(vec![map("a", 0)])).await.unwrap();
    assert!(began.elapsed().as_secs() > 120);
}

#[tokio::test(start_paused = true)]
async fn existing_objects_that_must_not_be_replaced_fail_the_hook() {
    let world = World::new();
    put_job(&world.server, "2.long ago", json!({}));
    let mut release = release(vec![Hook { delete_policies: vec![DeletePolicy::HookSucceeded], ..job("") }]);
    let error = world.run(&mut release).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook c/templates/j.yaml cannot create Job \"j\": an earlier run left it, and no delete policy of the hook removes it; delete it, or add \
         before-hook-creation to its annotation helm.sh/hook-delete-policy"
    );
    assert_eq!(world.writes(), [format!("POST {JOBS}")]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_an_earlier_run_left_fails_only_one_revision_if_a_failure_deletes_it() {
    use DeletePolicy::{HookFailed, HookSucceeded};
    let world = World::new();
    put_job(&world.server, "2.long ago", json!({}));
    let hook = || Hook { delete_policies: vec![HookSucceeded, HookFailed], ..job("") };
    let error = world.run(&mut release(vec![hook()])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook c/templates/j.yaml cannot create Job \"j\": an earlier run left it; the hook's delete policy hook-failed removes it \
         before the next attempt"
    );
    assert_eq!(world.server.object(JOB), None);
    world.run_while(&mut release(vec![hook()]), 5, complete).await.unwrap();
}

/// Lets a hook that has succeeded run at the action's next event.
fn await_next(release: &mut Release) {
    for hook in release.hooks.iter_mut().filter(|hook| hook.events.contains(&HookEvent::PostInstall)) {
        hook.last_run.phase = HookPhase::NotRun;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_of_the_first_event_does_not_count_at_the_second() {
    let decoration = decoration();
    let both = |path: &str, events: &[HookEvent]| {
        let policies = vec![DeletePolicy::HookFailed];
        Hook { path: path.into(), delete_policies: policies, events: events.to_vec(), ..job("") }
    };
    let (pre, post) = (HookEvent::PreInstall, HookEvent::PostInstall);
    for (whose, others) in [
        ("its own", vec![]),
        ("another hook's of the first event", vec![both("c/other.yaml", &[pre])]),
        ("another hook's of both", vec![both("c/other.yaml", &[pre, post])]),
    ] {
        let world = World::new();
        let mut hooks = vec![both("c/templates/j.yaml", &[pre, post])];
        hooks.extend(others);
        let mut release = release(hooks);
        world.run_while(&mut release, 5, complete).await.unwrap();
        assert!(world.server.object(JOB).is_some(), "{whose}: no policy deletes it");
        await_next(&mut release);
        let run = world.hook_run(&decoration);
        let error = world.applier.run_hooks(&mut release, post, &run).await.unwrap_err();
        assert!(matches!(error, HookError::Left { .. }), "{whose}: {error}");
        assert!(error.to_string().contains("add before-hook-creation"), "{whose}: {error}");
        assert_eq!(release.hooks[0].last_run.phase, HookPhase::Failed, "{whose}");
        assert_eq!(world.server.object(JOB), None, "{whose}: it would fail each revision");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_of_the_first_event_that_cannot_be_deleted_keeps_the_hook_from_the_second_and_the_error_says_so() {
    use DeletePolicy::{BeforeHookCreation, HookSucceeded};
    let (pre, post) = (HookEvent::PreInstall, HookEvent::PostInstall);
    let decoration = decoration();
    let manifest = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, annotations: {{{HOOK_DELETE_ANNOTATION}: hook-succeeded}}}}\n"
    );
    for (policy, code, phase) in [
        (HookSucceeded, 403, HookPhase::Failed),
        (BeforeHookCreation, 403, HookPhase::Failed),
        (HookSucceeded, 500, HookPhase::Running),
        (BeforeHookCreation, 500, HookPhase::NotRun),
    ] {
        let world = World { timeout: None, leaves_succeeded: true, ..World::new() };
        world.server.refuse(move |call| {
            let is_deletion = call.method == http::Method::DELETE;
            is_deletion.then(|| Error::from_status(code, "Forbidden", "denied by policy"))
        });
        let both = Hook { delete_policies: vec![policy], events: vec![pre, post], ..job("") };
        let mut release = release(vec![Hook { manifest: manifest.clone(), ..both }]);
        world.run_while(&mut release, 5, complete).await.unwrap();
        let uid = || world.server.object(JOB).map(|job| job["metadata"]["uid"].clone());
        let (first, began) = (uid(), Instant::now());
        assert!(first.is_some(), "{policy:?} {code}: it is left");
        await_next(&mut release);
        let run = world.hook_run(&decoration);
        let error = world.applier.run_hooks(&mut release, post, &run).await.unwrap_err();
        let (transient, took) = (code == 500, began.elapsed().as_secs());
        assert_eq!(
            outside::chain(&error),
            "hook c/templates/j.yaml cannot create Job \"j\": the server refuses to delete the one in its place; delete that \
             one, or change the role, policy or webhook that refuses it: denied by policy",
        );
        assert_eq!(error.is_unanswered(), transient, "{policy:?} {code}");
        assert!(if transient { (120..140).contains(&took) } else { took == 0 }, "{policy:?} {code}: {took} s");
        assert_eq!((release.hooks[0].last_run.phase, uid()), (phase, first.clone()), "{policy:?} {code}");
        world.server.accept();
        let ends = async {
            sleep(Duration::from_secs(5)).await;
            let second = uid();
            complete(&world.server);
            second
        };
        let (ran, second) = tokio::join!(world.applier.run_hooks(&mut release, post, &run), ends);
        assert_eq!(
            (ran.unwrap().len(), release.hooks[0].last_run.phase),
            (0, HookPhase::Succeeded),
            "{policy:?} {code}"
        );
        assert!(second.is_some() && second != first, "{policy:?} {code}: it has run again");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_first_event_is_replaced_at_the_second_if_it_differs_in_an_immutable_field() {
    let world = World::new();
    world.server.make_immutable("configmaps", "/data/x");
    let hook = |text: &str, event: HookEvent| {
        let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: {text}\n");
        let (path, delete_policies) = (format!("c/{text}.yaml"), vec![DeletePolicy::HookFailed]);
        Hook { path, manifest, delete_policies, events: vec![event], ..map("a", 0) }
    };
    let mut release = release(vec![hook("one", HookEvent::PreInstall), hook("two", HookEvent::PostInstall)]);
    world.run(&mut release).await.unwrap();
    let decoration = decoration();
    let run = world.hook_run(&decoration);
    world.applier.run_hooks(&mut release, HookEvent::PostInstall, &run).await.unwrap();
    assert_eq!(world.server.object(&format!("{MAPS}/a")).unwrap()["data"], json!({"x": "two"}));
}

/// Returns a hook that keeps its objects unless it succeeds.
fn unreplaced(hook: Hook, path: &str) -> Hook {
    Hook { path: path.into(), delete_policies: vec![DeletePolicy::HookSucceeded], ..hook }
}

#[tokio::test(start_paused = true)]
async fn hooks_of_two_templates_share_their_objects() {
    let world = World::new();
    let data = |value: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {{{value}: v}}\n");
    let map = |value: &str| Hook { manifest: data(value), ..unreplaced(map("a", 0), &format!("c/{value}.yaml")) };
    let job = |path: &str| Hook { weight: 1, ..unreplaced(job(""), path) };
    let mut release = release(vec![map("one"), map("two"), job("c/j.yaml"), job("c/charts/s/j.yaml")]);
    let mut seen = Value::Null;
    let ran = world.run_while(&mut release, 5, |server| {
        seen = server.object(&format!("{MAPS}/a")).unwrap();
        complete(server);
    });
    ran.await.unwrap();
    assert_eq!(seen["data"], json!({"two": "v"}));
    let deleted: Vec<String> = world.writes().into_iter().filter(|write| write.starts_with("DELETE")).collect();
    assert_eq!(deleted, [format!("DELETE {JOB}"), format!("DELETE {MAPS}/a")]);
    assert!(release.hooks.iter().all(|hook| hook.last_run.phase == HookPhase::Succeeded));
    assert_eq!(world.server.paths(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_differs_from_another_templates_runs_after_it() {
    let world = World::new();
    let immutable = || Error::Refused {
        code: 422,
        reason: "FieldImmutable".into(),
        message: "Job.batch \"j\" is invalid: spec.template: Invalid value: {}: field is immutable".into(),
        fields: vec!["spec.template".into()],
        purpose: Purpose::Write,
    };
    world.server.refuse(move |call| {
        let applies = call.method == http::Method::PATCH && call.path.contains("force=true");
        applies.then(immutable)
    });
    let mut release = release(vec![unreplaced(job(""), "c/j.yaml"), unreplaced(job(""), "c/charts/s/j.yaml")]);
    let ends = async {
        for _ in 0..2 {
            sleep(Duration::from_secs(5)).await;
            complete(&world.server);
        }
    };
    tokio::join!(world.run(&mut release), ends).0.unwrap();
    let count = |line: String| world.writes().iter().filter(|write| **write == line).count();
    assert_eq!((count(format!("POST {JOBS}")), count(format!("DELETE {JOB}"))), (3, 2), "{:?}", world.writes());
}

#[tokio::test(start_paused = true)]
async fn another_attempt_finds_what_a_failed_hook_needs() {
    let world = World::new();
    let account = Hook { weight: -1, ..unreplaced(map("a", 0), "c/a.yaml") };
    let before = Hook { weight: -2, ..unreplaced(map("before", 0), "c/before.yaml") };
    let before = Hook { delete_policies: vec![DeletePolicy::BeforeHookCreation], ..before };
    let mut release = release(vec![account, before, job("")]);
    world.run_while(&mut release, 5, |server| end(server, "Failed")).await.unwrap_err();
    assert_eq!(world.server.object(&format!("{MAPS}/a")), None);
    let mut seen = None;
    let second = world.run_while(&mut release, 5, |server| {
        seen = server.object(&format!("{MAPS}/a"));
        complete(server);
    });
    second.await.unwrap();
    assert!(seen.is_some());
    let created = world.writes().iter().filter(|write| **write == format!("POST {MAPS}")).count();
    assert_eq!(created, 3, "{:?}", world.writes());
}

/// Creates a release after a failed run of an account and a Job that needs it, whose objects are then deleted.
async fn failed_with_account(world: &World) -> Release {
    let account = Hook { weight: -1, ..unreplaced(map("a", 0), "c/a.yaml") };
    let job = Hook { delete_policies: vec![DeletePolicy::HookFailed], ..job("") };
    let mut release = release(vec![account, job]);
    world.run_while(&mut release, 5, |server| end(server, "Failed")).await.unwrap_err();
    release
}

/// Runs hooks again; the Job completes if the account is there.
async fn completes_with_account(world: &World, release: &mut Release) -> Result<(), HookError> {
    let again = world.run_while(release, 5, |server| {
        if server.object(&format!("{MAPS}/a")).is_some() {
            complete(server);
        }
    });
    again.await
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_a_failure_is_recorded_leaves_no_hook_without_what_it_needs() {
    let world = World::new();
    let mut release = failed_with_account(&world).await;
    assert_eq!(world.server.paths(), [""; 0], "all is cleaned up");
    // What was recorded when the Job began.
    (release.hooks[1].last_run.phase, release.hooks[1].last_run.completed_at) = (HookPhase::Running, None);
    completes_with_account(&world, &mut release).await.unwrap();
    let phases = world.notes.phases.lock().unwrap();
    let made_again = [[HookPhase::Running, HookPhase::Running], [HookPhase::Succeeded, HookPhase::Running]];
    assert!(phases.ends_with(&made_again.map(Vec::from)), "{phases:?}");
}

#[tokio::test(start_paused = true)]
async fn an_account_that_exists_stays_when_a_begun_hook_is_found_after_a_restart() {
    let world = World::new();
    let account = Hook { weight: -1, ..unreplaced(map("a", 0), "c/a.yaml") };
    let policies = vec![DeletePolicy::HookSucceeded, DeletePolicy::BeforeHookCreation];
    let mut release = release(vec![Hook { delete_policies: policies, ..account }, job("")]);
    let mut killed = release.clone();
    let dies = tokio::time::timeout(Duration::from_secs(5), world.run(&mut killed));
    dies.await.unwrap_err();
    let uid = |path: &str| world.server.object(path).unwrap()["metadata"]["uid"].clone();
    let (account, job) = (uid(&format!("{MAPS}/a")), uid(JOB));
    release.hooks = killed.hooks;
    let mut seen = None;
    let again = world.run_while(&mut release, 5, |server| {
        seen = Some((uid(&format!("{MAPS}/a")), uid(JOB)));
        complete(server);
    });
    again.await.unwrap();
    assert_eq!(seen, Some((account, job)));
}

#[tokio::test(start_paused = true)]
async fn an_account_that_two_hooks_share_stays_when_a_begun_hook_is_found_after_a_restart() {
    use DeletePolicy::{BeforeHookCreation, HookSucceeded};
    for policies in [vec![HookSucceeded, BeforeHookCreation], vec![HookSucceeded]] {
        let world = World::new();
        let account =
            |path: &str| Hook { weight: -1, delete_policies: policies.clone(), ..unreplaced(map("a", 0), path) };
        let mut release = release(vec![account("c/a.yaml"), account("c/charts/s/a.yaml"), job("")]);
        let mut killed = release.clone();
        let dies = tokio::time::timeout(Duration::from_secs(5), world.run(&mut killed));
        dies.await.unwrap_err();
        let uid = |path: &str| world.server.object(path).unwrap()["metadata"]["uid"].clone();
        let before = (uid(&format!("{MAPS}/a")), uid(JOB));
        let writes = world.writes().len();
        release.hooks = killed.hooks;
        let mut seen = None;
        let again = world.run_while(&mut release, 5, |server| {
            seen = Some(((uid(&format!("{MAPS}/a")), uid(JOB)), world.writes().len()));
            complete(server);
        });
        again.await.unwrap();
        assert_eq!(seen, Some((before, writes)), "{policies:?}: nothing runs again");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_hook_should_have_left_deleted_does_not_stand_in_its_way() {
    let world = World::new();
    forbid_deletions(&world.server, "");
    let mut release = failed_with_account(&world).await;
    assert_eq!(world.server.paths().len(), 2, "nothing could be deleted");
    world.server.accept();
    completes_with_account(&world, &mut release).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_left_takes_the_new_content_unless_it_runs() {
    let world = World::new();
    put_map(&world.server, "old");
    let uid = |server: &MemoryApi| server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
    let before = uid(&world.server);
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {x: new}\n".to_owned();
    let hook = Hook { delete_policies: vec![DeletePolicy::HookFailed], manifest, ..map("a", 0) };
    world.run(&mut release(vec![hook])).await.unwrap();
    assert_eq!(world.server.object(&format!("{MAPS}/a")).unwrap()["data"]["x"], "new");
    assert_eq!(uid(&world.server), before);
}

#[tokio::test(start_paused = true)]
async fn definitions_that_are_hooks_are_applied_at_each_upgrade() {
    let world = World::new();
    let definition = |data: &str| Hook {
        kind: "CustomResourceDefinition".into(),
        manifest: format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {{x: {data}}}\n"),
        ..map("a", 0)
    };
    world.run(&mut release(vec![definition("old")])).await.unwrap();
    world.run(&mut release(vec![definition("new")])).await.unwrap();
    assert_eq!(world.server.object(&format!("{MAPS}/a")).unwrap()["data"]["x"], "new");
}

#[tokio::test(start_paused = true)]
async fn failed_recordings_are_retried() {
    let world = World::new();
    let without_slot = || Error::Transport("connection refused".into());
    world.notes.refuse.lock().unwrap().extend([without_slot(), without_slot()]);
    world.run(&mut release(vec![map("a", 0)])).await.unwrap();
    assert!(world.notes.waits.lock().unwrap()[0].contains("waiting for the release to be recorded (cannot reach"));
    let forbidden = Error::Refused {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        fields: Vec::new(),
        purpose: Purpose::Write,
    };
    world.notes.refuse.lock().unwrap().push(forbidden);
    let error = world.run(&mut release(vec![map("b", 0)])).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot record hook c/templates/b.yaml");
    assert_eq!(world.server.paths(), [format!("{MAPS}/a")]);
}

#[tokio::test(start_paused = true)]
async fn running_jobs_are_found_and_awaited_after_a_restart() {
    let world = World::new();
    let (mut release, stamp) = begun(job(""), HookPhase::Running, Duration::from_secs(100));
    put_job(&world.server, &stamp, json!({}));
    world.run_while(&mut release, 60, complete).await.unwrap();
    assert_eq!(world.writes(), Vec::<String>::new());
    assert!(world.notes.waits.lock().unwrap()[0].ends_with(" (1m40s of 5m0s)"));
}

#[tokio::test(start_paused = true)]
async fn timeouts_count_from_the_start_and_allow_a_last_poll() {
    let world = World::new();
    let (mut late, stamp) = begun(job(""), HookPhase::Running, Duration::from_secs(1000));
    put_job(&world.server, &stamp, json!({}));
    let began = Instant::now();
    let error = world.run(&mut late).await.unwrap_err();
    assert!(matches!(error, HookError::TimedOut { .. }) && began.elapsed().is_zero(), "{error}");
    let (mut done, stamp) = begun(job(""), HookPhase::Running, Duration::from_secs(1000));
    put_job(&world.server, &stamp, json!({}));
    complete(&world.server);
    world.run(&mut done).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn jobs_of_earlier_runs_are_replaced_after_a_restart() {
    let world = World::new();
    put_job(&world.server, "2.long ago", json!({}));
    let (mut release, _) = begun(job(""), HookPhase::Running, Duration::ZERO);
    world.run_while(&mut release, 9, complete).await.unwrap();
    assert_eq!(world.writes(), [format!("DELETE {JOB}"), format!("POST {JOBS}")]);
    let stamp = format!("3.{}", release.hooks[0].last_run.started_at.unwrap());
    assert_eq!(world.server.object(JOB).unwrap()["metadata"]["annotations"][HOOK_RUN_ANNOTATION], stamp);
}

#[tokio::test(start_paused = true)]
async fn jobs_with_generated_names_are_found_after_a_restart() {
    let world = World::new();
    let manifest = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}\n".to_owned();
    let hook = Hook { manifest, delete_policies: vec![DeletePolicy::HookSucceeded], ..job("") };
    let mut first = release(vec![hook]);
    world.run(&mut first).await.unwrap_err();
    let made = world.server.paths();
    assert_eq!(made.len(), 1);
    first.hooks[0].last_run.phase = HookPhase::Running;
    world.run(&mut first).await.unwrap_err();
    assert_eq!(world.server.paths(), made);
}

#[tokio::test(start_paused = true)]
async fn jobs_with_generated_names_are_deleted_by_policy_and_never_join_those_of_the_next_run() {
    use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    for (how, policy, is_left) in [
        ("Complete", HookSucceeded, false),
        ("Complete", BeforeHookCreation, true),
        ("Failed", HookFailed, false),
        ("Failed", BeforeHookCreation, true),
        ("interrupted", BeforeHookCreation, false),
        ("interrupted", HookSucceeded, true),
        ("timed out", BeforeHookCreation, false),
        ("timed out", HookSucceeded, true),
    ] {
        let world = World::new();
        let mut earlier = Release { version: 2, ..release(vec![generated_job(policy)]) };
        tokio::time::timeout(Duration::from_secs(5), world.run(&mut earlier)).await.unwrap_err();
        let earlier = world.server.paths();
        assert_eq!(earlier.len(), 1);
        let made = |server: &MemoryApi| server.paths().into_iter().find(|path| !earlier.contains(path));
        let act = |server: &MemoryApi| match how {
            "interrupted" => *world.notes.interrupted.lock().unwrap() = Some("its spec changed"),
            "timed out" => {}
            ended => end_at(server, &made(server).unwrap(), ended),
        };
        _ = world.run_while(&mut release(vec![generated_job(policy)]), 5, act).await;
        assert_eq!(made(&world.server).is_some(), is_left, "{how} {policy:?}");
        assert!(world.server.object(&earlier[0]).is_some(), "{how} {policy:?}: it is another run's");
    }
}

/// Forbids to list these objects.
fn forbid_lists(world: &World, collection: &str) {
    let list = format!("{collection}?");
    world.server.refuse(move |call| {
        let is_list = call.method == http::Method::GET && call.path.starts_with(&list);
        is_list.then(|| Error::from_status(403, "Forbidden", "no"))
    });
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_generated_name_is_deleted_by_policy_although_its_kind_may_not_be_listed() {
    use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    for policy in [BeforeHookCreation, HookFailed, HookSucceeded] {
        let world = World::new();
        forbid_lists(&world, JOBS);
        let mut release = release(vec![generated_job(policy)]);
        let fail = |server: &MemoryApi| end_at(server, &server.paths()[0], "Failed");
        let error = world.run_while(&mut release, 5, fail).await.unwrap_err();
        assert!(matches!(error, HookError::Failed { .. }), "{policy:?}: {error}");
        let failed = world.server.paths();
        assert_eq!(failed.is_empty(), policy == HookFailed, "{policy:?}: {failed:?}");
        let complete = |server: &MemoryApi| {
            let path = server.paths().into_iter().find(|path| !failed.contains(path)).unwrap();
            end_at(server, &path, "Complete");
        };
        world.run_while(&mut release, 5, complete).await.unwrap();
        let left = world.server.paths();
        assert_eq!((left.len(), left == failed), (1, policy == HookSucceeded), "{policy:?}: {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_generated_name_is_resumed_although_its_kind_may_not_be_listed() {
    for is_answered in [true, false] {
        let world = World::new();
        forbid_lists(&world, JOBS);
        if !is_answered {
            world.server.disturb("POST", 1, Disturbance::AnswerLost);
        }
        let mut release = release(vec![generated_job(DeletePolicy::BeforeHookCreation)]);
        tokio::time::timeout(Duration::from_secs(5), world.run(&mut release)).await.unwrap_err();
        let made = world.server.paths();
        assert_eq!((made.len(), release.hooks[0].last_run.phase), (1, HookPhase::Running), "{is_answered}");
        let complete = |server: &MemoryApi| end_at(server, &server.paths()[0], "Complete");
        world.run_while(&mut release, 5, complete).await.unwrap();
        assert_eq!(world.server.paths(), made, "{is_answered}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_generated_name_that_is_gone_runs_again_although_its_kind_may_not_be_listed() {
    let world = World::new();
    forbid_lists(&world, JOBS);
    let mut release = release(vec![generated_job(DeletePolicy::BeforeHookCreation)]);
    tokio::time::timeout(Duration::from_secs(5), world.run(&mut release)).await.unwrap_err();
    let made = world.server.paths();
    made.iter().for_each(|path| world.server.remove(path));
    let complete = |server: &MemoryApi| end_at(server, &server.paths()[0], "Complete");
    world.run_while(&mut release, 5, complete).await.unwrap();
    assert_eq!((world.server.paths().len(), world.server.paths() == made), (1, false));
}

#[tokio::test(start_paused = true)]
async fn what_a_running_hook_needs_is_made_again_only_if_it_is_gone_although_its_kind_may_not_be_listed() {
    for is_gone in [false, true] {
        let world = World::new();
        forbid_lists(&world, MAPS);
        let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n".to_owned();
        let needed = Hook { manifest, delete_policies: vec![DeletePolicy::HookSucceeded], ..map("a", 0) };
        let mut release = release(vec![needed, job("")]);
        tokio::time::timeout(Duration::from_secs(5), world.run(&mut release)).await.unwrap_err();
        if is_gone {
            let made = world.server.paths().into_iter().find(|path| path.starts_with(MAPS)).unwrap();
            world.server.remove(&made);
        }
        world.run_while(&mut release, 5, complete).await.unwrap();
        let creations = world.writes().iter().filter(|line| **line == format!("POST {MAPS}")).count();
        assert_eq!(creations, if is_gone { 2 } else { 1 });
        assert_eq!(world.server.paths(), [JOB], "the policy applies to it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_generated_name_goes_with_its_hook_after_its_chart_was_renamed() {
    let world = World::new();
    let mut release = release(vec![generated_job(DeletePolicy::BeforeHookCreation)]);
    tokio::time::timeout(Duration::from_secs(5), world.run(&mut release)).await.unwrap_err();
    assert_eq!(world.server.paths().len(), 1);
    let renamed = Decoration { chart: "renamed".into(), ..decoration() };
    world.applier.abandon_hooks(&mut release, &world.hook_run(&renamed)).await.unwrap();
    assert_eq!(world.server.paths(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_generated_name_goes_with_the_hook_that_a_dead_process_started() {
    let world = World::new();
    let mut release = release(vec![generated_job(DeletePolicy::BeforeHookCreation)]);
    tokio::time::timeout(Duration::from_secs(5), world.run(&mut release)).await.unwrap_err();
    assert_eq!(world.server.paths().len(), 1);
    world.abandon(&mut release).await.unwrap();
    assert_eq!(world.server.paths(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_generated_name_that_failed_is_deleted_before_the_next_attempt() {
    let world = World::new();
    let mut release = release(vec![generated_job(DeletePolicy::BeforeHookCreation)]);
    let end_only = |how| move |server: &MemoryApi| end_at(server, &server.paths()[0], how);
    world.run_while(&mut release, 5, end_only("Failed")).await.unwrap_err();
    let failed = world.server.paths();
    world.run_while(&mut release, 5, end_only("Complete")).await.unwrap();
    let left = world.server.paths();
    assert_eq!((failed.len(), left.len()), (1, 1), "{failed:?} {left:?}");
    assert_ne!(left, failed);
}

#[tokio::test(start_paused = true)]
async fn jobs_with_a_ttl_are_recorded_again_after_creation() {
    let world = World::new();
    let mut release = release(vec![job("ttlSecondsAfterFinished: 0")]);
    world.run_while(&mut release, 5, complete).await.unwrap();
    assert_eq!(*world.notes.phases.lock().unwrap(), [[HookPhase::Unknown], [HookPhase::Running]]);
}

#[tokio::test(start_paused = true)]
async fn jobs_that_expire_between_polls_succeeded() {
    let world = World::new();
    let mut release = release(vec![job("ttlSecondsAfterFinished: 0")]);
    world.run_while(&mut release, 5, |server| server.remove(JOB)).await.unwrap();
    assert_eq!(world.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_goes_before_its_ttl_can_be_over_was_deleted() {
    for (ttl, has_succeeded) in [(0, true), (10, true), (60, false)] {
        let world = World::new();
        let mut release = release(vec![job(&format!("ttlSecondsAfterFinished: {ttl}"))]);
        let ran = world.run_while(&mut release, 100, |server| server.remove(JOB)).await;
        let said = ran.err().map(|error| error.to_string()).unwrap_or_default();
        let deleted = "hook c/templates/j.yaml failed: Job \"j\": it was deleted before it finished";
        assert_eq!(said, if has_succeeded { "" } else { deleted }, "{ttl}");
        assert_eq!(world.writes(), [format!("POST {JOBS}")], "{ttl}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_ttl_may_have_ended_during_an_outage_succeeded() {
    let world = World::new();
    let mut release = release(vec![job("ttlSecondsAfterFinished: 60")]);
    let outage = async {
        sleep(Duration::from_secs(5)).await;
        world.server.refuse(|_| Some(Error::Transport("reset".into())));
        world.server.remove(JOB);
        sleep(Duration::from_secs(80)).await;
        world.server.accept();
    };
    tokio::join!(world.run(&mut release), outage).0.unwrap();
    assert_eq!(world.writes().iter().filter(|write| write.starts_with("POST")).count(), 1);
}

#[test]
fn what_was_seen_last_and_how_long_ago_decides_how_a_job_has_ended_that_is_gone() {
    let asked = Instant::now();
    let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "message": "no"}]});
    let failed_with = |why: &str| HookResult::Failed(why.into());
    let deleted = || failed_with("it was deleted before it finished");
    for (status, ttl, passed, expected) in [
        (Value::Null, json!(60), 49, deleted()),
        (Value::Null, json!(60), 50, HookResult::Succeeded),
        (Value::Null, json!(0), 0, HookResult::Succeeded),
        (Value::Null, Value::Null, 1000, deleted()),
        (complete, Value::Null, 0, HookResult::Succeeded),
        (failed.clone(), json!(60), 0, failed_with("no")),
        (failed, json!(60), 1000, failed_with("no")),
    ] {
        let live = json!({"apiVersion": "batch/v1", "spec": {"ttlSecondsAfterFinished": ttl}, "status": status});
        let ended = Look::of("Job", &live, asked).gone("Job", asked + Duration::from_secs(passed));
        assert_eq!(ended, expected, "{live} after {passed} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_whose_job_a_persons_rollback_replaces_is_interrupted_whatever_its_ttl() {
    for spec in ["", "ttlSecondsAfterFinished: 0", "ttlSecondsAfterFinished: 60"] {
        let world = World::new();
        let mut release = release(vec![job(spec)]);
        let mut helms = None;
        let replace = |server: &MemoryApi| {
            *world.notes.interrupted.lock().unwrap() = Some("somebody has replaced the revision");
            replace_by_helms(server, JOB);
            helms = server.object(JOB);
        };
        let error = world.run_while(&mut release, 5, replace).await.unwrap_err();
        assert!(error.is_interruption(), "{spec}: {error}");
        assert_eq!(world.notes.phases.lock().unwrap().last(), Some(&vec![HookPhase::Failed]), "{spec}");
        assert_eq!(world.server.object(JOB), helms, "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_that_expired_during_a_restart_do_not_run_again() {
    let world = World::new();
    let expiring = || job("ttlSecondsAfterFinished: 0");
    let (mut made, _) = begun(expiring(), HookPhase::Running, Duration::from_secs(9));
    world.run(&mut made).await.unwrap();
    assert_eq!(world.writes(), Vec::<String>::new());
    let (mut announced, _) = begun(expiring(), HookPhase::Unknown, Duration::from_secs(9));
    world.run_while(&mut announced, 9, complete).await.unwrap();
    assert_eq!(world.writes(), [format!("POST {JOBS}")]);
}

#[tokio::test(start_paused = true)]
async fn jobs_whose_ttl_the_server_added_succeeded_if_they_expire_between_polls() {
    let world = World::with_added_ttl();
    let mut release = release(vec![job("")]);
    world.run_while(&mut release, 5, |server| server.remove(JOB)).await.unwrap();
    assert_eq!(world.writes(), [format!("POST {JOBS}")]);
    assert_eq!(*world.notes.phases.lock().unwrap(), [[HookPhase::Running], [HookPhase::Running]]);
}

#[tokio::test(start_paused = true)]
async fn jobs_whose_ttl_the_server_added_do_not_run_again_if_they_expired_during_a_restart() {
    let world = World::with_added_ttl();
    let mut release = release(vec![job("")]);
    tokio::time::timeout(Duration::from_secs(5), world.run(&mut release)).await.unwrap_err();
    // What the next process reads.
    let recorded = serde_json::to_string(&release.hooks[0].last_run).unwrap();
    release.hooks[0].last_run = serde_json::from_str(&recorded).unwrap();
    world.server.remove(JOB);
    world.run(&mut release).await.unwrap();
    assert_eq!(world.writes(), [format!("POST {JOBS}")], "{recorded}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_job_whose_ttl_the_server_added_is_deleted_once_its_failure_is_recorded() {
    let world = World::with_added_ttl();
    let mut release = release(vec![Hook { delete_policies: vec![DeletePolicy::HookFailed], ..job("") }]);
    world.run_while(&mut release, 5, |server| end(server, "Failed")).await.unwrap_err();
    assert_eq!(world.notes.phases.lock().unwrap().last(), Some(&vec![HookPhase::Failed]));
    assert_eq!(world.server.paths(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn deleted_jobs_fail_the_hook() {
    let world = World::new();
    let mut release = release(vec![job("")]);
    let error = world.run_while(&mut release, 5, |server| server.remove(JOB)).await.unwrap_err();
    assert_eq!(error.to_string(), "hook c/templates/j.yaml failed: Job \"j\": it was deleted before it finished");
}

#[tokio::test(start_paused = true)]
async fn a_job_in_the_place_of_a_hooks_is_not_judged() {
    let succeeded = "";
    let deleted = "hook c/templates/j.yaml failed: Job \"j\": it was deleted before it finished";
    for (spec, condition, expected) in [("", "Complete", deleted), ("ttlSecondsAfterFinished: 0", "Failed", succeeded)]
    {
        let world = World::new();
        let mut release = release(vec![job(spec)]);
        let replace = |server: &MemoryApi| {
            server.remove(JOB);
            put_job(server, "3.of another release", json!({}));
            end(server, condition);
        };
        let ran = world.run_while(&mut release, 5, replace).await;
        assert_eq!(ran.err().map(|error| error.to_string()).unwrap_or_default(), expected, "{condition}");
        let left = world.server.object(JOB).unwrap();
        assert_eq!(left["metadata"]["annotations"][HOOK_RUN_ANNOTATION], "3.of another release", "{condition}");
        assert_eq!(world.writes(), [format!("POST {JOBS}")], "{condition}");
    }
}

/// Stores a hook's object in place of another one, as Helm makes it.
fn replace_by_helms(server: &MemoryApi, path: &str) {
    server.remove(path);
    let name = path.rsplit('/').next().unwrap();
    let metadata = json!({"name": name, "annotations": {"helm.sh/hook": "pre-rollback"}});
    server.put(path, json!({"metadata": metadata}), "helm");
}

/// Lets Helm make a Job as soon as ours of that name is deleted, once.
fn replace_by_helms_once_deleted(server: &Arc<MemoryApi>) {
    let known = Arc::downgrade(server);
    server.refuse(move |call| {
        let server = known.upgrade()?;
        let deletions = server.log().into_iter().filter(|line| *line == format!("DELETE {JOB}")).count();
        let is_read = call.method == http::Method::GET && call.path == JOB;
        if is_read && deletions == 1 && server.object(JOB).is_none() {
            replace_by_helms(&server, JOB);
        }
        None
    });
}

#[tokio::test(start_paused = true)]
async fn what_helm_makes_in_the_place_of_hooks_objects_outlives_a_failure() {
    use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    for is_interrupted in [false, true] {
        let world = World { unclaimed: Adopt::Unowned, ..World::new() };
        let account = Hook { weight: -1, delete_policies: vec![HookSucceeded], ..map("a", 0) };
        let job = Hook { delete_policies: vec![BeforeHookCreation, HookFailed], ..job("") };
        let paths = [format!("{MAPS}/a"), JOB.to_owned()];
        let mut made = Vec::new();
        let replace = |server: &MemoryApi| {
            if is_interrupted {
                *world.notes.interrupted.lock().unwrap() = Some("somebody has replaced the revision");
                replace_by_helms(server, &paths[0]);
            } else {
                paths.iter().for_each(|path| replace_by_helms(server, path));
            }
            made = paths.iter().map(|path| server.object(path)).collect();
        };
        let error = world.run_while(&mut release(vec![account, job]), 5, replace).await.unwrap_err();
        assert_eq!(error.is_interruption(), is_interrupted, "{error}");
        let left: Vec<_> = paths.iter().map(|path| world.server.object(path)).collect();
        // What it has interrupted is its own.
        let expected = if is_interrupted { vec![made[0].clone(), None] } else { made };
        assert_eq!(left, expected, "interrupted: {is_interrupted}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_helm_makes_once_an_interrupted_hooks_job_is_deleted_stays() {
    let world = World { unclaimed: Adopt::Unowned, ..World::new() };
    replace_by_helms_once_deleted(&world.server);
    interrupted(&world, &[]).await;
    let left = world.server.object(JOB).unwrap();
    assert_eq!(left["metadata"]["annotations"]["helm.sh/hook"], "pre-rollback");
    assert_eq!(world.writes(), [format!("POST {JOBS}"), format!("DELETE {JOB}")]);
}

#[tokio::test(start_paused = true)]
async fn what_helm_makes_once_the_job_of_an_earlier_run_is_deleted_stays() {
    let writes = [format!("DELETE {JOB}"), format!("POST {JOBS}")];
    for is_replaced in [false, true] {
        let world = World { unclaimed: Adopt::Unowned, ..World::new() };
        *world.notes.interrupted.lock().unwrap() = is_replaced.then_some("somebody has replaced the revision");
        put_job(&world.server, "2.long ago", json!({}));
        replace_by_helms_once_deleted(&world.server);
        let error = world.run(&mut release(vec![job("")])).await.unwrap_err();
        assert_eq!(matches!(error, HookError::Left { .. }), !is_replaced, "{error}");
        assert_eq!(error.is_interruption(), is_replaced, "{error}");
        let left = world.server.object(JOB).unwrap();
        assert_eq!(left["metadata"]["annotations"]["helm.sh/hook"], "pre-rollback");
        assert_eq!(world.writes(), if is_replaced { &writes[..1] } else { &writes[..] });
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_finds_helms_job_is_interrupted_if_the_revision_is_replaced() {
    for unclaimed in [Adopt::Never, Adopt::Unowned] {
        for is_replaced in [false, true] {
            let world = World { unclaimed, ..World::new() };
            *world.notes.interrupted.lock().unwrap() = is_replaced.then_some("somebody has replaced the revision");
            replace_by_helms(&world.server, JOB);
            let helms = world.server.object(JOB);
            let error = world.run(&mut release(vec![unreplaced(job(""), "c/j.yaml")])).await.unwrap_err();
            assert_eq!(error.is_interruption(), is_replaced, "{unclaimed:?}: {error}");
            assert_eq!(matches!(error, HookError::Left { .. }), !is_replaced && unclaimed == Adopt::Unowned, "{error}");
            if let HookError::Left { why, .. } = error {
                assert_eq!(why, "somebody else made it, such as Helm; delete it once it has finished");
            }
            assert_eq!(world.server.object(JOB), helms);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_helm_makes_before_a_hook_begins_stays_if_the_revision_is_replaced() {
    for is_replaced in [false, true] {
        let world = World { unclaimed: Adopt::Unowned, ..World::new() };
        *world.notes.interrupted.lock().unwrap() = is_replaced.then_some("somebody has replaced the revision");
        let path = format!("{MAPS}/a");
        replace_by_helms(&world.server, &path);
        let helms = world.server.object(&path);
        let ran = world.run(&mut release(vec![map("a", 0)])).await;
        assert_eq!(ran.is_err_and(|error| error.is_interruption()), is_replaced);
        assert_eq!(world.server.object(&path) == helms, is_replaced);
    }
}

#[tokio::test(start_paused = true)]
async fn what_helm_makes_after_a_hook_failed_is_not_deleted_as_what_that_run_left() {
    let world = World { unclaimed: Adopt::Unowned, ..World::new() };
    let (mut release, _) = begun(job(""), HookPhase::Failed, Duration::from_secs(60));
    release.hooks[0].delete_policies = vec![DeletePolicy::HookFailed];
    replace_by_helms(&world.server, JOB);
    let helms = world.server.object(JOB);
    let error = world.run(&mut release).await.unwrap_err();
    assert!(matches!(error, HookError::Left { .. }), "{error}");
    assert_eq!(world.server.object(JOB), helms);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_two_hooks_share_goes_by_the_policy_of_either_when_a_later_one_fails() {
    let world = World::new();
    let first = unreplaced(map("a", -2), "c/a.yaml");
    let second =
        Hook { delete_policies: vec![DeletePolicy::HookFailed], ..unreplaced(map("a", -1), "c/charts/s/a.yaml") };
    let mut release = release(vec![first, second, job("")]);
    world.run_while(&mut release, 5, |server| end(server, "Failed")).await.unwrap_err();
    assert_eq!(world.server.paths(), [JOB], "the second hook was the last to apply it");
}

#[tokio::test(start_paused = true)]
async fn hooks_replace_only_objects_of_their_release() {
    let helms = json!({"helm.sh/hook": "pre-install"});
    let others = json!({"helm.sh/hook": "pre-install", "meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
    let controlled = json!([{"apiVersion": "v1", "kind": "X", "name": "x", "controller": true, "uid": "u2"}]);
    let cases = [
        ("anybody's", json!({}), json!([]), Adopt::Any, false),
        ("another release's", others.clone(), json!([]), Adopt::Any, false),
        ("another resource's", helms.clone(), controlled, Adopt::Any, false),
        ("Helm's, where only we made revisions", helms.clone(), json!([]), Adopt::Never, false),
        ("Helm's, where Helm made a revision", helms, json!([]), Adopt::Unowned, true),
        (
            "ours by its controller",
            json!({}),
            json!([{"apiVersion": "v1", "kind": "X", "name": "x", "controller": true, "uid": "u1"}]),
            Adopt::Never,
            true,
        ),
    ];
    for (whose, annotations, owners, unclaimed, replaced) in cases {
        let world = World { unclaimed, ..World::new() };
        let metadata = json!({"name": "a", "annotations": annotations, "ownerReferences": owners});
        world.server.put(&format!("{MAPS}/a"), json!({"metadata": metadata, "data": {"x": "theirs"}}), "someone");
        let ran = world.run(&mut release(vec![map("a", 0)])).await;
        assert_eq!(ran.is_ok(), replaced, "{whose}: {ran:?}");
        let live = world.server.object(&format!("{MAPS}/a")).unwrap();
        assert_eq!(live["data"]["x"] == "theirs", !replaced, "{whose}");
        if annotations == others {
            let text = ran.unwrap_err().to_string();
            let expected = "hook c/templates/a.yaml cannot replace ConfigMap \"a\": it belongs to release \"other\" in namespace \"ns\"";
            assert_eq!(text, expected);
        }
    }
}

/// Returns the metadata of an object that a resource of another kind controls.
fn controlled_by(uid: &str) -> Value {
    let owner = json!({
        "apiVersion": "cache.my.domain/v1", "kind": "Redis", "name": "web", "uid": uid, "controller": true,
    });
    json!({"ownerReferences": [owner]})
}

/// Puts a Job of an earlier run in place of the hook's, with this metadata and status.
fn put_former(server: &MemoryApi, metadata: &Value, status: Value) {
    put_job(server, "1.2026-01-01T00:00:00Z", json!({}));
    let mut job = server.object(JOB).unwrap();
    if metadata["ownerReferences"].is_array() {
        job["metadata"]["ownerReferences"] = metadata["ownerReferences"].clone();
    }
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        job["metadata"]["annotations"][key] = value.clone();
    }
    job["metadata"]["annotations"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
    job["status"] = status;
    server.put(JOB, job, "helm-operator");
}

#[tokio::test(start_paused = true)]
async fn a_hook_replaces_a_former_owners_job_only_once_that_has_finished() {
    let former = crate::kube::Former { uid: "former".into(), kind: "Redis.cache.my.domain".into() };
    let decoration = Decoration { former: vec![former], ..decoration() };
    let named = |kind: &str| json!({"annotations": {"operator-sdk/primary-resource": "ns/web", "operator-sdk/primary-resource-type": kind}});
    let mut of_another_release = controlled_by("former");
    of_another_release["annotations"] = json!({"meta.helm.sh/release-name": "other"});
    let mut unstamped = controlled_by("former");
    unstamped["annotations"] = json!({HOOK_RUN_ANNOTATION: null});
    let ended = |how: &str| json!({"conditions": [{"type": how, "status": "True"}]});
    for (whose, metadata, status, is_replaced) in [
        ("complete", controlled_by("former"), ended("Complete"), true),
        ("failed", controlled_by("former"), ended("Failed"), true),
        ("named in annotations", named("Redis.cache.my.domain"), ended("Complete"), true),
        ("running", controlled_by("former"), json!({"active": 1}), false),
        ("suspended", controlled_by("former"), ended("Suspended"), false),
        ("a stranger's", controlled_by("stranger"), ended("Complete"), false),
        ("of another kind", named("Other.cache.my.domain"), ended("Complete"), false),
        ("another release's", of_another_release, ended("Complete"), false),
        ("no hook's", unstamped, ended("Complete"), false),
    ] {
        let world = World::new();
        put_former(&world.server, &metadata, status);
        let before = world.server.object(JOB);
        let mut release = release(vec![job("")]);
        let run = world.hook_run(&decoration);
        let ends = async {
            sleep(Duration::from_secs(5)).await;
            if world.server.object(JOB) != before {
                complete(&world.server);
            }
        };
        let (ran, ()) = tokio::join!(world.applier.run_hooks(&mut release, HookEvent::PreInstall, &run), ends);
        assert_eq!(ran.is_ok(), is_replaced, "{whose}: {ran:?}");
        assert_eq!(world.server.object(JOB) != before, is_replaced, "{whose}");
        assert!(is_replaced || matches!(ran, Err(HookError::Foreign { .. })), "{whose}: {ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unclaimed_hooks_outside_the_releases_namespace_are_replaced_only_if_any_object_may_be_adopted() {
    let helms = json!({"metadata": {"name": "a", "annotations": {"helm.sh/hook": "pre-install"}}, "theirs": true});
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n";
    let elsewhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n";
    for (manifest, path) in [
        (role, "/apis/rbac.authorization.k8s.io/v1/clusterroles/a"),
        (elsewhere, "/api/v1/namespaces/other/configmaps/a"),
    ] {
        for policy in [DeletePolicy::BeforeHookCreation, DeletePolicy::HookFailed] {
            for unclaimed in [Adopt::Never, Adopt::Unowned, Adopt::Released, Adopt::Any] {
                let world = World { unclaimed, ..World::new() };
                world.server.put(path, helms.clone(), "someone");
                let before = world.server.object(path);
                let hook = Hook { manifest: manifest.into(), delete_policies: vec![policy], ..map("a", 0) };
                let ran = world.run(&mut release(vec![hook])).await;
                let is_replaced = unclaimed == Adopt::Any;
                assert_eq!(ran.is_ok(), is_replaced, "{unclaimed:?} {path}: {ran:?}");
                assert_eq!(world.server.object(path) != before, is_replaced, "{unclaimed:?} {path}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_helms_without_a_namespace_is_replaced_once_it_is_annotated_as_the_error_says() {
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n";
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/a";
    let mut helms = json!({"metadata": {"name": "a", "annotations": {"helm.sh/hook": "pre-install"}}});
    let world = World { unclaimed: Adopt::Released, ..World::new() };
    world.server.put(path, helms.clone(), "helm");
    let before = world.server.object(path).unwrap();
    let mut release = release(vec![Hook { manifest: role.into(), ..map("a", 0) }]);
    let expected = "hook c/templates/a.yaml cannot replace ClusterRole \"a\": its metadata does not mark it as part of this release; \
        if it is a hook's of this release, delete it, or annotate it with operator-sdk/primary-resource=ns/web, meta.helm.sh/release-name=web and meta.helm.sh/release-namespace=ns";
    assert_eq!(world.run(&mut release).await.unwrap_err().to_string(), expected);
    helms["metadata"]["annotations"]["meta.helm.sh/release-name"] = "web".into();
    world.server.put(path, helms.clone(), "admin");
    assert!(world.run(&mut release).await.is_err(), "the name alone is that of any namespace's release");
    assert_eq!(world.server.object(path).unwrap()["metadata"]["uid"], before["metadata"]["uid"]);
    helms["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = "ns".into();
    world.server.put(path, helms.clone(), "admin");
    assert!(world.run(&mut release).await.is_err(), "a person's release may have the same name");
    assert_eq!(world.server.object(path).unwrap()["metadata"]["uid"], before["metadata"]["uid"]);
    helms["metadata"]["annotations"]["operator-sdk/primary-resource"] = "ns/web".into();
    world.server.put(path, helms, "admin");
    world.run(&mut release).await.unwrap();
    assert_ne!(world.server.object(path).unwrap()["metadata"]["uid"], before["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn deletions_are_awaited_and_sent_once() {
    let world = World::new();
    put_job(&world.server, "2.long ago", json!({}));
    hold(&world.server);
    let mut release = release(vec![job("")]);
    let later = async {
        sleep(Duration::from_secs(20)).await;
        world.server.remove(JOB);
        sleep(Duration::from_secs(20)).await;
        complete(&world.server);
    };
    tokio::join!(world.run(&mut release), later).0.unwrap();
    assert_eq!(world.writes(), [format!("DELETE {JOB}"), format!("POST {JOBS}")]);
    assert!(world.notes.waits.lock().unwrap()[0].contains("waiting for Job \"j\" to be deleted"));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_job_that_is_still_being_deleted_is_no_failure_of_the_hook() {
    let world = World::new();
    put_job(&world.server, "2.long ago", json!({}));
    hold(&world.server);
    let mut release = release(vec![job("")]);
    let error = world.run(&mut release).await.unwrap_err();
    assert!(error.is_unanswered() && error.is_slow_deletion(), "{error}");
    assert_eq!(
        error.to_string(),
        "hook c/templates/j.yaml cannot begin: after 5m0s, it still waits for Job \"j\" to be deleted; find out what keeps that, such as a finalizer or a \
         lost node"
    );
    assert_eq!(release.hooks[0].last_run.phase, HookPhase::NotRun);
    world.server.remove(JOB);
    world.run_while(&mut release, 5, complete).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_succeeded_job_that_is_still_being_deleted_does_not_fail_its_action() {
    let world = World::new();
    let mut release = release(vec![Hook { delete_policies: vec![DeletePolicy::HookSucceeded], ..job("") }]);
    let held = |server: &MemoryApi| {
        hold(server);
        complete(server);
    };
    world.run_while(&mut release, 5, held).await.unwrap();
    assert!(world.server.object(JOB).unwrap()["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn what_a_succeeded_hook_made_is_left_only_on_request_if_the_server_refuses_to_delete_it() {
    for (code, waits) in [(403, false), (500, true)] {
        let mut world = World::new();
        world.server.refuse(move |call| {
            let is_deletion = call.method == http::Method::DELETE;
            is_deletion.then(|| Error::from_status(code, "Forbidden", "s3cret denied by policy"))
        });
        let mut release = release(vec![unreplaced(map("a", 0), "c/a.yaml"), unreplaced(map("b", 1), "c/b.yaml")]);
        let began = Instant::now();
        let error = world.run(&mut release).await.unwrap_err();
        assert_eq!(error.to_string(), "hook c/b.yaml has succeeded, but ConfigMap \"b\" cannot be deleted");
        assert!(error.is_unanswered() && error.is_refused_end(), "{code}");
        assert_eq!((error.is_rejected_clean_up(), error.is_outage()), (!waits, waits), "{code}");
        assert_eq!(began.elapsed() >= Duration::from_secs(120), waits, "{code}: {:?}", began.elapsed());
        assert!(world.notes.left_by_succeeded.lock().unwrap().is_empty());
        world.leaves_succeeded = true;
        world.run(&mut release).await.unwrap();
        let left = |path: &str, name: &str| {
            format!("hook {path} has succeeded, but ConfigMap {name:?} cannot be deleted (HTTP {code} Forbidden)")
        };
        assert_eq!(*world.notes.left_by_succeeded.lock().unwrap(), [left("c/b.yaml", "b"), left("c/a.yaml", "a")]);
        world.server.accept();
        world.run(&mut release).await.unwrap();
        assert_eq!(world.server.paths(), Vec::<String>::new(), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_succeeded_hook_made_is_never_left_because_its_deletion_is_not_answered() {
    let world = World { leaves_succeeded: true, ..World::new() };
    world.server.refuse(|call| (call.method == http::Method::DELETE).then(|| Error::Transport("reset".into())));
    let error = world.run(&mut release(vec![unreplaced(map("a", 0), "c/a.yaml")])).await.unwrap_err();
    assert!(error.is_unanswered() && error.is_outage(), "{error}");
    assert!(!error.is_refused_end() && !error.is_rejected_clean_up(), "{error}");
    assert!(world.notes.left_by_succeeded.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_succeeded_hook_made_is_not_left_because_of_one_answer() {
    let world = World { leaves_succeeded: true, ..World::new() };
    world.server.disturb("DELETE", 2, Disturbance::Refused(503));
    world.run(&mut release(vec![unreplaced(map("a", 0), "c/a.yaml")])).await.unwrap();
    assert_eq!(world.server.paths(), Vec::<String>::new());
    assert!(world.notes.left_by_succeeded.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_left_job_with_a_generated_name_is_named() {
    let world = World { leaves_succeeded: true, ..World::new() };
    fail_deletions(&world.server);
    let mut release = release(vec![generated_job(DeletePolicy::HookSucceeded)]);
    let ends = async {
        sleep(Duration::from_secs(5)).await;
        end_at(&world.server, &world.server.paths()[0], "Complete");
    };
    tokio::join!(world.run(&mut release), ends).0.unwrap();
    let path = world.server.paths().remove(0);
    let name = path.rsplit('/').next().unwrap();
    let left = world.notes.left_by_succeeded.lock().unwrap();
    assert!(matches!(&left[..], [what] if what.contains(&format!("Job {name:?} cannot be deleted"))), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_should_be_gone_since_it_succeeded_does_not_stand_in_the_way_of_the_next_run() {
    use DeletePolicy::{HookFailed, HookSucceeded};
    for (policies, own, has_ended, goes) in [
        (vec![HookSucceeded], "hook-succeeded", "Complete", true),
        (vec![HookSucceeded, HookFailed], "hook-failed, Hook-Succeeded", "Complete", true),
        (vec![HookSucceeded], "hook-succeeded", "Failed", false),
        (vec![HookFailed], "hook-succeeded", "Complete", false),
        // An earlier chart keeps it, or another hook with this name.
        (vec![HookSucceeded], "before-hook-creation", "Complete", false),
        (vec![HookSucceeded], "", "Complete", false),
    ] {
        let world = World::new();
        put_job(&world.server, "2.long ago", json!({}));
        let mut job_of_earlier = world.server.object(JOB).unwrap();
        job_of_earlier["metadata"]["annotations"][HOOK_DELETE_ANNOTATION] = own.into();
        world.server.put(JOB, job_of_earlier, "helm-operator");
        end(&world.server, has_ended);
        let uid = || world.server.object(JOB).map(|job| job["metadata"]["uid"].clone());
        let before = uid();
        let mut release = release(vec![Hook { delete_policies: policies.clone(), ..job("") }]);
        let mut during = None;
        let ran = world.run_while(&mut release, 5, |server| {
            during = uid();
            if goes {
                complete(server);
            }
        });
        let ran = ran.await;
        assert_eq!(ran.is_ok(), goes, "{policies:?} {own} {has_ended}: {ran:?}");
        assert_eq!(during.is_some() && during != before, goes, "{policies:?} {own} {has_ended}");
    }
}

/// Stores the ConfigMap of an earlier run of the hook `a`.
fn put_map(server: &MemoryApi, value: &str) {
    let annotations = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
    let object = json!({"metadata": {"name": "a", "annotations": annotations}, "data": {"x": value}});
    server.put(&format!("{MAPS}/a"), object, "helm-operator");
}

#[tokio::test(start_paused = true)]
async fn immediate_deletions_are_not_awaited() {
    let world = World::new();
    put_map(&world.server, "old");
    let began = Instant::now();
    world.run(&mut release(vec![map("a", 0)])).await.unwrap();
    assert!(began.elapsed().is_zero() && world.notes.waits.lock().unwrap().is_empty());
    assert_eq!(world.writes(), [format!("DELETE {MAPS}/a"), format!("POST {MAPS}")]);
}

#[tokio::test(start_paused = true)]
async fn objects_that_change_before_their_deletion_are_judged_again() {
    let world = World::new();
    put_map(&world.server, "old");
    let (server, changes) = (Arc::downgrade(&world.server), Mutex::new(2));
    world.server.refuse(move |call| {
        let mut left = changes.lock().unwrap();
        if call.method == http::Method::DELETE && *left > 0 {
            *left -= 1;
            put_map(&*server.upgrade()?, &format!("new {left}"));
        }
        None
    });
    let began = Instant::now();
    world.run(&mut release(vec![map("a", 0)])).await.unwrap();
    assert!(!began.elapsed().is_zero());
    assert_eq!(world.writes().len(), 4);
    assert_eq!(world.notes.waits.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn permanently_rejected_deletions_fail_the_hook() {
    let world = World::new();
    put_map(&world.server, "old");
    world.server.disturb("DELETE", 1, Disturbance::Refused(403));
    let error = world.run(&mut release(vec![map("a", 0)])).await.unwrap_err();
    assert!(matches!(error, HookError::Undeleted { source: Error::Refused { code: 403, .. }, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_not_a_missing_object() {
    let world = World::new();
    put_map(&world.server, "old");
    world.server.disturb(&format!("GET {MAPS}/a"), 1, Disturbance::Refused(503));
    world.run(&mut release(vec![map("a", 0)])).await.unwrap();
    assert_eq!(world.writes(), [format!("DELETE {MAPS}/a"), format!("POST {MAPS}")]);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_earlier_objects_are_deleted_only_by_policy() {
    let world = World::new();
    put_map(&world.server, "old");
    let (mut release, _) = begun(map("a", 0), HookPhase::Running, Duration::ZERO);
    release.hooks[0].delete_policies = vec![DeletePolicy::HookFailed];
    let uid = |server: &MemoryApi| server.object(&format!("{MAPS}/a")).unwrap()["metadata"]["uid"].clone();
    let before = uid(&world.server);
    world.run(&mut release).await.unwrap();
    assert_eq!(uid(&world.server), before);
}

#[tokio::test(start_paused = true)]
async fn crds_are_never_deleted() {
    let world = World::new();
    let hook = Hook {
        kind: "CustomResourceDefinition".into(),
        delete_policies: vec![DeletePolicy::HookSucceeded],
        ..map("a", 0)
    };
    world.run(&mut release(vec![hook])).await.unwrap();
    assert_eq!(world.server.paths(), [format!("{MAPS}/a")]);
}

/// Counts how often the worker slot is released and taken.
#[derive(Default)]
struct Places(Mutex<Vec<&'static str>>);

impl Slot for Places {
    fn leave(&self) {
        self.0.lock().unwrap().push("leave");
    }

    fn enter(&self) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().push("enter");
        Box::pin(ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn the_worker_slot_is_released_only_for_hooks() {
    let (world, places, decoration) = (World::new(), Places::default(), decoration());
    let patience = Patience::UntilInterrupted;
    let run = HookRun {
        reach: &EVERYWHERE,
        decoration: &decoration,
        timeout: None,
        unclaimed: Adopt::Never,
        slot: &places,
        journal: &(),
        patience,
        leaves_succeeded: false,
    };
    let mut release = release(vec![map("a", 0)]);
    world.applier.run_hooks(&mut release, HookEvent::PostInstall, &run).await.unwrap();
    world.applier.clean_up_hooks(&release, HookEvent::PreInstall, None, &run).await.unwrap();
    assert!(places.0.lock().unwrap().is_empty());
    world.applier.run_hooks(&mut release, HookEvent::PreInstall, &run).await.unwrap();
    assert_eq!(*places.0.lock().unwrap(), ["leave", "enter"]);
}

#[test]
fn missing_objects_are_judged_by_the_evidence() {
    let running = json!({"active": 1});
    let failing =
        json!({"conditions": [{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"}]});
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "message": "no"}]});
    let succeeded = || Absence::Ended(HookResult::Succeeded);
    let failed_with = |why: &str| Absence::Ended(HookResult::Failed(why.into()));
    let deleted = || failed_with("it was deleted before it finished");
    for (evidence, expiry, expected) in [
        (Evidence::Planned, Expiry::Never, Absence::Create),
        (Evidence::Planned, Expiry::AfterFinish, Absence::Create),
        (Evidence::Created, Expiry::AfterFinish, succeeded()),
        (Evidence::Created, Expiry::Never, deleted()),
        (Evidence::Seen(&running), Expiry::AfterFinish, succeeded()),
        (Evidence::Seen(&running), Expiry::Never, deleted()),
        (Evidence::Seen(&failing), Expiry::AfterFinish, failed_with("BackoffLimitExceeded")),
        (Evidence::Seen(&failed), Expiry::AfterFinish, failed_with("no")),
    ] {
        assert_eq!(absence(evidence, expiry), expected, "{evidence:?} {expiry:?}");
    }
    for (phase, expiry, expected) in [
        (HookPhase::Running, Expiry::AfterFinish, Evidence::Created),
        (HookPhase::Running, Expiry::Never, Evidence::Planned),
        (HookPhase::Unknown, Expiry::AfterFinish, Evidence::Planned),
    ] {
        assert_eq!(evidence(phase, expiry), expected, "{phase:?} {expiry:?}");
    }
    let ttl = json!({"spec": {"ttlSecondsAfterFinished": 0}});
    assert_eq!(expiry("Job", &ttl), Expiry::AfterFinish);
    assert_eq!(expiry("Pod", &ttl), Expiry::Never);
    let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "spec": ttl["spec"]});
    assert_eq!(expiry("JobSet", &set), Expiry::Never, "nobody waits for its end");
    assert_eq!(expiry("Job", &json!({"spec": {}})), Expiry::Never);
}

#[test]
fn a_run_is_recorded_again_once_objects_that_expire_exist() {
    use Expiry::{AfterFinish, Never};
    use HookPhase::{Running, Unknown};
    for (phase, ttl_added, expiries, expected) in [
        (Running, false, vec![(Never, Never)], None),
        (Running, false, vec![(Never, Never), (Never, AfterFinish)], Some(true)),
        (Running, true, vec![(Never, AfterFinish)], None),
        (Running, true, Vec::new(), None),
        (Running, false, vec![(AfterFinish, AfterFinish)], None),
        (Unknown, false, vec![(AfterFinish, AfterFinish)], Some(false)),
        (Unknown, false, vec![(AfterFinish, AfterFinish), (Never, AfterFinish)], Some(true)),
    ] {
        let run = LastRun { phase, ttl_added, ..LastRun::default() };
        let then = created(&run, &expiries).map(|run| (run.phase, run.ttl_added));
        assert_eq!(then, expected.map(|added| (Running, added)), "{run:?} {expiries:?}");
    }
}

#[test]
fn the_status_gives_the_result_of_jobs_and_pods() {
    let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status, "reason": "r"}]});
    let failed = |why: &str| Some(HookResult::Failed(why.into()));
    for (kind, status, expected) in [
        ("Job", condition("Complete", "True"), Some(HookResult::Succeeded)),
        ("Job", condition("Complete", "False"), None),
        ("Job", condition("Failed", "True"), failed("r")),
        ("Job", condition("SuccessCriteriaMet", "True"), None),
        ("Job", Value::Null, None),
        ("Pod", json!({"phase": "Succeeded"}), Some(HookResult::Succeeded)),
        ("Pod", json!({"phase": "Failed", "message": "m", "reason": "r"}), failed("m")),
        ("Pod", json!({"phase": "Failed"}), failed("no reason given")),
        ("Pod", json!({"phase": "Running"}), None),
        ("ConfigMap", Value::Null, Some(HookResult::Succeeded)),
    ] {
        assert_eq!(outcome(kind, &status), expected, "{kind} {status}");
    }
}

#[test]
fn hooks_are_ordered_by_weight_and_name() {
    let hooks = [map("b", 1), map("c", -1), map("a", 1), Hook { events: vec![HookEvent::PreDelete], ..map("0", 0) }];
    assert_eq!(order(&hooks, HookEvent::PreInstall), [1, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_started_in_the_future_has_all_its_time() {
    // The clock was set back, or another node's is ahead.
    let world = World { timeout: Some(Duration::from_secs(60)), ..World::new() };
    let (mut release, _) = begun(job(""), HookPhase::Unknown, Duration::ZERO);
    release.hooks[0].last_run.started_at = Some(Timestamp::now() + SignedDuration::from_hours(24 * 365));
    let began = Instant::now();
    let run = world.run(&mut release);
    let complete = async {
        sleep(Duration::from_secs(50)).await;
        let mut job = world.server.object(JOB).unwrap();
        job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
        world.server.put(JOB, job, "job-controller");
    };
    let (ran, ()) = tokio::join!(run, complete);
    ran.unwrap();
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_gone_is_not_created_again_for_a_hook_that_is_interrupted() {
    let world = World::new();
    *world.notes.interrupted.lock().unwrap() = Some("the resource is being deleted");
    let mut release = release(vec![job("")]);
    release.hooks[0].last_run.phase = HookPhase::Running;
    let error = world.run(&mut release).await.unwrap_err();
    let path = &release.hooks[0].path;
    let why = "interrupted while waiting for Job \"j\" to be created: the resource is being deleted";
    assert_eq!(error.to_string(), format!("hook {path} was {why}"));
    assert_eq!((release.hooks[0].last_run.phase, world.server.object(JOB)), (HookPhase::Failed, None));
    assert!(!world.writes().iter().any(|write| write.starts_with("POST")), "{:?}", world.writes());
}

/// Runs a hook Job that does not end, and interrupts it after ten seconds.
async fn interrupted(world: &World, policies: &[DeletePolicy]) -> (Release, String) {
    let mut release = release(vec![Hook { delete_policies: policies.to_vec(), ..job("") }]);
    let notes = &world.notes;
    let interrupt = async {
        sleep(Duration::from_secs(10)).await;
        *notes.interrupted.lock().unwrap() = Some("the spec changed");
    };
    let (ran, ()) = tokio::join!(world.run(&mut release), interrupt);
    let error = ran.unwrap_err();
    assert!(error.is_interruption());
    (release, error.to_string())
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_hook_fails_within_seconds_and_its_object_goes_unless_the_chart_keeps_failed_ones() {
    let world = World::new();
    let began = Instant::now();
    let (release, error) = interrupted(&world, &[]).await;
    let path = &release.hooks[0].path;
    assert_eq!(error, format!("hook {path} was interrupted while waiting for Job \"j\" to finish: the spec changed"));
    assert!(began.elapsed() < Duration::from_secs(13), "{:?}", began.elapsed());
    assert_eq!(release.hooks[0].last_run.phase, HookPhase::Failed);
    assert!(world.server.object(JOB).is_none());
    for (policies, stays) in [(&[DeletePolicy::HookSucceeded], true), (&[DeletePolicy::HookFailed], false)] {
        let world = World::new();
        interrupted(&world, policies).await;
        assert_eq!(world.server.object(JOB).is_some(), stays, "{policies:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_on_an_interrupted_hook_delays_what_follows_by_a_minute_at_most() {
    let world = World::new();
    let hold = async {
        sleep(Duration::from_secs(5)).await;
        let mut job = world.server.object(JOB).unwrap();
        job["metadata"]["finalizers"] = json!(["x/y"]);
        world.server.put(JOB, job, "someone");
    };
    let began = Instant::now();
    tokio::join!(interrupted(&world, &[]), hold);
    assert!(began.elapsed() < Duration::from_secs(75), "{:?}", began.elapsed());
    assert!(world.server.object(JOB).unwrap()["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn no_hook_is_interrupted_while_the_server_does_not_answer() {
    let world = World { timeout: Some(Duration::from_secs(60)), ..World::new() };
    *world.notes.interrupted.lock().unwrap() = Some("the spec changed");
    world.server.refuse(|call| {
        let is_read = call.method == http::Method::GET && call.path == JOB;
        is_read.then(|| Error::from_status(503, "", "away"))
    });
    let mut release = release(vec![job("")]);
    let error = world.run(&mut release).await.unwrap_err();
    assert!(matches!(error, HookError::Unanswered { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_interrupted_once_the_server_has_refused_a_request_for_long() {
    let world = World { timeout: None, ..World::new() };
    put_job(&world.server, "2.long ago", json!({}));
    fail_deletions(&world.server);
    *world.notes.interrupted.lock().unwrap() = Some("the resource is deleted");
    let began = Instant::now();
    let error = world.run(&mut release(vec![job("")])).await.unwrap_err();
    assert!(error.is_interruption(), "{error}");
    let took = began.elapsed().as_secs();
    assert!((120..140).contains(&took), "{took} s");
}

/// Returns a Job with the policy to delete it after a failure, and an account that it needs.
fn account_and_job() -> Vec<Hook> {
    let account = Hook { delete_policies: vec![DeletePolicy::HookSucceeded], ..map("account", -1) };
    let policies = vec![DeletePolicy::BeforeHookCreation, DeletePolicy::HookFailed];
    vec![account, Hook { delete_policies: policies, ..job("") }]
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_end_is_unknown_stays_with_what_it_needs_and_counts_once_it_is_seen() {
    for code in [500, 403] {
        let world = World { timeout: Some(Duration::from_secs(60)), ..World::new() };
        let mut release = release(account_and_job());
        let is_poll = |call: &Call| call.method == http::Method::GET && call.path == JOB;
        let outage = |server: &MemoryApi| {
            server.refuse(move |call| {
                is_poll(call).then(|| Error::from_status(code, "", "no").of_request(Purpose::Read))
            });
        };
        world.run_while(&mut release, 5, outage).await.unwrap_err();
        assert_eq!(release.hooks[1].last_run.phase, HookPhase::Running, "{code}");
        assert_eq!(world.server.paths().len(), 2, "{code}");
        world.server.accept();
        complete(&world.server);
        world.run(&mut release).await.unwrap();
        let expected = [format!("POST {MAPS}"), format!("POST {JOBS}"), format!("DELETE {MAPS}/account")];
        assert_eq!(world.writes(), expected, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_could_not_be_created_in_its_time_has_all_of_it_in_the_next_attempt() {
    let world = World { timeout: Some(Duration::from_secs(60)), ..World::new() };
    world.server.disturb("POST", 100_000, Disturbance::Unreachable);
    let mut release = release(vec![job("")]);
    let error = world.run(&mut release).await.unwrap_err();
    assert!(matches!(error, HookError::Unanswered { .. }), "{error}");
    release.hooks[0].last_run.started_at = Some(Timestamp::now() - SignedDuration::from_hours(1));
    let again = World { timeout: world.timeout, ..World::new() };
    again.run_while(&mut release, 50, complete).await.unwrap();
    assert_eq!(again.writes(), [format!("POST {JOBS}")]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_cannot_be_recorded_has_not_failed() {
    let world = World::new();
    let mut release = release(vec![job("")]);
    world.notes.refuse.lock().unwrap().push(Error::from_status(403, "Forbidden", "no"));
    let error = world.run(&mut release).await.unwrap_err();
    assert!(matches!(error, HookError::Record { .. }), "{error}");
    assert_eq!(release.hooks[0].last_run.phase, HookPhase::Running);
    world.run_while(&mut release, 5, complete).await.unwrap();
    assert_eq!(world.writes(), [format!("POST {JOBS}")]);
}
