use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, ready};
use outside::{MemoryApi, Purpose};
use serde_json::json;

use super::decide::{Desired, check_chart, check_live, is_as_applied, rejection, tying};
use super::*;
use crate::kube::live_state::ownership::{Adopt, NotOurs};
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::objects::rules::{ObjectRule, RECREATE_ANNOTATION};
use crate::kube::waiting::slot::Slot;
use crate::kube::writes::client_side::MergeBases;
use crate::kube::writes::write::Policy;
use crate::sample::{decoration, target};

const JOB: &str = "/apis/batch/v1/namespaces/ns/jobs/web";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/ns/deployments/web";

fn object(api_version: &str, kind: &str, metadata: Value, spec: Value) -> Object {
    let mut metadata = metadata;
    metadata["name"] = "web".into();
    Object::new(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})).unwrap()
}

fn key(object: &Object) -> ObjectKey {
    let group = object.group().into();
    ObjectKey { group, kind: object.kind.as_str().into(), namespace: "ns".into(), name: "web".into() }
}

fn rule(group: &str, kind: &str) -> ObjectRule {
    ObjectRule { group: Some(group.into()), kind: Some(kind.into()), name: None }
}

#[test]
fn jobs_and_objects_that_are_named_may_be_recreated_unless_data_is_at_stake() {
    let annotated = |key: &str, value: &str| json!({"annotations": {key: value}});
    let wants = |value: &str| annotated(RECREATE_ANNOTATION, value);
    let claims = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]});
    let all = [ObjectRule::default()];
    let deployments = [rule("apps", "Deployment")];
    let holds = |object: &Object, rules: &[ObjectRule]| {
        matches!(check_chart(object, &key(object), rules), Err(Guard::HoldsData(_)))
    };
    for (api_version, kind, metadata, rules, expected) in [
        ("batch/v1", "Job", json!({}), &[][..], Ok(())),
        ("batch/v1", "Job", wants("false"), &all, Err(Guard::NotAsked)),
        ("batch/v1", "Job", annotated("helm.sh/resource-policy", "keep"), &all, Err(Guard::Kept)),
        ("batch/v1", "CronJob", json!({}), &[], Err(Guard::NotAsked)),
        ("example.com/v1", "Job", json!({}), &[], Err(Guard::NotAsked)),
        ("apps/v1", "Deployment", json!({}), &[], Err(Guard::NotAsked)),
        ("apps/v1", "Deployment", json!({}), &deployments, Ok(())),
        ("apps/v1", "Deployment", wants("true"), &[], Ok(())),
        ("apps/v1", "Deployment", wants("false"), &deployments, Err(Guard::NotAsked)),
        ("apps/v1", "Deployment", wants("maybe"), &[], Err(Guard::NotAsked)),
        ("v1", "Service", json!({}), &deployments, Err(Guard::NotAsked)),
        ("v1", "Service", json!({}), &all, Ok(())),
        ("apps/v1", "StatefulSet", wants("true"), &[], Ok(())),
    ] {
        let object = object(api_version, kind, metadata.clone(), json!({}));
        assert_eq!(check_chart(&object, &key(&object), rules), expected, "{kind} {metadata} {rules:?}");
    }
    for (api_version, kind, spec) in [
        ("v1", "PersistentVolumeClaim", json!({})),
        ("v1", "PersistentVolume", json!({})),
        ("v1", "Namespace", json!({})),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", json!({})),
        ("apps/v1", "StatefulSet", claims),
    ] {
        assert!(holds(&object(api_version, kind, wants("true"), spec), &all), "{kind}");
    }
    assert!(!holds(&object("example.com/v1", "Namespace", json!({}), json!({})), &all));
}

#[test]
fn only_a_live_object_of_the_release_without_others_finalizers_may_be_deleted() {
    let ours = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
    let applied = json!([{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}]);
    let check = |metadata: Value, spec: Value, kind: &str, desired: Desired| {
        let whole = json!({"metadata": metadata, "spec": spec});
        let live: Live = serde_json::from_value(whole.clone()).unwrap();
        let key = ObjectKey { group: "apps".into(), kind: kind.into(), namespace: "ns".into(), name: "web".into() };
        check_live(&live, &whole, &key, desired, &decoration()).map(|proven| proven.resource_version)
    };
    let live = |finalizers: &[&str]| json!({"uid": "u", "resourceVersion": "7", "annotations": ours, "finalizers": finalizers, "managedFields": applied});
    let foreign = |names: &[&str]| Err(Guard::Finalizers(names.iter().map(|name| (*name).to_owned()).collect()));
    let done = || Ok("7".to_owned());
    assert_eq!(check(live(&[]), json!({}), "Deployment", Desired::Changed), done());
    let own = [
        "foregroundDeletion",
        "orphan",
        "kubernetes.io/pvc-protection",
        "service.kubernetes.io/load-balancer-cleanup",
        "customresourcecleanup.apiextensions.k8s.io",
    ];
    assert_eq!(check(live(&own), json!({}), "Deployment", Desired::Changed), done());
    for name in
        ["example.com/backup", "cluster.x-k8s.io", "notkubernetes.io/x", "finalizer", "kubernetes.io.example.com/x"]
    {
        assert_eq!(check(live(&["orphan", name]), json!({}), "Deployment", Desired::Changed), foreign(&[name]));
    }
    let many = check(live(&[own[2]; 33]), json!({}), "Deployment", Desired::Changed);
    assert_eq!(many, foreign(&["and 1 more"]), "it may be anybody's");
    let mut kept = live(&[]);
    kept["annotations"]["helm.sh/resource-policy"] = "keep".into();
    assert_eq!(check(kept, json!({}), "Deployment", Desired::Changed), Err(Guard::Kept));
    let mut unclaimed = live(&[]);
    unclaimed["annotations"] = json!({});
    assert_eq!(check(unclaimed, json!({}), "Deployment", Desired::Changed), Err(Guard::NotOurs(NotOurs::Unclaimed)));
    let claims = json!({"volumeClaimTemplates": [{}]});
    assert!(matches!(check(live(&[]), claims.clone(), "StatefulSet", Desired::Changed), Err(Guard::HoldsData(_))));
    assert_eq!(check(live(&[]), claims, "Deployment", Desired::Changed), done());

    assert_eq!(
        check(live(&[]), json!({}), "Deployment", Desired::Unchanged),
        Err(Guard::Unchanged),
        "its own fields cannot differ"
    );
    let mut replaced = live(&[]);
    replaced["managedFields"] = json!([{"manager": "kubectl", "operation": "Update", "fieldsV1": {}}]);
    assert_eq!(
        check(replaced, json!({}), "Deployment", Desired::Unchanged),
        done(),
        "another object has taken the name"
    );
}

#[test]
fn a_dry_run_rejects_only_for_what_is_wrong_with_the_new_object() {
    let answer = |code: u16, message: &str| rejection(&Error::from_status(code, "", message));
    for (code, message) in [
        (422, "spec.template: Required value"),
        (403, "admission webhook \"policy.example.com\" denied the request: no"),
        (403, "jobs.batch is forbidden: User \"operator\" cannot create resource \"jobs\""),
        (400, "admission webhook \"policy.example.com\" denied the request"),
    ] {
        assert_eq!(answer(code, message).as_deref(), Some(message));
    }
    for (code, message) in [
        (403, "jobs.batch is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1"),
        (422, "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"),
        (400, "admission webhook \"old.example.com\" does not support dry run"),
        (405, "method not allowed"),
        (409, "exists"),
    ] {
        assert_eq!(answer(code, message), None, "{message}");
    }
}

#[test]
fn what_an_earlier_writer_applied_for_the_release_is_as_applied_without_a_mark() {
    let ours = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"});
    let applied = json!([{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}]);
    for (annotations, managers, namespace, desired, expected) in [
        (&ours, &applied, "ns", Desired::Unchanged, true),
        (&ours, &applied, "", Desired::Unchanged, false),
        (&ours, &json!([]), "ns", Desired::Unchanged, false),
        (&ours, &json!([]), "ns", Desired::TakenOver, true),
        (&ours, &json!([]), "", Desired::TakenOver, true),
        (&ours, &applied, "ns", Desired::Changed, false),
        (&json!({}), &json!([]), "ns", Desired::TakenOver, false),
    ] {
        let live = json!({"metadata": {"annotations": annotations, "managedFields": managers}});
        let live: Live = serde_json::from_value(live).unwrap();
        let key = ObjectKey::new("apps", "Deployment", namespace, "web");
        assert_eq!(
            is_as_applied(&live, &key, desired, &decoration()),
            expected,
            "{annotations} {managers} {namespace:?} {desired:?}"
        );
    }
}

#[test]
fn an_object_that_is_taken_over_gains_only_the_metadata_that_it_lacks() {
    let owner = |uid: &str| json!({"uid": uid});
    let sent = json!({"name": "web", "labels": {"a": "1", "b": "2"}, "ownerReferences": [owner("u1")]});
    let mut live = json!({
        "name": "web", "uid": "u", "resourceVersion": "7", "labels": {"a": "1", "c": "3"}, "ownerReferences": [owner("u2")],
    });
    let expected = json!({"metadata": {
        "uid": "u", "resourceVersion": "7", "labels": {"b": "2"}, "ownerReferences": [owner("u2"), owner("u1")],
    }});
    assert_eq!(tying(&sent, &live), Some(expected));
    (live["labels"]["b"], live["ownerReferences"][0]) = ("2".into(), owner("u1"));
    assert_eq!(tying(&sent, &live), None);
}

/// The objects of the last revision, and a slot that records the action's reports.
#[derive(Default)]
struct Told {
    last: Option<Object>,
    lines: Mutex<Vec<String>>,
    /// Whether deletions cannot be recorded.
    refuses: bool,
}

impl Told {
    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn tell(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
    }
}

impl MergeBases for Told {
    fn of<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Vec<Object>, Error>> {
        Box::pin(ready(Ok(self.last.clone().into_iter().collect())))
    }
}

impl Slot for Told {
    fn leave(&self) {
        self.tell("leave");
    }

    fn enter(&self) -> BoxFuture<'_, ()> {
        self.tell("enter");
        Box::pin(ready(()))
    }

    fn waiting_for(&self, what: &str, _: &str) {
        self.tell(what);
    }

    fn recreating(&self, object: &ObjectKey, why: &str) {
        self.tell(&format!("{object}: {why}"));
    }
}

impl Deletions for Told {
    fn record<'a>(&'a self, objects: &'a [ObjectKey]) -> BoxFuture<'a, Result<(), DeletionError>> {
        let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
        self.tell(&format!("record {}", names.join(", ")));
        let refused = self.refuses.then(|| DeletionError::from(Error::from_status(503, "Unavailable", "away")));
        Box::pin(ready(refused.map_or(Ok(()), Err)))
    }
}

fn server() -> (Arc<MemoryApi>, Applier) {
    let server = Arc::new(MemoryApi::new());
    server.make_immutable("jobs", "/spec/template");
    (server.clone(), Applier::new(server))
}

fn job(image: &str) -> Object {
    object("batch/v1", "Job", json!({}), json!({"template": image}))
}

fn named(name: &str, image: &str) -> Object {
    let mut object = job(image);
    (object.name, object.body["metadata"]["name"]) = (name.into(), name.into());
    object
}

async fn apply(applier: &Applier, object: &Object, changed: bool, told: &Told) -> Result<Vec<Applied>, ApplyError> {
    apply_as(Unchanged::Refused, applier, object, changed, told).await
}

async fn apply_as(
    unchanged: Unchanged,
    applier: &Applier,
    object: &Object,
    changed: bool,
    told: &Told,
) -> Result<Vec<Applied>, ApplyError> {
    let decoration = decoration();
    let options = WriteOptions { slot: told, unchanged, ..WriteOptions::new(&decoration, Policy::Auto, told) };
    applier.apply_all(&[Target { changed, ..target(object) }], &options).await
}

/// Applies a changed object and records deletions.
async fn apply_recording(applier: &Applier, object: &Object, told: &Told) -> Result<Vec<Applied>, ApplyError> {
    let decoration = decoration();
    let options = WriteOptions { slot: told, deletions: told, ..WriteOptions::new(&decoration, Policy::Auto, told) };
    applier.apply_all(&[target(object)], &options).await
}

/// Returns the writes since then, without responses to dry runs.
fn writes(server: &MemoryApi, since: usize) -> Vec<String> {
    server.log()[since..].iter().filter(|line| !line.starts_with("GET")).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_new_template_is_deleted_and_created_anew_while_the_worker_is_free() {
    let ((server, applier), told) = (server(), Told::default());
    apply(&applier, &job("a"), true, &told).await.unwrap();
    let (uid, since) = (server.object(JOB).unwrap()["metadata"]["uid"].clone(), server.log().len());
    let applied = apply(&applier, &job("b"), true, &told).await.unwrap();
    assert_eq!(
        applied[0].live.metadata.uid.as_deref().map(Value::from),
        server.object(JOB).map(|o| o["metadata"]["uid"].clone())
    );
    let live = server.object(JOB).unwrap();
    assert!(live["spec"]["template"] == "b" && live["metadata"]["uid"] != uid);
    assert_eq!(told.lines(), ["Job \"web\": immutable fields change: spec.template", "leave", "enter"]);
    let (jobs, _) = JOB.rsplit_once('/').unwrap();
    let writes = writes(&server, since);
    assert_eq!(writes[writes.len() - 3..], [format!("POST {jobs}"), format!("DELETE {JOB}"), format!("PATCH {JOB}")]);
    assert_eq!(server.paths(), [JOB], "the dry run left nothing");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_takes_its_time_to_go_is_waited_for_within_a_limit() {
    let ((server, applier), told) = (server(), Told::default());
    apply(&applier, &job("a"), true, &told).await.unwrap();
    let mut live = server.object(JOB).unwrap();
    live["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    server.put(JOB, live, "garbage collector");
    let error = apply(&applier, &job("b"), true, &told).await.unwrap_err();
    let text = "cannot recreate Job \"web\": after 120 s it is still being deleted (finalizers: foregroundDeletion)";
    assert_eq!(error.to_string(), text);
    assert!(crate::action::Error::from(error).is_unanswered());
    assert!(told.lines().contains(&"Job \"web\" to be deleted, to create it anew".to_owned()));
    assert_eq!(told.lines().last().unwrap(), "enter");

    let deletions = |server: &MemoryApi| server.log().iter().filter(|line| line.starts_with("DELETE")).count();
    let release = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        server.remove(JOB);
    };
    let new = job("b");
    let (applied, ()) = tokio::join!(apply(&applier, &new, true, &told), release);
    assert_eq!((applied.unwrap().len(), deletions(&server)), (1, 1), "the next attempt only waits");
    assert_eq!(server.object(JOB).unwrap()["spec"]["template"], "b");
    assert_eq!(told.lines().iter().filter(|line| line.contains("immutable")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_someone_else_creates_in_between_is_left_alone() {
    for (annotations, mine) in [
        (json!({}), false),
        (json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"}), false),
        (json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"}), true),
    ] {
        let ((server, applier), told) = (server(), Told::default());
        apply(&applier, &job("a"), true, &told).await.unwrap();
        let mut live = server.object(JOB).unwrap();
        live["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
        server.put(JOB, live, "garbage collector");
        let metadata =
            json!({"name": "web", "annotations": annotations, "labels": {"app.kubernetes.io/managed-by": "Helm"}});
        let theirs =
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": "b", "x": 1}});
        let replace = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            server.remove(JOB);
            server.put(JOB, theirs, "kubectl");
        };
        let new = job("b");
        let (applied, ()) = tokio::join!(apply(&applier, &new, true, &told), replace);
        match applied {
            Ok(_) => assert!(mine),
            Err(error) => assert!(!mine && matches!(error, ApplyError::Foreign(_)), "{error}"),
        }
        let labels = server.object(JOB).unwrap()["metadata"]["labels"].clone();
        assert_eq!(labels.as_object().unwrap().len() > 1, mine, "ours have the chart's label");
    }
}

#[tokio::test]
async fn an_object_that_is_guarded_stays_and_the_error_names_what_helps() {
    let ((server, applier), told) = (server(), Told::default());
    apply(&applier, &job("a"), true, &told).await.unwrap();
    let mut live = server.object(JOB).unwrap();
    live["metadata"]["finalizers"] = json!(["example.com/backup"]);
    server.put(JOB, live, "someone");
    let error = apply(&applier, &job("b"), true, &told).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot apply Job \"web\", and cannot recreate it, because it has the finalizers example.com/backup, whose owners act on a \
         deletion: delete it yourself"
    );
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "Job \"web\" is invalid: spec.template: Invalid value: <hidden>: field is immutable"
    );
    let refusal = crate::action::Error::from(error).refusal().unwrap();
    assert!(refusal.is_final());
    assert_eq!(server.object(JOB).unwrap()["spec"]["template"], "a");
    assert!(!server.log().iter().any(|line| line.starts_with("DELETE") || line.starts_with("POST")));
}

/// Returns a server with another release's Deployment, whose selector is immutable.
fn with_another_releases_deployment() -> (Arc<MemoryApi>, Applier) {
    let (server, applier) = server();
    server.make_immutable("deployments", "/spec/selector");
    let others = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "ns"});
    let theirs = object("apps/v1", "Deployment", json!({"annotations": others}), json!({"selector": "a"}));
    server.put(DEPLOYMENT, theirs.body, "helm");
    (server, applier)
}

/// Takes the Deployment over with this `spec`, which the server refuses. Returns the number of patches.
async fn refused_takeover(server: &MemoryApi, applier: &Applier, spec: Value) -> usize {
    let (new, decoration) = (object("apps/v1", "Deployment", json!({}), spec), decoration());
    let rule = Rule::Adopt(Adopt::Released);
    let found = applier.check_ownership(&[(&new, rule)], &decoration).await.unwrap();
    let since = server.log().len();
    let options = WriteOptions::new(&decoration, Policy::Auto, &());
    let adopting = Target { rule, observed: found[0].1.clone(), ..target(&new) };
    let error = applier.apply_each(&[adopting], &options, &mut Vec::new()).await.unwrap_err();
    assert!(matches!(error, ApplyError::Guarded { .. }), "{error}");
    writes(server, since).iter().filter(|line| line.starts_with("PATCH")).count()
}

fn managers(server: &MemoryApi) -> Value {
    server.object(DEPLOYMENT).unwrap()["metadata"]["managedFields"].clone()
}

#[tokio::test]
async fn another_releases_object_that_the_server_refuses_to_change_is_guarded_at_the_first_attempt() {
    let (server, applier) = with_another_releases_deployment();
    let before = managers(&server);
    let patches = refused_takeover(&server, &applier, json!({"selector": "b"})).await;
    let expected = "fields move, an apply, they move back, and a merge";
    assert_eq!((patches, managers(&server)), (4, before), "{expected}");
}

#[tokio::test]
async fn fields_that_moved_before_a_default_was_claimed_in_vain_move_back_as_well() {
    let (server, applier) = with_another_releases_deployment();
    let mut live = server.object(DEPLOYMENT).unwrap();
    // No manager owns the server's defaults.
    live["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
    server.restore(DEPLOYMENT, live);
    let before = managers(&server);
    let state = Arc::downgrade(&server);
    server.refuse(move |call| {
        let (content_type, _) = call.body.as_ref()?;
        let server = state.upgrade()?;
        let entries = managers(&server);
        let has_claimed = |entry: &Value| {
            let default = &entry["fieldsV1"]["f:spec"]["f:strategy"]["f:rollingUpdate"];
            entry["manager"] == FIELD_MANAGER && !default.is_null()
        };
        let is_blocked = !entries.as_array()?.iter().any(has_claimed);
        let fields = ["spec.strategy.rollingUpdate", "spec.selector"].map(str::to_owned).to_vec();
        let (reason, message, purpose) = ("Invalid".into(), "no".into(), Purpose::Write);
        let refusal = Error::Refused { code: 422, reason, message, fields, purpose };
        (*content_type == "application/apply-patch+yaml" && is_blocked).then_some(refusal)
    });
    let spec = json!({"selector": "b", "strategy": {"type": "Recreate"}});
    let patches = refused_takeover(&server, &applier, spec).await;
    let expected = "fields move, an apply, a claim, an apply, all moves back at once, and a merge";
    assert_eq!((patches, managers(&server)), (6, before), "{expected}");
}

#[tokio::test]
async fn nothing_is_deleted_if_the_server_would_reject_the_new_object_or_cannot_tell_now() {
    for (code, expected) in [(403, true), (503, false)] {
        let ((server, applier), told) = (server(), Told::default());
        apply(&applier, &job("a"), true, &told).await.unwrap();
        server.refuse(move |call| {
            call.path.contains("/jobs?dryRun=All").then(|| Error::from_status(code, "", "denied by policy"))
        });
        let error = apply(&applier, &job("b"), true, &told).await.unwrap_err();
        let rejected = matches!(&error, ApplyError::Guarded { guard, .. } if **guard == Guard::Rejected("denied by policy".into()));
        assert_eq!((rejected, crate::action::Error::from(error).is_unanswered()), (expected, !expected));
        assert_eq!(server.object(JOB).unwrap()["spec"]["template"], "a");
    }
}

#[tokio::test]
async fn an_object_that_changes_before_its_deletion_is_judged_again() {
    let ((server, applier), told) = (server(), Told::default());
    apply(&applier, &job("a"), true, &told).await.unwrap();
    let changing = Arc::downgrade(&server);
    server.refuse(move |call| {
        let server = changing.upgrade().filter(|_| call.method == http::Method::DELETE)?;
        let mut live = server.object(JOB)?;
        live["metadata"]["finalizers"] = json!(["example.com/backup"]);
        server.put(JOB, live, "someone");
        None
    });
    let error = apply(&applier, &job("b"), true, &told).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Guarded { guard, .. } if matches!(**guard, Guard::Finalizers(_))), "{error}");
    assert!(server.object(JOB).unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn an_object_that_cannot_be_created_anew_hides_no_other_that_was() {
    for (refused, made) in [("a", "b"), ("b", "a")] {
        let ((server, applier), told, decoration) = (server(), Told::default(), decoration());
        let options = WriteOptions { slot: &told, ..WriteOptions::new(&decoration, Policy::Auto, &told) };
        let [old, new] = ["1", "2"].map(|image| [named("a", image), named("b", image)]);
        applier.apply_all(&old.each_ref().map(target), &options).await.unwrap();
        let path = JOB.replace("web", refused);
        let reader = Arc::downgrade(&server);
        server.refuse(move |call| {
            let is_creation = call.method == http::Method::PATCH && call.path.starts_with(&path);
            let is_gone = is_creation && reader.upgrade()?.object(&path).is_none();
            is_gone.then(|| Error::from_status(503, "Unavailable", "away"))
        });
        let mut applied = Vec::new();
        let error = applier.apply_each(&new.each_ref().map(target), &options, &mut applied).await.unwrap_err();
        assert!(matches!(&error, ApplyError::Failed { source, .. } if source.is_transient()), "{error}");
        let live = server.object(&JOB.replace("web", made)).unwrap();
        assert_eq!(live["spec"]["template"], "2");
        let uids: Vec<Option<&str>> = applied.iter().map(|one| one.live.metadata.uid.as_deref()).collect();
        assert_eq!(uids, [live["metadata"]["uid"].as_str()], "{refused}");
    }
}

#[tokio::test]
async fn a_kinds_objects_are_all_judged_before_the_first_is_deleted() {
    let ((server, applier), told) = (server(), Told::default());
    let all = async |image: &str| {
        let objects = [named("a", image), named("b", image)];
        let decoration = decoration();
        let options = WriteOptions { slot: &told, ..WriteOptions::new(&decoration, Policy::Auto, &told) };
        let targets: Vec<Target<'_>> = objects.iter().map(target).collect();
        applier.apply_all(&targets, &options).await.map(|applied| applied.len())
    };
    assert_eq!(all("1").await.unwrap(), 2);
    let b = JOB.replace("web", "b");
    let mut live = server.object(&b).unwrap();
    live["metadata"]["finalizers"] = json!(["example.com/backup"]);
    server.put(&b, live.clone(), "someone");
    assert!(all("2").await.unwrap_err().to_string().starts_with("cannot apply Job \"b\""));
    assert_eq!(server.object(&JOB.replace("web", "a")).unwrap()["spec"]["template"], "1");
    live["metadata"]["finalizers"] = json!([]);
    server.put(&b, live, "someone");
    assert_eq!(all("3").await.unwrap(), 2);
    assert_eq!(told.lines().iter().filter(|line| *line == "leave").count(), 1, "the worker slot is given up once");
}

#[tokio::test]
async fn in_a_repair_an_object_that_is_guarded_keeps_no_other_from_being_recreated() {
    let ((server, applier), told) = (server(), Told::default());
    for name in ["a", "b"] {
        apply(&applier, &named(name, "1"), true, &told).await.unwrap();
    }
    let [a, b] = ["a", "b"].map(|name| JOB.replace("web", name));
    let mut live = server.object(&a).unwrap();
    live["metadata"]["finalizers"] = json!(["example.com/backup"]);
    server.put(&a, live, "someone");
    let (decoration, mut applied) = (decoration(), Vec::new());
    let after_failure = AfterFailure::Continue;
    let options = WriteOptions { after_failure, ..WriteOptions::new(&decoration, Policy::Auto, &told) };
    let objects = [named("a", "2"), named("b", "2")];
    let targets: Vec<Target<'_>> = objects.iter().map(target).collect();
    let error = applier.apply_each(&targets, &options, &mut applied).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot apply Job \"a\""), "{error}");
    assert_eq!(applied.iter().map(|one| &*one.key.name).collect::<Vec<_>>(), ["b"]);
    assert_eq!([&a, &b].map(|path| server.object(path).unwrap()["spec"]["template"].clone()), ["1", "2"]);
}

#[tokio::test]
async fn in_a_repair_nothing_is_written_once_contact_is_lost_whatever_failed_before() {
    let ((server, applier), told) = (server(), Told::default());
    for name in ["a", "b", "c"] {
        apply(&applier, &named(name, "1"), true, &told).await.unwrap();
    }
    let paths = ["a", "b", "c"].map(|name| JOB.replace("web", name));
    let uids = || paths.each_ref().map(|path| server.object(path).unwrap()["metadata"]["uid"].clone());
    let mut guarded = server.object(&paths[0]).unwrap();
    guarded["metadata"]["finalizers"] = json!(["example.com/backup"]);
    server.put(&paths[0], guarded, "someone");
    let (before, lost) = (uids(), paths[1].clone());
    server.refuse(move |call| {
        (call.method == http::Method::DELETE && call.path.starts_with(&lost)).then_some(Error::Outdated)
    });
    let (decoration, mut applied) = (decoration(), Vec::new());
    let after_failure = AfterFailure::Continue;
    let options = WriteOptions { after_failure, ..WriteOptions::new(&decoration, Policy::Auto, &told) };
    let later = object("v1", "ConfigMap", json!({}), json!({}));
    let objects = [named("a", "2"), named("b", "2"), named("c", "2"), later];
    let targets: Vec<Target<'_>> = objects.iter().map(target).collect();
    let error = applier.apply_each(&targets, &options, &mut applied).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot delete Job \"b\"", "the failure that ended the repair");
    assert_eq!((applied.len(), uids()), (0, before));
    assert_eq!(server.object("/api/v1/namespaces/ns/configmaps/web"), None);
}

#[tokio::test]
async fn what_somebody_put_in_an_objects_place_is_replaced_whatever_the_release_may_take_over() {
    for rule in [Rule::Keep, Rule::Import, Rule::Adopt(Adopt::Any)] {
        let ((server, applier), told) = (server(), Told { last: Some(job("b")), ..Told::default() });
        apply(&applier, &job("a"), true, &told).await.unwrap();
        let mut theirs = server.object(JOB).unwrap();
        theirs["metadata"]["managedFields"] = Value::Null;
        server.remove(JOB);
        server.put(JOB, theirs, "kubectl");
        let uid = server.object(JOB).unwrap()["metadata"]["uid"].take();
        let (new, decoration) = (job("b"), decoration());
        let options = WriteOptions { slot: &told, ..WriteOptions::new(&decoration, Policy::Auto, &told) };
        let same = Target { rule, changed: false, ..target(&new) };
        applier.apply_all(&[same], &options).await.unwrap();
        let live = server.object(JOB).unwrap();
        assert_eq!(live["spec"]["template"], "b", "{rule:?}");
        assert_ne!(live["metadata"]["uid"], uid, "{rule:?}");
    }
}

#[tokio::test]
async fn the_object_that_was_applied_before_is_not_recreated_for_the_same_chart() {
    let (server, applier) = server();
    let told = Told { last: Some(job("b")), ..Told::default() };
    apply(&applier, &job("a"), true, &told).await.unwrap();
    let error = apply(&applier, &job("b"), false, &told).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Guarded { guard, .. } if **guard == Guard::Unchanged), "{error}");
    // Someone has put another object of this release in its place.
    let mut theirs = server.object(JOB).unwrap();
    theirs["metadata"]["managedFields"] = Value::Null;
    server.remove(JOB);
    server.put(JOB, theirs, "kubectl");
    apply(&applier, &job("b"), false, &told).await.unwrap();
    assert_eq!(server.object(JOB).unwrap()["spec"]["template"], "b");
    // An interrupted upgrade recorded the object, and the deployed revision has another one.
    apply(&applier, &job("c"), false, &told).await.unwrap();
    assert_eq!(server.object(JOB).unwrap()["spec"]["template"], "c");
}

#[tokio::test]
async fn an_action_leaves_what_the_chart_has_not_changed_whatever_its_kind() {
    let (server, applier) = server();
    server.make_immutable("deployments", "/spec/selector");
    let deployment = |selector: &str| object("apps/v1", "Deployment", json!({}), json!({"selector": selector}));
    let as_action = async |object: &Object, last: &Object| {
        let told = Told { last: Some(last.clone()), ..Told::default() };
        apply_as(Unchanged::Left, &applier, object, false, &told).await
    };
    for (path, made, chart) in
        [(JOB, job("a"), job("b")), ("/apis/apps/v1/namespaces/ns/deployments/web", deployment("a"), deployment("b"))]
    {
        apply(&applier, &made, true, &Told::default()).await.unwrap();
        let (before, since) = (server.object(path), server.log().len());
        let left = as_action(&chart, &chart).await.unwrap();
        assert_eq!((left.len(), left[0].changed, &*left[0].key.name), (1, false, "web"));
        assert_eq!(left[0].live.metadata.uid.as_deref(), before.as_ref().unwrap()["metadata"]["uid"].as_str());
        assert_eq!(server.object(path), before);
        let is_made_anew = |line: &String| line.starts_with("DELETE") || line.starts_with("POST");
        assert!(!writes(&server, since).iter().any(is_made_anew), "{path}");
    }
    let guarded = as_action(&deployment("b"), &deployment("c")).await.unwrap_err();
    assert!(matches!(&guarded, ApplyError::Guarded { guard, .. } if **guard == Guard::NotAsked), "{guarded}");
    // An interrupted attempt may have applied another one.
    as_action(&job("b"), &job("c")).await.unwrap();
    assert_eq!(server.object(JOB).unwrap()["spec"]["template"], "b");
    // Someone has put another object of this release in its place.
    let mut theirs = server.object(JOB).unwrap();
    theirs["metadata"]["managedFields"] = Value::Null;
    server.remove(JOB);
    server.put(JOB, theirs, "kubectl");
    as_action(&job("c"), &job("c")).await.unwrap();
    assert_eq!(server.object(JOB).unwrap()["spec"]["template"], "c");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_has_not_finished_is_recorded_before_it_is_deleted() {
    for (conditions, expected) in [(json!([]), true), (json!([{"type": "Complete", "status": "True"}]), false)] {
        let ((server, applier), told) = (server(), Told::default());
        apply(&applier, &job("a"), true, &told).await.unwrap();
        let mut live = server.object(JOB).unwrap();
        live["status"]["conditions"] = conditions.clone();
        server.put(JOB, live, "kube-controller-manager");
        apply_recording(&applier, &job("b"), &told).await.unwrap();
        let mut lines = vec!["Job \"web\": immutable fields change: spec.template", "leave", "enter"];
        if expected {
            lines.insert(0, "record Job \"web\"");
        }
        assert_eq!(told.lines(), lines, "{conditions}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_deletion_cannot_be_recorded_stays() {
    let ((server, applier), told) = (server(), Told { refuses: true, ..Told::default() });
    apply(&applier, &job("a"), true, &told).await.unwrap();
    let before = server.object(JOB).unwrap();
    let error = apply_recording(&applier, &job("b"), &told).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot record that Job \"web\" will be deleted and created anew");
    assert!(crate::action::Error::from(error).is_unanswered(), "the next attempt continues");
    assert_eq!(server.object(JOB).unwrap(), before);
}
