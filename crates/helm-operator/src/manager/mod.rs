//! The operator's process: charts and reconcilers under one [`controller::Manager`].
//!
//! Counterpart: controller-runtime's `pkg/manager`.

pub(crate) mod charts;
mod definitions;
mod integers;
pub(crate) mod operator;
pub(crate) mod secrecy;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub use controller::manager::{
    CertificateError, CertificateFiles, ClientError, Config as ProcessConfig, Error as RunError, Hop, Lost, NoCluster,
    ServerError, Tls,
};
use controller::runtime::readiness::Readiness;
use controller::{manager, reconciler};
use kube::Client;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::charts::ChartConfig;
use crate::charts::previews::Previews;
use crate::charts::rehearsals::Rehearsals;
use crate::charts::running::Running;
use crate::watches;
use crate::web::Web;
pub use operator::Operator;

/// The manager's configuration, from the command line and the environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings of the process and of all controllers. Default: controller-runtime's, and `helm-operator` as the
    /// program.
    pub process: ProcessConfig,
    /// The settings for all chart controllers.
    pub charts: ChartConfig,
}

/// The reason why a manager cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// watches.yaml cannot be used.
    #[error(transparent)]
    Watches(#[from] watches::Error),
    /// A chart cannot be served.
    #[error("cannot serve {kind} with chart {chart:?}{}", place(*line))]
    Chart {
        /// The line of its entry in watches.yaml, starting at 1; 0 if unknown.
        line: u64,
        /// The custom resource's kind.
        kind: String,
        /// The chart's path in watches.yaml.
        chart: String,
        /// The cause.
        source: reconciler::Error,
    },
    /// The entries of the watches files and the watches that the program adds contradict each other.
    #[error("the kinds that the operator serves contradict each other")]
    Contradiction(#[source] watches::Error),
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
        /// The cause.
        source: reconciler::Error,
    },
    /// The process cannot start, or had to stop.
    #[error(transparent)]
    Run(#[from] RunError),
}

fn place(line: u64) -> String {
    if line == 0 { String::new() } else { format!(" (line {line} of the watches file)") }
}

/// Runs an operator's charts and reconcilers until it is asked to stop. Created by [`Operator::manager`]. Apart from
/// loading charts, it behaves like [`controller::Manager`] and gives the same guarantees. Chart controllers survive any
/// interruption: the next process continues the actions.
pub struct Manager {
    config: Config,
    operator: Operator,
    /// The runtime for controllers, if it is not the manager's.
    workers: Option<Handle>,
    /// The chart controllers, which appear once they run, for previews.
    pub(crate) previews: Arc<Previews>,
    /// The chart controllers that only rehearse.
    rehearsals: Arc<Rehearsals>,
}

impl Manager {
    /// Creates a manager of this operator's controllers.
    pub(crate) fn new(config: Config, operator: Operator) -> Manager {
        Manager { config, operator, workers: None, previews: Arc::default(), rehearsals: Arc::default() }
    }

    /// Runs the controllers on another runtime, and serves metrics, webhooks and the page there. What blocks its threads
    /// then delays neither the lease nor the probes, which stay on the runtime that [`run`](Self::run) is called on.
    #[must_use]
    pub fn controllers_on(self, workers: Handle) -> Manager {
        Manager { workers: Some(workers), ..self }
    }

    /// Makes chart controllers reconcile nothing by themselves. Returns them, which appear once they have listed
    /// everything.
    pub(crate) fn rehearsing(self) -> (Manager, Arc<Rehearsals>) {
        let rehearsals = Arc::new(Rehearsals::on());
        (Manager { rehearsals: rehearsals.clone(), ..self }, rehearsals)
    }

    /// Loads every chart, then runs everything on the configured cluster until SIGTERM or SIGINT. Then lets running
    /// reconciles finish and releases the lease. A second signal ends it at once.
    ///
    /// # Errors
    /// The manager cannot start, the lease is lost, or a controller ended.
    pub async fn run(self) -> Result<(), Error> {
        self.run_or_stop(CancellationToken::new()).await
    }

    /// Runs like [`run`](Self::run), and also stops, in the same way, when `shutdown` is cancelled.
    pub(crate) async fn run_or_stop(self, shutdown: CancellationToken) -> Result<(), Error> {
        Ok(self.of_controllers()?.run_or_stop(shutdown).await?)
    }

    /// Runs everything with this client until `shutdown` is cancelled.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_until(self, client: Client, shutdown: CancellationToken) -> Result<(), Error> {
        Ok(self.of_controllers()?.run_until(client, shutdown).await?)
    }

    /// Runs everything until `shutdown` is cancelled, with the clients of [`run`](Self::run), whose requests end at
    /// `hop`.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_over(self, hop: Hop, shutdown: CancellationToken) -> Result<(), Error> {
        Ok(self.of_controllers()?.run_over(hop, shutdown).await?)
    }

    /// Returns the manager of the operator's controllers.
    pub(crate) fn of_controllers(self) -> Result<manager::Manager, Error> {
        let Manager { config, operator, workers, previews, rehearsals } = self;
        let (file, charts) = (operator.file.clone(), Arc::new(config.charts.clone()));
        let webhooks = operator.webhooks.clone();
        let controllers = operator.controllers()?;
        let is_empty = controllers.is_empty() && webhooks.is_empty();
        let replica = config.process.controllers.pod_name.clone();
        let manager = manager::Manager::new(config.process).controllers(controllers).webhooks(webhooks);
        let running = Arc::<Running>::default();
        let web = Web::of(running.clone(), manager.readiness().clone(), manager.holder().clone(), replica);
        let manager = manager.share(charts).share(previews).share(rehearsals).share(running).site(Arc::new(web));
        if is_empty {
            report_emptiness(file.as_deref(), manager.readiness());
        }
        Ok(match workers {
            Some(workers) => manager.controllers_on(workers),
            None => manager,
        })
    }
}

/// Warns that nothing will ever be served.
fn report_emptiness(file: Option<&Path>, readiness: &Readiness) {
    let file = file.map_or_else(|| "watches.yaml".to_owned(), |file| file.display().to_string());
    let why = "it has no entries, so nothing is served; add one, for example with 'create api --group GROUP --version VERSION --kind KIND'";
    tracing::warn!(
        file,
        "The watches file has no entries, so nothing is served: add one, for example with 'create api'"
    );
    readiness.require(&file, why);
}

impl Default for Config {
    /// Returns upstream's defaults.
    fn default() -> Config {
        let process = ProcessConfig { program: "helm-operator".into(), ..ProcessConfig::default() };
        Config { process, charts: ChartConfig::default() }
    }
}
