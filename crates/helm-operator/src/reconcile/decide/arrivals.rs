//! The resources that came after the controller's start had begun, and that another process may have served before: what
//! it remembered of them is restored before they are reconciled here.

use std::collections::HashSet;
use std::sync::{Mutex, RwLock};

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::WatchScope;
use outside::sync::{lock, read, write};

/// How far a controller's start has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Start {
    /// It will restore whatever is stored now.
    #[default]
    Ahead,
    /// It restores only the resources that were stored before, or is over.
    Begun,
}

/// The resources of one controller that came and have not been reconciled since.
#[derive(Default)]
pub(crate) struct Arrivals {
    came: Mutex<HashSet<ResourceKey>>,
    /// Read as long as a resource is being stored.
    start: RwLock<Start>,
}

impl Arrivals {
    /// Begins the start: every store that begins later knows of it. Returns once the stores that began earlier are
    /// done.
    pub(crate) fn begin(&self) {
        *write(&self.start) = Start::Begun;
    }

    /// Stores a resource with `store`, which learns how far the start is. The start does not begin in the meantime, so
    /// either it finds the resource, or `store` knows that it does not.
    pub(crate) fn store<T>(&self, store: impl FnOnce(Start) -> T) -> T {
        let start = read(&self.start);
        store(*start)
    }

    /// Records that a resource came.
    pub(crate) fn add(&self, key: &ResourceKey) {
        lock(&self.came).insert(key.clone());
    }

    /// Returns whether a resource came since the last call.
    pub(crate) fn take(&self, key: &ResourceKey) -> bool {
        lock(&self.came).remove(key)
    }

    /// Returns the resources of a scope that came.
    pub(crate) fn within(&self, scope: &WatchScope) -> Vec<ResourceKey> {
        lock(&self.came).iter().filter(|key| scope.covers(&key.namespace)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_does_not_begin_while_a_resource_is_being_stored() {
        let arrivals = Arrivals::default();
        arrivals.store(|start| {
            assert_eq!(start, Start::Ahead);
            assert!(arrivals.start.try_write().is_err(), "otherwise it misses the resource");
        });
        arrivals.begin();
        arrivals.store(|start| assert_eq!(start, Start::Begun));
    }
}
