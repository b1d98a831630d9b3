//! What a controller does not know of its resources since it started: the resources in a namespace that it may not
//! list, and the records in a namespace whose records it may not watch. Until it knows them, any of these releases may
//! have an upgrade slot or fail the gate of a rollout, so no other release gets a slot.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::WatchScope;
use outside::sync;

use crate::status::Status;
use crate::view::coverage::Loss;

/// What one controller does not know yet.
#[derive(Default)]
pub(crate) struct Unseen(Mutex<State>);

#[derive(Default)]
struct State {
    /// The scopes whose resources were never listed. A refusal after the first list hides only newer resources.
    unlisted: Vec<WatchScope>,
    /// The scopes that are listed and not refused since. If there is one, the server serves the kind.
    watched: HashSet<WatchScope>,
    /// Whether the last refusal showed that the server serves no version of the kind.
    is_unserved: bool,
    /// The resources in the unlisted scopes that have come so far, until the upgrade slots that they may have are restored.
    unrestored: BTreeSet<ResourceKey>,
    /// The resources whose records could not be watched when the resource came, nor since.
    unrecorded: BTreeMap<ResourceKey, Unrecorded>,
    /// How many of them have their records in each namespace. The log names only these namespaces, however many
    /// resources come one after the other.
    namespaces: BTreeMap<Arc<str>, usize>,
    /// The number of times that something missing was found or had gone.
    finds: Finds,
    /// The finds that have already taken effect.
    settled: Finds,
    /// Whether what the log names may have changed.
    is_news: bool,
    /// What was last logged as missing.
    reported: Vec<String>,
}

/// The number of times that something missing was found or had gone, up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finds(u64);

/// A resource whose records are unknown.
struct Unrecorded {
    /// Its status when it came, which the report of that replaces.
    status: Status,
    /// The namespace of its records.
    namespace: Arc<str>,
}

/// What is missing, as the log names it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The scopes whose resources were never listed.
    pub(crate) scopes: Vec<WatchScope>,
    /// The namespaces with unknown records.
    pub(crate) namespaces: Vec<Arc<str>>,
}

impl Unseen {
    /// Sets the scopes whose resources are to be listed.
    pub(crate) fn require(&self, scopes: impl IntoIterator<Item = WatchScope>) {
        self.change_lists(|state| state.unlisted = scopes.into_iter().collect());
    }

    /// Records that the resources of a scope are listed.
    pub(crate) fn listed(&self, scope: &WatchScope) {
        self.change_lists(|state| {
            state.unlisted.retain(|unlisted| unlisted != scope);
            state.watched.insert(scope.clone());
            state.is_unserved = false;
        });
    }

    /// Records that the server refuses to list or watch the resources of a scope. While it does not serve their kind,
    /// no list is missing; afterwards, lists that never ended are missing again.
    pub(crate) fn lost(&self, scope: &WatchScope, loss: Loss) {
        self.change_lists(|state| {
            state.watched.remove(scope);
            state.is_unserved = loss == Loss::Unserved;
        });
    }

    fn change_lists(&self, change: impl FnOnce(&mut State)) {
        let state = &mut *self.state();
        let before = state.awaited().to_vec();
        change(state);
        let after = state.awaited();
        let (is_news, is_find) = (before != after, before.iter().any(|scope| !after.contains(scope)));
        state.is_news |= is_news;
        if is_find {
            state.find();
        }
    }

    /// Records that a resource came. Only those whose scope was never listed before matter.
    pub(crate) fn came(&self, key: &ResourceKey) {
        let mut state = self.state();
        if state.unlisted.iter().any(|scope| scope.covers(&key.namespace)) {
            state.unrestored.insert(key.clone());
        }
    }

    /// Records that the upgrade slot that a resource may have is restored.
    pub(crate) fn restored(&self, key: &ResourceKey) {
        let mut state = self.state();
        if state.unrestored.remove(key) {
            state.find();
        }
    }

    /// Returns the resources of a scope whose upgrade slots are not restored yet.
    pub(crate) fn unrestored(&self, scope: &WatchScope) -> Vec<ResourceKey> {
        self.state().unrestored.iter().filter(|key| scope.covers(&key.namespace)).cloned().collect()
    }

    /// Records that the records in this namespace of a resource with this status cannot be watched. The first status is
    /// kept.
    pub(crate) fn lack_records(&self, key: &ResourceKey, namespace: Arc<str>, status: &Status) {
        let state = &mut *self.state();
        let Entry::Vacant(place) = state.unrecorded.entry(key.clone()) else { return };
        let count = state.namespaces.entry(namespace.clone()).or_default();
        state.is_news |= *count == 0;
        *count += 1;
        place.insert(Unrecorded { status: status.clone(), namespace });
    }

    /// Returns the status that a resource whose records are unknown came with.
    pub(crate) fn first_status(&self, key: &ResourceKey) -> Option<Status> {
        self.state().unrecorded.get(key).map(|one| one.status.clone())
    }

    /// Records that the records of a resource are known.
    pub(crate) fn recorded(&self, key: &ResourceKey) {
        self.state().end_lack(key);
    }

    /// Records that a resource is gone.
    pub(crate) fn forget(&self, key: &ResourceKey) {
        self.restored(key);
        self.recorded(key);
    }

    /// Returns the number of finds if nothing is missing and the last ones have not taken effect yet.
    pub(crate) fn complete(&self) -> Option<Finds> {
        let state = self.state();
        (!state.is_missing() && !state.is_settled()).then_some(state.finds)
    }

    /// Records that everything found up to then has taken effect.
    pub(crate) fn settle(&self, finds: Finds) {
        let mut state = self.state();
        state.settled = state.settled.max(finds);
    }

    /// Records that everything found until now has taken effect, or will before any upgrade.
    pub(crate) fn settle_all(&self) {
        let mut state = self.state();
        state.settled = state.finds;
    }

    /// Returns whether any object is missing, or any find has yet to take effect.
    pub(crate) fn is_any(&self) -> bool {
        let state = self.state();
        state.is_missing() || !state.is_settled()
    }

    /// Returns what is missing, if that may have changed since the last call.
    pub(crate) fn news(&self) -> Option<Missing> {
        let state = &mut *self.state();
        if !std::mem::take(&mut state.is_news) {
            return None;
        }
        let namespaces = state.namespaces.keys().cloned().collect();
        Some(Missing { scopes: state.awaited().to_vec(), namespaces })
    }

    /// Records that this is logged as missing; returns whether it differs from what was logged before.
    pub(crate) fn report(&self, missing: &[String]) -> bool {
        let mut state = self.state();
        let is_other = state.reported != missing;
        missing.clone_into(&mut state.reported);
        is_other
    }

    /// Returns the resources whose records are unknown.
    pub(crate) fn unrecorded(&self) -> Vec<ResourceKey> {
        self.state().unrecorded.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.0)
    }
}

impl State {
    fn is_missing(&self) -> bool {
        !self.awaited().is_empty() || !self.unrestored.is_empty() || !self.unrecorded.is_empty()
    }

    /// Returns the scopes whose first list is awaited: none while the server does not serve the kind. Discovery may be some
    /// seconds old, so a scope that is listed proves that it does.
    fn awaited(&self) -> &[WatchScope] {
        let is_served = !self.is_unserved || !self.watched.is_empty();
        if is_served { &self.unlisted } else { &[] }
    }

    fn is_settled(&self) -> bool {
        self.settled == self.finds
    }

    fn find(&mut self) {
        self.finds.0 += 1;
    }

    /// Removes a resource whose records are unknown.
    fn end_lack(&mut self, key: &ResourceKey) {
        let Some(Unrecorded { namespace, .. }) = self.unrecorded.remove(key) else { return };
        self.find();
        if let Some(count) = self.namespaces.get_mut(&namespace) {
            *count -= 1;
            if *count == 0 {
                self.namespaces.remove(&namespace);
                self.is_news = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets what was found have its effect; returns whether nothing is missing then.
    fn settle(unseen: &Unseen) -> bool {
        unseen.complete().into_iter().for_each(|finds| unseen.settle(finds));
        !unseen.is_any()
    }

    #[test]
    fn all_is_seen_once_every_scope_is_listed_and_all_records_are_known() {
        let (unseen, [a, b]) = (Unseen::default(), ["a", "b"].map(WatchScope::namespace));
        unseen.listed(&a);
        assert!(!unseen.is_any(), "nothing is required");
        unseen.require([a.clone(), b.clone()]);
        unseen.listed(&a);
        assert!(!settle(&unseen));
        let key = ResourceKey::new("b", "web");
        let later = Status { observed_generation: Some(2), ..Status::default() };
        unseen.lack_records(&key, "b".into(), &Status::default());
        unseen.lack_records(&key, "b".into(), &later);
        unseen.listed(&b);
        assert!(!settle(&unseen));
        assert_eq!(unseen.unrecorded(), std::slice::from_ref(&key));
        assert_eq!(unseen.first_status(&key), Some(Status::default()), "not the later one");
        unseen.recorded(&key);
        assert!(settle(&unseen));
        unseen.listed(&a);
        assert_eq!(unseen.complete(), None, "a later list brings nothing");
    }

    #[test]
    fn a_scope_that_was_never_listed_is_missing_unless_its_kind_is_not_served() {
        let (unseen, [a, b]) = (Unseen::default(), ["a", "b"].map(WatchScope::namespace));
        unseen.require([a.clone(), b.clone()]);
        unseen.listed(&a);
        unseen.lost(&b, Loss::Refused);
        assert!(!settle(&unseen));
        unseen.lost(&b, Loss::Unserved);
        assert!(!settle(&unseen), "the other watch goes on");
        unseen.lost(&a, Loss::Unserved);
        assert!(unseen.is_any() && settle(&unseen), "its kind is not served");
        assert!(unseen.news().unwrap().scopes.is_empty());
        unseen.lost(&b, Loss::Unserved);
        assert!(!unseen.is_any(), "that is no news");
        unseen.lost(&b, Loss::Refused);
        assert!(!settle(&unseen), "it is served again, as a refusal shows");
        unseen.lost(&b, Loss::Unserved);
        assert!(settle(&unseen));
        unseen.listed(&a);
        assert_eq!(unseen.news().unwrap().scopes, std::slice::from_ref(&b));
        unseen.lost(&b, Loss::Unserved);
        assert!(!settle(&unseen), "discovery is outdated");
        unseen.came(&ResourceKey::new("b", "web"));
        assert_eq!(unseen.unrestored(&b).len(), 1);
        unseen.restored(&ResourceKey::new("b", "web"));
        unseen.listed(&b);
        assert!(settle(&unseen));
    }

    #[test]
    fn the_log_has_news_when_a_namespace_joins_or_leaves_those_with_unknown_records() {
        let (unseen, a) = (Unseen::default(), WatchScope::namespace("a"));
        let [one, two] = ["one", "two"].map(|name| ResourceKey::new("a", name));
        let lack = |key: &ResourceKey| unseen.lack_records(key, "records".into(), &Status::default());
        let news = |scopes: &[WatchScope], names: &[&str]| {
            let namespaces = names.iter().map(|name| Arc::from(*name)).collect();
            Some(Missing { scopes: scopes.to_vec(), namespaces })
        };
        assert_eq!(unseen.news(), None);
        lack(&one);
        assert_eq!((unseen.news(), unseen.news()), (news(&[], &["records"]), None));
        lack(&two);
        lack(&two);
        unseen.recorded(&one);
        assert_eq!(unseen.news(), None, "the namespace is known");
        unseen.forget(&two);
        assert_eq!(unseen.news(), news(&[], &[]), "it was the last one");
        unseen.recorded(&two);
        assert_eq!(unseen.news(), None);
        unseen.require([a.clone()]);
        assert_eq!(unseen.news(), news(std::slice::from_ref(&a), &[]));
        unseen.listed(&a);
        assert_eq!(unseen.news(), news(&[], &[]));
        unseen.listed(&a);
        assert_eq!(unseen.news(), None);
    }

    #[test]
    fn what_is_found_counts_as_missing_until_it_has_had_its_effect() {
        let (unseen, a, key) = (Unseen::default(), WatchScope::namespace("a"), ResourceKey::new("a", "web"));
        unseen.require([a.clone()]);
        unseen.listed(&a);
        assert!(unseen.is_any());
        let finds = unseen.complete().unwrap();
        // While the turns of a rollout are being restored.
        unseen.lack_records(&key, "a".into(), &Status::default());
        unseen.recorded(&key);
        unseen.settle(finds);
        assert!(unseen.is_any() && settle(&unseen));
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
        unseen.listed(&a);
        assert!(!settle(&unseen));
        unseen.came(&late);
        unseen.restored(&early);
        assert_eq!(unseen.unrestored(&a), std::slice::from_ref(&gone), "a later one is not awaited");
        unseen.forget(&other);
        assert!(!settle(&unseen));
        unseen.forget(&gone);
        assert!(unseen.is_any() && settle(&unseen));
    }
}
