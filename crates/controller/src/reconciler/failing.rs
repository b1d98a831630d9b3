//! The resources whose last attempt failed: how long each waits, and which of their changes can wait as long.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use outside::sync::lock;

use crate::ResourceKey;
use crate::runtime::backoff::Backoff;

/// The failing resources of one reconciler.
#[derive(Debug, Default)]
pub(super) struct Failing {
    backoff: Backoff<ResourceKey>,
    /// The failing resources whose status changed. Locked around each decision about a failing resource.
    changed: Mutex<HashSet<ResourceKey>>,
}

impl Failing {
    /// Creates the failing resources of a reconciler with its own waits.
    pub(super) fn between(first: Duration, longest: Duration) -> Failing {
        Failing { backoff: Backoff::between(first, longest), ..Failing::default() }
    }

    /// Counts a failure of a resource; returns how long to wait before the next attempt.
    pub(super) fn failed(&self, key: &ResourceKey) -> Duration {
        self.backoff.failed(key.clone())
    }

    /// Returns whether a change of the status alone waits for the next attempt, because the resource fails. The change is
    /// often the report of the failure: a report that differs each time would otherwise wake the resource for ever.
    pub(super) fn defers(&self, key: &ResourceKey) -> bool {
        let mut changed = lock(&self.changed);
        let is_failing = self.backoff.has_failed(key);
        if is_failing {
            changed.insert(key.clone());
        }
        is_failing
    }

    /// Forgets the failures of a resource that has no next attempt. Returns whether a change was deferred to it, which
    /// the last attempt may not have seen.
    pub(super) fn end(&self, key: &ResourceKey) -> bool {
        let mut changed = lock(&self.changed);
        self.backoff.forget(key);
        changed.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_status_waits_while_the_resource_fails_and_is_not_forgotten() {
        let (failing, [a, b]) = (Failing::default(), ["a", "b"].map(|name| ResourceKey::new("ns", name)));
        assert!(!failing.defers(&a));
        failing.failed(&a);
        assert!(failing.defers(&a) && !failing.defers(&b));
        assert_eq!([failing.end(&a), failing.end(&a), failing.end(&b)], [true, false, false]);
        assert!(!failing.defers(&a), "it does not fail any more");
    }
}
