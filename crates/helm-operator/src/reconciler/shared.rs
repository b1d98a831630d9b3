//! What every reconcile of one controller shares, and how news about resources, records and objects reach it.

use std::sync::Arc;
use std::time::Duration;

use helm_release::kube::{Api, Applier, Decoration, Live, ObjectKey, Ownership, Policy, Resource};
use helm_release::storage::{RecordMeta, Storage};
use kube::core::GroupVersionKind;
use tokio::sync::mpsc;

use super::cache::{Cache, Dependent, Whose};
use super::history::History;
use super::primary::{Primary, ResourceKey};
use super::queue::Queue;
use super::render::Renderer;
use super::stamp::Epoch;
use super::{Hooks, watch};
use crate::events::Events;
use crate::metrics::Metrics;
use crate::report::Outcome;

/// What every reconcile of a controller shares.
pub(crate) struct Shared {
    pub(super) api: Arc<dyn Api>,
    pub(super) applier: Applier,
    pub(super) storage: Storage,
    pub(super) cache: Cache,
    pub(super) queue: Queue<ResourceKey>,
    pub(super) renderer: Arc<dyn Renderer>,
    pub(super) hooks: Hooks,
    pub(super) events: Events,
    pub(super) metrics: Metrics,
    pub(super) settings: Settings,
    /// The custom resource's own resource.
    pub(super) resource: Arc<Resource>,
    /// Kinds whose objects are to be watched.
    pub(super) new_kinds: mpsc::UnboundedSender<Arc<Resource>>,
}

/// What the watch and the flags say.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(super) controller: Arc<str>,
    pub(super) period: Duration,
    pub(super) hook_timeout: Duration,
    pub(super) watch_dependents: bool,
    pub(super) max_history: usize,
    pub(super) suppress_overrides: bool,
    pub(super) apply: Policy,
}

impl Shared {
    pub(super) fn wake(&self, key: ResourceKey) {
        self.queue.push(key);
    }

    pub(super) fn see_primary(&self, primary: Primary, epoch: Epoch) {
        let key = primary.key();
        self.metrics.resource_created(&self.gvk(), &key.namespace, &key.name, primary.created);
        if self.cache.see_primary(primary, epoch) {
            self.wake(key);
        }
    }

    /// Remembers what the status of each resource says of the time before this process.
    pub(super) fn recall(&self) {
        let (now, today) = (tokio::time::Instant::now(), jiff::Timestamp::now());
        for primary in self.cache.primaries() {
            if let Some(history) = History::recall(&primary, now, today) {
                self.cache.change_history(&primary.key(), |known| *known = history);
            }
        }
    }

    pub(super) fn gvk(&self) -> GroupVersionKind {
        let (_, version) = self.resource.api_version.rsplit_once('/').unwrap_or(("", &self.resource.api_version));
        GroupVersionKind::gvk(self.resource.group(), version, &self.resource.kind)
    }

    /// Forgets a resource that is gone, unless one of another uid has taken its place.
    pub(super) fn lose_primary(&self, key: &ResourceKey, uid: &str) {
        if self.cache.remove_primary(key, uid) {
            self.metrics.resource_deleted(&self.gvk(), &key.namespace, &key.name);
            self.cache.forget(key);
            self.queue.cancel(key);
        }
    }

    pub(super) fn see_record(&self, meta: RecordMeta, epoch: Epoch) {
        let key = ResourceKey::new(&meta.namespace, &meta.name);
        let foreign = meta.marks.is_none();
        if self.cache.see_record(meta, epoch) {
            self.wake_for_record(key, foreign);
        }
    }

    pub(super) fn lose_record(&self, meta: &RecordMeta) {
        if self.cache.remove_record(meta) {
            self.wake_for_record(ResourceKey::new(&meta.namespace, &meta.name), meta.marks.is_none());
        }
    }

    /// A record of someone else's is a change of the resource's inputs; our own records are the outcome of what may have failed.
    pub(super) fn wake_for_record(&self, key: ResourceKey, foreign: bool) {
        if foreign {
            self.cache.change_history(&key, |history| history.lift(tokio::time::Instant::now()));
        }
        self.wake(key);
    }

    pub(super) fn see_dependent(&self, resource: &Resource, live: &Live, epoch: Epoch) {
        let key = watch::key_of(resource, live);
        let owner = match self.whose(&key, live) {
            // Another controller's, of a chart with the same name: whatever of ours had this key is gone.
            Whose { owner: None, .. } => self.cache.displace_dependent(&key),
            whose => self.cache.see_dependent(key.clone(), live, whose, epoch),
        };
        owner.into_iter().filter(|owner| self.cache.concerns(owner, &key)).for_each(|owner| self.wake(owner));
    }

    pub(super) fn lose_dependent(&self, resource: &Resource, live: &Live) {
        let key = watch::key_of(resource, live);
        let owner = self.cache.remove_dependent(&key, live);
        owner.into_iter().filter(|owner| self.cache.concerns(owner, &key)).for_each(|owner| self.wake(owner));
    }

    /// Whose a live object is. One that lost what named its owner still wakes the owner that it had, but proves nothing.
    pub(super) fn whose(&self, key: &ObjectKey, live: &Live) -> Whose {
        let same_object = |known: &Dependent| live.metadata.uid.as_deref() == Some(&*known.uid);
        let known = || self.cache.dependent(key).filter(same_object)?.owner;
        let owner = self.owner_of(live).or_else(known);
        let primary = owner.as_ref().and_then(|owner| self.cache.primary(owner));
        let ours = primary.is_some_and(|primary| self.decoration(&primary).ownership(live) == Ownership::Ours);
        Whose { owner, ours }
    }

    /// Counts and publishes an outcome of a resource, in the background.
    pub(super) fn publish(&self, primary: &Primary, outcome: Outcome) {
        self.metrics.outcome(&self.settings.controller, outcome.reason);
        self.events.publish(primary.reference(), outcome);
    }

    /// What a resource's release adds to its objects.
    pub(super) fn decoration(&self, primary: &Primary) -> Decoration {
        Decoration {
            release: primary.name().to_owned(),
            namespace: primary.namespace().to_owned(),
            chart: self.renderer.chart_name().to_owned(),
            owner: Some(primary.owner()),
        }
    }

    /// The custom resource of ours that an object belongs to, by owner reference or by annotation.
    pub(super) fn owner_of(&self, live: &Live) -> Option<ResourceKey> {
        if let Some(owner) = &live.controller {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let ours = owner.kind == *self.resource.kind && group == self.resource.group();
            let namespace =
                if self.resource.namespaced { live.metadata.namespace.as_deref().unwrap_or_default() } else { "" };
            return ours.then(|| ResourceKey::new(namespace, &owner.name));
        }
        let wanted = format!("{}.{}", self.resource.kind, self.resource.group());
        let ours = live.primary_type.as_deref() == Some(wanted.trim_end_matches('.'));
        let primary = live.primary.as_deref().filter(|_| ours)?;
        let (namespace, name) = primary.split_once('/').unwrap_or(("", primary));
        Some(ResourceKey::new(namespace, name))
    }

    /// Asks for a watch of each kind; kinds that are watched already are left out.
    pub(super) fn watch_kinds(&self, kinds: impl IntoIterator<Item = Arc<Resource>>) {
        if self.settings.watch_dependents {
            for kind in kinds {
                if self.cache.start_kind(&kind) {
                    // The receiver is gone only when the process ends.
                    _ = self.new_kinds.send(kind);
                }
            }
        }
    }
}
