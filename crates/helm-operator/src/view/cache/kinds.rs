//! The kinds of the objects of releases, and how far the watch of each one is.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::{First, WatchScope};
use helm_release::kube::{ObjectKey, Resource};

use super::Cache;
use crate::view::coverage::{KindKey, Loss, Watching, kind_key};
use crate::view::release::ReleaseRecords;

impl Cache {
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

    /// Records that the watches must select the objects of this many charts. What their lists lack so far may exist.
    pub(crate) fn widen(&self, charts: usize) {
        self.changing().coverage.widen(charts);
    }

    /// Makes a resource, which need not be stored yet, wait for the lists that others wait for, as far as its release
    /// has objects of their kinds.
    pub(crate) fn join_lists(&self, key: &ResourceKey) {
        let mut kinds = self.state().coverage.awaited();
        kinds.retain(|kind| self.has_objects_of(key, kind));
        if !kinds.is_empty() {
            self.changing().coverage.join(&kinds, key);
        }
    }

    /// Makes the resources whose releases have objects of a kind wait for its first list.
    pub(crate) fn await_kind(&self, resource: &Resource) {
        let waiting = self.resources_with(resource).into_iter().collect();
        self.state().coverage.await_list(kind_key(resource), waiting);
    }

    /// Ends the wait for a kind's first list, and returns the resources that waited. The result is `None` if the list
    /// takes too long.
    pub(crate) fn kind_listed(&self, resource: &Resource, first: Option<First>) -> HashSet<ResourceKey> {
        self.state().coverage.listed(kind_key(resource), first)
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

    /// Records that all of a kind's objects of this many charts are known in this scope; returns whether its watch may
    /// have been refused before.
    pub(crate) fn kind_synced(&self, resource: &Resource, scope: &WatchScope, charts: usize) -> bool {
        self.changing().coverage.synced(kind_key(resource), scope, charts)
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

pub(super) fn is_of(key: &ObjectKey, resource: &Resource) -> bool {
    *key.kind == *resource.kind && *key.group == *resource.group()
}
