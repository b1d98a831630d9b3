//! The controller's state that needs no request: resources, releases and their objects.
//!
//! Fed by watches ([`controller::runtime::reflector`]) and by responses to our own writes;
//! [`controller::runtime::freshness`] decides how long to trust each. Of two versions of an object the newer wins, and
//! an object seen as deleted does not come back. It is one type, because one lock keeps what it knows consistent; the
//! resources are here, the rest of what it answers in a file per subject.

mod kinds;
mod objects;
mod releases;
mod state;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use controller::runtime::freshness::Epoch;
use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::WatchScope;
use helm_release::storage::Home;
use outside::sync;

use super::primary::Primary;
use super::releases::{ListenerId, Releases};
use crate::values::Room;
use crate::watches::{Expressions, Sequencing};
use state::State;

/// The version at which a deleted object departs.
const AFTER_ALL_VERSIONS: u64 = u64::MAX;

/// The controller's view of the cluster.
#[derive(Default)]
pub(crate) struct Cache {
    state: Mutex<State>,
    /// Counts what may have changed `state`.
    changes: AtomicU64,
    releases: Arc<Releases>,
    /// Where this controller's records are stored. `releases` is keyed by the records' own namespaces and names.
    home: Home,
    reader: ListenerId,
    expressions: Arc<Expressions>,
    /// Whether an object's own annotations say when it is ready.
    heeds_annotations: bool,
    /// For large specs.
    room: Room,
    /// For large objects that expressions read.
    objects_room: Room,
}

impl Cache {
    /// Creates a cache over the process's releases.
    pub(crate) fn over(releases: Arc<Releases>) -> Cache {
        Cache { reader: releases.new_reader(), releases, ..Cache::default() }
    }

    /// Returns the cache with these expressions, which read objects and judge whether they are ready.
    pub(crate) fn judging(self, expressions: Arc<Expressions>) -> Cache {
        Cache { expressions, ..self }
    }

    /// Returns the cache for a chart with this sequencing: an ordered one's objects are judged by their own annotations
    /// first.
    pub(crate) fn sequenced(self, sequencing: Sequencing) -> Cache {
        Cache { heeds_annotations: sequencing == Sequencing::Ordered, ..self }
    }

    /// Returns the cache for a controller whose records are stored here.
    pub(crate) fn recording_at(self, home: Home) -> Cache {
        Cache { home, ..self }
    }

    /// Returns the cache with this room for large specs, and this one for large objects that expressions read.
    pub(crate) fn within(self, room: Room, objects_room: Room) -> Cache {
        Cache { room, objects_room, ..self }
    }

    /// Returns a copy for one resource that nothing feeds: it knows the objects, and of releases only the resource's.
    /// Its changes are its own.
    pub(crate) fn copied_for(&self, key: &ResourceKey) -> Cache {
        let releases = Arc::new(self.releases.copied_for(&self.record_of(key)));
        let state = self.state();
        let copied =
            State { dependents: state.dependents.clone(), coverage: state.coverage.clone(), ..State::default() };
        Cache {
            state: Mutex::new(copied),
            changes: AtomicU64::default(),
            reader: releases.new_reader(),
            releases,
            home: self.home.clone(),
            expressions: self.expressions.clone(),
            heeds_annotations: self.heeds_annotations,
            room: self.room.clone(),
            objects_room: self.objects_room.clone(),
        }
    }

    #[cfg(test)]
    pub(crate) fn fill_room(&self) {
        self.room.fill();
    }

    fn reduced(&self, mut primary: Primary) -> Primary {
        let replaced = self.primary(&primary.key()).map_or(0, |known| known.spec.reserved());
        primary.spec = primary.spec.clone().kept_in(&self.room, replaced);
        primary
    }

    fn record_of<'k>(&self, key: &'k ResourceKey) -> Cow<'k, ResourceKey> {
        match self.home.record(&key.namespace, &key.name) {
            (_, Cow::Borrowed(_)) => Cow::Borrowed(key),
            (namespace, Cow::Owned(name)) => Cow::Owned(ResourceKey::new(namespace, &name)),
        }
    }

    /// Returns the known resource that a record belongs to.
    pub(crate) fn resource_of(&self, record: &ResourceKey) -> Option<ResourceKey> {
        let state = self.state();
        if self.home == Home::default() {
            return state.primaries.contains_key(record).then(|| record.clone());
        }
        match self.home.release(&record.namespace, &record.name) {
            Some((namespace, name)) => {
                let key = ResourceKey::new(namespace, name);
                state.primaries.contains_key(&key).then_some(key)
            }
            None if self.home.may_be_cut(&record.namespace, &record.name) => {
                state.primaries.keys().find(|key| *self.record_of(key) == *record).cloned()
            }
            None => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    /// Locks the state for a change, and counts the change.
    fn changing(&self) -> MutexGuard<'_, State> {
        let state = self.state();
        // Counted under the lock, so a reader who sees the count also sees the change.
        self.changes.fetch_add(1, Ordering::Relaxed);
        state
    }

    /// Returns a number that differs whenever something in the cache has changed.
    pub(crate) fn generation(&self) -> u64 {
        self.changes.load(Ordering::Relaxed).wrapping_add(self.releases.generation())
    }

    pub(crate) fn primaries(&self) -> Vec<Arc<Primary>> {
        self.state().primaries.values().map(|(primary, _)| primary.clone()).collect()
    }

    pub(crate) fn primary(&self, key: &ResourceKey) -> Option<Arc<Primary>> {
        self.state().primaries.get(key).map(|(primary, _)| primary.clone())
    }

    pub(crate) fn primary_with_uid(&self, key: &ResourceKey, uid: &str) -> Option<Arc<Primary>> {
        self.primary(key).filter(|known| known.uid() == uid)
    }

    pub(crate) fn has_primary(&self, key: &ResourceKey, uid: &str) -> bool {
        self.primary_with_uid(key, uid).is_some()
    }

    /// Stores a resource from a watch; returns whether it may need reconciling.
    pub(crate) fn store_primary(&self, primary: Primary, epoch: Epoch) -> bool {
        let primary = self.reduced(primary);
        let mut state = self.changing();
        if state.left.turns_away(&primary.uid().into(), version(&primary), Some(epoch)) {
            return false;
        }
        state.gone.forget(primary.uid());
        state.put_primary(primary, Some(epoch), Primary::differs_from)
    }

    /// Stores a resource from the response to our own write; returns whether it may need reconciling.
    pub(crate) fn store_written_primary(&self, primary: Primary) -> bool {
        let primary = self.reduced(primary);
        let mut state = self.changing();
        let is_late =
            state.gone.has(primary.uid()) || state.left.turns_away(&primary.uid().into(), version(&primary), None);
        !is_late && state.put_primary(primary, None, Primary::is_edited_since)
    }

    /// Returns whether this version of a resource is from before its departure.
    pub(crate) fn has_left(&self, primary: &Primary, epoch: Epoch) -> bool {
        self.state().left.turns_away(&primary.uid().into(), version(primary), Some(epoch))
    }

    /// Removes a resource with this uid that a read or the answer to a write has shown to be deleted; returns whether it
    /// was known. Events that are still on their way are from before the deletion.
    pub(crate) fn remove_primary(&self, key: &ResourceKey, uid: &str) -> bool {
        self.leave_primary(key, uid, AFTER_ALL_VERSIONS)
    }

    /// Removes a resource that a list lacks, if it has this uid; returns whether it was known. Later events bring it
    /// back if it exists, but responses to writes may be older than the list.
    pub(crate) fn unlist_primary(&self, key: &ResourceKey, uid: &str) -> bool {
        let mut state = self.changing();
        state.gone.add(uid);
        state.drop_primary(key, uid)
    }

    /// Removes a resource with this uid that was deleted, lost the labels that the watch selects or went to another
    /// shard, at this version; returns whether it was known.
    pub(crate) fn leave_primary(&self, key: &ResourceKey, uid: &str, version: u64) -> bool {
        let mut state = self.changing();
        state.left.add(uid.into(), version);
        state.drop_primary(key, uid)
    }

    /// Returns the cached resources of a scope that the completed list did not contain.
    pub(crate) fn unlisted_primaries(&self, scope: &WatchScope, list: Epoch) -> Vec<Arc<Primary>> {
        let state = self.state();
        let all = state.primaries.values().filter(|(primary, _)| scope.covers(primary.namespace()));
        all.filter(|(_, stamp)| !stamp.survives(list)).map(|(primary, _)| primary.clone()).collect()
    }
}

pub(crate) fn version(primary: &Primary) -> u64 {
    primary.resource_version().parse().unwrap_or(0)
}
