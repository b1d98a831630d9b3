//! What every controller, chart or native, receives: shared handles, no state.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use tokio_util::sync::CancellationToken;

pub use crate::events::Events;
use crate::lease;
use crate::metrics::Metrics;
use crate::rights::Rights;
use crate::runtime::concurrency::Turns;
pub use crate::runtime::namespaces::Namespaces;
use crate::runtime::readiness::Readiness;
use crate::runtime::served_kinds::ServedKinds;
use crate::runtime::sync::lock;

/// The name of what belongs to no controller.
const MANAGER: &str = "manager";

/// The shared handles of one controller. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The process's client; it counts its requests.
    pub client: Client,
    /// Publishes events in the controller's name; a repeated event increases the count of the first.
    pub events: Events,
    /// The process's metrics.
    pub metrics: Metrics,
    /// Cancelled when the process ends: start no new work, finish what runs.
    pub shutdown: CancellationToken,
    /// The settings for all controllers, from the command line and the environment.
    pub config: Arc<ControllerConfig>,
    /// The controller's name: `<kind in lower case>-controller`.
    pub controller: Arc<str>,
    /// How many reconciles run at once.
    pub turns: Arc<Turns>,
    /// The kinds that the process serves.
    pub served: Arc<ServedKinds>,
    /// The process's own rights.
    pub rights: Arc<Rights>,
    /// The process's name in the lease and on the records that it writes.
    pub identity: Arc<str>,
    /// What keeps the process from being ready.
    pub readiness: Readiness,
    /// What controllers of one sort share.
    parts: Parts,
}

impl Context {
    /// The handles of a process, not yet bound to a controller.
    pub fn new(client: Client, config: ControllerConfig, metrics: Metrics, shutdown: CancellationToken) -> Context {
        let events = Events::new(Arc::new(client.clone()), MANAGER, config.pod_name.as_deref());
        let readiness = Readiness::default();
        let identity: Arc<str> = lease::identity(config.pod_name.as_deref()).into();
        let rights = Arc::new(Rights::new(client.clone(), config.namespaces.clone()));
        let controller = MANAGER.into();
        let config = Arc::new(config);
        Context {
            identity,
            rights,
            client,
            events,
            metrics,
            shutdown,
            config,
            controller,
            turns: Arc::default(),
            served: Arc::default(),
            readiness,
            parts: Parts::default(),
        }
    }

    /// The same handles, bound to the controller with this name.
    pub fn for_controller(&self, name: &str) -> Context {
        Context { events: self.events.for_controller(name), controller: name.into(), ..self.clone() }
    }

    /// Returns what all controllers of one sort share in this process, by its type; the first caller makes it.
    pub fn part<T: Send + Sync + 'static>(&self, make: impl FnOnce(&Context) -> T) -> Arc<T> {
        if let Some(part) = self.parts.get() {
            return part;
        }
        self.parts.put(Arc::new(make(self)))
    }

    /// Shares this part in the process, unless there is one of its type.
    pub fn with<T: Send + Sync + 'static>(self, part: Arc<T>) -> Context {
        self.parts.put(part);
        self
    }

    /// The same handles with these parts, and with what keeps the process from being ready.
    pub(crate) fn sharing(self, parts: Parts, readiness: Readiness) -> Context {
        Context { parts, readiness, ..self }
    }

    /// The same handles without any part, for a holder that is a part itself: it would keep itself alive.
    pub fn alone(&self) -> Context {
        Context { parts: Parts::default(), ..self.clone() }
    }

    /// One API for each served namespace, or a single one for all namespaces.
    pub fn apis<K>(&self) -> Vec<Api<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        match &self.config.namespaces.0[..] {
            [] => vec![Api::all(self.client.clone())],
            names => names.iter().map(|name| Api::namespaced(self.client.clone(), name)).collect(),
        }
    }
}

/// One value of each type.
#[derive(Clone, Default)]
pub(crate) struct Parts(Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Parts {
    fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        lock(&self.0).get(&TypeId::of::<T>()).cloned()?.downcast().ok()
    }

    /// Keeps the part, unless there is one; returns the one that is kept.
    pub(crate) fn put<T: Send + Sync + 'static>(&self, part: Arc<T>) -> Arc<T> {
        let kept = lock(&self.0).entry(TypeId::of::<T>()).or_insert_with(|| part.clone()).clone();
        kept.downcast().unwrap_or(part)
    }
}

/// What applies to every controller unless its watch says otherwise.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// The namespaces to serve. Default: all.
    pub namespaces: Namespaces,
    /// The name of this process's pod, or of its host. Default: `HOSTNAME`.
    pub pod_name: Option<String>,
    /// How often a resource is reconciled without an event; zero: never. Default: one minute.
    pub reconcile_period: Duration,
    /// How many resources of one kind are reconciled at once; at least 1. Default: the number of processors, and at least 8.
    pub max_concurrent_reconciles: usize,
}

/// The least default of [`ControllerConfig::max_concurrent_reconciles`].
const LEAST_RECONCILES: usize = 8;

impl Default for ControllerConfig {
    /// Upstream's defaults, but for more concurrent reconciles: they wait for the API server, not for a processor.
    fn default() -> ControllerConfig {
        ControllerConfig {
            namespaces: Namespaces::default(),
            pod_name: std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()),
            reconcile_period: Duration::from_secs(60),
            max_concurrent_reconciles: std::thread::available_parallelism()
                .map_or(0, usize::from)
                .max(LEAST_RECONCILES),
        }
    }
}
