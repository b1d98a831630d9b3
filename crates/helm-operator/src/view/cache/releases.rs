//! The releases of the resources, as their records describe them.

use std::sync::{Arc, Weak};

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::WatchScope;
use helm_release::storage::{Home, Known, RecordMeta};

use super::Cache;
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;
use crate::view::releases::ReleaseListener;

impl Cache {
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
}
