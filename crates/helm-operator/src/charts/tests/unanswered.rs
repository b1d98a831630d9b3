//! Tests of requests that are not answered: the attempt does not count as failed, nothing is cleaned up, and what was
//! created keeps its identity.

use std::sync::atomic::AtomicBool;

use helm::engine::Engine;
use helm_release::kube::{Call, Disturbance};

use super::finished_jobs::{LOAD, feed_jobs, loading};
use super::hooks::{JOBS, complete, count, hook, with_hooks};
use super::*;
use crate::hooks::{Error as Failure, Mapping};
use crate::rendering::discovered::Discovered;
use crate::rendering::renderer::EngineRenderer;
use crate::values_from::ValuesSource;
use crate::view::releases::ReleaseListener;
use crate::watches::OnFailure;

const RECORD: &str = "sh.helm.release.v1.web.v";

/// Returns the uid and the value of each ConfigMap.
fn identities(world: &World) -> Vec<(String, Value, Value)> {
    let of = |name: String| {
        let object = world.server.object(&format!("{MAPS}/{name}")).unwrap();
        (name, object["metadata"]["uid"].clone(), object["data"]["value"].clone())
    };
    world.maps().into_iter().map(of).collect()
}

fn deletions(world: &World) -> Vec<String> {
    world.server.log().into_iter().filter(|line| line.starts_with("DELETE")).collect()
}

/// Creates a controller with these settings, whose chart renders random values.
fn on(server: Arc<MemoryApi>, change: impl FnOnce(&mut Settings)) -> World {
    World::with_events(server, Arc::new(random()), change)
}

/// Interrupts the release's action: the first two ConfigMaps are written, the third is not.
async fn interrupt(world: &World) {
    world.server.disturb(&format!("PATCH {MAPS}/c"), 1, Disturbance::Refused(500));
    world.reconcile().await;
    tokio::time::advance(Duration::from_secs(600)).await;
}

/// Rejects requests of this kind for some reconciles.
async fn without_answers(world: &World, of: fn(&Call) -> bool, code: u16) {
    world.server.refuse(move |call| of(call).then(|| Error::from_status(code, "", "no answer")));
    for _ in 0..3 {
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    world.server.accept();
}

fn reads_record(call: &Call) -> bool {
    call.method == http::Method::GET && call.path.contains(RECORD)
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_neither_removes_an_install_nor_counts_as_an_attempt() {
    for code in [500, 503, 403, 429] {
        let world = on(World::new(spec()).server, |settings| settings.retries = Some(0));
        interrupt(&world).await;
        let before = identities(&world);
        assert_eq!((before.len(), world.history()), (2, vec!["1 pending-install".to_owned()]));
        without_answers(&world, reads_record, code).await;
        assert_eq!((identities(&world), deletions(&world)), (before.clone(), vec![]), "{code}");
        let condition = world.condition("Irreconcilable").unwrap();
        assert!(condition.starts_with("True/Unanswered/cannot read release record"), "{condition}");
        assert_eq!((world.condition("Stalled"), world.condition("ReleaseFailed")), (None, None));
        world.reconcile().await;
        assert_eq!((&identities(&world)[..2], world.history()), (&before[..], vec!["1 deployed".to_owned()]));
        assert_eq!(world.condition("Irreconcilable"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_neither_uninstalls_nor_rolls_back_a_deployed_release() {
    for policy in [OnFailure::Uninstall, OnFailure::Rollback, OnFailure::Keep] {
        let world = on(World::new(spec()).server, |settings| settings.on_failure = policy);
        world.reconcile().await;
        world.edit(|p| p["spec"]["more"] = 1.into());
        interrupt(&world).await;
        let before = identities(&world);
        assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
        without_answers(&world, reads_record, 500).await;
        assert_eq!((identities(&world), deletions(&world)), (before.clone(), vec![]), "{policy:?}");
        assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
        world.reconcile().await;
        assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
        assert_eq!(identities(&world)[..2], before[..2], "continued as it was rendered");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_of_values_that_is_not_answered_or_missing_removes_nothing() {
    let sources: Vec<ValuesSource> = serde_json::from_str(r#"[{"kind": "Secret", "name": "shared"}]"#).unwrap();
    for code in [500, 403, 404] {
        let server = World::new(spec()).server;
        server.put(
            &format!("{SECRETS}/shared"),
            json!({"metadata": {"name": "shared"}, "data": {"values.yaml": ""}}),
            "user",
        );
        let world = on(server, |settings| (settings.values_from, settings.retries) = (sources.clone(), Some(0)));
        interrupt(&world).await;
        let before = identities(&world);
        assert_eq!(before.len(), 2);
        // The new process has not read it yet.
        let world = on(world.server, |settings| (settings.values_from, settings.retries) = (sources.clone(), Some(0)));
        without_answers(&world, |call| call.path.ends_with("/secrets/shared"), code).await;
        assert_eq!((identities(&world), deletions(&world)), (before.clone(), vec![]), "{code}");
        assert_eq!(world.condition("Stalled"), None, "{code}");
        world.reconcile().await;
        assert_eq!((&identities(&world)[..2], world.history()), (&before[..], vec!["1 deployed".to_owned()]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mapper_that_fails_removes_nothing() {
    let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let failing = fails.clone();
    let mapper = move |mapping: Mapping| {
        let fails = failing.load(Ordering::SeqCst);
        async move { if fails { Err(Failure::from("connection refused")) } else { Ok(mapping.values) } }
    };
    let extensions = Extensions { mappers: vec![Arc::new(mapper)], ..Extensions::default() };
    let acceptance = Acceptance { keep_metadata: true, ..Acceptance::default() };
    let server = World::new(spec()).server;
    let retries = |settings: &mut Settings| settings.retries = Some(0);
    let world = World::start(
        server,
        Arc::new(random()),
        Events::default(),
        ChartObjects::Watched,
        retries,
        acceptance,
        extensions,
    );
    interrupt(&world).await;
    let before = identities(&world);
    fails.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    assert_eq!((identities(&world), deletions(&world), world.condition("Stalled")), (before.clone(), vec![], None));
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/ValueMappingFailed/cannot map values: connection refused"), "{condition}");
    fails.store(false, Ordering::SeqCst);
    world.reconcile().await;
    assert_eq!((&identities(&world)[..2], world.history()), (&before[..], vec!["1 deployed".to_owned()]));
}

/// A renderer that fails in this way from the second render on.
pub(super) struct Ailing(pub(super) Stub, pub(super) fn() -> RenderError);

impl Renderer for Ailing {
    fn digest(&self) -> String {
        self.0.digest()
    }

    fn chart_name(&self) -> &str {
        self.0.chart_name()
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        if self.0.renders.load(Ordering::SeqCst) > 0 {
            return Box::pin(std::future::ready(Err(self.1())));
        }
        self.0.render(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_render_that_was_not_answered_is_no_attempt_and_none_removes_what_was_interrupted() {
    let unanswered = || RenderError::Unanswered { reason: "Unanswered", message: "lookup: no answer".into() };
    let failed = || RenderError::Failed { reason: "RenderError", message: "no".into() };
    let cases: [(fn() -> RenderError, bool); 2] = [(unanswered, false), (failed, true)];
    for (error, is_attempt) in cases {
        let renderer = Arc::new(Ailing(random(), error));
        let world = World::with_events(World::new(spec()).server, renderer, |settings| settings.retries = Some(1));
        interrupt(&world).await;
        let before = identities(&world);
        // Other values need another render.
        world.edit(|p| p["spec"]["more"] = 1.into());
        for _ in 0..3 {
            world.reconcile().await;
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        assert_eq!((deletions(&world), identities(&world)), (vec![], before));
        assert_eq!(world.condition("Stalled").is_some(), is_attempt);
        if !is_attempt {
            assert!(world.condition("Irreconcilable").unwrap().starts_with("True/Unanswered/lookup: no answer"));
        }
    }
}

/// A template with a value that another object of the namespace has.
const LOOKING_UP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  value: {{ .Values.value | quote }}\n  \
    password: {{ (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"guard\").data.password | quote }}\n";

#[tokio::test(start_paused = true)]
async fn a_lookup_that_is_not_answered_uses_up_no_retry_and_removes_nothing() {
    let server = World::new(json!({"value": "1"})).server;
    let guard = json!({"metadata": {"name": "guard"}, "data": {"password": "known"}});
    server.put(&format!("{MAPS}/guard"), guard, "user");
    let files = [("Chart.yaml", "apiVersion: v2\nname: memcached\nversion: 1.0.0\n"), ("templates/a.yaml", LOOKING_UP)];
    let engine = Arc::new(Engine::new(Chart::from_files(files).unwrap()));
    let discovered = Arc::new(Discovered::read(&Applier::new(server.clone())).await.unwrap());
    let renderer = Arc::new(EngineRenderer::new(engine, Overrides::default(), discovered).unwrap());
    let world = World::with_events(server, renderer, |settings| settings.retries = Some(1));
    let looks_up = |call: &Call| call.method == http::Method::GET && call.path.contains("/configmaps/guard");
    let password = || world.server.object(&format!("{MAPS}/a")).unwrap()["data"]["password"].clone();

    without_answers(&world, looks_up, 500).await;
    let counts_none = |world: &World| {
        let condition = world.condition("Irreconcilable").unwrap();
        assert!(condition.starts_with("True/Unanswered/"), "{condition}");
        assert_eq!(world.shared.memory.of(&key()).failure.as_ref().map(|failure| failure.attempts), Some(0));
        assert_eq!((world.condition("Stalled"), world.condition("ReleaseFailed")), (None, None));
    };
    counts_none(&world);
    assert_eq!((world.maps(), world.history()), (vec!["guard".to_owned()], vec![]));
    world.reconcile().await;
    assert_eq!((world.history(), password()), (vec!["1 deployed".to_owned()], json!("known")));

    let before = identities(&world);
    world.edit(|p| p["spec"]["value"] = "2".into());
    without_answers(&world, looks_up, 500).await;
    counts_none(&world);
    assert_eq!((identities(&world), deletions(&world)), (before.clone(), vec![]));
    assert_eq!(world.history(), ["1 deployed"]);
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("2"), "2 deployed"));
    assert_eq!((identities(&world)[0].1.clone(), password()), (before[0].1.clone(), json!("known")));
    assert_eq!((world.condition("Irreconcilable"), deletions(&world)), (None, vec![]));
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_action_says_what_was_not_answered() {
    let world = on(World::new(spec()).server, |_| ());
    interrupt(&world).await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/Unanswered/cannot apply ConfigMap \"c\":"), "{condition}");
    assert_eq!(world.condition("ReleaseFailed"), None);
    assert_eq!(world.condition("Reconciling").map(|c| c.starts_with("True/ProgressingWithRetry")), Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_not_answered_until_its_time_is_up_rolls_back_nothing() {
    let mut spec = spec();
    spec["hooks"] = json!([{"name": "migrate", "events": ["pre-upgrade"]}]);
    let world = on(World::new(spec).server, |settings| {
        (settings.on_failure, settings.hook_timeout) = (OnFailure::Uninstall, Duration::from_secs(60));
    });
    world.reconcile().await;
    let before = identities(&world);
    world.edit(|p| p["spec"]["more"] = 1.into());
    let is_created = AtomicBool::default();
    world.server.refuse(move |call| {
        if call.method == http::Method::POST && call.path.contains("/jobs") {
            is_created.store(true, Ordering::SeqCst);
        }
        let asks = call.method == http::Method::GET && call.path.contains("/jobs");
        (asks && is_created.load(Ordering::SeqCst)).then(|| Error::from_status(500, "", "no answer"))
    });
    for _ in 0..3 {
        world.reconcile().await;
        tokio::time::advance(Duration::from_secs(600)).await;
    }
    world.server.accept();
    assert_eq!((identities(&world), deletions(&world)), (before, vec![]));
    assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/Unanswered/hook memcached/templates/migrate.yaml"), "{condition}");
    // In the meantime, its Job has ended.
    complete(&world.server, "migrate");
    world.reconcile().await;
    assert_eq!((world.history(), deletions(&world)), (vec!["1 superseded".into(), "2 deployed".into()], vec![]));
    assert_eq!(count(&world, &format!("POST {JOBS}")), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_refused_is_not_written_again_before_a_dry_run_is_answered() {
    let world = on(World::new(spec()).server, |_| ());
    world.reconcile().await;
    world.edit(|p| p["spec"]["more"] = 1.into());
    let is_write = |call: &Call| call.method == http::Method::PATCH && call.path.contains("/configmaps/b");
    world.server.refuse(move |call| is_write(call).then(|| Error::from_status(422, "Invalid", "no")));
    world.reconcile().await;
    let (history, identities_before) = (world.history(), identities(&world));
    assert_eq!(history.last().map(String::as_str), Some("3 deployed"), "rolled back");
    world.server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    without_answers(&world, |call| call.path.contains("dryRun=All"), 503).await;
    assert_eq!((world.history(), identities(&world)), (history, identities_before));
    assert!(world.condition("Irreconcilable").unwrap().starts_with("True/Unanswered/cannot apply ConfigMap \"b\""));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_revision_whose_record_could_not_be_written_is_superseded_later() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|resource| resource["spec"]["value"] = "2".into());
    let first = "/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v1";
    world.server.disturb(&format!("PATCH {first}"), 2, Disturbance::Refused(500));
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed", "2 deployed"]);
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(600)).await;
        world.reconcile().await;
    }
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    assert_eq!(world.server.object(first).unwrap()["metadata"]["labels"]["status"], "superseded");
    assert!(world.state("Ready").starts_with("True"), "{}", world.state("Ready"));
    let writes = world.server.writes();
    world.reconcile().await;
    assert_eq!(world.server.writes(), writes, "once");
}

#[tokio::test(start_paused = true)]
async fn a_replaced_revision_whose_record_a_person_deletes_unseen_holds_nothing_up() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|resource| resource["spec"]["value"] = "2".into());
    let first = format!("{SECRETS}/{RECORD}1");
    world.server.disturb(&format!("PATCH {first}"), 2, Disturbance::Refused(500));
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed", "2 deployed"]);
    world.server.remove(&first);
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile_at_once(&world).await;
    assert_eq!((world.history(), world.condition("Irreconcilable")), (vec!["2 deployed".to_owned()], None));
    assert_eq!(world.state("Ready"), "True/Ready");
}

/// Upgrades a release without an answer to the write that completes the new revision.
async fn unanswered_upgrade(world: &World) {
    world.edit(|resource| resource["spec"]["value"] = "2".into());
    world.server.disturb(&format!("PATCH {SECRETS}/{RECORD}2"), 1, Disturbance::AnswerLost);
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed", "2 deployed"]);
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/Unanswered/"), "{condition}");
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_objects_cannot_be_watched_is_settled_beside_its_repairs() {
    let world = World::unwatched(World::new(spec()).server, |settings| {
        (settings.watch_dependent_resources, settings.period) = (false, Duration::from_secs(60));
    });
    world.reconcile().await;
    tokio::time::advance(Duration::from_secs(60)).await;
    unanswered_upgrade(&world).await;
    // A repair is due each time.
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(60)).await;
        world.reconcile().await;
    }
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    assert_eq!((world.state("Ready"), world.condition("Irreconcilable")), ("True/Ready".into(), None));
}

#[tokio::test(start_paused = true)]
async fn a_fight_over_an_object_hides_neither_that_an_upgrade_succeeded_nor_itself() {
    let world = World::new(spec());
    world.reconcile().await;
    let fight = async |round: u32| {
        let mut object = world.server.object(&format!("{MAPS}/b")).unwrap();
        object["data"]["value"] = format!("someone's {round}").into();
        world.server.put(&format!("{MAPS}/b"), object, "kubectl");
        tokio::time::advance(Duration::from_secs(1)).await;
        world.feed();
    };
    for round in 0..10 {
        fight(round).await;
        world.reconcile().await;
    }
    unanswered_upgrade(&world).await;
    fight(10).await;
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(condition.starts_with("True/DriftLoop/"), "{condition}");
}

/// Reconciles before any watch has delivered what the last reconcile did.
async fn reconcile_at_once(world: &World) {
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Retry).await;
}

/// Reconciles twice, ten minutes apart, without the events of what came before.
async fn reconcile_later(world: &World) {
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(600)).await;
        reconcile_at_once(world).await;
    }
}

/// Installs a release whose record a person deletes during the install.
async fn losing_its_record() -> World {
    let world = on(World::new(spec()).server, |_| {});
    let server = Arc::downgrade(&world.server);
    world.server.refuse(move |call| {
        if call.method == http::Method::PATCH && call.path.starts_with(&format!("{MAPS}/c")) {
            server.upgrade()?.remove(&format!("{SECRETS}/{RECORD}1"));
        }
        None
    });
    reconcile_at_once(&world).await;
    world
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_record_a_person_deletes_meanwhile_begins_again() {
    let world = losing_its_record().await;
    let before = identities(&world);
    assert_eq!((before.len(), world.history()), (3, Vec::new()), "the server has said that the record is gone");
    world.server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile_at_once(&world).await;
    assert_eq!(world.history(), ["1 deployed"]);
    let uids = |all: &[(String, Value, Value)]| all.iter().map(|(_, uid, _)| uid.clone()).collect::<Vec<_>>();
    assert_eq!((uids(&identities(&world)), world.state("Ready")), (uids(&before), "True/Ready".into()));
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_record_is_gone_begins_again_with_other_values_too() {
    let world = losing_its_record().await;
    world.server.accept();
    world.edit(|resource| resource["spec"]["value"] = "2".into());
    // The change arrives by a watch. The deletion of the record was reported before.
    world.shared.primary_written(serde_json::from_value(world.server.object(PRIMARY).unwrap()).unwrap());
    reconcile_later(&world).await;
    assert_eq!((world.history(), world.state("Ready")), (vec!["1 deployed".to_owned()], "True/Ready".into()));
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_last_answer_is_lost_is_not_repeated_before_the_watch_reports_it() {
    let world = on(World::new(spec()).server, |_| {});
    let record = format!("PATCH {SECRETS}/{RECORD}1");
    world.server.disturb(&record, 1, Disturbance::AnswerLost);
    reconcile_at_once(&world).await;
    let (before, requests) = (identities(&world), world.server.log().len());
    assert_eq!(world.history(), ["1 pending-install"], "as far as the process knows");
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile_at_once(&world).await;
    assert_eq!((world.history(), identities(&world)), (vec!["1 deployed".to_owned()], before));
    let log = world.server.log();
    assert!(!log[requests..].contains(&record), "no revision is made again: {:?}", &log[requests..]);
    assert_eq!(world.state("Ready"), "True/Ready");
}

/// Changes the resource, of which alone the watch reports the change.
fn edit_unseen(world: &World, change: impl FnOnce(&mut Value)) {
    world.edit(change);
    world.shared.primary_written(serde_json::from_value(world.server.object(PRIMARY).unwrap()).unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_an_install_deployed_whose_last_answer_is_lost_outlives_the_failure_of_other_values() {
    let world = on(World::new(spec()).server, |_| {});
    world.server.disturb(&format!("PATCH {SECRETS}/{RECORD}1"), 1, Disturbance::AnswerLost);
    reconcile_at_once(&world).await;
    let before = identities(&world);
    assert_eq!(world.history(), ["1 pending-install"], "as far as the process knows");
    edit_unseen(&world, |p| p["spec"]["value"] = "2".into());
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_other = call.path.contains("/configmaps/b") && body.contains("password") && !body.contains("password 0");
        is_other.then(|| Error::from_status(403, "Forbidden", "no"))
    });
    reconcile_later(&world).await;
    let uids = |all: Vec<(String, Value, Value)>| all.into_iter().map(|(_, uid, _)| uid).collect::<Vec<_>>();
    assert_eq!((uids(identities(&world)), deletions(&world)), (uids(before), vec![]));
    assert!(world.condition("ReleaseFailed").unwrap().starts_with("True/UpgradeError/"), "not an install");
    world.reconcile().await;
    assert_eq!(world.history().last().unwrap(), "3 deployed", "rolled back: {:?}", world.history());
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_whose_last_answer_is_lost_is_not_undone_when_the_next_one_writes_nothing() {
    for policy in [OnFailure::Uninstall, OnFailure::Rollback] {
        let world = on(World::new(spec()).server, |settings| settings.on_failure = policy);
        world.reconcile().await;
        world.server.disturb(&format!("PATCH {SECRETS}/{RECORD}2"), 1, Disturbance::AnswerLost);
        edit_unseen(&world, |p| p["spec"]["value"] = "2".into());
        reconcile_at_once(&world).await;
        let before = identities(&world);
        assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"], "as far as the process knows");
        let another = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
        let theirs =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z", "annotations": another}});
        world.server.put(&format!("{MAPS}/z"), theirs, "helm");
        edit_unseen(&world, |p| p["spec"]["maps"] = json!(["a", "b", "c", "z"]));
        reconcile_later(&world).await;
        assert!(world.condition("ReleaseFailed").unwrap().starts_with("True/ReleaseConflict/"), "{policy:?}");
        assert_eq!((&identities(&world)[..3], deletions(&world)), (&before[..], vec![]), "{policy:?}");
        world.feed();
        assert_eq!(world.history().last().unwrap(), "2 deployed", "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_upgrade_that_was_given_up_without_an_answer_is_rolled_back() {
    let world = on(World::new(spec()).server, |settings| settings.retries = Some(0));
    world.reconcile().await;
    let before = identities(&world);
    world.edit(|p| p["spec"]["value"] = "2".into());
    interrupt(&world).await;
    assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"]);
    assert_ne!(identities(&world), before, "half of it is applied");
    world.server.disturb(&format!("PATCH {SECRETS}/{RECORD}2"), 1, Disturbance::AnswerLost);
    edit_unseen(&world, |p| p["spec"]["broken"] = true.into());
    reconcile_at_once(&world).await;
    assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"], "as far as the process knows");
    reconcile_later(&world).await;
    assert_eq!((identities(&world), world.history().last().unwrap().as_str()), (before, "3 deployed"));
}

#[tokio::test(start_paused = true)]
async fn a_job_stays_finished_that_an_upgrade_ran_whose_last_answer_is_lost_when_the_next_one_fails() {
    let world = on(World::new(loading("1", "a")).server, |settings| settings.on_failure = OnFailure::Uninstall);
    feed_jobs(&world);
    world.reconcile().await;
    feed_jobs(&world);
    world.server.disturb(&format!("PATCH {SECRETS}/{RECORD}2"), 1, Disturbance::AnswerLost);
    edit_unseen(&world, |p| p["spec"] = loading("2", "a"));
    reconcile_at_once(&world).await;
    assert_eq!(world.history(), ["1 deployed", "2 pending-upgrade"], "as far as the process knows");
    world.server.remove(LOAD);
    let before = world.server.log().len();
    let another = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z", "annotations": another}});
    world.server.put(&format!("{MAPS}/z"), theirs, "helm");
    edit_unseen(&world, |p| p["spec"]["maps"] = json!(["b", "z"]));
    reconcile_later(&world).await;
    assert!(world.condition("ReleaseFailed").unwrap().starts_with("True/ReleaseConflict/"));
    feed_jobs(&world);
    world.reconcile().await;
    let release = world.shared.cache.release(&key()).unwrap();
    let job = ObjectKey::new("batch", "Job", "ns", "load");
    assert!(release.deployed_marks().unwrap().find(&job).unwrap().expires);
    assert_eq!(world.history().last().unwrap(), "2 deployed");
    let log = world.server.log();
    assert!(!log[before..].iter().any(|line| line.starts_with(&format!("PATCH {LOAD}"))), "{:?}", &log[before..]);
    assert_eq!(world.server.object(LOAD), None);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_marks_no_revision_failed_whose_last_answer_is_lost() {
    let world = on(World::new(spec()).server, |_| {});
    let record = format!("PATCH {SECRETS}/{RECORD}1");
    world.server.disturb(&record, 1, Disturbance::AnswerLost);
    reconcile_at_once(&world).await;
    let requests = world.server.log().len();
    assert_eq!(world.history(), ["1 pending-install"], "as far as the process knows");
    world.delete();
    world.shared.primary_written(serde_json::from_value(world.server.object(PRIMARY).unwrap()).unwrap());
    reconcile_later(&world).await;
    assert!(world.server.object(PRIMARY).is_none() && world.maps().is_empty(), "{:?}", world.server.paths());
    let log = world.server.log();
    assert!(!log[requests..].iter().any(|line| line.starts_with(&record)), "{:?}", &log[requests..]);
}

#[tokio::test(start_paused = true)]
async fn a_release_after_an_uninstall_counts_although_its_last_answer_was_lost() {
    let world = on(World::new(spec()).server, |settings| settings.on_failure = OnFailure::Uninstall);
    world.reconcile().await;
    let is_refused = |call: &Call| call.method == http::Method::PATCH && call.path.contains("/configmaps/b");
    world.server.refuse(move |call| is_refused(call).then(|| Error::from_status(422, "Invalid", "no")));
    world.edit(|resource| resource["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!((world.maps(), world.history()), (vec![], vec![]), "the failed upgrade is uninstalled");
    world.server.accept();
    world.server.disturb(&format!("PATCH {SECRETS}/{RECORD}1"), 1, Disturbance::AnswerLost);
    reconcile_later(&world).await;
    assert_eq!(world.history(), ["1 deployed"]);
    // A person deletes the record, and the watch reports it.
    let release = world.shared.cache.release(&key()).unwrap();
    world.server.remove(&format!("{SECRETS}/{RECORD}1"));
    world.shared.cache.change_release(&key(), |release| release.revisions.clear());
    ReleaseListener::release_lost(&*world.shared, &key(), &release);
    world.delete();
    world.reconcile().await;
    assert_eq!(world.maps(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_resource_whose_first_record_was_never_made_is_deleted() {
    let world = on(World::new(with_hooks(json!([hook("farewell", "pre-delete")]))).server, |_| {});
    world.server.disturb(&format!("POST {SECRETS}"), 1, Disturbance::Unreachable);
    reconcile_at_once(&world).await;
    let known = world.shared.cache.release(&key()).expect("it may exist");
    assert!(known.newest().is_some_and(|(version, revision)| version == 1 && revision.status.is_pending()));
    world.delete();
    world.shared.primary_written(serde_json::from_value(world.server.object(PRIMARY).unwrap()).unwrap());
    reconcile_later(&world).await;
    assert!(world.server.object(PRIMARY).is_none() && world.history().is_empty(), "{:?}", world.server.paths());
}
