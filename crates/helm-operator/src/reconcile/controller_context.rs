//! What all reconciles of one controller share: its handles, settings and memory.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use controller::client::Contact;
use controller::events::{self, Events};
use controller::metrics::Metrics;
use controller::report::Outcome;
use controller::runtime::key::ResourceKey;
use controller::runtime::queue::Queue;
use controller::shards::{Shard, Standing};
use helm_release::kube::{Api, Applier, Reach, Resource};
use helm_release::storage::{Home, Marks, Storage};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::GroupVersionKind;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::accept::Acceptance;
use crate::chart_metrics::ChartMetrics;
use crate::hooks::extensions::Extensions;
use crate::reconcile::decide::action_room::ActionRoom;
use crate::reconcile::decide::arrivals::Arrivals;
use crate::reconcile::decide::memory::Memory;
use crate::reconcile::decide::rollout::Rollout;
use crate::reconcile::decide::schedule::Started;
use crate::reconcile::decide::turns::Turns;
use crate::reconcile::decide::unseen::Unseen;
use crate::reconcile::diagnoses::Diagnoses;
use crate::rendering::request::Renderer;
use crate::status::declared_fields::Undeclared;
use crate::view::cache::{Cache, version};
use crate::view::chart_names::{self, SelectedCharts};
use crate::view::dependencies::registry::Dependencies;
use crate::view::primary::{Primary, Received};
use crate::view::sources::registry::Sources;
use crate::watches::{Expressions, Watch};

/// What the watches of objects should cover in addition.
pub(crate) enum WatchRequest {
    Kind(Arc<Resource>),
    /// The objects of a chart that was added to those that are selected.
    Chart,
}

/// The state that all reconciles of one controller share.
pub(crate) struct ControllerContext {
    pub(crate) api: Arc<dyn Api>,
    pub(crate) applier: Applier,
    pub(crate) storage: Storage,
    pub(crate) cache: Cache,
    /// The recent history of the resources.
    pub(crate) memory: Memory,
    /// The resources whose memory is still to be restored.
    pub(crate) arrivals: Arrivals,
    pub(crate) queue: Queue<ResourceKey>,
    pub(crate) renderer: Arc<dyn Renderer>,
    /// The process's value sources: Secrets and ConfigMaps.
    pub(crate) sources: Arc<Sources>,
    /// The dependencies of the process's resources.
    pub(crate) dependencies: Arc<Dependencies>,
    /// The code that the operator's author adds.
    pub(crate) extensions: Extensions,
    /// Only for the author's code. Everything else uses `api`.
    pub(crate) client: kube::Client,
    /// Knows when watches were interrupted.
    pub(crate) contact: Contact,
    pub(crate) events: Events,
    /// The object that process-wide events refer to.
    pub(crate) process: ObjectReference,
    pub(crate) metrics: Metrics,
    pub(crate) counts: ChartMetrics,
    pub(crate) settings: Settings,
    pub(crate) rollout: Rollout,
    /// The turns of releases in a rollout.
    pub(crate) turns: Turns,
    /// What must be seen before an upgrade gets a slot.
    pub(crate) unseen: Unseen,
    pub(crate) started: Started,
    /// Cancelled when the process stops.
    pub(crate) stopping: CancellationToken,
    pub(crate) acceptance: Acceptance,
    /// The share of the resources that this process serves, if not all.
    pub(crate) shard: Option<Shard>,
    /// The custom resource's kind.
    pub(crate) resource: Arc<Resource>,
    /// The charts whose objects the watches select.
    pub(crate) charts: SelectedCharts,
    /// Receives requests for more watches.
    pub(crate) watch_requests: mpsc::UnboundedSender<WatchRequest>,
    /// The memory of the process's actions that may wait for long.
    pub(crate) action_room: ActionRoom,
    /// The throttle for diagnoses of unready objects.
    pub(crate) diagnoses: Arc<Diagnoses>,
    /// The status fields that the kind's schema lacks.
    pub(crate) undeclared: Undeclared,
}

/// A resource that this controller no longer serves, and the version in which that was seen.
pub(crate) struct Departure {
    pub(crate) key: ResourceKey,
    uid: String,
    version: u64,
}

impl Departure {
    /// Returns what to forget if this controller does not serve the received resource.
    pub(crate) fn of(context: &ControllerContext, received: &Received) -> Departure {
        let primary = &received.primary;
        let key = context.acceptance.key_of(primary);
        Departure { key, uid: primary.uid().to_owned(), version: version(primary) }
    }
}

/// The settings of one controller: its watch, and what also depends on flags, the chart and the process. A field here
/// precedes the watch's own of the same name.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) watch: Watch,
    pub(crate) controller: Arc<str>,
    pub(crate) period: Duration,
    pub(crate) hook_timeout: Duration,
    pub(crate) max_history: usize,
    pub(crate) suppress_overrides: bool,
    /// How long a release may stay unready without progress; zero means no limit.
    pub(crate) progress_timeout: Duration,
    /// Maximum concurrent upgrades caused by chart, override or source changes; 0 means unlimited.
    pub(crate) max_parallel_upgrades: usize,
    /// How often everything is applied again without a reason; zero means never.
    pub(crate) full_resync: Duration,
    /// What releases may contain.
    pub(crate) reach: Arc<Reach>,
    /// Whether nothing is written, so that nothing becomes ready.
    pub(crate) rehearses: bool,
    /// The watch's own, shared with the cache.
    pub(crate) expressions: Arc<Expressions>,
    /// Where the records are stored.
    pub(crate) home: Home,
}

impl Deref for Settings {
    type Target = Watch;

    fn deref(&self) -> &Watch {
        &self.watch
    }
}

/// Tests change what the watch says.
#[cfg(test)]
impl std::ops::DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut Watch {
        &mut self.watch
    }
}

impl Settings {
    /// Returns the slots of upgrades. A rollout in steps gives each upgrade one, because that records the release's
    /// state before it.
    pub(crate) fn slots(&self) -> Rollout {
        Rollout::new(match self.max_parallel_upgrades {
            0 if self.rollout.is_some() => usize::MAX,
            limit => limit,
        })
    }
}

impl ControllerContext {
    pub(crate) fn wake(&self, key: ResourceKey) {
        self.queue.push(key);
    }

    pub(crate) fn wake_all(&self) {
        self.cache.primaries().iter().for_each(|primary| self.wake(primary.key()));
    }

    /// Stores a response to one of our own writes or reads. Wakes the resource if the response contains a change by
    /// another writer: the event of that change comes too late to wake it, because its version is known by then.
    pub(crate) fn primary_written(&self, received: Received) {
        let left = Departure::of(self, &received);
        match self.admit(received) {
            Some(primary) => {
                if self.cache.store_written_primary(primary) {
                    self.wake(left.key);
                }
            }
            None => self.primary_left(&left),
        }
    }

    /// Returns the connection that sends writes for a resource.
    pub(crate) fn api_for(&self, key: &ResourceKey) -> Arc<dyn Api> {
        let api = self.api.clone();
        self.shard.as_ref().map_or_else(|| api.clone(), |shard| shard.api(key, api.clone()))
    }

    /// Returns the client with which the author's code writes for a resource.
    pub(crate) fn client_for(&self, key: &ResourceKey) -> kube::Client {
        let client = self.client.clone();
        self.shard.as_ref().map_or_else(|| client.clone(), |shard| shard.client(key, client.clone()))
    }

    /// Returns whether the resource must go to another shard.
    pub(crate) fn is_leaving(&self, key: &ResourceKey) -> bool {
        self.shard.as_ref().is_some_and(|shard| shard.holding(key).is_leaving())
    }

    /// Waits until the process stops, or the resource must go to another shard.
    pub(crate) async fn stops_serving(&self, key: &ResourceKey) {
        let leaves = async {
            match &self.shard {
                Some(shard) => shard.holding(key).left().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stopping.cancelled() => {}
            () = leaves => {}
        }
    }

    pub(crate) fn admit(&self, received: Received) -> Option<Primary> {
        let primary = &received.primary;
        let known = self.cache.primary_with_uid(&self.acceptance.key_of(primary), primary.uid());
        self.acceptance.admit(received, self.settings.expressions.fields(), known.as_deref())
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
        self.forget(key, self.cache.remove_primary(key, uid));
    }

    /// Forgets an earlier resource whose name now belongs to the one with this uid. Its deletion may have gone unreported.
    pub(crate) fn primary_replaced(&self, key: &ResourceKey, by: &str) {
        if let Some(earlier) = self.cache.primary(key).filter(|known| known.uid() != by) {
            self.primary_deleted(key, earlier.uid());
        }
    }

    /// Forgets a resource that a complete list lacks, unless one with another uid has its name.
    pub(crate) fn primary_unlisted(&self, key: &ResourceKey, uid: &str) {
        self.forget(key, self.cache.unlist_primary(key, uid));
    }

    /// Forgets a resource that this controller no longer serves. It may come back.
    pub(crate) fn primary_left(&self, left: &Departure) {
        let Departure { key, uid, version } = left;
        self.forget(key, self.cache.leave_primary(key, uid, *version));
    }

    /// Ends a shard's right to write for a resource that the cache has forgotten, and not before: a reconcile that
    /// begins in the meantime would get a new right. The right stays if another resource has taken the name. Returns
    /// whether the right has ended.
    pub(crate) fn end_writes(&self, key: &ResourceKey) -> bool {
        let shard = self.shard.as_ref().filter(|_| self.cache.primary(key).is_none());
        shard.inspect(|shard| shard.follow(key, Standing::Others)).is_some()
    }

    /// Forgets a resource that has left the cache. `was_known` is whether it was there.
    fn forget(&self, key: &ResourceKey, was_known: bool) {
        self.end_writes(key);
        if was_known {
            let namespace = if self.resource.namespaced { &*key.namespace } else { "" };
            self.metrics.resource_deleted(&self.gvk(), namespace, &key.name);
            self.memory.forget(key);
            _ = self.arrivals.take(key);
            self.sources.forget(&self.settings.controller, key);
            self.dependencies.forget(&self.user(namespace, &key.name));
            self.leave_rollout(key);
            self.turns.note(key, None, outside::now()).into_iter().for_each(|next| self.wake(next));
            self.announce_rollout();
            self.queue.forget(key);
            self.unseen.forget(key);
        }
    }

    /// Counts a resource's outcome, and publishes it in the background.
    pub(crate) fn publish(&self, primary: &Primary, outcome: Outcome) {
        events::publish(&self.metrics, &self.events, &self.settings.controller, primary.reference(), outcome);
    }

    /// Counts an outcome that concerns no single resource, and publishes it in the background.
    pub(crate) fn publish_for_process(&self, outcome: Outcome) {
        events::publish(&self.metrics, &self.events, &self.settings.controller, self.process.clone(), outcome);
    }

    /// Watches the kinds of a deployed revision. An action does so when it succeeds, but if the response to its last write
    /// is lost, only the record shows that it succeeded.
    pub(crate) fn watch_deployed(&self, marks: &Marks) {
        let unwatched = marks.objects.iter().filter(|object| !self.cache.is_started(&object.key));
        self.watch_kinds(unwatched.filter_map(|one| self.applier.mapper.known(&one.api_version, &one.key.kind)));
    }

    /// Requests the objects of the charts that a release has had, if another is served now. Until they are listed, none
    /// of them counts as missing: the resource may be reconciled as soon as it is stored. A resource that is new waits
    /// for the lists that others wait for, also if it adds no chart.
    pub(crate) fn watch_charts(&self, primary: &Primary) {
        let mut is_added = false;
        for chart in chart_names::others(self.renderer.chart_name(), primary.status.charts()) {
            is_added |= self.charts.add(chart, |charts| self.cache.widen(charts));
        }
        if is_added {
            self.cache.primaries().iter().for_each(|known| self.cache.join_lists(&known.key()));
        }
        if self.cache.primary(&primary.key()).is_none() {
            self.cache.join_lists(&primary.key());
        }
        if is_added {
            // As for kinds.
            _ = self.watch_requests.send(WatchRequest::Chart);
        }
    }

    /// Forgets that the release was uninstalled before.
    pub(crate) fn forget_uninstall(&self, key: &ResourceKey) {
        if self.memory.of(key).release.cleared.is_some() {
            self.memory.change(key, |memory| memory.release.cleared = None);
        }
    }

    /// Requests a watch of each kind that is not watched yet.
    pub(crate) fn watch_kinds(&self, kinds: impl IntoIterator<Item = Arc<Resource>>) {
        if self.settings.watch_dependent_resources {
            for kind in kinds {
                if self.cache.start_kind(&kind) {
                    // The receiver is dropped only when the process ends.
                    _ = self.watch_requests.send(WatchRequest::Kind(kind));
                }
            }
        }
    }
}
