//! Tests of what the cache trusts: late responses, older events, other uids, and a release's last inventory.

use std::sync::Arc;

use controller::runtime::freshness::CONFIRMATION;
use controller::runtime::reflector::First;
use helm_release::action::RecordedFailure;
use helm_release::kube::{Applied, ApplyMethod, Live, Mark, ObjectDigest, ObjectKey};
use helm_release::release::Status;
use helm_release::storage::{MarkedObject, Marks};

use crate::charts::tests::*;
use crate::reconcile::decide::memory::Memory;
use crate::view::coverage::Loss;
use crate::view::coverage::kind_key;
use crate::view::dependent::{Claim, Dependent};
use crate::view::release::{ReleaseRecords, Revision};
use crate::view::releases::ReleaseListener;

pub(super) fn epoch(number: u64) -> Epoch {
    Epoch { number, began: Instant::now(), is_list: false }
}

fn live(uid: &str, version: u64) -> Live {
    let metadata = json!({"name": "a", "namespace": "ns", "uid": uid, "resourceVersion": version.to_string()});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn marked(mark: u64, version: u64) -> Live {
    let mut live = live("u", version);
    live.mark = Some(Mark(mark));
    live
}

fn claim() -> Claim {
    Claim { owner: Some(key()), ours: true }
}

fn applied(uid: &str, version: u64) -> Applied {
    Applied {
        key: object_key("ConfigMap", "a"),
        api_version: "v1".into(),
        digest: ObjectDigest::parse("0123456789abcdef").unwrap(),
        kept: false,
        expires: false,
        drift: None,
        live: live(uid, version),
        method: ApplyMethod::Server,
        changed: true,
        turn: Default::default(),
    }
}

fn of(uid: &str, version: u64, spec: u64) -> Primary {
    let metadata = json!({
        "name": "web", "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(), "generation": spec,
    });
    serde_json::from_value::<Received>(json!({"metadata": metadata, "spec": {"n": spec}})).unwrap().primary
}

pub(super) fn record(version: u32, resource_version: u64) -> RecordMeta {
    let labels = json!({"owner": "helm", "name": "web", "version": version.to_string(), "status": "deployed"});
    let name = format!("sh.helm.release.v1.web.v{version}");
    let metadata =
        json!({"name": name, "namespace": "ns", "labels": labels, "resourceVersion": resource_version.to_string()});
    RecordMeta::read(&serde_json::from_value(metadata).unwrap(), &keys()).unwrap()
}

pub(super) fn revision(status: Status, objects: &[&str]) -> Revision {
    let object = |name: &&str| MarkedObject::new(object_key("ConfigMap", name), "v1".into());
    let marks = Marks {
        owner: "uid".into(),
        owner_type: "Memcached.cache.my.domain".into(),
        taken_over: true,
        string_overrides: true,
        objects: objects.iter().map(object).collect(),
        ..Marks::default()
    };
    Revision::written_by_us(status, marks)
}

fn with_revisions(revisions: &[(u32, Status, &[&str])]) -> Cache {
    let cache = Cache::default();
    cache.change_release(&key(), |release| {
        for (version, status, objects) in revisions {
            release.revisions.insert(*version, revision(*status, objects));
        }
    });
    cache
}

#[tokio::test(start_paused = true)]
async fn for_five_minutes_a_late_answer_does_not_bring_a_deleted_object_back() {
    let cache = Cache::default();
    let a = object_key("ConfigMap", "a");
    let delete = |uid: &str| cache.remove_dependent(&a, &live(uid, 9));
    let comes_back = || {
        cache.store_applied(&[applied("first", 1)], &key());
        cache.dependent(&a).is_some()
    };
    delete("first");
    delete("second");
    assert!(!comes_back());
    tokio::time::advance(300 * SECOND).await;
    delete("third");
    assert!(!comes_back(), "the five minutes are not over");
    tokio::time::advance(SECOND).await;
    delete("fourth");
    assert!(comes_back(), "what is remembered for ever fills the memory");
}

#[tokio::test(start_paused = true)]
async fn the_newer_version_of_a_resource_wins_and_another_uid_replaces_it() {
    let cache = Cache::default();
    let generation = || cache.primary(&key()).unwrap().generation;
    assert!(cache.store_primary(of("u", 5, 1), epoch(1)));
    assert!(!cache.store_primary(of("u", 4, 2), epoch(1)), "an older event is no news");
    assert_eq!(generation(), 1);
    assert!(!cache.store_primary(of("u", 6, 1), epoch(1)), "a write of the status alone is nothing to act on");
    assert!(cache.store_primary(of("u", 7, 2), epoch(1)));
    assert!(cache.store_primary(of("other", 3, 3), epoch(1)), "versions of two objects do not compare");
    assert_eq!(generation(), 3);
    assert!(!cache.remove_primary(&key(), "u"), "the one before is gone already");
    assert!(cache.remove_primary(&key(), "other"));
}

#[test]
fn only_a_resource_with_the_labels_that_the_watch_selects_is_admitted() {
    let selector = kube::core::Selector::from_iter([("tier", "prod")]);
    let acceptance = Acceptance { selector, ..Acceptance::default() };
    let admits = |labels: &Value| {
        let metadata = json!({"name": "web", "namespace": "ns", "uid": "u", "labels": labels});
        let received = serde_json::from_value::<Received>(json!({"metadata": metadata})).unwrap();
        acceptance.admit(received, &[], None).is_some()
    };
    assert!(admits(&json!({"tier": "prod", "a": "b"})));
    for labels in [json!({"tier": "test"}), json!({"a": "prod"}), json!({}), Value::Null] {
        assert!(!admits(&labels), "{labels}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_from_before_a_deletion_does_not_bring_a_resource_back() {
    let list = || Epoch { number: 1, began: Instant::now(), is_list: true };
    let (cache, early) = (Cache::default(), list());
    tokio::time::advance(SECOND).await;
    cache.store_primary(of("u", 5, 1), epoch(1));
    assert!(cache.remove_primary(&key(), "u"), "the answer to our own write shows it");
    tokio::time::advance(SECOND).await;
    for (what, version, epoch) in [("older", 4, epoch(1)), ("unseen", 7, epoch(1)), ("listed before", 7, early)] {
        assert!(!cache.store_primary(of("u", version, 2), epoch) && cache.primary(&key()).is_none(), "{what}");
    }
    assert!(cache.store_primary(of("u", 3, 1), list()), "the server was restored");
    assert!(cache.store_primary(of("u", 4, 2), epoch(1)));
}

#[tokio::test(start_paused = true)]
async fn an_event_brings_back_what_a_list_lacks_and_a_late_answer_does_not() {
    let cache = Cache::default();
    cache.store_primary(of("u", 5, 1), epoch(1));
    assert!(cache.unlist_primary(&key(), "u"));
    assert!(!cache.store_written_primary(of("u", 6, 1)) && cache.primary(&key()).is_none());
    assert!(cache.store_primary(of("u", 4, 1), epoch(2)), "events follow the list of a restored server");
    cache.store_written_primary(of("u", 6, 3));
    assert_eq!(cache.primary(&key()).unwrap().generation, 3);
}

#[tokio::test(start_paused = true)]
async fn only_the_event_of_a_write_confirms_it_not_an_older_one() {
    let cache = Cache::default();
    let before = Epoch { number: 2, began: Instant::now(), is_list: false };
    tokio::time::advance(SECOND).await;
    cache.store_written_primary(of("u", 5, 1));
    cache.store_primary(of("u", 4, 1), epoch(1));
    assert!(cache.unlisted_primaries(&WatchScope::ALL, before).is_empty(), "written after the list began");
    cache.store_primary(of("u", 5, 1), epoch(1));
    assert_eq!(cache.unlisted_primaries(&WatchScope::ALL, before).len(), 1, "confirmed, and the next list lacks it");

    let a = object_key("ConfigMap", "a");
    let asked = || cache.ask_at(&[&object_key("ConfigMap", "unknown"), &a]);
    cache.store_applied(&[applied("u", 5)], &key());
    assert_eq!(asked(), Some(Instant::now() + CONFIRMATION));
    cache.store_dependent(a.clone(), &live("u", 4), claim(), epoch(1));
    assert!(asked().is_some());
    assert!(cache.overdue(&[&a]).is_empty());
    tokio::time::advance(CONFIRMATION).await;
    assert_eq!(cache.overdue(&[&a]), std::slice::from_ref(&a));
    cache.store_dependent(a.clone(), &live("u", 5), claim(), epoch(1));
    assert_eq!(asked(), None);
}

#[tokio::test(start_paused = true)]
async fn a_write_confirmed_by_the_server_is_not_read_again() {
    let cache = Cache::default();
    let a = object_key("ConfigMap", "a");
    cache.store_applied(&[applied("u", 5)], &key());
    cache.confirm(&a, Some((&live("u", 5), claim())));
    assert_eq!(cache.ask_at(&[&a]), None);
    cache.store_applied(&[applied("u", 6)], &key());
    cache.confirm(&a, Some((&live("other", 9), claim())));
    assert!(cache.dependent(&a).is_none(), "another object has its name");
}

/// Nothing would notice the newer state again: a list brings the version that the cache already has.
#[tokio::test(start_paused = true)]
async fn an_event_that_arrives_before_the_answer_to_a_confirmation_stays() {
    let a = object_key("ConfigMap", "a");
    for read in [Some((&marked(1, 5), claim())), Some((&live("other", 4), claim())), None] {
        let cache = Cache::default();
        cache.store_applied(&[applied("u", 5)], &key());
        cache.store_dependent(a.clone(), &marked(8, 7), claim(), epoch(1));
        cache.confirm(&a, read);
        let known = cache.dependent(&a).unwrap();
        assert_eq!((known.mark, known.resource_version), (Some(Mark(8)), 7));
    }
}

#[tokio::test(start_paused = true)]
async fn our_own_deletion_counts_before_its_event() {
    let (cache, a) = (Cache::default(), object_key("ConfigMap", "a"));
    let is_deleting = || cache.dependent(&a).unwrap().deleting;
    cache.store_applied(&[applied("u", 5)], &key());
    cache.note_deletion(&a, "other");
    assert!(!is_deleting(), "another object had its name");
    cache.note_deletion(&a, "u");
    for version in [4, 5] {
        cache.store_dependent(a.clone(), &live("u", version), claim(), epoch(1));
        assert!(is_deleting(), "an event from before, of version {version}");
    }
    cache.note_deletion(&a, "u");
    tokio::time::advance(SECOND).await;
    let list = Epoch { number: 2, began: Instant::now(), is_list: true };
    cache.store_dependent(a.clone(), &live("u", 5), claim(), list);
    assert!(!is_deleting(), "the server was restored");
    cache.note_deletion(&a, "u");
    cache.store_applied(&[applied("v", 7)], &key());
    assert!(!is_deleting(), "it was made again");
    cache.remove_dependent(&a, &live("u", 6));
    assert!(cache.dependent(&a).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_a_confirmation_finds_counts_at_once() {
    let cache = Cache::default();
    let a = object_key("ConfigMap", "a");
    cache.store_applied(&[applied("u", 5)], &key());
    cache.confirm(&a, Some((&marked(7, 6), Claim { ours: false, ..claim() })));
    let known = cache.dependent(&a).unwrap();
    assert_eq!((known.mark, known.ours, known.resource_version), (Some(Mark(7)), false, 5));
    assert!(cache.store_dependent(a.clone(), &marked(8, 6), claim(), epoch(1)).is_some(), "its event has the rest");
}

#[tokio::test(start_paused = true)]
async fn a_lost_inventory_is_kept_while_the_resource_exists() {
    let server = Arc::new(MemoryApi::new());
    server.serve("cache.my.domain/v1", "Memcached", "memcacheds");
    let world = World::on(server);
    let lose = || ReleaseListener::release_lost(&*world.shared, &key(), &Arc::default());
    let is_lost = || world.shared.memory.of(&key()).release.lost.is_some();
    lose();
    assert!(!is_lost(), "nobody is there to uninstall it for");
    world.shared.cache.store_written_primary(of("u", 1, 1));
    lose();
    assert!(is_lost());
    world.shared.primary_deleted(&key(), "u");
    assert!(!is_lost());
}

#[test]
fn relevant_changes_and_the_deletion_of_an_object_wake_its_owner() {
    let cache = Cache::default();
    let a = object_key("ConfigMap", "a");
    let see = |live: &Live| cache.store_dependent(a.clone(), live, claim(), epoch(1));
    assert_eq!(see(&marked(1, 5)), Some(key()));
    assert_eq!(see(&marked(1, 6)), None, "nothing that we look at");
    assert_eq!(see(&marked(2, 7)), Some(key()));
    assert_eq!(see(&marked(3, 6)), None, "an older event");
    assert_eq!(cache.remove_dependent(&a, &live("other", 9)), None);
    assert!(cache.dependent(&a).is_some());
    assert_eq!(cache.remove_dependent(&a, &live("u", 9)), Some(key()));
    assert!(cache.dependent(&a).is_none());
    see(&live("v", 10));
    assert_eq!(cache.drop_dependent(&a), Some(key()));
    assert_eq!(cache.drop_dependent(&a), None);
}

#[tokio::test(start_paused = true)]
async fn anothers_object_replaces_ours_unless_ours_is_newer() {
    let a = object_key("ConfigMap", "a");
    let list = |began| Epoch { number: 2, began, is_list: true };
    let before = list(Instant::now());
    tokio::time::advance(SECOND).await;
    for (behaviour, version, epoch, stays) in [
        ("a late event", 7, Some(epoch(1)), true),
        ("an answer from before our apply", 7, None, true),
        ("a list from before our apply", 7, Some(before), true),
        ("an event", 10, Some(epoch(1)), false),
        ("an answer", 10, None, false),
        ("the list of a restored server", 7, Some(list(Instant::now() + SECOND)), false),
    ] {
        let cache = Cache::default();
        cache.store_applied(&[applied("u", 9)], &key());
        let woken = cache.replace_dependent(&a, &live("others", version), epoch);
        assert_eq!((cache.dependent(&a).is_some(), woken.is_none()), (stays, stays), "{behaviour}");
    }
}

#[test]
fn a_list_does_not_affect_other_kinds() {
    let cache = Cache::default();
    let keys = [
        object_key("ConfigMap", "a"),
        object_key("Secret", "a"),
        ObjectKey { group: "example.com".into(), ..object_key("ConfigMap", "a") },
    ];
    for key in &keys {
        cache.store_dependent(key.clone(), &live("u", 5), claim(), epoch(1));
    }
    assert_eq!(
        cache.sweep_dependents(&config_maps(), &WatchScope::ALL, epoch(2)).into_iter().collect::<Vec<_>>(),
        [key()]
    );
    let left: Vec<bool> = keys.iter().map(|key| cache.dependent(key).is_some()).collect();
    assert_eq!(left, [false, true, true]);
}

#[test]
fn a_kind_is_watched_once_and_known_where_it_was_listed() {
    let cache = Cache::default();
    let a = object_key("ConfigMap", "a");
    assert!(cache.start_kind(&config_maps()) && !cache.start_kind(&config_maps()));
    assert!(!cache.is_synced(&a), "it is not listed yet");
    cache.kind_synced(&config_maps(), &WatchScope::namespace("other"), 1);
    assert!(!cache.is_synced(&a));
    cache.kind_synced(&config_maps(), &WatchScope::namespace("ns"), 1);
    assert!(cache.is_synced(&a) && !cache.is_synced(&object_key("Secret", "a")));
}

#[test]
fn a_kind_that_can_no_longer_be_watched_is_unknown_in_that_namespace_only() {
    let (cache, kind) = (Cache::default(), kind_key(&config_maps()));
    let [ours, other] = ["ns", "other"].map(WatchScope::namespace);
    let a = object_key("ConfigMap", "a");
    cache.start_kind(&config_maps());
    assert!(!cache.kind_lost(&kind, &ours, Loss::Refused), "it was not known");
    assert!(!cache.kind_synced(&config_maps(), &ours, 1) && !cache.kind_synced(&config_maps(), &other, 1));
    assert!(cache.kind_lost(&kind, &other, Loss::Refused));
    let theirs = ObjectKey { namespace: "other".into(), ..a.clone() };
    assert!(cache.is_synced(&a) && !cache.is_refused(&a) && cache.is_refused(&theirs));
    assert!(cache.kind_lost(&kind, &ours, Loss::Refused) && !cache.is_synced(&a));
    assert!(!cache.kind_lost(&kind, &ours, Loss::Refused), "that is no news");
    assert!(cache.kind_lost(&kind, &ours, Loss::Unserved) && cache.is_unserved(&a), "that is");
    assert!(!cache.start_kind(&config_maps()), "its watch is tried again");
    assert!(cache.kind_synced(&config_maps(), &ours, 1), "its owners must look for what they missed");
    assert!(cache.is_synced(&a) && !cache.is_unserved(&a) && !cache.is_refused(&a) && cache.is_refused(&theirs));
    assert!(cache.kind_synced(&config_maps(), &other, 1), "and so must the owners in the other namespace");
    assert!(!cache.is_refused(&a) && !cache.is_refused(&theirs));
}

#[test]
fn a_namespace_whose_list_is_refused_stays_refused_after_a_list_of_another() {
    let cache = Cache::default();
    let [mine, other] = ["ns", "other"].map(WatchScope::namespace);
    let a = object_key("ConfigMap", "a");
    cache.start_kind(&config_maps());
    assert!(!cache.kind_synced(&config_maps(), &other, 1));
    cache.kind_listed(&config_maps(), Some(First::Refused));
    assert!(!cache.kind_synced(&config_maps(), &other, 1), "an expired watch lists again");
    assert!(cache.is_refused(&a) && !cache.is_synced(&a), "nothing covers it");
    assert!(cache.kind_synced(&config_maps(), &mine, 1) && !cache.is_refused(&a), "the right is granted");
}

#[test]
fn the_kinds_to_watch_are_those_of_the_releases_of_resources_that_exist() {
    let cache = with_revisions(&[(1, Status::Deployed, &["a"])]);
    assert!(cache.kinds_of_releases().is_empty());
    cache.store_written_primary(of("u", 1, 1));
    assert_eq!(cache.kinds_of_releases().into_iter().collect::<Vec<_>>(), [("v1".into(), "ConfigMap".into())]);
    assert_eq!(cache.resources_with(&config_maps()), [key()]);
    assert!(cache.resources_with(&resource("v1", "Secret", "secrets")).is_empty());
}

#[test]
fn the_base_is_the_deployed_revision_or_else_the_newest_superseded_one() {
    use Status::{Deployed, Failed, Superseded};
    for (statuses, expected) in [
        (&[Superseded, Deployed, Failed][..], Some(2)),
        (&[Superseded, Superseded, Failed], Some(2)),
        (&[Failed, Failed], None),
        (&[Deployed, Superseded], Some(1)),
    ] {
        let revisions: Vec<(u32, Status, &[&str])> =
            (1..).zip(statuses).map(|(version, status)| (version, *status, &[][..])).collect();
        assert_eq!(with_revisions(&revisions).release(&key()).unwrap().last_good(), expected, "{statuses:?}");
    }
}

#[test]
fn only_the_owners_of_older_revisions_are_kept() {
    let cache = with_revisions(&[
        (1, Status::Superseded, &["old"]),
        (2, Status::Superseded, &[]),
        (3, Status::Deployed, &["a"]),
        (4, Status::Failed, &["b"]),
    ]);
    let release = cache.release(&key()).unwrap();
    let objects: Vec<usize> =
        release.revisions.values().map(|r| r.marks.as_ref().map_or(0, |m| m.objects.len())).collect();
    assert_eq!(objects, [0, 0, 1, 1]);
    let old = release.revisions[&1].marks.clone().unwrap();
    assert_eq!((&*old.owner, &*old.owner_type, old.taken_over), ("uid", "Memcached.cache.my.domain", true));
}

#[tokio::test(start_paused = true)]
async fn a_history_that_says_nothing_takes_no_memory() {
    let memory = Memory::default();
    memory.change(&key(), |memory| memory.triggers.resynced = Some(Instant::now()));
    assert_eq!(memory.len(), 1);
    memory.change(&key(), |memory| memory.triggers.resynced = None);
    assert_eq!(memory.len(), 0);
}

/// Returns the cache of a controller whose status fields read ConfigMaps.
fn reading_maps() -> Cache {
    let text = "- version: v1\n  kind: Memcached\n  status: {data: objects.ConfigMap}";
    let watch = crate::watches::parse(text, |_| None).unwrap().watches.remove(0);
    Cache::default().judging(Arc::new(watch.expressions))
}

/// Returns a ConfigMap whose version has one digit, with so many bytes of data, which the version determines.
fn map(name: &str, version: u64, bytes: usize) -> Live {
    let version = version.to_string();
    let metadata = json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": version});
    let object = json!({"metadata": metadata, "data": {"x": version.repeat(bytes)}});
    serde_json::from_value::<Whole>(object).unwrap().live
}

#[test]
fn a_large_object_that_changes_keeps_its_place_in_a_full_room() {
    let cache = reading_maps();
    let kept = |name: &str| {
        let known = cache.dependent(&object_key("ConfigMap", name)).unwrap();
        known.whole.as_ref().map(|text| text.as_ref().to_owned())
    };
    let store = |name: &str, version, bytes| {
        cache.store_dependent(object_key("ConfigMap", name), &map(name, version, bytes), claim(), epoch(1));
        kept(name)
    };
    let rest = store("m000", 1, 0).unwrap().len();
    let bytes = (128 << 10) - rest;
    for number in 1..=128 {
        assert!(store(&format!("m{number:03}"), 1, bytes).is_some(), "{number}");
    }
    assert_eq!(store("m129", 1, bytes), None, "the room is full");
    let text = |version: u64| Some(map("m001", version, bytes).whole.unwrap().to_string());
    assert_eq!(store("m001", 2, bytes), text(2));
    let written = Applied { key: object_key("ConfigMap", "m001"), live: map("m001", 3, bytes), ..applied("m001", 3) };
    cache.store_applied(&[written], &key());
    assert_eq!(kept("m001"), text(3), "the response to our own write");
    assert_eq!(store("m001", 4, bytes + 1), None, "it has grown");
    assert!(store("m129", 2, bytes).is_some(), "its place is free");
}

#[test]
fn large_objects_that_expressions_read_share_a_room_and_only_those_of_releases_take_it() {
    let cache = reading_maps();
    let store = |name: &str, bytes: usize, claim: Claim| {
        cache.store_dependent(object_key("ConfigMap", name), &map(name, 1, bytes), claim, epoch(1));
    };
    let kept = |name: &str| cache.dependent(&object_key("ConfigMap", name)).unwrap().whole.clone();
    let foreign = || Claim { ours: false, ..claim() };
    store("foreign", 200 << 10, foreign());
    store("small", 1 << 10, foreign());
    assert!(kept("foreign").is_none() && kept("small").is_some());
    let names: Vec<String> = (0..200).map(|n| format!("m{n}")).collect();
    names.iter().for_each(|name| store(name, 200 << 10, claim()));
    let sum: usize = names.iter().filter_map(|name| kept(name)).map(|text| text.as_ref().len()).sum();
    assert!((10 << 20..=16 << 20).contains(&sum), "{sum}");
    let last = object_key("ConfigMap", "m199");
    let is_judged = |dependent: &Dependent| dependent.unready.is_none() && !dependent.is_partial;
    assert!(kept("m199").is_none() && is_judged(&cache.dependent(&last).unwrap()), "its readiness is known");
    cache.drop_dependent(&object_key("ConfigMap", "m0"));
    store("new", 200 << 10, claim());
    assert!(kept("new").is_some(), "there is room again");
}

#[test]
fn an_end_that_a_watch_reports_before_the_answer_is_lost_stays() {
    let failure = |status, resource_version| RecordedFailure {
        version: 1,
        status,
        resource_version,
        marks: Marks::default(),
        dropped: Vec::new(),
    };
    let (unanswered, failed) = (failure(Status::PendingUpgrade, 0), failure(Status::Failed, 2));
    let continues = failure(Status::PendingUpgrade, 2);
    for (known, recorded, expected) in [
        (Some(Status::Deployed), &unanswered, Status::Deployed),
        (Some(Status::Failed), &unanswered, Status::Failed),
        (Some(Status::PendingUpgrade), &unanswered, Status::PendingUpgrade),
        (None, &unanswered, Status::PendingUpgrade),
        (Some(Status::PendingUpgrade), &failed, Status::Failed),
        (Some(Status::Deployed), &failed, Status::Failed),
        (Some(Status::Deployed), &continues, Status::PendingUpgrade),
    ] {
        let known: Vec<_> = known.into_iter().map(|status| (status, Marks::default())).collect();
        let mut release = ReleaseRecords::written_by_us(&known);
        release.put_failed(recorded);
        assert_eq!(release.revisions[&1].status, expected, "{known:?} and {recorded:?}");
    }
}
