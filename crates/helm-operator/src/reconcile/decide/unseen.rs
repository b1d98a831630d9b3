//! What a controller has not seen of its resources since it started: those in a namespace that it may not list, and the
//! records of those in one whose records it may not watch. Until it has, it is unknown which releases have an upgrade
//! slot or fail the gate of a rollout, so no other release gets a slot.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::WatchScope;
use outside::sync;

/// What one controller has not seen.
#[derive(Default)]
pub(crate) struct Unseen(Mutex<State>);

#[derive(Default)]
struct State {
    /// The scopes whose resources were never listed. A later refusal hides only what came since.
    unlisted: Vec<WatchScope>,
    /// The resources whose records could not be watched when the resource came, nor since.
    unrecorded: BTreeSet<ResourceKey>,
}

impl Unseen {
    /// Sets the scopes whose resources are to be listed: none if the server does not serve their kind.
    pub(crate) fn require(&self, scopes: impl IntoIterator<Item = WatchScope>) {
        self.state().unlisted = scopes.into_iter().collect();
    }

    /// Records that the resources of a scope are listed; returns whether they were not before.
    pub(crate) fn listed(&self, scope: &WatchScope) -> bool {
        self.state().unlisted.extract_if(.., |unlisted| unlisted == scope).count() > 0
    }

    /// Records that the records of a resource cannot be watched.
    pub(crate) fn lack_records(&self, key: &ResourceKey) {
        self.state().unrecorded.insert(key.clone());
    }

    /// Records that the records of a resource are known, or that it is gone; returns whether they were unknown before.
    pub(crate) fn recorded(&self, key: &ResourceKey) -> bool {
        self.state().unrecorded.remove(key)
    }

    /// Returns whether anything is missing.
    pub(crate) fn is_any(&self) -> bool {
        let state = self.state();
        !state.unlisted.is_empty() || !state.unrecorded.is_empty()
    }

    /// Returns the scopes whose resources were never listed.
    pub(crate) fn unlisted(&self) -> Vec<WatchScope> {
        self.state().unlisted.clone()
    }

    /// Returns the resources whose records are unknown.
    pub(crate) fn unrecorded(&self) -> Vec<ResourceKey> {
        self.state().unrecorded.iter().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_seen_once_every_scope_is_listed_and_all_records_are_known() {
        let (unseen, [a, b]) = (Unseen::default(), ["a", "b"].map(WatchScope::namespace));
        assert!(!unseen.is_any() && !unseen.listed(&a), "nothing is required");
        unseen.require([a.clone(), b.clone()]);
        assert!(unseen.listed(&a) && !unseen.listed(&a), "a later list brings no news");
        assert_eq!(unseen.unlisted(), std::slice::from_ref(&b));
        let key = ResourceKey::new("b", "web");
        unseen.lack_records(&key);
        assert!(unseen.listed(&b) && unseen.is_any());
        assert_eq!(unseen.unrecorded(), std::slice::from_ref(&key));
        assert!(unseen.recorded(&key) && !unseen.recorded(&key) && !unseen.is_any());
        unseen.require([a]);
        unseen.require([]);
        assert!(!unseen.is_any(), "its kind is not served");
    }
}
