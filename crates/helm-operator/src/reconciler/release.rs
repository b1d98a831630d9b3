//! A release as the cache holds it: its revisions, from the metadata of their records. [`super::recorded`] derives what they mean.

use std::sync::Arc;

use helm_release::kube::{ObjectKey, Owner};
use helm_release::release::{Packed, Status};
use helm_release::storage::Marks;
use jiff::Timestamp;
use litemap::LiteMap;

use super::rival::Rival;
use super::stamp::Stamp;

/// A release's revisions.
#[derive(Clone, Debug, Default)]
pub(super) struct Release {
    pub(super) revisions: LiteMap<u32, Revision>,
    /// The deployed revision's record, if this process read or wrote it.
    pub(super) packed: Option<(u32, Packed)>,
    /// Another process that writes the records, too.
    pub(super) rival: Option<Box<Rival>>,
}

/// One revision.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) status: Status,
    pub(super) resource_version: u64,
    /// The uids of the owners that the record names beside the one in its marks.
    pub(super) owners: Box<[Box<str>]>,
    pub(super) marks: Option<Arc<Marks>>,
    pub(super) stamp: Stamp,
    /// When it was last written, if a watch reported it.
    pub(super) written: Option<Timestamp>,
}

impl Revision {
    /// Notes the version that our own write gave its record.
    pub(super) fn rewritten(&mut self, resource_version: u64) {
        self.resource_version = resource_version;
        self.stamp = Stamp::written(Some(self.stamp));
    }
}

impl Release {
    /// Stores a revision whose whole record we wrote.
    pub(super) fn put(&mut self, version: u32, status: Status, resource_version: u64, marks: Marks) {
        self.note_own(version);
        let stamp = Stamp::written(self.revisions.get(&version).map(|known| known.stamp));
        let (owners, marks) = (Box::default(), Some(Arc::new(marks)));
        self.revisions.insert(version, Revision { status, resource_version, owners, marks, stamp, written: None });
    }

    /// The objects of all revisions with marks; some may occur twice.
    pub(super) fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        let marks = self.revisions.values().filter_map(|r| r.marks.as_ref());
        marks.flat_map(|marks| &marks.objects).map(|object| &object.key)
    }

    pub(super) fn newest(&self) -> Option<(u32, &Revision)> {
        self.revisions.last().map(|(v, r)| (*v, r))
    }

    /// The newest deployed revision.
    pub(super) fn deployed(&self) -> Option<(u32, &Revision)> {
        self.revisions.iter().rev().find(|(_, r)| r.status == Status::Deployed).map(|(v, r)| (*v, r))
    }

    /// Deployed revisions that are not the newest: a crash or a failed request came between two writes.
    pub(super) fn outdated(&self) -> Vec<u32> {
        let newest = self.deployed().map(|(version, _)| version);
        let deployed = self.revisions.iter().filter(|(_, r)| r.status == Status::Deployed).map(|(v, _)| *v);
        deployed.filter(|version| Some(*version) != newest).collect()
    }

    /// The deployed revision, else the newest one that ever was deployed.
    pub(super) fn last_good(&self) -> Option<u32> {
        let newest = |status| self.revisions.iter().rev().find(|(_, r)| r.status == status).map(|(v, _)| *v);
        newest(Status::Deployed).or_else(|| newest(Status::Superseded))
    }

    /// Whether a revision names this owner, or an earlier one of the same name.
    pub(super) fn is_owned_by(&self, owner: &Owner) -> bool {
        let kind = owner.annotated_type();
        self.revisions.values().any(|r| {
            r.marks.as_ref().is_some_and(|m| *m.owner == *owner.uid || *m.owner_type == *kind)
                || r.owners.iter().any(|uid| **uid == *owner.uid)
        })
    }

    /// Drops the objects of revisions before the base: only later ones may be live. What remains is mostly the same for all of them, and shared.
    pub(super) fn drop_old_objects(&mut self) {
        let base = self.base().map_or(0, |(version, _)| version);
        let mut last: Option<Arc<Marks>> = None;
        for (_, revision) in self.revisions.iter_mut().take_while(|(version, _)| **version < base) {
            let Some(marks) = &mut revision.marks else { continue };
            if !marks.objects.is_empty() || !marks.inputs.is_empty() {
                *marks = Arc::new(Marks {
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
