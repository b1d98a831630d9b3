//! What a controller does not know of its resources since it started: those in a namespace that it may not list, and the
//! records in one whose records it may not watch. Until it does, any of these releases may have an upgrade slot or fail
//! the gate of a rollout, so no other release gets a slot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::WatchScope;
use outside::sync;

use crate::status::Status;

/// What one controller does not know yet.
#[derive(Default)]
pub(crate) struct Unseen(Mutex<State>);

#[derive(Default)]
struct State {
    /// The scopes whose resources were never listed. A later refusal hides only what came since.
    unlisted: Vec<WatchScope>,
    /// The resources in them that came since, until the upgrade slots that they may have are restored.
    unrestored: BTreeSet<ResourceKey>,
    /// The resources whose records could not be watched when the resource came, nor since; each with its status then,
    /// which the report of that replaces.
    unrecorded: BTreeMap<ResourceKey, Status>,
    /// Whether one of these resources is gone, which has had no effect yet.
    is_one_gone: bool,
    /// What was last logged as missing.
    reported: Vec<String>,
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

    /// Records that a resource came. Only those whose scope was never listed before matter.
    pub(crate) fn came(&self, key: &ResourceKey) {
        let mut state = self.state();
        if state.unlisted.iter().any(|scope| scope.covers(&key.namespace)) {
            state.unrestored.insert(key.clone());
        }
    }

    /// Records that the upgrade slot that a resource may have is restored; returns whether that was awaited.
    pub(crate) fn restored(&self, key: &ResourceKey) -> bool {
        self.state().unrestored.remove(key)
    }

    /// Returns the resources of a scope whose upgrade slots are not restored yet.
    pub(crate) fn unrestored(&self, scope: &WatchScope) -> Vec<ResourceKey> {
        self.state().unrestored.iter().filter(|key| scope.covers(&key.namespace)).cloned().collect()
    }

    /// Records that the records of a resource with this status cannot be watched. Its first status is kept.
    pub(crate) fn lack_records(&self, key: &ResourceKey, status: &Status) {
        self.state().unrecorded.entry(key.clone()).or_insert_with(|| status.clone());
    }

    /// Returns the status that a resource whose records are unknown came with.
    pub(crate) fn first_status(&self, key: &ResourceKey) -> Option<Status> {
        self.state().unrecorded.get(key).cloned()
    }

    /// Records that the records of a resource are known.
    pub(crate) fn recorded(&self, key: &ResourceKey) {
        self.state().unrecorded.remove(key);
    }

    /// Records that a resource is gone. If anything of it was missing, something counts as missing until
    /// [`Unseen::settle_gone`].
    pub(crate) fn forget(&self, key: &ResourceKey) {
        let state = &mut *self.state();
        let was_missing = state.unrestored.remove(key) | state.unrecorded.remove(key).is_some();
        state.is_one_gone |= was_missing;
    }

    /// Takes note that resources are gone; returns whether anything of them was missing.
    pub(crate) fn settle_gone(&self) -> bool {
        std::mem::take(&mut self.state().is_one_gone)
    }

    /// Returns whether anything is missing.
    pub(crate) fn is_any(&self) -> bool {
        let state = self.state();
        state.is_one_gone || !state.unlisted.is_empty() || !state.unrestored.is_empty() || !state.unrecorded.is_empty()
    }

    /// Records that this is logged as missing; returns whether it differs from what was logged before.
    pub(crate) fn report(&self, missing: &[String]) -> bool {
        let mut state = self.state();
        let is_news = state.reported != missing;
        missing.clone_into(&mut state.reported);
        is_news
    }

    /// Returns the scopes whose resources were never listed.
    pub(crate) fn unlisted(&self) -> Vec<WatchScope> {
        self.state().unlisted.clone()
    }

    /// Returns the resources whose records are unknown.
    pub(crate) fn unrecorded(&self) -> Vec<ResourceKey> {
        self.state().unrecorded.keys().cloned().collect()
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
        let later = Status { observed_generation: Some(2), ..Status::default() };
        unseen.lack_records(&key, &Status::default());
        unseen.lack_records(&key, &later);
        assert!(unseen.listed(&b) && unseen.is_any());
        assert_eq!(unseen.unrecorded(), std::slice::from_ref(&key));
        assert_eq!(unseen.first_status(&key), Some(Status::default()), "not the later one");
        unseen.recorded(&key);
        assert!(!unseen.is_any());
        unseen.require([a]);
        unseen.require([]);
        assert!(!unseen.is_any(), "its kind is not served");
    }

    #[test]
    fn what_comes_before_the_first_list_ends_is_awaited_until_it_is_restored_or_gone() {
        let (unseen, [a, b]) = (Unseen::default(), ["a", "b"].map(WatchScope::namespace));
        let [early, gone, late, other] = ["early", "gone", "late", "other"].map(|name| ResourceKey::new("a", name));
        unseen.require([a.clone()]);
        for key in [&early, &gone, &ResourceKey::new("b", "web")] {
            unseen.came(key);
        }
        assert_eq!((unseen.unrestored(&a), unseen.unrestored(&b)), (vec![early.clone(), gone.clone()], vec![]));
        assert!(unseen.listed(&a) && unseen.is_any());
        unseen.came(&late);
        assert!(unseen.restored(&early) && !unseen.restored(&late) && unseen.is_any(), "a later one is not awaited");
        unseen.forget(&other);
        assert!(!unseen.settle_gone() && unseen.is_any());
        unseen.forget(&gone);
        assert!(unseen.is_any() && unseen.settle_gone() && !unseen.is_any());
    }
}
