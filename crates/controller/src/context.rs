//! The shared handles that every controller receives, whatever it reconciles. Holds no
//! state.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use outside::sync::lock;
use tokio_util::sync::CancellationToken;

use crate::client::as_of_now;
use crate::client::{Connection, Contact};
use crate::events;
pub use crate::events::Events;
use crate::lease;
use crate::metrics::Metrics;
use crate::report::Outcome;
use crate::rights::ProcessRights;
use crate::runtime::concurrency::ConcurrencyLimit;
pub use crate::runtime::namespaces::Namespaces;
use crate::runtime::readiness::Readiness;
use crate::runtime::served_kinds::ServedKinds;
use crate::shards::{Kinds, Ring, Shard, ShardSelector, Share};

/// The name for events and metrics that belong to no controller.
const MANAGER: &str = "manager";

/// The shared handles of one controller. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The process's client, which counts its requests.
    pub client: Client,
    /// Knows when the client's watches were interrupted. Until they have resumed, decide nothing.
    pub contact: Contact,
    /// Publishes events in the controller's name. A repeated event increases the count of the first.
    pub events: Events,
    /// The process's metrics.
    pub metrics: Metrics,
    /// Cancelled on shutdown: start no new work, and finish what is running.
    pub shutdown: CancellationToken,
    /// The settings for all controllers, from the command line and the environment.
    pub config: Arc<ControllerConfig>,
    /// The controller's name: `<kind in lower case>-controller`.
    pub controller: Arc<str>,
    /// The permits that limit concurrent reconciles.
    pub concurrency: Arc<ConcurrencyLimit>,
    /// The kinds that the process serves.
    pub served: Arc<ServedKinds>,
    /// The process's own permissions.
    pub rights: Arc<ProcessRights>,
    /// The process's name, in the lease and on the records that it writes.
    pub identity: Arc<str>,
    /// The object that process-wide events refer to: the lease that the process holds, or its pod if there is no leader
    /// election.
    pub process: ObjectReference,
    /// The requirements that keep the process unready until they are met.
    pub readiness: Readiness,
    /// The values that controllers of one type share.
    parts: Parts,
}

impl Context {
    /// Creates the handles of a process, not yet bound to a controller.
    pub fn new(
        connection: impl Into<Connection>,
        config: ControllerConfig,
        metrics: Metrics,
        shutdown: CancellationToken,
    ) -> Context {
        let Connection { client, contact } = connection.into();
        let events = Events::new(Arc::new(client.clone()), MANAGER, config.pod_name.as_deref());
        let readiness = Readiness::default();
        let identity: Arc<str> = lease::identity(config.pod_name.as_deref()).into();
        let process = pod(client.default_namespace(), config.pod_name.as_deref().unwrap_or(MANAGER));
        let rights = Arc::new(ProcessRights::new(client.clone(), config.namespaces.clone()));
        let controller = MANAGER.into();
        let config = Arc::new(config);
        Context {
            identity,
            process,
            rights,
            client,
            contact,
            events,
            metrics,
            shutdown,
            config,
            controller,
            concurrency: Arc::default(),
            served: Arc::default(),
            readiness,
            parts: Parts::default(),
        }
    }

    /// Returns the same handles for a decision that is made now: once all watches have been interrupted, its client
    /// writes nothing, because the decision may be outdated.
    pub(crate) fn as_of_now(&self) -> Context {
        self.writing_with(as_of_now(&self.client, &self.contact))
    }

    /// Returns these handles, bound to the controller with this name.
    pub fn for_controller(&self, name: &str) -> Context {
        Context { events: self.events.for_controller(name), controller: name.into(), ..self.clone() }
    }

    /// Counts an outcome that concerns no single resource, and publishes it in the background as an event on
    /// [`process`](Self::process).
    pub fn publish(&self, outcome: Outcome) {
        events::publish(&self.metrics, &self.events, &self.controller, self.process.clone(), outcome);
    }

    /// Returns the process's shared value of this type. The first call creates it.
    pub fn part<T: Send + Sync + 'static>(&self, make: impl FnOnce(&Context) -> T) -> Arc<T> {
        if let Some(part) = self.parts.get() {
            return part;
        }
        self.parts.put(Arc::new(make(self)))
    }

    /// Returns the share that a controller of this kind serves; `None` if the process serves all resources.
    pub fn shard(&self, group: &str, kind: &str) -> Option<Shard> {
        let share = self.config.share()?;
        Some(self.part(|_| Kinds::default()).shard(&format!("{kind}.{group}"), share))
    }

    /// Shares this value with the process's controllers, unless there is one of its type already.
    pub fn with<T: Send + Sync + 'static>(self, part: Arc<T>) -> Context {
        self.parts.put(part);
        self
    }

    /// Returns these handles with this client.
    pub(crate) fn writing_with(&self, client: Client) -> Context {
        Context { client, ..self.clone() }
    }

    /// Returns these handles with the manager's shared values and readiness.
    pub(crate) fn sharing(self, parts: Parts, readiness: Readiness) -> Context {
        Context { parts, readiness, ..self }
    }

    /// Returns one API per watched namespace, or a single one for all namespaces.
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

fn pod(namespace: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        namespace: Some(namespace.into()),
        name: Some(name.into()),
        ..ObjectReference::default()
    }
}

/// Shared values, one per type.
#[derive(Clone, Default)]
pub(crate) struct Parts(Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Parts {
    fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        lock(&self.0).get(&TypeId::of::<T>()).cloned()?.downcast().ok()
    }

    /// Stores a value unless there is one of its type; returns the stored one.
    pub(crate) fn put<T: Send + Sync + 'static>(&self, part: Arc<T>) -> Arc<T> {
        let kept = lock(&self.0).entry(TypeId::of::<T>()).or_insert_with(|| part.clone()).clone();
        kept.downcast().unwrap_or(part)
    }
}

/// The settings of every controller whose watch does not set its own.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// The namespaces to watch. Default: all.
    pub namespaces: Namespaces,
    /// The name of this process's pod or host. Default: `HOSTNAME`.
    pub pod_name: Option<String>,
    /// How often a resource is reconciled without an event; zero means never. Default: one minute.
    pub reconcile_period: Duration,
    /// How many resources of one kind are reconciled concurrently; at least 1. Default: the number of processors, and
    /// at least 8.
    pub max_concurrent_reconciles: usize,
    /// The ring of which the process is a shard: it serves only resources assigned to it. Default: none.
    pub ring: Option<Ring>,
    /// Which resources the process lists, watches and serves, if the API server supports that (KEP-5866, alpha). Excludes
    /// a ring. Default: all.
    pub shard_selector: Option<ShardSelector>,
}

impl ControllerConfig {
    /// Returns this process's share of the resources; `None` if it serves all of them.
    pub fn share(&self) -> Option<Share> {
        let ring = self.ring.clone().map(Share::from);
        ring.or_else(|| self.shard_selector.clone().map(Share::from))
    }
}

/// The minimum default of [`ControllerConfig::max_concurrent_reconciles`].
const LEAST_RECONCILES: usize = 8;

impl Default for ControllerConfig {
    /// Returns upstream's defaults, except for more concurrent reconciles: they wait for the API server, not for a
    /// processor.
    fn default() -> ControllerConfig {
        ControllerConfig {
            namespaces: Namespaces::default(),
            pod_name: std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()),
            reconcile_period: Duration::from_secs(60),
            max_concurrent_reconciles: std::thread::available_parallelism()
                .map_or(0, usize::from)
                .max(LEAST_RECONCILES),
            ring: None,
            shard_selector: None,
        }
    }
}
