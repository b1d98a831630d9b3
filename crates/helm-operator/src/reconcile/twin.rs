//! A twin of a running controller that rehearses one resource: it knows what the controller knows, its client writes
//! nothing, and what it learns is dropped with it. So a plan neither waits for anything that it has to list, nor leaves
//! anything behind in caches, queues, events and metrics.

use std::sync::Arc;

use controller::client::rehearsal::Rehearsal;
use controller::events::Events;
use controller::metrics::Metrics;
use controller::runtime::key::ResourceKey;
use controller::runtime::queue::Queue;
use helm_release::kube::Api;
use tokio::sync::mpsc;

use super::accept::Acceptance;
use super::controller_context::{ControllerContext, Settings};
use crate::chart_metrics::ChartMetrics;
use crate::reconcile::decide::arrivals::Arrivals;
use crate::reconcile::decide::memory::Memory;
use crate::reconcile::decide::turns::Turns;
use crate::reconcile::decide::unseen::Unseen;
use crate::status::declared_fields::Undeclared;
use crate::view::chart_names::SelectedCharts;
use crate::view::dependencies::registry::Dependencies;
use crate::watches::Watch;

impl ControllerContext {
    /// Returns a twin for the rehearsal of a resource. It waits for no dependency, no earlier failure, and no other
    /// resource's upgrade: a plan shows what will happen, whenever that is.
    pub(crate) fn twin(&self, key: &ResourceKey) -> ControllerContext {
        let client = Rehearsal::client(self.client.clone());
        let api: Arc<dyn Api> = Arc::new(client.clone());
        let (metrics, mapper) = (Metrics::default(), self.applier.mapper.clone());
        let watch =
            Watch { rollout: None, depends_on: Vec::new(), depends_on_annotation: None, ..self.settings.watch.clone() };
        let settings = Settings { watch, rehearses: true, max_parallel_upgrades: 0, ..self.settings.clone() };
        ControllerContext {
            // A chart may define kinds.
            applier: self.applier.with_own_discovery(api.clone()),
            storage: self.storage.clone().through(api.clone()),
            api,
            cache: self.cache.copied_for(key),
            memory: Memory::default(),
            arrivals: Arrivals::default(),
            queue: Queue::new(),
            renderer: self.renderer.clone(),
            // The same resource depends on the same sources.
            sources: self.sources.clone(),
            dependencies: Dependencies::new(None, Default::default(), mapper, Arc::default()),
            extensions: self.extensions.clone(),
            client,
            contact: self.contact.clone(),
            events: Events::default(),
            process: self.process.clone(),
            counts: ChartMetrics::new(&metrics),
            metrics,
            rollout: settings.slots(),
            turns: Turns::new(None),
            unseen: Unseen::default(),
            settings,
            started: self.started,
            stopping: self.stopping.clone(),
            // The controller itself has claimed the resource.
            acceptance: Acceptance { version: None, ..self.acceptance.clone() },
            shard: None,
            resource: self.resource.clone(),
            charts: SelectedCharts::default(),
            // Nothing is watched for a twin.
            watch_requests: mpsc::unbounded_channel().0,
            action_room: self.action_room.clone(),
            diagnoses: Arc::default(),
            undeclared: Undeclared::default(),
        }
    }
}
