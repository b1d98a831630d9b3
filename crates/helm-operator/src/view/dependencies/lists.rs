//! Tracks the controllers whose resources are not listed yet. Until they are, it is unknown whether one of them must be
//! deleted before a resource of another kind. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use controller::runtime::reflector::WatchScope;

use crate::dependencies::Node;
use crate::view::coverage::{KindKey, Loss};
use crate::watches::Watch;

/// A kind whose resources may be held by resources of a watch, with `reverseDeletion`.
#[derive(Clone, Debug)]
pub(crate) struct MayHold {
    kind: KindKey,
    /// Whether only resources in the namespace of the one that holds them.
    is_local: bool,
}

impl MayHold {
    pub(crate) fn of(watch: &Watch) -> Vec<MayHold> {
        let entries = watch.depends_on.iter().filter(|entry| entry.reverse_deletion);
        let named = entries.map(|entry| {
            let kind = (entry.group.as_str().into(), entry.kind.as_str().into());
            MayHold { kind, is_local: entry.namespace.is_none() }
        });
        let allowed = watch.depends_on_annotation.iter().flat_map(|rule| rule.kinds.iter());
        let allowed = allowed.map(|text| {
            let (kind, group) = text.split_once('.').unwrap_or((text, ""));
            MayHold { kind: (group.into(), kind.into()), is_local: true }
        });
        named.chain(allowed).collect()
    }
}

/// The lists of all controllers whose resources may hold others.
#[derive(Default)]
pub(super) struct Lists {
    controllers: BTreeMap<Arc<str>, Holders>,
    /// The resources whose deletion waits for a list.
    waiting: BTreeSet<Node>,
}

/// The resources of one controller.
struct Holders {
    kind: Arc<str>,
    may_hold: Vec<MayHold>,
    /// The scopes to list.
    scopes: HashSet<WatchScope>,
    unlisted: HashSet<WatchScope>,
    /// Whether the last refusal showed that the server serves no version of the kind.
    is_unserved: bool,
}

impl Lists {
    /// Adds a controller whose resources are not listed yet.
    pub(super) fn announce(&mut self, controller: Arc<str>, kind: &str, may_hold: Vec<MayHold>) {
        if !may_hold.is_empty() {
            let scopes = HashSet::from([WatchScope::ALL]);
            let unlisted = scopes.clone();
            let holders = Holders { kind: kind.into(), may_hold, scopes, unlisted, is_unserved: false };
            self.controllers.insert(controller, holders);
        }
    }

    /// Sets the scopes that a controller has to list; returns the resources that waited for it.
    pub(super) fn require(&mut self, controller: &str, scopes: impl IntoIterator<Item = WatchScope>) -> BTreeSet<Node> {
        self.change(controller, |holders| {
            holders.scopes = scopes.into_iter().collect();
            (holders.unlisted, holders.is_unserved) = (holders.scopes.clone(), false);
        })
    }

    /// Handles the end of a list; returns the resources that waited for it.
    pub(super) fn listed(&mut self, controller: &str, scope: &WatchScope) -> BTreeSet<Node> {
        self.change(controller, |holders| {
            holders.unlisted.remove(scope);
            holders.is_unserved = false;
        })
    }

    /// Handles a refused list or watch; returns the resources that waited for a list that no longer matters.
    pub(super) fn lost(&mut self, controller: &str, scope: &WatchScope, loss: Loss) -> BTreeSet<Node> {
        self.change(controller, |holders| {
            holders.unlisted.insert(scope.clone());
            holders.is_unserved = loss == Loss::Unserved;
        })
    }

    /// Returns the waiting resources if fewer scopes are awaited after the change.
    fn change(&mut self, controller: &str, change: impl FnOnce(&mut Holders)) -> BTreeSet<Node> {
        let Some(holders) = self.controllers.get_mut(controller) else { return BTreeSet::new() };
        let before: HashSet<WatchScope> = holders.awaited().cloned().collect();
        change(holders);
        let after: HashSet<WatchScope> = holders.awaited().cloned().collect();
        match before.is_subset(&after) {
            true => BTreeSet::new(),
            false => std::mem::take(&mut self.waiting),
        }
    }

    /// Returns the kinds of the unlisted resources that may have to be deleted before this one, which is woken when that
    /// changes.
    pub(super) fn unlisted_for(&mut self, node: &Node) -> BTreeSet<Arc<str>> {
        let may_hold = |holders: &&Holders| holders.awaited().any(|scope| holders.may_hold(node, scope));
        let kinds: BTreeSet<Arc<str>> =
            self.controllers.values().filter(may_hold).map(|holders| holders.kind.clone()).collect();
        if !kinds.is_empty() {
            self.waiting.insert(node.clone());
        }
        kinds
    }
}

impl Holders {
    /// Returns the scopes whose lists are awaited: none while the server does not serve the kind. Discovery may be some
    /// seconds old, so a scope that is listed proves that it does.
    fn awaited(&self) -> impl Iterator<Item = &WatchScope> {
        let is_served = !self.is_unserved || !self.scopes.is_subset(&self.unlisted);
        self.unlisted.iter().filter(move |_| is_served)
    }

    /// Returns whether one of the resources in this scope may hold another resource.
    fn may_hold(&self, node: &Node, scope: &WatchScope) -> bool {
        let is_near = node.namespace.is_empty() || scope.covers(&node.namespace);
        let mut kinds = self.may_hold.iter().filter(|one| is_near || !one.is_local);
        kinds.any(|one| one.kind == (node.group.clone(), node.kind.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(namespace: &str, kind: &str) -> Node {
        Node { group: "db.example.com".into(), kind: kind.into(), namespace: namespace.into(), name: "db".into() }
    }

    #[test]
    fn only_lists_that_may_show_a_dependent_are_awaited() {
        let text = "
- group: g
  version: v1
  kind: Shop
  chart: x
  dependsOn:
  - {group: db.example.com, kind: Database, name: db, reverseDeletion: true}
  - {group: db.example.com, kind: Far, name: db, namespace: far, reverseDeletion: true}
  - {group: db.example.com, kind: Other, name: db}
  dependsOnAnnotation: {kinds: [Queue.db.example.com]}
";
        let watch = crate::watches::parse(text, |_| None).unwrap().watches.remove(0);
        let mut lists = Lists::default();
        lists.announce("shop-controller".into(), &watch.kind, MayHold::of(&watch));
        let awaited = |lists: &mut Lists, namespace: &str, kind: &str| {
            lists.unlisted_for(&node(namespace, kind)).iter().any(|kind| **kind == *"Shop")
        };
        for (kind, expected) in [("Database", true), ("Far", true), ("Queue", true), ("Other", false)] {
            assert_eq!(awaited(&mut lists, "a", kind), expected, "{kind}");
        }
        lists.require("shop-controller", ["a", "b"].map(WatchScope::namespace));
        lists.listed("shop-controller", &WatchScope::namespace("a"));
        for (namespace, kind, expected) in [
            ("a", "Database", false),
            ("b", "Database", true),
            ("", "Database", true),
            ("a", "Far", true),
            ("a", "Queue", false),
            ("b", "Queue", true),
        ] {
            assert_eq!(awaited(&mut lists, namespace, kind), expected, "{kind} in {namespace:?}");
        }
        let woken = lists.listed("shop-controller", &WatchScope::namespace("b"));
        assert!(woken.contains(&node("b", "Database")));
        assert!(!awaited(&mut lists, "", "Database"));
        let [a, b] = ["a", "b"].map(WatchScope::namespace);
        assert!(lists.lost("shop-controller", &a, Loss::Refused).is_empty());
        assert!(awaited(&mut lists, "a", "Database") && !awaited(&mut lists, "b", "Database"));
        assert!(lists.listed("other-controller", &a).is_empty());
        assert!(lists.lost("shop-controller", &a, Loss::Unserved).is_empty(), "the other watch goes on");
        let woken = lists.lost("shop-controller", &b, Loss::Unserved);
        assert_eq!(woken, [node("a", "Database")].into(), "its kind is not served");
        assert!(!awaited(&mut lists, "a", "Database") && !awaited(&mut lists, "b", "Database"));
        lists.listed("shop-controller", &a);
        assert!(!awaited(&mut lists, "a", "Database") && awaited(&mut lists, "b", "Database"), "it is again");
        lists.lost("shop-controller", &b, Loss::Unserved);
        assert!(awaited(&mut lists, "b", "Database"), "discovery is outdated");
        assert_eq!(lists.require("shop-controller", []), [node("b", "Database")].into());
    }
}
