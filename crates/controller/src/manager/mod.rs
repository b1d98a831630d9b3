//! The manager: one client, one lease, one metrics and probe server, one shutdown, and any number of controllers.
//!
//! Counterpart: controller-runtime's `pkg/manager`.

mod election;
mod pulse;
mod reach;
mod run;
#[cfg(test)]
mod tests;
mod threads;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use kube::Client;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

pub use self::threads::Threads;
use crate::client::Connection;
pub use crate::client::{Error as ClientError, Hop, NoCluster};
use crate::context::{ControllerConfig, Parts};
pub use crate::lease::Lost;
use crate::metrics::Metrics;
use crate::reconciler::{Controller, Reconciler, Served};
use crate::runtime::readiness::Readiness;
pub use crate::server::{CertificateError, CertificateFiles, Error as ServerError, Tls};
use crate::server::{Senders, Site};
use crate::webhooks::{self, Webhooks};
use crate::{client, lease, notifications, reconciler, server};

/// The manager's configuration, from the command line and the environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// The program's name, such as `shop-operator`, which is its user agent and the prefix of its metrics. Default:
    /// `controller`.
    pub program: String,
    /// The settings for all controllers.
    pub controllers: ControllerConfig,
    /// Where to serve `/metrics`, such as `:8080` or `127.0.0.1:0`; `0` or empty means nowhere.
    pub metrics_bind_address: String,
    /// How to serve `/metrics` over HTTPS. Default: plain HTTP.
    pub metrics_tls: Option<Tls>,
    /// Where to serve `/healthz` and `/readyz`; `0` or empty means nowhere.
    pub health_probe_bind_address: String,
    /// Where events are also sent. Default: nowhere.
    pub notifications: Option<notifications::Settings>,
    /// Where to serve the site over HTTPS, if there is one; `0` or empty means nowhere.
    pub web_bind_address: String,
    /// The certificate of the site. Default: self-signed, generated at startup and kept in memory.
    pub web_certificate: Option<CertificateFiles>,
    /// Whether people may act on the site, each with their own rights. Needs a configured cluster. Default: false.
    pub web_actions: bool,
    /// Where and how webhooks are served, if there are any.
    pub webhooks: webhooks::Settings,
    /// Whether only the holder of the lease runs controllers. A shard of a ring ([`ControllerConfig::ring`]) has its
    /// own lease instead.
    pub leader_elect: bool,
    /// The lease's name; required with `leader_elect`. With a [`ControllerConfig::shard_selector`], the selector's
    /// digest is appended, so that processes of other ranges do not wait. With a [`ControllerConfig::ring`], the name of
    /// the leader's lease before the ring: it and the shards then wait for each other.
    pub leader_election_id: String,
    /// The lease's namespace; empty means the pod's own. Outside a cluster, it also holds the webhooks' Secret.
    pub leader_election_namespace: String,
    /// How long running reconciles may take to finish once the process is asked to stop.
    pub shutdown_grace: Duration,
}

/// The reason why a manager cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses another thread.
    #[error("cannot start the process's threads")]
    Threads(#[source] io::Error),
    /// No cluster is configured, or it cannot be used.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// An address cannot be served.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// Events cannot be sent where they should be.
    #[error(transparent)]
    Notifications(#[from] notifications::Error),
    /// `--leader-elect` without a name for the lease, and perhaps, outside a cluster, without a namespace.
    #[error("LeaderElectionID must be configured: set --leader-election-id{}", lacks_namespace(*.outside))]
    NoLeaseName {
        /// Whether the namespace is missing as well.
        outside: bool,
    },
    /// `--leader-elect` outside a cluster, without a namespace.
    #[error(
        "unable to find leader election namespace: not running in-cluster, please specify --leader-election-namespace"
    )]
    NoLeaseNamespace,
    /// A shard that is to elect a leader.
    #[error("a shard of a controller ring has its own lease: use either --controller-ring or --leader-elect")]
    LeaderInRing,
    /// A shard of a ring that is to serve a range.
    #[error("a sharder assigns a ring's resources: use either --controller-ring or --shard-selector")]
    RangeInRing,
    /// A process of a range with webhooks, whose configuration belongs to one leader.
    #[error("a process with --shard-selector cannot publish webhooks, because no leader owns their configuration")]
    WebhooksInRange,
    /// A shard with webhooks, whose configuration belongs to one leader.
    #[error("a shard of a controller ring cannot publish webhooks, because no leader owns their configuration")]
    WebhooksInRing,
    /// Two reconcilers with one name, which is the field manager of their writes.
    #[error(
        "two reconcilers are called {0:?}, so each would remove what the other applied: return another name from one's Reconciler::name"
    )]
    SharedFieldManager(String),
    /// A reconciler's former name is the name of a reconciler.
    #[error(
        "a reconciler is called {0:?}, which Reconciler::former_names returns: its fields would move to the other; remove it from the former names"
    )]
    FormerFieldManager(String),
    /// The lease is lost.
    #[error(transparent)]
    Lost(#[from] lease::Lost),
    /// A controller ended although it was not asked to.
    #[error("controller {name:?} ended")]
    Controller {
        /// Returns the controller's name.
        name: String,
        /// Its error, if it returned one.
        source: Option<reconciler::Error>,
    },
    /// Reconciles did not finish within the grace period.
    #[error("reconciles were still running after {0:?}")]
    Grace(Duration),
    /// A second signal arrived before shutdown was complete.
    #[error("interrupted by a second signal")]
    Interrupted,
}

fn lacks_namespace(outside: bool) -> &'static str {
    if outside { " and, outside a cluster, --leader-election-namespace" } else { "" }
}

/// Runs controllers until it is asked to stop.
///
/// # Flow
/// [`run`](Self::run) starts the metrics and probe servers, waits until the API server answers, waits for the lease if
/// leader election is on, and starts all controllers. SIGTERM or SIGINT cancels
/// [`Context::shutdown`](crate::context::Context::shutdown): controllers start no new work and finish what is running,
/// for at most [`Config::shutdown_grace`]. Then the lease is released and the servers stop.
///
/// # Guarantees
/// - Controllers run only while this process holds the lease. A lost lease drops them at their next `.await` and ends
///   `run` with [`Error::Lost`], before another process can take over. Until then [`run`](Self::run)'s client refuses
///   to send writes, even in a process that was frozen.
/// - Nothing is retried here: if a controller fails or ends early, the process ends, and its supervisor starts a new
///   one.
/// - A second signal drops everything at once and ends `run` with [`Error::Interrupted`]. Dropping the future does the
///   same, silently. Neither releases the lease, which then expires.
pub struct Manager {
    config: Config,
    metrics: Metrics,
    controllers: Vec<Box<dyn Controller>>,
    webhooks: Webhooks,
    site: Option<Arc<dyn Site>>,
    readiness: Readiness,
    parts: Parts,
    term: lease::Term,
    holder: lease::Holder,
    /// The API server's address, for messages; empty if unknown.
    server: String,
    /// The runtime for controllers, if it is not the manager's.
    workers: Option<Handle>,
}

impl Manager {
    /// Creates a manager without controllers.
    pub fn new(config: Config) -> Manager {
        Manager {
            metrics: Metrics::of(&config.program.replace('-', "_")),
            config,
            controllers: Vec::new(),
            webhooks: Webhooks::default(),
            site: None,
            readiness: Readiness::default(),
            parts: Parts::default(),
            term: lease::Term::default(),
            holder: lease::Holder::default(),
            server: String::new(),
            workers: None,
        }
    }

    /// Adds a reconciler, as the controller of one kind.
    #[must_use]
    pub fn reconciler<R: Reconciler>(self, reconciler: R) -> Manager {
        self.controllers([Box::new(Served::new(reconciler)) as Box<dyn Controller>])
    }

    /// Adds any controller, which runs while this process leads.
    #[must_use]
    pub fn controller(self, controller: impl Controller) -> Manager {
        self.controllers([Box::new(controller) as Box<dyn Controller>])
    }

    /// Adds controllers.
    #[must_use]
    pub fn controllers(mut self, controllers: impl IntoIterator<Item = Box<dyn Controller>>) -> Manager {
        self.controllers.extend(controllers);
        self
    }

    /// Serves webhooks, on leaders and candidates alike.
    #[must_use]
    pub fn webhooks(self, webhooks: Webhooks) -> Manager {
        Manager { webhooks, ..self }
    }

    /// Serves a site at [`Config::web_bind_address`], on leaders and candidates alike.
    #[must_use]
    pub fn site(self, site: Arc<dyn Site>) -> Manager {
        Manager { site: Some(site), ..self }
    }

    /// Runs the controllers on another runtime, and serves metrics, webhooks and the site there. What blocks its threads
    /// then delays neither the lease nor the probes, which stay on the runtime that [`run`](Self::run) is called on.
    /// [`run_blocking`](Self::run_blocking) does that by itself.
    #[must_use]
    pub fn controllers_on(self, workers: Handle) -> Manager {
        Manager { workers: Some(workers), ..self }
    }

    /// Shares a value with all controllers, which get it by its type from
    /// [`Context::part`](crate::context::Context::part).
    #[must_use]
    pub fn share<T: Send + Sync + 'static>(self, part: Arc<T>) -> Manager {
        self.parts.put(part);
        self
    }

    /// Returns the requirements that keep the process unready until they are met.
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Returns who holds the lease, as this process last saw it.
    pub fn holder(&self) -> &lease::Holder {
        &self.holder
    }

    /// Runs like [`run`](Self::run), on [threads](Threads) that it starts: a reconcile that blocks delays neither the
    /// lease nor the probes. Must not be called inside a runtime, because it blocks.
    ///
    /// # Errors
    /// As [`run`](Self::run); and the system refuses another thread.
    pub fn run_blocking(self) -> Result<(), Error> {
        let threads = Threads::start().map_err(Error::Threads)?;
        threads.run(self.controllers_on(threads.workers().clone()).run())
    }

    /// Runs everything on the configured cluster until SIGTERM or SIGINT, then lets running reconciles finish and
    /// releases the lease. A second signal ends it at once. The lease and the probes share the threads of the calling
    /// runtime with the controllers, unless [`controllers_on`](Self::controllers_on) names another.
    ///
    /// # Errors
    /// The manager cannot start, the lease is lost, or a controller ended.
    pub async fn run(self) -> Result<(), Error> {
        self.run_or_stop(CancellationToken::new()).await
    }

    /// Runs like [`run`](Self::run), and also stops, in the same way, when `shutdown` is cancelled.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_or_stop(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        let cluster = client::find_cluster().await.map_err(client::Error::from)?;
        self.server = cluster.cluster_url.to_string().trim_end_matches('/').to_owned();
        let (program, metrics) = (&self.config.program, &self.metrics);
        let clients = self.clients(|| client::connect(cluster.clone(), program, metrics, &self.term))?;
        let senders = || Arc::new(client::senders(cluster.clone(), program, metrics.clone()));
        let people = self.config.web_actions.then(|| senders() as Senders);
        let clients = Clients { people, ..clients };
        let abort = CancellationToken::new();
        let signals = tokio::spawn(run::signals(shutdown.clone(), abort.clone()));
        let result = self.run_until_interrupted(clients, shutdown, abort).await;
        signals.abort();
        result
    }

    /// Creates a client for each runtime, so that neither waits for the other's connections.
    fn clients(&self, connect: impl Fn() -> Result<Connection, client::Error>) -> Result<Clients, Error> {
        let own = connect()?.client;
        let _entered = self.workers.as_ref().map(Handle::enter);
        Ok(Clients { own, controllers: connect()?, people: None })
    }

    /// Runs everything with these clients until `shutdown` is cancelled. Drops everything when `abort` is cancelled.
    async fn run_until_interrupted(
        self,
        clients: Clients,
        shutdown: CancellationToken,
        abort: CancellationToken,
    ) -> Result<(), Error> {
        tokio::select! {
            biased;
            () = abort.cancelled() => Err(Error::Interrupted),
            result = run::run(self, clients, shutdown) => result,
        }
    }

    /// Runs everything with this client until `shutdown` is cancelled.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_until(self, client: Client, shutdown: CancellationToken) -> Result<(), Error> {
        run::run(self, Clients { own: client.clone(), controllers: client.into(), people: None }, shutdown).await
    }

    /// Runs everything until `shutdown` is cancelled, with the clients of [`run`](Self::run), whose requests end at
    /// `hop`: they retry, resume watches, and refuse writes after the term.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_over(self, hop: Hop, shutdown: CancellationToken) -> Result<(), Error> {
        let cluster = kube::Config::new(Uri::from_static(SAME_PROCESS));
        let (program, metrics, term) = (&self.config.program, &self.metrics, &self.term);
        let clients = self.clients(|| client::connect_over(hop.clone(), cluster.clone(), program, metrics, term))?;
        run::run(self, clients, shutdown).await
    }
}

/// The address of a cluster in the same process.
const SAME_PROCESS: &str = "http://kubernetes.default.svc";

struct Clients {
    /// For the lease and the first contact.
    own: Client,
    controllers: Connection,
    /// For people who act on the site.
    people: Option<Senders>,
}

impl Default for Config {
    /// Returns controller-runtime's defaults.
    fn default() -> Config {
        Config {
            program: "controller".into(),
            controllers: ControllerConfig::default(),
            metrics_bind_address: ":8080".into(),
            metrics_tls: None,
            health_probe_bind_address: ":8081".into(),
            notifications: None,
            web_bind_address: String::new(),
            web_certificate: None,
            web_actions: false,
            webhooks: webhooks::Settings::default(),
            leader_elect: false,
            leader_election_id: String::new(),
            leader_election_namespace: String::new(),
            shutdown_grace: Duration::from_secs(8),
        }
    }
}
