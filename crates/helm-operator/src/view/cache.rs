//! The controller's state that needs no request: resources, releases and their objects.
//!
//! Fed by watches ([`controller::runtime::reflector`]) and by responses to our own writes;
//! [`controller::runtime::freshness`] decides how long to trust each. Of two versions of an object the newer wins, and
//! an object seen as deleted does not come back. One type, however long, because one lock keeps what it knows
//! consistent.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use controller::runtime::freshness::{Epoch, Stamp};
use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::{First, WatchScope};
use helm_release::action::{Cached, CachedObject, LiveView};
use helm_release::kube::{Applied, Decoration, Live, ObjectKey, Proven, Resource, label_value};
use helm_release::storage::{Home, Known, RecordMeta};
use outside::sync;
use tokio::time::Instant;

use super::coverage::{Coverage, KindKey, Loss, Watching, kind_key};
use super::dependent::{Claim, Dependent, Judged, KeptText};
use super::primary::Primary;
use super::release::ReleaseRecords;
use super::releases::{ListenerId, ReleaseListener, Releases};
use super::tombstones::{RecentDeletions, RecentDepartures};
use crate::values::Room;
use crate::watches::{Expressions, Sequencing};

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

#[derive(Default)]
struct State {
    primaries: BTreeMap<ResourceKey, (Arc<Primary>, Stamp)>,
    dependents: HashMap<ObjectKey, Arc<Dependent>>,
    coverage: Coverage,
    gone: RecentDeletions,
    left: RecentDepartures<Box<str>>,
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

    /// Judges whether an object is ready, by its own annotations if they count, by its kind's rule, or else by kstatus,
    /// and keeps what expressions read of it, in place of what is kept of its known state.
    fn judge(&self, key: &ObjectKey, live: &Live, claim: &Claim, known: Option<&Dependent>) -> Judged {
        let (group, kind) = (&*key.group, &*key.kind);
        let (has_rule, reads) = (self.expressions.has_rule(group, kind), self.expressions.reads(group, kind));
        let read = live.whole.as_ref().filter(|_| reads);
        let known = known.and_then(|known| known.whole.as_ref());
        let whole = read.and_then(|json| KeptText::of(json, claim, &self.objects_room, known));
        if self.heeds_annotations && live.has_conditions() {
            let unready = live.unready_as_annotated(group, kind).map(Box::new);
            return Judged { unready, whole, is_partial: reads && live.whole.is_none() };
        }
        let by_rule = live.whole.as_ref().and_then(|object| self.expressions.judge(group, kind, object));
        Judged {
            unready: by_rule.unwrap_or_else(|| live.unready(group, kind)).map(Box::new),
            whole,
            is_partial: (has_rule || reads) && live.whole.is_none(),
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

    /// Removes a resource with this uid that a list lacks; returns whether it was known. Events follow the list, so they
    /// bring it back, but answers to writes may be from before.
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

    /// Returns the release of a resource, as the resource sees it.
    pub(crate) fn release(&self, key: &ResourceKey) -> Option<Arc<ReleaseRecords>> {
        let release = self.releases.get(&self.record_of(key))?;
        let primary = if release.has_notes() { self.primary(key) } else { None };
        Some(match primary {
            Some(primary) => release.seen_by(primary.uid()),
            None => release,
        })
    }

    /// Returns what this operator has recorded of a resource's release in its own namespace, although records are stored
    /// elsewhere now.
    pub(crate) fn release_beside(&self, primary: &Primary) -> Option<Arc<ReleaseRecords>> {
        let beside = if self.home == Home::default() { None } else { self.releases.get(&primary.key()) };
        beside.filter(|left| left.is_recorded_for(&primary.owner()))
    }

    /// Returns the release of a resource, or what is recorded of it in its own namespace if the status names it, but its records
    /// have moved and are not imported yet.
    pub(crate) fn release_or_beside(&self, primary: &Primary) -> Option<Arc<ReleaseRecords>> {
        let beside = || primary.status.deployed_release.as_ref().and_then(|_| self.release_beside(primary));
        self.release(&primary.key()).or_else(beside)
    }

    pub(crate) fn change_release<T>(&self, key: &ResourceKey, change: impl FnOnce(&mut ReleaseRecords) -> T) -> T {
        self.releases.change(&self.record_of(key), self.reader, change)
    }

    /// Adds what a fresh read found of a release's records.
    pub(crate) fn catch_up(&self, key: &ResourceKey, records: Vec<RecordMeta>) {
        self.releases.catch_up(&self.record_of(key), records);
    }

    /// Drops revisions whose records we deleted.
    pub(crate) fn forget_records(&self, key: &ResourceKey, deleted: &[Known]) {
        self.releases.forget(&self.record_of(key), self.reader, deleted);
    }

    /// Drops a revision whose record does not exist.
    pub(crate) fn lose_revision(&self, key: &ResourceKey, version: u32) {
        self.releases.lose_revision(&self.record_of(key), version);
    }

    /// Returns the known records that fit, in any namespace, each with the newest revision.
    pub(crate) fn records_where(&self, is_wanted: impl Fn(&ReleaseRecords) -> bool) -> Vec<(ResourceKey, u32)> {
        self.releases.find(is_wanted)
    }

    /// Returns the known records that fit and have this name in a namespace for those of all releases, each with the newest
    /// revision.
    pub(crate) fn shared_records(
        &self,
        name: &str,
        is_wanted: impl Fn(&ReleaseRecords) -> bool,
    ) -> Vec<(ResourceKey, u32)> {
        self.releases.find_shared(name, is_wanted)
    }

    /// Returns whether the records in every namespace are known.
    pub(crate) fn knows_all_records(&self) -> bool {
        self.releases.are_all_known()
    }

    pub(crate) fn namespace_of_records(&self, key: &ResourceKey) -> Arc<str> {
        self.record_of(key).namespace.clone()
    }

    /// Returns whether changes of a resource's records go unnoticed.
    pub(crate) fn is_blind(&self, key: &ResourceKey) -> bool {
        self.releases.is_refused(&self.record_of(key).namespace)
    }

    pub(crate) fn recorded_in(&self, scope: &WatchScope) -> Vec<ResourceKey> {
        let state = self.state();
        state.primaries.keys().filter(|key| scope.covers(&self.record_of(key).namespace)).cloned().collect()
    }

    /// Registers the reader of changes to releases that this controller does not make itself.
    pub(crate) fn report_releases_to(&self, reader: Weak<dyn ReleaseListener>) {
        self.releases.add_reader(self.reader, reader);
    }

    /// Returns the name of this process on the records that it writes.
    pub(crate) fn writer(&self) -> Arc<str> {
        self.releases.writer()
    }

    /// Records another process that writes the same records; returns whether it is new.
    pub(crate) fn meets(&self, writer: &Arc<str>) -> bool {
        self.releases.meets(writer)
    }

    pub(crate) fn dependent(&self, key: &ObjectKey) -> Option<Arc<Dependent>> {
        self.state().dependents.get(key).cloned()
    }

    /// Stores a live object from a watch; returns its owner if something relevant changed.
    pub(crate) fn store_dependent(
        &self,
        key: ObjectKey,
        live: &Live,
        claim: Claim,
        epoch: Epoch,
    ) -> Option<ResourceKey> {
        let judged = self.judge(&key, live, &claim, self.dependent(&key).as_deref());
        let mut state = self.changing();
        if epoch.is_list {
            state.gone.forget(live.metadata.uid.as_deref().unwrap_or_default());
        }
        state.put_dependent(key, (live, judged), claim, Some(epoch))
    }

    /// Removes the entry for an object that belongs to no known owner; returns its previous owner.
    pub(crate) fn drop_dependent(&self, key: &ObjectKey) -> Option<ResourceKey> {
        self.changing().dependents.remove(key).and_then(|dependent| dependent.owner.clone())
    }

    /// Stores live objects from the responses to our own applies.
    pub(crate) fn store_applied(&self, applied: &[Applied], owner: &ResourceKey) {
        let mut state = self.changing();
        for one in applied {
            if !state.gone.has(one.live.metadata.uid.as_deref().unwrap_or_default()) {
                let claim = Claim { owner: Some(owner.clone()), ours: true };
                let judged = self.judge(&one.key, &one.live, &claim, state.dependent(&one.key));
                state.put_dependent(one.key.clone(), (&one.live, judged), claim, None);
            }
        }
    }

    /// Stores an object of a release that we read.
    pub(crate) fn store_read(&self, key: &ObjectKey, live: &Live, owner: &ResourceKey) {
        self.store_answer(key, live, Claim { owner: Some(owner.clone()), ours: true });
    }

    /// Stores an object that we read, and whose it is.
    pub(crate) fn store_answer(&self, key: &ObjectKey, live: &Live, claim: Claim) {
        let mut state = self.changing();
        if !state.gone.has(live.metadata.uid.as_deref().unwrap_or_default()) {
            let judged = self.judge(key, live, &claim, state.dependent(key));
            state.put_dependent(key.clone(), (live, judged), claim, None);
        }
    }

    /// Records that the server accepted our deletion of an object. Finalizers may hold it, so only an event or a read
    /// shows that it is gone.
    pub(crate) fn note_deletion(&self, key: &ObjectKey, uid: &str) {
        let mut state = self.changing();
        if let Some(known) = state.dependents.get_mut(key).filter(|known| *known.uid == *uid) {
            let known = Arc::make_mut(known);
            (known.deleting, known.stamp) = (true, Stamp::written(Some(known.stamp)));
        }
    }

    /// Removes a deleted object; returns its owner.
    pub(crate) fn remove_dependent(&self, key: &ObjectKey, live: &Live) -> Option<ResourceKey> {
        let mut state = self.changing();
        let uid = live.metadata.uid.as_deref().unwrap_or_default();
        state.gone.add(uid);
        if state.dependents.get(key).is_none_or(|known| *known.uid != *uid) {
            return None;
        }
        state.dependents.remove(key).and_then(|dependent| dependent.owner.clone())
    }

    /// Removes the objects of a kind and scope that the completed list did not contain; returns the affected owners.
    pub(crate) fn sweep_dependents(
        &self,
        resource: &Resource,
        scope: &WatchScope,
        list: Epoch,
    ) -> BTreeSet<ResourceKey> {
        let mut owners = BTreeSet::new();
        self.changing().dependents.retain(|key, dependent| {
            let covered = is_of(key, resource) && scope.covers(&key.namespace);
            let stays = !covered || dependent.stamp.survives(list);
            if !stays {
                owners.extend(dependent.owner.clone());
            }
            stays
        });
        owners
    }

    /// Returns the objects among these that we wrote and whose events are overdue.
    pub(crate) fn overdue(&self, keys: &[&ObjectKey]) -> Vec<ObjectKey> {
        let (state, now) = (self.state(), Instant::now());
        keys.iter().filter(|key| state.ask_at(key).is_some_and(|at| at <= now)).map(|key| (*key).clone()).collect()
    }

    /// Returns when to check the first of these objects that we wrote; `None` if all their events have arrived.
    pub(crate) fn ask_at(&self, keys: &[&ObjectKey]) -> Option<Instant> {
        let state = self.state();
        keys.iter().filter_map(|key| state.ask_at(key)).min()
    }

    /// Stores the server's response for an object whose event is overdue: its metadata, and whose it is. Another
    /// writer's change in the meantime counts immediately. The rest of the object, and the version, come with the
    /// event.
    pub(crate) fn confirm(&self, key: &ObjectKey, read: Option<(&Live, Claim)>) {
        let mut state = self.changing();
        let Some(known) = state.dependents.get_mut(key) else { return };
        match read.filter(|(live, _)| live.metadata.uid.as_deref() == Some(&*known.uid)) {
            Some((live, claim)) => {
                let known = Arc::make_mut(known);
                known.stamp = known.stamp.confirmed();
                if live.resource_version() != known.resource_version {
                    known.ours = claim.ours;
                    (known.mark, known.deleting, known.kept) = (live.mark, live.deleting, live.kept);
                    known.chart.clone_from(&live.chart);
                    known.is_bound = is_bound(live);
                }
            }
            None => _ = state.dependents.remove(key),
        }
    }

    /// Records that a kind is watched; returns false if it already was.
    pub(crate) fn start_kind(&self, resource: &Resource) -> bool {
        self.state().coverage.start(kind_key(resource))
    }

    /// Returns whether the object's kind is watched, however far that is.
    pub(crate) fn is_started(&self, object: &ObjectKey) -> bool {
        self.state().coverage.is_started(object)
    }

    /// Records in which scopes a kind is watched, and for how many charts.
    pub(crate) fn watch_kind_in(&self, resource: &Resource, scopes: Vec<WatchScope>, charts: usize) {
        self.state().coverage.watch_in(kind_key(resource), scopes, charts);
    }

    /// Records that the watches must select the objects of this many charts, because of a resource that is not stored
    /// yet. What their lists lack so far may exist. Resources with objects of listed kinds wait for the new lists.
    pub(crate) fn widen(&self, charts: usize, late: &ResourceKey) {
        let kinds = self.state().coverage.listed_for_fewer(charts);
        let waiting = |kind: KindKey| {
            let mut waiting: HashSet<ResourceKey> = self.with_objects_of(&kind).into_iter().collect();
            waiting.extend(Some(late).filter(|late| self.has_objects_of(late, &kind)).cloned());
            (kind, waiting)
        };
        let waiting = kinds.into_iter().map(waiting).collect();
        self.changing().coverage.widen(charts, waiting);
    }

    /// Makes the resources whose releases have objects of a kind wait for its first list.
    pub(crate) fn await_kind(&self, resource: &Resource) {
        let waiting = self.resources_with(resource).into_iter().collect();
        self.state().coverage.await_list(kind_key(resource), waiting);
    }

    /// Ends the wait for a kind's first list. The result is `None` if the list takes too long.
    pub(crate) fn kind_listed(&self, resource: &Resource, first: Option<First>) {
        self.state().coverage.listed(kind_key(resource), first);
    }

    /// Returns whether a resource waits for the first list of a kind.
    pub(crate) fn is_listing(&self, key: &ResourceKey) -> bool {
        self.state().coverage.is_awaited_by(key)
    }

    /// Returns whether no watch covers the object, because we may not list its kind.
    pub(crate) fn is_refused(&self, key: &ObjectKey) -> bool {
        self.state().coverage.is_refused(key)
    }

    /// Returns whether a change of an object may matter to a resource: the object is part of its release, or the
    /// release's objects are unknown. Objects of hooks do not matter.
    pub(crate) fn concerns(&self, owner: &ResourceKey, object: &ObjectKey) -> bool {
        let concerns = |release: &ReleaseRecords| {
            let is_known = release.revisions.values().any(|r| r.marks.is_some());
            !is_known || release.objects().any(|key| key == object)
        };
        self.releases.read(&self.record_of(owner), concerns).unwrap_or(true)
    }

    /// Records that all of a kind's objects in this scope are known; returns whether its watch may have been refused
    /// before.
    pub(crate) fn kind_synced(&self, resource: &Resource, scope: &WatchScope) -> bool {
        self.changing().coverage.synced(kind_key(resource), scope)
    }

    /// Records that a kind can no longer be watched in this scope; returns whether that is new.
    pub(crate) fn kind_lost(&self, kind: &KindKey, scope: &WatchScope, loss: Loss) -> bool {
        self.changing().coverage.lost(kind.clone(), scope, loss)
    }

    /// Returns the kinds of dependents that are watched, and how far each watch is.
    pub(crate) fn watched(&self) -> Vec<(KindKey, Watching)> {
        self.state().coverage.watched()
    }

    /// Returns whether no version of the object's kind was served when its watch last failed.
    pub(crate) fn is_unserved(&self, key: &ObjectKey) -> bool {
        self.state().coverage.is_unserved(key)
    }

    /// Returns whether absence from the cache proves absence: a watch that covers the object has listed.
    pub(crate) fn is_synced(&self, key: &ObjectKey) -> bool {
        self.state().coverage.covers(key)
    }

    /// Returns the resources whose releases have objects of a kind.
    pub(crate) fn resources_with(&self, resource: &Resource) -> Vec<ResourceKey> {
        self.with_objects_of(&kind_key(resource))
    }

    fn with_objects_of(&self, kind: &KindKey) -> Vec<ResourceKey> {
        let mut keys: Vec<ResourceKey> = self.state().primaries.keys().cloned().collect();
        keys.retain(|key| self.has_objects_of(key, kind));
        keys
    }

    /// Returns whether a resource's release has objects of a kind.
    fn has_objects_of(&self, key: &ResourceKey, (group, kind): &KindKey) -> bool {
        let has = |release: &ReleaseRecords| release.objects().any(|key| key.group == *group && key.kind == *kind);
        self.releases.read(&self.record_of(key), has).unwrap_or(false)
    }

    /// Returns the kinds of all objects in the releases of known resources, as `(apiVersion, kind)`.
    pub(crate) fn kinds_of_releases(&self) -> BTreeSet<(Arc<str>, Arc<str>)> {
        let keys: Vec<ResourceKey> = self.state().primaries.keys().cloned().collect();
        let mut kinds = BTreeSet::new();
        for key in &keys {
            self.releases.read(&self.record_of(key), |release| {
                let marks = release.revisions.values().filter_map(|r| r.marks.as_ref());
                kinds.extend(marks.flat_map(|m| &m.objects).map(|o| (o.api_version.clone(), o.key.kind.clone())));
            });
        }
        kinds
    }
}

impl State {
    /// Stores a resource, unless a newer state of it is known; returns whether it differs from the known one in this way.
    fn put_primary(&mut self, primary: Primary, epoch: Option<Epoch>, differs: fn(&Primary, &Primary) -> bool) -> bool {
        let key = primary.key();
        let known = self.primaries.get_mut(&key).map(|(old, stamp)| {
            // The versions of two objects with the same name are not comparable.
            let comparable = old.uid() == primary.uid();
            (stamp, comparable.then(|| version(old)))
        });
        // Only a server that was restored from a backup goes back. The resource's status may also date from then.
        let is_restored = known.as_ref().is_some_and(|(_, old)| old.is_some_and(|old| version(&primary) < old));
        let Some(stamp) = Stamp::of_newer(known, version(&primary), epoch) else { return false };
        let differs = is_restored || self.primaries.get(&key).is_none_or(|(old, _)| differs(&primary, old));
        self.primaries.insert(key, (Arc::new(primary), stamp));
        differs
    }

    /// Removes a resource with this uid; returns whether it was known.
    fn drop_primary(&mut self, key: &ResourceKey, uid: &str) -> bool {
        let known = self.primaries.get(key).is_some_and(|(primary, _)| primary.uid() == uid);
        if known {
            self.primaries.remove(key);
        }
        known
    }

    fn dependent(&self, key: &ObjectKey) -> Option<&Dependent> {
        self.dependents.get(key).map(|dependent| &**dependent)
    }

    fn put_dependent(
        &mut self,
        key: ObjectKey,
        (live, judged): (&Live, Judged),
        claim: Claim,
        epoch: Option<Epoch>,
    ) -> Option<ResourceKey> {
        let uid = live.metadata.uid.as_deref().unwrap_or_default();
        let version = live.resource_version();
        let known = self.dependents.get_mut(&key).map(|known| {
            let known = Arc::make_mut(known);
            // The event of our own write completes a partial response.
            let completes = known.is_partial && !judged.is_partial && version == known.resource_version;
            // A server that was restored from a backup does not know of our deletion.
            let is_back = known.deleting && !live.deleting && epoch.is_some_and(|e| known.stamp.is_older_than(e));
            (&mut known.stamp, Some(known.resource_version).filter(|_| !completes && !is_back))
        });
        let stamp = Stamp::of_newer(known, version, epoch)?;
        let old = self.dependents.get(&key);
        let judged = judged.completed_by(old.filter(|old| *old.uid == *uid).map(|old| &**old));
        let new = Dependent {
            uid: uid.into(),
            resource_version: version,
            mark: live.mark,
            chart: live.chart.clone(),
            unready: judged.unready,
            whole: judged.whole,
            is_partial: judged.is_partial,
            deleting: live.deleting,
            owner: claim.owner,
            ours: claim.ours,
            kept: live.kept,
            is_bound: is_bound(live),
            scaled: live.scaled,
            stamp,
        };
        let same = old.is_some_and(|old| {
            (&old.uid, old.mark, old.failed(), old.deleting, old.ours, old.is_bound, &old.whole)
                == (&new.uid, new.mark, new.failed(), new.deleting, new.ours, new.is_bound, &new.whole)
        });
        let owner = new.owner.clone().filter(|_| !same);
        self.dependents.insert(key, Arc::new(new));
        owner
    }

    fn ask_at(&self, key: &ObjectKey) -> Option<Instant> {
        self.dependents.get(key)?.stamp.ask_at()
    }
}

fn is_of(key: &ObjectKey, resource: &Resource) -> bool {
    *key.kind == *resource.kind && *key.group == *resource.group()
}

impl LiveView for Cache {
    fn cached(&self, key: &ObjectKey, decoration: &Decoration) -> Cached {
        let Some(dependent) = self.dependent(key) else {
            return if self.is_synced(key) { Cached::Absent } else { Cached::Unknown };
        };
        // A cluster-scoped resource has the key of its release.
        let owner = decoration.owner.as_ref().map(|owner| ResourceKey::new(&decoration.namespace, &owner.name));
        if !dependent.ours || dependent.owner != owner {
            return Cached::Unknown;
        }
        // A process that starts after the upgrade may watch only the objects with the new label. So the upgrade writes
        // what it does not change, too.
        let is_labelled = dependent.chart.as_deref() == Some(label_value(&decoration.chart));
        Cached::Ours(CachedObject {
            mark: dependent.mark.filter(|_| !dependent.deleting && is_labelled),
            kept: dependent.kept,
            scaled: dependent.scaled,
            proven: Proven { uid: dependent.uid.to_string(), resource_version: dependent.resource_version.to_string() },
        })
    }
}

/// Returns whether the garbage collector would delete a kept object with its owner.
fn is_bound(live: &Live) -> bool {
    live.kept && live.controller.is_some()
}

pub(crate) fn version(primary: &Primary) -> u64 {
    primary.resource_version().parse().unwrap_or(0)
}
