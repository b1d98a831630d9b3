//! Tests of the store of release records: what it trusts, and which controllers it notifies of a change.

use controller::runtime::freshness::Epoch;
use controller::runtime::reflector::EventHandler;
use helm_release::release::Status;
use helm_release::storage::Known;

use super::cache::{epoch, record, revision};
use crate::charts::tests::*;
use crate::view::release::{ReleaseRecords, Revision, Trust};
use crate::view::releases::{ListenerId, ReleaseListener, Writer};

/// A controller that records its notifications.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl ReleaseListener for Notes {
    fn release_changed(&self, key: &ResourceKey, writer: Writer) {
        self.0.lock().unwrap().push(format!("{key}{}", if writer == Writer::Foreign { " by another" } else { "" }));
    }

    fn sight_changed(&self, scope: &WatchScope) {
        self.0.lock().unwrap().push(format!("sight of {}", scope.only().unwrap_or("all")));
    }

    fn release_lost(&self, key: &ResourceKey, release: &Arc<ReleaseRecords>) {
        self.0.lock().unwrap().push(format!("{key} lost {}", release.revisions.len()));
    }
}

fn releases() -> (Arc<Releases>, Arc<Notes>, ListenerId) {
    let (releases, notes) = (Arc::new(Releases::default()), Arc::new(Notes::default()));
    let id = releases.new_reader();
    let reader: Weak<Notes> = Arc::downgrade(&notes);
    releases.add_reader(id, reader);
    (releases, notes, id)
}

fn versions(releases: &Releases) -> Vec<u32> {
    releases.get(&key()).map(|r| r.revisions.keys().copied().collect()).unwrap_or_default()
}

fn in_namespace(namespace: &str, record: RecordMeta) -> RecordMeta {
    RecordMeta { namespace: namespace.into(), ..record }
}

#[tokio::test(start_paused = true)]
async fn only_the_event_of_a_write_confirms_it() {
    let (releases, _, id) = releases();
    releases.change(&key(), id, |release| {
        release.revisions.insert(1, Revision { resource_version: 5, ..revision(Status::Deployed, &[]) });
    });
    let is_confirmed = || releases.get(&key()).unwrap().revisions[&1].stamp.ask_at().is_none();
    assert!(!releases.store(&key(), record(1, 4), epoch(1)));
    assert!(!is_confirmed());
    assert!(!releases.store(&key(), record(1, 5), epoch(1)));
    assert!(is_confirmed());
    assert!(releases.store(&key(), record(1, 6), epoch(1)));
}

#[test]
fn a_deleted_record_is_dropped_unless_a_newer_one_has_its_name() {
    let (releases, notes, _) = releases();
    releases.deleted(record(1, 3));
    assert!(notes.taken().is_empty(), "nobody knew it");
    for version in [1, 2] {
        releases.changed(record(version, 5), epoch(1));
    }
    notes.taken();
    releases.deleted(record(3, 9));
    releases.deleted(record(1, 4));
    assert_eq!((versions(&releases), notes.taken()), (vec![1, 2], vec![]), "it was made anew since");
    releases.deleted(record(1, 5));
    assert_eq!((versions(&releases), notes.taken()), (vec![2], vec!["ns/web by another".to_owned()]));
    releases.deleted(record(2, 6));
    assert_eq!(notes.taken(), ["ns/web lost 1", "ns/web by another"]);
    assert!(releases.get(&key()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_late_response_brings_no_deleted_record_back() {
    let write = |releases: &Releases, id, version| {
        let wrote = (Status::Deployed, Trust::Written(None));
        releases.change(&key(), id, |release| release.put(1, wrote, version, Marks::default()));
    };
    for (what, written, lists, expected) in [
        ("written before the deletion", 8, false, vec![]),
        ("written in the version that was deleted", 9, false, vec![]),
        ("created again since", 10, false, vec![1]),
        ("written in an unknown version", 0, false, vec![1]),
        ("written after a list of a restored server", 8, true, vec![1]),
    ] {
        let (releases, notes, id) = releases();
        releases.changed(record(1, 5), epoch(1));
        releases.deleted(record(1, 9));
        notes.taken();
        if lists {
            tokio::time::advance(Duration::from_secs(1)).await;
            releases.sweep(&WatchScope::ALL, epoch(2));
        }
        write(&releases, id, written);
        assert_eq!(versions(&releases), expected, "{what}");
        if written > 0 {
            releases.catch_up(&key(), vec![record(1, written)]);
            assert_eq!(versions(&releases), expected, "read: {what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_event_brings_no_record_back_that_we_deleted_or_did_not_find() {
    type Gone = fn(&Releases, ListenerId);
    let deleted: Gone = |releases, id| {
        let known = |version| Known { version, resource_version: Some(9) };
        releases.forget(&key(), id, &[known(1), known(2)]);
    };
    let missing: Gone = |releases, _| [1, 2].into_iter().for_each(|version| releases.lose_revision(&key(), version));
    for (how, gone) in [("deleted", deleted), ("not found", missing)] {
        for (what, late, lists, expected) in [
            ("an event from before", 8, false, vec![]),
            ("the event of the last write", 9, false, vec![]),
            ("created again since", 10, false, vec![2]),
            ("a list of a restored server", 8, true, vec![2]),
        ] {
            let (releases, _, id) = releases();
            [1, 2].into_iter().for_each(|version| releases.changed(record(version, 9), epoch(1)));
            gone(&releases, id);
            assert_eq!(versions(&releases), [0; 0], "{how}");
            tokio::time::advance(Duration::from_secs(1)).await;
            let epoch = if lists { Epoch { is_list: true, ..epoch(2) } } else { epoch(1) };
            releases.changed(record(2, late), epoch);
            assert_eq!(versions(&releases), expected, "{how}: {what}");
        }
    }
}

#[test]
fn a_record_that_someone_made_anew_stays_when_we_forget_the_one_that_we_deleted() {
    let (releases, _, id) = releases();
    releases.changed(record(1, 5), epoch(1));
    releases.changed(record(2, 12), epoch(1));
    let known = |version, resource_version| Known { version, resource_version };
    releases.forget(&key(), id, &[known(1, None), known(2, Some(9))]);
    assert_eq!(versions(&releases), [2]);
}

#[test]
fn a_change_by_one_controller_is_news_to_the_others_only() {
    let (releases, one, id) = releases();
    let other = Arc::new(Notes::default());
    let reader: Weak<Notes> = Arc::downgrade(&other);
    releases.add_reader(releases.new_reader(), reader);
    releases.change(&key(), id, |release| _ = release.revisions.insert(1, revision(Status::Deployed, &[])));
    assert_eq!((one.taken(), other.taken()), (vec![], vec!["ns/web".to_owned()]));
    releases.changed(record(2, 5), epoch(1));
    assert_eq!((one.taken().len(), other.taken().len()), (1, 1));
    drop(other);
    releases.change(&key(), id, |release| release.revisions.clear());
    assert!(versions(&releases).is_empty());
}

#[test]
fn a_list_takes_what_it_lacks_from_its_own_namespace_only() {
    let (releases, notes, _) = releases();
    releases.changed(record(1, 5), epoch(1));
    releases.changed(in_namespace("other", record(1, 5)), epoch(1));
    releases.changed(record(2, 6), epoch(2));
    notes.taken();
    releases.sweep(&WatchScope::namespace("ns"), epoch(2));
    assert_eq!((versions(&releases), notes.taken()), (vec![2], vec!["ns/web".to_owned()]));
    assert!(releases.get(&ResourceKey::new("other", "web")).is_some());
    releases.sweep(&WatchScope::ALL, epoch(3));
    let mut said = notes.taken();
    said.sort();
    assert_eq!(said, ["ns/web", "ns/web lost 1", "other/web", "other/web lost 1"], "an empty list");
}

#[test]
fn another_process_is_new_once_and_only_so_many_are() {
    let (releases, ..) = releases();
    let meets = |n: u32| releases.meets(&format!("operator-{n}").into());
    assert_eq!([meets(0), meets(0), meets(1)], [true, false, true]);
    assert_eq!((0..1000).filter(|n| meets(*n)).count(), 62);
}

#[test]
fn records_that_cannot_be_watched_are_known_as_such_until_a_list_ends() {
    let (releases, notes, _) = releases();
    releases.changed(record(1, 5), epoch(1));
    releases.sweep(&WatchScope::namespace("ns"), epoch(1));
    notes.taken();
    for _ in 0..2 {
        releases.lost(&WatchScope::namespace("ns"));
    }
    assert_eq!(notes.taken(), ["sight of ns"]);
    assert!(releases.is_refused("ns") && !releases.is_refused("other"));
    assert_eq!(versions(&releases), [1], "a refusal deletes nothing");
    releases.sweep(&WatchScope::namespace("other"), epoch(1));
    assert!(releases.is_refused("ns"));
    releases.changed(record(1, 5), epoch(2));
    releases.sweep(&WatchScope::namespace("ns"), epoch(2));
    assert_eq!(notes.taken(), ["sight of ns"]);
    assert!(!releases.is_refused("ns"));
}
