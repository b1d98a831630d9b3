//! The handles that all chart controllers of a process share: discovery, the store of release records, the watches of
//! dependent kinds, and the value sources.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use controller::client::read_by;
use controller::context::Context;
use controller::reconciler;
use controller::runtime::namespaces::Namespaces;
use controller::runtime::readiness::Readiness;
use controller::runtime::reflector;
use controller::runtime::served_kinds::ServedKinds;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, join_all};
use helm_release::kube::{Api, Applier};
use helm_release::storage::Keyring;
use kube::Client;
use outside::sync::lock;
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinSet;

use super::config::ChartConfig;
use super::watches::{self, Objects, WholeKinds};
use crate::chart_metrics::ChartMetrics;
use crate::reconcile::decide::action_room::ActionRoom;
use crate::reconcile::diagnoses::Diagnoses;
use crate::record_key;
use crate::rendering::discovered::Discovered;
use crate::rendering::{Program, Workers, memory_limit};
use crate::values::Room;
use crate::view::dependencies::registry::Dependencies;
use crate::view::informers::Informers;
use crate::view::releases::Releases;
use crate::view::sources::registry::Sources;
use crate::watches::Expressions;

/// The shared view of the cluster. Its watches end when it is dropped.
pub(crate) struct Cluster {
    client: Client,
    namespaces: Namespaces,
    readiness: Readiness,
    pub(crate) applier: Applier,
    pub(crate) releases: Arc<Releases>,
    pub(crate) informers: Arc<Informers>,
    pub(crate) diagnoses: Arc<Diagnoses>,
    /// The Secrets and ConfigMaps of `valuesFrom`.
    pub(crate) sources: Arc<Sources>,
    /// The objects that resources depend on.
    pub(crate) dependencies: Arc<Dependencies>,
    /// The memory that large specs of resources may take.
    pub(crate) room: Room,
    /// The memory that large objects may take that expressions read.
    pub(crate) objects_room: Room,
    /// The memory of actions that may wait for long.
    pub(crate) action_room: ActionRoom,
    /// The worker processes that render charts; `None` if this process does.
    pub(crate) workers: Option<Arc<Workers>>,
    discovered: OnceCell<Arc<Discovered>>,
    /// The keys that seal and prove release records.
    keys: OnceCell<Keyring>,
    /// Ends with the first lists of release records, whose watches have begun.
    records: OnceLock<Shared<BoxFuture<'static, ()>>>,
    /// Namespaces with records, in addition to the watched ones.
    homes: Mutex<BTreeSet<String>>,
    read_whole: Arc<WholeKinds>,
    tasks: Mutex<JoinSet<()>>,
}

impl Cluster {
    /// Returns the view that the chart controllers of this process share.
    pub(crate) fn of(context: &Context) -> Arc<Cluster> {
        context.part(|context| {
            let rendering = ChartConfig::of(context).rendering;
            let workers = Workers::new(rendering, Program::own(), ChartMetrics::of(context));
            let cluster = Cluster::new(
                context.client.clone(),
                context.config.namespaces.clone(),
                workers,
                context.readiness.clone(),
                context.identity.clone(),
                context.served.clone(),
            );
            let releases = Releases::of(context.identity.clone()).in_ring(context.config.ring.as_ref());
            Cluster { releases: Arc::new(releases), ..cluster }
        })
    }

    /// Creates a view through this client, for the process that records name `writer`. Sends no request yet.
    pub(crate) fn new(
        client: Client,
        namespaces: Namespaces,
        workers: Option<Arc<Workers>>,
        readiness: Readiness,
        writer: Arc<str>,
        served: Arc<ServedKinds>,
    ) -> Cluster {
        let api: Arc<dyn Api> = Arc::new(client.clone());
        let read_whole = Arc::<WholeKinds>::default();
        let applier = Applier::new(api);
        let objects = Objects {
            client: client.clone(),
            mapper: applier.mapper.clone(),
            namespaces: namespaces.clone(),
            whole: read_whole.clone(),
        };
        let mapper = applier.mapper.clone();
        Cluster {
            dependencies: Dependencies::new(
                Some(read_by(client.clone(), "dependencies")),
                namespaces.clone(),
                mapper,
                served,
            ),
            applier,
            releases: Arc::new(Releases::of(writer)),
            informers: Arc::new(Informers::new(objects)),
            diagnoses: Arc::default(),
            sources: Sources::new(Some(read_by(client.clone(), "sources")), namespaces.clone()),
            room: Room::default(),
            objects_room: Room::default(),
            action_room: ActionRoom::within(memory_limit()),
            workers,
            discovered: OnceCell::new(),
            keys: OnceCell::new(),
            records: OnceLock::new(),
            homes: Mutex::default(),
            tasks: Mutex::default(),
            read_whole,
            client,
            namespaces,
            readiness,
        }
    }

    /// Makes watches read the kinds that these expressions name in full. Takes effect with the next watch.
    pub(crate) fn read_whole(&self, expressions: &Expressions) {
        self.read_whole.add(expressions.clone());
    }

    /// Adds a namespace to those whose records are watched.
    pub(crate) fn record_in(&self, namespace: Option<&str>) {
        lock(&self.homes).extend(namespace.map(str::to_owned));
    }

    /// Returns the cluster's version and capabilities. The first call requests the version.
    pub(crate) async fn discovered(&self) -> Result<Arc<Discovered>, reconciler::Error> {
        let read = || async { Discovered::read(&self.applier).await.map(Arc::new) };
        self.discovered.get_or_try_init(read).await.cloned()
    }

    /// Returns the keys of release records. The first call reads or creates them, waits until that succeeds, and
    /// follows their changes from then on.
    pub(crate) async fn keys(&self, config: &ChartConfig) -> Keyring {
        let load = || async {
            let requirement = self.readiness.require_to_reconcile("the key of release records", "not read yet");
            let namespace = config.own_namespace(&self.client);
            let (keys, found) = record_key::load(&**self.applier.api(), namespace, &requirement).await;
            let follow = record_key::follow(self.client.clone(), namespace.to_owned(), keys.clone(), found);
            lock(&self.tasks).spawn(follow);
            keys
        };
        self.keys.get_or_init(load).await.clone()
    }

    /// Waits until all release records are listed, or the server refuses to list them. The first call starts their
    /// watch.
    pub(crate) async fn records_listed(&self, keys: Keyring) {
        // A caller that is dropped while it waits leaves the watch, and the wait, to the others.
        self.records.get_or_init(|| self.watch_records(&keys)).clone().await;
    }

    /// Starts the watches of release records. Returns the wait for their first lists.
    fn watch_records(&self, keys: &Keyring) -> Shared<BoxFuture<'static, ()>> {
        let mut lists = Vec::new();
        let namespaces = self.namespaces.and(&lock(&self.homes));
        for stream in watches::records(&self.client, &namespaces, &self.readiness, keys) {
            let (first, listed) = oneshot::channel();
            lock(&self.tasks).spawn(reflector::run(self.releases.clone(), stream, first));
            lists.push(listed);
        }
        join_all(lists).map(|_| ()).boxed().shared()
    }
}
