//! The live objects of releases: what watches, writes and reads have shown of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use controller::runtime::freshness::{Epoch, Stamp};
use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::WatchScope;
use helm_release::action::{Cached, CachedObject, LiveView};
use helm_release::kube::{Applied, Decoration, Live, ObjectKey, Proven, Resource, label_value};
use tokio::time::Instant;

use super::Cache;
use super::kinds::is_of;
use super::state::{controller_version, is_bound};
use crate::view::dependent::{Claim, Dependent, Judged, KeptText};

impl Cache {
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

    /// Removes the entry of an object in whose place another's was seen, by event or by a read, unless the entry is
    /// newer; returns its owner.
    pub(crate) fn replace_dependent(&self, key: &ObjectKey, other: &Live, epoch: Option<Epoch>) -> Option<ResourceKey> {
        let mut state = self.changing();
        let known = Arc::make_mut(state.dependents.get_mut(key)?);
        let known = (&mut known.stamp, Some(known.resource_version));
        Stamp::of_newer(Some(known), other.resource_version(), epoch)?;
        state.dependents.remove(key).and_then(|dependent| dependent.owner.clone())
    }

    /// Removes the entry of an object that a read did not find; returns its owner.
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
    /// event. An event that has arrived since the read began may be newer than the response, which is then ignored.
    pub(crate) fn confirm(&self, key: &ObjectKey, read: Option<(&Live, Claim)>) {
        let mut state = self.changing();
        let overdue = state.dependents.get_mut(key).filter(|known| known.stamp.ask_at().is_some());
        let Some(known) = overdue else { return };
        match read.filter(|(live, _)| live.metadata.uid.as_deref() == Some(&*known.uid)) {
            Some((live, claim)) => {
                let known = Arc::make_mut(known);
                known.stamp = known.stamp.confirmed();
                if live.resource_version() != known.resource_version {
                    known.ours = claim.ours;
                    (known.mark, known.deleting, known.kept) = (live.mark, live.deleting, live.kept);
                    known.chart.clone_from(&live.chart);
                    known.controller_version = controller_version(live);
                    known.is_bound = is_bound(live);
                }
            }
            None => _ = state.dependents.remove(key),
        }
    }
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
        // The watch may have had another version of the kind. The garbage collector cannot resolve a reference in a version
        // that is no longer served.
        let version = decoration.owner.as_ref().map(|owner| owner.api_version.as_str());
        let is_current = dependent.controller_version.as_deref().is_none_or(|named| Some(named) == version);
        Cached::Ours(CachedObject {
            mark: dependent.mark.filter(|_| !dependent.deleting && is_labelled && is_current),
            kept: dependent.kept,
            scaled: dependent.scaled,
            proven: Proven { uid: dependent.uid.to_string(), resource_version: dependent.resource_version.to_string() },
        })
    }
}
