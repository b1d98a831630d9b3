//! Tracks what the watches of dependent kinds cover: whether an object's absence proves anything, and whether a change
//! of it would be reported. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::{First, WatchScope};
use helm_release::kube::{ObjectKey, Resource};
use serde::Serialize;

/// A kind's group and name.
pub(crate) type KindKey = (Arc<str>, Arc<str>);

pub(crate) fn kind_key(resource: &Resource) -> KindKey {
    (Arc::from(resource.group()), resource.kind.clone())
}

/// Why a kind can no longer be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Refused,
    /// The server serves no version of the kind.
    Unserved,
}

/// How far the watches of a kind are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Watching {
    /// All objects are known, in every scope that may be listed.
    Listed,
    /// Some are not known yet.
    Listing,
    /// The server refuses the watch in some scope.
    Refused,
    /// The server serves no version of the kind.
    Unserved,
}

#[derive(Clone, Default)]
pub(crate) struct Coverage {
    kinds: HashMap<KindKey, Kind>,
    /// How many charts watches must select the objects of. Charts are only added.
    charts: usize,
}

#[derive(Clone, Default)]
struct Kind {
    /// Whether they were requested.
    is_started: bool,
    /// How many charts the watches select the objects of.
    charts: usize,
    /// The scopes to list; empty before the watches start.
    scopes: Vec<WatchScope>,
    /// The scopes whose objects are all known, of as many charts as must be selected.
    listed: Vec<WatchScope>,
    /// The resources that wait for the first list while it is running.
    waiting: Option<HashSet<ResourceKey>>,
    /// Whether some scope could not be listed. If no watch covers an object, its absence proves nothing, and drift is
    /// not reported.
    is_refused: bool,
    /// Whether no version was served when a watch last failed.
    is_unserved: bool,
}

impl Kind {
    fn covers(&self, namespace: &str) -> bool {
        self.listed.iter().any(|scope| scope.covers(namespace))
    }

    /// Returns whether objects are known, but only those of fewer charts.
    fn is_listed_for_fewer(&self, charts: usize) -> bool {
        self.charts < charts && !self.listed.is_empty()
    }

    /// Returns whether every scope is listed.
    fn is_complete(&self) -> bool {
        !self.scopes.is_empty() && self.scopes.iter().all(|scope| self.listed.contains(scope))
    }
}

impl Coverage {
    /// Records that a kind is watched; returns false if it already was.
    pub(crate) fn start(&mut self, kind: KindKey) -> bool {
        !std::mem::replace(&mut self.kind(kind).is_started, true)
    }

    /// Records in which scopes a kind is watched, and for how many charts.
    pub(crate) fn watch_in(&mut self, kind: KindKey, scopes: Vec<WatchScope>, charts: usize) {
        let kind = self.kind(kind);
        (kind.scopes, kind.charts) = (scopes, charts);
    }

    /// Records that the watches must select this many charts. The lists of those that select fewer prove nothing any
    /// longer, and resources may [join](Self::join) the wait for the new ones.
    pub(crate) fn widen(&mut self, charts: usize) {
        self.charts = self.charts.max(charts);
        for kind in self.kinds.values_mut().filter(|kind| kind.is_listed_for_fewer(charts)) {
            kind.listed.clear();
            _ = kind.waiting.get_or_insert_default();
        }
    }

    /// Returns the kinds whose lists resources wait for.
    pub(crate) fn awaited(&self) -> Vec<KindKey> {
        let awaited = self.kinds.iter().filter(|(_, kind)| kind.waiting.is_some());
        awaited.map(|(key, _)| key.clone()).collect()
    }

    /// Makes a resource wait for the lists of these kinds, too, unless that wait has ended.
    pub(crate) fn join(&mut self, kinds: &[KindKey], key: &ResourceKey) {
        for kind in kinds {
            if let Some(waiting) = self.kinds.get_mut(kind).and_then(|kind| kind.waiting.as_mut()) {
                waiting.insert(key.clone());
            }
        }
    }

    /// Makes resources wait for a kind's first list.
    pub(crate) fn await_list(&mut self, kind: KindKey, waiting: HashSet<ResourceKey>) {
        self.kind(kind).waiting = Some(waiting);
    }

    /// Ends the wait for a kind's first list, and returns the resources that waited. `None` means that the list
    /// continues, but nothing waits for it any longer. The wait goes on if a list of more charts is to follow.
    pub(crate) fn listed(&mut self, kind: KindKey, first: Option<First>) -> HashSet<ResourceKey> {
        let charts = self.charts;
        let kind = self.kind(kind);
        if kind.charts < charts {
            return HashSet::new();
        }
        kind.is_refused |= first == Some(First::Refused) && !kind.is_complete();
        kind.waiting.take().unwrap_or_default()
    }

    /// Returns whether a resource waits for the first list of a kind.
    pub(crate) fn is_awaited_by(&self, key: &ResourceKey) -> bool {
        self.kinds.values().any(|kind| kind.waiting.as_ref().is_some_and(|waiting| waiting.contains(key)))
    }

    /// Records that all of a kind's objects of this many charts are known in this scope, unless more must be selected
    /// by now; returns whether its watch may have been refused before.
    pub(crate) fn synced(&mut self, kind: KindKey, scope: &WatchScope, charts: usize) -> bool {
        let is_of_fewer = charts < self.charts;
        let kind = self.kind(kind);
        (kind.is_started, kind.is_unserved) = (true, false);
        if is_of_fewer {
            return false;
        }
        let is_new = !kind.listed.contains(scope);
        if is_new {
            kind.listed.push(scope.clone());
        }
        let was_refused = kind.is_refused;
        kind.is_refused &= !kind.is_complete();
        is_new && was_refused
    }

    /// Records that a kind can no longer be watched in this scope, so that absence proves nothing. Returns whether any
    /// of this is new.
    pub(crate) fn lost(&mut self, kind: KindKey, scope: &WatchScope, loss: Loss) -> bool {
        let kind = self.kind(kind);
        let lost = kind.listed.extract_if(.., |known| known == scope).count();
        kind.is_refused |= lost > 0;
        let is_unserved = loss == Loss::Unserved;
        let was_unserved = std::mem::replace(&mut kind.is_unserved, is_unserved);
        lost > 0 || was_unserved != is_unserved
    }

    /// Returns the kinds that are watched, in order, and how far their watches are.
    pub(crate) fn watched(&self) -> Vec<(KindKey, Watching)> {
        let state = |kind: &Kind| match kind {
            Kind { is_unserved: true, .. } => Watching::Unserved,
            Kind { waiting: Some(_), .. } => Watching::Listing,
            Kind { is_refused: true, .. } => Watching::Refused,
            Kind { listed, .. } if listed.is_empty() => Watching::Listing,
            _ => Watching::Listed,
        };
        let started = self.kinds.iter().filter(|(_, kind)| kind.is_started);
        let mut all: Vec<(KindKey, Watching)> = started.map(|(key, kind)| (key.clone(), state(kind))).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// Returns whether the object's kind is watched, however far that is.
    pub(crate) fn is_started(&self, object: &ObjectKey) -> bool {
        self.of(object).is_some_and(|kind| kind.is_started)
    }

    /// Returns whether absence from the cache proves absence: a watch that covers the object has listed.
    pub(crate) fn covers(&self, object: &ObjectKey) -> bool {
        self.of(object).is_some_and(|kind| kind.covers(&object.namespace))
    }

    /// Returns whether no watch covers the object, because we may not list its kind. A list of another namespace does
    /// not change that.
    pub(crate) fn is_refused(&self, object: &ObjectKey) -> bool {
        self.of(object).is_some_and(|kind| kind.is_refused && !kind.covers(&object.namespace))
    }

    /// Returns whether no version of the object's kind was served when its watch last failed.
    pub(crate) fn is_unserved(&self, object: &ObjectKey) -> bool {
        self.of(object).is_some_and(|kind| kind.is_unserved)
    }

    fn kind(&mut self, kind: KindKey) -> &mut Kind {
        self.kinds.entry(kind).or_default()
    }

    fn of(&self, object: &ObjectKey) -> Option<&Kind> {
        self.kinds.get(&(object.group.clone(), object.kind.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind() -> KindKey {
        ("".into(), "ConfigMap".into())
    }

    fn object(namespace: &str) -> ObjectKey {
        ObjectKey::new("", "ConfigMap", namespace, "a")
    }

    /// Returns whether an object in each of the namespaces `a` and `b` is covered, refused and unserved.
    fn known(coverage: &Coverage) -> [(bool, bool, bool); 2] {
        ["a", "b"].map(object).map(|o| (coverage.covers(&o), coverage.is_refused(&o), coverage.is_unserved(&o)))
    }

    const UNKNOWN: (bool, bool, bool) = (false, false, false);
    const COVERED: (bool, bool, bool) = (true, false, false);
    const REFUSED: (bool, bool, bool) = (false, true, false);

    #[test]
    fn an_object_is_covered_while_a_watch_of_its_namespace_has_listed() {
        let (mut coverage, [a, b]) = (Coverage::default(), ["a", "b"].map(WatchScope::namespace));
        assert!(coverage.start(kind()) && !coverage.start(kind()));
        assert_eq!(known(&coverage), [UNKNOWN; 2]);
        assert!(!coverage.synced(kind(), &a, 1), "nothing was missed");
        assert_eq!(known(&coverage), [COVERED, UNKNOWN]);
        coverage.listed(kind(), Some(First::Refused));
        assert_eq!(known(&coverage), [COVERED, REFUSED], "the other namespace");
        assert!(coverage.synced(kind(), &b, 1), "what went meanwhile is missed only now");
        assert_eq!(known(&coverage), [COVERED; 2]);
        assert!(coverage.lost(kind(), &a, Loss::Refused) && !coverage.lost(kind(), &a, Loss::Refused));
        assert_eq!(known(&coverage), [REFUSED, COVERED]);
        assert!(coverage.lost(kind(), &a, Loss::Unserved), "the server has no such kind any more");
        assert_eq!(known(&coverage), [(false, true, true), (true, false, true)]);
        assert!(coverage.synced(kind(), &a, 1));
        assert_eq!(known(&coverage), [COVERED; 2]);
    }

    #[test]
    fn a_kind_is_refused_until_every_scope_is_listed() {
        let (mut coverage, [a, b]) = (Coverage::default(), ["a", "b"].map(WatchScope::namespace));
        let state = |coverage: &Coverage| coverage.watched()[0].1;
        coverage.start(kind());
        coverage.watch_in(kind(), vec![a.clone(), b.clone()], 1);
        coverage.listed(kind(), Some(First::Refused));
        assert!(coverage.synced(kind(), &a, 1) && state(&coverage) == Watching::Refused);
        assert!(coverage.synced(kind(), &b, 1) && state(&coverage) == Watching::Listed);
        coverage.listed(kind(), Some(First::Refused));
        assert_eq!(state(&coverage), Watching::Listed, "it was listed before the refusal was noted");
        assert!(coverage.lost(kind(), &a, Loss::Refused) && state(&coverage) == Watching::Refused);
        assert!(coverage.synced(kind(), &a, 1) && state(&coverage) == Watching::Listed);
    }

    #[test]
    fn a_kind_that_was_never_served_is_not_watched_either() {
        let mut coverage = Coverage::default();
        assert!(coverage.lost(kind(), &WatchScope::ALL, Loss::Unserved));
        assert!(!coverage.lost(kind(), &WatchScope::ALL, Loss::Unserved), "no news");
        assert_eq!(known(&coverage), [(false, false, true); 2]);
        assert!(coverage.start(kind()), "it is watched once it is served");
    }

    #[test]
    fn a_list_of_fewer_charts_proves_nothing_once_more_are_selected() {
        let (mut coverage, [a, b]) = (Coverage::default(), ["a", "b"].map(WatchScope::namespace));
        let [web, late] = ["web", "late"].map(|name| ResourceKey::new("ns", name));
        coverage.watch_in(kind(), vec![a.clone(), b.clone()], 1);
        coverage.synced(kind(), &a, 1);
        coverage.synced(kind(), &b, 1);
        coverage.widen(1);
        assert_eq!((known(&coverage), coverage.awaited()), ([COVERED; 2], vec![]));
        coverage.join(&[kind()], &web);
        assert!(!coverage.is_awaited_by(&web), "there is nothing to wait for");
        coverage.widen(2);
        assert_eq!((known(&coverage), coverage.awaited()), ([UNKNOWN; 2], vec![kind()]));
        [&web, &late].into_iter().for_each(|key| coverage.join(&[kind()], key));
        assert!(coverage.is_awaited_by(&web) && coverage.is_awaited_by(&late));
        assert!(!coverage.synced(kind(), &a, 1));
        coverage.listed(kind(), Some(First::Refused));
        assert!(coverage.is_awaited_by(&web) && known(&coverage) == [UNKNOWN; 2], "that list was of one chart");
        coverage.watch_in(kind(), vec![a.clone(), b.clone()], 2);
        assert!(!coverage.synced(kind(), &b, 1));
        assert_eq!(known(&coverage), [UNKNOWN; 2], "so was the list of the other namespace");
        coverage.synced(kind(), &a, 2);
        coverage.listed(kind(), Some(First::Refused));
        assert_eq!(known(&coverage), [COVERED, REFUSED], "the new list of the other namespace is refused");
        assert!(!coverage.is_awaited_by(&web) && !coverage.is_awaited_by(&late));
        coverage.widen(2);
        assert_eq!(known(&coverage), [COVERED, REFUSED], "they select as many");
        assert!(coverage.synced(kind(), &b, 2));
        assert_eq!(known(&coverage), [COVERED; 2]);
    }

    #[test]
    fn resources_wait_until_the_first_list_ends() {
        let (mut coverage, key) = (Coverage::default(), ResourceKey::new("ns", "web"));
        coverage.await_list(kind(), [key.clone()].into());
        assert!(coverage.is_awaited_by(&key) && !coverage.is_awaited_by(&ResourceKey::new("ns", "other")));
        assert_eq!(coverage.listed(kind(), None), [key.clone()].into());
        assert!(!coverage.is_awaited_by(&key) && coverage.listed(kind(), Some(First::Listed)).is_empty());
        assert_eq!(known(&coverage), [UNKNOWN; 2]);
    }
}
