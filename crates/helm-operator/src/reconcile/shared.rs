//! State shared by a controller's reconciles, and the handlers for watch events.

use std::sync::Arc;
use std::time::Duration;

use controller::events::{self, Events};
use controller::metrics::Metrics;
use controller::reconciler::Stores;
use controller::report::Outcome;
use controller::runtime::freshness::Epoch;
use controller::runtime::key::ResourceKey;
use controller::runtime::queue::Queue;
use controller::runtime::reflector::WatchScope;
use helm_release::kube::{
    Adopt, Api, Applier, CrdPolicy, Decoration, Live, ObjectKey, ObjectRule, Ownership, Policy, Reach, Resource, Tie,
};
use helm_release::storage::{Home, Storage};
use kube::core::GroupVersionKind;
use tokio::sync::mpsc;

use super::accept::Intake;
use crate::chart_metrics::{Census, ChartMetrics, Count};
use crate::hooks::extensions::{Additions, Wakes};
use crate::reconcile::decide::inputs;
use crate::reconcile::decide::memory::{Memory, ResourceMemory};
use crate::reconcile::decide::rollout::{self, Rollout};
use crate::reconcile::report::diagnoses::Diagnoses;
use crate::rendering::request::Renderer;
use crate::status::declared_fields::Undeclared;
use crate::status::{Condition, condition};
use crate::values_from::ValuesSource;
use crate::view::cache::Cache;
use crate::view::dependent::{Claim, Dependent, key_of};
use crate::view::primary::{Primary, Received};
use crate::view::release::Release;
use crate::view::releases::ReleaseListener;
use crate::view::sources::registry::Sources;
use crate::watches::{AnnotationSources, CommonLabels, Drift, Expressions, OnFailure, ServiceAccount};

/// The state that all reconciles of one controller share.
pub(crate) struct Shared {
    pub(crate) api: Arc<dyn Api>,
    pub(crate) applier: Applier,
    pub(crate) storage: Storage,
    pub(crate) cache: Cache,
    /// The recent history of the resources.
    pub(crate) memory: Memory,
    pub(crate) queue: Queue<ResourceKey>,
    pub(crate) renderer: Arc<dyn Renderer>,
    /// The process's value sources: Secrets and ConfigMaps.
    pub(crate) sources: Arc<Sources>,
    /// The code that the operator's author adds.
    pub(crate) additions: Additions,
    /// Only for the author's code. Everything else uses `api`.
    pub(crate) client: kube::Client,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    /// The metrics of charts.
    pub(crate) counts: ChartMetrics,
    pub(crate) settings: Settings,
    pub(crate) rollout: Rollout,
    /// When the controller started.
    pub(crate) started: tokio::time::Instant,
    pub(crate) intake: Intake,
    /// The custom resource's kind.
    pub(crate) resource: Arc<Resource>,
    /// Receives the kinds to watch.
    pub(crate) new_kinds: mpsc::UnboundedSender<Arc<Resource>>,
    /// The throttle for diagnoses of unready objects.
    pub(crate) diagnoses: Arc<Diagnoses>,
    /// The status fields that the kind's schema lacks.
    pub(crate) undeclared: Undeclared,
}

/// The settings of one controller, from its watch and the flags.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) controller: Arc<str>,
    pub(crate) period: Duration,
    pub(crate) hook_timeout: Duration,
    pub(crate) watch_dependents: bool,
    pub(crate) max_history: usize,
    pub(crate) suppress_overrides: bool,
    /// The account for reading and writing objects.
    pub(crate) account: Option<ServiceAccount>,
    pub(crate) apply: Policy,
    /// How long a release may stay unready without progress; zero means no limit.
    pub(crate) progress_timeout: Duration,
    /// Maximum concurrent upgrades caused by chart, override or source changes; 0 means unlimited.
    pub(crate) max_parallel_upgrades: usize,
    /// How often everything is applied again without a reason; zero means never.
    pub(crate) full_resync: Duration,
    pub(crate) values_from: Arc<[ValuesSource]>,
    pub(crate) values_from_annotation: AnnotationSources,
    /// Labels that each object gets.
    pub(crate) common_labels: CommonLabels,
    pub(crate) drift: Drift,
    pub(crate) adopt: Adopt,
    /// What releases may contain.
    pub(crate) reach: Arc<Reach>,
    pub(crate) on_failure: OnFailure,
    /// How often to retry the same inputs; `None` means no limit.
    pub(crate) retries: Option<u32>,
    pub(crate) crds: CrdPolicy,
    pub(crate) recreate: Arc<[ObjectRule]>,
    pub(crate) expressions: Arc<Expressions>,
    /// Where the records are stored.
    pub(crate) home: Home,
}

impl Shared {
    pub(crate) fn wake(&self, key: ResourceKey) {
        self.queue.push(key);
    }

    pub(crate) fn primary_changed(&self, received: Received, epoch: Epoch) {
        let (key, uid) = (self.intake.key_of(&received.primary), received.primary.uid().to_owned());
        let Some(primary) = self.admit(received) else { return self.primary_left(&key, &uid) };
        self.metrics.resource_created(&self.gvk(), primary.own_namespace(), &key.name, primary.created);
        if self.cache.store_primary(primary, epoch) {
            self.wake(key);
        }
    }

    /// Stores the response to one of our own writes.
    pub(crate) fn primary_written(&self, received: Received) {
        let (key, uid) = (self.intake.key_of(&received.primary), received.primary.uid().to_owned());
        match self.admit(received) {
            Some(primary) => _ = self.cache.store_written_primary(primary),
            None => self.primary_left(&key, &uid),
        }
    }

    fn admit(&self, received: Received) -> Option<Primary> {
        self.intake.admit(received, self.settings.expressions.fields())
    }

    /// Makes changes of value sources wake their resources.
    pub(crate) fn connect_sources(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        self.sources.connect(self.settings.controller.clone(), move |key| {
            if let Some(shared) = shared.upgrade() {
                // A source is an input of the resource, so the previous process's failure says nothing about the new
                // content.
                shared.memory.change(key, |history| history.recalled = None);
                shared.wake(key.clone());
            }
        });
    }

    /// Makes the objects that the author watches wake their resources.
    pub(crate) fn follow(self: &Arc<Self>, stores: &Stores) {
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
            self.memory.change(&key, |history| history.retry_now(tokio::time::Instant::now()));
            self.wake(key);
        }
    }

    /// Restores each resource's history from its status.
    pub(crate) fn recall(&self) {
        let (now, today) = (tokio::time::Instant::now(), outside::now());
        for primary in self.cache.primaries() {
            if let Some(history) = ResourceMemory::recall(&primary, now, today) {
                report_recalled(&primary, &history, now);
                self.memory.change(&primary.key(), |known| *known = history);
            }
            self.recall_place(&primary);
        }
    }

    /// Restores the upgrade slot that the previous process's upgrade held. It keeps the slot until the release is
    /// ready, unless the resource itself changed.
    fn recall_place(&self, primary: &Primary) {
        let release = self.cache.release(&primary.key()).unwrap_or_default();
        if let Some(before) = rollout::unfinished(&release, &inputs::own_digest(primary), &primary.status) {
            self.rollout.recall(&primary.key(), before);
        }
    }

    /// Releases a resource's upgrade slot, and wakes the next holder.
    pub(crate) fn leave_rollout(&self, key: &ResourceKey) {
        self.rollout.leave(key).into_iter().for_each(|next| self.wake(next));
    }

    pub(crate) fn gvk(&self) -> GroupVersionKind {
        let (_, version) = self.resource.api_version.rsplit_once('/').unwrap_or(("", &self.resource.api_version));
        GroupVersionKind::gvk(self.resource.group(), version, &self.resource.kind)
    }

    /// Forgets a deleted resource, unless one with another uid has its name.
    pub(crate) fn primary_deleted(&self, key: &ResourceKey, uid: &str) {
        let known = self.cache.remove_primary(key, uid);
        self.forget(key, known);
    }

    /// Forgets a resource that another controller, or none, serves now. It may come back.
    fn primary_left(&self, key: &ResourceKey, uid: &str) {
        let known = self.cache.leave_primary(key, uid);
        self.forget(key, known);
    }

    fn forget(&self, key: &ResourceKey, known: bool) {
        if known {
            let namespace = if self.resource.namespaced { &*key.namespace } else { "" };
            self.metrics.resource_deleted(&self.gvk(), namespace, &key.name);
            self.memory.forget(key);
            self.sources.forget(&self.settings.controller, key);
            self.leave_rollout(key);
            self.queue.forget(key);
        }
    }

    pub(crate) fn dependent_changed(&self, resource: &Resource, live: &Live, epoch: Epoch) {
        let key = key_of(resource, live);
        let owner = match self.claim(&key, live) {
            // It belongs to another controller with a chart of the same name, so our object with this key is gone.
            Claim { owner: None, .. } => self.cache.drop_dependent(&key),
            claim => self.cache.store_dependent(key.clone(), live, claim, epoch),
        };
        owner.into_iter().filter(|owner| self.cache.concerns(owner, &key)).for_each(|owner| self.wake(owner));
    }

    pub(crate) fn dependent_deleted(&self, resource: &Resource, live: &Live) {
        let key = key_of(resource, live);
        let owner = self.cache.remove_dependent(&key, live);
        owner.into_iter().filter(|owner| self.cache.concerns(owner, &key)).for_each(|owner| self.wake(owner));
    }

    /// Returns the resource that a live object belongs to. An object that lost the metadata naming its owner still
    /// wakes its previous owner, but proves nothing.
    pub(crate) fn claim(&self, key: &ObjectKey, live: &Live) -> Claim {
        let same_object = |known: &Dependent| live.metadata.uid.as_deref() == Some(&*known.uid);
        let known = || self.cache.dependent(key).filter(|known| same_object(known))?.owner.clone();
        let owner = self.owner_of(live).or_else(known);
        let primary = owner.as_ref().and_then(|owner| self.cache.primary(owner));
        let ours = primary.is_some_and(|primary| self.decoration(&primary).ownership(live) == Ownership::Ours);
        Claim { owner, ours }
    }

    /// Counts a resource's outcome, and publishes it in the background.
    pub(crate) fn publish(&self, primary: &Primary, outcome: Outcome) {
        events::publish(&self.metrics, &self.events, &self.settings.controller, primary.reference(), outcome);
    }

    /// Returns what a resource's release adds to its objects.
    pub(crate) fn decoration(&self, primary: &Primary) -> Decoration {
        Decoration {
            release: primary.name().to_owned(),
            namespace: primary.namespace().to_owned(),
            chart: self.renderer.chart_name().to_owned(),
            owner: Some(primary.owner()),
            tie: Tie::default(),
        }
    }

    /// Returns the custom resource of this kind that an object belongs to, by owner reference or by annotation.
    pub(crate) fn owner_of(&self, live: &Live) -> Option<ResourceKey> {
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
    pub(crate) fn watch_kinds(&self, kinds: impl IntoIterator<Item = Arc<Resource>>) {
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
        let left_alone = [("suspend", 0), ("pause", 0)].into();
        let mut counts = Count { left_alone, ..Count::default() };
        for primary in self.cache.primaries() {
            let ready = primary.status.find(condition::READY);
            let of =
                |part: fn(&Condition) -> &Arc<str>| ready.map_or_else(|| "Unknown".into(), |ready| part(ready).clone());
            *counts.ready.entry((of(|ready| &ready.status), of(|ready| &ready.reason))).or_default() += 1;
            if let Some(deployed) = primary.status.deployed_release.as_ref().filter(|one| !one.chart.is_empty()) {
                counts.add_chart(&deployed.chart);
            }
            if let Some(annotation) = primary.annotations.left_alone_by() {
                *counts.left_alone.entry(annotation).or_default() += 1;
            }
            counts.revisions += self.cache.release(&primary.key()).map_or(0, |release| release.revisions.len());
        }
        counts
    }
}

impl ReleaseListener for Shared {
    /// Wakes the record's resource. A foreign record is a change of the resource's inputs, so it ends the wait after a
    /// failure. Our own record may be the result of the attempt that failed.
    fn release_changed(&self, record: &ResourceKey, foreign: bool) {
        let Some(key) = self.cache.resource_of(record) else { return };
        if foreign {
            self.memory.change(&key, |history| history.retry_now(tokio::time::Instant::now()));
        }
        self.wake(key);
    }

    fn sight_changed(&self, scope: &WatchScope) {
        for key in self.cache.recorded_in(scope) {
            self.memory.change(&key, |history| history.retry_now(tokio::time::Instant::now()));
            self.wake(key);
        }
    }

    fn release_lost(&self, record: &ResourceKey, release: &Arc<Release>) {
        if let Some(key) = self.cache.resource_of(record) {
            // An inventory is kept as long as its resource exists.
            let is_known = || self.cache.primary(&key).is_some();
            self.memory.change_if(is_known, &key, |history| history.release.lost = Some(release.clone()));
        }
    }
}

/// Logs when a resource that failed before this start is retried. Someone who fixed something and restarted the
/// operator is waiting for it.
fn report_recalled(primary: &Primary, history: &ResourceMemory, now: tokio::time::Instant) {
    if let Some(wait) = history.recalled_wait(now) {
        tracing::info!(
            resource = %primary.key(),
            next_try_in = format!("{wait:.0?}"),
            "The resource failed before this start: it is tried again soon, or at once with a change of its spec or the annotation \
             helm.sdk.operatorframework.io/retry-now"
        );
    }
}
