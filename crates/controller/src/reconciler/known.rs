//! The resources that exist. Remains of a deleted one, such as its terminating pods, wake nothing.

use std::collections::HashSet;
use std::sync::Mutex;

use outside::sync::lock;

use crate::ResourceKey;

/// The resources that the watch has delivered and no reconcile has found deleted.
#[derive(Default)]
pub(super) struct Known(Mutex<HashSet<ResourceKey>>);

impl Known {
    /// Records that the watch delivered the resource.
    pub(super) fn add(&self, key: &ResourceKey) {
        let mut known = lock(&self.0);
        if !known.contains(key) {
            known.insert(key.clone());
        }
    }

    /// Returns whether a change of an object that belongs to the resource matters. A resource that is created later is
    /// woken by its own event.
    pub(super) fn contains(&self, key: &ResourceKey) -> bool {
        lock(&self.0).contains(key)
    }

    pub(super) fn all(&self) -> Vec<ResourceKey> {
        lock(&self.0).iter().cloned().collect()
    }

    /// Records that a reconcile found the resource deleted, and returns whether it is the first to do so. `exists`
    /// checks again, because the resource may have been created again in the meantime.
    pub(super) fn remove(&self, key: &ResourceKey, exists: impl FnOnce() -> bool) -> bool {
        let is_first = lock(&self.0).remove(key);
        if exists() {
            self.add(key);
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_goes_once_and_one_that_came_back_is_known() {
        let (known, key) = (Known::default(), ResourceKey::new("ns", "a"));
        assert!(!known.contains(&key));
        known.add(&key);
        assert!(known.contains(&key));
        assert!(known.remove(&key, || false) && !known.remove(&key, || false));
        assert!(!known.contains(&key));
        known.add(&key);
        assert!(known.remove(&key, || true) && known.contains(&key));
    }
}
