//! Handles what the watches of a chart controller report: keeps its view current, and wakes the resources that a change
//! concerns.

use std::sync::Arc;

use controller::reconciler::Stores;
use controller::runtime::freshness::Epoch;
use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::{EventHandler, WatchScope};
use controller::shards::Standing;
use helm_release::kube::{Live, ObjectKey, Resource};
use tokio::time::Instant;

use crate::hooks::extensions::Wakes;
use crate::reconcile::controller_context::{ControllerContext, Departure};
use crate::reconcile::decide::arrivals::Start;
use crate::reconcile::{ownership, restore};
use crate::status::Fault;
use crate::status::reason::Reason;
use crate::view::coverage::{Loss, kind_key};
use crate::view::dependent::{Claim, key_of};
use crate::view::primary::{Primary, Received};
use crate::view::release::ReleaseRecords;
use crate::view::releases::{ReleaseListener, Writer};

/// A handler that stores custom resources.
pub(crate) struct Primaries(pub(crate) Arc<ControllerContext>);

impl EventHandler<Received> for Primaries {
    fn changed(&self, received: Received, epoch: Epoch) {
        let shared = &self.0;
        if shared.cache.has_left(&received.primary, epoch) {
            return;
        }
        let left = Departure::of(shared, &received);
        let Some(primary) = shared.admit(received) else { return leave(shared, &left) };
        let Departure { key, .. } = left;
        shared.primary_replaced(&key, primary.uid());
        restore::resume(shared);
        let is_drained = primary.is_drained;
        shared.register_dependencies(&primary);
        shared.watch_charts(&primary);
        shared.metrics.resource_created(&shared.gvk(), primary.own_namespace(), &key.name, primary.created);
        if store(shared, &key, primary, epoch) {
            shared.wake(key.clone());
        }
        if let Some(shard) = shared.shard.as_ref().filter(|_| is_drained) {
            shard.follow(&key, Standing::Drained);
        }
    }

    fn deleted(&self, received: Received) {
        // It may exist, without the labels that the watch selects.
        leave(&self.0, &Departure::of(&self.0, &received));
    }

    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        for gone in self.0.cache.unlisted_primaries(scope, list) {
            self.0.primary_unlisted(&gone.key(), gone.uid());
        }
        forget_unknown(&self.0, scope);
        // Another controller may take the place of one that is stopping, and lists again.
        if !self.0.stopping.is_cancelled() {
            self.0.dependencies.resources_listed(&self.0.settings.controller, scope);
        }
        restore::listed(&self.0, scope);
    }

    fn lost(&self, scope: &WatchScope) {
        let (shared, controller) = (&self.0, &self.0.settings.controller);
        if shared.stopping.is_cancelled() {
            return;
        }
        let loss = loss_of(shared, &shared.resource);
        shared.dependencies.resources_lost(controller, scope, loss);
        restore::lost(shared, scope, loss);
    }

    fn description(&self) -> String {
        format!("{} resources", self.0.resource.kind)
    }
}

/// Returns why a kind is refused, as of the last discovery.
fn loss_of(shared: &ControllerContext, kind: &Resource) -> Loss {
    if shared.applier.mapper.is_unserved(kind.group(), &kind.kind) { Loss::Unserved } else { Loss::Refused }
}

/// Forgets a resource that left.
fn leave(shared: &ControllerContext, left: &Departure) {
    shared.primary_left(left);
    restore::resume(shared);
}

/// Stores a resource; returns whether it may need reconciling. A resource that another process may have served counts
/// as late if the start did not find it.
fn store(shared: &ControllerContext, key: &ResourceKey, primary: Primary, epoch: Epoch) -> bool {
    shared.arrivals.store(|start| {
        if comes_late(shared, epoch, start) && primary.was_served() && shared.cache.primary(key).is_none() {
            restore::came(shared, key);
        }
        shared.cache.store_primary(primary, epoch)
    })
}

/// Returns whether a resource that is new in this epoch was missing when the controller's start began. The first list
/// may have been refused then; only a shard's resources also come by events.
fn comes_late(shared: &ControllerContext, epoch: Epoch, start: Start) -> bool {
    if epoch.is_list { start == Start::Begun } else { shared.shard.is_some() }
}

/// Makes the process's registries forget the resources of a scope that do not exist, after a list. An earlier controller
/// of the kind may have registered them, and this one's cache never knew them.
fn forget_unknown(shared: &ControllerContext, scope: &WatchScope) {
    let controller = &shared.settings.controller;
    let is_gone = |key: &ResourceKey| shared.cache.primary(key).is_none();
    for key in shared.sources.users_of(controller) {
        if scope.covers(&key.namespace) && is_gone(&key) {
            shared.sources.forget(controller, &key);
        }
    }
    for user in shared.dependencies.users_of(controller) {
        let (_, node) = &user;
        if scope.covers(&node.namespace) && is_gone(&shared.acceptance.key(&node.namespace, &node.name)) {
            shared.dependencies.forget(&user);
        }
    }
}

/// A handler that stores objects of one kind, from lists of this many charts' objects.
pub(crate) struct Dependents(pub(crate) Arc<ControllerContext>, pub(crate) Arc<Resource>, pub(crate) usize);

impl Dependents {
    /// Wakes the owner of an object, if the object matters to its release and this shard serves it.
    fn wake(&self, owner: Option<ResourceKey>, object: &ObjectKey) {
        let is_served = |owner: &ResourceKey| self.0.shard.is_none() || self.0.cache.primary(owner).is_some();
        let concerned = owner.filter(|owner| self.0.cache.concerns(owner, object) && is_served(owner));
        concerned.into_iter().for_each(|owner| self.0.wake(owner));
    }
}

impl EventHandler<Arc<Live>> for Dependents {
    fn changed(&self, live: Arc<Live>, epoch: Epoch) {
        let key = key_of(&self.1, &live);
        let owner = match ownership::claim(&self.0, &key, &live) {
            // It belongs to another controller with a chart of the same name, so our object with this key is gone.
            Claim { owner: None, .. } => self.0.cache.replace_dependent(&key, &live, Some(epoch)),
            claim => self.0.cache.store_dependent(key.clone(), &live, claim, epoch),
        };
        self.wake(owner, &key);
    }

    fn deleted(&self, live: Arc<Live>) {
        let key = key_of(&self.1, &live);
        let owner = self.0.cache.remove_dependent(&key, &live);
        self.wake(owner, &key);
    }

    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        let gone = self.0.cache.sweep_dependents(&self.1, scope, list);
        // Objects that were deleted while the kind could not be watched are noticed only now.
        let is_back = self.0.cache.kind_synced(&self.1, scope, self.2);
        let missed = if is_back { self.0.cache.resources_with(&self.1) } else { Vec::new() };
        gone.into_iter().chain(missed).for_each(|key| self.0.wake(key));
    }

    fn lost(&self, scope: &WatchScope) {
        let loss = loss_of(&self.0, &self.1);
        if self.0.cache.kind_lost(&kind_key(&self.1), scope, loss) {
            self.0.cache.resources_with(&self.1).into_iter().for_each(|key| self.0.wake(key));
        }
    }

    fn description(&self) -> String {
        self.1.full_name()
    }
}

impl ReleaseListener for ControllerContext {
    /// Wakes the record's resource. A foreign record is a change of the resource's inputs, so it ends the wait after a
    /// failure. Our own record may be the result of the attempt that failed.
    fn release_changed(&self, record: &ResourceKey, writer: Writer) {
        let Some(key) = self.cache.resource_of(record) else { return };
        if writer == Writer::Foreign {
            self.memory.change(&key, |memory| memory.retry_now(Instant::now()));
        }
        self.wake(key);
    }

    fn sight_changed(&self, scope: &WatchScope) {
        restore::see_records(self);
        for key in self.cache.recorded_in(scope) {
            self.memory.change(&key, |memory| memory.retry_now(Instant::now()));
            self.wake(key);
        }
    }

    fn release_lost(&self, record: &ResourceKey, release: &Arc<ReleaseRecords>) {
        let Some(key) = self.cache.resource_of(record) else { return };
        let Some(primary) = self.cache.primary(&key) else { return };
        // An inventory is kept as long as its resource exists.
        let is_known = || self.cache.primary(&key).is_some();
        self.memory.change_if(is_known, &key, |memory| memory.release.lose(release, &primary.owner()));
    }
}

/// Makes changes of value sources wake their resources.
pub(crate) fn connect_sources(context: &Arc<ControllerContext>) {
    let shared = Arc::downgrade(context);
    context.sources.connect(context.settings.controller.clone(), move |key| {
        if let Some(shared) = shared.upgrade() {
            // A source is an input of the resource, so the previous process's failure does not apply to the new
            // content.
            shared.memory.change(key, |memory| memory.restored = None);
            shared.wake(key.clone());
        }
    });
}

/// Makes changes of what resources depend on wake them.
pub(crate) fn connect_dependencies(context: &Arc<ControllerContext>) {
    let (shared, settings) = (Arc::downgrade(context), &context.settings);
    let wake = move |namespace: &str, name: &str| {
        let Some(shared) = shared.upgrade() else { return };
        let key = shared.acceptance.key(namespace, name);
        let is_refusal = |fault: &Fault| fault.reason == Reason::DependencyForbidden;
        if shared.memory.of(&key).fault().as_ref().is_some_and(is_refusal) {
            shared.memory.change(&key, |memory| memory.retry_now(Instant::now()));
        }
        shared.wake(key);
    };
    let (controller, rules) = (settings.controller.clone(), settings.expressions.clone());
    context.dependencies.connect(controller, &context.resource, rules, wake);
}

/// Makes the objects that the author watches wake their resources.
pub(crate) fn follow(context: &Arc<ControllerContext>, stores: &Stores) {
    for follow in &context.extensions.follows {
        let shared = Arc::downgrade(context);
        let wake = move |wakes| shared.upgrade().into_iter().for_each(|shared| wake_now(&shared, &wakes));
        follow(stores, Box::new(wake));
    }
}

/// Wakes resources, and ends their waits after failures.
fn wake_now(context: &ControllerContext, wakes: &Wakes) {
    let keys = match wakes {
        Wakes::Nobody => Vec::new(),
        Wakes::Resource(key) => vec![key.clone()],
        Wakes::Namespace(namespace) => {
            let primaries = context.cache.primaries().into_iter();
            primaries.filter(|primary| primary.own_namespace() == namespace).map(|primary| primary.key()).collect()
        }
    };
    for key in keys {
        context.memory.change(&key, |memory| memory.retry_now(Instant::now()));
        context.wake(key);
    }
}
