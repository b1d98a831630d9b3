//! What the process knows about the objects that resources wait for: for each query whether it is met, and which
//! resources have it. The objects themselves are judged as they arrive, and dropped.
//!
//! One watch per kind, and per namespace if the operator is restricted to some, wakes the resources, for all
//! controllers: of metadata while existence is all that matters. Waiting takes no request.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use controller::runtime::freshness::Epoch;
use controller::runtime::namespaces::Namespaces;
use controller::runtime::reflector::WatchScope;
use controller::runtime::served_kinds::ServedKinds;
use helm_release::kube::{Mapper, Resource};
use outside::sync;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::kind::{Entry, Verdicts};
pub(crate) use super::kind::{Reading, User};
use super::lists::MayHold;
use super::seen::{Judged, Judging, Portion, Seen, ServedBy};
pub(crate) use super::state::key_of;
use super::state::{Controller, State, Watched};
use super::{served, watch};
use crate::dependencies::{self, Access, Node, Origin, Query, Standing, Wanted};
use crate::view::coverage::{KindKey, Loss};
use crate::watches::Expressions;

/// How many pages of objects the process parses and judges at the same time: each may be large.
const MAX_PAGES: usize = 2;

/// The process's registry of dependencies.
pub(crate) struct Dependencies {
    namespaces: Namespaces,
    served: Arc<ServedKinds>,
    pub(super) mapper: Arc<Mapper>,
    /// `None` in tests, which feed the registry themselves.
    client: Option<kube::Client>,
    state: Mutex<State>,
    pages: Semaphore,
}

impl Dependencies {
    /// Creates an empty registry. It watches nothing until a resource waits for an object.
    pub(crate) fn new(
        client: Option<kube::Client>,
        namespaces: Namespaces,
        mapper: Arc<Mapper>,
        served: Arc<ServedKinds>,
    ) -> Arc<Dependencies> {
        let pages = Semaphore::new(MAX_PAGES);
        Arc::new(Dependencies { namespaces, served, mapper, client, state: Mutex::default(), pages })
    }

    /// Announces a controller before any runs. Until it has listed its resources, each may depend on what `may_hold`
    /// contains.
    pub(crate) fn announce(&self, controller: Arc<str>, kind: &str, may_hold: Vec<MayHold>) {
        self.state().lists.announce(controller, kind, may_hold);
    }

    /// Sets what a controller has to list before its resources are known: nothing if the server does not serve its kind.
    pub(crate) fn require_lists(&self, controller: &str, scopes: impl IntoIterator<Item = WatchScope>) {
        let mut state = self.state();
        let waiting = state.lists.require(controller, scopes);
        waiting.iter().for_each(|node| state.wake_node(node));
    }

    /// Records that a controller's resources in a scope are known.
    pub(crate) fn resources_listed(&self, controller: &str, scope: &WatchScope) {
        let mut state = self.state();
        let waiting = state.lists.listed(controller, scope);
        waiting.iter().for_each(|node| state.wake_node(node));
    }

    /// Records that the server refuses to list or watch a controller's resources in a scope.
    pub(crate) fn resources_lost(&self, controller: &str, scope: &WatchScope, loss: Loss) {
        let mut state = self.state();
        let waiting = state.lists.lost(controller, scope, loss);
        waiting.iter().for_each(|node| state.wake_node(node));
    }

    /// Returns the kinds of the resources that may have to be deleted before this one, but are not listed. The resource
    /// is woken when that changes.
    pub(crate) fn unlisted_holders(&self, node: &Node) -> BTreeSet<Arc<str>> {
        self.state().lists.unlisted_for(node)
    }

    /// Sets how to wake the resources of a controller, which serves this kind, and how its watch judges readiness.
    pub(crate) fn connect(
        &self,
        controller: Arc<str>,
        kind: &Resource,
        rules: Arc<Expressions>,
        wake: impl Fn(&str, &str) + Send + Sync + 'static,
    ) {
        let (group, kind) = (kind.group().into(), kind.kind.clone());
        self.state().controllers.insert(controller, Controller { group, kind, rules, wake: Box::new(wake) });
    }

    /// Records what a resource waits for, and watches it.
    pub(crate) fn depend(self: &Arc<Self>, user: &User, on: Vec<Wanted>) {
        let mut state = self.state();
        if state.users.get(user).map_or(on.is_empty(), |known| *known == on) {
            return;
        }
        let kinds: BTreeSet<KindKey> = on.iter().map(|one| key_of(&one.query)).collect();
        let mut members = state.in_cycle_with(&user.1);
        state.replace_user(user, on);
        for kind in kinds {
            self.watch(&mut state, &kind);
        }
        // A cycle may have formed or ended, which only its members report and act on.
        members.extend(state.in_cycle_with(&user.1));
        members.iter().filter(|node| **node != user.1).for_each(|node| state.wake_node(node));
    }

    /// Drops a deleted resource, and wakes the resources that waited for its deletion.
    pub(crate) fn forget(&self, user: &User) {
        self.state().replace_user(user, Vec::new());
    }

    /// Returns the resources of a controller that depend on something.
    pub(crate) fn users_of(&self, controller: &Arc<str>) -> Vec<User> {
        self.state().users.keys().filter(|(name, _)| name == controller).cloned().collect()
    }

    /// Returns what a resource waits for, with its known state.
    pub(crate) fn standings(&self, user: &User) -> Vec<(Wanted, Standing)> {
        let state = self.state();
        let all = state.users.get(user).into_iter().flatten();
        all.map(|one| (one.clone(), state.standing(&one.query))).collect()
    }

    /// Returns whether the resource's account may read the objects of a query, if that was checked since the standing
    /// last changed.
    pub(crate) fn recorded_access(&self, user: &User, query: &Query, standing: &Standing) -> Option<Access> {
        let state = self.state();
        let (known, access) = state.entry(query)?.users.get(user)?.as_ref()?;
        (known == standing).then_some(*access)
    }

    /// Records whether the resource's account may read the objects of a query.
    pub(crate) fn record_access(&self, user: &User, query: &Query, standing: Standing, access: Access) {
        let mut state = self.state();
        let entry = state.kinds.get_mut(&key_of(query)).and_then(|kind| kind.entries.get_mut(&query.id));
        if let Some(recorded) = entry.and_then(|entry| entry.users.get_mut(user)) {
            *recorded = Some((standing, access));
        }
    }

    /// Returns why changes of a query's objects would go unnoticed.
    pub(crate) fn refusal(&self, query: &Query) -> Option<String> {
        let state = self.state();
        let watches = state.watches.get(&key_of(query))?;
        watches.iter().find(|watched| watched.scope.covers(&query.namespace))?.refusal.clone()
    }

    /// Records at which path a kind is served, and watches it.
    pub(crate) fn serve(self: &Arc<Self>, kind: &KindKey, resource: Arc<Resource>) {
        let mut state = self.state();
        if let Some(known) = state.kinds.get_mut(kind) {
            known.resource = Some(resource);
            let users = known.serve();
            self.watch(&mut state, kind);
            state.wake_all(&users);
        }
    }

    /// Records that a kind is not served, and periodically checks again.
    pub(crate) fn unserved(self: &Arc<Self>, kind: &KindKey) {
        let mut state = self.state();
        if let Some(known) = state.kinds.get_mut(kind) {
            known.is_unserved = true;
            if self.client.is_some() && state.search.as_ref().is_none_or(|search| search.is_finished()) {
                state.search = Some(served::search(Arc::downgrade(self)));
            }
        }
    }

    /// Takes kinds up that discovery has found; returns whether others are still missing.
    pub(super) fn look_again(self: &Arc<Self>) -> bool {
        let mut state = self.state();
        let missing: Vec<KindKey> =
            state.kinds.iter().filter(|(_, kind)| kind.is_unserved).map(|(key, _)| key.clone()).collect();
        let mut is_all = true;
        for kind in missing {
            let Some(resource) = self.known(&kind) else {
                is_all = false;
                continue;
            };
            if let Some(known) = state.kinds.get_mut(&kind) {
                known.resource = Some(resource);
                let users = known.serve();
                self.watch(&mut state, &kind);
                state.wake_all(&users);
            }
        }
        !is_all
    }

    /// Begins a read of all objects that a query means; returns `None` if no resource waits for them any longer.
    pub(crate) fn begin_read(&self, query: &Query) -> Option<Reading> {
        let mut state = self.state();
        let kind = state.kinds.get_mut(&key_of(query))?;
        kind.entries.get_mut(&query.id).map(Entry::begin_read)
    }

    /// Waits until a page of objects that has arrived may be parsed. The permit must be kept until they are judged.
    pub(crate) async fn page_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.pages.acquire().await.ok()
    }

    /// Judges the objects that a query means among those of a read.
    pub(crate) fn judge(&self, query: &Query, objects: &[Seen]) -> Vec<Judged> {
        let rules = self.state().rules_of(query);
        let by = self.served_by(&key_of(query));
        // The lock is free while objects are judged: they may be large and many.
        let judge = |seen: &Seen| Judged {
            name: seen.object_name(),
            version: seen.version(),
            missing: Judging::of(seen, by).lacks(query, rules.as_deref()),
        };
        objects.iter().filter(|seen| seen.is_meant_by(query)).map(judge).collect()
    }

    /// Stores the result of a read: all objects that the query means, or more than it may mean. Newer results of watches
    /// take precedence.
    pub(crate) fn store(&self, query: &Query, objects: Vec<Judged>, reading: &Reading) {
        let mut state = self.state();
        let entry = state.kinds.get_mut(&key_of(query)).and_then(|kind| kind.entries.get_mut(&query.id));
        let users = entry.map(|entry| entry.store(objects, reading)).unwrap_or_default();
        state.wake_all(&users.into_iter().collect());
    }

    /// Handles an object that was seen in a list or an event.
    pub(crate) fn changed(&self, kind: &KindKey, seen: &Seen, epoch: Epoch) {
        let verdicts = self.verdicts(kind, seen);
        let mut state = self.state();
        let users = state.kinds.get_mut(kind).map(|kind| kind.changed(seen, epoch, &verdicts)).unwrap_or_default();
        state.wake_all(&users);
    }

    /// Judges an object by all queries that mean it. The lock is free in the meantime: the object may be large, and the
    /// queries many.
    fn verdicts(&self, kind: &KindKey, seen: &Seen) -> Verdicts {
        let queries: Vec<_> = {
            let state = self.state();
            let queries = state.kinds.get(kind).map(|kind| kind.judging(seen)).unwrap_or_default();
            queries.into_iter().map(|query| (state.rules_of(&query), query)).collect()
        };
        let mut judging = Judging::of(seen, self.served_by(kind));
        let verdict = |(rules, query): (Option<Arc<Expressions>>, Arc<Query>)| {
            (query.id.clone(), judging.lacks(&query, rules.as_deref()))
        };
        queries.into_iter().map(verdict).collect()
    }

    /// Handles an object's deletion.
    pub(crate) fn deleted(&self, kind: &KindKey, seen: &Seen) {
        let mut state = self.state();
        let users = state.kinds.get_mut(kind).map(|kind| kind.deleted(seen)).unwrap_or_default();
        state.wake_all(&users);
    }

    /// Handles the end of a list.
    pub(crate) fn sweep(&self, kind: &KindKey, scope: &WatchScope, list: Epoch, portion: Portion) {
        let mut state = self.state();
        for watched in state.watches.get_mut(kind).into_iter().flatten().filter(|watched| watched.scope == *scope) {
            watched.refusal = None;
        }
        let users = state.kinds.get_mut(kind).map(|kind| kind.sweep(scope, list, portion)).unwrap_or_default();
        state.wake_all(&users);
    }

    pub(crate) fn refused(self: &Arc<Self>, kind: &KindKey, scope: &WatchScope, why: &str) {
        if self.mapper.is_unserved(&kind.0, &kind.1) {
            self.unserved(kind);
        }
        let mut state = self.state();
        let watched = state.watches.get_mut(kind).into_iter().flatten().find(|watched| watched.scope == *scope);
        if watched.is_none_or(|watched| watched.refusal.replace(why.to_owned()).is_some()) {
            return;
        }
        let users = state.kinds.get_mut(kind).map(|kind| kind.lost(scope)).unwrap_or_default();
        state.wake_all(&users);
    }

    /// Returns the resources that wait for each other, starting with this one; `None` if it is in no cycle.
    pub(crate) fn cycle(&self, node: &Node) -> Option<Vec<Node>> {
        let state = self.state();
        dependencies::cycle(node, |node| state.waits_for(node))
    }

    /// Returns the resources that must be deleted before this one.
    pub(crate) fn holders(&self, node: &Node) -> Vec<Node> {
        let state = self.state();
        let Some(kind) = state.kinds.get(&(node.group.clone(), node.kind.clone())) else { return Vec::new() };
        let holds = |(entry, user): &(&Entry, &User)| {
            let mut wanted = state.users.get(user).into_iter().flatten();
            user.1 != *node && wanted.any(|one| one.query == entry.query && may_hold(one, &user.1, node))
        };
        let holders: BTreeSet<Node> = kind.users_of(node).filter(holds).map(|(_, user)| user.1.clone()).collect();
        holders.into_iter().collect()
    }

    /// Returns how many objects are kept for a query.
    #[cfg(test)]
    pub(super) fn kept(&self, query: &Query) -> usize {
        self.state().entry(query).map_or(0, |entry| entry.objects().count())
    }

    /// Returns what the watches of a kind cover.
    #[cfg(test)]
    pub(super) fn watched(&self, kind: &KindKey) -> Vec<WatchScope> {
        self.state().watches.get(kind).into_iter().flatten().map(|watched| watched.scope.clone()).collect()
    }

    fn served_by(&self, kind: &KindKey) -> ServedBy {
        if self.served.has(&kind.0, &kind.1) { ServedBy::Us } else { ServedBy::Others }
    }

    fn known(&self, kind: &KindKey) -> Option<Arc<Resource>> {
        self.mapper.known(&api_version(&kind.0), &kind.1)
    }

    /// Starts the watches that a kind's queries need, if it is known to be served.
    fn watch(self: &Arc<Self>, state: &mut State, key: &KindKey) {
        let State { kinds, watches, .. } = state;
        let Some(kind) = kinds.get_mut(key) else { return };
        let Some(resource) = kind.resource.clone().or_else(|| self.known(key)) else { return };
        kind.resource = Some(resource.clone());
        for entry in kind.entries.values() {
            let query = &entry.query;
            let scope = match self.namespaces.is_all() || !resource.namespaced {
                true => WatchScope::ALL,
                false => WatchScope::namespace(&query.namespace),
            };
            let running = watches.entry(key.clone()).or_default();
            let known = running.iter().position(|watched| watched.scope == scope);
            if resource.namespaced && query.namespace.is_empty() {
                continue;
            }
            let at = known.unwrap_or_else(|| {
                let shows_whole = CancellationToken::new();
                let start = |client| watch::start(Arc::downgrade(self), client, &resource, &scope, &shows_whole);
                let watcher = self.client.as_ref().map(start);
                running.push(Watched { scope, shows_whole, refusal: None, _watcher: watcher });
                running.len() - 1
            });
            if Portion::needed_for(query) == Portion::Whole {
                running[at].shows_whole.cancel();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }
}

/// Returns whether a resource's entry may hold back the deletion of another one. With its annotation, a resource holds
/// back only resources in its own namespace: when the annotation is checked, it may be unknown that a kind is
/// cluster-scoped.
fn may_hold(entry: &Wanted, holder: &Node, held: &Node) -> bool {
    entry.reverse_deletion && (entry.origin == Origin::Watch || holder.namespace == held.namespace)
}

/// Returns some API version of a group: only the group counts.
pub(crate) fn api_version(group: &str) -> String {
    if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") }
}
