use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::kube::live_state::readiness::readiness_of;
use crate::kube::writes::limit::MAX_WRITES;
use crate::sample::{self, Counting, decoration};

const SERVICE: &str = "/api/v1/namespaces/ns/services/web";

fn service() -> Object {
    Object::new(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"type": "ClusterIP", "port": 1}})).unwrap()
}

fn target(object: &Object, rule: Rule, observed: Found) -> Target<'_> {
    Target { rule, observed, changed: false, ..sample::target(object) }
}

impl Applier {
    /// Applies objects as [`Applier::apply_each`] does, and returns them.
    pub(in crate::kube) async fn apply_all(
        &self,
        targets: &[Target<'_>],
        options: &WriteOptions<'_>,
    ) -> Result<Vec<Applied>, ApplyError> {
        let mut applied = Vec::with_capacity(targets.len());
        self.apply_each(targets, options, &mut applied).await?;
        Ok(applied)
    }
}

async fn apply(applier: &Applier, target: Target<'_>) -> Result<Applied, ApplyError> {
    Ok(applier.apply(&target, &WriteOptions::new(&decoration(), Policy::Auto, &())).await?.unwrap())
}

/// Returns the state of the release's object with this uid and resource version, as a watch shows it.
fn ours(uid: &str, resource_version: &str) -> Found {
    let proven = Proven { uid: uid.into(), resource_version: resource_version.into() };
    Found::Ours { proven, scaled: false, kept: false }
}

/// Returns the current state of the service, as a watch shows it.
fn current(server: &MemoryApi) -> Found {
    let metadata = server.object(SERVICE).unwrap()["metadata"].clone();
    ours(metadata["uid"].as_str().unwrap(), metadata["resourceVersion"].as_str().unwrap())
}

/// Applies the service without a known live object.
async fn put(applier: &Applier, rule: Rule) -> Result<Applied, ApplyError> {
    apply(applier, target(&service(), rule, Found::Unknown)).await
}

/// Returns a live service that belongs to the named release.
fn service_of(release: &str) -> Value {
    let annotations = json!({"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "ns"});
    let labels = json!({"app.kubernetes.io/managed-by": "Helm"});
    let metadata = json!({"name": "web", "labels": labels, "annotations": annotations});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"port": 9}})
}

fn server() -> (Arc<MemoryApi>, Applier) {
    let server = Arc::new(MemoryApi::new());
    (server.clone(), Applier::new(server))
}

#[tokio::test]
async fn new_objects_are_created_by_one_apply_with_helms_metadata_and_owner() {
    let (server, applier) = server();
    let applied = apply(&applier, target(&service(), Rule::Import, Found::Absent)).await.unwrap();
    assert_eq!(server.log(), ["GET /api", "GET /apis", &format!("PATCH {SERVICE}")]);
    let metadata = server.object(SERVICE).unwrap()["metadata"].clone();
    assert_eq!(metadata["labels"], json!({"app.kubernetes.io/managed-by": "Helm", CHART_LABEL: "memcached"}));
    assert_eq!(
        metadata["annotations"],
        json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"})
    );
    assert_eq!(metadata["ownerReferences"][0]["uid"], "u1");
    assert!(applied.live.mark.is_some());
    assert_eq!(applied.key.to_string(), "Service \"web\"");
    assert_eq!((&*applied.api_version, applied.kept), ("v1", false));
    assert_eq!(applied.digest, service().digest("ns"));
}

#[tokio::test]
async fn a_job_that_is_being_deleted_counts_as_finished_only_if_it_was_applied_before() {
    const LOAD: &str = "/apis/batch/v1/namespaces/ns/jobs/load";
    let spec = json!({"ttlSecondsAfterFinished": 60});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"}, "spec": spec});
    let job = Object::new(job).unwrap();
    let (server, applier) = server();
    let put = async |expires: bool| {
        let target = Target { expires, ..target(&job, Rule::Import, Found::Unknown) };
        apply(&applier, target).await.unwrap()
    };
    let made = put(false).await;
    assert!(made.expires);
    let mut live = server.object(LOAD).unwrap();
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    live["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.put(LOAD, live, "someone");
    for was_applied in [false, true] {
        let again = put(was_applied).await;
        assert_eq!((again.live.deleting, again.expires), (true, was_applied));
        assert_eq!(again.live.metadata.uid, made.live.metadata.uid);
    }
}

#[tokio::test]
async fn a_kind_that_has_gone_since_the_last_discovery_is_not_served() {
    let (server, applier) = server();
    server.serve("x.y/v1", "Db", "dbs");
    let db = Object::new(json!({"apiVersion": "x.y/v1", "kind": "Db", "metadata": {"name": "a"}})).unwrap();
    applier.mapper.refresh().await.unwrap();
    server.unserve("x.y/v1", "Db");
    let checked = applier.check_ownership(&[(&db, Rule::Import)], &decoration()).await.unwrap_err();
    server.serve("x.y/v1", "Db", "dbs");
    applier.mapper.refresh().await.unwrap();
    server.unserve("x.y/v1", "Db");
    let applied = apply(&applier, target(&db, Rule::Import, Found::Absent)).await.unwrap_err();
    for error in [checked, applied] {
        assert!(matches!(error, ApplyError::Failed { source: Error::NoKind { .. }, .. }), "{error:?}");
    }
    // Discovery still lists a kind whose definition is being deleted.
    server.serve("x.y/v1", "Db", "dbs");
    let refused = apply(&applier, target(&db, Rule::Import, Found::Unknown)).await.unwrap_err();
    assert!(matches!(&refused, ApplyError::Failed { source: Error::Refused { code: 404, .. }, .. }), "{refused:?}");
}

#[tokio::test]
async fn a_path_that_is_not_served_for_a_moment_does_not_prove_that_its_object_is_absent() {
    let (server, applier) = server();
    server.put(SERVICE, service_of("other"), "helm");
    let before = server.object(SERVICE);
    let unserve = || server.disturb(&format!("GET {SERVICE}"), 1, Disturbance::Unserved);
    unserve();
    let checked = applier.check_ownership(&[(&service(), Rule::Import)], &decoration()).await.map(drop).unwrap_err();
    unserve();
    let applied = apply(&applier, target(&service(), Rule::Import, Found::Unknown)).await.unwrap_err();
    for error in [checked, applied] {
        assert!(is_unanswered(&error), "{error:?}");
    }
    assert_eq!(server.object(SERVICE), before);
    let foreign = applier.check_ownership(&[(&service(), Rule::Import)], &decoration()).await.map(drop).unwrap_err();
    assert!(matches!(foreign, ApplyError::Foreign(_)), "{foreign:?}");
}

#[tokio::test]
async fn an_object_is_read_in_a_version_that_is_served_and_a_path_that_is_not_proves_nothing() {
    const PATH: &str = "/apis/x.y/v2/namespaces/ns/services/web";
    let (server, applier) = server();
    ["x.y/v1", "x.y/v2"].into_iter().for_each(|version| server.serve(version, "Service", "services"));
    applier.mapper.refresh().await.unwrap();
    server.put(PATH, service_of("web"), "helm");
    server.unserve("x.y/v1", "Service");
    let key = ObjectKey::new("x.y", "Service", "ns", "web");
    assert!(applier.find_whole(&key, "x.y/v1").await.unwrap().is_some());
    server.disturb(&format!("GET {PATH}"), 2, Disturbance::Unserved);
    assert!(applier.find_whole(&key, "x.y/v2").await.unwrap_err().is_unserved_path());
    server.unserve("x.y/v2", "Service");
    assert!(applier.find_whole(&key, "x.y/v2").await.unwrap().is_none());
}

#[tokio::test]
async fn an_object_that_has_gone_although_it_is_known_is_made_again() {
    for version in ["", "1"] {
        let (server, applier) = server();
        apply(&applier, target(&service(), Rule::Keep, ours("gone", version))).await.unwrap();
        assert!(server.object(SERVICE).is_some(), "{version}");
    }
}

#[tokio::test]
async fn foreign_objects_are_unchanged_unless_adopted() {
    let (server, applier) = server();
    let unclaimed = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"port": 9}});
    for (live, rule, why) in [
        (unclaimed.clone(), Rule::Import, Some("missing key \"app.kubernetes.io/managed-by\"")),
        (unclaimed.clone(), Rule::Keep, None),
        (service_of("other"), Rule::Keep, Some("it belongs to release \"other\" in namespace \"ns\"")),
        (service_of("other"), Rule::Adopt(Adopt::Any), None),
    ] {
        for observed in [Found::Unknown, Found::Absent, ours("another", "1")] {
            server.remove(SERVICE);
            server.put(SERVICE, live.clone(), "kubectl");
            let result = apply(&applier, target(&service(), rule, observed.clone())).await;
            let port = &server.object(SERVICE).unwrap()["spec"]["port"];
            match (result, why) {
                (Err(error), Some(why)) => {
                    let was_ours = matches!(observed, Found::Ours { .. });
                    assert_eq!(matches!(error, ApplyError::Taken(_)), was_ours, "{error:?}");
                    assert!(was_ours || matches!(error, ApplyError::Foreign(_)), "{error:?}");
                    assert!(error.to_string().contains(why), "{error}");
                    assert_eq!(port, 9);
                }
                (Ok(_), None) => assert_eq!(port, 1),
                (result, _) => panic!("{rule:?} {observed:?}: {result:?}"),
            }
        }
    }
}

#[tokio::test]
async fn an_ownership_check_reads_each_object_once_and_names_every_conflict() {
    let (server, applier) = server();
    let other = |name: &str| {
        let mut object = service();
        object.name = name.into();
        object.body["metadata"]["name"] = name.into();
        object
    };
    server.put(SERVICE, service_of("web"), "helm");
    server.put("/api/v1/namespaces/ns/services/b", service_of("b"), "helm");
    server.put("/api/v1/namespaces/ns/services/c", service_of("c"), "helm");
    let objects = [service(), other("a"), other("b"), other("c")];
    let ask: Vec<_> = objects.iter().map(|object| (object, Rule::Import)).collect();
    let found = applier.check_ownership(&ask[..2], &decoration()).await.unwrap();
    assert!(
        matches!(&found[..], [(web, Found::Read(_)), (a, Found::Absent)] if &*web.name == "web" && &*a.name == "a")
    );
    let error = applier.check_ownership(&ask, &decoration()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Service \"b\" in namespace \"ns\" exists and cannot be imported into the current release: it belongs to release \"b\" in namespace \"ns\"; \
         Service \"c\" in namespace \"ns\" exists and cannot be imported into the current release: it belongs to release \"c\" in namespace \"ns\""
    );
    assert_eq!(server.writes(), 0);
    assert_eq!(server.log().iter().filter(|r| r.contains("/services/")).count(), 6);
}

#[tokio::test]
async fn a_new_object_that_somebody_makes_before_the_write_is_not_taken_over_before_that_is_noted() {
    let unclaimed = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}});
    // Other releases are written under the same name, also what their charts have in the folder `crds`.
    for (live, manager) in [
        (service_of("web"), "somebody"),
        (unclaimed.clone(), "somebody"),
        (unclaimed, FIELD_MANAGER),
        (service_of("other"), FIELD_MANAGER),
    ] {
        let (server, applier) = server();
        server.put(SERVICE, live, manager);
        let before = server.object(SERVICE);
        let (decoration, object, mut other) = (decoration(), service(), service());
        other.name = "refused".into();
        other.body["metadata"]["name"] = "refused".into();
        let new = |object| Target { is_new: true, ..target(object, Rule::Adopt(Adopt::Any), Found::Absent) };
        server.refuse(|call| call.path.contains("/refused").then(|| Error::from_status(403, "Forbidden", "no")));
        let options = WriteOptions::new(&decoration, Policy::Auto, &());
        let error = applier.apply_all(&[new(&other), new(&object)], &options).await.unwrap_err();
        assert!(matches!(error, ApplyError::Appeared(_)), "whatever else fails: {error}");
        let error = crate::action::Error::from(error);
        assert!(error.is_unanswered() && !error.is_ownership_conflict(), "the next attempt takes it over");
        assert_eq!(server.object(SERVICE), before);
        server.remove(SERVICE);
        for answer in ["first", "repeated"] {
            assert!(applier.apply_all(&[new(&object)], &options).await.is_ok(), "{answer}: it is its own");
        }
    }
}

/// Returns how the release would adopt an object of this release by this field manager, of another resource's: if that had
/// the release before, and if not.
fn made_by(release: &str, manager: &str, belongs: impl Fn(&mut Value)) -> [Option<Adopted>; 2] {
    let mut object = service_of(release);
    object["metadata"]["managedFields"] = json!([{"manager": manager, "operation": "Apply", "fieldsV1": {}}]);
    belongs(&mut object["metadata"]);
    let live = serde_json::from_value(object).unwrap();
    let other = Former { uid: "1".into(), kind: "Other.a.b".into() };
    [vec![other], Vec::new()].map(|former| Decoration { former, ..decoration() }.made_by_others(&live))
}

#[test]
fn what_a_release_made_is_not_made_by_others_if_the_resource_that_it_belongs_to_had_the_release() {
    let others = Some(Adopted::Claimed);
    let controller = json!({"apiVersion": "a.b/v1", "kind": "Other", "name": "web", "uid": "1", "controller": true});
    let by_reference = |metadata: &mut Value| metadata["ownerReferences"] = json!([controller]);
    let by_annotations = |metadata: &mut Value| {
        metadata["annotations"]["operator-sdk/primary-resource"] = "ns/web".into();
        metadata["annotations"]["operator-sdk/primary-resource-type"] = "Other.a.b".into();
    };
    for belongs in [&by_reference as &dyn Fn(&mut Value), &by_annotations] {
        assert_eq!(made_by("web", FIELD_MANAGER, belongs), [None, others]);
        assert_eq!(made_by("web", "helm", belongs), [others; 2]);
        assert_eq!(made_by("other", FIELD_MANAGER, belongs), [Some(Adopted::Unclaimed); 2]);
    }
    assert_eq!(made_by("web", FIELD_MANAGER, |_| {}), [None; 2], "it belongs to no resource");
}

#[test]
fn errors_list_five_conflicts_and_count_the_rest() {
    let key = |n: usize| ObjectKey {
        group: "".into(),
        kind: "Node".into(),
        namespace: "".into(),
        name: n.to_string().into(),
    };
    let foreign = |n| {
        ApplyError::Foreign((0..n).map(|n| Conflict { key: key(n), why: NotOurs::Foreign("x".into()) }).collect())
            .to_string()
    };
    assert_eq!(foreign(1), "Node \"0\" exists and cannot be imported into the current release: it belongs to x");
    assert!(foreign(5).ends_with("Node \"4\" exists and cannot be imported into the current release: it belongs to x"));
    assert!(foreign(7).ends_with("release: it belongs to x; and 2 more"));
}

#[tokio::test]
async fn objects_that_change_hands_before_the_apply_are_judged_again() {
    // What `helm` wrote becomes ours, and what others wrote does not.
    for manager in ["helm", "kubectl"] {
        let (server, applier) = server();
        server.put(SERVICE, service_of("web"), manager);
        let object = service();
        let found = applier.check_ownership(&[(&object, Rule::Import)], &decoration()).await.unwrap();
        server.put(SERVICE, service_of("other"), manager);
        let error = apply(&applier, target(&object, Rule::Import, found[0].1.clone())).await.unwrap_err();
        assert!(matches!(error, ApplyError::Foreign(_)), "{manager}: {error}");
        assert_eq!(server.object(SERVICE).unwrap()["spec"]["port"], 9, "{manager}");
    }
}

#[tokio::test]
async fn objects_that_others_change_before_the_apply_are_read_again_and_applied() {
    let (server, applier) = server();
    server.put(SERVICE, service_of("web"), "kubectl");
    let object = service();
    let found = applier.check_ownership(&[(&object, Rule::Import)], &decoration()).await.unwrap();
    let mut changed = server.object(SERVICE).unwrap();
    changed["metadata"]["annotations"]["other"] = "x".into();
    server.put(SERVICE, changed, "kubectl");
    apply(&applier, target(&object, Rule::Import, found[0].1.clone())).await.unwrap();
    let live = server.object(SERVICE).unwrap();
    assert_eq!((&live["spec"]["port"], &live["metadata"]["annotations"]["other"]), (&json!(1), &json!("x")));
}

#[tokio::test]
async fn an_object_that_changes_hands_while_the_watch_is_late_is_not_overwritten() {
    let (server, applier) = server();
    put(&applier, Rule::Import).await.unwrap();
    let late = current(&server);
    let mut theirs = server.object(SERVICE).unwrap();
    theirs["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "x.y/v1", "kind": "Redis", "name": "web", "uid": "another", "controller": true}]);
    theirs["spec"]["port"] = 9.into();
    server.put(SERVICE, theirs, "other");
    let error = apply(&applier, target(&service(), Rule::Keep, late)).await.unwrap_err();
    assert!(matches!(error, ApplyError::Taken(_)), "{error}");
    let error = crate::action::Error::from(error);
    assert!(error.is_unanswered() && error.is_ownership_conflict(), "the next attempt finds it before it writes");
    let live = server.object(SERVICE).unwrap();
    let owners = live["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((&live["spec"]["port"], owners.len(), &owners[0]["uid"]), (&json!(9), 1, &json!("another")));
}

#[tokio::test]
async fn an_object_whose_status_keeps_changing_is_read_once_and_applied_by_the_second_try() {
    let (server, applier) = server();
    put(&applier, Rule::Import).await.unwrap();
    let late = current(&server);
    let controller = Arc::downgrade(&server);
    server.refuse(move |call| {
        let server = controller.upgrade()?;
        if call.method == "PATCH" {
            let mut live = server.object(SERVICE)?;
            live["status"]["writes"] = server.version().into();
            server.put(SERVICE, live, "controller");
        }
        None
    });
    let before = (sent(&server, "PATCH"), sent(&server, "GET"));
    let mut changed = service();
    changed.body["spec"]["port"] = 2.into();
    apply(&applier, target(&changed, Rule::Keep, late)).await.unwrap();
    assert_eq!((sent(&server, "PATCH"), sent(&server, "GET")), (before.0 + 2, before.1 + 1));
    assert_eq!(server.object(SERVICE).unwrap()["spec"]["port"], 2);
}

#[tokio::test]
async fn deleted_and_recreated_objects_are_applied() {
    let (server, applier) = server();
    put(&applier, Rule::Import).await.unwrap();
    let uid = || server.object(SERVICE).unwrap()["metadata"]["uid"].clone();
    let (old, observed) = (uid(), current(&server));
    server.remove(SERVICE);
    apply(&applier, target(&service(), Rule::Keep, observed)).await.unwrap();
    assert_ne!(uid(), old);
    let log = server.log().len();
    apply(&applier, target(&service(), Rule::Keep, current(&server))).await.unwrap();
    assert_eq!(server.log().len(), log + 1, "one request if the observation is current");
}

#[tokio::test]
async fn an_apply_that_finds_the_object_as_it_should_be_has_changed_nothing() {
    let (server, applier) = server();
    assert!(put(&applier, Rule::Import).await.unwrap().changed, "created");
    let is_changed = async |is_watched: bool| {
        let observed = if is_watched { current(&server) } else { Found::Unknown };
        apply(&applier, target(&service(), Rule::Keep, observed)).await.unwrap().changed
    };
    for is_watched in [true, false] {
        assert!(!is_changed(is_watched).await, "watched: {is_watched}");
        let mut drifted = server.object(SERVICE).unwrap();
        drifted["spec"]["port"] = 9.into();
        server.put(SERVICE, drifted, "kubectl");
        assert!(is_changed(is_watched).await, "watched: {is_watched}");
    }
}

#[tokio::test]
async fn the_fields_that_helm_wrote_become_ours_and_can_be_dropped() {
    let (server, applier) = server();
    let mut old = service_of("web");
    old["spec"] = json!({"port": 1, "old": true});
    server.put(SERVICE, old, "helm");
    put(&applier, Rule::Import).await.unwrap();
    let live = server.object(SERVICE).unwrap();
    assert_eq!(live["spec"], json!({"type": "ClusterIP", "port": 1}));
    assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn many_managed_fields_are_read_again_to_become_ours() {
    let object = service();
    for (manager, reads) in [("helm", 2), ("kubectl", 1)] {
        let (server, applier) = server();
        let mut old = service_of("web");
        for n in 0..1000 {
            old["metadata"]["annotations"][format!("key-{n:04}")] = "x".into();
        }
        server.put(SERVICE, old, manager);
        let uid = server.object(SERVICE).unwrap()["metadata"]["uid"].clone();
        let found = applier.check_ownership(&[(&object, Rule::Import)], &decoration()).await.unwrap();
        let (_, found) = &found[0];
        assert!(format!("{found:?}").len() < 1000, "{found:?}");
        apply(&applier, target(&object, Rule::Import, found.clone())).await.unwrap();
        let metadata = server.object(SERVICE).unwrap()["metadata"].clone();
        let managers = metadata["managedFields"].as_array().unwrap().iter().map(|entry| entry["manager"].as_str());
        assert_eq!(managers.flatten().any(|other| other == manager), manager == "kubectl", "{manager}");
        assert_eq!(metadata["annotations"]["key-0999"].is_null(), manager == "helm", "{manager}");
        assert_eq!(metadata["uid"], uid);
        let log = server.log();
        assert_eq!(log.iter().filter(|line| **line == format!("GET {SERVICE}")).count(), reads, "{manager}");
    }
}

#[tokio::test]
async fn the_mark_reveals_lost_fields_and_applying_restores_it() {
    let (server, applier) = server();
    let mark = put(&applier, Rule::Import).await.unwrap().live.mark;
    let read = || serde_json::from_value::<Live>(server.object(SERVICE).unwrap()).unwrap().mark;
    let mut foreign = server.object(SERVICE).unwrap();
    foreign["metadata"]["annotations"]["other"] = "x".into();
    server.put(SERVICE, foreign.clone(), "kubectl");
    assert_eq!(read(), mark, "a foreign annotation is not drift");
    foreign["spec"]["port"] = 7.into();
    server.put(SERVICE, foreign, "kubectl");
    assert_ne!(read(), mark);
    let again = put(&applier, Rule::Keep).await.unwrap();
    assert_eq!(again.live.mark, mark);
    assert_eq!(Mark::parse(&mark.unwrap().to_string()), mark);
}

#[tokio::test]
async fn fields_that_became_ours_count_as_drift_until_an_apply_has_set_them() {
    let (server, applier) = server();
    let mark = put(&applier, Rule::Import).await.unwrap().live.mark;
    let live = || server.object(SERVICE).unwrap();
    let port = || live()["spec"]["port"].clone();
    let live_mark = || serde_json::from_value::<Live>(live()).unwrap().mark;
    let is_drift = async || !applier.inspect(&service(), &decoration(), &[]).await.unwrap().loss.is_none();
    let mut drifted = live();
    drifted["spec"]["port"] = 9.into();
    server.put(SERVICE, drifted, "helm");
    // The process dies between the two writes of a repair.
    server.fail_after(Some(1));
    put(&applier, Rule::Keep).await.unwrap_err();
    server.fail_after(None);
    assert!(live()["metadata"]["managedFields"].as_array().unwrap().iter().all(|one| one["manager"] != "helm"));
    assert_eq!((port(), live_mark() == mark, is_drift().await), (json!(9), false, true), "a watch and a read show it");
    put(&applier, Rule::Keep).await.unwrap();
    assert_eq!((port(), live_mark() == mark, is_drift().await), (json!(1), true, false));
}

#[tokio::test]
async fn only_proven_objects_are_deleted() {
    let (server, applier) = server();
    let key = put(&applier, Rule::Import).await.unwrap().key;
    let decoration = decoration();
    let delete = |grounds| applier.delete(&key, "v1", grounds, &decoration);
    let unclaimed = json!({"metadata": {"name": "web"}});
    let mut kept = service_of("web");
    kept["metadata"]["annotations"]["helm.sh/resource-policy"] = " Keep ".into();
    let outdated = Proven { uid: "another".into(), resource_version: "1".into() };
    for (live, expected) in [
        (service_of("web"), Removal::Sent(String::new())),
        (kept, Removal::Kept),
        (service_of("other"), Removal::NotOurs(NotOurs::Foreign("release \"other\" in namespace \"ns\"".into()))),
        (unclaimed, Removal::NotOurs(NotOurs::Unclaimed)),
    ] {
        for grounds in [Grounds::Metadata, Grounds::Seen(outdated.clone())] {
            server.remove(SERVICE);
            server.put(SERVICE, live.clone(), "helm");
            let uid = server.object(SERVICE).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
            let expected = if matches!(expected, Removal::Sent(_)) { Removal::Sent(uid) } else { expected.clone() };
            assert_eq!(delete(grounds).await.unwrap(), expected);
            assert_eq!(server.object(SERVICE).is_none(), matches!(expected, Removal::Sent(_)));
        }
    }
    server.remove(SERVICE);
    assert_eq!(delete(Grounds::Metadata).await.unwrap(), Removal::Absent);
    assert_eq!(delete(Grounds::Seen(outdated)).await.unwrap(), Removal::Absent);
    assert_eq!(applier.delete(&key, "gone/v1", Grounds::Metadata, &decoration).await.unwrap(), Removal::Absent);
}

#[tokio::test]
async fn what_only_attempts_have_had_is_deleted_unless_somebody_else_made_it() {
    let (server, applier) = server();
    let (object, key, decoration) = (service(), service().key("ns"), decoration());
    let check = async |behaviour: &str, is_deleted: bool| {
        let removal = applier.delete(&key, "v1", Grounds::Attempt, &decoration).await.unwrap();
        let is_left = removal == Removal::NotOurs(NotOurs::Appeared);
        let is_gone = server.object(SERVICE).is_none();
        assert_eq!((is_left, is_gone), (!is_deleted, is_deleted), "{behaviour}: {removal:?}");
        server.remove(SERVICE);
    };
    for policy in [Policy::Server, Policy::Client] {
        let options = WriteOptions::new(&decoration, policy, &());
        let new = target(&object, Rule::Import, Found::Absent);
        applier.apply(&new, &options).await.unwrap();
        check("applied", true).await;
        applier.apply(&new, &options).await.unwrap();
        let mut freed = server.object(SERVICE).unwrap();
        freed["metadata"]["ownerReferences"] = json!([]);
        server.put(SERVICE, freed, "kubectl");
        check("applied, and then freed from its owner", true).await;
    }
    let mut named = service_of("web");
    named["metadata"]["annotations"]["operator-sdk/primary-resource"] = "ns/web".into();
    server.put(SERVICE, named, "another");
    check("naming the resource", true).await;
    server.put(SERVICE, service_of("web"), "velero");
    check("with Helm's metadata only", false).await;
    server.put(SERVICE, service_of("web"), FIELD_MANAGER);
    let mut restored = server.object(SERVICE).unwrap();
    restored["metadata"]["managedFields"][0]["time"] = "2020-01-01T00:00:00Z".into();
    restored["metadata"]["creationTimestamp"] = "2020-01-02T00:00:00Z".into();
    server.restore(SERVICE, restored);
    check("restored with the managed fields of its former self", false).await;
}

#[tokio::test]
async fn objects_are_found_and_deleted_through_another_version() {
    let (server, applier) = server();
    let key = put(&applier, Rule::Import).await.unwrap().key;
    let mut object = service();
    for (api_version, found) in [("v0", Some(key.clone())), ("v1", Some(key.clone())), ("gone/v1", None)] {
        object.api_version = api_version.into();
        assert_eq!(applier.recorded_key(&object, &decoration()).await.unwrap(), found, "{api_version}");
    }
    assert!(applier.find_live(&key, "v0").await.unwrap().is_some());
    assert!(applier.find_live(&key, "gone/v1").await.unwrap().is_none());
    let deleted = applier.delete(&key, "v0", Grounds::Metadata, &decoration()).await.unwrap();
    assert!(matches!(deleted, Removal::Sent(_)));
    assert!(server.object(SERVICE).is_none());

    server.refuse(|call| (call.path == "/apis").then(|| Error::from_status(503, "", "away")));
    let error = applier.recorded_key(&object, &decoration()).await.unwrap_err();
    assert!(matches!(error, ApplyError::Failed { verb: "find", .. }), "{error}");
}

#[tokio::test]
async fn an_object_whose_version_has_gone_since_the_last_discovery_is_found_and_deleted_in_another() {
    const PATH: &str = "/apis/x.y/v2/namespaces/ns/services/web";
    let outdated = Proven { uid: "another".into(), resource_version: "1".into() };
    for grounds in [Grounds::Metadata, Grounds::Attempt, Grounds::Seen(outdated)] {
        let (server, applier) = server();
        server.serve("x.y/v1", "Service", "services");
        server.serve("x.y/v2", "Service", "services");
        applier.mapper.refresh().await.unwrap();
        server.put(PATH, service_of("web"), FIELD_MANAGER);
        let key = ObjectKey::new("x.y", "Service", "ns", "web");
        server.unserve("x.y/v1", "Service");
        if grounds == Grounds::Metadata {
            assert!(applier.find_live(&key, "x.y/v1").await.unwrap().is_some());
            server.serve("x.y/v1", "Service", "services");
            applier.mapper.refresh().await.unwrap();
            server.unserve("x.y/v1", "Service");
        }
        assert!(matches!(applier.delete(&key, "x.y/v1", grounds, &decoration()).await.unwrap(), Removal::Sent(_)));
        assert!(server.object(PATH).is_none());
        server.unserve("x.y/v2", "Service");
        assert!(applier.find_live(&key, "x.y/v2").await.unwrap().is_none());
        assert_eq!(applier.delete(&key, "x.y/v2", Grounds::Metadata, &decoration()).await.unwrap(), Removal::Absent);
    }
}

#[tokio::test]
async fn an_object_of_a_server_that_does_not_answer_is_not_taken_for_gone() {
    let (server, applier) = server();
    server.serve_stale("x.y/v1");
    let key = ObjectKey::new("x.y", "Route", "ns", "web");
    let deleted = applier.delete(&key, "x.y/v1", Grounds::Metadata, &decoration()).await.unwrap_err();
    let found = applier.find_live(&key, "x.y/v1").await.unwrap_err();
    for error in [deleted, found] {
        assert!(matches!(error, ApplyError::Failed { source: Error::Unanswered { .. }, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn objects_proven_by_a_watch_are_deleted_with_one_request() {
    let (server, applier) = server();
    let applied = put(&applier, Rule::Import).await.unwrap();
    let log = server.log().len();
    let seen = Grounds::Seen(applied.live.proven());
    let removal = applier.delete(&applied.key, "v1", seen, &decoration()).await.unwrap();
    assert_eq!(Some(removal), applied.live.metadata.uid.clone().map(Removal::Sent));
    assert_eq!(server.log()[log..], [format!("DELETE {SERVICE}")]);
}

#[tokio::test]
async fn unknown_kinds_and_hostile_names_are_errors() {
    let (server, applier) = server();
    let error = applier.mapper.resource("example.com/v1", "Thing").await.unwrap_err();
    assert_eq!(error.to_string(), "no matches for kind \"Thing\" in version \"example.com/v1\"");
    server.serve_cluster_scoped("example.com/v1", "Thing", "things");
    assert!(!applier.mapper.resource("example.com/v1", "Thing").await.unwrap().namespaced);
    let mut object = service();
    object.name = "../secrets/x".into();
    assert!(apply(&applier, target(&object, Rule::Import, Found::Absent)).await.is_err());
}

#[test]
fn the_mark_covers_all_our_entries() {
    let entry = |manager: &str, operation: &str, subresource: &str, field: &str| json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": {field: {}}});
    let mark = |entries: &[&Value]| {
        serde_json::from_value::<Live>(json!({"metadata": {"managedFields": entries}})).unwrap().mark
    };
    let (apply, update) = (entry("helm-operator", "Apply", "", "f:a"), entry("helm-operator", "Update", "", "f:a"));
    let newer = entry("helm-operator", "Update", "", "f:b");
    let (status, other) = (entry("helm-operator", "Update", "status", "f:c"), entry("kubectl", "Update", "", "f:c"));
    assert_eq!(mark(&[&status, &other]), None);
    assert_eq!(mark(&[&apply, &status, &other]), mark(&[&apply]));
    // Marks stored by earlier versions of the operator must stay valid.
    assert_eq!(mark(&[&apply]).unwrap().to_string(), "9889202c259c1b7a");
    assert_eq!(mark(&[&update]).unwrap().to_string(), "bf7beb58a356ff1a");
    assert_ne!(mark(&[&apply]), mark(&[&update]));
    assert_ne!(mark(&[&apply]), mark(&[&apply, &update]));
    assert_ne!(mark(&[&update]), mark(&[&newer]));
    assert_eq!(mark(&[&update, &newer]), mark(&[&newer, &update]));
    assert_eq!(mark(&[&entry("helm-operator", "Other", "", "f:a")]), None);
}

#[test]
fn manifests_are_taken_apart_into_objects() {
    let manifest = "---\n# Source: a\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: \"a\\n---b\"\n---\n# nothing\n---\n\
        apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata:\n    name: s\n    namespace: other\n";
    let objects = objects_of(manifest).unwrap();
    let names: Vec<_> = objects.iter().map(|o| (o.kind.as_str(), o.name.as_str(), o.namespace.as_deref())).collect();
    assert_eq!(names, [("ConfigMap", "a", None), ("Secret", "s", Some("other"))]);
    assert!(objects_of("kind: X\n").is_err());
    assert!(objects_of("").unwrap().is_empty());
}

#[test]
fn digests_ignore_key_order_owners_and_the_release_namespace() {
    let plain = service();
    let mut moved = service();
    moved.body["metadata"]["namespace"] = "ns".into();
    moved.body["metadata"]["ownerReferences"] = json!([{"uid": "x"}]);
    assert_eq!(plain.digest("ns"), moved.digest("ns"));
    assert_ne!(plain.digest("other"), moved.digest("other"));
    assert_ne!(digest_json(&json!(["a", "b"])), digest_json(&json!(["ab"])));
}

#[test]
fn readiness_follows_kstatus() {
    let deployment = |spec: Value, status: Value| readiness_of("apps", "Deployment", Some(2), &spec, &status);
    let available = json!([{"type": "Available", "status": "True"}]);
    let done = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "conditions": available});
    assert_eq!(deployment(json!({"replicas": 3}), done.clone()), Readiness::Ready);
    assert_eq!(deployment(json!({"replicas": 4}), done.clone()), Readiness::Progressing);
    assert_eq!(deployment(json!({}), json!({})), Readiness::Progressing);
    let none = json!({"observedGeneration": 2, "conditions": available});
    assert_eq!(deployment(json!({"replicas": 0}), none), Readiness::Ready);
    assert_eq!(deployment(json!({"replicas": 3}), json!({"observedGeneration": 1})), Readiness::Progressing);
    let stuck = json!({"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]});
    assert_eq!(deployment(json!({}), stuck), Readiness::Failed);
    assert_eq!(readiness_of("", "ConfigMap", None, &Value::Null, &Value::Null), Readiness::Ready);
    let pod = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    assert_eq!(readiness_of("", "Pod", None, &Value::Null, &pod), Readiness::Progressing);
    let custom = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    assert_eq!(readiness_of("x.y", "Db", None, &Value::Null, &custom), Readiness::Progressing);
}

#[test]
fn list_items_are_judged_by_the_kind_of_the_list() {
    let spec = json!({"replicas": 1, "template": {"spec": {}}});
    let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1});
    let item = json!({"metadata": {"name": "web", "generation": 1}, "spec": spec, "status": status});
    let live: Live = serde_json::from_value(item).unwrap();
    assert_eq!(live.readiness("apps", "Deployment"), Readiness::Progressing);
    assert_eq!(live.readiness("x.y", "Db"), Readiness::Ready);
}

#[test]
fn kinds_are_sorted_as_helm_sorts_them() {
    let object =
        |kind: &str| Object::new(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": kind}})).unwrap();
    let mut objects = ["Zebra", "Deployment", "Apple", "Service", "ServiceAccount"].map(object);
    install_order(&mut objects);
    assert_eq!(
        objects.each_ref().map(|o| o.kind.as_str()),
        ["ServiceAccount", "Service", "Deployment", "Apple", "Zebra"]
    );
    uninstall_order(&mut objects, |o| &o.kind);
    assert_eq!(
        objects.each_ref().map(|o| o.kind.as_str()),
        ["Service", "Deployment", "ServiceAccount", "Apple", "Zebra"]
    );
}

#[test]
fn deeply_nested_objects_are_readable() {
    let deep = |inner: &str| format!("{}{inner}{}", "{\"f:a\":".repeat(700), "}".repeat(700));
    let object = |fields: &str| {
        let text = format!(
            r#"{{"metadata":{{"name":"x","generation":2,"managedFields":[{{"manager":"helm-operator","operation":"Apply","fieldsV1":{fields}}}]}},
            "spec":{{"replicas":3,"deep":{},"type":{}}},"status":{}}}"#,
            deep("1"),
            deep("2"),
            deep("3")
        );
        serde_json::from_str::<Live>(&text).unwrap()
    };
    let (one, other) = (object(&deep("{}")), object(&deep("{\"f:b\":{}}")));
    assert!(one.mark.is_some() && one.mark != other.mark);
    assert_eq!(one.mark, object(&deep("{}")).mark);
    assert_eq!(one.readiness("example.com", "Thing"), Readiness::Ready);
    let listed = format!(r#"{{"metadata":{{}},"items":[{{"metadata":{{"name":"a"}},"spec":{}}}]}}"#, deep("1"));
    assert_eq!(serde_json::from_str::<::kube::core::ObjectList<Live>>(&listed).unwrap().items.len(), 1);
    let event = format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"a"}},"status":{}}}}}"#, deep("1"));
    serde_json::from_str::<::kube::core::WatchEvent<Live>>(&event).unwrap();
}

#[test]
fn live_objects_are_read_as_metadata_at_their_kinds_path() {
    let kind = ::kube::core::GroupVersionKind::gvk("apps", "v1", "Deployment");
    let resource = ::kube::core::ApiResource::from_gvk_with_plural(&kind, "deployments");
    assert_eq!(<Live as ::kube::Resource>::url_path(&resource, Some("ns")), "/apis/apps/v1/namespaces/ns/deployments");
    let mut live: Live = serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "ns"}})).unwrap();
    let reference = ::kube::Resource::object_ref(&live, &resource);
    let text = |of: &str| Some(of.to_owned());
    assert_eq!((reference.api_version, reference.kind), (text("apps/v1"), text("Deployment")));
    assert_eq!((reference.namespace, reference.name), (text("ns"), text("web")));
    assert_eq!(<Live as ::kube::Resource>::group(&resource), "apps");
    assert_eq!(<Live as ::kube::Resource>::version(&resource), "v1");
    ::kube::Resource::meta_mut(&mut live).name = Some("other".into());
    assert_eq!(live.metadata.name.as_deref(), Some("other"));
}

#[test]
fn readiness_depends_on_the_spec() {
    let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}]});
    let readiness = |replicas: usize| {
        let object = json!({"metadata": {"generation": 1}, "spec": {"replicas": replicas}, "status": status});
        serde_json::from_value::<Live>(object).unwrap().readiness("apps", "Deployment")
    };
    assert_eq!((readiness(1), readiness(3)), (Readiness::Ready, Readiness::Progressing));
}

/// Returns a server that rejects these requests for the service with this status, and on which the service is ours.
async fn refusing(method: &'static str, code: u16, reason: &'static str) -> (Arc<MemoryApi>, Applier) {
    let (server, applier) = server();
    put(&applier, Rule::Import).await.unwrap();
    server.refuse(move |call| (call.method == method).then(|| Error::from_status(code, reason, "no")));
    (server, applier)
}

fn sent(server: &MemoryApi, method: &str) -> usize {
    server.log().iter().filter(|line| **line == format!("{method} {SERVICE}")).count()
}

#[tokio::test]
async fn an_apply_gives_up_after_five_conflicts() {
    let (server, applier) = refusing("PATCH", 409, "Conflict").await;
    let previous = sent(&server, "PATCH");
    let error = apply(&applier, target(&service(), Rule::Keep, current(&server))).await.unwrap_err();
    assert!(matches!(error, ApplyError::Failed { source: Error::Refused { code: 409, .. }, .. }), "{error}");
    assert_eq!(sent(&server, "PATCH") - previous, 5);
}

#[tokio::test]
async fn a_deletion_is_retried_only_on_conflicts_and_at_most_five_times() {
    for (code, reason, tries) in [(409, "Conflict", 5), (403, "Forbidden", 1)] {
        let (server, applier) = refusing("DELETE", code, reason).await;
        let key = service().key("ns");
        let error = applier.delete(&key, "v1", Grounds::Metadata, &decoration()).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot delete Service \"web\"");
        assert_eq!(sent(&server, "DELETE"), tries, "{code}");
    }
}

#[tokio::test]
async fn an_outage_is_not_a_missing_object() {
    let (_, applier) = refusing("GET", 503, "").await;
    let (object, decoration, key) = (service(), decoration(), service().key("ns"));
    assert!(applier.check_ownership(&[(&object, Rule::Import)], &decoration).await.is_err());
    assert!(applier.delete(&key, "v1", Grounds::Attempt, &decoration).await.is_err());
    assert!(applier.find_live(&key, "v1").await.is_err());
    assert!(applier.inspect(&object, &decoration, &[]).await.is_err());
}

#[tokio::test]
async fn rivals_report_missing_objects() {
    let (_, applier) = server();
    let (object, decoration) = (service(), decoration());
    assert!(applier.find_live(&object.key("ns"), "v1").await.unwrap().is_none());
    assert!(applier.find_live(&object.key("ns"), "gone/v1").await.unwrap().is_none());
    let found = applier.inspect(&object, &decoration, &[]).await.unwrap();
    assert!(found.live.is_none() && found.loss.gone && !found.loss.is_none());
}

#[tokio::test]
async fn kinds_are_applied_in_order_and_their_objects_concurrently() {
    let (server, applier) = server();
    let object = |kind: &str, name: &str| {
        Object::new(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})).unwrap()
    };
    let objects = [object("ConfigMap", "a"), object("ConfigMap", "b"), object("Service", "c")];
    let targets: Vec<_> = objects.iter().map(|object| target(object, Rule::Import, Found::Absent)).collect();
    server.disturb("PATCH /api/v1/namespaces/ns/configmaps/a", 1, Disturbance::Unanswered);
    let (decoration, last) = (decoration(), ());
    let options = WriteOptions::new(&decoration, Policy::Auto, &last);
    assert!(applier.apply_all(&targets, &options).now_or_never().is_none(), "it waits for a response");
    assert_eq!(server.paths(), ["/api/v1/namespaces/ns/configmaps/b"]);
}

#[tokio::test]
async fn only_so_many_objects_of_a_kind_are_written_at_a_time() {
    let server = Arc::new(Counting::new(Arc::new(MemoryApi::new())));
    let applier = Applier::new(server.clone());
    applier.mapper.refresh().await.unwrap();
    let map = |n: usize| {
        let metadata = json!({"name": format!("map-{n:02}")});
        Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap()
    };
    let objects: Vec<Object> = (0..40).map(map).collect();
    let targets: Vec<_> = objects.iter().map(|object| target(object, Rule::Import, Found::Absent)).collect();
    let applied = applier.apply_all(&targets, &WriteOptions::new(&decoration(), Policy::Auto, &())).await.unwrap();
    assert_eq!(server.most(), MAX_WRITES);
    let names: Vec<&str> = applied.iter().map(|one| &*one.key.name).collect();
    assert!(names.len() == 40 && names.is_sorted(), "{names:?}");
}

#[tokio::test]
async fn later_kinds_are_applied_after_a_failure_only_if_the_options_say_so_and_the_server_answers() {
    let refused: fn() -> Error = || Error::from_status(422, "Invalid", "no");
    let lost: fn() -> Error = || Error::Outdated;
    let (none, one, both) = (&[][..], &["b"][..], &["b", "c"][..]);
    for (after_failure, of_a, of_b, expected, told) in [
        (AfterFailure::Stop, refused, None, one, "a"),
        (AfterFailure::Stop, refused, Some(lost), none, "a"),
        (AfterFailure::Continue, refused, None, both, "a"),
        (AfterFailure::Continue, lost, None, one, "a"),
        (AfterFailure::Continue, lost, Some(refused), none, "a"),
        (AfterFailure::Continue, refused, Some(refused), &["c"][..], "a"),
        (AfterFailure::Continue, refused, Some(lost), none, "b"),
    ] {
        let (server, applier) = server();
        let object = |kind: &str, name: &str| {
            Object::new(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})).unwrap()
        };
        let objects = [object("ConfigMap", "a"), object("ConfigMap", "b"), object("Service", "c")];
        let targets: Vec<_> = objects.iter().map(|object| target(object, Rule::Import, Found::Absent)).collect();
        server.refuse(move |call| {
            let of_b = of_b.filter(|_| call.path.contains("/configmaps/b?"));
            call.path.contains("/configmaps/a?").then_some(of_a).or(of_b).map(|error| error())
        });
        let (decoration, mut applied) = (decoration(), Vec::new());
        let options = WriteOptions { after_failure, ..WriteOptions::new(&decoration, Policy::Server, &()) };
        let failure = applier.apply_each(&targets, &options, &mut applied).await.unwrap_err();
        assert_eq!(failure.to_string(), format!("cannot apply ConfigMap {told:?}"), "{after_failure:?}");
        assert_eq!(applied.iter().map(|one| &*one.key.name).collect::<Vec<_>>(), expected, "{after_failure:?}");
    }
}

#[tokio::test]
async fn crds_are_created_client_side_only_if_that_may_help() {
    let (server, applier) = refusing("PATCH", 403, "Forbidden").await;
    server.remove(SERVICE);
    applier.apply_definition(&service()).await.unwrap_err();
    assert!(server.log().iter().all(|line| !line.starts_with("POST")));
    assert!(server.paths().is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_undeclared_fields_of_new_crds_are_awaited() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "dbs.x.y"},
        "spec": {"group": "x.y", "names": {"kind": "Db"}},
    });
    let db = Object::new(json!({"apiVersion": "x.y/v1", "kind": "Db", "metadata": {"name": "db"}})).unwrap();
    let objects = [Object::new(definition).unwrap(), db];
    let targets: Vec<_> = objects.iter().map(|object| target(object, Rule::Import, Found::Absent)).collect();
    let undeclared =
        "failed to create typed patch object (ns/db; x.y/v1, Kind=Db): .spec.new: field not declared in schema";
    for (code, message, tries) in [(500, undeclared, 7), (422, "spec.size: Invalid value: 0: too small", 1)] {
        let (server, applier) = server();
        server.serve_cluster_scoped("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions");
        server.serve("x.y/v1", "Db", "dbs");
        server.refuse(move |call| call.path.contains("/dbs/").then(|| Error::from_status(code, "", message)));
        let decoration = decoration();
        let options = WriteOptions::new(&decoration, Policy::Server, &());
        applier.apply_all(&targets, &options).await.unwrap_err();
        assert_eq!(server.log().iter().filter(|line| line.contains("/dbs/")).count(), tries, "{message}");
    }
}
