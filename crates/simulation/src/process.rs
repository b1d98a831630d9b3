//! One operator process: a whole manager, which can be asked to end, killed at any await, and started again in another configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helm_operator::Operator;
use helm_operator::context::ControllerConfig;
use helm_operator::manager::Config;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::network::Connection;
use crate::world::{NAMESPACE, World};

/// How a process is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The chart's folder below `charts`.
    pub chart: String,
    /// More keys of the entry in watches.yaml.
    pub watch: String,
    /// `--reconcile-period`, in seconds.
    pub period: u64,
    /// Whether it takes part in the election.
    pub elects: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { chart: "web".into(), watch: String::new(), period: 60, elects: true }
    }
}

/// A process while it runs.
pub struct Process {
    alive: Arc<AtomicBool>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Process {
    /// Starts a process of this name.
    ///
    /// # Errors
    /// Its watches.yaml cannot be used.
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
            world.state().trace.step(elapsed, &name, &format!("ended: {why}"));
        });
        Ok(Process { alive, shutdown, task })
    }

    /// Asks the process to end.
    pub fn stop(&self) {
        self.shutdown.cancel();
    }

    /// Ends the process between two steps. What it has sent still arrives.
    pub fn kill(&self) {
        self.alive.store(false, Ordering::Relaxed);
        self.task.abort();
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

fn operator(setup: &Setup) -> anyhow::Result<Operator> {
    let charts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("charts");
    let chart = charts.join(&setup.chart);
    let more: String = setup.watch.lines().map(|line| format!("  {line}\n")).collect();
    let entry = format!("- group: sim.example.com\n  version: v1\n  kind: Web\n  chart: {}\n{more}", chart.display());
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), entry)?;
    Ok(Operator::new().watches(file.path())?)
}

fn config(name: &str, setup: &Setup) -> Config {
    let nowhere = || "0".to_owned();
    let controllers = ControllerConfig {
        pod_name: Some(name.to_owned()),
        reconcile_period: Duration::from_secs(setup.period),
        max_concurrent_reconciles: 4,
        ..ControllerConfig::default()
    };
    Config {
        controllers,
        metrics_bind_address: nowhere(),
        health_probe_bind_address: nowhere(),
        leader_elect: setup.elects,
        leader_election_id: "operator".into(),
        leader_election_namespace: NAMESPACE.into(),
        ..Config::default()
    }
}
