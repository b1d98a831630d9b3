//! The state behind the registry's lock: the kinds, who waits for which of their objects, and how to wake them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use controller::runtime::reflector::WatchScope;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::kind::{Entry, Kind, User};
use super::lists::Lists;
use crate::dependencies::{self, Node, Query, Standing, Wanted};
use crate::view::coverage::KindKey;
use crate::watches::Expressions;

/// Wakes a resource of one controller, by namespace and name.
type Wake = Box<dyn Fn(&str, &str) + Send + Sync>;

#[derive(Default)]
pub(super) struct State {
    pub(super) kinds: HashMap<KindKey, Kind>,
    pub(super) users: HashMap<User, Vec<Wanted>>,
    pub(super) controllers: HashMap<Arc<str>, Controller>,
    pub(super) lists: Lists,
    pub(super) watches: HashMap<KindKey, Vec<Watched>>,
    /// The search for kinds that are not served yet.
    pub(super) search: Option<AbortOnDropHandle<()>>,
}

pub(super) struct Controller {
    pub(super) group: Arc<str>,
    pub(super) kind: Arc<str>,
    /// The `readiness` rules of its watch.
    pub(super) rules: Arc<Expressions>,
    pub(super) wake: Wake,
}

/// A watch, and the reason if the server refuses it.
pub(super) struct Watched {
    pub(super) scope: WatchScope,
    /// Once cancelled, the watch shows whole objects; before, their metadata.
    pub(super) shows_whole: CancellationToken,
    pub(super) refusal: Option<String>,
    /// Stops the watch when dropped.
    pub(super) _watcher: Option<AbortOnDropHandle<()>>,
}

impl State {
    /// Sets what a resource waits for, and wakes those that it no longer holds.
    pub(super) fn replace_user(&mut self, user: &User, wanted: Vec<Wanted>) {
        let before = self.held_by(user);
        self.set_user(user, wanted);
        before.difference(&self.held_by(user)).for_each(|node| self.wake_node(node));
    }

    /// Returns the resources that must be deleted after this one.
    fn held_by(&self, user: &User) -> BTreeSet<Node> {
        let wanted = self.users.get(user).into_iter().flatten().filter(|one| one.reverse_deletion);
        wanted.filter_map(|one| node_of(&one.query)).collect()
    }

    fn set_user(&mut self, user: &User, wanted: Vec<Wanted>) {
        let before = self.users.remove(user).unwrap_or_default();
        for one in &before {
            let key = key_of(&one.query);
            let is_kept = wanted.iter().any(|other| other.query == one.query);
            if let Some(kind) = self.kinds.get_mut(&key).filter(|_| !is_kept) {
                kind.remove(&one.query, user);
            }
        }
        for one in &wanted {
            self.kinds.entry(key_of(&one.query)).or_default().add(&one.query, user);
        }
        before.iter().for_each(|one| self.stop_watch(&one.query));
        if !wanted.is_empty() {
            self.users.insert(user.clone(), wanted);
        }
    }

    /// Stops the watch of what a query means, unless it covers a query of some resource.
    fn stop_watch(&mut self, of: &Query) {
        let key = key_of(of);
        let Some(watches) = self.watches.get_mut(&key) else { return };
        let queries =
            || self.kinds.get(&key).into_iter().flat_map(|kind| kind.entries.values().map(|entry| &*entry.query));
        watches.retain(|watched| {
            let covers = |query: &Query| watched.scope.covers(&query.namespace);
            !covers(of) || queries().any(covers)
        });
    }

    /// Returns the `readiness` rules that a query names.
    pub(super) fn rules_of(&self, query: &Query) -> Option<Arc<Expressions>> {
        let controller = query.rules.as_ref().and_then(|name| self.controllers.get(name));
        controller.map(|controller| controller.rules.clone())
    }

    pub(super) fn entry(&self, query: &Query) -> Option<&Entry> {
        self.kinds.get(&key_of(query))?.entries.get(&query.id)
    }

    pub(super) fn standing(&self, query: &Query) -> Standing {
        self.kinds.get(&key_of(query)).map_or(Standing::Unknown, |kind| kind.standing(query))
    }

    /// Returns the served resources that a resource waits for.
    pub(super) fn waits_for(&self, node: &Node) -> Vec<Node> {
        let users = self.controllers.iter().filter(|(_, one)| one.group == node.group && one.kind == node.kind);
        let users = users.filter_map(|(name, _)| self.users.get(&(name.clone(), node.clone())));
        users.flatten().flat_map(|one| self.meant(&one.query)).collect()
    }

    /// Returns the resources that a query means, if this process serves their kind.
    fn meant(&self, query: &Query) -> Vec<Node> {
        let is_served = |one: &Controller| one.group == query.group && one.kind == query.kind;
        if !self.controllers.values().any(is_served) {
            return Vec::new();
        }
        let is_cluster_scoped = || {
            let kind = self.kinds.get(&key_of(query));
            kind.and_then(|kind| kind.resource.as_ref()).is_some_and(|resource| !resource.namespaced)
        };
        match node_of(query) {
            Some(node) if is_cluster_scoped() => vec![Node { namespace: "".into(), ..node }],
            Some(node) => vec![node],
            None => {
                let objects = self.entry(query).into_iter().flat_map(Entry::objects);
                let node = |(namespace, name): &(Arc<str>, Arc<str>)| {
                    let (group, kind) = (query.group.clone(), query.kind.clone());
                    Node { group, kind, namespace: namespace.clone(), name: name.clone() }
                };
                objects.map(node).collect()
            }
        }
    }

    /// Returns the resources in a cycle with this one; nothing if it is in no cycle.
    pub(super) fn in_cycle_with(&self, node: &Node) -> BTreeSet<Node> {
        dependencies::in_cycle_with(node, |node| self.waits_for(node), |node| self.waiting_for(node))
    }

    /// Returns the resources that wait for this one.
    fn waiting_for(&self, node: &Node) -> Vec<Node> {
        let kind = self.kinds.get(&(node.group.clone(), node.kind.clone()));
        let users = kind.map(|kind| kind.waiting_for(node)).unwrap_or_default();
        users.into_iter().map(|(_, node)| node).collect()
    }

    pub(super) fn wake_all(&self, users: &BTreeSet<User>) {
        for (controller, node) in users {
            if let Some(controller) = self.controllers.get(controller) {
                (controller.wake)(&node.namespace, &node.name);
            }
        }
    }

    /// Wakes a resource of any controller.
    pub(super) fn wake_node(&self, node: &Node) {
        let serving = self.controllers.values().filter(|one| one.group == node.group && one.kind == node.kind);
        serving.for_each(|one| (one.wake)(&node.namespace, &node.name));
    }
}

pub(crate) fn key_of(query: &Query) -> KindKey {
    (query.group.clone(), query.kind.clone())
}

/// Returns the resource that a query names.
fn node_of(query: &Query) -> Option<Node> {
    let (group, kind, namespace) = (query.group.clone(), query.kind.clone(), query.namespace.clone());
    Some(Node { group, kind, namespace, name: query.name()?.clone() })
}
