//! Tests of immutable fields: which objects are deleted and recreated, and what stays if that is not allowed.

use std::sync::atomic::AtomicBool;

use helm_release::kube::ObjectRule;

use super::reporting::published;
use super::*;
use crate::watches::OnFailure;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/ns/deployments/web";
const JOB: &str = "/apis/batch/v1/namespaces/ns/jobs/load";
const CHECK: &str = "/apis/batch/v1/namespaces/ns/jobs/check";
const RECREATE: &str = "helm.sdk.operatorframework.io/recreate";

/// Returns a Deployment that may be recreated, with an immutable selector.
fn deployment(selector: &str) -> Value {
    let metadata = json!({"name": "web", "annotations": {RECREATE: "true"}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"selector": selector}})
}

fn job(template: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"}, "spec": {"template": template}})
}

/// A renderer whose next lookup is not answered while this is set.
#[derive(Default)]
struct Interrupted(Stub, AtomicBool);

impl Renderer for Interrupted {
    fn digest(&self) -> String {
        self.0.digest()
    }

    fn chart_name(&self) -> &str {
        self.0.chart_name()
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        if self.1.swap(false, Ordering::SeqCst) {
            let error = RenderError::Unanswered { reason: "Unanswered", message: "lookup: no answer".into() };
            return Box::pin(std::future::ready(Err(error)));
        }
        self.0.render(request)
    }
}

/// Creates a controller after the install of these objects.
async fn world(objects: &[Value], change: impl FnOnce(&mut Settings)) -> World {
    rendering(Arc::new(Stub::default()), objects, change).await
}

async fn rendering(renderer: Arc<dyn Renderer>, objects: &[Value], change: impl FnOnce(&mut Settings)) -> World {
    let server = World::new(json!({"objects": objects})).server;
    server.make_immutable("deployments", "/spec/selector");
    server.make_immutable("jobs", "/spec/template");
    let world = World::with_events(server, renderer, change);
    world.reconcile().await;
    world
}

async fn upgrade(world: &World, objects: &[Value]) {
    world.edit(|p| p["spec"]["objects"] = objects.into());
    world.reconcile().await;
}

async fn retry(world: &World) {
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
}

fn uid(world: &World, path: &str) -> Value {
    world.server.object(path).unwrap()["metadata"]["uid"].clone()
}

fn template(world: &World) -> Value {
    world.server.object(JOB).unwrap()["spec"]["template"].clone()
}

fn selector(world: &World) -> Value {
    world.server.object(DEPLOYMENT).unwrap()["spec"]["selector"].clone()
}

async fn recreated(world: &World) -> Vec<String> {
    published(world).await.into_iter().filter(|event| event.contains(" Recreated ")).collect()
}

fn deletions(world: &World) -> Vec<String> {
    deleted(&world.server)
}

fn deleted(server: &MemoryApi) -> Vec<String> {
    server.log().into_iter().filter(|line| line.starts_with("DELETE")).collect()
}

/// Returns an object that is applied after a Job.
fn zebra(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Zebra", "metadata": {"name": "a"}, "data": {"value": value}})
}

/// Creates a controller with this policy after the install of a Job and a Zebra. The server refuses the Zebra `b`.
async fn with_zebra(on_failure: OnFailure) -> World {
    set_with_zebra(|settings| settings.on_failure = on_failure).await
}

async fn set_with_zebra(change: impl FnOnce(&mut Settings)) -> World {
    let server = World::new(json!({"objects": [job("a"), zebra("a")]})).server;
    server.serve("v1", "Zebra", "zebras");
    server.make_immutable("jobs", "/spec/template");
    server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_bad = call.path.contains("/zebras/") && body.contains("\"value\":\"b\"");
        is_bad.then(|| Error::from_status(422, "Invalid", "no b"))
    });
    let world = World::with_events(server, Arc::new(Stub::default()), change);
    world.reconcile().await;
    world
}

/// Fails an upgrade that recreates the Job, and has no retries, and rolls it back. The Pods of the Job that it made take
/// long to terminate.
async fn rolled_back_slowly() -> World {
    let world = set_with_zebra(|settings| settings.retries = Some(0)).await;
    hold_new_job_since(&world, "/zebras/");
    upgrade(&world, &[job("b"), zebra("b")]).await;
    assert_rolled_back_slowly(&world);
    world
}

/// Lets the Pods of the Job `b` take long to terminate, from the first request on that names this.
fn hold_new_job_since(world: &World, named: &'static str) {
    let server = Arc::downgrade(&world.server);
    world.server.refuse(move |call| {
        let server = server.upgrade().filter(|_| call.path.contains(named))?;
        let mut live = server.object(JOB).filter(|live| live["spec"]["template"] == "b")?;
        if live["metadata"]["finalizers"].is_null() {
            live["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
            server.restore(JOB, live);
        }
        None
    });
}

fn assert_rolled_back_slowly(world: &World) {
    let message = world.condition("ReleaseFailed").unwrap();
    let waited =
        message.contains("; rollback failed: cannot recreate ") && message.contains(": after 120 s it is still");
    assert!(waited, "{message}");
    assert_eq!(world.history(), ["1 deployed", "2 failed", "3 pending-rollback"]);
    assert_eq!(template(world), "b");
}

/// Reconciles while the Jobs of the hook `check` fail.
async fn reconcile_with_failing_checks(world: &World) {
    let fail = async {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if let Some(mut check) = world.server.object(CHECK).filter(|check| check["status"].is_null()) {
                check["status"]["conditions"] = json!([{"type": "Failed", "status": "True", "message": "as told"}]);
                world.server.put(CHECK, check, "kube-controller-manager");
            }
        }
    };
    tokio::select! {
        _ = world.reconcile() => {}
        () = fail => unreachable!("it has no end"),
    }
}

/// Upgrades to the Job `b`, and fails after that.
async fn upgrade_with_failing_check(world: &World) {
    world.edit(|p| {
        p["spec"]["objects"] = json!([job("b")]);
        p["spec"]["hooks"] = json!([{"name": "check", "events": ["post-upgrade"]}]);
    });
    reconcile_with_failing_checks(world).await;
}

fn assert_rolled_back_after_failing_check(world: &World) {
    assert_eq!(
        (template(world), world.history()),
        (json!("a"), vec!["1 superseded".to_owned(), "2 failed".into(), "3 deployed".into()])
    );
    let failed = world.condition("ReleaseFailed").unwrap();
    assert!(failed.contains("as told") && !failed.contains("rollback failed"), "{failed}");
    assert_eq!(world.state("Stalled"), "True/RetriesExceeded");
}

/// Returns how many requests have created Jobs.
fn created_jobs(world: &World) -> usize {
    world.server.log().iter().filter(|line| line.starts_with("POST") && line.contains("/jobs")).count()
}

/// Simulates a webhook that changes Jobs only on creation: from now on the chart's template is rejected.
fn mirror(world: &World) {
    let mut live = world.server.object(JOB).unwrap();
    live["spec"]["template"] = "a, from a mirror".into();
    world.server.restore(JOB, live);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_recreates_jobs_and_what_the_watch_names_once_each() {
    let plain = |selector: &str| {
        let mut deployment = deployment(selector);
        deployment["metadata"]["annotations"] = json!({});
        deployment
    };
    let rule = ObjectRule { kind: Some("Deployment".into()), ..ObjectRule::default() };
    let world = world(&[plain("a"), job("a")], |settings| settings.recreate = [rule].into()).await;
    let before = [DEPLOYMENT, JOB].map(|path| uid(&world, path));
    upgrade(&world, &[plain("b"), job("b")]).await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    assert_eq!(
        (selector(&world), world.server.object(JOB).unwrap()["spec"]["template"].clone()),
        (json!("b"), json!("b"))
    );
    assert!(before[0] != uid(&world, DEPLOYMENT) && before[1] != uid(&world, JOB));
    let expected = [
        "Normal Recreated x1: deleted Deployment \"web\" to create it anew: immutable fields change: spec.selector",
        "Normal Recreated x1: deleted Job \"load\" to create it anew: immutable fields change: spec.template",
    ];
    assert_eq!(recreated(&world).await, expected);
    assert_eq!(world.condition("ReleaseFailed"), None);
    assert_eq!(world.requests().await, 0);
    let after = uid(&world, DEPLOYMENT);
    World::on(world.server.clone()).reconcile().await;
    assert_eq!(uid(&world, DEPLOYMENT), after, "a restart knows the new objects");
}

#[tokio::test(start_paused = true)]
async fn without_being_asked_nothing_is_deleted_and_the_message_says_how_to_ask() {
    let refused = |metadata: Value| {
        let mut old = deployment("a");
        old["metadata"]["annotations"] = metadata;
        let mut new = old.clone();
        new["spec"]["selector"] = "b".into();
        [old, new]
    };
    let keep = json!({RECREATE: "true", "helm.sh/resource-policy": "keep"});
    for (annotations, why) in [
        (
            json!({}),
            "nothing asks for it: to have it deleted and created anew, set its annotation helm.sdk.operatorframework.io/recreate",
        ),
        (json!({RECREATE: "false"}), "nothing asks for it"),
        (keep, "its annotation helm.sh/resource-policy keeps it: delete it yourself"),
    ] {
        let [old, new] = refused(annotations);
        let world = world(&[old], |_| {}).await;
        let before = uid(&world, DEPLOYMENT);
        upgrade(&world, &[new]).await;
        let expected =
            format!("True/UpgradeError/cannot apply Deployment \"web\", and cannot recreate it, because {why}");
        let failed = world.condition("ReleaseFailed").unwrap();
        assert!(
            failed.starts_with(&expected)
                && failed.contains("spec.selector: Invalid value: <hidden>: field is immutable"),
            "{failed}"
        );
        assert!(world.condition("Stalled").unwrap().starts_with("True/UpgradeError/"));
        let writes = |world: &World| {
            world.server.log().iter().filter(|line| line.contains("/secrets/") && !line.starts_with("GET")).count()
        };
        let records = writes(&world);
        retry(&world).await;
        assert_eq!(world.condition("ReleaseFailed").unwrap(), failed, "the same on each attempt");
        assert_eq!((writes(&world), uid(&world, DEPLOYMENT), deletions(&world)), (records, before, vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_guarded_object_is_recreated_once_nothing_guards_it() {
    let world = world(&[deployment("a")], |_| {}).await;
    let set_finalizers = |finalizers: Value| {
        let mut live = world.server.object(DEPLOYMENT).unwrap();
        live["metadata"]["finalizers"] = finalizers;
        world.server.restore(DEPLOYMENT, live);
    };
    set_finalizers(json!(["example.com/backup"]));
    upgrade(&world, &[deployment("b")]).await;
    retry(&world).await;
    assert!(world.condition("ReleaseFailed").unwrap().contains("because it has the finalizers example.com/backup"));
    assert_eq!((selector(&world), deletions(&world)), (json!("a"), vec![]));
    set_finalizers(json!([]));
    retry(&world).await;
    assert_eq!((selector(&world), world.condition("ReleaseFailed")), (json!("b"), None));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_may_not_be_deleted_is_no_reason_to_switch_the_others_back_and_forth() {
    let world = world(&[job("a"), deployment("a")], |_| {}).await;
    let before = uid(&world, JOB);
    world.server.refuse(|call| {
        let is_deletion = call.method == http::Method::DELETE && call.path.starts_with(JOB);
        is_deletion.then(|| Error::from_status(403, "Forbidden", "denied by policy"))
    });
    upgrade(&world, &[job("b"), deployment("a")]).await;
    let failed = world.condition("ReleaseFailed").unwrap();
    let why = "cannot apply Job \"load\", and cannot recreate it, because the API server refuses to delete it: denied by policy; grant";
    assert!(failed.starts_with(&format!("True/UpgradeError/{why}")), "{failed}");
    for _ in 0..3 {
        assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"], "rolled back once");
        assert_eq!((uid(&world, JOB), template(&world)), (before.clone(), json!("a")));
        retry(&world).await;
    }
    assert_eq!(world.condition("ReleaseFailed").unwrap(), failed, "the same on each attempt");
    world.server.accept();
    retry(&world).await;
    assert_eq!((template(&world), world.condition("ReleaseFailed")), (json!("b"), None));
    assert_ne!(uid(&world, JOB), before);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_recreates_the_old_object_and_retries_leave_it_alone() {
    let world = with_zebra(OnFailure::Rollback).await;
    upgrade(&world, &[job("b"), zebra("b")]).await;
    assert_eq!(world.server.object(JOB).unwrap()["spec"]["template"], "a");
    assert_eq!((world.history().last().unwrap().as_str(), deletions(&world).len()), ("3 deployed", 2));
    let before = uid(&world, JOB);
    for _ in 0..3 {
        retry(&world).await;
    }
    assert_eq!((uid(&world, JOB), deletions(&world).len()), (before, 2), "the refused object is tried first");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_waits_for_slow_pods_is_completed_although_no_retries_are_left() {
    let world = rolled_back_slowly().await;
    let before = uid(&world, JOB);
    retry(&world).await;
    assert_eq!((uid(&world, JOB), world.history().len()), (before, 3), "it still waits");
    world.server.remove(JOB);
    retry(&world).await;
    assert_eq!(template(&world), "a");
    assert_eq!(world.history(), ["1 superseded", "2 failed", "3 deployed"]);
    assert_eq!((world.state("Stalled").as_str(), deletions(&world).len()), ("True/RetriesExceeded", 2));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_waits_for_slow_pods_is_continued_before_anything_is_upgraded_again() {
    let renderer = Arc::new(Interrupted::default());
    let world = rendering(renderer.clone(), &[job("a")], |settings| settings.retries = Some(0)).await;
    hold_new_job_since(&world, "/jobs/check");
    upgrade_with_failing_check(&world).await;
    assert_rolled_back_slowly(&world);
    let before = (created_jobs(&world), uid(&world, JOB));
    for is_answered in [true, false, true] {
        renderer.1.store(!is_answered, Ordering::SeqCst);
        tokio::time::advance(Duration::from_secs(600)).await;
        reconcile_with_failing_checks(&world).await;
        if is_answered {
            assert_rolled_back_slowly(&world);
        } else {
            assert!(world.condition("Irreconcilable").unwrap().starts_with("True/Unanswered/lookup: no answer"));
        }
        assert_eq!((created_jobs(&world), uid(&world, JOB)), before, "no hook runs again");
    }
    world.server.remove(JOB);
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile_with_failing_checks(&world).await;
    assert_rolled_back_after_failing_check(&world);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_whose_record_is_not_answered_is_made_before_anything_is_upgraded_again() {
    let world = world(&[job("a")], |settings| settings.retries = Some(0)).await;
    let is_away = Arc::new(AtomicBool::new(true));
    let away = is_away.clone();
    world.server.refuse(move |call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        let is_third = call.method == http::Method::POST && body.contains("sh.helm.release.v1.web.v3");
        let is_lost = is_third && away.load(Ordering::SeqCst);
        is_lost.then(|| Error::from_status(503, "ServiceUnavailable", "away"))
    });
    upgrade_with_failing_check(&world).await;
    let before = (created_jobs(&world), uid(&world, JOB), uid(&world, CHECK));
    for _ in 0..2 {
        assert!(world.server.object(&record_path(3)).is_none());
        assert_eq!(template(&world), "b");
        let failed = world.condition("ReleaseFailed").unwrap();
        assert!(failed.contains("as told") && failed.contains("; rollback failed: "), "{failed}");
        tokio::time::advance(Duration::from_secs(600)).await;
        reconcile_with_failing_checks(&world).await;
        assert_eq!((created_jobs(&world), uid(&world, JOB), uid(&world, CHECK)), before, "no hook runs again");
    }
    is_away.store(false, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(600)).await;
    reconcile_with_failing_checks(&world).await;
    assert_rolled_back_after_failing_check(&world);
    assert_eq!(uid(&world, CHECK), before.2, "no hook runs again");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_does_not_wait_for_ever_for_pods_that_somebody_else_holds() {
    let world = rolled_back_slowly().await;
    assert!(world.condition("Stalled").is_none_or(|stalled| !stalled.contains("RetriesExceeded")));
    for _ in 0..11 {
        retry(&world).await;
    }
    assert_eq!(world.state("Stalled"), "True/RetriesExceeded");
    let tries = || world.server.log().iter().filter(|line| line.contains("/zebras/")).count();
    let before = tries();
    retry(&world).await;
    assert_eq!(tries(), before, "nothing is tried any more");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_fails_after_its_deletion_is_restored_and_tried_again_with_backoff() {
    let world = world(&[deployment("a")], |_| {}).await;
    world.server.refuse(|call| {
        let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned()).unwrap_or_default();
        // The create by apply; the dry run under another name is a POST.
        let is_new = call.path.contains("/deployments/web") && body.contains("\"resourceVersion\":\"1\"");
        (is_new && body.contains("\"selector\":\"b\""))
            .then(|| Error::from_status(403, "Forbidden", "denied by policy"))
    });
    upgrade(&world, &[deployment("b")]).await;
    assert!(
        world
            .condition("ReleaseFailed")
            .unwrap()
            .starts_with("True/UpgradeError/cannot apply Deployment \"web\": denied")
    );
    assert_eq!((selector(&world), deletions(&world).len()), (json!("a"), 1), "rolled back");
    assert_eq!(world.requests().await, 0, "until the backoff ends");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_someone_has_replaced_is_recreated_only_if_it_is_still_the_releases() {
    for is_ours in [true, false] {
        let world = world(&[deployment("a")], |_| {}).await;
        let mut theirs = world.server.object(DEPLOYMENT).unwrap();
        theirs["spec"]["selector"] = "mine".into();
        if !is_ours {
            theirs["metadata"]["annotations"] = json!({});
            theirs["metadata"]["ownerReferences"] = json!([]);
        }
        world.server.remove(DEPLOYMENT);
        // Does what `kubectl replace --force` does: deletes the object and creates another, before the operator does.
        let server = Arc::downgrade(&world.server);
        world.server.refuse(move |call| {
            let server = server.upgrade().filter(|_| call.path.contains("/deployments/web"))?;
            if call.method == "PATCH" && server.object(DEPLOYMENT).is_none() && deleted(&server).is_empty() {
                server.put(DEPLOYMENT, theirs.clone(), "kubectl-replace");
            }
            None
        });
        world.reconcile().await;
        if is_ours {
            assert_eq!((selector(&world), world.history()), (json!("a"), vec!["1 deployed".to_owned()]));
            assert_eq!((recreated(&world).await.len(), world.requests().await), (1, 0));
        } else {
            let condition = world.condition("Irreconcilable").unwrap();
            let why = "its metadata does not mark it as part of this release: delete it yourself";
            assert!(
                condition.starts_with("True/ReconcileError/cannot apply Deployment \"web\", and cannot recreate it")
                    && condition.contains(why),
                "{condition}"
            );
            assert_eq!((selector(&world), deletions(&world)), (json!("mine"), vec![]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_reconcile_does_not_run_a_job_again() {
    let world = world(&[job("a")], |_| {}).await;
    mirror(&world);
    let before = uid(&world, JOB);
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/reconcile-now": "1"}));
    world.reconcile().await;
    assert_eq!((uid(&world, JOB), deletions(&world)), (before, vec![]));
    assert!(world.condition("Irreconcilable").unwrap().contains("the release has applied the same object before"));
}

#[tokio::test(start_paused = true)]
async fn no_failed_action_and_nothing_that_follows_it_runs_an_unchanged_job_again() {
    for (on_failure, history) in [
        (OnFailure::Rollback, vec!["1 superseded", "2 failed", "3 deployed"]),
        (OnFailure::Keep, vec!["1 deployed", "2 failed"]),
    ] {
        let world = with_zebra(on_failure).await;
        mirror(&world);
        let before = uid(&world, JOB);
        upgrade(&world, &[job("a"), zebra("b")]).await;
        assert_eq!(world.history(), history);
        upgrade(&world, &[job("a"), zebra("c")]).await;
        assert_eq!((world.condition("ReleaseFailed"), world.condition("Irreconcilable")), (None, None));
        let jobs = deletions(&world).into_iter().filter(|line| line.contains("/jobs/")).collect::<Vec<_>>();
        assert_eq!((uid(&world, JOB), jobs), (before.clone(), vec![]));
        upgrade(&world, &[job("b"), zebra("c")]).await;
        assert_ne!(uid(&world, JOB), before, "what the chart changes runs");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_kept_upgrade_recreated_before_the_records_moved_is_recreated_as_the_chart_has_it() {
    for (objects, history) in [
        ([job("a"), zebra("a")], vec!["3 deployed"]),
        ([job("a"), zebra("c")], vec!["3 superseded", "4 deployed"]),
        ([job("b"), zebra("c")], vec!["3 superseded", "4 deployed"]),
    ] {
        let world = with_zebra(OnFailure::Keep).await;
        upgrade(&world, &[job("b"), zebra("b")]).await;
        assert_eq!((template(&world), world.history()), (json!("b"), vec!["1 deployed".to_owned(), "2 failed".into()]));
        let before = uid(&world, JOB);
        let home = |settings: &mut Settings| settings.home = Home::in_namespace("records");
        let world = World::with_events(world.server, Arc::new(Stub::default()), home);
        upgrade(&world, &objects).await;
        assert_eq!(template(&world), objects[0]["spec"]["template"]);
        assert_eq!(world.history(), history);
        assert_eq!(uid(&world, JOB) == before, objects[0] == job("b"), "only another form is recreated");
        assert_eq!((world.condition("Irreconcilable"), world.condition("ReleaseFailed")), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn another_resources_object_of_the_same_name_is_not_touched() {
    let world = world(&[deployment("a")], |_| {}).await;
    let other = world.add("other", "web", json!({"objects": [deployment("a")]}));
    world.reconcile_one(&other).await;
    let theirs = "/apis/apps/v1/namespaces/other/deployments/web";
    let before = uid(&world, theirs);
    let rival = world.add("ns", "rival", json!({"objects": [deployment("c")]}));
    upgrade(&world, &[deployment("b")]).await;
    world.reconcile_one(&rival).await;
    assert_eq!((uid(&world, theirs), selector(&world)), (before, json!("b")));
    assert!(world.condition_of(&rival, "ReleaseFailed").unwrap().contains("ReleaseConflict"));
    assert_eq!(deletions(&world), [format!("DELETE {DEPLOYMENT}")]);
}

/// Gives an object to another owner, and Helm's metadata of the release.
fn marked_for_helm(mut object: Value) -> Value {
    object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    object["metadata"]["annotations"] =
        json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
    object
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_there_before_is_adopted_or_left_and_never_made_anew() {
    let server = World::new(json!({"objects": [job("ours")]})).server;
    server.make_immutable("jobs", "/spec/template");
    server.put(JOB, marked_for_helm(job("theirs")), "user");
    let world = World::with_events(server, Arc::new(Stub::default()), |_| {});
    let before = uid(&world, JOB);
    for _ in 0..3 {
        retry(&world).await;
        let condition = world.condition("ReleaseFailed").unwrap();
        assert!(condition.contains("it was there before the release: delete it yourself"), "{condition}");
        assert_eq!(uid(&world, JOB), before);
        assert!(!deletions(&world).iter().any(|line| line.contains(JOB)), "{:?}", deletions(&world));
    }
    world.edit(|p| p["spec"]["objects"] = json!([job("theirs")]));
    world.reconcile().await;
    assert_eq!((uid(&world, JOB), world.history()), (before.clone(), vec!["1 deployed".to_owned()]));
    upgrade(&world, &[job("ours")]).await;
    assert_ne!(uid(&world, JOB), before, "once deployed it is the release's");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_there_before_does_not_count_as_run_once_a_person_has_deleted_it() {
    let with_ttl = |template: &str| {
        let mut job = job(template);
        job["spec"]["ttlSecondsAfterFinished"] = 22.into();
        job
    };
    let server = World::new(json!({"maps": ["b"], "value": "0", "objects": [with_ttl("ours")]})).server;
    server.make_immutable("jobs", "/spec/template");
    server.put(JOB, marked_for_helm(with_ttl("theirs")), "user");
    let keep = |settings: &mut Settings| settings.on_failure = OnFailure::Keep;
    let world = World::with_events(server, Arc::new(Stub::default()), keep);
    for value in ["1", "2"] {
        world.edit(|p| p["spec"]["value"] = value.into());
        retry(&world).await;
        let condition = world.condition("ReleaseFailed").unwrap();
        assert!(condition.contains("it was there before the release: delete it yourself"), "{condition}");
    }
    world.server.remove(JOB);
    retry(&world).await;
    assert!(world.history().last().unwrap().ends_with(" deployed"), "{:?}", world.history());
    assert_eq!(template(&world), "ours");
}
