use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::kube::{
    self, Adopt, Adopted, Applier, ApplyMethod, Call, CrdPolicy, Decoration, Disturbance, IgnoreRule, Live, Mark,
    MemoryApi, Object, ObjectKey, Policy,
};
use crate::release::{ChartDocument, DeletePolicy, Hook, HookEvent, HookPhase, LastRun, Packed, Release, Status};
use crate::sample;
use crate::storage::{Content, Home, Known, MarkedObject, Marks, RecordMeta, Sealed, Storage, Stored, Tests};

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const RECORD: &str = "/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v1";

/// A server, the cached view of its objects, and the user's options.
struct World {
    server: Arc<MemoryApi>,
    applier: Applier,
    storage: Storage,
    decoration: Decoration,
    live: HashMap<ObjectKey, Cached>,
    account: Told,
    options: Options,
}

/// Says of which objects an action is, and what it replaces.
struct Told;

impl Account for Told {
    fn plan(&self, made: &Made<'_>) -> Option<Vec<u8>> {
        let names =
            |objects: &[MarkedObject]| objects.iter().map(|object| object.key.name.to_string()).collect::<Vec<_>>();
        let before = made.before.map(|release| release.version);
        Some(
            format!(
                "{} {:?} without {:?} over {before:?}{}",
                made.release.info.status.as_str(),
                names(made.objects),
                names(made.former),
                if made.is_continued { ", continued" } else { "" }
            )
            .into_bytes(),
        )
    }
}

impl World {
    /// Creates a world with an object of Helm's, which the cache has as unmarked or, wrongly, as absent.
    fn with_helms_object(absent: bool) -> World {
        let mut world = World::new();
        world.server.put(&format!("{MAPS}/a"), made_by_helm("a", "web"), "helm");
        world.watch("a");
        if absent {
            world.live.insert(key("a"), Cached::Absent);
        }
        world
    }

    fn new() -> World {
        let server = Arc::new(MemoryApi::new());
        let (applier, storage) = (Applier::new(server.clone()), Storage::new(server.clone(), sample::keys()));
        let (decoration, live) = (sample::decoration(), HashMap::new());
        World { server, applier, storage, decoration, live, account: Told, options: Options::default() }
    }

    fn env(&self) -> Environment<'_> {
        Environment {
            applier: &self.applier,
            storage: &self.storage,
            decoration: self.decoration.clone(),
            live: &self.live,
            slot: &(),
            account: &self.account,
            options: self.options.clone(),
        }
    }

    async fn install(&self, candidate: &Candidate) -> Current {
        current(&install(&self.env(), candidate, None).await.unwrap())
    }

    /// Caches the ConfigMap in its current state, as a watch would.
    fn watch(&mut self, name: &str) {
        let live: Live = serde_json::from_value(self.map(name)).unwrap();
        let known = CachedObject { proven: live.proven(), mark: live.mark, kept: false, scaled: live.scaled };
        self.live.insert(key(name), Cached::Ours(known));
    }

    fn map(&self, name: &str) -> Value {
        self.server.object(&format!("{MAPS}/{name}")).unwrap()
    }

    /// Changes the ConfigMap's data as another manager.
    fn tamper(&self, name: &str) {
        let mut live = self.map(name);
        live["data"] = json!({"x": "theirs"});
        self.server.put(&format!("{MAPS}/{name}"), live, "kubectl");
    }

    /// Returns the statuses of the recorded revisions, oldest first.
    async fn statuses(&self) -> Vec<Status> {
        let history = self.storage.history("ns", "web").await.unwrap();
        history.iter().map(|revision| revision.status).collect()
    }

    /// Returns the requests for the ConfigMap after the first `since` requests.
    fn requests(&self, since: usize, name: &str) -> Vec<String> {
        let path = format!("{MAPS}/{name}");
        let log = self.server.log();
        log[since..].iter().filter_map(|line| Some(line.strip_suffix(&path)?.trim_end().to_owned())).collect()
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey { group: "".into(), kind: "ConfigMap".into(), namespace: "ns".into(), name: name.into() }
}

fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

/// Returns a ConfigMap with a value.
fn map(name: &str, value: &str) -> Value {
    let mut object = object("v1", "ConfigMap", name);
    object["data"] = json!({"x": value});
    object
}

/// Returns a release as this operator records it.
fn recorded(release: Release) -> Sealed<Release> {
    let content = Content::of(Packed::pack(&release).unwrap().to_record().as_bytes());
    Sealed::new(release, content)
}

/// Returns the candidate of a chart with these objects.
fn candidate(objects: &[Value]) -> Candidate {
    let manifest = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    Candidate::recorded(recorded(Release { manifest, ..sample::release() }), "inputs", &Marks::default()).unwrap()
}

/// Returns these revisions' records, of unknown resource versions.
fn records(versions: RangeInclusive<u32>) -> Vec<Known> {
    versions.map(|version| Known { version, resource_version: None }).collect()
}

/// Returns the release after an action, as a reconciler knows it.
fn current(outcome: &Completed) -> Current {
    Current {
        version: outcome.version,
        pending: false,
        abandoned: Vec::new(),
        records: records(1..=outcome.version),
        deployed: Some(outcome.version),
        outdated: Vec::new(),
        last_good: Some(outcome.version),
        never_deployed: false,
        inventory: outcome.marks.clone(),
        finished_for_former: Vec::new(),
        packed: Some(Stored::Sealed(outcome.written.packed.clone())),
        marks: Some(Arc::new(outcome.marks.clone())),
        first_deployed: outcome.first_deployed,
        interrupted: None,
        taken_over: outcome.marks.taken_over,
        string_overrides: outcome.marks.string_overrides,
    }
}

/// Returns a live ConfigMap that Helm made for the named release, with data that no chart has.
fn made_by_helm(name: &str, release: &str) -> Value {
    let annotations = json!({"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "ns"});
    let labels = json!({"app.kubernetes.io/managed-by": "Helm", "helm.sdk.operatorframework.io/chart": "memcached"});
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"old": "1"},
        "metadata": {"name": name, "namespace": "ns", "labels": labels, "annotations": annotations},
    })
}

fn is_write(call: &Call, name: &str) -> bool {
    call.method == Method::PATCH && call.path.starts_with(&format!("{MAPS}/{name}?"))
}

fn names(marks: &Marks) -> Vec<&str> {
    marks.objects.iter().map(|object| &*object.key.name).collect()
}

#[tokio::test]
async fn the_record_written_ahead_lists_every_object_that_may_exist() {
    let world = World::new();
    let mut before = world.install(&candidate(&[map("a", "1"), map("b", "1")])).await;
    (before.taken_over, before.first_deployed) = (true, Some(Timestamp::UNIX_EPOCH));
    world.server.refuse(|call| is_write(call, "c").then(|| kube::Error::from_status(403, "Forbidden", "no")));
    let mut next = candidate(&[map("b", "2"), map("c", "1")]);
    next.hooks = vec![sample::hook("bye", &[HookEvent::PostDelete])];
    let failure = upgrade(&world.env(), &next, &before).await.unwrap_err();
    let marks = failure.recorded.unwrap().marks;
    assert_eq!(names(&marks), ["b", "c", "a"]);
    assert!(marks.objects.iter().all(|object| object.mark.is_none()), "nothing has been applied");
    assert_eq!((&*marks.owner, &*marks.owner_type), ("u1", "Memcached.cache.my.domain"));
    assert_eq!(marks.first_deployed, Some(Timestamp::UNIX_EPOCH));
    assert!(!marks.complete && marks.delete_hooks && marks.taken_over);
    let history = world.storage.history("ns", "web").await.unwrap();
    assert_eq!((history[1].status, history[1].marks.as_ref()), (Status::Failed, Some(&marks)));
}

#[tokio::test]
async fn an_upgrade_carries_release_facts_over() {
    let world = World::new();
    let mut before = world.install(&candidate(&[map("a", "1"), map("b", "1")])).await;
    assert!(!before.inventory.taken_over && before.inventory.complete);
    (before.taken_over, before.first_deployed) = (true, Some(Timestamp::UNIX_EPOCH));
    let outcome = upgrade(&world.env(), &candidate(&[map("b", "2")]), &before).await.unwrap();
    assert_eq!(names(&outcome.marks), ["b"]);
    assert!(outcome.marks.taken_over && outcome.marks.complete);
    assert!(before.inventory.none_deployed_before && !outcome.marks.none_deployed_before);
    assert_eq!(outcome.marks.first_deployed, Some(Timestamp::UNIX_EPOCH));
    assert!(world.server.object(&format!("{MAPS}/a")).is_none());
    let history = world.storage.history("ns", "web").await.unwrap();
    assert_eq!(history.iter().map(|meta| meta.status).collect::<Vec<_>>(), [Status::Superseded, Status::Deployed]);
}

#[tokio::test]
async fn foreign_objects_are_taken_over_only_on_request() {
    let mut world = World::new();
    world.server.put(&format!("{MAPS}/a"), made_by_helm("a", "other"), "helm");
    let failure = install(&world.env(), &candidate(&[map("a", "1")]), None).await.unwrap_err();
    assert!(failure.cause.is_ownership_conflict() && failure.recorded.is_none(), "{failure}");
    assert_eq!(world.server.writes(), 0);
    world.options.adopt = Adopt::Any;
    world.install(&candidate(&[map("a", "1")])).await;
    assert_eq!(world.map("a")["data"], json!({"x": "1"}));
}

#[tokio::test]
async fn new_objects_are_read_once_even_if_cached() {
    for absent in [false, true] {
        let world = World::with_helms_object(absent);
        let since = world.server.log().len();
        world.install(&candidate(&[map("a", "1")])).await;
        assert_eq!(world.map("a")["data"], json!({"x": "1"}), "Helm's fields became ours and were dropped");
        assert_eq!(world.requests(since, "a"), ["GET", "PATCH", "PATCH"], "{absent}");
    }
}

#[tokio::test]
async fn known_objects_are_written_from_the_cache_without_a_read() {
    let mut world = World::new();
    let before = world.install(&candidate(&[map("a", "1"), map("b", "1")])).await;
    world.tamper("a");
    world.watch("a");
    world.server.remove(&format!("{MAPS}/b"));
    world.live.insert(key("b"), Cached::Absent);
    let since = world.server.log().len();
    let outcome = upgrade(&world.env(), &candidate(&[map("a", "1"), map("b", "1")]), &before).await.unwrap();
    assert_eq!(outcome.applied.len(), 2);
    assert_eq!((world.requests(since, "a"), world.requests(since, "b")), (vec!["PATCH".into()], vec!["PATCH".into()]));
    assert_eq!(world.map("a")["data"], json!({"x": "1"}));
}

#[tokio::test]
async fn a_job_that_was_to_be_deleted_and_was_not_may_finish_again_after_an_upgrade_that_leaves_it() {
    const LOAD: &str = "/apis/batch/v1/namespaces/ns/jobs/load";
    let load = ObjectKey::new("batch", "Job", "ns", "load");
    let mut job = object("batch/v1", "Job", "load");
    job["spec"] = json!({"ttlSecondsAfterFinished": 5});
    let mut world = World::new();
    let mut current = world.install(&candidate(&[job.clone()])).await;
    let uid = world.server.object(LOAD).unwrap()["metadata"]["uid"].clone();
    current.inventory = current.inventory.with_deleted(std::slice::from_ref(&load)).unwrap();
    current.marks = Some(Arc::new(current.inventory.clone()));
    let live: Live = serde_json::from_value(world.server.object(LOAD).unwrap()).unwrap();
    assert!(live.mark.is_some() && current.inventory.objects[0].mark == live.mark);
    let known = CachedObject { proven: live.proven(), mark: live.mark, kept: false, scaled: false };
    world.live.insert(load.clone(), Cached::Ours(known));
    let outcome = upgrade(&world.env(), &candidate(&[job, map("a", "1")]), &current).await.unwrap();
    let known = outcome.marks.find(&load).unwrap();
    assert_eq!((known.expires, known.deleted), (true, false));
    assert_eq!(world.server.object(LOAD).unwrap()["metadata"]["uid"], uid);
}

#[tokio::test]
async fn only_objects_with_an_unchanged_mark_are_skipped() {
    let mark = |n| Some(Mark(n));
    for (recorded, live, applied) in
        [(mark(1), mark(1), false), (mark(1), mark(2), true), (mark(1), None, true), (None, None, true)]
    {
        let mut world = World::new();
        let mut before = world.install(&candidate(&[map("a", "1")])).await;
        before.inventory.objects[0].mark = recorded;
        world.watch("a");
        let Some(Cached::Ours(known)) = world.live.get_mut(&key("a")) else { panic!("watched just above") };
        known.mark = live;
        let outcome = upgrade(&world.env(), &candidate(&[map("a", "1")]), &before).await.unwrap();
        assert_eq!(!outcome.applied.is_empty(), applied, "{recorded:?} {live:?}");
    }
}

/// Creates a world whose server rejects applies of ConfigMaps with the value `odd`, and counts them.
fn picky() -> (World, Arc<AtomicUsize>) {
    let (world, asked) = (World::new(), Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    world.server.refuse(move |call| {
        let (content_type, body) = call.body.as_ref()?;
        let odd = *content_type == "application/apply-patch+yaml" && String::from_utf8_lossy(body).contains("odd");
        odd.then(|| {
            count.fetch_add(1, Ordering::Relaxed);
            kube::Error::from_status(422, "Invalid", "data: Invalid value")
        })
    });
    (world, asked)
}

#[tokio::test]
async fn client_side_objects_return_to_server_side_apply_only_when_they_change() {
    let (world, asked) = picky();
    let before = world.install(&candidate(&[map("a", "odd")])).await;
    assert!(before.inventory.objects[0].client);
    let refused = asked.swap(0, Ordering::Relaxed);
    assert_eq!(refused, 1);
    world.tamper("a");
    let outcome = upgrade(&world.env(), &candidate(&[map("a", "odd")]), &before).await.unwrap();
    assert_eq!(
        (asked.swap(0, Ordering::Relaxed), &outcome.applied[0].method),
        (0, &ApplyMethod::Client { refused: None })
    );
    assert_eq!(world.map("a")["data"], json!({"x": "odd"}));
    upgrade(&world.env(), &candidate(&[map("a", "odder")]), &current(&outcome)).await.unwrap();
    assert_ne!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_retry_writes_nothing_if_only_an_immutable_field_keeps_a_client_side_write_from_succeeding() {
    let (mut world, _) = picky();
    world.server.make_immutable("configmaps/ns/a", "/data/x");
    let installed = world.install(&candidate(&[map("a", "odd"), map("b", "1")])).await;
    let next = candidate(&[map("a", "odder"), map("b", "2")]);
    let failure = upgrade(&world.env(), &next, &installed).await.unwrap_err();
    assert!(matches!(failure.cause, Error::Apply(kube::ApplyError::Guarded { .. })), "{:?}", failure.cause);
    world.options.refused = failure.cause.refusal();
    let (failed, version) = (current_after(&installed, failure), world.server.version());
    let again = upgrade(&world.env(), &next, &failed).await.unwrap_err();
    assert_eq!((again.cause.refusal(), again.recorded.is_none()), (world.options.refused.clone(), true));
    assert_eq!((world.server.version(), &world.map("a")["data"]["x"]), (version, &json!("odd")));
}

#[tokio::test]
async fn an_upgrade_returns_the_version_of_each_record_that_it_marks_superseded() {
    let world = World::new();
    let installed = world.install(&candidate(&[map("a", "1")])).await;
    let upgraded = upgrade(&world.env(), &candidate(&[map("a", "2")]), &installed).await.unwrap();
    let record = world.server.object(RECORD).unwrap();
    let version = record["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        (upgraded.superseded, &record["metadata"]["labels"]["status"]),
        (vec![(1, version)], &json!("superseded"))
    );
}

#[tokio::test]
async fn a_failed_action_returns_the_version_of_its_record() {
    let world = World::new();
    world.server.refuse(|call| is_write(call, "a").then(|| kube::Error::from_status(403, "Forbidden", "no")));
    let failure = install(&world.env(), &candidate(&[map("a", "1")]), None).await.unwrap_err();
    let record = world.server.object(RECORD).unwrap();
    let version = record["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(failure.recorded.unwrap().resource_version, version);
}

/// Returns the release after the action that failed, as a reconciler knows it.
fn current_after(before: &Current, failure: Failure) -> Current {
    let RecordedFailure { version, status, marks, .. } = failure.recorded.unwrap();
    let pending = status != Status::Failed;
    let interrupted = marks.inputs.clone();
    Current {
        version,
        pending,
        records: records(1..=version),
        inventory: marks,
        interrupted: pending.then_some(interrupted),
        ..before.clone()
    }
}

/// Returns the ConfigMaps `a`, with another key than `x`, and `b`, which the server refuses.
fn half_applied(key: &str) -> Candidate {
    let mut changed = map("a", "1");
    changed["data"][key] = "2".into();
    candidate(&[changed, map("b", "2")])
}

/// Writes client-side, and upgrades a release to a candidate that is half applied, because the server answers so.
async fn half_upgraded(first: &Candidate, code: u16, reason: &'static str) -> (World, Current) {
    let mut world = World::new();
    world.options.apply = kube::Policy::Client;
    let installed = world.install(first).await;
    world.server.refuse(move |call| is_write(call, "b").then(|| kube::Error::from_status(code, reason, "no")));
    let failure = upgrade(&world.env(), &half_applied("second"), &installed).await.unwrap_err();
    (world, current_after(&installed, failure))
}

#[tokio::test]
async fn merges_drop_what_only_failed_attempts_have_applied() {
    let first = candidate(&[map("a", "1"), map("b", "1")]);
    let (world, failed) = half_upgraded(&first, 403, "Forbidden").await;
    let again = upgrade(&world.env(), &half_applied("third"), &failed).await.unwrap_err();
    let failed = current_after(&failed, again);
    assert_eq!(world.map("a")["data"], json!({"x": "1", "third": "2"}), "an upgrade drops the first attempt's key");
    rollback(&world.env(), &failed, 1, "inputs").await.unwrap();
    assert_eq!(world.map("a")["data"], json!({"x": "1"}), "a rollback drops the second attempt's key");
}

#[tokio::test]
async fn merges_drop_what_an_interrupted_attempt_has_applied_that_no_other_continues() {
    let first = candidate(&[map("a", "1"), map("b", "1")]);
    let (world, cut_off) = half_upgraded(&first, 503, "").await;
    assert!(cut_off.pending && world.map("a")["data"]["second"] == "2");
    let other = Candidate { inputs: "others".into(), ..first };
    let upgraded = upgrade(&world.env(), &other, &cut_off).await.unwrap();
    assert_eq!(world.map("a")["data"], json!({"x": "1"}));
    let expected = vec![Status::Superseded, Status::Failed, Status::Deployed];
    assert_eq!((upgraded.version, world.statuses().await), (3, expected));
}

#[tokio::test]
async fn an_upgrade_with_the_inputs_of_an_interrupted_rollback_is_another_revision() {
    let world = World::new();
    let first = candidate(&[map("a", "1")]);
    let installed = world.install(&first).await;
    world.server.refuse(|call| is_write(call, "a").then(|| kube::Error::from_status(403, "Forbidden", "no")));
    let other = Candidate { inputs: "others".into(), ..candidate(&[map("a", "2")]) };
    let failed = current_after(&installed, upgrade(&world.env(), &other, &installed).await.unwrap_err());
    world.server.refuse(|call| is_write(call, "a").then(|| kube::Error::from_status(503, "", "away")));
    let cut_off = current_after(&failed, rollback(&world.env(), &failed, 1, "inputs").await.unwrap_err());
    assert_eq!((cut_off.version, cut_off.interrupted.as_deref()), (3, Some("inputs")));
    world.server.accept();
    // The candidate was rendered as revision 3.
    let ended = upgrade(&world.env(), &first, &cut_off).await.unwrap_err();
    let recorded = ended.recorded.as_ref().map(|recorded| (recorded.version, recorded.status));
    assert_eq!((ended.cause.ended(), recorded), (Some(3), Some((3, Status::Failed))));
    let ended = Current { pending: false, interrupted: None, ..cut_off };
    let upgraded = upgrade(&world.env(), &first, &ended).await.unwrap();
    let expected = vec![Status::Superseded, Status::Failed, Status::Failed, Status::Deployed];
    assert_eq!((upgraded.version, world.statuses().await), (4, expected));
    assert_eq!(did(&world, 4).await, "deployed [\"a\"] without [] over Some(1)", "nothing is continued");
}

#[tokio::test]
async fn a_rollback_to_the_inputs_of_an_interrupted_upgrade_is_another_revision() {
    let first = candidate(&[map("a", "1"), map("b", "1")]);
    let (world, cut_off) = half_upgraded(&first, 503, "").await;
    assert_eq!((cut_off.version, cut_off.interrupted.as_deref()), (2, Some("inputs")));
    world.server.accept();
    let back = rollback_to(&world.env(), &cut_off, 1).await.unwrap();
    let expected = vec![Status::Superseded, Status::Failed, Status::Deployed];
    assert_eq!((back.version, world.statuses().await), (3, expected));
    assert_eq!(world.map("a")["data"], json!({"x": "1"}));
}

#[tokio::test]
async fn a_rollback_gives_up_the_failed_upgrade_whose_record_still_says_that_it_is_pending() {
    let world = World::new();
    let installed = world.install(&candidate(&[map("a", "1")])).await;
    world.server.refuse(|call| is_write(call, "a").then(|| kube::Error::from_status(403, "Forbidden", "no")));
    world.refuse_to_record_the_second_as("failed");
    let next = Candidate { inputs: "others".into(), ..candidate(&[map("a", "2")]) };
    let failure = upgrade(&world.env(), &next, &installed).await.unwrap_err();
    assert!(!failure.cause.is_unanswered(), "{failure}");
    let failed = current_after(&installed, failure);
    world.server.accept();
    let back = rollback(&world.env(), &failed, 1, "inputs").await.unwrap();
    let expected = vec![Status::Superseded, Status::Failed, Status::Deployed];
    assert_eq!((back.version, world.statuses().await), (3, expected));
}

#[tokio::test]
async fn a_record_whose_creation_was_not_answered_counts_as_recorded_until_it_is_known_not_to_exist() {
    let (world, mut chart) = (World::new(), candidate(&[map("a", "1")]));
    chart.hooks = vec![sample::hook("h", &[HookEvent::PreInstall])];
    world.server.disturb("POST /api/v1/namespaces/ns/secrets", 1, Disturbance::Unreachable);
    let failure = install(&world.env(), &chart, None).await.unwrap_err();
    let unknown = failure.recorded.as_ref().unwrap();
    assert_eq!((unknown.version, unknown.status), (1, Status::PendingInstall));
    let nothing = world.install(&candidate(&[map("b", "1")])).await;
    world.server.remove(RECORD);
    let nothing = Current { deployed: None, last_good: None, never_deployed: true, ..nothing };
    let before = current_after(&nothing, failure);
    let failure = install(&world.env(), &chart, Some(&before)).await.unwrap_err();
    assert_eq!((failure.recorded.is_none(), failure.lost), (true, Some(1)), "there is nothing to continue");
}

#[tokio::test]
async fn a_revision_that_somebody_has_rewritten_is_not_trimmed() {
    let mut world = World::new();
    world.options.max_history = 1;
    let first = world.install(&candidate(&[map("a", "1")])).await;
    let mut second = current(&upgrade(&world.env(), &candidate(&[map("a", "2")]), &first).await.unwrap());
    let history = world.storage.history("ns", "web").await.unwrap();
    assert_eq!(history.len(), 2, "the revision before is kept until this one is deployed");
    let known = |meta: &RecordMeta| Known { version: meta.version, resource_version: Some(meta.resource_version) };
    second.records = history.iter().map(known).collect();
    let mut edited = world.server.object(RECORD).unwrap();
    edited["metadata"]["labels"]["kept-by"] = "a person".into();
    world.server.put(RECORD, edited, "kubectl");
    let third = upgrade(&world.env(), &candidate(&[map("a", "3")]), &second).await.unwrap();
    assert!(third.dropped.is_empty() && world.server.object(RECORD).is_some());
    let history = world.storage.history("ns", "web").await.unwrap();
    let third = Current { records: history.iter().map(known).collect(), ..current(&third) };
    let fourth = upgrade(&world.env(), &candidate(&[map("a", "4")]), &third).await.unwrap();
    let dropped: Vec<u32> = fourth.dropped.iter().map(|known| known.version).collect();
    assert_eq!(dropped, [1, 2], "the next upgrade knows the record");
}

#[tokio::test]
async fn a_rollback_recreates_an_object_that_the_failed_upgrade_recreated_with_another_immutable_field() {
    const JOB: &str = "/apis/batch/v1/namespaces/ns/jobs/j";
    let job = |suspend: Option<bool>| {
        let mut job = object("batch/v1", "Job", "j");
        job["spec"] = suspend.map_or(json!({}), |suspend| json!({"fixed": suspend}));
        job
    };
    let world = World::new();
    world.server.make_immutable("jobs", "/spec/fixed");
    let installed = world.install(&candidate(&[map("b", "1"), job(None)])).await;
    let broken = object("apps/v1", "Deployment", "web");
    world.server.refuse(|call| {
        let is_deployment = call.path.contains("/deployments/web?");
        is_deployment.then(|| kube::Error::from_status(403, "Forbidden", "no"))
    });
    let mut next = candidate(&[map("b", "1"), job(Some(true)), broken]);
    // The Deployment comes last, once the Job is recreated.
    next.objects.sort_by_key(|object| object.kind == "Deployment");
    let failed = upgrade(&world.env(), &next, &installed).await.unwrap_err();
    assert_eq!(world.server.object(JOB).unwrap()["spec"]["fixed"], true);
    let back = rollback(&world.env(), &current_after(&installed, failed), 1, "inputs").await.unwrap();
    assert_eq!(back.version, 3);
    assert_eq!(world.server.object(JOB).unwrap()["spec"], json!({}));
}

#[tokio::test]
async fn what_a_trimmed_history_lacks_may_have_been_applied_since_the_last_good_revision() {
    let installed = World::new().install(&candidate(&[map("a", "1")])).await;
    for (versions, last_good, expected) in [
        (vec![1, 2, 3], Some(1), false),
        (vec![1, 3], Some(1), true),
        (vec![1, 3], Some(3), false),
        (vec![1, 2, 3], None, false),
        (vec![2, 3], None, true),
    ] {
        let records = versions.iter().map(|version| Known { version: *version, resource_version: None }).collect();
        let current = Current { version: 3, records, last_good, ..installed.clone() };
        assert_eq!(current.lacks_revisions(), expected, "{versions:?} {last_good:?}");
    }
}

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dbs.x.y";

fn definition() -> Value {
    object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "dbs.x.y")
}

/// Returns a chart with a definition in `crds` and an object of the new kind.
fn with_definition() -> Candidate {
    let definition = definition();
    Candidate { crds: vec![Object::new(definition).unwrap()], ..candidate(&[object("x.y/v1", "Db", "db")]) }
}

fn world_with_definitions() -> World {
    let world = World::new();
    world.server.serve_cluster_scoped(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    world
}

#[tokio::test(start_paused = true)]
async fn crds_are_created_and_served_before_anything_is_recorded() {
    let world = world_with_definitions();
    let establish = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(world.server.paths(), [DEFINITION], "nothing else was created or recorded");
        let mut definition = world.server.object(DEFINITION).unwrap();
        definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        world.server.serve("x.y/v1", "Db", "dbs");
        world.server.put(DEFINITION, definition, "kube-apiserver");
    };
    let chart = with_definition();
    tokio::join!(world.install(&chart), establish);
    assert!(world.server.object("/apis/x.y/v1/namespaces/ns/dbs/db").is_some());
}

#[tokio::test(start_paused = true)]
async fn existing_crds_are_neither_changed_nor_awaited() {
    let world = world_with_definitions();
    world.server.serve("x.y/v1", "Db", "dbs");
    world.server.put(DEFINITION, json!({"metadata": {"name": "dbs.x.y"}, "spec": "theirs"}), "someone");
    let began = tokio::time::Instant::now();
    world.install(&with_definition()).await;
    assert!(began.elapsed().is_zero());
    assert_eq!(world.server.object(DEFINITION).unwrap()["spec"], "theirs");
}

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Returns a server with a definition that someone deletes, and a chart that ships it, without objects of its kind.
fn with_dying_definition(policy: CrdPolicy) -> (World, Candidate) {
    let mut world = world_with_definitions();
    world.options.crds = policy;
    let theirs = json!({"metadata": {"name": "dbs.x.y", "finalizers": [CLEANUP]}, "spec": "theirs"});
    world.server.put(DEFINITION, theirs, "someone");
    let mut dying = world.server.object(DEFINITION).unwrap();
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.server.restore(DEFINITION, dying);
    let chart = Candidate { crds: vec![Object::new(definition()).unwrap()], ..candidate(&[map("a", "1")]) };
    (world, chart)
}

#[tokio::test(start_paused = true)]
async fn a_definition_whose_finalizers_wait_for_what_the_chart_brings_is_skipped_on_request() {
    let (world, chart) = with_dying_definition(CrdPolicy::Create);
    let text = install(&world.env(), &chart, None).await.unwrap_err().cause.to_string();
    assert!(text.contains("set `crds: skip` in watches.yaml until it is gone"), "{text}");
    let (world, chart) = with_dying_definition(CrdPolicy::Skip);
    install(&world.env(), &chart, None).await.unwrap();
    assert_eq!((world.map("a")["data"].clone(), world.server.object(DEFINITION).is_some()), (json!({"x": "1"}), true));
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_being_deleted_is_created_once_it_is_gone() {
    for policy in [CrdPolicy::Create, CrdPolicy::CreateOrReplace] {
        let (world, chart) = with_dying_definition(policy);
        let failure = install(&world.env(), &chart, None).await.unwrap_err();
        assert!(failure.recorded.is_none() && failure.cause.is_unanswered(), "{policy:?}: {failure}");
        let text = failure.cause.to_string();
        assert!(
            text.starts_with(
                "cannot apply CustomResourceDefinition \"dbs.x.y\": it is being deleted; the next attempt"
            ) && text.ends_with(&format!(" (finalizers: {CLEANUP})")),
            "{text}"
        );
        assert_eq!(world.server.object(DEFINITION).unwrap()["spec"], "theirs", "{policy:?}");
        world.server.remove(DEFINITION);
        install(&world.env(), &chart, None).await.unwrap();
        let made = world.server.object(DEFINITION).unwrap();
        assert!(made["metadata"]["deletionTimestamp"].is_null(), "{policy:?}: {made}");
    }
}

#[tokio::test]
async fn a_definition_that_exists_and_may_not_be_read_counts_as_staying() {
    let world = world_with_definitions();
    world.server.put(DEFINITION, json!({"metadata": {"name": "dbs.x.y"}, "spec": "theirs"}), "someone");
    world.server.refuse(|call| {
        let is_read = call.method == Method::GET && call.path == DEFINITION;
        is_read.then(|| kube::Error::from_status(403, "Forbidden", "no"))
    });
    assert!(!world.applier.apply_definition(&Object::new(definition()).unwrap()).await.unwrap());
}

#[tokio::test]
async fn a_crd_that_cannot_be_created_fails_the_install_before_it_is_recorded() {
    let world = world_with_definitions();
    world.server.disturb(DEFINITION, 1, Disturbance::Refused(403));
    let failure = install(&world.env(), &with_definition(), None).await.unwrap_err();
    assert_eq!(failure.cause.to_string(), "cannot apply CustomResourceDefinition \"dbs.x.y\"");
    assert!(world.server.paths().is_empty());
}

#[tokio::test]
async fn a_definition_whose_path_is_not_served_for_a_moment_does_not_count_as_missing() {
    let world = world_with_definitions();
    world.server.put(DEFINITION, json!({"metadata": {"name": "dbs.x.y"}, "spec": "theirs"}), "someone");
    world.server.disturb(&format!("GET {DEFINITION}"), 1, Disturbance::Unserved);
    let definition = Object::new(definition()).unwrap();
    let replaced = world.applier.replace_definition(&definition, kube::DefinitionOf::Nobody, &world.decoration).await;
    assert!(kube::is_unanswered(&replaced.unwrap_err()));
}

#[tokio::test]
async fn a_job_whose_path_is_not_served_for_a_moment_is_not_deleted_without_a_note() {
    const LOAD: &str = "/apis/batch/v1/namespaces/ns/jobs/load";
    let world = World::new();
    let mut job = object("batch/v1", "Job", "load");
    job["spec"] = json!({"ttlSecondsAfterFinished": 60});
    let installed = world.install(&candidate(&[map("a", "1"), job])).await;
    // Its read is repeated after discovery.
    world.server.disturb(&format!("GET {LOAD}"), 2, Disturbance::Unserved);
    let failure = upgrade(&world.env(), &candidate(&[map("a", "1")]), &installed).await.unwrap_err();
    assert!(failure.cause.is_unanswered(), "{}", failure.cause);
    assert!(world.server.object(LOAD).is_some());
    let (failed, status) = failure.recorded.map(|recorded| (recorded.version, recorded.status)).unwrap();
    assert_eq!((failed, status), (2, Status::PendingUpgrade), "it is continued");
}

#[tokio::test]
async fn a_rollback_runs_hooks_that_succeeded_before() {
    let world = World::new();
    let mut first = candidate(&[map("a", "1")]);
    first.hooks = vec![sample::hook("h", &[HookEvent::PreInstall, HookEvent::PreRollback])];
    let installed = world.install(&first).await;
    let packed = installed.packed.clone();
    let next = upgrade(&world.env(), &candidate(&[map("a", "2")]), &installed).await.unwrap();
    world.server.remove(&format!("{MAPS}/h"));
    let back = rollback(&world.env(), &Current { packed, ..current(&next) }, 1, "inputs").await.unwrap();
    assert_eq!(back.version, 3);
    assert_eq!(world.map("a")["data"], json!({"x": "1"}));
    assert_eq!(world.map("h")["metadata"]["name"], "h");
}

/// A slot that reports that another writer has made the next revision.
struct Replaced;

impl kube::Slot for Replaced {
    fn leave(&self) {}

    fn enter(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn interruption(&self) -> Option<&'static str> {
        Some("somebody has replaced the revision")
    }
}

#[tokio::test]
async fn nothing_follows_pre_hooks_that_end_as_somebody_replaces_their_revision() {
    let hooked = |value: &str| {
        let events = [HookEvent::PreInstall, HookEvent::PreUpgrade, HookEvent::PreRollback];
        let hook = Hook { delete_policies: vec![DeletePolicy::HookSucceeded], ..sample::hook("h", &events) };
        Candidate { hooks: vec![hook], ..candidate(&[map("a", value)]) }
    };
    for revisions in 0..3 {
        let world = World::new();
        let replaced = Environment { slot: &Replaced, ..world.env() };
        let failure = match revisions {
            0 => install(&replaced, &hooked("1"), None).await,
            1 => upgrade(&replaced, &hooked("2"), &world.install(&hooked("1")).await).await,
            _ => {
                let first = world.install(&hooked("1")).await;
                let packed = first.packed.clone();
                let next = upgrade(&world.env(), &hooked("2"), &first).await.unwrap();
                rollback(&replaced, &Current { packed, ..current(&next) }, 1, "inputs").await
            }
        };
        let failure = failure.err().unwrap();
        assert!(failure.cause.is_interruption(), "{failure}");
        let (version, value) = (failure.recorded.unwrap().version, revisions.to_string());
        let left = world.server.object(&format!("{MAPS}/a")).map(|map| map["data"]["x"].clone());
        assert_eq!((version, left), (revisions + 1, (revisions > 0).then(|| json!(value))));
        let read = world.storage.get("ns", "web", version).await.unwrap().release;
        let (status, phase) = (read.facts().info.status, read.facts().hooks[0].last_run.phase);
        assert_eq!((status, phase), (Status::Failed, HookPhase::Succeeded), "{version}");
        assert_eq!(world.server.object(&format!("{MAPS}/h")), None, "{version}");
    }
}

#[tokio::test]
async fn a_restart_neither_repeats_the_hooks_of_a_revision_that_somebody_has_replaced_nor_goes_on_after_them() {
    let world = World::new();
    let hooks = vec![sample::hook("h", &[HookEvent::PreInstall])];
    let candidate = Candidate { hooks, ..candidate(&[map("a", "1")]) };
    world.refuse_records(|_, body| body.contains("\"failed\""));
    let replaced = Environment { slot: &Replaced, ..world.env() };
    let failure = install(&replaced, &candidate, None).await.err().unwrap();
    world.server.accept();
    assert_eq!(world.statuses().await, [Status::PendingInstall]);
    let current = cut_off(failure.recorded.unwrap());
    let again = install(&replaced, &candidate, Some(&current)).await.err().unwrap();
    assert!(again.cause.is_interruption(), "{again}");
    assert_eq!((world.runs(), world.statuses().await), (1, vec![Status::Failed]));
    assert_eq!(world.server.object(&format!("{MAPS}/a")), None);
}

/// Returns the release after an install that was cut off, as a reconciler knows it.
fn cut_off(recorded: RecordedFailure) -> Current {
    assert_eq!(recorded.status, Status::PendingInstall);
    let interrupted = recorded.marks.inputs.clone();
    Current {
        version: 1,
        pending: true,
        abandoned: Vec::new(),
        records: records(1..=1),
        deployed: None,
        outdated: Vec::new(),
        last_good: None,
        never_deployed: true,
        inventory: recorded.marks,
        packed: None,
        marks: None,
        first_deployed: None,
        interrupted: Some(interrupted),
        taken_over: false,
        string_overrides: false,
        finished_for_former: Vec::new(),
    }
}

#[tokio::test]
async fn an_interrupted_action_continues_from_its_record_without_repeating_hooks() {
    let world = World::new();
    let mut first = candidate(&[map("a", "random")]);
    first.hooks = vec![sample::hook("h", &[HookEvent::PreInstall])];
    world.server.disturb(&format!("PATCH {MAPS}/a"), 1, Disturbance::Unreachable);
    let failure = install(&world.env(), &first, None).await.unwrap_err();
    let recorded = failure.recorded.unwrap();
    assert_eq!(recorded.status, Status::PendingInstall);
    let cut_off = cut_off(recorded);
    world.server.remove(&format!("{MAPS}/h"));
    let again = Candidate { hooks: first.hooks.clone(), ..candidate(&[map("a", "random anew")]) };
    let outcome = install(&world.env(), &again, Some(&cut_off)).await.unwrap();
    assert_eq!((outcome.version, &world.map("a")["data"]["x"]), (1, &json!("random")));
    assert!(world.server.object(&format!("{MAPS}/h")).is_none());
    assert_eq!(did(&world, 1).await, "deployed [\"a\"] without [] over None, continued");
}

#[tokio::test]
async fn an_interrupted_action_with_other_inputs_is_followed_by_another_revision() {
    let world = World::new();
    world.server.disturb(&format!("PATCH {MAPS}/a"), 1, Disturbance::Unreachable);
    let failure = install(&world.env(), &candidate(&[map("a", "1")]), None).await.unwrap_err();
    let cut_off = cut_off(failure.recorded.unwrap());
    let another = Candidate { inputs: "other".into(), ..candidate(&[map("a", "2")]) };
    let outcome = install(&world.env(), &another, Some(&cut_off)).await.unwrap();
    assert_eq!(outcome.version, 2);
    assert_eq!(did(&world, 2).await, "deployed [\"a\"] without [] over None", "nothing is continued");
}

#[tokio::test]
async fn an_action_whose_end_was_not_answered_is_neither_followed_nor_repeated_before_its_end_is_known() {
    let world = World::new();
    world.server.disturb(&format!("PATCH {RECORD}"), 1, Disturbance::AnswerLost);
    let first = candidate(&[map("a", "1")]);
    let failure = install(&world.env(), &first, None).await.unwrap_err();
    let cut_off = cut_off(failure.recorded.unwrap());
    let before = (world.server.paths(), world.server.object(RECORD), world.map("a"));
    let another = Candidate { inputs: "other".into(), ..candidate(&[map("a", "2")]) };
    for next in [first, another] {
        let failure = install(&world.env(), &next, Some(&cut_off)).await.unwrap_err();
        assert_eq!((failure.cause.ended(), failure.cause.is_unanswered()), (Some(1), true), "{failure}");
        assert!(failure.recorded.is_none() && failure.lost.is_none());
        assert_eq!((world.server.paths(), world.server.object(RECORD), world.map("a")), before);
    }
}

#[tokio::test]
async fn a_revision_that_has_ended_is_not_given_up() {
    let world = World::new();
    world.install(&candidate(&[map("a", "1")])).await;
    let before = world.server.object(RECORD);
    assert!(matches!(give_up(&world.env(), 1, "Interrupted").await.unwrap(), GivenUp::Ended));
    assert_eq!(world.server.object(RECORD), before);
}

/// Returns a hook that is running.
fn running(event: HookEvent) -> Hook {
    let last_run = LastRun { started_at: Some(Timestamp::UNIX_EPOCH), phase: HookPhase::Running, ..LastRun::default() };
    Hook { last_run, delete_policies: vec![DeletePolicy::BeforeHookCreation], ..sample::hook("h", &[event]) }
}

/// Records a revision whose process died while its hook, a Job, ran. Returns the uid of the Job, whose end is refused.
async fn cut_off_in_job(world: &World) -> Value {
    const JOB: &str = "/apis/batch/v1/namespaces/ns/jobs/j";
    let manifest = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\n".to_owned();
    let job = Hook { name: "j".into(), kind: "Job".into(), manifest, ..running(HookEvent::PreInstall) };
    let mut release = Release { hooks: vec![job], ..sample::release() };
    release.info.status = Status::PendingInstall;
    world.storage.create(&release, &Marks { owner: "u1".into(), ..Marks::default() }).await.unwrap();
    let mut live = object("batch/v1", "Job", "j");
    live["metadata"]["annotations"] = json!({
        "meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns",
        (kube::HOOK_RUN_ANNOTATION): format!("1.{}", Timestamp::UNIX_EPOCH),
    });
    world.server.put(JOB, live, "helm-operator");
    world.server.refuse(|call| {
        let is_end = call.method == Method::DELETE && call.path.starts_with(JOB);
        is_end.then(|| kube::Error::from_status(500, "InternalError", "failed calling webhook"))
    });
    world.server.object(JOB).unwrap()["metadata"]["uid"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_revision_is_given_up_beside_a_hook_that_was_not_ended_only_on_request() {
    for leaves in [false, true] {
        let mut world = World::new();
        world.options.leave_unended = leaves;
        let job = cut_off_in_job(&world).await;
        let given_up = give_up(&world.env(), 1, "Interrupted").await;
        let status = if leaves { Status::Failed } else { Status::PendingInstall };
        assert_eq!(world.statuses().await, [status]);
        match given_up {
            Ok(GivenUp::Left(_, hook)) if leaves => {
                assert!(hook.what.contains("Job \"j\" to be deleted"), "{}", hook.what);
            }
            given_up => assert!(!leaves && given_up.unwrap_err().is_refused_end()),
        }
        let left = world.server.object("/apis/batch/v1/namespaces/ns/jobs/j").unwrap();
        assert_eq!(left["metadata"]["uid"], job);
    }
}

#[tokio::test(start_paused = true)]
async fn another_actions_revision_is_given_up_beside_a_hook_that_was_not_ended_if_hooks_are_disabled() {
    for are_disabled in [false, true] {
        let mut world = World::new();
        world.options.disable_hooks = are_disabled;
        cut_off_in_job(&world).await;
        let candidate = candidate(&[map("a", "1")]);
        let marks = Marks { inputs: candidate.inputs.clone(), owner: "u1".into(), ..Marks::default() };
        let status = Status::PendingInstall;
        let pending = cut_off(RecordedFailure { version: 1, status, resource_version: 0, marks, dropped: Vec::new() });
        let failure = upgrade(&world.env(), &candidate, &pending).await.unwrap_err();
        assert_eq!((failure.cause.ended(), failure.cause.is_refused_end()), (are_disabled.then_some(1), !are_disabled));
        let status = if are_disabled { Status::Failed } else { Status::PendingInstall };
        assert_eq!(world.statuses().await, [status]);
        assert_eq!(failure.recorded.map(|recorded| recorded.status), are_disabled.then_some(Status::Failed));
    }
}

#[tokio::test]
async fn a_release_that_is_recorded_elsewhere_is_found_once_to_end_its_hooks_and_to_list_its_objects() {
    for (status, event, tests, expected) in [
        (Status::PendingInstall, HookEvent::PreInstall, None, HookPhase::Failed),
        (Status::Uninstalling, HookEvent::PreDelete, None, HookPhase::Failed),
        (Status::Deployed, HookEvent::Test, Some(Tests::Due), HookPhase::Failed),
        (Status::Deployed, HookEvent::Test, Some(Tests::Failed), HookPhase::Running),
        (Status::Failed, HookEvent::PreInstall, None, HookPhase::Running),
    ] {
        let mut world = World::new();
        let manifest = format!("---\n{}\n", map("a", "1"));
        let mut release = Release { manifest, hooks: vec![running(event)], ..sample::release() };
        release.info.status = status;
        let marks = Marks { owner: "u1".into(), tests, ..Marks::default() };
        let beside = world.storage.clone();
        beside.create(&release, &marks).await.unwrap();
        world.storage = beside.clone().at(Home::in_namespace("records"));
        let since = world.server.log().len();
        let inventory = end_hooks_elsewhere(&world.env()).await.unwrap().unwrap();
        assert_eq!(names(&inventory), ["a"], "{status:?}");
        let lists = world.server.log()[since..].iter().filter(|line| line.ends_with("/secrets")).count();
        assert_eq!(lists, 1, "{status:?}: {:#?}", world.server.log());
        let read = beside.get("ns", "web", 1).await.unwrap().release;
        let read = (read.facts().info.status, read.facts().hooks[0].last_run.phase);
        assert_eq!(read, (status, expected), "tests {tests:?}");
    }
}

impl World {
    /// Refuses the writes of the record that `when` selects by their number and body.
    fn refuse_records(&self, when: impl Fn(usize, &str) -> bool + Send + Sync + 'static) {
        let count = AtomicUsize::default();
        self.server.refuse(move |call| {
            let (_, body) =
                call.body.as_ref().filter(|_| call.method == Method::PATCH && call.path.contains(RECORD))?;
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            when(number, &String::from_utf8_lossy(body)).then(|| kube::Error::from_status(500, "InternalError", "no"))
        });
    }

    /// Refuses the writes of the second revision's record that give it this status.
    fn refuse_to_record_the_second_as(&self, status: &'static str) {
        self.server.refuse(move |call| {
            let (_, body) =
                call.body.as_ref().filter(|_| call.method == Method::PATCH && call.path.contains("web.v2"))?;
            let is_it = String::from_utf8_lossy(body).contains(&format!("\"status\":\"{status}\""));
            is_it.then(|| kube::Error::from_status(500, "InternalError", "no"))
        });
    }

    /// Returns how often hooks have run.
    fn runs(&self) -> usize {
        self.server.log().iter().filter(|line| **line == format!("POST {MAPS}")).count()
    }
}

/// Installs a release with these hooks, whose attempt is cut off, and continues it. Returns how often hooks have run.
async fn runs_after_continuation(world: &World, hooks: Vec<Hook>) -> usize {
    let candidate = Candidate { hooks, ..candidate(&[map("a", "1")]) };
    let failure = install(&world.env(), &candidate, None).await.unwrap_err();
    assert!(failure.cause.is_unanswered(), "{failure}");
    world.server.accept();
    let current = cut_off(failure.recorded.unwrap());
    assert_eq!(install(&world.env(), &candidate, Some(&current)).await.unwrap().version, 1);
    world.runs()
}

#[tokio::test]
async fn a_refused_completion_does_not_run_post_hooks_again() {
    let world = World::new();
    world.refuse_records(|_, body| body.contains("\"deployed\""));
    let hooks = vec![sample::hook("h1", &[HookEvent::PreInstall]), sample::hook("h2", &[HookEvent::PostInstall])];
    assert_eq!(runs_after_continuation(&world, hooks).await, 2, "once each");
}

#[tokio::test]
async fn what_an_action_has_adopted_is_still_noted_after_a_refused_completion_and_a_continuation() {
    let mut world = World::new();
    world.server.put(&format!("{MAPS}/a"), map("a", "theirs"), "someone");
    world.options.adopt = Adopt::Unowned;
    world.refuse_records(|_, body| body.contains("\"deployed\""));
    let noted = |marks: &Marks| marks.find(&key("a")).map(|a| (a.adopted, a.mark.is_some()));
    let first = candidate(&[map("a", "1")]);
    let failure = install(&world.env(), &first, None).await.unwrap_err();
    let recorded = failure.recorded.unwrap();
    assert_eq!(noted(&recorded.marks), Some((Some(Adopted::Unclaimed), true)));
    assert!(!recorded.marks.complete && recorded.marks.own == Some(1));
    install(&world.env(), &first, Some(&cut_off(recorded))).await.unwrap_err();
    let history = world.storage.history("ns", "web").await.unwrap();
    assert_eq!((history[0].status, history.len()), (Status::PendingInstall, 1));
    let adopted = history[0].marks.as_ref().unwrap().find(&key("a")).map(|a| a.adopted);
    assert_eq!(adopted, Some(Some(Adopted::Unclaimed)), "in the record");
}

#[tokio::test]
async fn a_job_that_an_action_has_deleted_is_still_noted_after_a_refused_completion() {
    const LOAD: &str = "/apis/batch/v1/namespaces/ns/jobs/load";
    let world = World::new();
    let mut job = object("batch/v1", "Job", "load");
    job["spec"] = json!({"ttlSecondsAfterFinished": 60});
    let installed = world.install(&candidate(&[map("a", "1"), job])).await;
    world.refuse_to_record_the_second_as("deployed");
    let failure = upgrade(&world.env(), &candidate(&[map("a", "1")]), &installed).await.unwrap_err();
    assert!(world.server.object(LOAD).is_none());
    let marks = failure.recorded.unwrap().marks;
    assert_eq!(names(&marks), ["a", "load"]);
    assert_eq!((marks.objects[1].deleted, marks.objects[1].expires), (true, false));
}

#[tokio::test]
async fn a_hook_of_both_events_runs_twice_although_its_first_end_was_not_recorded() {
    let world = World::new();
    // The first write says that the hook begins.
    world.refuse_records(|number, _| number > 1);
    let hooks = vec![sample::hook("h", &[HookEvent::PreInstall, HookEvent::PostInstall])];
    assert_eq!(runs_after_continuation(&world, hooks).await, 2);
}

#[tokio::test]
async fn a_continued_action_deletes_nothing_that_its_post_hooks_have_made_or_need() {
    let (before, after) = (HookEvent::PreInstall, HookEvent::PostInstall);
    let gone = |policies: &[DeletePolicy], hook| Hook { delete_policies: policies.to_vec(), ..hook };
    let both = [DeletePolicy::BeforeHookCreation, DeletePolicy::HookSucceeded];
    let account = Hook { weight: -1, ..gone(&both, sample::hook("account", &[before, after])) };
    let of_a_subchart = Hook { path: "c/charts/s/templates/h.yaml".into(), ..sample::hook("h", &[after]) };
    for (writes, hooks, runs) in [
        (5, vec![account, sample::hook("h", &[after])], 3),
        (4, vec![gone(&[DeletePolicy::HookSucceeded], sample::hook("h", &[before])), of_a_subchart], 2),
    ] {
        let world = World::new();
        // The last write says that the post hooks have succeeded.
        world.refuse_records(move |number, _| number >= writes);
        assert_eq!(runs_after_continuation(&world, hooks).await, runs, "{:#?}", world.server.log());
    }
}

/// Returns what a revision keeps of what it did.
async fn did(world: &World, version: u32) -> String {
    let plan = world.storage.get("ns", "web", version).await.unwrap().plan;
    String::from_utf8(plan.unwrap()).unwrap()
}

#[tokio::test]
async fn each_revision_keeps_what_its_action_did() {
    let world = World::new();
    let installed = world.install(&candidate(&[map("a", "1")])).await;
    let upgraded = upgrade(&world.env(), &candidate(&[map("b", "1")]), &installed).await.unwrap();
    world.server.refuse(|call| {
        let is_it = call.method == "PATCH" && call.path.starts_with(&format!("{MAPS}/d"));
        is_it.then(|| kube::Error::from_status(403, "Forbidden", "no"))
    });
    let failure = upgrade(&world.env(), &candidate(&[map("d", "1")]), &current(&upgraded)).await.unwrap_err();
    assert_eq!(failure.recorded.unwrap().status, Status::Failed);
    assert_eq!(did(&world, 1).await, "deployed [\"a\"] without [] over None", "although it is superseded");
    assert_eq!(did(&world, 2).await, "deployed [\"b\"] without [\"a\"] over Some(1)");
    assert_eq!(did(&world, 3).await, "failed [\"d\"] without [\"b\"] over Some(2)");
}

#[tokio::test]
async fn only_so_many_objects_are_deleted_at_a_time() {
    let world = World::new();
    let maps: Vec<Value> = (0..40).map(|n| map(&format!("map-{n:02}"), "1")).collect();
    let installed = world.install(&candidate(&maps)).await;
    let server = Arc::new(sample::Counting::new(world.server.clone()));
    let applier = Applier::new(server.clone());
    applier.mapper.refresh().await.unwrap();
    let env = Environment { applier: &applier, ..world.env() };
    delete_objects(&env, &installed.inventory).await.unwrap();
    assert_eq!(server.most(), 16);
    assert!(!world.server.paths().iter().any(|path| path.starts_with(MAPS)));
}

#[tokio::test]
async fn a_clean_up_deletes_what_the_attempt_made_and_leaves_what_somebody_else_made_before_its_turn() {
    for policy in [Policy::Server, Policy::Client] {
        let mut world = World::new();
        world.options.apply = policy;
        world.server.serve_cluster_scoped("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses");
        world.server.refuse(|call| {
            let body = call.body.as_ref().map(|(_, json)| String::from_utf8_lossy(json).into_owned());
            let is_b = call.path.starts_with(MAPS) && body.is_some_and(|body| body.contains("\"name\":\"b\""));
            is_b.then(|| kube::Error::from_status(403, "Forbidden", "no"))
        });
        let attempt = candidate(&[
            object("scheduling.k8s.io/v1", "PriorityClass", "p"),
            map("a", "1"),
            elsewhere("c"),
            map("b", "1"),
        ]);
        install(&world.env(), &attempt, None).await.unwrap_err();
        let objects = || world.server.paths().into_iter().filter(|path| !path.contains("/secrets/")).count();
        assert_eq!(objects(), 3, "{policy:?}");
        world.server.accept();
        world.server.put(&format!("{MAPS}/b"), made_by_helm("b", "web"), "velero");
        // As another process reads them.
        let recorded = world.storage.history("ns", "web").await.unwrap().remove(0).marks.unwrap();
        delete_objects(&world.env(), &recorded).await.unwrap();
        assert_eq!((objects(), world.map("b")["data"]["old"].as_str()), (1, Some("1")), "{policy:?}");
    }
}

#[tokio::test]
async fn a_clean_up_deletes_what_an_attempt_made_although_no_answer_said_so() {
    let world = World::new();
    world.server.disturb(&format!("PATCH {MAPS}/a"), 1, Disturbance::AnswerLost);
    let failure = install(&world.env(), &candidate(&[map("a", "1")]), None).await.unwrap_err();
    let is_there = || world.server.object(&format!("{MAPS}/a")).is_some();
    assert!(failure.cause.is_unanswered() && is_there());
    delete_objects(&world.env(), &failure.recorded.unwrap().marks).await.unwrap();
    assert!(!is_there());
}

#[tokio::test]
async fn what_only_attempts_have_had_is_noted_as_adopted_although_the_deployed_revision_lists_it() {
    let world = World::new();
    let mut before = world.install(&candidate(&[map("a", "1")])).await;
    // As an uninstall that was called off leaves it.
    let digest = before.inventory.objects[0].digest;
    let b = MarkedObject { digest, attempted: true, ..MarkedObject::new(key("b"), "v1".into()) };
    before.inventory.objects.push(b);
    before.inventory.complete = false;
    before.marks = Some(Arc::new(before.inventory.clone()));
    world.server.put(&format!("{MAPS}/b"), made_by_helm("b", "web"), "velero");
    world.server.refuse(|call| is_write(call, "c").then(|| kube::Error::from_status(403, "Forbidden", "no")));
    let next = candidate(&[map("a", "1"), map("b", "1"), map("c", "1")]);
    let marks = upgrade(&world.env(), &next, &before).await.unwrap_err().recorded.unwrap().marks;
    let noted = |name| marks.find(&key(name)).map(|object| (object.attempted, object.adopted));
    assert_eq!(noted("a"), Some((false, None)));
    assert_eq!(noted("b"), Some((true, Some(Adopted::Claimed))));
    assert_eq!(noted("c"), Some((true, None)));
}

#[tokio::test]
async fn a_repair_writes_only_drifted_objects_without_reading_cached_ones() {
    let mut world = World::new();
    let installed = world.install(&candidate(&[map("a", "1"), map("b", "1"), map("c", "1")])).await;
    ["a", "c"].iter().for_each(|name| world.tamper(name));
    world.watch("a");
    world.server.remove(&format!("{MAPS}/b"));
    world.live.insert(key("b"), Cached::Absent);
    let objects = &installed.inventory.objects;
    let since = world.server.log().len();
    let repaired =
        repair(&world.env(), (1, installed.packed.as_ref()), &[&objects[0], &objects[1]], 0, &()).await.unwrap();
    assert_eq!(repaired.applied.len(), 2);
    assert_eq!(["a", "b", "c"].map(|name| world.requests(since, name).join(" ")), ["PATCH", "PATCH", ""]);
    assert_eq!(["a", "b", "c"].map(|name| world.map(name)["data"]["x"].clone()), ["1", "1", "theirs"]);
}

#[tokio::test]
async fn taking_ownership_reads_objects_even_if_cached() {
    for absent in [false, true] {
        let world = World::with_helms_object(absent);
        let manifest = format!("---\n{}\n", map("a", "1"));
        let release = recorded(Release { manifest, ..sample::release() }).into();
        let since = world.server.log().len();
        take_ownership(&world.env(), &release, &Marks::default(), &()).await.unwrap();
        assert_eq!(world.map("a")["data"], json!({"x": "1"}), "Helm's fields became ours and were dropped");
        assert_eq!(world.requests(since, "a"), ["GET", "PATCH", "PATCH"], "{absent}");
    }
}

#[tokio::test]
async fn taking_ownership_leaves_a_finished_job_finished_unless_it_was_deleted_before() {
    for deleted in [false, true] {
        let world = World::new();
        let ttl = json!({"ttlSecondsAfterFinished": 5});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"}, "spec": ttl});
        let manifest = format!("---\n{job}\n---\n{}\n", map("a", "1"));
        let release = recorded(Release { manifest, ..sample::release() }).into();
        let load = MarkedObject::new(ObjectKey::new("batch", "Job", "ns", "load"), "batch/v1".into());
        let known = Marks { objects: vec![MarkedObject { deleted, ..load }], ..Marks::default() };
        let taken = take_ownership(&world.env(), &release, &known, &()).await.unwrap();
        let mut applied: Vec<&str> = taken.applied.iter().map(|one| &*one.key.name).collect();
        applied.sort_unstable();
        let finished: Vec<&str> = taken.finished.iter().map(|one| &*one.key.name).collect();
        let expected = if deleted { (vec!["a", "load"], vec![]) } else { (vec!["a"], vec!["load"]) };
        assert_eq!((applied, finished), expected);
        assert!(taken.finished.iter().all(|one| one.expires && one.digest.is_some()));
    }
}

#[tokio::test]
async fn taking_ownership_runs_no_job_again_whose_fields_something_else_has_decided() {
    const LOAD: &str = "/apis/batch/v1/namespaces/ns/jobs/load";
    for is_interrupted in [false, true] {
        let world = World::new();
        world.server.make_immutable("jobs", "/spec/template");
        let mut job = made_by_helm("load", "web");
        job.as_object_mut().unwrap().remove("data");
        job["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
        (job["apiVersion"], job["kind"]) = ("batch/v1".into(), "Job".into());
        // A webhook has changed it when it was created.
        job["spec"] = json!({"template": "mirror/a"});
        world.server.put(LOAD, job, "helm");
        let before = world.server.object(LOAD).unwrap();
        let metadata = json!({"name": "load"});
        let chart = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": "a"}});
        let manifest = format!("---\n{chart}\n");
        let release = recorded(Release { manifest, ..sample::release() }).into();
        if is_interrupted {
            // After Helm's fields became ours, and before the apply.
            world.server.fail_after(Some(1));
            assert!(take_ownership(&world.env(), &release, &Marks::default(), &()).await.unwrap().failed.is_some());
            world.server.fail_after(None);
        }
        let taken = take_ownership(&world.env(), &release, &Marks::default(), &()).await.unwrap();
        let after = world.server.object(LOAD).unwrap();
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after["spec"], before["spec"]);
        assert!(!world.server.log().iter().any(|line| line.starts_with("DELETE") || line.starts_with("POST")));
        // Watches show it, and nothing has drifted.
        assert_eq!(after["metadata"]["labels"]["helm.sdk.operatorframework.io/chart"], "memcached");
        assert_eq!(after["metadata"]["ownerReferences"][0]["uid"], "u1");
        assert!(after["metadata"]["managedFields"].as_array().unwrap().iter().all(|entry| entry["manager"] != "helm"));
        let taken_managers = after["metadata"]["managedFields"].to_string();
        let live: Live = serde_json::from_value(after).unwrap();
        assert!(live.mark.is_some() && taken.applied[0].live.mark == live.mark);
        assert!(!taken_managers.contains("unapplied"), "{taken_managers}");
    }
}

#[tokio::test]
async fn recording_ownership_changes_the_apply_method_for_helm() {
    for (recorded, expected) in [("ssa", "csa"), ("csa", "csa"), ("", "")] {
        let world = World::new();
        let mut release = Release { apply_method: recorded.into(), ..sample::release() };
        release.info.status = Status::Deployed;
        world.storage.create(&release, &Marks::default()).await.unwrap();
        let release = world.storage.get("ns", "web", 1).await.unwrap().release.sealed().unwrap();
        let record = |world: &World| world.server.object(RECORD).unwrap()["data"].clone();
        let before = record(&world);
        let marks = Marks { complete: true, ..Marks::default() };
        let written = record_ownership(&world.env(), &release.into(), &marks).await.unwrap();
        let version = world.server.object(RECORD).unwrap()["metadata"]["resourceVersion"].clone();
        assert_eq!(version, written.resource_version.to_string());
        let read = world.storage.get("ns", "web", 1).await.unwrap().release.sealed().unwrap();
        assert_eq!((&*read.get().apply_method, read.content()), (expected, written.packed.content()));
        assert_eq!(record(&world) == before, recorded == expected, "a record is written only if it changes");
        assert_eq!(world.storage.history("ns", "web").await.unwrap()[0].marks, Some(marks));
    }
}

/// Returns an installed release with a ConfigMap and a hook, ready to be uninstalled.
async fn installed_with(events: &[HookEvent]) -> (World, Uninstalling) {
    let world = World::new();
    let mut candidate = candidate(&[map("a", "1")]);
    candidate.hooks = if events.is_empty() { Vec::new() } else { vec![sample::hook("h", events)] };
    let installed = world.install(&candidate).await;
    let at = Uninstalling { version: 1, marks: installed.inventory, packed: installed.packed, resource_version: None };
    (world, at)
}

#[tokio::test]
async fn releases_with_delete_hooks_are_first_recorded_as_uninstalling() {
    use HookEvent::{PostDelete, PostInstall, PreDelete};
    for (events, uninstalling) in
        [(vec![PreDelete], true), (vec![PostDelete], true), (vec![PostInstall], false), (Vec::new(), false)]
    {
        let (world, mut at) = installed_with(&events).await;
        assert_eq!(at.marks.delete_hooks, uninstalling, "{events:?}");
        let writes = world.server.writes();
        run_pre_delete(&world.env(), &mut at).await.unwrap();
        let record = world.storage.get("ns", "web", 1).await.unwrap().release.sealed().unwrap();
        assert_eq!(record.get().info.status == Status::Uninstalling, uninstalling, "{events:?}");
        assert_eq!(world.server.writes() > writes, uninstalling, "{events:?}");
        if uninstalling {
            // The caller can continue without reading the record again.
            let live = &world.server.object(RECORD).unwrap()["metadata"]["resourceVersion"];
            assert_eq!(*live, at.resource_version.unwrap().to_string());
            assert_eq!(at.packed.unwrap().unpack().unwrap().facts().info.status, Status::Uninstalling);
        }
    }
}

/// Creates a world that refuses deletions, and a candidate with a hook whose object goes once the hook has succeeded.
fn with_refused_clean_up(event: HookEvent) -> (World, Candidate) {
    let world = World::new();
    world.server.refuse(|call| {
        let is_deletion = call.method == Method::DELETE;
        is_deletion.then(|| kube::Error::from_status(403, "Forbidden", "denied by policy"))
    });
    let hook = Hook { delete_policies: vec![DeletePolicy::HookSucceeded], ..sample::hook("h", &[event]) };
    (world, Candidate { hooks: vec![hook], ..candidate(&[map("a", "1")]) })
}

#[tokio::test(start_paused = true)]
async fn an_action_goes_on_beside_what_a_succeeded_hook_made_only_on_request() {
    for event in [HookEvent::PreInstall, HookEvent::PostInstall] {
        for leaves in [false, true] {
            let (mut world, candidate) = with_refused_clean_up(event);
            world.options.leave_succeeded = leaves;
            let installed = install(&world.env(), &candidate, None).await;
            assert_eq!(installed.is_ok(), leaves, "{event:?}");
            assert!(installed.err().is_none_or(|failure| failure.cause.is_refused_end()), "{event:?}");
            let status = if leaves { Status::Deployed } else { Status::PendingInstall };
            assert_eq!(world.statuses().await, [status], "{event:?}");
            assert!(world.server.object(&format!("{MAPS}/h")).is_some());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_goes_on_beside_what_its_succeeded_hook_made_only_on_request() {
    let (mut world, candidate) = with_refused_clean_up(HookEvent::PreDelete);
    let installed = world.install(&candidate).await;
    let (marks, packed) = (installed.inventory, installed.packed);
    let mut at = Uninstalling { version: 1, marks, packed, resource_version: None };
    for _ in 0..2 {
        let error = run_pre_delete(&world.env(), &mut at).await.unwrap_err();
        assert!(error.is_refused_end() && at.marks.hooks_done, "{error}");
    }
    world.options.leave_succeeded = true;
    run_pre_delete(&world.env(), &mut at).await.unwrap();
    assert_eq!(world.runs(), 1);
}

/// Returns values that no record can be read with.
fn too_deep() -> Value {
    (0..200).fold(json!({}), |inner, _| json!({"a": inner}))
}

#[tokio::test]
async fn a_release_whose_record_could_not_be_read_again_fails_before_anything_is_written() {
    let world = World::new();
    let deep = Candidate { config: too_deep(), ..candidate(&[map("a", "1")]) };
    let failure = install(&world.env(), &deep, None).await.unwrap_err();
    assert!(failure.cause.is_too_large() && !failure.cause.is_unanswered(), "{}", failure.cause);
    assert!(failure.recorded.is_none() && world.server.paths().is_empty(), "{:?}", world.server.paths());
}

#[tokio::test]
async fn an_uninstall_by_the_chart_leaves_out_values_that_no_record_can_be_read_with() {
    for (config, kept) in [(json!({"a": 1}), json!({"a": 1})), (too_deep(), Value::Null)] {
        let (world, mut at) = installed_with(&[HookEvent::PreDelete]).await;
        let hooks = vec![sample::hook("bye", &[HookEvent::PreDelete])];
        let candidate = Candidate { config, hooks, ..candidate(&[map("a", "1")]) };
        let before = world.server.object(RECORD);
        begin_with_hooks(&world.env(), &mut at, &candidate, 2).await.unwrap();
        assert_eq!((at.version, world.server.object(RECORD)), (2, before));
        assert_eq!(world.storage.get("ns", "web", 2).await.unwrap().release.facts().config, kept);
        run_pre_delete(&world.env(), &mut at).await.unwrap();
        assert!(world.server.object(&format!("{MAPS}/bye")).is_some(), "the hook ran");
    }
}

/// Returns how many requests came before the last write of the record, counted after the first `since` requests.
fn before_last_write(world: &World, since: usize) -> usize {
    world.server.log()[since..].iter().rposition(|line| *line == format!("PATCH {RECORD}")).unwrap()
}

#[tokio::test]
async fn a_hook_of_both_delete_events_runs_once_before_the_deletion_although_an_answer_is_lost() {
    let events = [HookEvent::PreDelete, HookEvent::PostDelete];
    let (answered, mut at) = installed_with(&events).await;
    let since = answered.server.log().len();
    run_pre_delete(&answered.env(), &mut at).await.unwrap();
    let requests = before_last_write(&answered, since);
    let (world, mut at) = installed_with(&events).await;
    // What is known until a watch delivers the record.
    let mut again = Uninstalling { packed: None, ..at.clone() };
    world.server.disturb_request(requests, Disturbance::AnswerLost);
    assert!(run_pre_delete(&world.env(), &mut at).await.unwrap_err().is_unanswered());
    let made = world.map("h")["metadata"]["uid"].clone();
    run_pre_delete(&world.env(), &mut again).await.unwrap();
    assert_eq!((world.runs(), &world.map("h")["metadata"]["uid"]), (1, &made));
}

#[tokio::test]
async fn a_failure_of_a_post_delete_hook_counts_although_the_answer_to_its_record_is_lost() {
    let refused = async || {
        let (world, mut at) = installed_with(&[HookEvent::PostDelete]).await;
        run_pre_delete(&world.env(), &mut at).await.unwrap();
        world.server.disturb(&format!("POST {MAPS}"), 1_000, Disturbance::Refused(422));
        (world, at)
    };
    let (answered, mut at) = refused().await;
    let since = answered.server.log().len();
    run_post_delete(&answered.env(), &mut at).await.unwrap_err();
    // The refused request is not in the log.
    let requests = before_last_write(&answered, since) + 1;
    let (world, mut at) = refused().await;
    let mut again = Uninstalling { packed: None, ..at.clone() };
    world.server.disturb_request(requests, Disturbance::AnswerLost);
    run_post_delete(&world.env(), &mut at).await.unwrap_err();
    run_post_delete(&world.env(), &mut again).await.unwrap_err();
    assert_eq!(again.marks.failed_post_deletes, 2);
}

#[tokio::test(start_paused = true)]
async fn a_hook_whose_end_was_recorded_before_an_outage_is_read_again() {
    let mut world = World::new();
    let manifest = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: h}\n".to_owned();
    let job = Hook { kind: "Job".into(), manifest, ..sample::hook("h", &[HookEvent::PreDelete]) };
    let candidate = Candidate { hooks: vec![job], ..candidate(&[map("a", "1")]) };
    let installed = world.install(&candidate).await;
    let mut at =
        Uninstalling { version: 1, marks: installed.inventory, packed: installed.packed, resource_version: None };
    world.options.hook_timeout = Some(Duration::from_secs(60));
    let away = || kube::Error::from_status(500, "InternalError", "away");
    let is_made = AtomicBool::new(false);
    world.server.refuse(move |call| match call.method {
        Method::POST => {
            is_made.store(true, Ordering::Relaxed);
            None
        }
        _ => (call.path.ends_with("/jobs/h") && is_made.load(Ordering::Relaxed)).then(away),
    });
    run_pre_delete(&world.env(), &mut at).await.unwrap_err();
    assert!(at.packed.is_some(), "as written");
    world.server.refuse(move |call| (call.method == Method::DELETE).then(away));
    assert!(end_delete_hooks(&world.env(), &mut at).await.unwrap_err().is_unanswered());
    assert!(at.packed.is_none(), "its hook has ended since then");
    world.options.leave_unended = true;
    end_delete_hooks(&world.env(), &mut at).await.unwrap();
}

#[tokio::test]
async fn an_uninstall_by_the_chart_runs_its_hooks_although_those_of_an_earlier_uninstall_have_run() {
    let (world, mut at) = installed_with(&[HookEvent::PreDelete]).await;
    (at.marks.hooks_done, at.marks.failed_post_deletes) = (true, POST_DELETE_TRIES);
    let hooks = vec![sample::hook("bye", &[HookEvent::PreDelete]), sample::hook("gone", &[HookEvent::PostDelete])];
    let candidate = Candidate { hooks, ..candidate(&[map("a", "1")]) };
    begin_with_hooks(&world.env(), &mut at, &candidate, 2).await.unwrap();
    run_pre_delete(&world.env(), &mut at).await.unwrap();
    run_post_delete(&world.env(), &mut at).await.unwrap();
    for hook in ["bye", "gone"] {
        assert!(world.server.object(&format!("{MAPS}/{hook}")).is_some(), "{hook} ran");
    }
}

#[tokio::test]
async fn an_uninstall_is_called_off_only_before_its_deletions_are_recorded() {
    let (world, mut at) = installed_with(&[HookEvent::PreDelete]).await;
    let deployed = call_off(&world.env(), 1, CallOff::Always).await.unwrap_err();
    assert_eq!(deployed.ended(), Some(1));
    world.server.disturb(&format!("POST {MAPS}"), 1, Disturbance::Refused(422));
    run_pre_delete(&world.env(), &mut at).await.unwrap_err();
    assert_eq!(world.statuses().await, [Status::Uninstalling]);
    let (written, marks) = call_off(&world.env(), 1, CallOff::IfFailed).await.unwrap().unwrap();
    assert_eq!(world.statuses().await, [Status::Deployed]);
    let packed = Some(Stored::Sealed(written.packed));
    let mut at = Uninstalling { version: 1, marks, packed, resource_version: None };
    run_pre_delete(&world.env(), &mut at).await.unwrap();
    assert!(world.server.object(&format!("{MAPS}/h")).is_some(), "the next uninstall has run it");
    assert!(call_off(&world.env(), 1, CallOff::IfFailed).await.unwrap().is_none(), "none failed");
    let (written, marks) = call_off(&world.env(), 1, CallOff::Always).await.unwrap().unwrap();
    assert_eq!(world.statuses().await, [Status::Deployed]);
    let packed = Some(Stored::Sealed(written.packed));
    let mut at = Uninstalling { version: 1, marks, packed, resource_version: None };
    run_pre_delete(&world.env(), &mut at).await.unwrap();
    assert_eq!(world.runs(), 2, "so has the one after that");
    begin_deletion(&world.env(), &mut at).await.unwrap();
    for when in [CallOff::IfFailed, CallOff::Always] {
        assert!(call_off(&world.env(), 1, when).await.unwrap().is_none(), "{when:?}");
    }
    assert_eq!(world.statuses().await, [Status::Uninstalling]);
}

#[tokio::test]
async fn a_revision_whose_uninstall_is_called_off_does_not_own_what_only_a_later_one_has() {
    let (world, mut at) = installed_with(&[HookEvent::PreDelete]).await;
    let of_a_later_one = MarkedObject { key: key("b"), mark: None, ..at.marks.objects[0].clone() };
    at.marks.objects.push(of_a_later_one);
    run_pre_delete(&world.env(), &mut at).await.unwrap();
    let (_, marks) = call_off(&world.env(), 1, CallOff::Always).await.unwrap().unwrap();
    let owned: Vec<(&str, bool)> = marks.objects.iter().map(|o| (&*o.key.name, o.digest.is_some())).collect();
    assert_eq!(owned, [("a", true), ("b", false)]);
    let recorded = world.storage.history("ns", "web").await.unwrap().remove(0);
    assert_eq!((recorded.status, recorded.marks.as_ref()), (Status::Deployed, Some(&marks)));
}

#[tokio::test]
async fn a_deletion_that_is_withdrawn_may_be_called_off_unless_an_earlier_attempt_recorded_it() {
    for events in [vec![], vec![HookEvent::PreDelete]] {
        for is_earlier in [false, true] {
            let (world, mut at) = installed_with(&events).await;
            run_pre_delete(&world.env(), &mut at).await.unwrap();
            if is_earlier {
                begin_deletion(&world.env(), &mut at).await.unwrap();
                at.packed = None;
            }
            let before = begin_deletion(&world.env(), &mut at).await.unwrap();
            assert_eq!(before.is_none(), is_earlier, "{events:?}");
            if let Some(before) = before {
                withdraw_deletion(&world.env(), &mut at, &before).await.unwrap();
            }
            let called_off = call_off(&world.env(), 1, CallOff::Always).await.unwrap();
            assert_eq!(called_off.is_none(), is_earlier, "{events:?}");
        }
    }
}

#[tokio::test]
async fn whether_an_uninstall_is_called_off_depends_on_its_record_alone() {
    for (disabled_at_deletion, disabled_now) in [(None, false), (None, true), (Some(false), false), (Some(true), false)]
    {
        let (mut world, mut at) = installed_with(&[HookEvent::PreDelete]).await;
        world.server.disturb(&format!("POST {MAPS}"), 1, Disturbance::Refused(422));
        run_pre_delete(&world.env(), &mut at).await.unwrap_err();
        if let Some(disable_hooks) = disabled_at_deletion {
            world.options.disable_hooks = disable_hooks;
            run_pre_delete(&world.env(), &mut at).await.unwrap();
            begin_deletion(&world.env(), &mut at).await.unwrap();
        }
        world.options.disable_hooks = disabled_now;
        let called_off = call_off(&world.env(), 1, CallOff::Always).await.unwrap();
        let case = format!("disabled at the deletion: {disabled_at_deletion:?}, now: {disabled_now}");
        assert_eq!(called_off.is_some(), disabled_at_deletion.is_none(), "{case}");
    }
}

#[tokio::test]
async fn a_deletion_for_a_resource_that_stays_is_recorded_once_with_or_without_hooks() {
    use HookEvent::{PostDelete, PreDelete};
    for (events, disable_hooks) in [(vec![], false), (vec![PreDelete, PostDelete], true), (vec![PreDelete], false)] {
        let (mut world, mut at) = installed_with(&events).await;
        world.options.disable_hooks = disable_hooks;
        for is_known in [true, false] {
            at.packed = at.packed.filter(|_| is_known);
            run_pre_delete(&world.env(), &mut at).await.unwrap();
            begin_deletion(&world.env(), &mut at).await.unwrap();
        }
        let writes = world.server.writes();
        begin_deletion(&world.env(), &mut at).await.unwrap();
        assert_eq!(world.server.writes(), writes, "{events:?}");
        let recorded = world.storage.history("ns", "web").await.unwrap().remove(0);
        let is_recorded = |marks: Marks| marks.hooks_done && !marks.revocable && names(&marks) == ["a"];
        let has_begun = recorded.marks.is_some_and(is_recorded);
        assert_eq!((recorded.status, has_begun), (Status::Uninstalling, true), "{events:?}");
        let live = &world.server.object(RECORD).unwrap()["metadata"]["resourceVersion"];
        assert_eq!(*live, at.resource_version.unwrap().to_string(), "{events:?}");
    }
}

#[tokio::test]
async fn a_deletion_is_not_recorded_in_a_record_that_is_lost_damaged_or_somebody_elses() {
    type Change = fn(&MemoryApi);
    let changes: [Change; 3] = [
        |server| server.remove(RECORD),
        |server| {
            let mut record = server.object(RECORD).unwrap();
            record["data"]["release"] = "AAAA".into();
            server.put(RECORD, record, "user");
        },
        |server| {
            let mut record = server.object(RECORD).unwrap();
            record["metadata"]["annotations"] = Value::Null;
            server.put(RECORD, record, "user");
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (world, at) = installed_with(&[]).await;
        change(&world.server);
        let before = world.server.object(RECORD);
        begin_deletion(&world.env(), &mut Uninstalling { packed: None, ..at }).await.unwrap();
        assert_eq!(world.server.object(RECORD), before, "{number}");
    }
}

#[tokio::test]
async fn post_delete_hooks_run_unless_disabled_or_given_up() {
    for (disable_hooks, failed_post_deletes, runs) in
        [(false, 0, true), (true, 0, false), (false, POST_DELETE_TRIES, false)]
    {
        let (mut world, mut at) = installed_with(&[HookEvent::PostDelete]).await;
        (world.options.disable_hooks, at.marks.failed_post_deletes) = (disable_hooks, failed_post_deletes);
        let farewell = run_post_delete(&world.env(), &mut at).await.unwrap();
        assert!(matches!(farewell, PostDelete::Done(left_out) if left_out.is_empty()));
        assert_eq!(world.server.object(&format!("{MAPS}/h")).is_some(), runs, "{disable_hooks} {failed_post_deletes}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_answered_failures_count_against_a_post_delete_hook() {
    for (code, counted) in [(500, 0), (422, 1)] {
        let (world, mut at) = installed_with(&[HookEvent::PostDelete]).await;
        world.server.disturb(&format!("POST {MAPS}"), 1_000, Disturbance::Refused(code));
        let error = run_post_delete(&world.env(), &mut at).await.unwrap_err();
        assert_eq!((error.is_unanswered(), at.marks.failed_post_deletes), (code == 500, counted), "{error}");
    }
}

#[tokio::test]
async fn a_post_delete_hook_whose_object_cannot_be_deleted_runs_once_and_is_given_up() {
    let world = World::new();
    let policies = vec![DeletePolicy::HookSucceeded];
    let hook = Hook { delete_policies: policies, ..sample::hook("h", &[HookEvent::PostDelete]) };
    let installed = world.install(&Candidate { hooks: vec![hook], ..candidate(&[map("a", "1")]) }).await;
    let (marks, packed) = (installed.inventory, installed.packed);
    let mut at = Uninstalling { version: 1, marks, packed, resource_version: None };
    world.server.refuse(|call| {
        let is_deletion = call.method == Method::DELETE;
        is_deletion.then(|| kube::Error::from_status(403, "Forbidden", "no"))
    });
    for tries in 1..POST_DELETE_TRIES {
        let error = run_post_delete(&world.env(), &mut at).await.unwrap_err();
        assert_eq!((error.is_refused_end(), at.marks.failed_post_deletes), (true, tries), "{error}");
    }
    let last = run_post_delete(&world.env(), &mut at).await.unwrap();
    assert!(matches!(last, PostDelete::GivenUp(_)), "{last:?}");
    assert_eq!(world.runs(), 1);
}

#[tokio::test]
async fn kinds_are_deleted_in_order_and_their_objects_concurrently() {
    let world = World::new();
    let service = |name| object("v1", "Service", name);
    let objects = [service("a"), service("b"), object("apps/v1", "Deployment", "c")];
    let installed = world.install(&candidate(&objects)).await;
    world.server.disturb("DELETE /api/v1/namespaces/ns/services/a", 1, Disturbance::Unanswered);
    assert!(delete_objects(&world.env(), &installed.inventory).now_or_never().is_none(), "it waits for an answer");
    let left: Vec<String> = world.server.paths().into_iter().filter(|path| !path.contains("/secrets/")).collect();
    assert_eq!(left, ["/api/v1/namespaces/ns/services/a", "/apis/apps/v1/namespaces/ns/deployments/c"]);
}

#[tokio::test]
async fn inventories_without_marks_come_from_the_record() {
    use HookEvent::{PostDelete, PostInstall, PreDelete};
    for (events, delete_hooks) in [(PreDelete, true), (PostDelete, true), (PostInstall, false)] {
        let (world, at) = installed_with(&[events]).await;
        let (marks, packed) = inventory_of(&world.env(), 1).await.unwrap();
        assert_eq!(names(&marks), ["a"]);
        assert_eq!(marks.delete_hooks, delete_hooks, "{events:?}");
        assert_eq!(marks.first_deployed, at.marks.first_deployed);
        assert!(marks.first_deployed.is_some() && marks.taken_over);
        assert_eq!(packed.unpack().unwrap().facts().key(), "sh.helm.release.v1.web.v1");
    }
}

/// Creates a world with an orphaned ConfigMap, an orphaned ClusterRole, and an object of another release.
fn orphaned() -> World {
    let world = World::new();
    world.server.put(&format!("{MAPS}/a"), made_by_helm("a", "web"), "helm");
    world.server.put(&format!("{MAPS}/b"), made_by_helm("b", "other"), "helm");
    world.server.put(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/r",
        json!({"metadata": made_by_helm("r", "web")["metadata"]}),
        "helm",
    );
    world
}

async fn found(world: &World) -> Result<Vec<String>, Error> {
    let objects = orphans(&world.env()).await?.objects;
    Ok(objects.iter().map(|object: &MarkedObject| object.key.name.to_string()).collect())
}

#[tokio::test]
async fn orphans_are_found_where_the_operator_may_list() {
    const EVERYWHERE: &str = "/api/v1/configmaps?";
    const IN_NAMESPACE: &str = "/api/v1/namespaces/ns/configmaps?";
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles?";
    for (refused, expected) in [
        (vec![], ["a", "r"].as_slice()),
        (vec![EVERYWHERE], &["a", "r"]),
        (vec![EVERYWHERE, IN_NAMESPACE], &["r"]),
        (vec![ROLES], &["a"]),
    ] {
        let world = orphaned();
        let paths = refused.clone();
        world.server.refuse(move |call| {
            let refused = paths.iter().any(|path| call.path.starts_with(path));
            refused.then(|| kube::Error::from_status(403, "", "no"))
        });
        assert_eq!(found(&world).await.unwrap(), expected, "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_has_no_orphans_if_it_disappears_or_stays_unserved_but_not_if_its_path_is_unserved_once() {
    for (is_gone, unserved, expected) in
        [(true, usize::MAX, ["r"].as_slice()), (false, usize::MAX, &["r"]), (false, 1, &["a", "r"])]
    {
        let world = orphaned();
        let (server, lists) = (Arc::downgrade(&world.server), AtomicUsize::new(0));
        world.server.refuse(move |call| {
            if !call.path.starts_with("/api/v1/configmaps?") {
                return None;
            }
            if is_gone {
                server.upgrade().unwrap().change(|server| _ = server.remove_kind("v1", "ConfigMap"));
            }
            let is_unserved = lists.fetch_add(1, Ordering::SeqCst) < unserved;
            is_unserved.then(|| kube::Error::from_status(404, "", "404 page not found"))
        });
        assert_eq!(found(&world).await.unwrap(), expected, "{is_gone} {unserved}");
    }
}

#[tokio::test]
async fn what_hooks_made_is_no_orphan() {
    let world = world_with_definitions();
    let definition = definition().to_string();
    let of_kind = |hook: Hook| Hook { kind: "CustomResourceDefinition".into(), manifest: definition, ..hook };
    let event = [HookEvent::PreInstall];
    let hooks = vec![sample::hook("h", &event), of_kind(sample::hook("dbs.x.y", &event))];
    world.install(&Candidate { hooks, ..candidate(&[map("a", "1")]) }).await;
    for made in [format!("{MAPS}/h").as_str(), DEFINITION] {
        assert_eq!(world.server.object(made).unwrap()["metadata"]["labels"][kube::CHART_LABEL], "memcached", "{made}");
    }
    assert_eq!(found(&world).await.unwrap(), ["a"]);
}

#[tokio::test]
async fn what_a_hook_made_is_an_orphan_once_the_release_contains_it_however_it_is_written() {
    for apply in [Policy::Server, Policy::Client] {
        let mut world = World::new();
        world.options.apply = apply;
        let hooks = vec![sample::hook("h", &[HookEvent::PreInstall])];
        let installed = world.install(&Candidate { hooks, ..candidate(&[map("a", "1")]) }).await;
        let before = world.map("h")["metadata"]["uid"].clone();
        upgrade(&world.env(), &candidate(&[map("a", "1"), map("h", "1")]), &installed).await.unwrap();
        assert_eq!(
            (found(&world).await.unwrap(), &world.map("h")["metadata"]["uid"]),
            (vec!["a".into(), "h".into()], &before)
        );
    }
}

#[tokio::test]
async fn orphans_are_listed_page_by_page() {
    let world = orphaned();
    // All releases of a chart have its label.
    for other in 0..outside::PAGE {
        let name = format!("m{other:03}");
        world.server.put(&format!("{MAPS}/{name}"), made_by_helm(&name, "other"), "helm");
    }
    world.server.put(&format!("{MAPS}/z"), made_by_helm("z", "web"), "helm");
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = asked.clone();
    world.server.refuse(move |call| {
        note.lock().unwrap().push(call.path.clone());
        None
    });
    assert_eq!(found(&world).await.unwrap(), ["a", "z", "r"], "the second page counts");
    let asked = asked.lock().unwrap();
    let lists: Vec<_> = asked.iter().filter(|path| path.contains("labelSelector")).collect();
    assert!(lists.iter().all(|path| path.contains("&limit=500")), "{lists:?}");
    assert_eq!(lists.iter().filter(|path| path.contains("&continue=")).count(), 1, "{lists:?}");
}

#[tokio::test]
async fn an_outage_is_not_a_kind_without_orphans() {
    for path in ["/api/v1/configmaps", "/apis/rbac.authorization.k8s.io/v1/clusterroles"] {
        let world = orphaned();
        world.server.disturb(&format!("GET {path}"), 1, Disturbance::Refused(503));
        let error = found(&world).await.unwrap_err();
        assert!(error.is_unanswered(), "{error}");
    }
}

/// Creates a world with a recorded revision that has a ConfigMap, a Thing in a version that is no longer served, and an
/// object of a kind that no longer exists.
async fn outdated() -> World {
    let world = World::new();
    world.server.serve("x/v1", "Thing", "things");
    let mut thing = object("x/v1beta1", "Thing", "b");
    thing["spec"] = json!({"size": 1});
    let objects = [map("a", "1"), thing, object("y/v1", "Gone", "c")];
    let manifest = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    world.storage.create(&Release { manifest, ..sample::release() }, &Marks::default()).await.unwrap();
    world
}

#[tokio::test]
async fn inventories_find_other_versions_and_skip_kinds_that_are_gone() {
    let world = outdated().await;
    let (marks, _) = inventory_of(&world.env(), 1).await.unwrap();
    let found: Vec<_> = marks.objects.iter().map(|o| (&*o.key.name, &*o.api_version)).collect();
    assert_eq!(found, [("a", "v1"), ("b", "x/v1beta1")]);
    world.server.refuse(|call| (call.path == "/apis").then(|| kube::Error::from_status(503, "", "away")));
    assert!(inventory_of(&world.env(), 1).await.is_err(), "an outage proves nothing");
}

#[tokio::test]
async fn a_repair_skips_kinds_that_are_no_longer_served() {
    let world = outdated().await;
    let (marks, _) = inventory_of(&world.env(), 1).await.unwrap();
    let repaired = repair(&world.env(), (1, None), &[&marks.objects[0]], 0, &()).await.unwrap();
    let names: Vec<_> = repaired.applied.iter().map(|one| &*one.key.name).collect();
    assert_eq!(names, ["a"]);
}

/// The paths of a Gear, in the release's namespace and without one.
const GEARS: [&str; 2] = ["/apis/x.y/v1/namespaces/ns/gears/g", "/apis/x.y/v1/gears/g"];

/// Returns a Gear with a value.
fn gear(value: &str) -> Value {
    let mut gear = object("x.y/v1", "Gear", "g");
    gear["spec"] = json!({"value": value});
    gear
}

impl World {
    /// Serves Gears in the scope of this path.
    fn serve_gears(&self, at: usize) {
        match at {
            0 => self.server.serve("x.y/v1", "Gear", "gears"),
            _ => self.server.serve_cluster_scoped("x.y/v1", "Gear", "gears"),
        }
    }

    /// Replaces the definition of Gears in the scope of this path, and with it all Gears, by one with the other scope.
    async fn move_gears(&self, from: usize) {
        self.server.remove(GEARS[from]);
        self.serve_gears(1 - from);
        self.server.refuse(move |call| {
            let is_gone = call.path.starts_with(GEARS[from]);
            is_gone.then(|| kube::Error::from_status(404, "", "404 page not found"))
        });
        self.applier.mapper.refresh().await.unwrap();
    }
}

/// Returns a world with a release that has a Gear, whose kind is served in the other scope by now.
async fn with_moved_gear(from: usize) -> (World, Current) {
    let world = World::new();
    world.serve_gears(from);
    let installed = world.install(&candidate(&[gear("1")])).await;
    world.move_gears(from).await;
    (world, installed)
}

fn scopes(marks: &Marks) -> Vec<&str> {
    marks.objects.iter().map(|object| &*object.key.namespace).collect()
}

#[tokio::test]
async fn an_upgrade_keeps_what_it_makes_of_an_object_whose_kind_changed_its_scope_and_an_uninstall_deletes_it() {
    for (from, namespace) in [(0, ""), (1, "ns")] {
        let (world, installed) = with_moved_gear(from).await;
        let upgraded = upgrade(&world.env(), &candidate(&[gear("2")]), &installed).await.unwrap();
        let live = || world.server.object(GEARS[1 - from]);
        assert_eq!(live().unwrap()["spec"]["value"], "2", "{:#?}", world.server.log());
        assert_eq!((scopes(&upgraded.marks), upgraded.pruned), (vec![namespace], vec![]));
        // A revision that was recorded before names the object as well.
        delete_objects(&world.env(), &installed.inventory).await.unwrap();
        assert_eq!(live(), None, "{namespace:?}");
    }
}

#[tokio::test]
async fn an_adopted_object_is_not_deleted_by_the_key_that_it_had_in_another_scope() {
    for from in [0, 1] {
        let (world, installed) = with_moved_gear(from).await;
        let upgraded = upgrade(&world.env(), &candidate(&[gear("2")]), &installed).await.unwrap();
        let mut inventory = Marks::clone(&installed.inventory);
        let now = upgraded.marks.objects[0].clone();
        assert!(now.key.is_in_other_scope(&inventory.objects[0].key));
        inventory.objects.push(MarkedObject { adopted: Some(Adopted::Claimed), ..now });
        delete_objects(&world.env(), &inventory).await.unwrap();
        assert!(world.server.object(GEARS[1 - from]).is_some(), "{from}: {:#?}", world.server.log());
    }
}

#[tokio::test]
async fn a_repair_makes_an_object_whose_kind_changed_its_scope_as_a_new_one() {
    for (from, namespace) in [(0, ""), (1, "ns")] {
        let (world, installed) = with_moved_gear(from).await;
        let repaired = async || {
            let drifted = [&installed.inventory.objects[0]];
            repair(&world.env(), (1, installed.packed.as_ref()), &drifted, 1, &()).await.unwrap()
        };
        world.server.put(GEARS[1 - from], gear("theirs"), "someone");
        let refused = repaired().await;
        assert!(refused.failed.unwrap().is_ownership_conflict() && refused.applied.is_empty(), "{namespace:?}");
        world.server.remove(GEARS[1 - from]);
        let applied = repaired().await.applied;
        assert_eq!(applied.iter().map(|one| &*one.key.namespace).collect::<Vec<_>>(), [namespace]);
        assert_eq!(world.server.object(GEARS[1 - from]).unwrap()["spec"]["value"], "1");
    }
}

#[tokio::test]
async fn rivals_are_found_through_another_version() {
    let world = outdated().await;
    let live = json!({"metadata": {"name": "b"}, "spec": {"size": 2}});
    world.server.put("/apis/x/v1/namespaces/ns/things/b", live, "scaler");
    let (marks, _) = inventory_of(&world.env(), 1).await.unwrap();
    let keys: Vec<ObjectKey> = marks.objects.iter().map(|o| o.key.clone()).collect();
    let losses = inspect(&world.env(), 1, None, &keys[1..]).await.unwrap();
    let found: Vec<_> = losses.iter().map(|(key, found)| (&*key.name, found.loss.manager.as_deref())).collect();
    assert_eq!(found, [("b", Some("scaler"))]);
}

/// Returns a Deployment with three replicas.
fn deployment(image: &str) -> Value {
    let mut object = object("apps/v1", "Deployment", "web");
    object["spec"] = json!({"replicas": 3, "image": image});
    object
}

fn autoscaler() -> Value {
    let mut object = object("autoscaling/v2", "HorizontalPodAutoscaler", "web");
    object["spec"] = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    object
}

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/ns/deployments/web";

fn deployment_key() -> ObjectKey {
    ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: "ns".into(), name: "web".into() }
}

impl World {
    /// Creates a world that also serves autoscalers.
    fn with_autoscalers() -> World {
        let world = World::new();
        world.server.serve("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers");
        world
    }

    fn spec(&self) -> Value {
        self.server.object(DEPLOYMENT).unwrap()["spec"].clone()
    }

    /// Sets the replicas as the autoscaler does, and caches the Deployment as a watch would.
    fn scale(&mut self, replicas: u32) {
        let mut live = self.server.object(DEPLOYMENT).unwrap();
        live["spec"]["replicas"] = replicas.into();
        self.server.put(DEPLOYMENT, live, "kube-controller-manager");
        let mut live = self.server.object(DEPLOYMENT).unwrap();
        for entry in live["metadata"]["managedFields"].as_array_mut().unwrap() {
            if entry["manager"] == "kube-controller-manager" {
                entry["subresource"] = "scale".into();
            }
        }
        self.server.restore(DEPLOYMENT, live);
        self.watch_deployment();
    }

    fn watch_deployment(&mut self) {
        let live: Live = serde_json::from_value(self.server.object(DEPLOYMENT).unwrap()).unwrap();
        let known = CachedObject { proven: live.proven(), mark: live.mark, kept: false, scaled: live.scaled };
        self.live.insert(deployment_key(), Cached::Ours(known));
    }

    /// Returns whether we own the Deployment's replicas.
    fn owns_replicas(&self) -> bool {
        let managers = self.server.object(DEPLOYMENT).unwrap()["metadata"]["managedFields"].clone();
        let owns =
            |entry: &Value| entry["manager"] == "helm-operator" && !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null();
        managers.as_array().unwrap().iter().any(owns)
    }

    async fn repair(&self, current: &Current) -> Repaired {
        let drifted: Vec<&MarkedObject> = current.inventory.find(&deployment_key()).into_iter().collect();
        repair(&self.env(), (current.version, current.packed.as_ref()), &drifted, 0, &()).await.unwrap()
    }
}

#[tokio::test]
async fn the_replicas_of_an_autoscalers_target_are_created_and_then_handed_over() {
    let mut world = World::with_autoscalers();
    let first = world.install(&candidate(&[deployment("a"), autoscaler()])).await;
    assert_eq!(world.spec(), json!({"replicas": 3, "image": "a"}));
    assert!(!world.owns_replicas());
    let mark = first.inventory.find(&deployment_key()).unwrap().mark;
    for replicas in [1, 5, 1] {
        world.scale(replicas);
        let Cached::Ours(live) = world.live[&deployment_key()].clone() else { panic!() };
        assert_eq!(live.mark, mark, "not drift");
    }
    let outcome = upgrade(&world.env(), &candidate(&[deployment("b"), autoscaler()]), &first).await.unwrap();
    assert_eq!(world.spec(), json!({"replicas": 1, "image": "b"}));
    assert!(!world.owns_replicas());
    assert_eq!(outcome.marks.find(&deployment_key()).unwrap().mark, mark);
}

#[tokio::test]
async fn an_upgrade_without_its_autoscaler_takes_the_replicas_back() {
    let mut world = World::with_autoscalers();
    let first = world.install(&candidate(&[deployment("a"), autoscaler()])).await;
    world.scale(5);
    upgrade(&world.env(), &candidate(&[deployment("a")]), &first).await.unwrap();
    assert_eq!(world.spec()["replicas"], 3);
    assert!(world.owns_replicas());
}

#[tokio::test]
async fn an_autoscaler_takes_over_the_replicas_of_a_chart_that_then_omits_them() {
    let mut world = World::with_autoscalers();
    let first = world.install(&candidate(&[deployment("a")])).await;
    world.watch_deployment();
    let (since, uid) = (world.server.version(), world.server.object(DEPLOYMENT).unwrap()["metadata"]["uid"].clone());
    let mut scaled = deployment("b");
    scaled["spec"] = json!({"image": "b"});
    let second = upgrade(&world.env(), &candidate(&[scaled, autoscaler()]), &first).await.unwrap();
    let (collection, _) = DEPLOYMENT.rsplit_once('/').unwrap();
    let writes = world.server.changes(collection, "", since).unwrap();
    let replicas: Vec<&Value> = writes.iter().map(|write| &write.object["spec"]["replicas"]).collect();
    assert_eq!(replicas, [&json!(3), &json!(3)], "while they are released, and when the rest is applied");
    assert_eq!(world.spec(), json!({"replicas": 3, "image": "b"}));
    assert_eq!((world.owns_replicas(), &world.server.object(DEPLOYMENT).unwrap()["metadata"]["uid"]), (false, &uid));

    world.scale(5);
    rollback_to(&world.env(), &current(&second), 1).await.unwrap();
    assert_eq!(world.spec(), json!({"replicas": 3, "image": "a"}));
    assert!(world.owns_replicas());
}

#[tokio::test]
async fn an_autoscaler_outside_the_release_keeps_its_replicas_without_a_write() {
    let mut world = World::with_autoscalers();
    let first = world.install(&candidate(&[deployment("a")])).await;
    let path = "/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers/web";
    world.server.put(path, autoscaler(), "user");
    world.scale(5);
    let writes = world.server.writes();
    let repaired = world.repair(&first).await;
    let accepted: Vec<_> = repaired.accepted.iter().map(|(key, live)| (key.clone(), live.mark)).collect();
    let Cached::Ours(live) = world.live[&deployment_key()].clone() else { panic!() };
    assert_eq!((accepted, repaired.applied.len()), (vec![(deployment_key(), live.mark)], 0));
    assert_eq!(world.server.writes(), writes);

    let mut drifted = world.server.object(DEPLOYMENT).unwrap();
    drifted["spec"]["image"] = "theirs".into();
    world.server.put(DEPLOYMENT, drifted, "kubectl");
    world.watch_deployment();
    assert_eq!(world.repair(&first).await.applied.len(), 1);
    assert_eq!(world.spec(), json!({"replicas": 5, "image": "a"}));

    upgrade(&world.env(), &candidate(&[deployment("b")]), &first).await.unwrap();
    assert_eq!(world.spec(), json!({"replicas": 5, "image": "b"}));

    world.server.remove(path);
    world.watch_deployment();
    world.repair(&first).await;
    assert_eq!(world.spec()["replicas"], 3, "the autoscaler is gone");
}

#[tokio::test]
async fn ignored_fields_keep_the_live_value_from_then_on() {
    let mut world = World::new();
    let rule = IgnoreRule {
        objects: kube::ObjectRule { kind: Some("ConfigMap".into()), ..kube::ObjectRule::default() },
        paths: vec![kube::Pointer::parse("/data/x").unwrap()],
    };
    let owns = |world: &World| world.map("a")["metadata"]["managedFields"].to_string().contains("f:x");
    // Released before the rule existed: then the field is ours, and an apply without it would reset it.
    let first = world.install(&candidate(&[map("a", "1"), map("b", "1")])).await;
    world.options.ignore = [rule].into();
    world.watch("a");
    assert!(owns(&world));
    let mut next = map("a", "2");
    next["data"]["y"] = "2".into();
    upgrade(&world.env(), &candidate(&[next, map("b", "1")]), &first).await.unwrap();
    assert_eq!(world.map("a")["data"], json!({"x": "1", "y": "2"}));
    assert!(!owns(&world));

    let mut fresh = World::new();
    fresh.options.ignore = world.options.ignore.clone();
    let first = fresh.install(&candidate(&[map("a", "1")])).await;
    assert_eq!(fresh.map("a")["data"], json!({"x": "1"}), "created with the chart's value");
    assert!(!owns(&fresh));
    fresh.tamper("a");
    fresh.watch("a");
    let Cached::Ours(live) = fresh.live[&key("a")].clone() else { panic!() };
    assert_eq!(live.mark, first.inventory.objects[0].mark, "not drift");
    fresh.server.remove(&format!("{MAPS}/a"));
    fresh.live.insert(key("a"), Cached::Absent);
    let drifted: Vec<&MarkedObject> = first.inventory.objects.iter().collect();
    repair(&fresh.env(), (1, None), &drifted, 0, &()).await.unwrap();
    assert_eq!(fresh.map("a")["data"], json!({"x": "1"}), "a new object starts with the chart's value");
    assert!(!owns(&fresh));
}

#[tokio::test]
async fn a_crash_before_the_release_of_a_field_is_made_up_for() {
    let mut world = World::with_autoscalers();
    world.server.refuse(|call| {
        let patches_managers = call.body.as_ref().is_some_and(|(kind, _)| *kind == "application/json-patch+json");
        patches_managers.then(|| kube::Error::from_status(503, "", "away"))
    });
    let objects = candidate(&[deployment("a"), autoscaler()]);
    let failed = install(&world.env(), &objects, None).await.unwrap_err();
    assert!(failed.cause.is_unanswered() && world.owns_replicas());
    world.server.accept();
    world.scale(4);
    let recorded = failed.recorded.unwrap();
    let unfinished = Current {
        version: 1,
        pending: true,
        abandoned: Vec::new(),
        records: records(1..=1),
        deployed: None,
        outdated: Vec::new(),
        last_good: None,
        never_deployed: true,
        inventory: recorded.marks,
        packed: None,
        marks: None,
        first_deployed: None,
        interrupted: None,
        taken_over: false,
        string_overrides: false,
        finished_for_former: Vec::new(),
    };
    install(&world.env(), &objects, Some(&unfinished)).await.unwrap();
    assert!(!world.owns_replicas());
    assert_eq!(world.spec()["replicas"], 4);
}

#[tokio::test]
async fn definitions_are_skipped_created_or_replaced_by_policy() {
    const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.x.y";
    let definition = |versions: &[&str]| {
        let mut object = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.x.y");
        let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name, "served": true})).collect();
        object["spec"] =
            json!({"group": "x.y", "scope": "Namespaced", "names": {"kind": "Thing"}, "versions": versions});
        object
    };
    let with = |versions: &[&str], value: &str| {
        let mut candidate = candidate(&[map("a", value)]);
        candidate.crds = vec![Object::new(definition(versions)).unwrap()];
        candidate
    };
    let mut world = World::new();
    world.server.serve_cluster_scoped(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    let mut live = definition(&["v1"]);
    let established = json!([{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]);
    live["status"] = json!({"conditions": established, "storedVersions": ["v1"]});
    world.server.put(CRD, live, "user");
    let versions = |world: &World| world.server.object(CRD).unwrap()["spec"]["versions"].as_array().unwrap().len();
    world.options.crds = CrdPolicy::Skip;
    let first = world.install(&with(&["v1", "v2"], "1")).await;
    assert!(!world.server.log().iter().any(|line| line.ends_with(CRD)), "it is not even read");
    world.options.crds = CrdPolicy::Create;
    let second = current(&upgrade(&world.env(), &with(&["v1", "v2"], "2"), &first).await.unwrap());
    assert_eq!(versions(&world), 1, "as Helm: only at an install, and only if it is missing");
    world.options.crds = CrdPolicy::CreateOrReplace;
    let third = current(&upgrade(&world.env(), &with(&["v1", "v2"], "3"), &second).await.unwrap());
    assert_eq!(versions(&world), 2);
    let refused = upgrade(&world.env(), &with(&["v2"], "4"), &third).await.unwrap_err();
    assert!(refused.recorded.is_none() && !refused.cause.is_unanswered());
    let expected = "cannot replace CustomResourceDefinition \"things.x.y\": objects are stored in version v1,";
    assert!(refused.to_string().starts_with(expected), "{refused}");
    assert_eq!((versions(&world), world.map("a")["data"]["x"].clone()), (2, json!("3")), "nothing was written");
}

const POLICIES: [CrdPolicy; 3] = [CrdPolicy::Skip, CrdPolicy::Create, CrdPolicy::CreateOrReplace];

impl World {
    fn uid_of_definition(&self) -> Value {
        self.server.object(DEFINITION).expect("the definition stays")["metadata"]["uid"].clone()
    }

    /// Installs a chart that has a definition among its templates. Returns the release, and a chart that has it in its
    /// `crds` folder.
    async fn with_definition_among_templates(&self) -> (Current, Candidate) {
        let definition = definition();
        let installed = self.install(&candidate(&[definition.clone(), map("a", "1")])).await;
        let crds = vec![Object::new(definition).unwrap()];
        (installed, Candidate { crds, ..candidate(&[map("a", "2")]) })
    }
}

#[tokio::test]
async fn a_definition_that_a_chart_moves_to_its_crds_folder_leaves_the_release_and_stays() {
    for policy in POLICIES {
        let mut world = world_with_definitions();
        let (first, next) = world.with_definition_among_templates().await;
        let before = world.uid_of_definition();
        world.options.crds = policy;
        let outcome = upgrade(&world.env(), &next, &first).await.unwrap();
        assert_eq!((names(&outcome.marks), outcome.pruned.as_slice()), (vec!["a"], &[][..]), "{policy:?}");
        let found = orphans(&world.env()).await.unwrap();
        assert_eq!(names(&found), ["a"], "{policy:?}: nothing else goes with the resource");
        let another = Decoration { release: "other".into(), ..world.decoration.clone() };
        let replaced = world.applier.replace_definition(&next.crds[0], kube::DefinitionOf::Nobody, &another).await;
        assert!(!replaced.unwrap(), "{policy:?}: charts share it");
        delete_objects(&world.env(), &outcome.marks).await.unwrap();
        assert_eq!(world.uid_of_definition(), before, "{policy:?}");
    }
}

#[tokio::test]
async fn a_rollback_imports_the_definition_that_the_failed_upgrade_left_or_was_about_to_leave() {
    for (policy, refused) in POLICIES.into_iter().flat_map(|policy| ["PATCH", "POST"].map(|method| (policy, method))) {
        let mut world = world_with_definitions();
        let (first, mut next) = world.with_definition_among_templates().await;
        let before = world.uid_of_definition();
        world.options.crds = policy;
        next.hooks = vec![sample::hook("h", &[HookEvent::PostUpgrade])];
        // The ConfigMap is applied before anything leaves, and the hook runs afterwards.
        world.server.refuse(move |call| {
            let is_it = call.method == refused && call.path.starts_with(MAPS);
            is_it.then(|| kube::Error::from_status(403, "Forbidden", "no"))
        });
        let failure = upgrade(&world.env(), &next, &first).await.unwrap_err();
        world.server.accept();
        let back = rollback(&world.env(), &current_after(&first, failure), 1, "inputs").await.unwrap();
        assert_eq!((names(&back.marks).len(), world.uid_of_definition()), (2, before), "{policy:?} {refused}");
        assert!(back.marks.objects.iter().all(|object| object.adopted.is_none()));
        delete_objects(&world.env(), &back.marks).await.unwrap();
        assert!(world.server.object(DEFINITION).is_none(), "{policy:?} {refused}: it is the release's again");
    }
}

/// Returns the recorded charts, each with whether it may have the definition in its `crds` folder, and whether it has.
fn recorded_charts() -> [(Value, bool, bool); 6] {
    let file = |name: &str| json!({"name": name, "data": STANDARD.encode(definition().to_string())});
    [
        (json!({"files": [file("crds/dbs.yaml")]}), true, true),
        (json!({"files": [file("files/dbs.yaml")]}), false, false),
        (json!({"files": [], "filesDigest": "of what did not fit"}), true, false),
        (json!({"subchartsDigest": "of what no record has"}), true, false),
        (json!({"metadata": {"name": "memcached", "dependencies": [{"name": "db"}]}}), true, false),
        (json!({}), false, false),
    ]
}

/// Returns a candidate of this chart, without definitions among its templates.
fn of_chart(chart: &Value) -> Candidate {
    let chart = Arc::new(ChartDocument::from_json(&chart.to_string()).unwrap());
    Candidate { chart, ..candidate(&[map("a", "1"), map("b", "1")]) }
}

#[tokio::test]
async fn a_rollback_leaves_a_deployed_definition_that_its_target_ships_or_may_ship_in_its_crds_folder() {
    for (chart, stays, _) in recorded_charts() {
        let mut world = world_with_definitions();
        world.options.adopt = Adopt::Any;
        world.server.put(DEFINITION, definition(), "someone");
        let before = world.uid_of_definition();
        let first = world.install(&of_chart(&chart)).await;
        let second = upgrade(&world.env(), &candidate(&[definition(), map("a", "2")]), &first).await.unwrap();
        let back = rollback_to(&world.env(), &current(&second), 1).await.unwrap();
        assert_eq!(names(&back.marks), ["a", "b"], "{chart}");
        delete_objects(&world.env(), &back.marks).await.unwrap();
        let left = world.server.object(DEFINITION).map(|definition| definition["metadata"]["uid"].clone());
        assert_eq!(left, stays.then_some(before), "{chart}");
    }
}

#[tokio::test]
async fn a_rollback_deletes_a_definition_that_only_the_failed_upgrade_made_unless_its_target_ships_it() {
    for (chart, _, stays) in recorded_charts() {
        let world = world_with_definitions();
        let first = world.install(&of_chart(&chart)).await;
        // Services follow definitions.
        world.server.refuse(|call| {
            let is_it = call.method == Method::PATCH && call.path.contains("/services/");
            is_it.then(|| kube::Error::from_status(403, "Forbidden", "no"))
        });
        let next = candidate(&[definition(), map("a", "2"), object("v1", "Service", "c")]);
        let failure = upgrade(&world.env(), &next, &first).await.unwrap_err();
        assert!(world.server.object(DEFINITION).is_some());
        world.server.accept();
        rollback(&world.env(), &current_after(&first, failure), 1, "inputs").await.unwrap();
        assert_eq!(world.server.object(DEFINITION).is_some(), stays, "{chart}");
    }
}

#[tokio::test]
async fn a_definition_that_becomes_a_hook_stays_whether_or_not_the_hook_runs() {
    for event in [HookEvent::PreUpgrade, HookEvent::PostUpgrade, HookEvent::PreInstall] {
        let world = world_with_definitions();
        let (first, next) = world.with_definition_among_templates().await;
        let before = world.uid_of_definition();
        let manifest = next.crds[0].body.to_string();
        let hook = Hook { kind: "CustomResourceDefinition".into(), manifest, ..sample::hook("dbs.x.y", &[event]) };
        let next = Candidate { crds: Vec::new(), hooks: vec![hook], ..next };
        upgrade(&world.env(), &next, &first).await.unwrap();
        assert_eq!(world.uid_of_definition(), before, "{event:?}");
    }
}

#[tokio::test]
async fn an_object_that_becomes_a_pre_hook_is_the_hooks_from_then_on() {
    // By default the hook makes it anew; here it is applied over.
    for (policies, is_same) in [(vec![], false), (vec![DeletePolicy::HookFailed], true)] {
        let world = World::new();
        let installed = world.install(&candidate(&[map("a", "1"), map("b", "1")])).await;
        let uid = || world.map("a")["metadata"]["uid"].clone();
        let before = uid();
        let hook = Hook { delete_policies: policies, ..sample::hook("a", &[HookEvent::PreUpgrade]) };
        let next = Candidate { hooks: vec![hook], ..candidate(&[map("b", "2")]) };
        let upgraded = upgrade(&world.env(), &next, &installed).await.unwrap();
        let made = uid();
        assert_eq!((made == before, upgraded.pruned.len(), names(&upgraded.marks)), (is_same, 0, vec!["b"]));
        upgrade(&world.env(), &candidate(&[map("b", "3")]), &current(&upgraded)).await.unwrap();
        assert_eq!(uid(), made, "no later revision lists it");
    }
}

#[tokio::test]
async fn an_object_that_becomes_a_hook_that_does_not_run_is_pruned() {
    for (event, disable_hooks) in [(HookEvent::PreUpgrade, true), (HookEvent::PreInstall, false)] {
        let mut world = World::new();
        let installed = world.install(&candidate(&[map("a", "1"), map("b", "1")])).await;
        world.options.disable_hooks = disable_hooks;
        let next = Candidate { hooks: vec![sample::hook("a", &[event])], ..candidate(&[map("b", "2")]) };
        let upgraded = upgrade(&world.env(), &next, &installed).await.unwrap();
        assert_eq!(upgraded.pruned, [key("a")], "{event:?}");
    }
}

const OLD_BINDING: &str = "/apis/roles.old/v1/namespaces/ns/bindings/b";

/// Returns a release with an object in one API group. Another group serves the same object, or another of its name.
async fn with_namesake_in_another_group(is_same: bool) -> (World, Current) {
    let world = World::new();
    world.server.serve("roles.old/v1", "Binding", "bindings");
    world.server.serve("roles.new/v1", "Binding", "bindings");
    let installed = world.install(&candidate(&[object("roles.old/v1", "Binding", "b")])).await;
    // The server stores one object, and both groups serve it.
    let mut live = world.server.object(OLD_BINDING).unwrap();
    live["apiVersion"] = "roles.new/v1".into();
    live["metadata"]["managedFields"][0]["apiVersion"] = "roles.new/v1".into();
    if !is_same {
        live["metadata"]["uid"] = "another".into();
    }
    world.server.restore("/apis/roles.new/v1/namespaces/ns/bindings/b", live);
    (world, installed)
}

#[tokio::test]
async fn an_object_that_the_chart_names_in_another_group_is_deleted_only_if_it_is_another_one() {
    for is_same in [true, false] {
        let (world, installed) = with_namesake_in_another_group(is_same).await;
        let next = candidate(&[object("roles.new/v1", "Binding", "b")]);
        let upgraded = upgrade(&world.env(), &next, &installed).await.unwrap();
        let stays = world.server.object(OLD_BINDING).is_some();
        assert_eq!((stays, upgraded.pruned.is_empty()), (is_same, is_same));
    }
}

#[tokio::test]
async fn an_object_left_behind_that_the_release_has_in_another_group_is_deleted_only_if_it_is_another_one() {
    for is_same in [true, false] {
        let (world, installed) = with_namesake_in_another_group(is_same).await;
        let now = MarkedObject::new(ObjectKey::new("roles.new", "Binding", "ns", "b"), "roles.new/v1".into());
        let staying = Marks { objects: vec![now], ..Marks::default() };
        let left: Vec<&MarkedObject> = installed.inventory.objects.iter().collect();
        delete_left_behind(&world.env(), &installed.inventory, &left, &staying).await.unwrap();
        assert_eq!(world.server.object(OLD_BINDING).is_some(), is_same);
    }
}

#[tokio::test]
async fn of_cluster_scoped_objects_that_name_different_namespaces_the_last_counts() {
    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/r";
    let role = |verb: &str| {
        let mut role = object("rbac.authorization.k8s.io/v1", "ClusterRole", "r");
        role["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
        role
    };
    let chart = |verb: &str| {
        let mut ignored = role("delete");
        ignored["metadata"]["namespace"] = "elsewhere".into();
        candidate(&[ignored, role(verb)])
    };
    let world = World::new();
    let live = || world.server.object(ROLE).unwrap();
    let verb = || live()["rules"][0]["verbs"][0].clone();
    let installed = world.install(&chart("get")).await;
    let applies = world.server.log().iter().filter(|line| line.starts_with(&format!("PATCH {ROLE}"))).count();
    assert_eq!((applies, verb(), names(&installed.inventory)), (1, json!("get"), vec!["r"]));
    let (recorded, _) = inventory_of(&world.env(), 1).await.unwrap();
    assert_eq!((names(&recorded), recorded.objects[0].digest), (vec!["r"], installed.inventory.objects[0].digest));
    let known: Vec<&MarkedObject> = installed.inventory.objects.iter().collect();
    let before = live()["metadata"]["uid"].clone();
    let reapplied = reapply(&world.env(), (1, None), &known, &()).await.unwrap();
    assert!(reapplied.failed.is_none());
    assert_eq!((reapplied.applied.len(), verb(), &live()["metadata"]["uid"]), (1, json!("get"), &before));
    let upgraded = upgrade(&world.env(), &chart("list"), &installed).await.unwrap();
    assert_eq!((names(&upgraded.marks), upgraded.pruned, verb()), (vec!["r"], vec![], json!("list")));
}

#[tokio::test]
async fn objects_that_are_the_same_on_the_server_are_found_before_an_action() {
    let elsewhere = |api_version: &str, kind: &str, name: &str| {
        let mut object = object(api_version, kind, name);
        object["metadata"]["namespace"] = "elsewhere".into();
        object
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let world = World::new();
    let rendered = |objects: Vec<Value>| deduplicated(&world.applier, &world.decoration, candidate(&objects));
    let apart = rendered(vec![elsewhere(rbac, "ClusterRole", "r"), object(rbac, "ClusterRole", "s")]).await.unwrap();
    assert_eq!((apart.objects.len(), world.server.log().len()), (2, 0), "no request is needed");
    for (api_version, kind, kept) in
        [(rbac, "ClusterRole", 1), (rbac, "Role", 2), ("v1", "ConfigMap", 2), ("x.y/v1", "Unserved", 2)]
    {
        let objects = vec![elsewhere(api_version, kind, "r"), map("a", "1"), object(api_version, kind, "r")];
        let unique = rendered(objects).await.unwrap();
        let namespaces: Vec<_> = unique.objects.iter().filter(|o| o.name == "r").map(|o| o.namespace.clone()).collect();
        assert_eq!((namespaces.len(), namespaces.last()), (kept, Some(&None)), "{kind}");
        assert_eq!(unique.duplicates.len(), 2 - kept, "{kind}");
    }
    world.server.refuse(|call| (call.path == "/apis").then(|| kube::Error::from_status(503, "", "away")));
    let unknown = rendered(vec![elsewhere("x.y/v1", "Unserved", "r"), object("x.y/v1", "Unserved", "r")]).await;
    assert!(unknown.is_err_and(|error| error.is_unanswered()), "it is not known whether they are the same");
}

/// Returns a reach of the release's own namespace and, among cluster-scoped kinds, only `ClusterRole`.
fn own_namespace() -> Arc<kube::Reach> {
    let these = |names: &[&str]| kube::Allowed::These(names.iter().map(|name| (*name).to_owned()).collect());
    Arc::new(kube::Reach { namespaces: these(&[]), cluster_scoped: these(&["ClusterRole"]), ..kube::Reach::default() })
}

fn elsewhere(name: &str) -> Value {
    let mut object = map(name, "1");
    object["metadata"]["namespace"] = json!("victim");
    object
}

#[tokio::test]
async fn nothing_is_written_for_a_release_that_reaches_too_far() {
    let world = World { options: Options { reach: own_namespace(), ..Options::default() }, ..World::new() };
    let namespace = object("v1", "Namespace", "made-up");
    let error = install(&world.env(), &candidate(&[map("a", "1"), elsewhere("b"), namespace]), None).await.unwrap_err();
    let text = error.cause.to_string();
    assert!(error.cause.is_out_of_reach() && !error.cause.is_unanswered() && error.recorded.is_none(), "{text}");
    assert!(text.contains("objects: {namespaces: [victim]} in watches.yaml allows it"), "{text}");
    assert!(text.contains("objects: {clusterScoped: [Namespace]} in watches.yaml allows it"), "{text}");
    let current = world.install(&candidate(&[map("a", "1")])).await;
    let before = world.server.paths();
    let upgraded = upgrade(&world.env(), &candidate(&[map("a", "2"), elsewhere("b")]), &current).await;
    assert!(upgraded.unwrap_err().cause.is_out_of_reach() && world.server.paths() == before);
    assert_eq!(world.map("a")["data"]["x"], "1");
}

#[tokio::test]
async fn hooks_rollbacks_and_repairs_reach_no_further_than_a_render() {
    let mut world = World::new();
    let first = world.install(&candidate(&[map("a", "1"), elsewhere("b")])).await;
    let second = current(&upgrade(&world.env(), &candidate(&[map("a", "2")]), &first).await.unwrap());
    world.options.reach = own_namespace();
    let mut with_hook = candidate(&[map("a", "3")]);
    with_hook.hooks = vec![Hook {
        path: "c/templates/hook.yaml".into(),
        kind: "ConfigMap".into(),
        manifest: elsewhere("hook").to_string(),
        events: vec![HookEvent::PostUpgrade],
        ..Hook::default()
    }];
    assert!(upgrade(&world.env(), &with_hook, &second).await.unwrap_err().cause.is_out_of_reach());
    let from = Current { packed: None, ..second.clone() };
    assert!(rollback(&world.env(), &from, 1, "inputs").await.unwrap_err().cause.is_out_of_reach());
    assert_eq!((world.map("a")["data"]["x"].as_str(), world.server.paths().len()), (Some("2"), 3));
    let known: Vec<&MarkedObject> = first.inventory.objects.iter().collect();
    let reapplied = reapply(&world.env(), (1, None), &known, &()).await.unwrap();
    assert!(reapplied.failed.unwrap().is_out_of_reach());
    let applied: Vec<&str> = reapplied.applied.iter().map(|one| &*one.key.name).collect();
    assert_eq!(applied, ["a"], "it keeps no other from its repair");
    let recorded = world.storage.get("ns", "web", 1).await.unwrap().release.sealed().unwrap().into();
    assert!(take_ownership(&world.env(), &recorded, &Marks::default(), &()).await.unwrap_err().is_out_of_reach());
}

#[tokio::test]
async fn what_is_out_of_reach_and_the_releases_own_is_still_deleted() {
    let mut world = World::new();
    let first = world.install(&candidate(&[map("a", "1"), elsewhere("b")])).await;
    world.options.reach = own_namespace();
    upgrade(&world.env(), &candidate(&[map("a", "1")]), &first).await.unwrap();
    assert!(!world.server.paths().iter().any(|path| path.contains("victim")));
}

/// Changes the record of revision 1, as anyone who may write Secrets can. Returns whether it is admitted.
async fn judged(world: &World, chart: &Candidate, change: impl FnOnce(&mut Release)) -> Admission {
    let mut forged = world.storage.get("ns", "web", 1).await.unwrap().release.facts().clone();
    change(&mut forged);
    // The seal holds for a record that says just the same.
    forged.info.description.push('.');
    world.storage.rewrite(&forged, Status::Deployed).await.unwrap();
    let record = world.storage.get("ns", "web", 1).await.unwrap();
    let Stored::Unproven(recorded) = record.release else { panic!("the record is sealed") };
    admit(&world.env(), &recorded, chart).await.unwrap()
}

/// Does so with these objects in place of the recorded ones.
async fn judged_with(world: &World, chart: &Candidate, objects: &[Value]) -> Admission {
    judged(world, chart, |release| release.manifest = candidate(objects).manifest).await
}

#[tokio::test]
async fn an_object_that_was_compared_with_nothing_is_not_sealed_and_no_rollback_makes_it() {
    let mut expiring = object("x.z/v1", "Task", "evil");
    expiring["spec"] = json!({"ttlSecondsAfterFinished": 0});
    for (what, evil, path) in [
        ("not served", object("x.y/v1", "Db", "evil"), "/apis/x.y/v1/namespaces/ns/dbs/evil"),
        ("as if it had finished", expiring, "/apis/x.z/v1/namespaces/ns/tasks/evil"),
    ] {
        let world = World::new();
        world.server.serve("x.z/v1", "Task", "tasks");
        let chart = candidate(&[map("a", "1")]);
        let installed = world.install(&chart).await;
        let uid = world.map("a")["metadata"]["uid"].clone();
        let Admission::Admitted(admitted) = judged_with(&world, &chart, &[map("a", "1"), evil]).await else {
            panic!("{what}: it is refused");
        };
        let written = record_ownership(&world.env(), &admitted, &installed.inventory).await.unwrap();
        let sealed = world.storage.get("ns", "web", 1).await.unwrap().release.sealed().unwrap();
        let recorded = kube::recorded_objects(&sealed.get().manifest, "ns").unwrap();
        assert_eq!(recorded.iter().map(|object| &*object.name).collect::<Vec<_>>(), ["a"], "{what}");
        world.server.serve("x.y/v1", "Db", "dbs");
        let current = Current { packed: Some(Stored::Sealed(written.packed)), ..installed };
        rollback(&world.env(), &current, 1, "inputs").await.unwrap();
        assert_eq!((world.server.object(path), &world.map("a")["metadata"]["uid"]), (None, &uid), "{what}");
    }
}

#[tokio::test]
async fn an_object_of_an_unserved_kind_is_sealed_as_the_chart_renders_it() {
    let world = World::new();
    let (a, db) = (map("a", "1"), object("x.y/v1", "Db", "d"));
    world.install(&candidate(std::slice::from_ref(&a))).await;
    let chart = candidate(&[a.clone(), db.clone()]);
    let Admission::Admitted(admitted) = judged_with(&world, &chart, &[a, db]).await else { panic!("it is refused") };
    assert_eq!((admitted.is_as_stored, &*admitted.release.get().manifest), (true, &*chart.manifest));
}

#[tokio::test]
async fn a_finished_object_is_sealed_only_with_the_charts_metadata() {
    let job = |queue: &str, spec: Value| {
        let mut job = object("batch/v1", "Job", "load");
        (job["metadata"]["labels"], job["spec"]) = (json!({"queue": queue}), spec);
        job
    };
    let ttl = json!({"ttlSecondsAfterFinished": 5});
    let (world, chart) = (World::new(), candidate(&[job("a", ttl.clone())]));
    world.install(&chart).await;
    world.server.remove("/apis/batch/v1/namespaces/ns/jobs/load");
    let with_null = json!({"ttlSecondsAfterFinished": 5, "suspend": null});
    for (recorded, is_kept) in [(job("a", with_null), true), (job("b", ttl), false)] {
        let Admission::Admitted(admitted) = judged_with(&world, &chart, &[recorded]).await else {
            panic!("it is refused");
        };
        let sealed = kube::recorded_objects(&admitted.release.get().manifest, "ns").unwrap();
        let queues: Vec<_> = sealed.iter().map(|job| job.body["metadata"]["labels"]["queue"].as_str()).collect();
        assert_eq!((queues, admitted.is_as_stored), (vec![Some("a")], is_kept));
    }
}

#[tokio::test]
async fn a_finished_job_that_each_render_changes_stays_in_a_record_that_loses_its_proof_twice() {
    let render = |parallelism: u32| {
        let mut job = object("batch/v1", "Job", "load");
        job["spec"] = json!({"ttlSecondsAfterFinished": 5, "parallelism": parallelism});
        candidate(&[map("a", "1"), job])
    };
    let world = World::new();
    world.install(&render(1)).await;
    world.server.remove("/apis/batch/v1/namespaces/ns/jobs/load");
    let mut manifest = render(1).manifest;
    for again in 2..4 {
        let admission = judged(&world, &render(again), |release| release.manifest = manifest).await;
        let Admission::Admitted(admitted) = admission else { panic!("render {again}: {admission:?}") };
        manifest = admitted.release.get().manifest.clone();
        let sealed = kube::recorded_objects(&manifest, "ns").unwrap();
        let found: Vec<_> = sealed.iter().map(|one| (&*one.name, one.body["spec"]["parallelism"].as_u64())).collect();
        assert_eq!(found, [("a", None), ("load", Some(u64::from(again)))], "in the chart's form");
    }
}

#[tokio::test]
async fn what_was_compared_with_nothing_is_refused_in_a_list_with_other_objects() {
    let world = World::new();
    let chart = candidate(&[map("a", "1")]);
    world.install(&chart).await;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [map("a", "1"), object("x.y/v1", "Db", "evil")]});
    assert!(matches!(judged_with(&world, &chart, &[list]).await, Admission::Refused(_)));
}

#[tokio::test]
async fn a_role_of_parts_of_the_charts_and_the_live_one_is_refused() {
    let world = World::new();
    world.server.serve("rbac.authorization.k8s.io/v1", "Role", "roles");
    let role = |resource: &str, verb: &str| {
        let mut role = object("rbac.authorization.k8s.io/v1", "Role", "r");
        role["rules"] = json!([{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]);
        role
    };
    world.install(&candidate(&[role("secrets", "get")])).await;
    let chart = candidate(&[role("configmaps", "delete")]);
    for (recorded, is_admitted) in [(role("secrets", "delete"), false), (role("configmaps", "delete"), true)] {
        let admission = judged_with(&world, &chart, &[recorded]).await;
        assert_eq!(matches!(admission, Admission::Admitted(_)), is_admitted, "{admission:?}");
    }
}

#[tokio::test]
async fn a_pod_of_parts_of_the_charts_and_the_live_one_is_refused() {
    let world = World::new();
    world.server.serve("example.com/v1", "Runner", "runners");
    let runner = |image: &str, privileged: bool, checksum: &str| {
        let mut runner = object("example.com/v1", "Runner", "r");
        let (annotations, pod) = (json!({"checksum": checksum}), json!({"image": image, "privileged": privileged}));
        runner["spec"] = json!({"template": {"metadata": {"annotations": annotations}, "spec": pod}});
        runner
    };
    world.install(&candidate(&[runner("users", false, "1")])).await;
    let chart = candidate(&[runner("charts", true, "2")]);
    for (recorded, is_admitted) in [
        (runner("users", true, "1"), false),
        (runner("charts", true, "3"), false),
        (runner("charts", true, "1"), true),
        (runner("users", false, "1"), true),
    ] {
        let admission = judged_with(&world, &chart, &[recorded]).await;
        assert_eq!(matches!(admission, Admission::Admitted(_)), is_admitted, "{admission:?}");
    }
}

#[tokio::test]
async fn a_live_object_without_what_was_applied_to_it_is_refused() {
    let world = World::new();
    world.server.serve("example.com/v1", "Runner", "runners");
    let runner = |label: &str, spec: Value| {
        let mut runner = object("example.com/v1", "Runner", "r");
        (runner["metadata"]["labels"], runner["spec"]) = (json!({(label): "x"}), spec);
        runner
    };
    let user = || json!({"image": "users", "runAsNonRoot": true});
    world.install(&candidate(&[runner("guarded", user())])).await;
    let chart = candidate(&[runner("guarded", json!({"image": "charts"}))]);
    let mut unguarded = runner("guarded", user());
    unguarded["metadata"]["labels"] = json!({});
    for (chart, recorded, is_admitted) in [
        (&chart, runner("guarded", user()), true),
        (&chart, runner("guarded", json!({"image": "users"})), false),
        (&candidate(&[object("example.com/v1", "Runner", "r")]), unguarded, false),
    ] {
        let admission = judged_with(&world, chart, &[recorded]).await;
        assert_eq!(matches!(admission, Admission::Admitted(_)), is_admitted, "{admission:?}");
    }
}

#[tokio::test]
async fn a_test_that_the_chart_does_not_have_is_not_sealed() {
    let world = World::new();
    let chart = Candidate { hooks: vec![sample::hook("t", &[HookEvent::Test])], ..candidate(&[map("a", "1")]) };
    let installed = world.install(&chart).await;
    let forge = |release: &mut Release| {
        let test = &mut release.hooks[0].manifest;
        *test = test.replace("name: t", "name: evil");
    };
    let Admission::Admitted(admitted) = judged(&world, &chart, forge).await else { panic!("it is refused") };
    let due = Marks { tests: Some(Tests::Due), ..installed.inventory.clone() };
    record_ownership(&world.env(), &admitted, &due).await.unwrap();
    test(&world.env(), 1, &due, Tests::Failed).await.unwrap();
    let made = [world.server.object(&format!("{MAPS}/t")), world.server.object(&format!("{MAPS}/evil"))];
    assert_eq!(made.map(|map| map.is_some()), [true, false]);
}
