//! What the process knows about release records without a request: one store, fed by one watch, for all controllers.
//!
//! A release's name does not show the kind of its resource, so a change is reported to every controller with a resource
//! of that name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use controller::runtime::freshness::{Epoch, Stamp};
use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::{EventHandler, WatchScope};
use controller::shards::Ring;
use helm_release::release::Packed;
use helm_release::storage::{Home, Known, Proof, RecordMeta, Stored};
use outside::sync::lock;

use super::record_cache::RecentRecords;
use super::release::{ReleaseRecords, Revision};
use super::tombstones::RecentDepartures;

/// Maximum number of other processes that are remembered. Anyone who can write records can invent names.
const MAX_MET: usize = 64;

/// All releases, from the metadata of their records, keyed by the records' namespaces and names.
#[derive(Default)]
pub(crate) struct Releases {
    all: Mutex<HashMap<ResourceKey, Arc<ReleaseRecords>>>,
    /// The namespaces that may hold the records of all releases, because a record there has a name that says so. They are
    /// few, so they are never dropped.
    shared: Mutex<BTreeSet<Arc<str>>>,
    /// Counts what may have changed `all`.
    changes: AtomicU64,
    recent: Mutex<RecentRecords>,
    /// The records that were deleted lately. The response to one of our own writes may arrive after the event of a later
    /// deletion, and an event from before may arrive after the response to our own deletion.
    deleted: Mutex<RecentDepartures<(ResourceKey, u32)>>,
    readers: Mutex<Readers>,
    /// The name of this process, which it writes on its records.
    writer: Arc<str>,
    /// Whether other processes of the same ring also write records.
    is_of_ring: bool,
    /// The scopes whose first list is complete.
    listed: Mutex<Vec<WatchScope>>,
    /// The scopes in which the server refuses to list or watch records. Changes go unnoticed there until a list ends.
    refused: Mutex<Vec<WatchScope>>,
    /// Other processes that were detected, up to [`MAX_MET`].
    met: Mutex<HashSet<Arc<str>>>,
}

#[derive(Default)]
struct Readers {
    last: u32,
    all: Vec<(ListenerId, Weak<dyn ReleaseListener>)>,
}

/// Identifies a reader within the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenerId(u32);

/// Who wrote a changed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// An operator of this kind.
    Operator,
    /// Helm or an upstream operator.
    Foreign,
}

impl Writer {
    fn of(meta: &RecordMeta) -> Writer {
        if meta.marks.is_none() { Writer::Foreign } else { Writer::Operator }
    }
}

/// A controller, which is notified of changes to releases.
pub(crate) trait ReleaseListener: Send + Sync {
    /// Handles a change that this reader did not make itself, of the release whose records have this namespace and
    /// name.
    fn release_changed(&self, record: &ResourceKey, writer: Writer);
    /// Handles the loss of a release's last record. A change follows.
    fn release_lost(&self, record: &ResourceKey, release: &Arc<ReleaseRecords>);
    /// Handles that changes of records in a scope go unnoticed from now on, or no longer do.
    fn sight_changed(&self, scope: &WatchScope);
}

impl Releases {
    /// Creates an empty store for the process with this name.
    pub(crate) fn of(writer: Arc<str>) -> Releases {
        Releases { writer, ..Releases::default() }
    }

    /// Returns the store of a shard of this ring, for which other shards' records are those of resources that move.
    pub(crate) fn in_ring(self, ring: Option<&Ring>) -> Releases {
        Releases { is_of_ring: ring.is_some(), ..self }
    }

    /// Returns a store of the same process with a copy of this release alone, which nothing feeds.
    pub(crate) fn copied_for(&self, key: &ResourceKey) -> Releases {
        let copied = Releases::of(self.writer.clone());
        lock(&copied.all).extend(self.get(key).map(|release| (key.clone(), release)));
        lock(&copied.listed).clone_from(&lock(&self.listed));
        copied
    }

    /// Returns a number that differs whenever a release has changed.
    pub(crate) fn generation(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Locks the releases for a change. Counts it under the lock, so a reader who sees the count also sees the change.
    fn changing(&self) -> MutexGuard<'_, HashMap<ResourceKey, Arc<ReleaseRecords>>> {
        let all = lock(&self.all);
        self.changes.fetch_add(1, Ordering::Relaxed);
        all
    }

    /// Returns the name of this process on the records that it writes.
    pub(crate) fn writer(&self) -> Arc<str> {
        self.writer.clone()
    }

    /// Records another process that writes the same records; returns whether it is new. Beyond [`MAX_MET`], no process
    /// counts as new.
    pub(crate) fn meets(&self, writer: &Arc<str>) -> bool {
        let mut met = lock(&self.met);
        met.len() < MAX_MET && met.insert(writer.clone())
    }

    pub(crate) fn new_reader(&self) -> ListenerId {
        let mut readers = lock(&self.readers);
        readers.last += 1;
        ListenerId(readers.last)
    }

    /// Returns the names of the releases that fit, in order, each with its newest revision.
    pub(crate) fn find(&self, is_wanted: impl Fn(&ReleaseRecords) -> bool) -> Vec<(ResourceKey, u32)> {
        let all = lock(&self.all);
        let fitting = |(key, release): (&ResourceKey, &Arc<ReleaseRecords>)| {
            let (newest, _) = release.newest().filter(|_| is_wanted(release))?;
            Some((key.clone(), newest))
        };
        let mut found: Vec<(ResourceKey, u32)> = all.iter().filter_map(fitting).collect();
        found.sort();
        found
    }

    /// Returns the names of the releases that fit and whose records have this name, among those in namespaces for the
    /// records of all releases, each with its newest revision.
    pub(crate) fn find_shared(
        &self,
        name: &str,
        is_wanted: impl Fn(&ReleaseRecords) -> bool,
    ) -> Vec<(ResourceKey, u32)> {
        let all = lock(&self.all);
        let keys = lock(&self.shared).iter().map(|place| ResourceKey::new(place, name)).collect::<Vec<_>>();
        let fitting = |key: ResourceKey| {
            let (newest, _) = all.get(&key).filter(|release| is_wanted(release))?.newest()?;
            Some((key, newest))
        };
        keys.into_iter().filter_map(fitting).collect()
    }

    /// Returns a release, which is new if it is unknown.
    fn entry<'a>(
        &self,
        all: &'a mut HashMap<ResourceKey, Arc<ReleaseRecords>>,
        key: &ResourceKey,
    ) -> &'a mut ReleaseRecords {
        if Home::may_be_shared(&key.name) {
            lock(&self.shared).insert(key.namespace.clone());
        }
        Arc::make_mut(all.entry(key.clone()).or_insert_with(ReleaseRecords::for_one_revision))
    }

    /// Returns whether the records in every namespace are known.
    pub(crate) fn are_all_known(&self) -> bool {
        lock(&self.listed).contains(&WatchScope::ALL) && lock(&self.refused).is_empty()
    }

    /// Returns whether the server refuses to list or watch the records in this namespace.
    pub(crate) fn is_refused(&self, namespace: &str) -> bool {
        lock(&self.refused).iter().any(|scope| scope.covers(namespace))
    }

    /// Notifies the reader of changes from now on.
    pub(crate) fn add_reader(&self, id: ListenerId, reader: Weak<dyn ReleaseListener>) {
        let mut readers = lock(&self.readers);
        readers.all.retain(|(_, reader)| reader.strong_count() > 0);
        readers.all.push((id, reader));
    }

    pub(crate) fn get(&self, key: &ResourceKey) -> Option<Arc<ReleaseRecords>> {
        lock(&self.all).get(key).cloned()
    }

    /// Returns what `read` finds in a release; `None` if there is no such release.
    pub(crate) fn read<T>(&self, key: &ResourceKey, read: impl FnOnce(&ReleaseRecords) -> T) -> Option<T> {
        lock(&self.all).get(key).map(|release| read(release))
    }

    /// Changes a release in the name of one reader, and notifies the others.
    pub(crate) fn change<T>(
        &self,
        key: &ResourceKey,
        by: ListenerId,
        change: impl FnOnce(&mut ReleaseRecords) -> T,
    ) -> T {
        let mut all = self.changing();
        let release = self.entry(&mut all, key);
        let result = change(release);
        self.drop_deleted(key, release);
        release.drop_old_objects();
        if release.revisions.is_empty() {
            all.remove(key);
        }
        self.drop_old_records(&mut all, key);
        drop(all);
        self.each_reader(Some(by), |reader| reader.release_changed(key, Writer::Operator));
        result
    }

    /// Drops revisions whose records we deleted. Events from before the deletion do not bring them back. A revision
    /// that someone has recreated in the meantime stays.
    pub(crate) fn forget(&self, key: &ResourceKey, by: ListenerId, deleted: &[Known]) {
        for known in deleted {
            self.depart(key, known.version, known.resource_version.unwrap_or_default());
        }
        let is_unknown = |version: u32| deleted.contains(&Known { version, resource_version: None });
        self.change(key, by, |release| release.lose(|version, _| is_unknown(version)));
    }

    /// Notes that the record of a revision is gone, in this version or an earlier one; 0 is unknown.
    fn depart(&self, key: &ResourceKey, version: u32, resource_version: u64) {
        if resource_version > 0 {
            lock(&self.deleted).add((key.clone(), version), resource_version);
        }
    }

    /// Returns whether a revision's record, in this version, is from before a deletion that is known.
    fn has_departed(&self, key: &ResourceKey, version: u32, resource_version: u64, epoch: Option<Epoch>) -> bool {
        lock(&self.deleted).turns_away(&(key.clone(), version), resource_version, epoch)
    }

    /// Drops revisions that were written before a deletion of their records that is known. Which version an unanswered
    /// write made is unknown (0), so such a revision stays.
    fn drop_deleted(&self, key: &ResourceKey, release: &mut ReleaseRecords) {
        release.lose(|version, written| written > 0 && self.has_departed(key, version, written, None));
    }

    /// Drops the records that no longer fit into memory, after a release has changed.
    fn drop_old_records(&self, all: &mut HashMap<ResourceKey, Arc<ReleaseRecords>>, changed: &ResourceKey) {
        let size = all.get(changed).and_then(|release| Some(release.packed.as_ref()?.1.facts().size()));
        for key in lock(&self.recent).note(changed, size) {
            if let Some(release) = all.get_mut(&key) {
                Arc::make_mut(release).packed = None;
            }
        }
    }

    /// Stores a record's metadata; returns whether it is new.
    pub(crate) fn store(&self, key: &ResourceKey, meta: RecordMeta, epoch: Epoch) -> bool {
        let is_listed = lock(&self.listed).iter().any(|scope| scope.covers(&key.namespace));
        let mut all = self.changing();
        let is_known = all.get(key).is_some_and(|release| release.revisions.contains_key(&meta.version));
        if !is_known && self.has_departed(key, meta.version, meta.resource_version, Some(epoch)) {
            return false;
        }
        let release = self.entry(&mut all, key);
        // With other keys, the same record may be proven, or no longer be.
        let is_news = |r: &Revision| r.resource_version == meta.resource_version && r.trust.differs_by_keys(meta.proof);
        let known = release.revisions.get_mut(&meta.version).map(|r| {
            let version = (!is_news(r)).then_some(r.resource_version);
            (&mut r.stamp, version)
        });
        let known_version = known.as_ref().and_then(|(_, version)| *version);
        let Some(stamp) = Stamp::of_newer(known, meta.resource_version, Some(epoch)) else { return false };
        if known_version.is_some_and(|version| meta.resource_version < version) {
            // The server was restored from a backup. Later revisions that this list does not contain no longer exist,
            // and must not count as the base.
            release.revisions.retain(|version, later| *version <= meta.version || later.stamp.survives(epoch));
        }
        // A record that someone replaced is no longer the one in memory.
        let is_other = |packed: &Stored<Packed>| meta.proof != Proof::Sealed(packed.content());
        release.packed = release.packed.take().filter(|(of, packed)| *of != meta.version || !is_other(packed));
        let (version, writer) = (meta.version, meta.writer.clone());
        release.revisions.insert(version, Revision::of(meta, stamp, &self.writer));
        if let Some(competitor) = writer.filter(|writer| is_listed && **writer != *self.writer && !self.is_of_ring) {
            release.note_competitor(&competitor, version, outside::now());
        }
        release.drop_old_objects();
        true
    }

    /// Adds what a fresh read found of a release's records and their events have not reported yet.
    pub(crate) fn catch_up(&self, key: &ResourceKey, records: Vec<RecordMeta>) {
        let mut all = self.changing();
        let release = self.entry(&mut all, key);
        for meta in records {
            let known = release.revisions.get(&meta.version);
            let is_deleted = self.has_departed(key, meta.version, meta.resource_version, None);
            if !is_deleted && known.is_none_or(|known| known.resource_version < meta.resource_version) {
                let stamp = Stamp::written(known.map(|known| known.stamp));
                release.packed = release.packed.take().filter(|(of, _)| *of != meta.version);
                release.revisions.insert(meta.version, Revision::of(meta, stamp, &self.writer));
            }
        }
        if release.revisions.is_empty() {
            all.remove(key);
        }
    }

    /// Returns the known version of a revision's record.
    fn known_version(&self, key: &ResourceKey, version: u32) -> Option<u64> {
        self.read(key, |release| Some(release.revisions.get(&version)?.resource_version)).flatten()
    }

    /// Returns whether a record that was deleted at this version is known, and has not been recreated since.
    fn is_known(&self, key: &ResourceKey, meta: &RecordMeta) -> bool {
        self.known_version(key, meta.version).is_some_and(|known| known <= meta.resource_version)
    }

    /// Returns the releases of a scope with records that the completed list did not contain.
    fn unlisted(&self, scope: &WatchScope, list: Epoch) -> BTreeSet<ResourceKey> {
        let all = lock(&self.all);
        let covered = all.iter().filter(|(key, _)| scope.covers(&key.namespace));
        let swept = |release: &ReleaseRecords| release.revisions.values().any(|r| !r.stamp.survives(list));
        covered.filter(|(_, release)| swept(release)).map(|(key, _)| key.clone()).collect()
    }

    /// Drops a revision whose record a read did not find.
    pub(crate) fn lose_revision(&self, key: &ResourceKey, version: u32) {
        self.depart(key, version, self.known_version(key, version).unwrap_or_default());
        self.lose(key, Writer::Operator, |known, _| known == version);
    }

    /// Removes revisions of a release. If none is left, its readers get its inventory, because deleting a namespace
    /// removes the record before the resource is released.
    fn lose(&self, key: &ResourceKey, writer: Writer, lost: impl Fn(u32, &Revision) -> bool) {
        let mut all = self.changing();
        let Some(release) = all.get_mut(key) else { return };
        let whole = match release.revisions.iter().all(|(version, revision)| lost(*version, revision)) {
            true => all.remove(key),
            false => {
                Arc::make_mut(release).revisions.retain(|version, revision| !lost(*version, revision));
                None
            }
        };
        self.drop_old_records(&mut all, key);
        drop(all);
        self.each_reader(None, |reader| {
            whole.iter().for_each(|release| reader.release_lost(key, release));
            reader.release_changed(key, writer);
        });
    }

    fn each_reader(&self, but: Option<ListenerId>, notify: impl Fn(&dyn ReleaseListener)) {
        // Readers may read, so they are notified without a lock.
        let readers = lock(&self.readers).all.clone();
        let others = readers.iter().filter(|(id, _)| Some(*id) != but);
        others.filter_map(|(_, reader)| reader.upgrade()).for_each(|reader| notify(&*reader));
    }
}

fn key_of(meta: &RecordMeta) -> ResourceKey {
    ResourceKey::new(&meta.namespace, &meta.name)
}

impl EventHandler<RecordMeta> for Releases {
    fn changed(&self, meta: RecordMeta, epoch: Epoch) {
        let (key, writer) = (key_of(&meta), Writer::of(&meta));
        if self.store(&key, meta, epoch) {
            self.each_reader(None, |reader| reader.release_changed(&key, writer));
        }
    }

    fn deleted(&self, meta: RecordMeta) {
        let key = key_of(&meta);
        lock(&self.deleted).add((key.clone(), meta.version), meta.resource_version);
        if self.is_known(&key, &meta) {
            self.lose(&key, Writer::of(&meta), |version, _| version == meta.version);
        }
    }

    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        for key in self.unlisted(scope, list) {
            self.lose(&key, Writer::Operator, |_, revision| !revision.stamp.survives(list));
        }
        lock(&self.deleted).forget_before(list, |(key, _)| scope.covers(&key.namespace));
        let mut listed = lock(&self.listed);
        if !listed.contains(scope) {
            listed.push(scope.clone());
        }
        drop(listed);
        let back = lock(&self.refused).extract_if(.., |refused| refused == scope).count();
        if back > 0 {
            self.each_reader(None, |reader| reader.sight_changed(scope));
        }
    }

    fn lost(&self, scope: &WatchScope) {
        let mut refused = lock(&self.refused);
        if refused.contains(scope) {
            return;
        }
        refused.push(scope.clone());
        drop(refused);
        self.each_reader(None, |reader| reader.sight_changed(scope));
    }

    fn description(&self) -> String {
        "release records".into()
    }
}
