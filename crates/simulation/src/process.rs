//! One operator process: a whole manager that can be stopped, killed at any await, and started again with another
//! configuration.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use helm_operator::Operator;
use helm_operator::context::{ControllerConfig, Namespaces};
use helm_operator::manager::{Config, ProcessConfig};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::names::NAMESPACE;
use crate::network::Connection;
use crate::world::World;

/// The configuration of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The chart: `web1`, `web2` with one more object, or `web3`, which never becomes ready.
    pub chart: String,
    /// Additional keys of the entry in watches.yaml.
    pub watch: String,
    /// `--reconcile-period`, in seconds.
    pub period: u64,
    /// Whether it takes part in leader election.
    pub elects: bool,
    /// `WATCH_NAMESPACE`.
    #[serde(default)]
    pub namespaces: String,
    /// Whether it also serves another kind with the same chart.
    #[serde(default)]
    pub sites: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            chart: "web1".into(),
            watch: String::new(),
            period: 60,
            elects: true,
            namespaces: String::new(),
            sites: false,
        }
    }
}

/// A running process.
pub struct Process {
    alive: Arc<AtomicBool>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Process {
    /// Starts a process with this name.
    ///
    /// # Errors
    /// Fails if its watches.yaml is invalid.
    pub fn start(world: &Arc<World>, name: &str, setup: &Setup) -> anyhow::Result<Process> {
        let operator = operator(setup)?;
        let (alive, shutdown) = (Arc::new(AtomicBool::new(true)), CancellationToken::new());
        let connection = Connection { world: world.clone(), name: name.into(), alive: alive.clone() };
        let manager = operator.manager(config(name, setup));
        let running = manager.run_until(connection.client(), shutdown.clone());
        let (world, name) = (world.clone(), name.to_owned());
        let task = tokio::spawn(async move {
            let ended = running.await;
            let (elapsed, why) = (world.elapsed(), ended.err().map_or("in order".into(), |error| error.to_string()));
            world.state().trace.step(elapsed, &name, || format!("ended: {why}"));
        });
        Ok(Process { alive, shutdown, task })
    }

    /// Requests a graceful shutdown.
    pub fn stop(&self) {
        self.shutdown.cancel();
    }

    /// Kills the process between two steps. Requests in flight still arrive.
    pub fn kill(&self) {
        self.alive.store(false, Ordering::Relaxed);
        self.task.abort();
    }

    /// Returns whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

fn operator(setup: &Setup) -> anyhow::Result<Operator> {
    let chart = charts()?.join(&setup.chart);
    let more: String = setup.watch.lines().map(|line| format!("  {line}\n")).collect();
    let entry =
        |kind| format!("- group: sim.example.com\n  version: v1\n  kind: {kind}\n  chart: {}\n{more}", chart.display());
    let kinds = if setup.sites { &["Web", "Site"][..] } else { &["Web"] };
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), kinds.iter().map(entry).collect::<String>())?;
    Ok(Operator::new().watches(file.path())?)
}

/// The files of the chart, except Chart.yaml. They are part of the program, so that it runs anywhere.
const CHART: [(&str, &str); 6] = [
    ("values.yaml", include_str!("../charts/web/values.yaml")),
    ("templates/config.yaml", include_str!("../charts/web/templates/config.yaml")),
    ("templates/jobs.yaml", include_str!("../charts/web/templates/jobs.yaml")),
    ("templates/secrets.yaml", include_str!("../charts/web/templates/secrets.yaml")),
    ("templates/volumes.yaml", include_str!("../charts/web/templates/volumes.yaml")),
    ("templates/workloads.yaml", include_str!("../charts/web/templates/workloads.yaml")),
];

/// Returns the folder with the versions of the chart, which differ only in their number.
fn charts() -> anyhow::Result<&'static Path> {
    static CHARTS: OnceLock<tempfile::TempDir> = OnceLock::new();
    if let Some(made) = CHARTS.get() {
        return Ok(made.path());
    }
    let made = tempfile::tempdir()?;
    for version in 1..=3 {
        let to = made.path().join(format!("web{version}"));
        std::fs::create_dir_all(to.join("templates"))?;
        std::fs::write(to.join("Chart.yaml"), format!("apiVersion: v2\nname: web\nversion: {version}.0.0\n"))?;
        for (name, text) in CHART {
            std::fs::write(to.join(name), text)?;
        }
    }
    // Another thread may have been faster.
    Ok(CHARTS.get_or_init(|| made).path())
}

fn config(name: &str, setup: &Setup) -> Config {
    let nowhere = || "0".to_owned();
    let controllers = ControllerConfig {
        namespaces: Namespaces::parse(&setup.namespaces),
        pod_name: Some(name.to_owned()),
        reconcile_period: Duration::from_secs(setup.period),
        max_concurrent_reconciles: 4,
    };
    let defaults = Config::default();
    let process = ProcessConfig {
        controllers,
        metrics_bind_address: nowhere(),
        health_probe_bind_address: nowhere(),
        leader_elect: setup.elects,
        leader_election_id: "operator".into(),
        leader_election_namespace: NAMESPACE.into(),
        ..defaults.process
    };
    Config { process, ..defaults }
}
