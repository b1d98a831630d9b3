//! What all reconciles of one controller share, and what a change of a resource, a record or an object does to it.

use std::sync::Arc;
use std::time::Duration;

use helm_release::kube::{
    Adopt, Api, Applier, CrdPolicy, Decoration, Live, ObjectKey, ObjectRule, Ownership, Policy, Reach, Resource, Tie,
};
use helm_release::outside;
use helm_release::storage::{Home, Storage};
use kube::core::GroupVersionKind;
use tokio::sync::mpsc;

use super::cache::{Cache, Claim, Dependent};
use super::controller::{Additions, Wakes};
use super::feed::Scope;
use super::history::History;
use super::intake::Intake;
use super::look::Looks;
use super::primary::{Primary, Received, ResourceKey};
use super::queue::Queue;
use super::release::Release;
use super::releases::Reader;
use super::render::Renderer;
use super::rollout::{self, Rollout};
use super::sources::Sources;
use super::stamp::Epoch;
use super::status_fields::Undeclared;
use super::{observe, watch};
use crate::events::Events;
use crate::metrics::{Census, Count, Metrics};
use crate::native::Stores;
use crate::report::{self, Outcome};
use crate::status::{Condition, condition};
use crate::values_from::ValuesSource;
use crate::watches::{AnnotationSources, Drift, Expressions, OnFailure, ServiceAccount};

/// What all reconciles of one controller share.
pub(crate) struct Shared {
    pub(super) api: Arc<dyn Api>,
    pub(super) applier: Applier,
    pub(super) storage: Storage,
    pub(super) cache: Cache,
    pub(super) queue: Queue<ResourceKey>,
    pub(super) renderer: Arc<dyn Renderer>,
    /// The process's Secrets and ConfigMaps that hold values.
    pub(super) sources: Arc<Sources>,
    /// What the operator's author adds.
    pub(super) additions: Additions,
    /// For the author's code only: everything else goes through `api`.
    pub(super) client: kube::Client,
    pub(super) events: Events,
    pub(super) metrics: Metrics,
    pub(super) settings: Settings,
    pub(super) rollout: Rollout,
    /// When the controller started.
    pub(super) started: tokio::time::Instant,
    pub(super) intake: Intake,
    /// The custom resource's kind.
    pub(super) resource: Arc<Resource>,
    /// Receives the kinds to watch.
    pub(super) new_kinds: mpsc::UnboundedSender<Arc<Resource>>,
    /// The process's looks at what is not ready.
    pub(super) looks: Arc<Looks>,
    /// The status fields that the kind's schema lacks.
    pub(super) undeclared: Undeclared,
}

/// The settings of one controller, from its watch and the flags.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(super) controller: Arc<str>,
    pub(super) period: Duration,
    pub(super) hook_timeout: Duration,
    pub(super) watch_dependents: bool,
    pub(super) max_history: usize,
    pub(super) suppress_overrides: bool,
    /// As whom objects are read and written.
    pub(super) account: Option<ServiceAccount>,
    pub(super) apply: Policy,
    /// How long a release may stay unready without progress; zero: no limit.
    pub(super) progress_timeout: Duration,
    /// How many upgrades that something outside their resources causes run at a time; 0: no limit.
    pub(super) max_parallel_upgrades: usize,
    /// How often everything is applied again without a reason; zero: never.
    pub(super) full_resync: Duration,
    pub(super) values_from: Arc<[ValuesSource]>,
    pub(super) values_from_annotation: AnnotationSources,
    pub(super) drift: Drift,
    pub(super) adopt: Adopt,
    /// What releases may contain.
    pub(super) reach: Arc<Reach>,
    pub(super) on_failure: OnFailure,
    /// How often to try the same inputs again; `None` sets no limit.
    pub(super) retries: Option<u32>,
    pub(super) crds: CrdPolicy,
    pub(super) recreate: Arc<[ObjectRule]>,
    pub(super) expressions: Arc<Expressions>,
    /// Where the records are.
    pub(super) home: Home,
}

impl Shared {
    pub(super) fn wake(&self, key: ResourceKey) {
        self.queue.push(key);
    }

    pub(super) fn primary_changed(&self, received: Received, epoch: Epoch) {
        let (key, uid) = (self.intake.key_of(&received.primary), received.primary.uid().to_owned());
        let Some(primary) = self.admit(received) else { return self.primary_left(&key, &uid) };
        self.metrics.resource_created(&self.gvk(), primary.own_namespace(), &key.name, primary.created);
        if self.cache.store_primary(primary, epoch) {
            self.wake(key);
        }
    }

    /// Stores the answer to our own write.
    pub(super) fn primary_written(&self, received: Received) {
        let (key, uid) = (self.intake.key_of(&received.primary), received.primary.uid().to_owned());
        match self.admit(received) {
            Some(primary) => _ = self.cache.store_written_primary(primary),
            None => self.primary_left(&key, &uid),
        }
    }

    fn admit(&self, received: Received) -> Option<Primary> {
        self.intake.admit(received, self.settings.expressions.fields())
    }

    /// Makes changes of sources wake their resources.
    pub(super) fn connect_sources(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        self.sources.connect(self.settings.controller.clone(), move |key| {
            if let Some(shared) = shared.upgrade() {
                // A source is an input of the resource: the previous process's failure says nothing about the new content.
                shared.cache.change_history(key, |history| history.recalled = None);
                shared.wake(key.clone());
            }
        });
    }

    /// Makes the objects that the author watches wake their resources.
    pub(super) fn follow(self: &Arc<Self>, stores: &Stores) {
        for follow in &self.additions.follows {
            let shared = Arc::downgrade(self);
            let wake = move |wakes| shared.upgrade().into_iter().for_each(|shared| shared.wake_now(&wakes));
            follow(stores, Box::new(wake));
        }
    }

    /// Wakes resources, and ends their waits after failures.
    fn wake_now(&self, wakes: &Wakes) {
        let keys = match wakes {
            Wakes::Nobody => Vec::new(),
            Wakes::Resource(key) => vec![key.clone()],
            Wakes::Namespace(namespace) => {
                let primaries = self.cache.primaries().into_iter();
                primaries.filter(|primary| primary.own_namespace() == namespace).map(|primary| primary.key()).collect()
            }
        };
        for key in keys {
            self.cache.change_history(&key, |history| history.retry_now(tokio::time::Instant::now()));
            self.wake(key);
        }
    }

    /// Restores each resource's history from its status.
    pub(super) fn recall(&self) {
        let (now, today) = (tokio::time::Instant::now(), outside::now());
        for primary in self.cache.primaries() {
            if let Some(history) = History::recall(&primary, now, today) {
                self.cache.change_history(&primary.key(), |known| *known = history);
            }
            self.recall_place(&primary);
        }
    }

    /// An upgrade of the previous process keeps its place until the release is ready, unless the resource itself changed.
    fn recall_place(&self, primary: &Primary) {
        let release = self.cache.release(&primary.key()).unwrap_or_default();
        if let Some(before) = rollout::unfinished(&release, &observe::own_digest(primary), &primary.status) {
            self.rollout.recall(&primary.key(), before);
        }
    }

    /// Gives a resource's place among the upgrades to the next one.
    pub(super) fn leave_rollout(&self, key: &ResourceKey) {
        self.rollout.leave(key).into_iter().for_each(|next| self.wake(next));
    }

    pub(super) fn gvk(&self) -> GroupVersionKind {
        let (_, version) = self.resource.api_version.rsplit_once('/').unwrap_or(("", &self.resource.api_version));
        GroupVersionKind::gvk(self.resource.group(), version, &self.resource.kind)
    }

    /// Forgets a deleted resource, unless one with another uid has taken its name.
    pub(super) fn primary_deleted(&self, key: &ResourceKey, uid: &str) {
        let known = self.cache.remove_primary(key, uid);
        self.forget(key, known);
    }

    /// Forgets a resource that another controller serves, or none. It may come back.
    fn primary_left(&self, key: &ResourceKey, uid: &str) {
        let known = self.cache.leave_primary(key, uid);
        self.forget(key, known);
    }

    fn forget(&self, key: &ResourceKey, known: bool) {
        if known {
            let namespace = if self.resource.namespaced { &*key.namespace } else { "" };
            self.metrics.resource_deleted(&self.gvk(), namespace, &key.name);
            self.cache.forget(key);
            self.sources.forget(&self.settings.controller, key);
            self.leave_rollout(key);
            self.queue.forget(key);
        }
    }

    pub(super) fn dependent_changed(&self, resource: &Resource, live: &Live, epoch: Epoch) {
        let key = watch::key_of(resource, live);
        let owner = match self.claim(&key, live) {
            // It belongs to another controller with a chart of the same name: ours with this key is gone.
            Claim { owner: None, .. } => self.cache.drop_dependent(&key),
            claim => self.cache.store_dependent(key.clone(), live, claim, epoch),
        };
        owner.into_iter().filter(|owner| self.cache.concerns(owner, &key)).for_each(|owner| self.wake(owner));
    }

    pub(super) fn dependent_deleted(&self, resource: &Resource, live: &Live) {
        let key = watch::key_of(resource, live);
        let owner = self.cache.remove_dependent(&key, live);
        owner.into_iter().filter(|owner| self.cache.concerns(owner, &key)).for_each(|owner| self.wake(owner));
    }

    /// Which resource a live object belongs to. One that lost the metadata naming its owner still wakes its previous owner, but proves nothing.
    pub(super) fn claim(&self, key: &ObjectKey, live: &Live) -> Claim {
        let same_object = |known: &Dependent| live.metadata.uid.as_deref() == Some(&*known.uid);
        let known = || self.cache.dependent(key).filter(|known| same_object(known))?.owner.clone();
        let owner = self.owner_of(live).or_else(known);
        let primary = owner.as_ref().and_then(|owner| self.cache.primary(owner));
        let ours = primary.is_some_and(|primary| self.decoration(&primary).ownership(live) == Ownership::Ours);
        Claim { owner, ours }
    }

    /// Counts and publishes an outcome of a resource, in the background.
    pub(super) fn publish(&self, primary: &Primary, outcome: Outcome) {
        report::publish(&self.metrics, &self.events, &self.settings.controller, primary.reference(), outcome);
    }

    /// What a resource's release adds to its objects.
    pub(super) fn decoration(&self, primary: &Primary) -> Decoration {
        Decoration {
            release: primary.name().to_owned(),
            namespace: primary.namespace().to_owned(),
            chart: self.renderer.chart_name().to_owned(),
            owner: Some(primary.owner()),
            tie: Tie::default(),
        }
    }

    /// The custom resource of this kind that an object belongs to, by owner reference or by annotation.
    pub(super) fn owner_of(&self, live: &Live) -> Option<ResourceKey> {
        if let Some(owner) = &live.controller {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let ours = owner.kind == *self.resource.kind && group == self.resource.group();
            let namespace =
                if self.resource.namespaced { live.metadata.namespace.as_deref().unwrap_or_default() } else { "" };
            return ours.then(|| self.intake.key(namespace, &owner.name));
        }
        let wanted = format!("{}.{}", self.resource.kind, self.resource.group());
        let ours = live.primary_type.as_deref() == Some(wanted.trim_end_matches('.'));
        let primary = live.primary.as_deref().filter(|_| ours)?;
        let (namespace, name) = primary.split_once('/').unwrap_or(("", primary));
        Some(self.intake.key(namespace, name))
    }

    /// Requests a watch of each kind that is not watched yet.
    pub(super) fn watch_kinds(&self, kinds: impl IntoIterator<Item = Arc<Resource>>) {
        if self.settings.watch_dependents {
            for kind in kinds {
                if self.cache.start_kind(&kind) {
                    // The receiver is dropped only when the process ends.
                    _ = self.new_kinds.send(kind);
                }
            }
        }
    }
}

impl Census for Shared {
    fn count(&self) -> Count {
        let mut counts = Count::default();
        for primary in self.cache.primaries() {
            let ready = primary.status.find(condition::READY);
            let of =
                |part: fn(&Condition) -> &Arc<str>| ready.map_or_else(|| "Unknown".into(), |ready| part(ready).clone());
            *counts.ready.entry((of(|ready| &ready.status), of(|ready| &ready.reason))).or_default() += 1;
            if let Some(deployed) = primary.status.deployed_release.as_ref().filter(|one| !one.chart.is_empty()) {
                counts.add_chart(&deployed.chart);
            }
            counts.revisions += self.cache.release(&primary.key()).map_or(0, |release| release.revisions.len());
        }
        counts
    }
}

impl Reader for Shared {
    /// Somebody else's record is a change of the resource's inputs; our own records are the result of an attempt that may have failed.
    fn release_changed(&self, record: &ResourceKey, foreign: bool) {
        let Some(key) = self.cache.resource_of(record) else { return };
        if foreign {
            self.cache.change_history(&key, |history| history.retry_now(tokio::time::Instant::now()));
        }
        self.wake(key);
    }

    fn sight_changed(&self, scope: &Scope) {
        for key in self.cache.recorded_in(scope) {
            self.cache.change_history(&key, |history| history.retry_now(tokio::time::Instant::now()));
            self.wake(key);
        }
    }

    fn release_lost(&self, record: &ResourceKey, release: &Arc<Release>) {
        if let Some(key) = self.cache.resource_of(record) {
            self.cache.release_lost(&key, release);
        }
    }
}
