//! Tests of the timing of the whole loop, in virtual time against the API server in memory, with reconciles counted.

use controller::runtime::reflector::First;
use controller::runtime::workers::serve;
use helm_release::kube::Disturbance;
use tokio_util::sync::CancellationToken;

use crate::charts::object_watches;
use crate::charts::tests::reporting::published;
use crate::charts::tests::rollout::set_deployment_ready;
use crate::charts::tests::*;
use crate::reconcile::decide::last_failure::LastFailure;
use crate::reconcile::observe::share;
use crate::reconcile::progress::publish_progress;
use crate::reconcile::report::other_operator::finalizer_removed;
use crate::reconcile::report::status_writer;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;

const HOUR: Duration = Duration::from_secs(3600);
const PRIMARIES: &str = "/apis/cache.my.domain/v1/namespaces/ns/memcacheds/";

impl World {
    /// Runs the workers until `until` ends; watches deliver changes every tenth of a second.
    async fn work_until(&self, until: impl Future<Output = ()>) {
        self.work_and_feed(until, SECOND / 10).await;
    }

    async fn work_and_feed(&self, until: impl Future<Output = ()>, every: Duration) {
        let shutdown = CancellationToken::new();
        let watches = async {
            loop {
                self.feed();
                tokio::time::sleep(every).await;
            }
        };
        self.open();
        tokio::select! {
            () = until => {}
            () = watches => unreachable!(),
            _ = serve(&self.shared, &shutdown, ConcurrencyLimit::default().for_controller(4)) => unreachable!(),
        }
    }

    /// Runs the workers for this time; an hour needs no more lists than a minute. A reconcile that waits for a thread at its end
    /// is dropped, and nothing wakes its resource again. In a process, the queue ends as well, and the next one lists anew.
    pub(super) async fn work_for(&self, time: Duration) {
        self.work_and_feed(tokio::time::sleep(time), (time / 600).max(SECOND / 10)).await;
    }

    /// Returns the sum of a metric over the labels that contain this.
    fn total(&self, metric: &str, labels: &str) -> u64 {
        let text = self.shared.metrics.encode(controller::metrics::Format::Classic);
        let lines = text.lines().filter(|line| line.starts_with(&format!("{metric}{{")) && line.contains(labels));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    }

    fn reconciles(&self) -> u64 {
        self.total("controller_runtime_reconcile_total", "")
    }

    fn failures(&self) -> u64 {
        self.total("controller_runtime_reconcile_total", "error")
    }

    fn fight(&self) {
        let mut changed = self.server.object(&format!("{MAPS}/b")).unwrap();
        changed["data"]["value"] = "mine".into();
        self.server.put(&format!("{MAPS}/b"), changed, "fighter");
    }

    /// Runs the workers while someone changes an object this many times, five times a second.
    async fn work_while_fighting(&self, times: usize) {
        let fighting = async {
            tokio::time::sleep(SECOND).await;
            for _ in 0..times {
                self.fight();
                tokio::time::sleep(SECOND / 5).await;
            }
        };
        self.work_until(fighting).await;
    }

    fn annotate(&self, name: &str, value: &str) {
        let name = format!("helm.sdk.operatorframework.io/{name}");
        self.edit(|primary| primary["metadata"]["annotations"] = json!({name: value}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_healthy_resource_is_reconciled_once_a_period() {
    let world = World::new(spec());
    world.work_for(30 * SECOND).await;
    let before = world.reconciles();
    world.work_for(HOUR).await;
    assert!((59..=61).contains(&(world.reconciles() - before)), "{}", world.reconciles() - before);
    assert!(world.shared.queue.timers() <= 1);
}

#[tokio::test(start_paused = true)]
async fn a_resource_created_after_the_start_is_applied_again_exactly_once_at_its_time() {
    let first = |uid: &str| HOUR.mul_f64(share(uid));
    let is_fit = |uid: &String| {
        let at = first(uid);
        (1500..2000).contains(&at.as_secs()) && (200..400).contains(&at.subsec_millis())
    };
    let uid = (0..).map(|number| format!("uid-{number}")).find(is_fit).unwrap();
    // The clock shows whole seconds in creation times, and the requests end at other times.
    for start in ["2026-01-01T12:00:00Z", "2026-01-01T12:00:00.3Z", "2026-01-01T12:00:00.7Z"] {
        let _simulation = outside::Simulation::begin(start.parse().unwrap(), 1);
        let server = World::new(spec()).server;
        let mut primary = server.object(PRIMARY).unwrap();
        primary["metadata"]["uid"] = uid.as_str().into();
        primary["metadata"]["creationTimestamp"] = "2026-01-01T12:00:03Z".into();
        server.restore(PRIMARY, primary);
        let world = World::with_events(server, Arc::new(Stub::default()), |settings| {
            (settings.period, settings.full_resync) = (Duration::ZERO, HOUR);
        });
        tokio::time::advance(5 * SECOND).await;
        world.server.slow_down(SECOND * 2 / 5);
        world.work_for(60 * SECOND).await;
        let apply = format!("PATCH {MAPS}/a");
        let applies = || world.server.log().iter().filter(|line| **line == apply).count();
        let before = (applies(), world.reconciles());
        assert_eq!(world.state("Ready"), "True/Ready");
        world.work_for(HOUR).await;
        assert_eq!(applies() - before.0, 1, "{start}");
        assert!(world.reconciles() - before.1 <= 2, "{start}: {} reconciles", world.reconciles() - before.1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_diagnosis_that_waits_for_another_one_is_tried_about_once_a_second() {
    let world = World::new(json!({"deployments": ["web"]}));
    world.work_for(SECOND).await;
    set_deployment_ready(&world, "web", false);
    world.work_for(5 * SECOND).await;
    let looks = || world.server.log().iter().filter(|line| line.ends_with("/namespaces/ns/pods")).count();
    let other = world.shared.diagnoses.throttle.try_begin().unwrap();
    let before = world.reconciles();
    world.work_for(60 * SECOND).await;
    assert_eq!(looks(), 0);
    let count = world.reconciles() - before;
    assert!(count <= 70, "{count} reconciles in a minute");
    // Its own cooldown follows, and the turn that was promised meanwhile.
    drop(other);
    tokio::time::advance(300 * SECOND).await;
    world.reconcile().await;
    assert!(looks() > 0);
}

#[tokio::test(start_paused = true)]
async fn the_annotations_period_wins_over_the_watchs() {
    let world = World::new(spec());
    world.annotate("reconcile-period", "10m");
    world.work_for(30 * SECOND).await;
    let before = world.reconciles();
    world.work_for(HOUR).await;
    assert!((5..=7).contains(&(world.reconciles() - before)), "{}", world.reconciles() - before);
}

#[tokio::test(start_paused = true)]
async fn after_a_fight_its_condition_clears_and_only_the_period_triggers_reconciles() {
    let world = World::new(spec());
    world.work_while_fighting(300).await;
    assert!(
        world.condition("Irreconcilable").unwrap().contains("fighter keeps changing .data.value of ConfigMap \"b\"")
    );
    // The last wait was at most half a minute; then it must stay quiet for a while.
    world.work_for(90 * SECOND).await;
    assert_eq!((world.condition("Irreconcilable"), world.value_of("b")), (None, json!("1")));
    assert_eq!(world.state("Ready"), "True/Ready");
    let before = world.reconciles();
    world.work_for(HOUR).await;
    assert!(world.reconciles() - before <= 61, "{} reconciles in an hour", world.reconciles() - before);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_fight_is_reported_without_a_period_too() {
    let world = World::new(spec());
    world.annotate("reconcile-period", "0");
    world.work_while_fighting(100).await;
    assert!(world.condition("Irreconcilable").is_some());
    world.work_for(120 * SECOND).await;
    assert_eq!((world.condition("Irreconcilable"), world.value_of("b")), (None, json!("1")));
    let before = world.reconciles();
    world.work_for(HOUR).await;
    assert_eq!(world.reconciles(), before);
    assert_eq!(world.shared.queue.timers(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_fight_is_reported_where_every_period_applies_what_no_watch_shows() {
    let world = World::new(spec());
    world.work_while_fighting(100).await;
    assert!(world.condition("Irreconcilable").unwrap().contains("DriftLoop"));
    let world = World::unwatched(world.server, |settings| {
        (settings.watch_dependent_resources, settings.period) = (false, 10 * SECOND);
    });
    world.work_for(60 * SECOND).await;
    assert_eq!((world.condition("Irreconcilable"), world.value_of("b")), (None, json!("1")));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_failing_resource_is_not_reconciled() {
    let world = World::new(json!({"broken": true}));
    world.work_for(10 * SECOND).await;
    assert!(world.failures() > 1);
    world.annotate("suspend", "true");
    world.work_for(SECOND).await;
    let before = (world.reconciles(), world.condition("Irreconcilable"));
    world.work_for(HOUR).await;
    assert_eq!((world.reconciles(), world.condition("Irreconcilable")), before);
    world.annotate("suspend", "false");
    world.work_for(SECOND).await;
    assert!(world.reconciles() > before.0, "it goes on when it may");
}

#[tokio::test(start_paused = true)]
async fn only_a_change_of_the_resource_ends_a_backoff_early() {
    let world = World::new(json!({"broken": true}));
    let waking = async {
        for _ in 0..450 {
            tokio::time::sleep(SECOND / 10).await;
            world.shared.wake(key());
        }
    };
    world.work_until(waking).await;
    // Attempts at 0, 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s.
    assert_eq!(world.failures(), 7);
    assert_eq!(world.total("helm_operator_outcomes_total", "RenderError"), 1);
    world.edit(|primary| primary["spec"] = json!({"broken": true, "value": "2"}));
    world.work_for(SECOND / 4).await;
    assert_eq!(world.failures(), 8);
    world.edit(|primary| primary["spec"] = spec());
    world.work_for(SECOND / 4).await;
    assert_eq!((world.failures(), world.state("Ready")), (8, "True/Ready".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_record_ends_a_backoff_and_our_own_do_not() {
    let world = World::new(json!({"maps": ["a"], "unknown": true}));
    world.work_for(100 * SECOND).await;
    let before = world.failures();
    assert!(before <= 8, "{before} attempts, though each writes and deletes records");
    let sealed = sealed_record(9).await;
    let meta = |marks: bool| {
        let mut metadata = sealed.clone();
        metadata["resourceVersion"] = if marks { "99998" } else { "99999" }.into();
        metadata["annotations"] = if marks { metadata["annotations"].take() } else { json!({}) };
        RecordMeta::read(&serde_json::from_value(metadata).unwrap(), &keys()).unwrap()
    };
    let epoch = Epoch { number: 1_000_000, began: Instant::now(), is_list: false };
    world.releases.changed(meta(true), epoch);
    assert!(world.shared.memory.of(&key()).failure.as_ref().unwrap().retry.at > tokio::time::Instant::now());
    world.releases.changed(meta(false), epoch);
    assert!(world.shared.memory.of(&key()).failure.as_ref().unwrap().retry.at <= tokio::time::Instant::now());
}

#[tokio::test(start_paused = true)]
async fn failing_resources_are_tried_once_soon_after_a_restart_and_not_all_at_once() {
    let world = World::new(spec());
    (0..50).for_each(|n| _ = world.add("ns", &format!("r{n}"), json!({"broken": true, "n": n})));
    world.work_and_feed(tokio::time::sleep(2 * SECOND), SECOND).await;
    for path in world.server.paths().iter().filter(|path| path.starts_with(&format!("{PRIMARIES}r"))) {
        let mut primary = world.server.object(path).unwrap();
        for condition in primary["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = "2020-01-01T00:00:00Z".into();
        }
        world.server.put(path, primary, "clock");
    }
    let world = World::on(world.server);
    let writes = world.server.writes();
    world.work_and_feed(tokio::time::sleep(5 * SECOND), SECOND).await;
    assert!((1..25).contains(&world.failures()), "{} of 50 at once", world.failures());
    let failing = |n| world.condition_of(&ResourceKey::new("ns", &format!("r{n}")), "Irreconcilable").unwrap();
    assert!((0..50).all(|n| failing(n).starts_with("True/RenderError/")));
    let waking = async {
        for _ in 0..40 {
            // Simulates more and more kinds finishing their first list; each used to wake every resource.
            world.shared.cache.primaries().iter().for_each(|primary| world.shared.wake(primary.key()));
            tokio::time::sleep(SECOND).await;
        }
    };
    world.work_and_feed(waking, 10 * SECOND).await;
    assert_eq!(world.failures(), 50, "each once within 45 s");
    assert_eq!(world.server.writes(), writes, "and reports nothing new");
}

#[tokio::test(start_paused = true)]
async fn a_panic_delays_only_its_own_resource() {
    let world = World::new(json!({"panic": true}));
    let fine = world.add("ns", "fine", json!({"maps": ["x"]}));
    world.work_for(45 * SECOND).await;
    assert_eq!(world.total("controller_runtime_reconcile_panics_total", ""), 7);
    assert_eq!(world.failures(), 7);
    assert!(world.condition_of(&fine, "Ready").unwrap().starts_with("True/Ready/"));
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/InternalError/the operator panicked"));
    assert_eq!(world.total("controller_runtime_active_workers", ""), 0);
    world.edit(|primary| primary["spec"] = spec());
    world.work_for(SECOND).await;
    assert_eq!(world.state("Ready"), "True/Ready");
    assert_eq!(world.condition("Irreconcilable"), None);
}

#[tokio::test(start_paused = true)]
async fn a_failing_status_write_backs_off() {
    let world = World::new(spec());
    world.annotate("reconcile-period", "0");
    world.work_for(SECOND).await;
    world.server.fail_after(Some(0));
    world.edit(|primary| primary["spec"]["broken"] = true.into());
    world.work_for(45 * SECOND).await;
    let failures = world.shared.memory.of(&key()).status.unwritten.unwrap().retry.failures;
    // After each attempt, and after each of its own waits.
    assert!((7..=14).contains(&failures), "{failures}");
    world.server.fail_after(None);
    world.annotate("suspend", "true");
    world.work_for(60 * SECOND).await;
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/RenderError/"));
    assert_eq!(world.shared.memory.of(&key()).status.unwritten, None);
    let before = world.reconciles();
    world.work_for(HOUR).await;
    assert_eq!(world.reconciles(), before);
}

#[tokio::test(start_paused = true)]
async fn a_refused_status_is_written_again_ever_more_rarely_whatever_happens_meanwhile() {
    let world = World::new(spec());
    world.annotate("reconcile-period", "0");
    world.work_for(SECOND).await;
    world.server.refuse(|call| call.path.contains("/status").then(|| Error::from_status(403, "Forbidden", "no")));
    for value in 0..90 {
        world.edit(|primary| primary["spec"]["value"] = value.to_string().into());
        world.work_for(SECOND / 2).await;
    }
    let failures = world.shared.memory.of(&key()).status.unwritten.unwrap().retry.failures;
    assert!((6..=7).contains(&failures), "{failures}");
    assert_eq!(world.value_of("a"), json!("89"), "nothing else waits");
    world.server.accept();
    world.work_for(60 * SECOND).await;
    assert_eq!(world.shared.memory.of(&key()).status.unwritten, None);
    assert!(world.condition("Deployed").unwrap().contains("UpgradeSuccessful"));
}

/// As while one of several servers does not serve a new definition yet.
#[tokio::test(start_paused = true)]
async fn a_status_that_is_not_found_although_the_resource_exists_is_written_again() {
    for refused in [1, 4] {
        let world = World::new(spec());
        world.work_for(SECOND).await;
        world.server.disturb(&format!("PATCH {PRIMARY}/status"), refused, Disturbance::Unserved);
        world.server.disturb(&format!("GET {PRIMARY}"), 1, Disturbance::Unserved);
        world.annotate("suspend", "true");
        world.work_for(SECOND / 4).await;
        assert_eq!(world.condition("Suspended"), None);
        world.work_for(10 * SECOND).await;
        assert!(world.condition("Suspended").unwrap().starts_with("True/SuspendAnnotation/"), "{refused} refused");
        let before = world.reconciles();
        world.work_for(HOUR).await;
        assert_eq!(world.reconciles(), before, "{refused} refused");
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_kind_without_the_subresource_is_written_ever_more_rarely() {
    let world = World::new(spec());
    world.annotate("reconcile-period", "0");
    let unserved = || Error::from_status(404, "", "404 page not found");
    world.server.refuse(move |call| call.path.contains("/status").then(unserved));
    world.work_for(HOUR).await;
    assert_eq!(world.maps().len(), 3, "nothing else waits");
    let tries = world.server.log().iter().filter(|line| line.ends_with("/status")).count();
    // After 0.5, 1, 2, … 256 s, and then every 300 s.
    assert!((15..=25).contains(&tries), "{tries}");
    world.server.accept();
    world.work_for(400 * SECOND).await;
    assert_eq!(world.state("Ready"), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_what_a_step_waits_for_seldom_and_only_if_it_changed() {
    let world = World::new(spec());
    world.reconcile().await;
    let key = key();
    let progress = crate::reconcile::progress::Progress::new(&world.shared, &key, &());
    let waits = progress.subscribe();
    let reconciling = || world.condition("Reconciling");
    let writes = || world.server.writes();
    let steps = async {
        let before = writes();
        helm_release::kube::Slot::waiting_for(&progress, "a Job", "");
        tokio::time::sleep(SECOND).await;
        assert_eq!(writes(), before, "a short wait is not worth a write");
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!((writes(), reconciling().unwrap()), (before + 1, "True/Progressing/waiting for a Job".to_owned()));
        for n in 0..300 {
            helm_release::kube::Slot::waiting_for(&progress, &format!("a Job for {n} s"), "");
            tokio::time::sleep(SECOND / 10).await;
        }
        assert!((before + 3..=before + 4).contains(&writes()), "{} writes in 30 s", writes() - before);
        let before = writes();
        for _ in 0..300 {
            helm_release::kube::Slot::waiting_for(&progress, "a Job for long", "");
            tokio::time::sleep(SECOND).await;
        }
        assert_eq!(writes(), before + 1);
        helm_release::kube::Slot::waiting_for(&progress, "what is over at once", "");
        helm_release::kube::Slot::enter(&progress).await;
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(writes(), before + 1);
    };
    publish_progress(&world.shared, &key, waits, Box::pin(steps)).await;
    assert_eq!(world.condition("Ready").unwrap(), "Unknown/Progressing/waiting for a Job for long");
    world.reconcile().await;
    assert_eq!((world.state("Ready"), reconciling()), ("True/Ready".to_owned(), None));
}

#[tokio::test(start_paused = true)]
async fn progress_that_cannot_be_written_stops_nothing() {
    let world = World::new(spec());
    world.reconcile().await;
    world.server.fail_after(Some(0));
    status_writer::write_progress(&world.shared, &key(), "a Job").await;
    status_writer::write_progress(&world.shared, &ResourceKey::new("ns", "gone"), "a Job").await;
    assert_eq!(world.state("Ready"), "True/Ready");
}

#[tokio::test(start_paused = true)]
async fn a_resource_kept_by_other_finalizers_names_them_is_not_ready_and_is_left_alone() {
    let world = World::new(spec());
    world.edit(|primary| primary["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]));
    world.work_for(SECOND).await;
    world.delete();
    world.work_for(SECOND).await;
    let ready = |names: &str| {
        format!("False/Uninstalled/the release is uninstalled; other finalizers keep the resource: {names}")
    };
    assert_eq!(world.condition("Ready").unwrap(), ready("example.com/a, example.com/b"));
    assert_eq!(world.condition("Deployed").unwrap(), "False/UninstallSuccessful/The release is uninstalled.");
    assert!(world.maps().is_empty());
    world.edit(|primary| primary["metadata"]["finalizers"] = json!(["example.com/b"]));
    world.work_for(SECOND).await;
    assert_eq!(world.condition("Ready").unwrap(), ready("example.com/b"));
    let before = world.reconciles();
    world.work_for(HOUR).await;
    assert_eq!(world.reconciles(), before);
    let world = World::on(world.server);
    world.work_for(SECOND).await;
    assert_eq!(world.condition("Ready").unwrap(), ready("example.com/b"), "after a restart");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_never_was_ours_gets_no_status_on_deletion() {
    let world = World::new(spec());
    world.edit(|primary| {
        primary["metadata"]["finalizers"] = json!(["example.com/a"]);
        primary["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    world.work_for(SECOND).await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["status"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_no_longer_gets_a_status_is_not_woken_for_the_one_that_failed() {
    let world = World::new(spec());
    world.server.fail_after(Some(0));
    world.work_for(SECOND).await;
    assert!(world.shared.memory.of(&key()).status.unwritten.is_some());
    world.edit(|primary| {
        primary["metadata"]["finalizers"] = json!(["example.com/a"]);
        primary["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    world.server.fail_after(None);
    world.work_for(60 * SECOND).await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["status"], Value::Null);
    let before = world.reconciles();
    world.work_for(HOUR).await;
    assert_eq!(world.reconciles(), before);
}

#[tokio::test(start_paused = true)]
async fn a_failing_repair_backs_off_and_is_reported_once() {
    let world = World::new(spec());
    world.work_for(SECOND).await;
    world.server.fail_after(Some(0));
    world.fight();
    world.work_for(45 * SECOND).await;
    assert_eq!(world.failures(), 7);
    assert_eq!(world.total("helm_operator_outcomes_total", Reason::DriftLoop.as_str()), 0);
    world.server.fail_after(None);
    world.work_for(60 * SECOND).await;
    assert_eq!((world.value_of("b"), world.condition("Irreconcilable")), (json!("1"), None));
}

#[tokio::test(start_paused = true)]
async fn a_fight_with_someone_who_deletes_is_reported_too() {
    let world = World::new(spec());
    let fighting = async {
        for _ in 0..100 {
            tokio::time::sleep(SECOND / 5).await;
            world.server.remove(&format!("{MAPS}/a"));
        }
    };
    world.work_until(fighting).await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(
        condition.contains("DriftLoop/someone keeps deleting ConfigMap \"a\"; release \"web\" restores them"),
        "{condition}"
    );
}

/// Works for ten minutes, while someone removes the finalizer soon after each addition. `edit` changes the resource every
/// tenth of a second as well, and returns whether it did.
async fn work_while_removed(world: &World, edit: impl Fn(u32, &mut Value) -> bool) {
    let removing = async {
        for tick in 0..6000 {
            let mut primary = world.server.object(PRIMARY).unwrap();
            let is_there = primary["metadata"]["finalizers"] == json!([FINALIZER]);
            if is_there {
                primary["metadata"]["finalizers"] = json!([]);
            }
            if edit(tick, &mut primary) || is_there {
                world.server.put(PRIMARY, primary, "cleaner");
            }
            tokio::time::sleep(SECOND / 10).await;
        }
    };
    world.work_until(removing).await;
}

/// Returns how often the finalizer was written.
fn finalizer_writes(world: &World) -> usize {
    world.server.log().iter().filter(|line| **line == format!("PATCH {PRIMARY}")).count()
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_someone_keeps_removing_is_added_ever_more_rarely() {
    let world = World::new(spec());
    world.annotate("reconcile-period", "0");
    world.work_for(SECOND).await;
    let before = (finalizer_writes(&world), world.server.writes());
    work_while_removed(&world, |_, _| false).await;
    let added = finalizer_writes(&world) - before.0;
    // Five at once, and then after 4, 8, 16, … seconds.
    assert!((8..=15).contains(&added), "{added} times");
    assert!(world.server.writes() - before.1 <= 45, "{} writes", world.server.writes() - before.1);
    let condition = world.condition("Irreconcilable").unwrap();
    let expected = "True/ReconcileError/something removes the finalizer uninstall-helm-release each time";
    assert!(condition.starts_with(expected), "{condition}");
    world.work_for(400 * SECOND).await;
    assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!((world.condition("Irreconcilable"), world.history()), (None, vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_someone_removes_now_and_then_is_added_at_once_and_that_is_reported() {
    let world = World::with_events(World::new(spec()).server, Arc::new(Stub::default()), |_| {});
    world.work_for(SECOND).await;
    let before = finalizer_writes(&world);
    for removals in 1..=12 {
        world.edit(|primary| primary["metadata"]["finalizers"] = json!([]));
        world.work_for(30 * SECOND).await;
        assert_eq!(world.server.object(PRIMARY).unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!((finalizer_writes(&world) - before, world.condition("Irreconcilable")), (removals, None));
    }
    let events = published(&world).await;
    let said: Vec<_> = events.iter().filter(|event| event.contains("finalizer")).collect();
    let expected = "Warning FinalizerRemoved x1: something keeps removing the finalizer uninstall-helm-release, ";
    assert!(matches!(&said[..], [once] if once.starts_with(expected)), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_removes_the_finalizer_does_not_end_the_wait_with_an_annotation_but_a_retry_does() {
    const PERIOD: &str = "helm.sdk.operatorframework.io/reconcile-period";
    let world = World::new(spec());
    world.annotate("reconcile-period", "0");
    world.work_for(SECOND).await;
    let before = finalizer_writes(&world);
    let edit = |tick: u32, primary: &mut Value| {
        let is_edited = tick.is_multiple_of(10);
        if is_edited {
            primary["metadata"]["annotations"][PERIOD] = format!("{}h", 1 + tick).into();
        }
        is_edited
    };
    work_while_removed(&world, edit).await;
    let added = finalizer_writes(&world) - before;
    assert!((8..=15).contains(&added), "{added} times");
    let before = finalizer_writes(&world);
    let mut primary = world.server.object(PRIMARY).unwrap();
    primary["metadata"]["annotations"]["helm.sdk.operatorframework.io/retry-now"] = "1".into();
    world.server.put(PRIMARY, primary, "user");
    world.work_for(SECOND).await;
    assert_eq!(finalizer_writes(&world), before + 1);
}

/// Reconciles a resource, and returns it once it is gone.
async fn reconciled_and_gone(world: &World) -> Arc<Primary> {
    world.reconcile().await;
    let gone = world.shared.cache.primary(&key()).unwrap();
    world.shared.primary_deleted(&key(), gone.uid());
    gone
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_others_leaves_nothing_to_a_new_resource_of_the_name() {
    let world = World::new(spec());
    let gone = reconciled_and_gone(&world).await;
    let waiting = LastFailure::waiting(finalizer_removed(), String::new(), Instant::now() + SECOND);
    StepContext::new(&world.shared, &key(), &()).wait_for_others(&gone, waiting);
    assert!(world.shared.memory.of(&key()).failure.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_leaves_nothing_to_a_new_resource_of_the_name() {
    let world = World::new(spec());
    let gone = reconciled_and_gone(&world).await;
    let (key, refusal) = (key(), Error::from_status(403, "Forbidden", "no"));
    status_writer::unwritten(&StepContext::new(&world.shared, &key, &()), &gone, &refusal).await;
    assert!(world.shared.memory.of(&key).status.unwritten.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_resource_waits_for_the_kinds_of_its_release_and_no_other_does() {
    let world = World::new(spec());
    world.reconcile().await;
    let world = World::on(world.server);
    world.edit(|primary| primary["spec"]["value"] = "2".into());
    let new = world.add("ns", "new", json!({"maps": ["x"]}));
    world.shared.cache.await_kind(&config_maps());
    world.work_for(30 * SECOND).await;
    assert_eq!(
        (world.value_of("a"), world.condition_of(&new, "Ready").unwrap().starts_with("True/Ready/")),
        (json!("1"), true)
    );
    world.shared.cache.kind_listed(&config_maps(), None);
    world.shared.wake(key());
    world.work_for(SECOND).await;
    assert_eq!(world.value_of("a"), "2");
}

#[tokio::test(start_paused = true)]
async fn only_objects_of_the_release_wake_its_resource() {
    let world = World::new(spec());
    world.reconcile().await;
    let concerns = |name: &str| {
        let key = object_key("ConfigMap", name);
        world.shared.cache.concerns(&super::key(), &key)
    };
    assert_eq!((concerns("a"), concerns("a-hook")), (true, false));
    world.shared.cache.change_release(&key(), |release| release.revisions.clear());
    assert!(concerns("a-hook"), "nobody knows what the release has");
}

#[test]
fn a_forbidden_kind_counts_as_refused_until_it_is_listed() {
    let cache = Cache::default();
    let key = object_key("ConfigMap", "a");
    cache.kind_listed(&config_maps(), Some(First::Refused));
    assert!(cache.is_refused(&key));
    cache.kind_synced(&config_maps(), &WatchScope::ALL, 1);
    assert!(!cache.is_refused(&key));
}

#[tokio::test(start_paused = true)]
async fn a_first_list_that_takes_long_wakes_its_resources_again_when_it_ends() {
    for end in [First::Listed, First::Refused] {
        let world = World::new(spec());
        world.reconcile().await;
        let kind = config_maps();
        let (sender, listed) = tokio::sync::oneshot::channel();
        world.open();
        let woken = async || tokio::time::timeout(SECOND, world.shared.queue.next()).await.ok();
        while let Some(key) = woken().await {
            world.shared.queue.done(&key);
        }
        let lists = object_watches::await_lists(&world.shared, &kind, async { listed.await.unwrap() });
        let mut sender = Some(sender);
        let watcher = async {
            tokio::time::sleep(object_watches::FIRST_LISTS).await;
            for _ in 0..2 {
                let key = woken().await.expect("it is awake");
                world.shared.queue.done(&key);
                assert_eq!(woken().await, None);
                if let Some(sender) = sender.take() {
                    sender.send(end).unwrap();
                }
            }
        };
        tokio::join!(lists, watcher);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_waited_for_a_list_is_woken_although_its_release_has_no_object_of_the_kind_any_longer() {
    let (world, kind) = (World::new(spec()), config_maps());
    world.reconcile().await;
    world.shared.cache.await_kind(&kind);
    let path = world.server.paths().into_iter().find(|path| path.contains("sh.helm.release.v1")).unwrap();
    let mut record = world.server.object(&path).unwrap();
    record["metadata"]["namespace"] = "ns".into();
    let metadata = serde_json::from_value(record["metadata"].take()).unwrap();
    world.releases.deleted(RecordMeta::read(&metadata, &keys()).unwrap());
    assert!(world.shared.cache.resources_with(&kind).is_empty() && world.shared.cache.is_listing(&key()));
    world.open();
    let woken = async || tokio::time::timeout(SECOND, world.shared.queue.next()).await.ok();
    while let Some(key) = woken().await {
        world.shared.queue.done(&key);
    }
    object_watches::await_lists(&world.shared, &kind, async { First::Listed }).await;
    assert_eq!(woken().await, Some(key()));
}
