use std::collections::BTreeMap;
use std::error::Error as _;
use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, Ordering};

use helm::sequence::Turn;

use super::*;
use crate::kube::{
    Adopted, Decoration, Disturbance, DriftPolicy, Live, Mark, MemoryApi, Object, ObjectDigest, ObjectKey, Owner,
};
use crate::release::{ChartDocument, Info};
use crate::sample;

const RECORD: &str = "/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v1";
/// The release's namespace and name.
const WEB: (&str, &str) = ("ns", "web");
/// The record's path without the revision.
const RECORD_NAME: &str = "/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web";

fn release(version: u32, files: usize, notes: usize) -> Release {
    // Pseudo-random text, which does not compress.
    let noise = |n: usize| {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(33 + (state % 90) as u8)
        };
        (0..n).map(|_| next()).collect::<String>()
    };
    let chart = json!({"metadata": {"name": "c", "version": "1"}, "files": [{"name": "f", "data": noise(files)}]});
    Release {
        version,
        info: Info { status: Status::PendingInstall, notes: noise(notes), ..Info::default() },
        chart: Arc::new(ChartDocument::from_json(&chart.to_string()).unwrap()),
        config: json!({"a": 1}),
        manifest: "---\n".into(),
        ..sample::release()
    }
}

fn marks() -> Marks {
    let key = ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: "ns".into(), name: "web".into() };
    let object = MarkedObject {
        key,
        api_version: "apps/v1".into(),
        digest: ObjectDigest::parse("000000000000000d"),
        mark: Some(Mark(7)),
        kept: true,
        expires: true,
        deleted: false,
        noted: false,
        client: true,
        drift: Some(DriftPolicy::Detect),
        adopted: Some(Adopted::Unclaimed),
        attempted: false,
        turn: Turn::of_round(3).awaited(),
    };
    Marks {
        inputs: "i".into(),
        owner: "u".into(),
        owner_type: "Memcached.cache.my.domain".into(),
        objects: vec![object],
        complete: true,
        delete_hooks: true,
        hooks_done: true,
        revocable: true,
        failed_post_deletes: 3,
        first_deployed: Some(jiff::Timestamp::UNIX_EPOCH),
        taken_over: true,
        rolled_back_to: Some(1),
        string_overrides: true,
        before: Some(Before::Unready),
        tests: Some(Tests::Failed),
        rejected: Some(Box::new(Rejected { version: 7, inputs: "bad".into(), by: RejectedBy::Rollout })),
        cause: "spec changed".into(),
        none_deployed_before: true,
        former: vec!["before".into()],
        noted_for: "after".into(),
        own: Some(1),
        adopted: Vec::new(),
        turns: Vec::new(),
    }
}

#[tokio::test]
async fn a_secret_that_only_has_the_name_of_a_record_is_named() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    storage.create(&release(1, 0, 0), &marks()).await.unwrap();
    let taken = storage.create(&release(1, 0, 1), &marks()).await.unwrap_err();
    assert!(taken.is_taken(), "{taken}");
    let mut secret = server.object(RECORD).unwrap();
    secret["metadata"]["labels"] = json!({});
    server.put(RECORD, secret.clone(), "user");
    let before = server.object(RECORD);
    let error = storage.create(&release(1, 0, 0), &marks()).await.unwrap_err();
    assert!(!error.is_taken() && error.to_string().contains("restore its labels"), "{error}");
    assert_eq!(server.object(RECORD), before);
}

/// Serves the first creation of a record, and answers as to a client that repeats it because its answer was lost.
fn repeat_the_creation(server: &Arc<MemoryApi>) {
    let (behind, has_served) = (Arc::downgrade(server), AtomicBool::new(false));
    server.refuse(move |call| {
        let (_, body) = call.body.as_ref().filter(|_| call.method == "POST")?;
        if has_served.swap(true, Ordering::Relaxed) {
            return None;
        }
        let secret: Value = serde_json::from_slice(body).ok()?;
        behind.upgrade()?.put(RECORD, secret, FIELD_MANAGER);
        Some(kube::Error::from_status(409, "AlreadyExists", "it exists"))
    });
}

#[tokio::test]
async fn a_record_that_a_repeated_request_finds_in_its_place_is_its_own() {
    let server = Arc::new(MemoryApi::new());
    let storage = |writer: &str| Storage::new(server.clone(), sample::keys()).written_by(writer.into());
    repeat_the_creation(&server);
    let written = storage("one").create(&release(1, 0, 0), &marks()).await.unwrap();
    let stored = server.object(RECORD).unwrap()["metadata"].clone();
    assert_eq!(stored["resourceVersion"], written.resource_version.to_string());
    assert_eq!(written.packed.get().record_uid().as_deref(), stored["uid"].as_str());
    let failed = Marks { tests: None, ..marks() };
    for (writer, marks) in [("another", marks()), ("one", failed)] {
        let taken = storage(writer).create(&release(1, 0, 0), &marks).await.unwrap_err();
        assert!(taken.is_taken(), "{writer}: {taken}");
    }
}

#[test]
fn a_new_owner_of_a_release_has_neither_passed_its_tests_nor_upgraded_it() {
    let taken_by = |uid: &str, kind: &str| {
        let owner = Owner { uid: uid.into(), kind: kind.into(), ..sample::decoration().owner.unwrap() };
        marks().taken_by(&owner)
    };
    let noted = Marks { noted_for: "".into(), ..marks() };
    assert_eq!(taken_by("u", "Memcached"), noted, "it had it before");
    for (kind, former) in [("Memcached", &["before"][..]), ("Redis", &["before", "u"])] {
        let Marks { owner, tests, before, former: named, .. } = taken_by("u1", kind);
        assert_eq!((&*owner, tests, before), ("u1", Some(Tests::Due), None), "{kind}");
        assert_eq!(named.iter().map(|uid| &**uid).collect::<Vec<_>>(), former, "{kind}");
    }
    let untested = Marks { tests: None, ..marks() };
    assert_eq!(untested.taken_by(&sample::decoration().owner.unwrap()).tests, None);
}

/// Returns the marks of a revision of this owner, with the uids of former ones.
fn owned_by(uid: &str, kind: &str, former: &[&str]) -> Marks {
    let former = former.iter().map(|uid| (*uid).into()).collect();
    Marks { owner: uid.into(), owner_type: kind.into(), former, ..Marks::default() }
}

#[test]
fn the_last_resources_that_had_a_release_before_its_owner_are_its_former_ones() {
    const OWN: &str = "Memcached.cache.my.domain";
    let owner = sample::decoration().owner.unwrap();
    let eight = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let takeovers = eight.map(|uid| owned_by(uid, "K", &[])).to_vec();
    let with = |last: Marks| takeovers.iter().cloned().chain([last]).collect::<Vec<_>>();
    for (behaviour, revisions, expected) in [
        ("nobody's", vec![owned_by("", "", &[])], ""),
        ("the owner's", vec![owned_by("u1", OWN, &[])], ""),
        ("an earlier resource's of its name", vec![owned_by("u0", OWN, &[])], ""),
        ("another's", vec![owned_by("a", "A", &[])], "a A"),
        ("another's, after others", vec![owned_by("b", "B", &["u1", "a"])], "a, b B"),
        (
            "taken over again",
            vec![owned_by("a", "A", &[]), owned_by("b", "B", &["a"]), owned_by("a", "A", &["b"])],
            "b B, a A",
        ),
        ("of a kind that an older revision names", vec![owned_by("a", "A", &[]), owned_by("u1", OWN, &["a"])], "a A"),
        ("eight", vec![owned_by("8", "K", &eight[..7])], "1, 2, 3, 4, 5, 6, 7, 8 K"),
        ("nine", vec![owned_by("9", "K", &eight)], "2, 3, 4, 5, 6, 7, 8, 9 K"),
        ("nine revisions", with(owned_by("9", "L", &[])), "2 K, 3 K, 4 K, 5 K, 6 K, 7 K, 8 K, 9 L"),
        ("nine revisions of eight", with(owned_by("1", "K", &[])), "2 K, 3 K, 4 K, 5 K, 6 K, 7 K, 8 K, 1 K"),
        ("those of the newest", with(owned_by("b", "L", &["3", "a"])), "4 K, 5 K, 6 K, 7 K, 8 K, 3 K, a, b L"),
    ] {
        let former = former_owners(&revisions, &owner);
        let named: Vec<String> = former.iter().map(|one| format!("{} {}", one.uid, one.kind)).collect();
        let named: Vec<&str> = named.iter().map(|one| one.trim_end()).collect();
        assert_eq!(named.join(", "), expected, "{behaviour}");
        if let [marks] = &revisions[..] {
            let uids: Vec<_> = former.into_iter().map(|one| one.uid).collect();
            assert_eq!(marks.former_for(&owner), uids, "{behaviour}");
        }
    }
}

/// Returns a live object of the release that this operator has written for a resource with this uid: its controller, or
/// only named in annotations.
fn made_for(uid: usize, is_controlled: bool) -> Live {
    let mut metadata = json!({
        "name": "web", "managedFields": [{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {}}],
        "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns"},
    });
    let kind = format!("Other{uid}");
    if is_controlled {
        let uid = uid.to_string();
        metadata["ownerReferences"] =
            json!([{"apiVersion": "a.b/v1", "kind": kind, "name": "web", "uid": uid, "controller": true}]);
    } else {
        metadata["annotations"]["operator-sdk/primary-resource"] = "ns/web".into();
        metadata["annotations"]["operator-sdk/primary-resource-type"] = format!("{kind}.a.b").into();
    }
    serde_json::from_value(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata})).unwrap()
}

#[test]
fn what_belongs_to_a_former_resource_beyond_the_limit_is_somebody_elses() {
    let others = Some(Adopted::Claimed);
    for (takeovers, uid, expected) in [(8, 1, None), (9, 1, others), (9, 2, None), (9, 9, None), (9, 10, others)] {
        let took = |uid: usize| owned_by(&uid.to_string(), &format!("Other{uid}.a.b"), &[]);
        let records: Vec<Marks> = (1..=takeovers).map(took).collect();
        let decoration = sample::decoration();
        let former = former_owners(&records, decoration.owner.as_ref().unwrap());
        let decoration = Decoration { former, ..decoration };
        for is_controlled in [false, true] {
            let made = decoration.made_by_others(&made_for(uid, is_controlled));
            assert_eq!(made, expected, "{uid} of {takeovers}, {is_controlled}");
        }
    }
}

#[test]
fn the_annotation_round_trips_object_flags() {
    let policies = [None, Some(DriftPolicy::Repair), Some(DriftPolicy::Detect), Some(DriftPolicy::Off)];
    let befores = [Adopted::Owned, Adopted::Claimed, Adopted::Unclaimed, Adopted::Named];
    let befores: Vec<Option<Adopted>> = befores.map(Some).into_iter().chain([None]).collect();
    for bits in 0..8 {
        let [kept, client, expires] = [1, 2, 4].map(|bit| bits & bit != 0);
        for (drift, adopted) in policies.iter().flat_map(|drift| befores.iter().map(move |adopted| (*drift, *adopted)))
        {
            let mut marks = marks();
            let object = &mut marks.objects[0];
            (object.kept, object.client, object.expires) = (kept, client, expires);
            (object.drift, object.adopted) = (drift, adopted);
            assert_eq!(Marks::parse(&marks.to_text()), Some(marks));
        }
    }
}

#[test]
fn marks_of_a_later_version_are_read_as_far_as_they_are_known() {
    let mut marks = marks();
    marks.objects[0].adopted = Some(Adopted::Claimed);
    let mut text: Value = serde_json::from_str(&marks.to_text()).unwrap();
    let flags = text["o"][0][6].as_u64().unwrap();
    text["o"][0][6] = (flags | 1 << 8).into();
    text["o"][0].as_array_mut().unwrap().push("new".into());
    text["new"] = true.into();
    (text["b"], text["e"], text["j"]) = ("new".into(), "new".into(), json!({"v": 1, "i": "i", "b": "new"}));
    let rejected = Some(Box::new(Rejected { version: 1, inputs: "i".into(), by: RejectedBy::Tests }));
    let known = Marks { before: None, tests: None, rejected, ..marks };
    assert_eq!(Marks::parse(&text.to_string()), Some(known));
    text["o"][0] = json!(["apps/v1", "Deployment"]);
    assert_eq!(Marks::parse(&text.to_string()), None);
}

#[test]
fn a_deleted_object_takes_the_place_of_an_adoption_in_the_annotation() {
    let key = marks().objects.remove(0).key;
    let deleted = marks().with_deleted(from_ref(&key)).unwrap();
    assert_eq!(deleted.with_deleted(from_ref(&key)), None, "noted once");
    let object = &deleted.objects[0];
    assert_eq!((object.deleted, object.expires, object.adopted, object.mark), (true, false, None, Some(Mark(7))));
    assert!(deleted.to_text().len() <= marks().to_text().len(), "it takes no room");
    assert_eq!(Marks::parse(&deleted.to_text()), Some(deleted.clone()));
    let mut again = deleted;
    again.objects[0].expires = true;
    assert_eq!(Marks::parse(&again.to_text()), Some(again.clone()), "applied again");
    assert_eq!(again.expiring(from_ref(&key)), from_ref(&key), "applied again, it expires");
    assert_eq!(again.with_deleted(from_ref(&key)).map(|marks| marks.objects[0].expires), Some(false));
    assert_eq!(again.with_deleted(&[]), None);
    let unfinished = again.without_finished().unwrap();
    assert_eq!((unfinished.expiring(from_ref(&key)), unfinished.without_finished()), (Vec::new(), None));
}

#[test]
fn a_revision_that_did_not_succeed_renders_none_of_the_objects_that_it_drops() {
    let key = |name| ObjectKey::new("", "ConfigMap", "ns", name);
    let objects = |digest| ["a", "b"].map(|name| MarkedObject { digest, ..MarkedObject::new(key(name), "v1".into()) });
    let digest = marks().objects[0].digest;
    for (behaviour, complete, own, digest, expected) in [
        ("drops one", false, Some(1), digest, [true, false]),
        ("drops none", false, Some(2), digest, [true, true]),
        ("of an earlier version", false, None, digest, [false, false]),
        ("succeeded", true, None, digest, [true, true]),
        ("lists another's", true, None, None, [false, false]),
    ] {
        let marks = Marks { complete, own, objects: objects(digest).into(), ..Marks::default() };
        let read = Marks::parse(&marks.to_text()).unwrap();
        assert_eq!(["a", "b"].map(|name| read.renders(&key(name))), expected, "{behaviour}");
    }
}

/// Returns the body of a record that was just written.
fn body(written: &Written) -> Body {
    Body { version: 1, status: Status::PendingInstall, content: written.packed.content() }
}

fn known(versions: &[u32]) -> Vec<Known> {
    versions.iter().map(|version| Known { version: *version, resource_version: None }).collect()
}

#[tokio::test]
async fn records_are_helm_secrets_with_our_marks() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    let mut first = release(1, 1, 1);
    storage.create(&first, &Marks::default()).await.unwrap();
    first.set_status(Status::Deployed, "Install complete");
    storage.update(&first, &marks()).await.unwrap();
    let secret = server.object("/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v1").unwrap();
    assert_eq!(secret["type"], "helm.sh/release.v1");
    assert_eq!(secret["metadata"]["labels"]["status"], "deployed");
    assert_eq!(secret["metadata"]["labels"]["owner"], "helm");
    let read = storage.get("ns", "web", 1).await.unwrap().release.sealed().unwrap().into_inner();
    assert_eq!((read.info.status, read.config), (Status::Deployed, json!({"a": 1})));
    let history = storage.history("ns", "web").await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].marks, Some(marks()));
}

#[tokio::test]
async fn what_a_revision_did_is_kept_if_there_is_room() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    storage.create(&release(1, 0, 0), &marks()).await.unwrap();
    let plan = async || storage.get("ns", "web", 1).await.unwrap().plan.map(|plan| plan.len());
    assert_eq!(plan().await, None);
    storage.update_with(&release(1, 0, 0), &marks(), Some(vec![7; MAX_PLAN])).await.unwrap();
    storage.update(&release(1, 0, 0), &marks()).await.unwrap();
    assert_eq!(plan().await, Some(MAX_PLAN), "other writes keep it");
    let room = |release: &Release| MAX_RECORD - Packed::pack(release).unwrap().to_record().len().min(MAX_RECORD);
    let sizes = (0..100).map(|n| release(1, 500_000 + n * 10_000, 0));
    let large = sizes.into_iter().find(|large| (1..MAX_PLAN).contains(&room(large))).unwrap();
    for (release, size) in [(release(1, 0, 0), MAX_PLAN + 1), (large, MAX_PLAN)] {
        let storage = Storage::new(Arc::new(MemoryApi::new()), sample::keys());
        storage.create(&release, &marks()).await.unwrap();
        storage.update_with(&release, &marks(), Some(vec![7; size])).await.unwrap();
        assert!(storage.get("ns", "web", 1).await.unwrap().plan.is_none());
    }
}

#[tokio::test]
async fn each_revision_is_deleted_by_its_name() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    for version in 1..=3 {
        storage.create(&release(version, 1, 1), &Marks::default()).await.unwrap();
    }
    assert!(storage.create(&release(3, 1, 2), &Marks::default()).await.is_err(), "a revision is never overwritten");
    let before = server.writes();
    storage.delete_all("ns", "web", &known(&[1, 2, 3]), 2).await.unwrap();
    assert_eq!(server.writes(), before + 3);
    assert!(server.log().last().unwrap().ends_with("sh.helm.release.v1.web.v2"));
    assert!(server.paths().is_empty());
    storage.delete("ns", "web", known(&[1])[0]).await.unwrap();
}

#[tokio::test]
async fn a_record_whose_path_is_not_served_for_a_moment_does_not_count_as_deleted() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    storage.create(&release(1, 1, 1), &Marks::default()).await.unwrap();
    server.disturb("DELETE ", 1, Disturbance::Unserved);
    storage.delete("ns", "web", known(&[1])[0]).await.unwrap_err();
    assert_eq!(server.paths().len(), 1);
}

#[test]
fn large_records_lose_files_then_notes_then_fail() {
    let fitted = |files, notes| fit(&release(1, files, notes)).map(|packed| packed.unpack().unwrap());
    assert_eq!(fitted(5 << 18, 5).unwrap().info.notes.len(), 5);
    assert!(fitted(5 << 18, 5 << 18).unwrap().info.notes.is_empty());
    let mut endless = release(1, 1, 5 << 18);
    endless.manifest = endless.info.notes.clone();
    let error = fit(&endless).unwrap_err().to_string();
    assert!(error.starts_with("release \"web\" is too large to record: "), "{error}");
}

#[test]
fn marks_round_trip_unless_they_are_too_large() {
    assert_eq!(Marks::parse(&marks().to_text()), Some(marks()));
    assert_eq!(Marks::parse("helm"), None);
    let many = Marks { objects: (0..3000).map(object).collect(), ..marks() };
    let text = many.to_text();
    assert!(text.len() <= 200 << 10, "{}", text.len());
    assert_eq!(Marks::parse(&text), Some(many), "three times as many as fit as they are");
    let too_many = Marks { objects: (0..20_000).map(object).collect(), ..marks() };
    let read = Marks::parse(&too_many.to_text()).unwrap();
    assert!(read.objects.is_empty() && !read.complete && read.inputs == "i");
    let spoilt = Marks::parse(&text.replace("\"z\":\"", "\"z\":\"!")).unwrap();
    assert!(spoilt.objects.is_empty() && !spoilt.complete, "as if it had been left out");
    assert!(spoilt.turns.is_empty(), "those in the annotation are in another order");
}

#[test]
fn marks_that_are_too_large_still_name_what_was_adopted() {
    let own = |n| MarkedObject { adopted: None, ..object(n) };
    let mut too_many = Marks { objects: (0..20_000).map(own).collect(), ..marks() };
    [0, 7].iter().for_each(|at| too_many.objects[*at].adopted = Some(Adopted::Claimed));
    let read = Marks::parse(&too_many.to_text()).unwrap();
    let again = Marks::parse(&read.to_text()).unwrap();
    assert_eq!((read.objects.len(), &read.adopted), (0, &again.adopted), "a later write keeps it");
    // The revision drops the first.
    let from_manifest: Vec<MarkedObject> = (1..20_000).map(|n| MarkedObject { mark: None, ..own(n) }).collect();
    let whole = again.with_inventory(from_manifest);
    let adopted: Vec<(usize, Option<Adopted>)> =
        whole.objects.iter().map(|object| object.adopted).enumerate().filter(|(_, it)| it.is_some()).collect();
    let expected = [6, 19_999].map(|at| (at, Some(Adopted::Claimed)));
    assert_eq!((adopted, whole.adopted.len()), (expected.to_vec(), 0));
}

#[test]
fn marks_name_the_objects_that_only_attempts_have_had() {
    let with = |attempted: &[bool]| {
        let all = attempted.iter().zip(0..).map(|(attempted, n)| MarkedObject { attempted: *attempted, ..object(n) });
        Marks { objects: all.collect(), ..marks() }
    };
    for attempted in
        [vec![true], vec![false], vec![false, true, true, false, true], vec![true, false], vec![true; 3000]]
    {
        let marks = with(&attempted);
        assert_eq!(Marks::parse(&marks.to_text()), Some(marks), "{} objects", attempted.len());
    }
    let size = |attempted: bool| with(&[attempted; 100]).to_text().len();
    assert!(size(true) < size(false) + 20, "a new release costs little");
}

#[test]
fn what_a_takeover_notes_for_itself_has_finished_for_the_owner_alone() {
    let own = |n| MarkedObject { adopted: None, expires: n != 1, deleted: n == 1, ..object(n) };
    let before = Marks { objects: (0..3).map(own).collect(), noted_for: "".into(), ..marks() };
    let jobs = [own(0).key];
    let noted = before.with_deleted(&jobs).unwrap().noted_for_taker(&jobs, "taker");
    assert_eq!(Marks::parse(&noted.to_text()), Some(noted.clone()));
    let states = |marks: &Marks| marks.objects.iter().map(|o| (o.deleted, o.expires)).collect::<Vec<_>>();
    assert_eq!(states(&noted), [(true, false), (true, false), (false, true)]);
    assert_eq!(noted.for_owner(), Some(before.clone()), "a Job that the owner itself deleted has not finished");
    assert_eq!((before.for_owner(), Marks { noted_for: "u".into(), ..noted }.for_owner()), (None, None));
}

#[test]
fn marks_that_are_too_large_still_name_what_was_deleted() {
    let own = |n| MarkedObject { adopted: None, expires: false, ..object(n) };
    let too_many = Marks { objects: (0..20_000).map(own).collect(), ..marks() };
    let read = Marks::parse(&too_many.with_deleted(&[own(7).key]).unwrap().to_text()).unwrap();
    assert_eq!(read.objects.len(), 0);
    let whole = read.with_inventory(too_many.objects);
    let deleted: Vec<usize> = (0..whole.objects.len()).filter(|at| whole.objects[*at].deleted).collect();
    assert_eq!(deleted, [7]);
}

#[test]
fn marks_that_are_too_large_still_say_when_each_object_is_applied() {
    let turn = |n: u64| Turn::of_round(n as usize % 3 + 1).awaited();
    let own = |n| MarkedObject { adopted: None, turn: turn(n), ..object(n) };
    let too_many = Marks { objects: (0..20_000).map(own).collect(), ..marks() };
    let read = Marks::parse(&too_many.to_text()).unwrap();
    let again = Marks::parse(&read.to_text()).unwrap();
    assert_eq!((again.objects.len(), &again), (0, &read), "a later write keeps it");
    let rendered = |n: u64| {
        let metadata = json!({"name": format!("object-{n}")});
        Object::new(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})).unwrap()
    };
    let mut manifest: Vec<Object> = (0..20_000).rev().map(rendered).collect();
    again.give_turns(&mut manifest, "ns");
    let given: Vec<Turn> = manifest.iter().map(|object| object.turn).collect();
    assert_eq!(given, (0..20_000).rev().map(turn).collect::<Vec<Turn>>());
    let mut another = manifest.split_off(1);
    another.iter_mut().for_each(|object| object.turn = Turn::default());
    again.give_turns(&mut another, "ns");
    assert!(another.iter().all(|object| object.turn == Turn::default()), "another manifest has none of these turns");
}

#[test]
fn marks_of_an_unfinished_revision_say_nothing_of_the_objects_that_it_drops() {
    let listed = |n: u64| MarkedObject { turn: Turn::of_round(n as usize + 1), ..object(n) };
    let marks = Marks { complete: false, own: Some(2), objects: (0..3).map(listed).collect(), ..marks() };
    assert_eq!(marks.without_inventory().turns, [1, 2].map(Turn::of_round));
    let unordered = |n| MarkedObject { turn: Turn::default(), ..object(n) };
    let marks = Marks { objects: (0..3).map(unordered).collect(), ..marks };
    assert!(marks.without_inventory().turns.is_empty());
}

/// Returns the entry of one of many objects.
fn object(n: u64) -> MarkedObject {
    let random = |n: u64| n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let name = format!("object-{n}");
    let key = ObjectKey { name: name.into(), ..marks().objects.remove(0).key };
    let digest = ObjectDigest::parse(&format!("{:016x}", random(n)));
    MarkedObject { key, digest, mark: Some(Mark(random(n + 50_000))), ..marks().objects.remove(0) }
}

#[tokio::test]
async fn an_update_changes_no_record_that_took_the_place_of_its_own() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    let written = storage.create(&release(1, 1, 1), &marks()).await.unwrap();
    let read = storage.get("ns", "web", 1).await.unwrap().release;
    for own in
        [written.packed.get().unpack().unwrap(), read.facts().clone(), read.pack().unwrap().facts().unpack().unwrap()]
    {
        storage.update(&own, &marks()).await.unwrap();
        let mut another = server.object(RECORD).unwrap();
        server.remove(RECORD);
        another["metadata"].as_object_mut().unwrap().retain(|key, _| ["name", "labels"].contains(&key.as_str()));
        server.put(RECORD, another, "helm");
        let before = server.object(RECORD).unwrap();
        let updated = storage.update(&own, &marks()).await;
        assert!(updated.as_ref().is_err_and(Error::is_missing), "{updated:?}");
        for precondition in [Precondition::of(&own), Precondition::ResourceVersion(1)] {
            let marked = storage.mark(WEB, &body(&written), &marks(), &precondition).await;
            assert!(marked.is_err(), "{precondition:?}");
        }
        assert_eq!(server.object(RECORD).unwrap(), before);
        server.remove(RECORD);
        let mut first = before;
        first["metadata"]["uid"] = (**own.record_uid.as_ref().unwrap()).into();
        server.restore(RECORD, first);
    }
}

#[tokio::test]
async fn marks_without_an_owner_leave_labels_unchanged() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    let written = storage.create(&release(1, 1, 1), &marks()).await.unwrap();
    let metadata = || server.object(RECORD).unwrap()["metadata"].clone();
    let before = metadata();
    storage.mark(WEB, &body(&written), &Marks::default(), &Precondition::None).await.unwrap();
    assert_eq!(metadata()["labels"], before["labels"]);
    assert_ne!(metadata()["annotations"], before["annotations"]);
}

#[test]
fn the_annotation_omits_defaults() {
    assert_eq!(Marks::default().to_text(), r#"{"i":"","u":"","k":"","c":false,"h":false,"o":[]}"#);
}

#[test]
fn records_that_fit_keep_files_and_notes() {
    let whole = release(1, 9, 9);
    assert_eq!(fit(&whole).unwrap().to_record(), Packed::pack(&whole).unwrap().to_record());
}

#[tokio::test]
async fn records_keep_user_labels() {
    let storage = Storage::new(Arc::new(MemoryApi::new()), sample::keys());
    let labels = BTreeMap::from([("team".to_owned(), "x".to_owned())]);
    storage.create(&Release { labels: labels.clone(), ..release(1, 1, 1) }, &Marks::default()).await.unwrap();
    assert_eq!(storage.get("ns", "web", 1).await.unwrap().release.facts().labels, labels);
}

#[tokio::test]
async fn writes_return_the_records_resource_version() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    let live = || server.object(RECORD).unwrap()["metadata"]["resourceVersion"].clone();
    let created = storage.create(&release(1, 1, 1), &Marks::default()).await.unwrap();
    assert_eq!(live(), created.resource_version.to_string());
    let updated = storage.update(&release(1, 1, 1), &marks()).await.unwrap();
    assert_eq!(live(), updated.resource_version.to_string());
    let others = Marks { complete: !marks().complete, ..marks() };
    let marked = storage.mark(WEB, &body(&updated), &others, &Precondition::None).await.unwrap();
    assert_eq!(live(), marked.to_string());
    assert!(created.resource_version < updated.resource_version && updated.resource_version < marked);
}

#[tokio::test]
async fn a_failed_deletion_is_not_a_missing_revision() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    storage.create(&release(1, 1, 1), &Marks::default()).await.unwrap();
    server.disturb("DELETE", 1, Disturbance::Refused(503));
    let error = storage.delete("ns", "web", known(&[1])[0]).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot delete release record \"sh.helm.release.v1.web.v1\"");
}

#[tokio::test]
async fn the_records_of_an_owner_are_found_in_every_namespace() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    for (namespace, owner) in [("a", "u"), ("b", "another"), ("c", "u")] {
        let release = Release { namespace: namespace.into(), ..release(1, 1, 1) };
        storage.create(&release, &Marks { owner: owner.into(), ..Marks::default() }).await.unwrap();
    }
    let found = storage.owned_anywhere("u").await.unwrap();
    let found: Vec<_> = found.iter().map(|meta| (&*meta.namespace, &*meta.name, meta.version)).collect();
    assert_eq!(found, [("a", "web", 1), ("c", "web", 1)]);
    assert!(storage.owned_anywhere("nobody").await.unwrap().is_empty());
    server.disturb("GET /api/v1/secrets?", 1, Disturbance::Refused(503));
    assert!(storage.owned_anywhere("u").await.is_err(), "which is not the same as none");
}

#[tokio::test]
async fn only_the_named_revisions_are_deleted_and_the_last_one_after_all_others() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    for version in 1..=20 {
        storage.create(&release(version, 1, 1), &Marks::default()).await.unwrap();
    }
    let record = server.object(&format!("{RECORD_NAME}.v1")).unwrap();
    server.put("/api/v1/namespaces/ns/secrets/my-backup-of-web", record.clone(), "user");
    server.put(
        "/api/v1/namespaces/ns/secrets/precious",
        json!({"metadata": {"labels": record["metadata"]["labels"]}}),
        "user",
    );
    server.disturb("web.v7", 1, Disturbance::Refused(503));
    let versions: Vec<u32> = (1..=20).collect();
    storage.delete_all("ns", "web", &known(&versions), 20).await.unwrap_err();
    assert!(
        server.object(&format!("{RECORD_NAME}.v20")).is_some() && server.object(&format!("{RECORD_NAME}.v7")).is_some()
    );
    storage.delete_all("ns", "web", &known(&versions), 20).await.unwrap();
    let left = ["my-backup-of-web", "precious"].map(|name| format!("/api/v1/namespaces/ns/secrets/{name}"));
    assert_eq!(server.paths(), left);
}

#[tokio::test]
async fn a_record_that_somebody_has_written_since_is_not_deleted() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    let written = storage.create(&release(1, 1, 1), &Marks::default()).await.unwrap();
    storage.update(&release(1, 1, 2), &marks()).await.unwrap();
    let known = [Known { version: 1, resource_version: Some(written.resource_version) }];
    let error = storage.delete_all("ns", "web", &known, 1).await.unwrap_err();
    assert!(matches!(error, Error::Api { source, .. } if source.is_conflict()));
    assert_eq!(server.paths().len(), 1);
}

#[test]
fn the_bound_of_a_records_size_holds_even_where_nothing_compresses() {
    for files in [0, 1, 1000, 300_000] {
        let release = release(1, files, files);
        assert!(Packed::bound(&release).unwrap() >= Packed::pack(&release).unwrap().to_record().len(), "{files}");
    }
}

#[test]
fn a_release_must_leave_room_for_its_outcome() {
    let sized = |manifest: usize| Release { manifest: release(1, 1, manifest).info.notes, ..release(1, 1, 1) };
    check_fits(&sized(1)).unwrap();
    let bytes = |length| Packed::pack(&sized(length)).unwrap().to_record().len();
    let each = (bytes(100_000) - bytes(0)) as f64 / 100_000.0;
    let largest = ((MAX_RECORD - HEADROOM / 2) as f64 / each) as usize;
    fit(&sized(largest)).unwrap();
    let error = check_fits(&sized(largest)).unwrap_err().to_string();
    assert!(error.starts_with("release \"web\" is too large to record: 10"), "{error}");
    check_fits(&sized(largest - 2 * HEADROOM)).unwrap();
}

#[test]
fn a_release_whose_record_could_not_be_read_again_is_refused() {
    let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({"a": inner}));
    for levels in [1, 125, 126, 127, 200] {
        let release = Release { config: nested(levels), ..release(1, 1, 1) };
        let packed = Packed::pack(&release).unwrap();
        let is_read = Packed::from_record(packed.to_record().as_bytes(), BTreeMap::new()).is_ok();
        assert_eq!((packed.unpack().is_ok(), is_read), (levels < 127, levels < 127), "{levels}");
        assert_eq!(check_fits(&release).is_ok(), is_read, "{levels}");
    }
    let refused = |release: Release| outside::chain(&check_fits(&release).unwrap_err());
    let heavy = refused(Release { config: json!(vec![json!({}); 110_000]), ..release(1, 1, 1) });
    assert!(heavy.ends_with(": release record needs more than 67108864 bytes of memory"), "{heavy}");
    let large = refused(Release { manifest: "a".repeat(32 << 20), ..release(1, 1, 1) });
    assert!(large.ends_with(": release record is larger than 33554432 bytes unpacked"), "{large}");
    let deep = refused(Release { config: nested(200), ..release(1, 1, 1) });
    let expected = "release \"web\" cannot be recorded, because its record could not be read again; simplify the values of its \
                    resource, or split the chart: release record nests more than 127 levels deep";
    assert_eq!(deep, expected);
}

#[test]
fn a_clock_that_was_set_back_does_not_make_a_record_look_newer_than_now() {
    let now = jiff::Timestamp::from_second(1_000_000).unwrap();
    let written = |created: i64, label: i64| {
        let created = jiff::Timestamp::from_second(created).unwrap();
        let metadata = json!({"creationTimestamp": created.to_string(), "labels": {"createdAt": label.to_string()}});
        super::meta::written(&serde_json::from_value(metadata).unwrap(), now).unwrap().as_second()
    };
    for (created, label, expected) in [
        (999_000, 999_500, 999_500),
        (999_900, 999_500, 999_900),
        (999_000, 2_000_000, 999_000),
        (2_000_000, 999_500, 1_000_000),
        (2_000_000, 2_000_000, 1_000_000),
    ] {
        assert_eq!(written(created, label), expected, "created {created}, labelled {label}");
    }
}

#[tokio::test]
async fn a_replaced_revision_whose_record_cannot_be_rewritten_changes_only_its_label() {
    let too_large = Release { manifest: release(1, 1, 1_200_000).info.notes, ..release(1, 1, 1) };
    let too_large = STANDARD.encode(Packed::pack(&too_large).unwrap().to_record());
    for data in ["AAAA".to_owned(), too_large] {
        let server = Arc::new(MemoryApi::new());
        let storage = Storage::new(server.clone(), sample::keys());
        let deployed = Release { info: Info { status: Status::Deployed, ..Info::default() }, ..release(1, 1, 1) };
        storage.create(&deployed, &marks()).await.unwrap();
        let mut secret = server.object(RECORD).unwrap();
        secret["data"]["release"] = data.into();
        server.put(RECORD, secret, "user");
        let before = server.object(RECORD).unwrap();
        let version = before["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        let superseded = async |resource_version| {
            let known = Known { version: 1, resource_version };
            storage.supersede_as_read(WEB, known, storage.get("ns", "web", 1).await).await
        };
        superseded(None).await.unwrap_err();
        superseded(Some(version - 1)).await.unwrap_err();
        assert_eq!(server.object(RECORD).unwrap(), before, "it may be another one");
        let written = superseded(Some(version)).await.unwrap();
        let after = server.object(RECORD).unwrap();
        assert_eq!(after["metadata"]["resourceVersion"], written.to_string());
        assert_eq!(after["metadata"]["labels"]["status"], "superseded");
        for field in ["/data", "/metadata/uid", "/metadata/annotations", "/metadata/labels/modifiedAt"] {
            assert_eq!(after.pointer(field), before.pointer(field), "{field}");
        }
    }
}

/// Returns a record with this JSON, as anyone could put it into a Secret.
fn crafted(json: &str) -> String {
    use std::io::Write as _;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(json.as_bytes()).unwrap();
    STANDARD.encode(gzip.finish().unwrap())
}

async fn read_crafted(json: &str) -> Result<Record, String> {
    let server = Arc::new(MemoryApi::new());
    let data = json!({"release": STANDARD.encode(crafted(json))});
    server.put(RECORD, json!({"metadata": {"name": "sh.helm.release.v1.web.v1"}, "data": data}), "user");
    Storage::new(server, sample::keys()).get("ns", "web", 1).await.map_err(|error| error.source().unwrap().to_string())
}

#[tokio::test]
async fn crafted_records_are_rejected_before_they_cost_memory() {
    let many = |item: &str, count: usize| format!("[{}{item}]", format!("{item},").repeat(count));
    let large = "release record is larger than 33554432 bytes unpacked";
    let values = "release record needs more than 67108864 bytes of memory";
    for (what, json, expected) in [
        ("text", format!(r#"{{"manifest":"{}"}}"#, "a".repeat(33 << 20)), large),
        ("maps", format!(r#"{{"chart":{{}},"config":{}}}"#, many(r#"{"a":0}"#, 128 << 10)), values),
        ("numbers", format!(r#"{{"chart":{{}},"config":{}}}"#, many("0", 3 << 20)), values),
        ("hooks", format!(r#"{{"chart":{{}},"hooks":{}}}"#, many("{}", 128 << 10)), values),
        (
            "depth",
            format!(r#"{{"chart":{{}},"config":{}{}}}"#, "[".repeat(1 << 20), "]".repeat(1 << 20)),
            "cannot parse release record",
        ),
    ] {
        assert_eq!(read_crafted(&json).await.unwrap_err(), expected, "{what}");
    }
    let chart = format!(r#"{{"chart":{{"metadata":{{"name":"c"}},"values":{}}}}}"#, many("0", 3 << 20));
    let read = read_crafted(&chart).await.unwrap().release.facts().clone();
    let error = read.differs_from(&read.chart, &json!({})).unwrap_err();
    assert_eq!(error.to_string(), values, "a chart is text until it is compared");
}

#[tokio::test]
async fn a_large_record_is_decoded_while_others_go_on() {
    let json = format!(r#"{{"chart":{{}},"manifest":"{}"}}"#, "a: b\\n".repeat(2 << 20));
    let reading = read_crafted(&json);
    tokio::pin!(reading);
    let mut turns = 0_usize;
    let read = loop {
        tokio::select! {
            biased;
            read = &mut reading => break read,
            () = tokio::task::yield_now() => turns += 1,
        }
    };
    assert!(turns > 20, "{turns} turns");
    assert_eq!(read.map(|read| read.release.facts().manifest.len()), Ok(5 * (2 << 20)));
}

/// How a record changes after this operator wrote it.
type Tampering = fn(&mut Value);

#[tokio::test]
async fn a_record_says_whether_an_operator_with_another_key_sealed_it() {
    let other = Keyring::new(Key::new(&[2; 32]).unwrap(), Vec::new());
    let both = Keyring::new(Key::new(&[2; 32]).unwrap(), vec![Key::new(&[3; 32]).unwrap()]);
    let old = Keyring::new(Key::new(&[3; 32]).unwrap(), Vec::new());
    for (sealed_with, read_with, seal, expected) in [
        (&other, &other, None, false),
        (&other, &old, None, true),
        (&old, &both, None, false),
        (&other, &old, Some("no seal"), false),
        (&other, &old, Some(""), false),
    ] {
        let server = Arc::new(MemoryApi::new());
        Storage::new(server.clone(), sealed_with.clone()).create(&release(1, 1, 1), &marks()).await.unwrap();
        let mut secret = server.object(RECORD).unwrap();
        if let Some(seal) = seal {
            secret["metadata"]["annotations"][SEAL_ANNOTATION] = seal.into();
        }
        server.restore(RECORD, secret);
        let read = Storage::new(server, read_with.clone()).history("ns", "web").await.unwrap();
        assert_eq!(read[0].has_other_key, expected);
    }
}

#[tokio::test]
async fn only_a_record_as_it_was_written_is_sealed() {
    let cases: [(&str, Tampering, Proof, bool); 9] = [
        ("as written", |_| (), Proof::Foreign, true),
        (
            "another manifest",
            |secret| secret["data"]["release"] = STANDARD.encode(crafted(r#"{"chart":{},"manifest":"x"}"#)).into(),
            Proof::Foreign,
            false,
        ),
        (
            "other marks",
            |secret| secret["metadata"]["annotations"][MARKS_ANNOTATION] = Marks::default().to_text().into(),
            Proof::Broken,
            false,
        ),
        ("another status", |secret| secret["metadata"]["labels"]["status"] = "deployed".into(), Proof::Broken, false),
        (
            "another seal",
            |secret| secret["metadata"]["annotations"][SEAL_ANNOTATION] = "a.b.c".into(),
            Proof::Broken,
            false,
        ),
        (
            "no seal",
            |secret| _ = secret["metadata"]["annotations"].as_object_mut().unwrap().remove(SEAL_ANNOTATION),
            Proof::Broken,
            false,
        ),
        ("neither marks nor seal", |secret| secret["metadata"]["annotations"] = Value::Null, Proof::Foreign, false),
        (
            "another owner label",
            |secret| secret["metadata"]["labels"][OWNER_LABEL] = "else".into(),
            Proof::Foreign,
            true,
        ),
        ("another annotation", |secret| secret["metadata"]["annotations"]["a"] = "b".into(), Proof::Foreign, true),
    ];
    for (what, tamper, unsealed, is_sealed) in cases {
        let server = Arc::new(MemoryApi::new());
        let storage = Storage::new(server.clone(), sample::keys());
        let written = storage.create(&release(1, 1, 1), &marks()).await.unwrap();
        let mut secret = server.object(RECORD).unwrap();
        tamper(&mut secret);
        server.restore(RECORD, secret);
        let record = storage.get("ns", "web", 1).await.unwrap();
        assert_eq!((record.release.is_sealed(), record.marks.is_some()), (is_sealed, is_sealed), "{what}");
        let meta = storage.history("ns", "web").await.unwrap().remove(0);
        // Metadata alone does not show that the content differs.
        let expected =
            if is_sealed || what == "another manifest" { Proof::Sealed(written.packed.content()) } else { unsealed };
        assert_eq!(meta.proof, expected, "{what}");
        assert_eq!(
            meta.owners,
            if meta.marks.is_some() { vec!["u".to_owned()] } else { meta.owners.clone() },
            "{what}"
        );
    }
}

/// Go has times that Rust's type does not, and whoever may write a Secret decides what its managed fields contain.
#[tokio::test]
async fn a_record_is_read_and_written_whatever_its_managed_fields_contain() {
    let label = json!({"f:metadata": {"f:labels": {"f:note": {}}}});
    let deep = (0..200).fold(json!({}), |inner, _| json!({"f:note": inner}));
    for (time, fields) in [("9999-12-31T23:59:59Z", label), ("2020-01-01T00:00:00Z", deep)] {
        let server = Arc::new(MemoryApi::new());
        let storage = Storage::new(server.clone(), sample::keys());
        storage.create(&release(1, 1, 1), &marks()).await.unwrap();
        let mut secret = server.object(RECORD).unwrap();
        secret["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update", "apiVersion": "v1",
            "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}]);
        server.restore(RECORD, secret);
        assert!(storage.get("ns", "web", 1).await.unwrap().release.is_sealed(), "{time}");
        let updated = storage.update(&release(1, 1, 2), &marks()).await.unwrap();
        let stored = server.object(RECORD).unwrap()["metadata"].clone();
        assert!(stored["managedFields"].to_string().contains(time));
        assert_eq!(stored["resourceVersion"], updated.resource_version.to_string());
        assert_eq!(updated.packed.get().record_uid().as_deref(), stored["uid"].as_str());
        let version = storage.mark(WEB, &body(&updated), &marks(), &Precondition::None).await.unwrap();
        assert!(version >= updated.resource_version, "{time}: {version}");
    }
}

#[test]
fn little_is_kept_of_what_others_add_to_a_records_metadata() {
    let owner = |uid: String| json!({"apiVersion": "no.such/v1", "kind": "No", "name": "n", "uid": uid});
    let long = "é".repeat(2_000);
    let owners: Vec<Value> = (0..1000).map(|n| owner(format!("{n}{long}"))).collect();
    let metadata = |owners: &[Value], writer: &str| {
        let metadata = json!({
            "name": "sh.helm.release.v1.web.v1", "namespace": "ns", "labels": {"name": "web", "version": "1"},
            "annotations": {WRITER_ANNOTATION: writer}, "ownerReferences": owners,
        });
        RecordMeta::read(&serde_json::from_value(metadata).unwrap(), &sample::keys()).unwrap()
    };
    let hostile = metadata(&owners, &long);
    let kept: Vec<usize> = hostile.owners.iter().map(String::len).collect();
    assert!(kept.len() == 8 && kept.iter().all(|length| (500..=512).contains(length)), "{kept:?}");
    assert_eq!(hostile.writer, None);
    let pod = format!("{}_0123456789abcdef", "p".repeat(253));
    let usual = metadata(&[owner("u".into())], &pod);
    assert_eq!((usual.owners, usual.writer), (vec!["u".to_owned()], Some(pod)));
}

#[tokio::test]
async fn a_record_is_sealed_in_its_place_only() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    storage.create(&release(1, 1, 1), &marks()).await.unwrap();
    let record = server.object(RECORD).unwrap();
    for (namespace, name, version) in [("ns", "web", 2), ("ns", "other", 1), ("else", "web", 1)] {
        let mut copy = record.clone();
        let key = release::key(name, version);
        copy["metadata"]["name"] = key.as_str().into();
        copy["metadata"]["namespace"] = namespace.into();
        (copy["metadata"]["labels"]["name"], copy["metadata"]["labels"]["version"]) =
            (name.into(), version.to_string().into());
        server.restore(&format!("/api/v1/namespaces/{namespace}/secrets/{key}"), copy);
        let read = storage.get(namespace, name, version).await.unwrap();
        assert!(!read.release.is_sealed(), "{namespace}/{name} {version}");
        // The identity that it claims would make a rewrite replace another record.
        let facts = read.release.facts();
        assert_eq!((&*facts.namespace, &*facts.name, facts.version), (namespace, name, version));
    }
}

#[tokio::test]
async fn records_of_an_earlier_key_are_sealed_and_get_the_current_ones_seal_with_the_next_write() {
    let server = Arc::new(MemoryApi::new());
    let key = |byte| Key::new(&[byte; 32]).unwrap();
    let old = Storage::new(server.clone(), Keyring::new(key(1), vec![]));
    let rotated = Storage::new(server.clone(), Keyring::new(key(2), vec![key(1)]));
    let new = Storage::new(server.clone(), Keyring::new(key(2), vec![]));
    let is_sealed = async |storage: &Storage| storage.get("ns", "web", 1).await.unwrap().release.is_sealed();
    let written = old.create(&release(1, 1, 1), &marks()).await.unwrap();
    assert_eq!((is_sealed(&rotated).await, is_sealed(&new).await), (true, false));
    let before = server.object(RECORD).unwrap()["data"].clone();
    rotated.mark(WEB, &body(&written), &Marks::default(), &Precondition::None).await.unwrap();
    assert_eq!((is_sealed(&rotated).await, is_sealed(&new).await, is_sealed(&old).await), (true, true, false));
    assert_eq!(server.object(RECORD).unwrap()["data"], before);
}

/// Stores what looks like a record of this revision, as anyone who may write Secrets can.
fn make_up(server: &MemoryApi, version: u32) {
    let key = release::key("web", version);
    let labels = json!({"name": "web", "owner": "helm", "status": "deployed", "version": version.to_string()});
    let secret = json!({"metadata": {"name": key, "labels": labels}});
    server.put(&format!("/api/v1/namespaces/ns/secrets/{key}"), secret, "user");
}

#[tokio::test]
async fn revisions_beyond_any_real_one_are_no_records() {
    let server = Arc::new(MemoryApi::new());
    for version in [u32::MAX, 1 << 31, 1 << 30] {
        make_up(&server, version);
    }
    assert!(Storage::new(server, sample::keys()).history("ns", "web").await.unwrap().is_empty());
}

#[tokio::test]
async fn the_revision_after_the_highest_one_that_anyone_can_make_up_is_read() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone(), sample::keys());
    let highest: u32 = (1 << 30) - 1;
    make_up(&server, highest);
    storage.create(&release(highest + 1, 1, 1), &marks()).await.unwrap();
    let known = storage.history("ns", "web").await.unwrap();
    assert_eq!(known.iter().map(|meta| meta.version).collect::<Vec<_>>(), [highest, highest + 1]);
    assert!(matches!(known[1].proof, Proof::Sealed(_)));
}
