//! The manager: one client, one lease, one metrics and probe server, one shutdown, any number of controllers.
//!
//! Counterpart: controller-runtime's `pkg/manager`.

pub(crate) mod charts;
mod definitions;
pub(crate) mod operator;
mod reach;
mod run;
pub(crate) mod secrecy;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::charts::previews::Previews;
pub use crate::client::{Error as ClientError, NoCluster};
use crate::context::ControllerConfig;
pub use crate::lease::Lost;
use crate::metrics::Metrics;
pub use crate::server::{CertificateError, CertificateFiles, Error as ServerError, Tls};
use crate::{client, lease, native, server, watches};
pub use operator::Operator;

/// The manager's configuration, from the command line and the environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings for all controllers.
    pub controllers: ControllerConfig,
    /// Where to serve `/metrics`, such as `:8080` or `127.0.0.1:0`; `0` or empty: nowhere.
    pub metrics_bind_address: String,
    /// Serves `/metrics` over HTTPS. Default: plain HTTP.
    pub metrics_tls: Option<Tls>,
    /// Where to serve `/healthz` and `/readyz`; `0` or empty: nowhere.
    pub health_probe_bind_address: String,
    /// Whether only the holder of the lease runs controllers.
    pub leader_elect: bool,
    /// The lease's name; required with `leader_elect`.
    pub leader_election_id: String,
    /// The lease's namespace; empty: the pod's own.
    pub leader_election_namespace: String,
    /// How long running reconciles may take to finish once the process is asked to end.
    pub shutdown_grace: Duration,
}

/// Why a manager cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// watches.yaml cannot be used.
    #[error(transparent)]
    Watches(#[from] watches::Error),
    /// A chart cannot be served.
    #[error("cannot serve {kind} with chart {chart:?}{}", place(*line))]
    Chart {
        /// The line of its entry in watches.yaml, from 1; 0 if unknown.
        line: u64,
        /// The custom resource's kind.
        kind: String,
        /// The chart's path in watches.yaml.
        chart: String,
        /// Why.
        source: native::Error,
    },
    /// The program customises a chart that no watch names.
    #[error(
        "the program adds code around the chart of {0:?}, but watches.yaml has no such kind: add an entry, or name another kind"
    )]
    NoChart(String),
    /// Versions of a kind cannot share a definition.
    #[error("the versions of {kind} cannot share a definition: give them the same group, kind and scope")]
    Versions {
        /// The kind.
        kind: String,
        /// Why.
        source: native::Error,
    },
    /// No cluster is configured, or it cannot be used.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// An address cannot be served.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// `--leader-elect` without a name for the lease; outside a cluster, perhaps without a namespace either.
    #[error("LeaderElectionID must be configured: set --leader-election-id{}", lacks_namespace(*.outside))]
    NoLeaseName {
        /// Whether the namespace is unknown, too.
        outside: bool,
    },
    /// `--leader-elect` outside a cluster, without a namespace.
    #[error(
        "unable to find leader election namespace: not running in-cluster, please specify --leader-election-namespace"
    )]
    NoLeaseNamespace,
    /// The lease is lost.
    #[error(transparent)]
    Lost(#[from] lease::Lost),
    /// A controller ended early.
    #[error("controller {name:?} ended")]
    Controller {
        /// Its name.
        name: String,
        /// Its error, if it returned one.
        source: Option<native::Error>,
    },
    /// Reconciles did not finish in the grace period.
    #[error("reconciles were still running after {0:?}")]
    Grace(Duration),
    /// A second signal arrived before everything had ended.
    #[error("interrupted by a second signal")]
    Interrupted,
}

fn place(line: u64) -> String {
    if line == 0 { String::new() } else { format!(" (line {line} of the watches file)") }
}

fn lacks_namespace(outside: bool) -> &'static str {
    if outside { " and, outside a cluster, --leader-election-namespace" } else { "" }
}

/// Runs an operator's controllers until it is asked to end. [`Operator::manager`] makes one.
///
/// # Flow
/// [`run`](Self::run) loads every chart, then starts the metrics and probe servers, waits until the API server answers, waits for the lease if leader
/// election is on, and starts all controllers. SIGTERM or SIGINT cancels [`Context::shutdown`](crate::context::Context::shutdown): controllers start no new work and finish
/// what runs, for at most [`Config::shutdown_grace`]. Then the lease is released and the servers stop.
///
/// # Guarantees
/// - Controllers run only while this process holds the lease. A lost lease drops them at their next `.await` and ends `run` with
///   [`Error::Lost`], before another process can take over. Until then [`run`](Self::run)'s client refuses to send writes, also in a process that
///   was frozen.
/// - Nothing is retried here: an error or an early end of any controller ends the process, and whatever supervises it starts a new one.
/// - A second signal drops everything at once and ends `run` with [`Error::Interrupted`]. So does dropping the future, silently. Neither releases
///   the lease, which then expires. Chart controllers survive both: the next process continues interrupted actions.
pub struct Manager {
    config: Config,
    metrics: Metrics,
    operator: Operator,
    term: lease::Term,
    /// The API server's address, for messages; empty if unknown.
    server: String,
    /// Where controllers run, if not where the manager does.
    workers: Option<Handle>,
    /// The running chart controllers, for previews.
    previews: Arc<Previews>,
}

impl Manager {
    /// A manager of this operator's controllers.
    pub(crate) fn new(config: Config, operator: Operator) -> Manager {
        Manager {
            config,
            metrics: Metrics::default(),
            operator,
            term: lease::Term::default(),
            server: String::new(),
            workers: None,
            previews: Arc::default(),
        }
    }

    /// Runs the controllers on another runtime. A reconcile that blocks its threads then delays neither the lease nor the probes, which stay on the
    /// runtime that [`run`](Self::run) is called on.
    #[must_use]
    pub fn controllers_on(self, workers: Handle) -> Manager {
        Manager { workers: Some(workers), ..self }
    }

    /// The chart controllers, once they run.
    pub(crate) fn previews(&self) -> Arc<Previews> {
        self.previews.clone()
    }

    /// Runs everything on the configured cluster until SIGTERM or SIGINT, then lets running reconciles finish and gives the lease
    /// up. A second signal ends it at once.
    ///
    /// # Errors
    /// Whatever keeps it from starting, a lost lease, a controller that ended.
    pub async fn run(self) -> Result<(), Error> {
        self.run_or_stop(CancellationToken::new()).await
    }

    /// Like [`run`](Self::run), but also ends, in the same way, when `shutdown` is cancelled.
    pub(crate) async fn run_or_stop(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        let cluster = client::find_cluster().await.map_err(client::Error::from)?;
        self.server = cluster.cluster_url.to_string().trim_end_matches('/').to_owned();
        let clients = self.clients(&cluster)?;
        let abort = CancellationToken::new();
        let signals = tokio::spawn(run::signals(shutdown.clone(), abort.clone()));
        let result = self.run_until_interrupted(clients, shutdown, abort).await;
        signals.abort();
        result
    }

    /// Creates a client for each runtime, so that neither waits for the other's connections.
    fn clients(&self, cluster: &kube::Config) -> Result<Clients, Error> {
        let connect = || client::connect(cluster.clone(), &self.metrics, &self.term);
        let own = connect()?;
        let _entered = self.workers.as_ref().map(Handle::enter);
        Ok(Clients { own, controllers: connect()? })
    }

    /// Runs everything with these clients until `shutdown` is cancelled, but drops everything when `abort` is cancelled.
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
        run::run(self, Clients { own: client.clone(), controllers: client }, shutdown).await
    }
}

/// The clients of a process.
struct Clients {
    /// For the lease, the reviews of tokens and the first contact.
    own: Client,
    /// For controllers.
    controllers: Client,
}

impl Default for Config {
    /// Upstream's defaults.
    fn default() -> Config {
        Config {
            controllers: ControllerConfig::default(),
            metrics_bind_address: ":8080".into(),
            metrics_tls: None,
            health_probe_bind_address: ":8081".into(),
            leader_elect: false,
            leader_election_id: String::new(),
            leader_election_namespace: String::new(),
            shutdown_grace: Duration::from_secs(8),
        }
    }
}
