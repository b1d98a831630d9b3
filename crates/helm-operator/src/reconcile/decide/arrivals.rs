//! The resources that came after the controller had started, and that another process may have served before: what it
//! remembered of them is restored before they are reconciled here.

use std::collections::HashSet;
use std::sync::Mutex;

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::WatchScope;
use outside::sync::lock;

/// The resources of one controller that came and have not been reconciled since.
#[derive(Default)]
pub(crate) struct Arrivals(Mutex<HashSet<ResourceKey>>);

impl Arrivals {
    /// Records that a resource came.
    pub(crate) fn add(&self, key: &ResourceKey) {
        lock(&self.0).insert(key.clone());
    }

    /// Returns whether a resource came since the last call.
    pub(crate) fn take(&self, key: &ResourceKey) -> bool {
        lock(&self.0).remove(key)
    }

    /// Returns the resources of a scope that came.
    pub(crate) fn within(&self, scope: &WatchScope) -> Vec<ResourceKey> {
        lock(&self.0).iter().filter(|key| scope.covers(&key.namespace)).cloned().collect()
    }
}
