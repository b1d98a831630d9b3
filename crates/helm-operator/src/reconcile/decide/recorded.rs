//! Interprets a release's records: which revision counts, which records to read, and whether someone else is working on
//! the release. Pure.

use helm::sequence::Turn;
use helm_release::kube::{Adopt, Former, Owner};
use helm_release::release::Status;
use helm_release::storage::{Maker, MarkedObject, Marks, PATIENCE, former_owners, left_behind};
use jiff::Timestamp;

use super::state::Recorded;
use crate::view::primary::Primary;
use crate::view::release::{Holder, ReleaseRecords, Revision, Trust};

/// Whether the resource had a release before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predecessor {
    /// None whose objects may remain.
    None,
    /// One whose objects may remain, or that another resource has now.
    Lost,
}

/// Classifies the newest revision of a release for decisions.
pub(crate) fn recorded(
    release: Option<&ReleaseRecords>,
    before: Predecessor,
    owner: &Owner,
    adopt: Adopt,
    now: Timestamp,
) -> Recorded {
    let Some((release, (_, newest))) = release.and_then(|r| Some((r, r.newest()?))) else {
        return if before == Predecessor::Lost { Recorded::Lost } else { Recorded::None };
    };
    // A release that was taken over is not taken back. Otherwise two resources would take it from each other forever.
    let may_act = match release.holder(owner) {
        Holder::Resource => true,
        Holder::Nobody => adopt >= Adopt::Released,
        Holder::Upstream => adopt == Adopt::Any,
        Holder::Other => adopt == Adopt::Any && before == Predecessor::None,
        Holder::Successor => false,
    };
    if !may_act {
        return Recorded::Foreign;
    }
    if release.in_flight(owner, now).is_some() {
        return Recorded::InFlight;
    }
    if !release.unmarked().is_empty() {
        return Recorded::Unmarked;
    }
    match newest.status {
        Status::Deployed => Recorded::Deployed,
        Status::Uninstalled | Status::Uninstalling => Recorded::Uninstalled,
        Status::PendingInstall => Recorded::PendingInstall,
        Status::Failed if was_never_deployed(release) => Recorded::FailedInstall,
        Status::Failed => Recorded::Failed,
        _ => Recorded::Pending,
    }
}

impl ReleaseRecords {
    /// Returns the revision that the live objects come from: the newest that is deployed or being uninstalled, or else
    /// the last that was ever deployed. A failed `helm rollback` leaves nothing deployed. An older revision may still
    /// be deployed after a crash between two writes.
    pub(crate) fn base(&self) -> Option<(u32, &Revision)> {
        let newest = |statuses: &[Status]| {
            let found = self.revisions.iter().rev().find(|(_, revision)| statuses.contains(&revision.status));
            found.map(|(version, revision)| (*version, revision))
        };
        newest(&[Status::Deployed, Status::Uninstalling]).or_else(|| newest(&[Status::Superseded]))
    }

    /// Returns the revisions that may have live objects: the base revision, every later one, and earlier ones that left
    /// objects behind.
    pub(crate) fn live(&self) -> impl Iterator<Item = (u32, &Revision)> {
        let base = self.base().map_or(0, |(version, _)| version);
        let live = self.revisions.iter().filter(move |(version, _)| **version >= base);
        self.left_behind().chain(live.map(|(version, revision)| (*version, revision)))
    }

    /// Returns the failed and unfinished revisions before a base that this operator did not make, back to the last one that
    /// it deployed. Objects that only they made may still be live, because Helm compares with what was deployed.
    pub(crate) fn left_behind(&self) -> impl Iterator<Item = (u32, &Revision)> {
        let base = self.base().filter(|(_, base)| !is_made_by_us(base)).map_or(0, |(version, _)| version);
        let before = self.revisions.iter().filter(|(version, _)| **version < base);
        let left = left_behind(before, |(_, revision)| (revision.status, maker(revision))).into_iter();
        left.filter(|(_, revision)| !revision.is_settled).map(|(version, revision)| (*version, revision))
    }

    /// Returns the revisions that may have live objects but no marks, because Helm created them, or dropped our marks
    /// when it rewrote them.
    pub(crate) fn unmarked(&self) -> Vec<u32> {
        self.live().filter(|(_, revision)| !is_known(revision)).map(|(version, _)| version).collect()
    }

    /// Returns until when this owner leaves the newest revision alone, because someone else's action on it is unfinished.
    /// Our records have marks and name the process; Helm's do not. An action for another resource may run in this very
    /// process, which continues it after a restart.
    pub(crate) fn in_flight(&self, owner: &Owner, now: Timestamp) -> Option<Timestamp> {
        let (_, newest) = self.newest()?;
        let under_way = newest.status.is_pending() || newest.status == Status::Uninstalling;
        // Another process with another key seals it.
        let is_broken = newest.trust == Trust::Broken;
        let last_sign = || newest.written.and_then(|written| written.checked_add(PATIENCE).ok());
        let until = match newest.marks {
            None if !is_broken => last_sign(),
            _ if under_way && self.is_claimed_from(owner) => last_sign(),
            _ => self.left_to_competitor().or_else(|| last_sign().filter(|_| self.holder(owner) == Holder::Other)),
        };
        until.filter(|until| (under_way || is_broken) && now < *until)
    }

    /// Returns the newest revision if it is an unfinished action of this operator.
    pub(crate) fn unfinished(&self) -> Option<(u32, &Revision)> {
        self.newest().filter(|(_, newest)| newest.is_unfinished())
    }

    /// Returns the earlier revisions that this operator left pending before another writer's revision followed.
    pub(crate) fn abandoned(&self) -> Vec<u32> {
        let earlier = self.revisions.iter().rev().skip(1);
        earlier.filter(|(_, revision)| revision.is_unfinished()).map(|(version, _)| *version).collect()
    }

    /// Returns the pending revisions that an uninstall by this owner gives up. Revisions after the last one that this
    /// operator recorded for the owner, or for an earlier one with the same name, belong to a resource that is taking the
    /// release over.
    pub(crate) fn left_pending(&self, owner: &Owner) -> Vec<u32> {
        let last = self.newest_for(owner);
        let unfinished = self.unfinished().map(|(version, _)| version);
        self.abandoned().into_iter().chain(unfinished).filter(|version| *version <= last).collect()
    }

    /// Returns the revisions whose uninstalls end before this owner's, which uninstalls revision `own`. Leaves out those of
    /// a resource that is taking the release over.
    pub(crate) fn left_uninstalling(&self, owner: &Owner, own: Option<u32>) -> Vec<u32> {
        let last = self.newest_for(owner);
        self.uninstalling().into_iter().filter(|version| *version <= last && Some(*version) != own).collect()
    }

    /// Returns the revisions that this operator was uninstalling when it wrote their records last.
    pub(crate) fn uninstalling(&self) -> Vec<u32> {
        let is_own = |revision: &Revision| revision.is_sealed() && revision.status == Status::Uninstalling;
        self.revisions.iter().filter(|(_, revision)| is_own(revision)).map(|(version, _)| *version).collect()
    }

    /// Returns the revision that this operator is uninstalling because a later one failed.
    pub(crate) fn begun_uninstall(&self) -> Option<(u32, &Revision)> {
        let (newest, _) = self.newest()?;
        let earlier = self.base().filter(|(version, _)| *version < newest);
        earlier.filter(|(_, base)| base.is_sealed() && base.status == Status::Uninstalling)
    }

    /// Returns whether the uninstall of an earlier revision has deleted nothing yet, so that the revision may be deployed
    /// again. Before it deletes anything, it records that none of its Jobs has finished.
    fn has_deleted_nothing(&self) -> bool {
        let begun = self.begun_uninstall().and_then(|(_, base)| base.marks.as_ref());
        begun.is_some_and(|marks| !marks.hooks_done || marks.objects.iter().any(|object| object.expires))
    }

    /// Returns whether this operator has recorded a revision for this owner, or for an earlier one with the same name. A
    /// record that has been tampered with since counts, too.
    pub(crate) fn was_recorded_for(&self, owner: &Owner) -> bool {
        let is_own = |one: &Revision| one.is_sealed() || (one.trust == Trust::Broken && !one.has_other_key);
        self.revisions.values().any(|revision| is_own(revision) && revision.names(owner))
    }

    /// Returns the other resources that had the release, according to its records.
    pub(crate) fn former_owners(&self, owner: &Owner) -> Vec<Former> {
        former_owners(self.revisions.values().filter_map(|revision| revision.marks.as_deref()), owner)
    }

    /// Returns whether Helm created one of the revisions.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.revisions.values().any(|r| r.marks.as_ref().is_some_and(|m| m.taken_over))
    }

    /// Returns whether override values are strings in this release, because operator-sdk created it. A record that this
    /// operator did not write shows it only if the resource's status confirms it: users may write the record, but not the
    /// status.
    pub(crate) fn has_string_overrides(&self, primary: &Primary) -> bool {
        let is_confirmed = primary.may_have_string_overrides();
        let counts = |revision: &&Revision| is_confirmed || revision.is_sealed();
        self.revisions.values().filter(counts).any(|r| r.marks.as_ref().is_some_and(|m| m.string_overrides))
    }

    /// Returns whether the status names override values as strings. Helm drops the marks of the records that it writes. Until
    /// those are read, which a pause prevents, the status stays as it is: it has to confirm what they show.
    pub(crate) fn shows_string_overrides(&self, primary: &Primary) -> bool {
        let is_unread = !self.unmarked().is_empty();
        self.has_string_overrides(primary) || (is_unread && primary.reports_string_overrides())
    }

    /// Returns when revision 1 was created, if the marks record it.
    pub(crate) fn first_deployed(&self) -> Option<Timestamp> {
        self.revisions.iter().rev().find_map(|(_, r)| r.marks.as_ref()?.first_deployed)
    }

    /// Returns the objects that may be live: objects of the base revision, of every later one, and of earlier ones that
    /// left objects behind.
    pub(crate) fn inventory(&self) -> Marks {
        let base = self.base();
        let mut inventory = base.and_then(|(_, r)| r.marks.as_deref().cloned()).unwrap_or_default();
        let from = base.map_or(0, |(version, _)| version + 1);
        // An install that was never completed also has an owner and hooks.
        if let (None, Some(marks)) = (base, self.newest().and_then(|(_, newest)| newest.marks.as_ref())) {
            (inventory.owner, inventory.owner_type) = (marks.owner.clone(), marks.owner_type.clone());
            (inventory.former, inventory.delete_hooks) = (marks.former.clone(), marks.delete_hooks);
        }
        expect_again(&mut inventory, base.map(|(_, base)| base).filter(|_| !self.has_deleted_nothing()));
        self.left_behind().for_each(|(_, revision)| add_left_behind(&mut inventory, revision));
        for (_, revision) in self.revisions.iter().filter(|(version, _)| **version >= from) {
            // The objects are known, but not their marks.
            inventory.complete = false;
            inventory.adopted.extend(revision.marks.iter().flat_map(|marks| marks.adopted.iter().cloned()));
            // A mark does not show how its object names its owner, so the marks of a revision that ties objects
            // differently do not count.
            let is_tied_alike = revision.marks.as_ref().is_some_and(|marks| marks.tie() == inventory.tie());
            let tied =
                |object: &MarkedObject| MarkedObject { mark: object.mark.filter(|_| is_tied_alike), ..object.clone() };
            for object in revision.marks.iter().flat_map(|marks| &marks.objects) {
                match inventory.objects.iter_mut().find(|known| known.key == object.key) {
                    None => {
                        let turn = placed(object, revision, &inventory);
                        inventory.objects.push(MarkedObject { turn, ..tied(object) });
                    }
                    // The unfinished action has run this Job, or has applied this object of an ordered release and
                    // recorded that, so a continuation does not repeat it. Or it has deleted this Job before it
                    // finished, so that the Job's absence proves nothing.
                    Some(known) if object.expires || object.mark.is_some() || object.deleted => {
                        let attempted = known.attempted && object.attempted;
                        *known = MarkedObject { turn: known.turn, attempted, ..tied(object) };
                    }
                    Some(known) => {
                        // The action may have changed this object, and if it set the same fields, the mark does not
                        // show that.
                        known.mark = None;
                        known.attempted &= object.attempted;
                        // The action may have left this definition.
                        known.adopted = known.adopted.or(object.adopted);
                        if may_be_live(object, known) {
                            known.digest = None;
                        }
                    }
                }
            }
            expect_again(&mut inventory, Some(revision));
        }
        inventory
    }
}

/// Returns whether this form of a later revision may be live instead of the known one, although no record says how far
/// that revision got. A Job that has finished stays so until a revision says that it ran or deleted it.
fn may_be_live(object: &MarkedObject, known: &MarkedObject) -> bool {
    !known.expires && object.digest.is_some() && object.digest != known.digest
}

/// Notes that no Job has finished if a revision is uninstalled, or is being uninstalled: its Jobs are deleted with it,
/// and run again when it is installed again.
fn expect_again(inventory: &mut Marks, revision: Option<&Revision>) {
    if revision.is_some_and(|one| matches!(one.status, Status::Uninstalled | Status::Uninstalling)) {
        inventory.objects.iter_mut().for_each(|object| object.expires = false);
    }
}

/// Adds the objects that only this revision before the base has.
fn add_left_behind(inventory: &mut Marks, revision: &Revision) {
    inventory.complete = false;
    inventory.adopted.extend(revision.marks.iter().flat_map(|marks| marks.adopted.iter().cloned()));
    for object in revision.marks.iter().flat_map(|marks| &marks.objects) {
        match inventory.objects.iter_mut().find(|known| known.key == object.key) {
            Some(known) => known.attempted &= object.attempted,
            None => {
                let turn = placed(object, revision, inventory);
                inventory.objects.push(MarkedObject { turn, mark: None, expires: false, ..object.clone() });
            }
        }
    }
}

/// Returns the turn, among those of a release, of an object that only this later revision has. Each revision counts its
/// own rounds: a revision that lacks a group has smaller numbers for the same objects.
fn placed(object: &MarkedObject, revision: &Revision, inventory: &Marks) -> Turn {
    if object.turn == Turn::default() {
        return object.turn;
    }
    let earlier =
        revision.marks.iter().flat_map(|marks| &marks.objects).filter(|one| one.turn.round() <= object.turn.round());
    let rounds = earlier.filter_map(|one| inventory.find(&one.key)).map(|known| known.turn.round());
    let round = rounds.max().unwrap_or_default().max(object.turn.round());
    object.turn.in_round(round.into())
}

/// Returns whether this operator made the revision from a resource. The marks of a revision that it only read or keeps
/// in place have no inputs.
fn is_made_by_us(revision: &Revision) -> bool {
    revision.is_sealed() && revision.marks.as_ref().is_some_and(|marks| !marks.inputs.is_empty())
}

fn maker(revision: &Revision) -> Maker {
    match revision.trust {
        Trust::Written(_) | Trust::Sealed(_) => Maker::Operator,
        Trust::Foreign if !revision.owners.is_empty() => Maker::HelmForResource,
        Trust::Foreign | Trust::Broken => Maker::Other,
    }
}

/// Returns whether the revision's objects are known. Marks without objects belong to an empty release, or to one with
/// too many objects to list.
fn is_known(revision: &Revision) -> bool {
    revision.marks.as_ref().is_some_and(|m| m.complete || !m.objects.is_empty())
}

/// Returns whether the records prove that no revision was ever deployed: every revision is a failed install, and the
/// history is complete, or the newest revision says so of the revisions that have left it. A manual rollback can fail
/// and leave nothing `deployed` while everything runs, and someone else may have pruned old revisions.
pub(crate) fn was_never_deployed(release: &ReleaseRecords) -> bool {
    let is_complete = release.revisions.keys().copied().eq(1..=release.revisions.len() as u32);
    let is_failed_install = |revision: &Revision| matches!(revision.status, Status::Failed | Status::PendingInstall);
    (is_complete || none_deployed_before(release)) && release.revisions.values().all(is_failed_install)
}

/// Returns whether this operator recorded with the newest revision that none before it was ever deployed.
fn none_deployed_before(release: &ReleaseRecords) -> bool {
    let newest = release.newest().map(|(_, newest)| newest).filter(|newest| newest.is_sealed());
    newest.and_then(|newest| newest.marks.as_deref()).is_some_and(|marks| marks.none_deployed_before)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controller::runtime::freshness::Stamp;
    use helm_release::kube::{Adopted, Mark, ObjectDigest, ObjectKey};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn object(name: &str) -> MarkedObject {
        let key = ObjectKey { group: "".into(), kind: "ConfigMap".into(), namespace: "ns".into(), name: name.into() };
        MarkedObject::new(key, "v1".into())
    }

    /// Returns our marks with these objects.
    fn ours(names: &[&str]) -> Option<Marks> {
        let objects = names.iter().map(|name| object(name)).collect();
        Some(Marks { owner: "u1".into(), inputs: "i".into(), objects, ..Marks::default() })
    }

    fn complete(names: &[&str]) -> Option<Marks> {
        ours(names).map(|marks| Marks { complete: true, ..marks })
    }

    /// Returns revisions numbered from 1, written at second 1,000.
    fn release(revisions: &[(Status, Option<Marks>)]) -> ReleaseRecords {
        let revision = |(status, marks): &(Status, Option<Marks>)| Revision {
            status: *status,
            resource_version: 1,
            owners: Box::new(["u1".into()]),
            marks: marks.clone().map(Arc::new),
            trust: if marks.is_some() { Trust::Written(None) } else { Trust::Foreign },
            names_us: marks.is_some(),
            has_other_key: false,
            stamp: Stamp::written(None),
            written: Some(at(1000)),
            is_settled: false,
        };
        ReleaseRecords {
            revisions: (1..).zip(revisions.iter().map(revision)).collect(),
            packed: None,
            competitor: None,
        }
    }

    const TYPED: &str = r#"{"deployedRelease":{"name":"web","revision":1}}"#;
    const STRINGS: &str = r#"{"deployedRelease":{"name":"web","revision":1,"overrideValuesAreStrings":true}}"#;

    /// Returns a resource with this status.
    fn primary(status: &str) -> Primary {
        let text = format!(r#"{{"metadata":{{"name":"web"}},"status":{status}}}"#);
        serde_json::from_str::<crate::view::primary::Received>(&text).unwrap().primary
    }

    #[test]
    fn a_record_of_others_makes_override_values_strings_only_if_the_status_confirms_it() {
        let strings = Marks { string_overrides: true, ..ours(&[]).unwrap() };
        let sealed = release(&[(Deployed, Some(strings))]);
        let mut broken = sealed.clone();
        broken.revisions.iter_mut().for_each(|(_, revision)| revision.trust = Trust::Broken);
        for (behaviour, status, expected) in [
            ("a new resource", "{}", false),
            ("typed, as this operator reported", TYPED, false),
            ("of operator-sdk", r#"{"deployedRelease":{"name":"web","manifest":"---"}}"#, true),
            ("strings, as this operator reported", STRINGS, true),
        ] {
            assert_eq!(broken.has_string_overrides(&primary(status)), expected, "{behaviour}");
            assert!(sealed.has_string_overrides(&primary(status)), "{behaviour}");
        }
    }

    #[test]
    fn the_status_says_that_override_values_are_strings_until_the_records_of_helm_are_read() {
        let helms = release(&[(Superseded, None), (Deployed, None)]);
        let read = release(&[(Superseded, None), (Deployed, complete(&["a"]))]);
        for (behaviour, records, status, expected) in [
            ("not read", &helms, STRINGS, true),
            ("not read, and typed before", &helms, TYPED, false),
            ("read, and typed", &read, STRINGS, false),
        ] {
            assert_eq!(records.shows_string_overrides(&primary(status)), expected, "{behaviour}");
        }
    }

    fn owner(uid: &str) -> Owner {
        Owner {
            api_version: "v1".into(),
            kind: "K".into(),
            name: "web".into(),
            namespace: "ns".into(),
            uid: uid.into(),
        }
    }

    use Status::{
        Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Superseded, Uninstalled, Uninstalling,
    };

    #[test]
    fn the_newest_record_decides_the_next_step() {
        let a = || ours(&["a"]);
        for (behaviour, revisions, expected) in [
            ("deployed", vec![(Deployed, complete(&["a"]))], Recorded::Deployed),
            ("deployed, without objects", vec![(Deployed, complete(&[]))], Recorded::Deployed),
            ("deployed, with too many objects", vec![(Deployed, ours(&[]))], Recorded::Unmarked),
            ("deployed by an upstream", vec![(Deployed, None)], Recorded::Unmarked),
            ("our install was cut off", vec![(PendingInstall, a())], Recorded::PendingInstall),
            ("our upgrade was cut off", vec![(Deployed, a()), (PendingUpgrade, a())], Recorded::Pending),
            ("our rollback was cut off", vec![(Deployed, a()), (PendingRollback, a())], Recorded::Pending),
            ("our upgrade failed", vec![(Deployed, a()), (Failed, a())], Recorded::Failed),
            ("our install failed", vec![(Failed, a())], Recorded::FailedInstall),
            ("two installs failed", vec![(Failed, a()), (Failed, a())], Recorded::FailedInstall),
            ("a rollback failed", vec![(Superseded, a()), (Failed, a())], Recorded::Failed),
            ("our uninstall was cut off", vec![(Uninstalling, a())], Recorded::Uninstalled),
            ("uninstalled, history kept", vec![(Uninstalled, complete(&[]))], Recorded::Uninstalled),
            ("helm installs", vec![(PendingInstall, None)], Recorded::InFlight),
            ("helm upgrades", vec![(Deployed, a()), (PendingUpgrade, None)], Recorded::InFlight),
            ("helm rolls back", vec![(Deployed, a()), (PendingRollback, None)], Recorded::InFlight),
            ("helm uninstalls", vec![(Uninstalling, None)], Recorded::InFlight),
            ("helm upgraded", vec![(Superseded, None), (Deployed, None)], Recorded::Unmarked),
            ("helm's upgrade failed", vec![(Deployed, a()), (Failed, None)], Recorded::Unmarked),
            ("helm's rollback failed", vec![(Superseded, None), (Failed, a())], Recorded::Unmarked),
        ] {
            assert_eq!(
                recorded(Some(&release(&revisions)), Predecessor::None, &owner("u1"), Adopt::Never, at(1599)),
                expected,
                "{behaviour}"
            );
        }
        assert_eq!(recorded(None, Predecessor::None, &owner("u1"), Adopt::Never, at(0)), Recorded::None);
        assert_eq!(recorded(None, Predecessor::Lost, &owner("u1"), Adopt::Never, at(0)), Recorded::Lost);
        assert_eq!(
            recorded(Some(&ReleaseRecords::default()), Predecessor::None, &owner("u1"), Adopt::Never, at(0)),
            Recorded::None
        );
    }

    #[test]
    fn an_uninstall_gives_up_what_its_resource_or_a_former_one_left_and_nothing_that_another_one_begins() {
        let us = owner("u1");
        let of = |uid: &str, owner_type: &str| {
            Some(Marks { owner: uid.into(), owner_type: owner_type.into(), ..Marks::default() })
        };
        let (own, former) = (|| of("u1", &us.annotated_type()), || of("u0", &us.annotated_type()));
        let another = || of("a", "Redis");
        for (behaviour, revisions, pending, uninstalling) in [
            ("its own", vec![(Deployed, own()), (PendingUpgrade, own())], vec![2], vec![]),
            ("a former one's", vec![(Uninstalling, former()), (PendingUpgrade, former())], vec![2], vec![1]),
            ("another's before its own", vec![(PendingUpgrade, another()), (Deployed, own())], vec![1], vec![]),
            ("another's", vec![(Deployed, own()), (PendingUpgrade, another())], vec![], vec![]),
            (
                "another's before Helm's",
                vec![(Deployed, own()), (PendingUpgrade, another()), (Deployed, None)],
                vec![],
                vec![],
            ),
            ("another's uninstall", vec![(Uninstalling, own()), (Uninstalling, another())], vec![], vec![1]),
        ] {
            let mut release = release(&revisions);
            release.revisions.iter_mut().for_each(|(_, revision)| revision.owners = Box::default());
            let found = (release.left_pending(&us), release.left_uninstalling(&us, None));
            assert_eq!(found, (pending, uninstalling), "{behaviour}");
            assert!(!release.left_uninstalling(&us, Some(1)).contains(&1), "{behaviour}");
        }
    }

    #[test]
    fn a_history_without_its_start_holds_failed_installs_only_if_its_newest_record_says_so() {
        let silent = || ours(&["a"]);
        let says = || silent().map(|marks| Marks { none_deployed_before: true, ..marks });
        let own = Trust::Written(None);
        for (behaviour, revisions, trust, expected) in [
            ("it says so", [(Failed, silent()), (Failed, says())], own, Recorded::FailedInstall),
            ("only an older one says so", [(Failed, says()), (Failed, silent())], own, Recorded::Failed),
            ("someone else says so", [(Failed, says()), (Failed, says())], Trust::Broken, Recorded::Failed),
            ("one was deployed", [(Superseded, says()), (Failed, says())], own, Recorded::Failed),
        ] {
            let mut release = release(&revisions);
            release.revisions = release.revisions.iter().map(|(version, one)| (version + 3, one.clone())).collect();
            release.revisions.iter_mut().for_each(|(_, revision)| revision.trust = trust);
            let seen = recorded(Some(&release), Predecessor::None, &owner("u1"), Adopt::Never, at(1600));
            assert_eq!(seen, expected, "{behaviour}");
        }
    }

    /// Returns a deployed revision whose marks name this owner; empty means none.
    fn of(uid: &str) -> (Status, Option<Marks>) {
        let marks = complete(&["a"]).map(|marks| Marks { owner: uid.into(), ..marks });
        (Deployed, marks.filter(|_| !uid.is_empty()))
    }

    #[test]
    fn somebody_elses_release_is_taken_over_as_far_as_the_watch_grants() {
        for (behaviour, owners, least) in [
            ("ours", vec!["u1"], Some(Adopt::Never)),
            ("a person's helm wrote ours", vec!["u1", ""], Some(Adopt::Never)),
            ("taken over by us", vec!["u2", "u1"], Some(Adopt::Never)),
            ("Helm's", vec!["", ""], Some(Adopt::Released)),
            ("another resource's", vec!["u2"], Some(Adopt::Any)),
            ("another resource's, written by Helm since", vec!["u2", ""], Some(Adopt::Any)),
            ("taken over from us", vec!["u1", "u2"], None),
            ("taken over from us, written by Helm since", vec!["u1", "u2", ""], None),
        ] {
            let mut release = release(&owners.iter().map(|uid| of(uid)).collect::<Vec<_>>());
            release.revisions.iter_mut().for_each(|(_, revision)| revision.owners = Box::default());
            for adopt in [Adopt::Never, Adopt::Unowned, Adopt::Released, Adopt::Any] {
                let is_foreign =
                    recorded(Some(&release), Predecessor::None, &owner("u1"), adopt, at(0)) == Recorded::Foreign;
                assert_eq!(!is_foreign, least.is_some_and(|least| adopt >= least), "{behaviour}, {adopt:?}");
            }
        }
    }

    #[test]
    fn any_record_says_which_other_resources_had_the_release() {
        let of = |uid: &str, kind: &str| {
            ours(&["a"]).map(|marks| Marks { owner: uid.into(), owner_type: kind.into(), ..marks })
        };
        let took = of("u1", "K").map(|marks| Marks { former: vec!["other".into(), "u1".into()], ..marks });
        for (behaviour, revisions, expected) in [
            ("none", vec![(Deployed, of("u1", "K"))], vec![]),
            ("an earlier resource of the same name", vec![(Deployed, of("u0", "K")), (Failed, of("u1", "K"))], vec![]),
            ("before this one", vec![(Deployed, of("other", "L")), (Failed, of("u1", "K"))], vec!["other L"]),
            ("after this one", vec![(Deployed, of("u1", "K")), (Failed, of("other", "L"))], vec!["other L"]),
            ("twice", vec![(Failed, of("other", "L")), (Deployed, of("other", "L"))], vec!["other L"]),
            ("of a kind that no record has any more", vec![(Deployed, took)], vec!["other "]),
        ] {
            let former = release(&revisions).former_owners(&owner("u1"));
            let named = former.iter().map(|former| format!("{} {}", former.uid, former.kind));
            assert_eq!(named.collect::<Vec<_>>(), expected, "{behaviour}");
        }
    }

    #[test]
    fn an_action_in_flight_is_left_alone_until_ten_minutes_after_its_last_write() {
        let helms = release(&[(Deployed, ours(&["a"])), (PendingUpgrade, None)]);
        assert_eq!(helms.in_flight(&owner("u1"), at(1599)), Some(at(1600)));
        assert_eq!(helms.in_flight(&owner("u1"), at(1600)), None);
        assert_eq!(recorded(Some(&helms), Predecessor::None, &owner("u1"), Adopt::Never, at(1600)), Recorded::Unmarked);
        assert_eq!(
            release(&[(Deployed, None), (PendingUpgrade, ours(&["a"]))]).in_flight(&owner("u1"), at(1000)),
            None
        );
        assert_eq!(release(&[(Deployed, None)]).in_flight(&owner("u1"), at(1000)), None);
        let mut undated = helms;
        undated.revisions.iter_mut().for_each(|(_, revision)| revision.written = None);
        assert_eq!(undated.in_flight(&owner("u1"), at(1000)), None);
    }

    #[test]
    fn an_action_that_another_key_seals_for_another_resource_is_left_alone_as_long_as_helms() {
        for (status, named, until) in [
            (PendingUpgrade, "u2", Some(at(1600))),
            (Uninstalling, "u2", Some(at(1600))),
            (Deployed, "u2", None),
            (PendingUpgrade, "u1", None),
        ] {
            let mut release = release(&[(Superseded, ours(&["a"])), (status, None)]);
            let newest = release.revisions.get_mut(&2).unwrap();
            newest.trust = Trust::Broken;
            newest.owners = Box::new([named.into()]);
            assert_eq!(release.is_claimed_from(&owner("u1")), named == "u2", "{status:?}, {named}");
            assert_eq!(release.in_flight(&owner("u1"), at(1599)), until, "{status:?}, {named}");
        }
    }

    #[test]
    fn a_release_is_taken_over_only_once_the_action_of_its_resource_is_finished_or_silent() {
        let others = |status| {
            let marks = Marks { owner: "u2".into(), owner_type: "Other".into(), ..ours(&["a"]).unwrap() };
            let mut release = release(&[(status, Some(marks))]);
            release.revisions.iter_mut().for_each(|(_, revision)| revision.owners = Box::default());
            release
        };
        for (status, at_work, later) in [
            (PendingInstall, Recorded::InFlight, Recorded::PendingInstall),
            (PendingUpgrade, Recorded::InFlight, Recorded::Pending),
            (PendingRollback, Recorded::InFlight, Recorded::Pending),
            (Uninstalling, Recorded::InFlight, Recorded::Uninstalled),
            (Failed, Recorded::FailedInstall, Recorded::FailedInstall),
        ] {
            let release = others(status);
            let seen = |second| recorded(Some(&release), Predecessor::None, &owner("u1"), Adopt::Any, at(second));
            assert_eq!((seen(1599), seen(1600)), (at_work, later), "{status:?}");
            let its_own = recorded(Some(&release), Predecessor::None, &owner("u2"), Adopt::Any, at(1599));
            assert_eq!(its_own, later, "{status:?}: of the resource itself");
        }
    }

    #[test]
    fn a_job_that_an_unfinished_upgrade_ran_replaces_the_one_before() {
        for expires in [false, true] {
            let mut unfinished = ours(&["a"]);
            let job = &mut unfinished.as_mut().unwrap().objects[0];
            (job.expires, job.digest) = (expires, ObjectDigest::parse("000000000000000d"));
            let inventory = release(&[(Deployed, complete(&["a"])), (PendingUpgrade, unfinished)]).inventory();
            let [job] = &inventory.objects[..] else { panic!("{:?}", inventory.objects) };
            assert_eq!((job.expires, job.digest.is_some()), (expires, expires));
        }
    }

    #[test]
    fn a_job_that_an_upgrade_deleted_has_not_finished_whatever_earlier_revisions_say() {
        let with = |expires: bool, deleted: bool, digest: &str| {
            let mut marks = ours(&["a"]);
            let job = &mut marks.as_mut().unwrap().objects[0];
            (job.expires, job.deleted, job.digest) = (expires, deleted, ObjectDigest::parse(digest));
            marks
        };
        let [old, new] = ["000000000000000a", "000000000000000b"];
        let (ran, deletes, nothing) =
            (|| with(true, false, old), || with(false, true, new), || with(false, false, old));
        for (behaviour, revisions, expected) in [
            ("not reached", vec![(Deployed, ran()), (Failed, with(false, false, new))], (true, old)),
            ("deleted", vec![(Deployed, ran()), (PendingUpgrade, deletes())], (false, new)),
            ("deleted, and created anew", vec![(Deployed, ran()), (Failed, with(true, true, new))], (true, new)),
            ("deleted, and followed", vec![(Deployed, ran()), (Failed, deletes()), (Failed, nothing())], (false, "")),
            ("deleted, then run", vec![(Deployed, ran()), (Failed, deletes()), (Failed, ran())], (true, old)),
            ("never deployed", vec![(Failed, ran()), (Failed, deletes())], (false, new)),
            ("perhaps made", vec![(Failed, nothing()), (PendingUpgrade, with(false, false, new))], (false, "")),
            ("not made differently", vec![(Failed, nothing()), (PendingUpgrade, nothing())], (false, old)),
        ] {
            let inventory = release(&revisions).inventory();
            let [job] = &inventory.objects[..] else { panic!("{:?}", inventory.objects) };
            assert_eq!((job.expires, job.digest), (expected.0, ObjectDigest::parse(expected.1)), "{behaviour}");
        }
    }

    #[test]
    fn no_job_has_finished_once_its_release_was_uninstalled() {
        let with = |expires| {
            let mut marks = ours(&["a"]);
            marks.as_mut().unwrap().objects[0].expires = expires;
            marks
        };
        let hooks_done = |expires| with(expires).map(|marks| Marks { hooks_done: true, ..marks });
        let failed = || (Failed, with(false));
        for (behaviour, revisions, expected) in [
            ("deployed", vec![(Superseded, with(true)), (Deployed, with(true))], true),
            ("uninstalled, history kept", vec![(Superseded, with(true)), (Uninstalled, with(false))], false),
            ("being uninstalled", vec![(Superseded, with(true)), (Uninstalling, with(true))], false),
            ("perhaps deployed again after a failed upgrade", vec![(Uninstalling, with(true)), failed()], true),
            ("about to delete after a failed upgrade", vec![(Uninstalling, hooks_done(true)), failed()], true),
            ("on its way after a failed upgrade", vec![(Uninstalling, hooks_done(false)), failed()], false),
            (
                "and being installed again",
                vec![(Superseded, with(true)), (Uninstalled, with(false)), (PendingInstall, with(false))],
                false,
            ),
            (
                "installed again, where it ran",
                vec![(Superseded, with(true)), (Uninstalled, with(false)), (Failed, with(true))],
                true,
            ),
        ] {
            let inventory = release(&revisions).inventory();
            assert_eq!(inventory.objects.iter().map(|one| one.expires).collect::<Vec<_>>(), [expected], "{behaviour}");
        }
    }

    #[test]
    fn what_an_unfinished_upgrade_may_have_changed_is_not_as_the_revision_before_has_it() {
        let marked = |marks: [Option<Mark>; 2]| {
            let mut all = ours(&["a", "b"]).unwrap();
            all.objects.iter_mut().zip(marks).for_each(|(object, mark)| object.mark = mark);
            Some(all)
        };
        let (before, applied) = ([Some(Mark(1)); 2], [None, Some(Mark(1))]);
        let inventory = release(&[(Deployed, marked(before)), (PendingUpgrade, marked(applied))]).inventory();
        assert_eq!(inventory.objects.iter().map(|object| object.mark).collect::<Vec<_>>(), applied);
    }

    #[test]
    fn what_a_failed_upgrade_tied_otherwise_is_not_as_the_revision_before_has_it() {
        let of = |delete_hooks, marks: [Option<Mark>; 2], names: &[&str]| {
            let mut all = Marks { delete_hooks, ..ours(names).unwrap() };
            all.objects.iter_mut().zip(marks).for_each(|(object, mark)| object.mark = mark);
            Some(all)
        };
        for (before, then, known) in
            [(true, true, [Some(Mark(2)), Some(Mark(3))]), (true, false, [None; 2]), (false, true, [None; 2])]
        {
            let before = of(before, [Some(Mark(1)), None], &["a"]);
            let failed = of(then, [Some(Mark(2)), Some(Mark(3))], &["a", "b"]);
            let inventory = release(&[(Deployed, before), (Failed, failed)]).inventory();
            assert_eq!(inventory.objects.iter().map(|object| object.mark).collect::<Vec<_>>(), known);
        }
    }

    #[test]
    fn what_an_unfinished_upgrade_leaves_is_left_by_what_follows_it() {
        let mut failed = ours(&["a", "b"]);
        failed.as_mut().unwrap().objects[1].adopted = Some(Adopted::Claimed);
        let revisions = [(Deployed, complete(&["a", "b"])), (Failed, failed), (PendingUpgrade, ours(&["a", "b"]))];
        let adopted: Vec<_> = release(&revisions).inventory().objects.iter().map(|object| object.adopted).collect();
        assert_eq!(adopted, [None, Some(Adopted::Claimed)]);
    }

    #[test]
    fn an_object_has_only_been_attempted_if_every_revision_with_it_says_so() {
        let with = |attempted: bool, has_run: bool| {
            let mut marks = ours(&["a"]);
            let object = &mut marks.as_mut().unwrap().objects[0];
            (object.attempted, object.expires) = (attempted, has_run);
            marks
        };
        let helms = complete(&["b"]).map(|marks| Marks { inputs: String::new(), complete: false, ..marks });
        for (behaviour, revisions, expected) in [
            ("an install", vec![(Failed, with(true, false))], true),
            ("tried again", vec![(Failed, with(true, false)), (PendingInstall, with(true, false))], true),
            ("after a revision without it", vec![(Deployed, complete(&["b"])), (Failed, with(true, false))], true),
            ("of the deployed revision", vec![(Deployed, complete(&["a"])), (Failed, with(true, false))], false),
            ("also Helm's", vec![(Failed, with(true, false)), (Failed, with(false, false))], false),
            ("Helm's before", vec![(Failed, with(false, true)), (Failed, with(true, true))], false),
            ("being uninstalled", vec![(Uninstalling, with(true, false)), (Failed, with(true, false))], true),
            ("left behind", vec![(Failed, with(true, false)), (Deployed, helms.clone())], true),
            (
                "left behind by Helm",
                vec![(Failed, with(true, false)), (Failed, with(false, false)), (Deployed, helms)],
                false,
            ),
        ] {
            let inventory = release(&revisions).inventory();
            let attempted = inventory.objects.iter().find(|object| &*object.key.name == "a").map(|a| a.attempted);
            assert_eq!(attempted, Some(expected), "{behaviour}");
        }
    }

    #[test]
    fn an_upgrade_that_drops_a_group_does_not_change_what_goes_first() {
        let ordered = |objects: &[(&str, usize, bool)]| {
            let mut marks = ours(&objects.iter().map(|(name, ..)| *name).collect::<Vec<_>>()).unwrap();
            for (object, (_, round, is_applied)) in marks.objects.iter_mut().zip(objects) {
                (object.turn, object.expires) = (Turn::of_round(*round).awaited(), *is_applied);
            }
            Some(marks)
        };
        let before = ordered(&[("cache", 1, false), ("config", 2, false), ("server", 3, false), ("task", 4, false)]);
        // Dropped objects are also recorded, with their former round.
        let upgrade = ordered(&[
            ("config", 1, true),
            ("server", 2, false),
            ("more", 2, false),
            ("task", 3, true),
            ("cache", 1, false),
        ]);
        let inventory = release(&[(Deployed, before), (PendingUpgrade, upgrade)]).inventory();
        let rounds: Vec<_> = inventory.objects.iter().map(|one| (&*one.key.name, one.turn.round())).collect();
        assert_eq!(rounds, [("cache", 1), ("config", 2), ("server", 3), ("task", 4), ("more", 3)]);
    }

    #[test]
    fn everything_that_may_be_live_is_in_the_inventory() {
        let check =
            |revisions: &[(Status, Option<Marks>)], base: Option<u32>, unmarked: &[u32], names: &[&str], complete| {
                let release = release(revisions);
                assert_eq!(release.base().map(|(version, _)| version), base, "{revisions:?}");
                assert_eq!(release.unmarked(), unmarked, "{revisions:?}");
                let inventory = release.inventory();
                assert_eq!(inventory.objects.iter().map(|o| &*o.key.name).collect::<Vec<_>>(), names, "{revisions:?}");
                assert_eq!(inventory.complete, complete, "{revisions:?}");
            };
        check(&[(Superseded, None), (Deployed, complete(&["a"]))], Some(2), &[], &["a"], true);
        check(&[(Deployed, complete(&["a"])), (Failed, ours(&["a", "b"]))], Some(1), &[], &["a", "b"], false);
        check(
            &[(Deployed, complete(&["a"])), (Failed, None), (PendingUpgrade, ours(&["c"]))],
            Some(1),
            &[2],
            &["a", "c"],
            false,
        );
        check(&[(Superseded, None), (Superseded, None), (Failed, None)], Some(2), &[2, 3], &[], false);
        check(&[(Failed, ours(&["a"])), (Failed, ours(&["b"]))], None, &[], &["a", "b"], false);
        check(
            &[(Superseded, None), (Uninstalling, ours(&["a"])), (Failed, ours(&["b"]))],
            Some(2),
            &[],
            &["a", "b"],
            false,
        );
        // Helm deployed the base, and does not know what failed revisions before it made.
        let helms = || complete(&["a"]).map(|marks| Marks { inputs: String::new(), complete: false, ..marks });
        let failed = || (Failed, ours(&["a", "y"]));
        for superseded in [None, complete(&["a", "old"])] {
            let revisions = [(Superseded, superseded), failed(), failed(), (Deployed, helms())];
            check(&revisions, Some(4), &[], &["a", "y"], false);
        }
        let twice = |last| [failed(), (Superseded, None), (Superseded, None), (last, helms())];
        check(&twice(Deployed), Some(4), &[], &["a", "y"], false);
        check(&twice(Superseded), Some(4), &[], &["a", "y"], false);
        check(&[failed(), (Superseded, complete(&["a"])), (Deployed, helms())], Some(3), &[], &["a"], false);
        check(&[failed(), (Failed, None), (Deployed, None)], Some(3), &[2, 3], &["a", "y"], false);
        for unsuccessful in [Failed, PendingUpgrade, PendingRollback] {
            check(&[(unsuccessful, None), (Superseded, None), (Deployed, helms())], Some(3), &[1], &["a"], false);
        }
        check(&[failed(), (Deployed, complete(&["a"]))], Some(2), &[], &["a"], true);
        // A crash left an older revision deployed before the uninstall started. Its hooks must not run instead of the
        // newer one's.
        check(&[(Deployed, complete(&["a"])), (Uninstalling, complete(&["b"]))], Some(2), &[], &["b"], true);
        assert!(ReleaseRecords::default().inventory().objects.is_empty());
    }

    #[test]
    fn a_revision_whose_uninstall_began_is_the_last_good_one_until_a_later_one_is_deployed() {
        let a = || ours(&["a"]);
        let check = |revisions: &[(Status, Option<Marks>)], outdated: &[u32], last_good: Option<u32>| {
            let release = release(revisions);
            assert_eq!((release.outdated(), release.last_good()), (outdated.to_vec(), last_good), "{revisions:?}");
        };
        check(&[(Superseded, a()), (Uninstalling, a()), (Failed, a())], &[], Some(2));
        check(&[(Superseded, a()), (Uninstalling, a()), (Failed, a()), (Deployed, a())], &[2], Some(4));
        check(&[(Uninstalling, None), (Failed, a()), (Deployed, a())], &[], Some(3));
        check(&[(Superseded, a()), (Uninstalling, a())], &[], Some(1));
        check(&[(Deployed, a()), (Deployed, a()), (Failed, a())], &[1], Some(2));
    }

    /// Rewrites a revision as Helm does when it marks it superseded.
    fn helm_supersedes(release: &mut ReleaseRecords, version: u32) {
        let rewritten = release.revisions.get_mut(&version).unwrap();
        (rewritten.status, rewritten.marks, rewritten.trust) = (Superseded, None, Trust::Foreign);
        release.drop_old_objects();
    }

    #[test]
    fn what_a_failed_upgrade_made_is_known_while_a_person_upgrades_again_and_again() {
        let failed = (Failed, ours(&["a", "y"]));
        let mut all = release(&[(Deployed, complete(&["a"])), failed, (Deployed, None), (Deployed, None)]);
        let helms: Vec<(u32, Revision)> = [3, 4].map(|version| (version, all.revisions[&version].clone())).into();
        all.revisions.retain(|version, _| *version < 3);
        for (version, deployed) in helms {
            all.revisions.insert(version, Revision { status: PendingUpgrade, ..deployed.clone() });
            all.drop_old_objects();
            helm_supersedes(&mut all, if version == 3 { 1 } else { 3 });
            all.revisions.insert(version, deployed);
            all.drop_old_objects();
            assert_eq!(all.unmarked(), [version]);
            assert_eq!(all.inventory().objects.iter().map(|o| &*o.key.name).collect::<Vec<_>>(), ["a", "y"]);
        }
    }

    #[test]
    fn what_a_later_revision_of_ours_has_pruned_is_not_read_again_after_a_persons_upgrade() {
        let failed = (Failed, ours(&["a", "y"]));
        let mut all = release(&[failed, (Deployed, complete(&["a"])), (Deployed, None)]);
        let helms = all.revisions.remove(&3).unwrap();
        all.drop_old_objects();
        all.revisions.insert(3, helms);
        helm_supersedes(&mut all, 2);
        assert_eq!((all.unmarked(), all.left_behind().count()), (vec![3], 0));
    }

    #[test]
    fn what_helm_left_before_a_resource_had_the_release_is_not_read() {
        let mut all = release(&[(Superseded, None), (Failed, None), (Deployed, None)]);
        assert_eq!(all.unmarked(), [2, 3]);
        all.revisions.iter_mut().for_each(|(_, revision)| revision.owners = Box::default());
        assert_eq!(all.unmarked(), [3]);
    }

    #[test]
    fn carried_over_marks_are_found_in_any_revision() {
        let marked = |change: fn(&mut Marks)| {
            let mut marks = ours(&["a"]);
            marks.iter_mut().for_each(change);
            release(&[(Superseded, marks), (Deployed, ours(&["a"])), (Failed, None)])
        };
        let plain = marked(|_| {});
        assert_eq!((plain.is_taken_over(), plain.first_deployed()), (false, None));
        assert!(marked(|m| m.taken_over = true).is_taken_over());
        assert_eq!(marked(|m| m.first_deployed = Some(at(7))).first_deployed(), Some(at(7)));
    }
}
