//! A release as the cache holds it: its revisions, from the metadata of their records.
//! [`crate::reconcile::decide::recorded`] interprets them.

use std::sync::Arc;

use controller::runtime::freshness::Stamp;
use helm_release::action::RecordedFailure;
use helm_release::kube::{ObjectKey, Owner};
use helm_release::release::{Packed, Status};
use helm_release::storage::{Body, Content, Marks, Precondition, Proof, RecordMeta, Stored, Written};
use jiff::Timestamp;
use litemap::LiteMap;

use super::competitor::Competitor;

/// The records of a release: its revisions.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReleaseRecords {
    pub(crate) revisions: LiteMap<u32, Revision>,
    /// The deployed revision's record, if this process has read or written it.
    pub(crate) packed: Option<(u32, Stored<Packed>)>,
    /// Another process that also writes the records.
    pub(crate) competitor: Option<Box<Competitor>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Revision {
    pub(crate) status: Status,
    pub(crate) resource_version: u64,
    /// The uids of the owners that the record names, in addition to the one in its marks.
    pub(crate) owners: Box<[Box<str>]>,
    /// What the record says about its objects: our own marks, or marks read from the manifest of a record that is not
    /// ours.
    pub(crate) marks: Option<Arc<Marks>>,
    pub(crate) trust: Trust,
    /// Whether the record names this process as its last writer.
    pub(crate) names_us: bool,
    /// Whether an operator with another key sealed the record.
    pub(crate) has_other_key: bool,
    pub(crate) stamp: Stamp,
    /// When it was last written, if a watch reported it.
    pub(crate) written: Option<Timestamp>,
    /// Whether its objects were dropped, because a later revision of ours has listed or pruned them.
    pub(crate) is_settled: bool,
}

/// The writer of a revision's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// This process, with this content unless the response to the write is unknown.
    Written(Option<Content>),
    /// This operator, proven by the record's seal. The record is authentic, but may have been put back.
    Sealed(Content),
    /// Helm or an upstream operator.
    Foreign,
    /// Anyone: the record looks like ours, but its seal is invalid.
    Broken,
}

impl Trust {
    /// Returns whether the keys that count now prove less or more than those that counted when the record was read.
    pub(crate) fn differs_by_keys(self, proof: Proof) -> bool {
        matches!(
            (self, proof),
            (Trust::Sealed(_) | Trust::Written(_), Proof::Broken) | (Trust::Broken, Proof::Sealed(_))
        )
    }
}

impl From<Proof> for Trust {
    fn from(proof: Proof) -> Trust {
        match proof {
            Proof::Sealed(content) => Trust::Sealed(content),
            Proof::Foreign => Trust::Foreign,
            Proof::Broken => Trust::Broken,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The resource, or an earlier one with the same kind and name.
    Resource,
    /// No custom resource: Helm created the release.
    Nobody,
    /// Another resource, as an upstream operator recorded it.
    Upstream,
    Other,
    /// Another resource, which took it over from this one.
    Successor,
}

impl Revision {
    /// Creates a revision from its record's metadata, in the process with this name.
    pub(crate) fn of(meta: RecordMeta, stamp: Stamp, process: &str) -> Revision {
        let marked = meta.marks.as_ref().map(|marks| marks.owner.clone());
        let owners = meta.owners.into_iter().filter(|uid| marked.as_deref() != Some(uid));
        Revision {
            status: meta.status,
            resource_version: meta.resource_version,
            owners: owners.map(Into::into).collect(),
            marks: meta.marks.map(Arc::new),
            trust: meta.proof.into(),
            names_us: meta.writer.as_deref() == Some(process),
            has_other_key: meta.has_other_key,
            stamp,
            written: meta.written,
            is_settled: false,
        }
    }

    fn names_owner(&self) -> bool {
        self.is_marked() || !self.owners.is_empty()
    }

    /// Returns whether the marks name an owner.
    fn is_marked(&self) -> bool {
        self.marks.as_ref().is_some_and(|m| !m.owner.is_empty() || !m.owner_type.is_empty())
    }

    /// Returns whether the marks name the owner with this uid.
    pub(crate) fn is_marked_for(&self, uid: &str) -> bool {
        self.marks.as_ref().is_some_and(|marks| *marks.owner == *uid)
    }

    /// Returns whether the revision names this owner, or an earlier one with the same name.
    pub(crate) fn names(&self, owner: &Owner) -> bool {
        self.marks.as_ref().is_some_and(|m| *m.owner == *owner.uid || *m.owner_type == *owner.annotated_type())
            || self.has_owner(&owner.uid)
    }

    /// Returns whether the record's owners include this uid.
    fn has_owner(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| **owner == *uid)
    }

    /// Returns whether the revision says that this owner had the release before another took it over.
    fn had(&self, owner: &Owner) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.former.iter().any(|uid| **uid == *owner.uid))
    }

    /// Records the resource version that our own write gave the record.
    pub(crate) fn rewritten(&mut self, resource_version: u64) {
        self.resource_version = resource_version;
        self.stamp = Stamp::written(Some(self.stamp));
    }

    /// Returns whether its marks say that it renders an object.
    pub(crate) fn renders(&self, object: &ObjectKey) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.renders(object))
    }

    /// Returns whether it repeats an earlier revision.
    pub(crate) fn is_rollback(&self) -> bool {
        self.status == Status::PendingRollback
            || self.marks.as_ref().is_some_and(|marks| marks.rolled_back_to.is_some())
    }

    /// Returns whether this operator wrote the record.
    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self.trust, Trust::Written(_) | Trust::Sealed(_))
    }

    /// Returns whether it is an unfinished action of this operator.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.is_sealed() && self.status.is_pending()
    }

    /// Returns whether this process wrote the record last. Since then, only metadata outside the seal may have changed.
    pub(crate) fn is_own(&self) -> bool {
        match self.trust {
            Trust::Written(_) => true,
            Trust::Sealed(_) => self.names_us,
            Trust::Foreign | Trust::Broken => false,
        }
    }

    /// Returns the precondition that its record is as this process knows it.
    pub(crate) fn unchanged(&self) -> Precondition {
        match self.resource_version {
            0 => Precondition::None,
            version => Precondition::ResourceVersion(version),
        }
    }

    /// Returns the part of the record that marks are written for, if this operator wrote the record.
    pub(crate) fn body(&self, version: u32) -> Option<Body> {
        match self.trust {
            Trust::Written(Some(content)) | Trust::Sealed(content) => {
                Some(Body { version, status: self.status, content })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
impl Revision {
    /// Creates a revision that this process wrote.
    pub(crate) fn written_by_us(status: Status, marks: Marks) -> Revision {
        Revision {
            status,
            resource_version: 1,
            owners: Box::default(),
            marks: Some(Arc::new(marks)),
            trust: Trust::Written(None),
            names_us: true,
            has_other_key: false,
            stamp: Stamp::written(None),
            written: None,
            is_settled: false,
        }
    }
}

#[cfg(test)]
impl ReleaseRecords {
    /// Creates a release with revisions that this process wrote, numbered from 1.
    pub(crate) fn written_by_us(revisions: &[(Status, Marks)]) -> ReleaseRecords {
        let revision = |(status, marks): &(Status, Marks)| Revision::written_by_us(*status, marks.clone());
        ReleaseRecords { revisions: (1..).zip(revisions.iter().map(revision)).collect(), ..ReleaseRecords::default() }
    }
}

impl ReleaseRecords {
    /// Creates a release without revisions, with room for one, as most releases have. A list that grows by itself would
    /// begin with room for four.
    pub(crate) fn for_one_revision() -> Arc<ReleaseRecords> {
        Arc::new(ReleaseRecords { revisions: LiteMap::with_capacity(1), ..ReleaseRecords::default() })
    }

    /// Stores a revision whose whole record we wrote, with the record.
    pub(crate) fn put_written(&mut self, version: u32, status: Status, written: Written, marks: Marks) {
        let Written { packed, resource_version } = written;
        self.put(version, (status, Trust::Written(Some(packed.content()))), resource_version, marks);
        self.packed = Some((version, Stored::Sealed(packed)));
    }

    /// Stores a revision that the process with this name read before a watch reports it.
    pub(crate) fn put_read(&mut self, meta: RecordMeta, process: &str) {
        let stamp = Stamp::written(self.revisions.get(&meta.version).map(|known| known.stamp));
        self.revisions.insert(meta.version, Revision::of(meta, stamp, process));
    }

    /// Stores a revision that we wrote.
    pub(crate) fn put(&mut self, version: u32, (status, trust): (Status, Trust), resource_version: u64, marks: Marks) {
        self.note_own(version);
        let stamp = Stamp::written(self.revisions.get(&version).map(|known| known.stamp));
        let (owners, marks, is_settled) = (Box::default(), Some(Arc::new(marks)), false);
        let (names_us, has_other_key, written) = (true, false, None);
        let revision = Revision {
            status,
            resource_version,
            owners,
            marks,
            trust,
            names_us,
            has_other_key,
            stamp,
            written,
            is_settled,
        };
        self.revisions.insert(version, revision);
    }

    /// Stores how far a failed action of ours got. If its last write was not answered, the end that a watch has reported
    /// meanwhile stays.
    pub(crate) fn put_failed(&mut self, recorded: &RecordedFailure) {
        let RecordedFailure { version, status, resource_version, ref marks, .. } = *recorded;
        let has_ended = |known: &Revision| known.is_sealed() && !known.status.is_pending();
        let is_unanswered = status.is_pending() && resource_version == 0;
        if is_unanswered && self.revisions.get(&version).is_some_and(has_ended) {
            return;
        }
        self.put(version, (status, Trust::Written(None)), resource_version, marks.clone());
    }

    /// Stores that we gave up a revision, whose marks stay.
    pub(crate) fn given_up(&mut self, version: u32, written: &Written) {
        let Some(revision) = self.revisions.get_mut(&version) else { return };
        revision.status = Status::Failed;
        revision.trust = Trust::Written(Some(written.packed.content()));
        revision.rewritten(written.resource_version);
        self.packed = self.packed.take().filter(|(of, _)| *of != version);
    }

    /// Stores that we rewrote a revision's record with these marks.
    pub(crate) fn remarked(&mut self, version: u32, written: &Written, marks: Marks) {
        let Some(revision) = self.revisions.get_mut(&version) else { return };
        revision.marks = Some(Arc::new(marks));
        revision.trust = Trust::Written(Some(written.packed.content()));
        revision.rewritten(written.resource_version);
        self.packed = self.packed.take().filter(|(of, _)| *of != version);
    }

    /// Removes revisions, by their numbers and the versions of their records, and the record in memory of a removed one.
    pub(crate) fn lose(&mut self, mut is_lost: impl FnMut(u32, u64) -> bool) {
        self.revisions.retain(|version, revision| !is_lost(*version, revision.resource_version));
        self.packed = self.packed.take().filter(|(of, _)| self.revisions.contains_key(of));
    }

    /// Returns whether a revision is the resource's own and as current as its status. Only such a revision is rolled
    /// back to, kept while the next one fails, or used for its hooks. A record that was put back is authentic, but not
    /// what is running.
    pub(crate) fn is_vouched(&self, version: u32, uid: &str, at_least: u32) -> bool {
        let Some(revision) = self.revisions.get(&version) else { return false };
        let is_current = version >= at_least || matches!(revision.trust, Trust::Written(_));
        revision.is_sealed() && is_current && revision.is_marked_for(uid)
    }

    /// Returns whether someone restored an old record: the revision is older than `reported`, the one in the resource's
    /// status, and this process did not write it.
    pub(crate) fn is_put_back(&self, version: u32, reported: u32) -> bool {
        let written = |revision: &Revision| matches!(revision.trust, Trust::Written(_));
        version < reported && !self.revisions.get(&version).is_some_and(written)
    }

    /// Returns whether a takeover has noted something for itself that the owner sees otherwise.
    pub(crate) fn has_notes(&self) -> bool {
        let mut marks = self.revisions.values().filter_map(|revision| revision.marks.as_ref());
        marks.any(|marks| !marks.noted_for.is_empty())
    }

    /// Returns the records as the resource with this uid sees them, which may be the owner of some.
    pub(crate) fn seen_by(self: Arc<Self>, uid: &str) -> Arc<ReleaseRecords> {
        let own = self.revisions.iter().filter(|(_, revision)| revision.is_marked_for(uid));
        let noted = own.filter_map(|(version, revision)| Some((*version, revision.marks.as_ref()?.for_owner()?)));
        let noted: Vec<(u32, Marks)> = noted.collect();
        if noted.is_empty() {
            return self;
        }
        let mut seen = Arc::unwrap_or_clone(self);
        for (version, marks) in noted {
            if let Some(revision) = seen.revisions.get_mut(&version) {
                revision.marks = Some(Arc::new(marks));
            }
        }
        Arc::new(seen)
    }

    /// Returns whether a record names the owner with this uid.
    pub(crate) fn names_uid(&self, uid: &str) -> bool {
        self.revisions.values().any(|revision| revision.is_marked_for(uid) || revision.has_owner(uid))
    }

    /// Returns whether this operator wrote a record for the owner with this uid.
    pub(crate) fn is_written_for(&self, uid: &str) -> bool {
        self.newest_of(uid).is_some()
    }

    /// Returns whether this operator recorded the release for this owner, who still has it.
    pub(crate) fn is_recorded_for(&self, owner: &Owner) -> bool {
        self.is_written_for(&owner.uid) && self.holder(owner) == Holder::Resource
    }

    /// Returns the revisions whose records look like ours but are not.
    pub(crate) fn broken(&self) -> Vec<u32> {
        self.revisions.iter().filter(|(_, r)| r.trust == Trust::Broken).map(|(version, _)| *version).collect()
    }

    /// Records that a record's content does not match its metadata. Its marks, which the seal covers, stay valid; its
    /// content may be anyone's.
    pub(crate) fn distrust(&mut self, version: u32) {
        if let Some(revision) = self.revisions.get_mut(&version) {
            revision.trust = Trust::Broken;
        }
        self.packed = self.packed.take().filter(|(of, _)| *of != version);
    }

    /// Returns the objects of all revisions with marks. Some may occur twice.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        let marks = self.revisions.values().filter_map(|r| r.marks.as_ref());
        marks.flat_map(|marks| &marks.objects).map(|object| &object.key)
    }

    pub(crate) fn newest(&self) -> Option<(u32, &Revision)> {
        self.revisions.last().map(|(v, r)| (*v, r))
    }

    /// Returns the number of the newest revision that this operator recorded for the owner with this uid.
    pub(crate) fn newest_of(&self, uid: &str) -> Option<u32> {
        let is_own = |revision: &Revision| revision.is_sealed() && revision.is_marked_for(uid);
        self.revisions.iter().rev().find(|(_, revision)| is_own(revision)).map(|(version, _)| *version)
    }

    /// Returns whether an operator with another key has recorded the release for the owner with this uid, and this one has
    /// not recorded it since. If this operator's key is lost, its own records count as another's.
    pub(crate) fn is_recorded_elsewhere_for(&self, uid: &str) -> bool {
        let is_anothers = |revision: &Revision| revision.has_other_key && revision.has_owner(uid);
        let anothers = self.revisions.iter().rev().find(|(_, revision)| is_anothers(revision));
        anothers.is_some_and(|(version, _)| self.newest_of(uid).is_none_or(|own| own < *version))
    }

    /// Returns the number of the newest revision that this operator recorded for this owner, or for an earlier one with the
    /// same name, or 0 without any.
    pub(crate) fn newest_for(&self, owner: &Owner) -> u32 {
        let is_own = |revision: &Revision| revision.is_sealed() && revision.names(owner);
        self.revisions.iter().rev().find(|(_, revision)| is_own(revision)).map_or(0, |(version, _)| *version)
    }

    /// Returns the uid of the owner in the newest revision that this operator recorded for one.
    pub(crate) fn sealed_owner(&self) -> Option<Arc<str>> {
        let mut sealed = self.revisions.values().rev().filter(|one| one.is_sealed() && one.is_marked());
        sealed.find_map(|one| Some(one.marks.as_ref()?.owner.clone())).filter(|uid| !uid.is_empty())
    }

    pub(crate) fn deployed(&self) -> Option<(u32, &Revision)> {
        self.revisions.iter().rev().find(|(_, r)| r.status == Status::Deployed).map(|(v, r)| (*v, r))
    }

    /// Returns the marks of the newest deployed revision.
    pub(crate) fn deployed_marks(&self) -> Option<&Arc<Marks>> {
        self.deployed()?.1.marks.as_ref()
    }

    /// Returns a revision's record, if this process has read or written it.
    pub(crate) fn record(&self, version: u32) -> Option<&Stored<Packed>> {
        self.packed.as_ref().filter(|(known, _)| *known == version).map(|(_, record)| record)
    }

    /// Returns the revisions before the deployed one that are still recorded as deployed or as being uninstalled, because a
    /// crash or a failed request came between two writes.
    pub(crate) fn outdated(&self) -> Vec<u32> {
        let deployed = self.deployed().map_or(0, |(version, _)| version);
        let is_left = |revision: &Revision| match revision.status {
            Status::Deployed => true,
            Status::Uninstalling => revision.is_sealed(),
            _ => false,
        };
        let older = self.revisions.iter().take_while(|(version, _)| **version < deployed);
        older.filter(|(_, revision)| is_left(revision)).map(|(version, _)| *version).collect()
    }

    /// Returns the deployed revision, or else the one that is being uninstalled because a later one failed, or else the
    /// newest one that was ever deployed.
    pub(crate) fn last_good(&self) -> Option<u32> {
        let newest = |status| self.revisions.iter().rev().find(|(_, r)| r.status == status).map(|(v, _)| *v);
        let leaving = || self.begun_uninstall().map(|(version, _)| version);
        newest(Status::Deployed).or_else(leaving).or_else(|| newest(Status::Superseded))
    }

    /// Returns the holder of the release. The newest revision that names an owner decides, because a person's `helm
    /// upgrade` writes one that names none.
    pub(crate) fn holder(&self, owner: &Owner) -> Holder {
        // If this operator has records of its own, only those count.
        let has_own = self.revisions.values().any(|revision| revision.is_sealed() && revision.is_marked());
        let counts = |revision: &&Revision| {
            if has_own { revision.is_sealed() && revision.is_marked() } else { revision.names_owner() }
        };
        let mut named = self.revisions.values().rev().filter(counts);
        match named.next() {
            None => Holder::Nobody,
            Some(newest) if newest.names(owner) => Holder::Resource,
            Some(newest) if !newest.is_marked() => Holder::Upstream,
            Some(newest) if newest.had(owner) || named.any(|older| older.names(owner)) => Holder::Successor,
            Some(_) => Holder::Other,
        }
    }

    /// Returns whether the newest record has no valid seal and names resources other than this owner, although
    /// according to the sealed records the release is this owner's. Either an operator with another key took the
    /// release over, or someone made it up.
    pub(crate) fn is_claimed_from(&self, owner: &Owner) -> bool {
        let claims = |newest: &Revision| {
            newest.trust == Trust::Broken && !newest.owners.is_empty() && !newest.has_owner(&owner.uid)
        };
        self.newest().is_some_and(|(_, newest)| claims(newest)) && self.holder(owner) == Holder::Resource
    }

    /// Drops the objects of revisions before the base, because only objects of later revisions and left-behind objects
    /// may be live. The remaining marks are mostly equal, so they are shared. If a rollout made the base, the inputs of
    /// a revision that the base repeats stay: undoing the rollout must not return to the same inputs.
    pub(crate) fn drop_old_objects(&mut self) {
        let (base, base_marks) = self.base().map_or((0, None), |(version, base)| (version, base.marks.clone()));
        let rolled_out = base_marks.filter(|marks| marks.before.is_some());
        let left_behind: Vec<u32> = self.left_behind().map(|(version, _)| version).collect();
        let mut last: Option<Arc<Marks>> = None;
        for (version, revision) in self.revisions.iter_mut().take_while(|(version, _)| **version < base) {
            if left_behind.contains(version) {
                continue;
            }
            revision.is_settled = true;
            let Some(marks) = &mut revision.marks else { continue };
            if !marks.objects.is_empty() || !marks.inputs.is_empty() {
                // The inputs with which an upgrade failed, and the release's state before it, count as long as the
                // upgrade is recorded.
                let has_failed = revision.status == Status::Failed;
                let is_repeated = rolled_out.as_ref().is_some_and(|base| base.inputs == marks.inputs);
                *marks = Arc::new(Marks {
                    inputs: if has_failed || is_repeated { marks.inputs.clone() } else { String::new() },
                    before: marks.before.filter(|_| has_failed),
                    owner: marks.owner.clone(),
                    owner_type: marks.owner_type.clone(),
                    taken_over: marks.taken_over,
                    string_overrides: marks.string_overrides,
                    ..Marks::default()
                });
            }
            if let Some(same) = last.filter(|last| last == marks) {
                *marks = same;
            }
            last = Some(marks.clone());
        }
    }
}
