//! One operator process: a whole manager that can be stopped, killed at any await, and started again with another
//! configuration.

use std::future::poll_fn;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use helm_operator::Operator;
use helm_operator::context::{ControllerConfig, Namespaces};
use helm_operator::manager::{Config, ProcessConfig};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::names::NAMESPACE;
use crate::network::Connection;
use crate::registry;
use crate::world::World;

/// The configuration of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The chart: `web1`, `web2` with one more object, or `web3`, which never becomes ready. `tiers1` to `tiers3` are
    /// the same in groups. `range` is the newest version of a registry, `pinned` the first one by its digest.
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
    /// Whether its client lacks the layers of a real process, to show that they are needed.
    #[serde(default)]
    pub bare: bool,
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
            bare: false,
        }
    }
}

impl Setup {
    /// Returns whether the chart is in the registry.
    pub fn is_pulled(&self) -> bool {
        matches!(&*self.chart, "range" | "pinned")
    }

    /// Returns whether the chart's objects are applied in the order of their groups.
    pub fn is_ordered(&self) -> bool {
        self.watch.contains(ORDERED)
    }

    /// Applies the chart's objects in the order of their groups from now on.
    pub fn order(&mut self) {
        self.chart = self.chart.replace("web", "tiers");
        // Without a limit, what never becomes ready is tried again for good.
        let retries = if self.chart.ends_with('3') && !self.watch.contains("retries") { "\nretries: 2" } else { "" };
        self.add(&format!("{ORDERED}\nprogressTimeout: 1m{retries}"));
    }

    /// Adds keys to the entry in watches.yaml.
    pub fn add(&mut self, keys: &str) {
        self.watch = format!("{}\n{keys}", self.watch).trim().to_owned();
    }
}

/// The key of watches.yaml that makes the order of groups count.
const ORDERED: &str = "sequencing: ordered";

/// A running process.
pub struct Process {
    alive: Arc<AtomicBool>,
    connection: Connection,
    stall: Arc<Stall>,
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
        world.state().checks.places.starts(name, setup);
        if setup.is_pulled() {
            // What it finds may be older or newer than what runs.
            world.state().checks.setup_changes();
        }
        let (alive, shutdown) = (Arc::new(AtomicBool::new(true)), CancellationToken::new());
        let connection = Connection::new(world.clone(), name, alive.clone());
        let manager = operator.manager(config(world, name, setup)?);
        let running: BoxFuture<'static, _> = match setup.bare {
            true => Box::pin(manager.run_until(connection.clone().bare_client(), shutdown.clone())),
            false => Box::pin(manager.run_over(connection.clone().hop(), shutdown.clone())),
        };
        let (world, name, stall) = (world.clone(), name.to_owned(), Arc::new(Stall::default()));
        let running = stall.clone().holding(running);
        let task = tokio::spawn(async move {
            let ended = running.await;
            let (elapsed, why) = (world.elapsed(), ended.err().map_or("in order".into(), |error| error.to_string()));
            world.state().trace.step(elapsed, &name, || format!("ended: {why}"));
        });
        Ok(Process { alive, connection, stall, shutdown, task })
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

    /// Pauses the thread that renews the lease for a while. Controllers, which have their own threads, keep running.
    pub fn stall(&self, time: Duration) {
        self.stall.begin(time);
    }

    /// Kills the process once the server has served this many further writes of it.
    pub fn kill_after(&self, writes: u64) {
        self.connection.cut_after(writes);
    }

    /// Returns whether it was killed after a write, as [`kill_after`](Self::kill_after) requests.
    pub fn is_cut(&self) -> bool {
        !self.alive.load(Ordering::Relaxed)
    }

    /// Returns whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

/// Until when a future is not polled.
#[derive(Default)]
struct Stall(Mutex<Option<Instant>>);

impl Stall {
    fn begin(&self, time: Duration) {
        *self.lock() = Some(Instant::now() + time);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a future that runs another one, except while this lasts.
    async fn holding<F: Future + Unpin>(self: Arc<Self>, mut future: F) -> F::Output {
        let mut end = Box::pin(sleep_until(Instant::now()));
        poll_fn(move |task| {
            if let Some(until) = self.lock().filter(|until| Instant::now() < *until) {
                end.as_mut().reset(until);
                if end.as_mut().poll(task).is_pending() {
                    return Poll::Pending;
                }
            }
            future.poll_unpin(task)
        })
        .await
    }
}

fn operator(setup: &Setup) -> anyhow::Result<Operator> {
    let (chart, pull) = match &*setup.chart {
        "range" => (registry::PLACE.into(), "pull: {version: '>=1.0.0', interval: 10s}".to_owned()),
        "pinned" => (registry::PLACE.into(), format!("pull: {{digest: '{}'}}", registry::digest_of(registry::FIRST))),
        on_disk => (charts()?.join(on_disk), String::new()),
    };
    let more: String = setup.watch.lines().chain(pull.lines()).map(|line| format!("  {line}\n")).collect();
    let entry =
        |kind| format!("- group: sim.example.com\n  version: v1\n  kind: {kind}\n  chart: {}\n{more}", chart.display());
    let kinds = if setup.sites { &["Web", "Site"][..] } else { &["Web"] };
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), kinds.iter().map(entry).collect::<String>())?;
    Ok(Operator::new().watches(file.path())?)
}

/// The files of the chart, except Chart.yaml. They are part of the program, so that it runs anywhere.
const CHART: [(&str, &str); 7] = [
    ("values.yaml", include_str!("../charts/web/values.yaml")),
    ("templates/_groups.tpl", include_str!("../charts/web/templates/_groups.tpl")),
    ("templates/config.yaml", include_str!("../charts/web/templates/config.yaml")),
    ("templates/jobs.yaml", include_str!("../charts/web/templates/jobs.yaml")),
    ("templates/secrets.yaml", include_str!("../charts/web/templates/secrets.yaml")),
    ("templates/volumes.yaml", include_str!("../charts/web/templates/volumes.yaml")),
    ("templates/workloads.yaml", include_str!("../charts/web/templates/workloads.yaml")),
];

/// Returns the files of a version of a chart: `web`, or `tiers`, which is the same with an order of its objects.
pub(crate) fn chart_files(chart: &str, version: &str) -> Vec<(&'static str, String)> {
    let text = |(file, text): (&'static str, &str)| match file {
        "values.yaml" if chart == "tiers" => (file, format!("{text}ordered: true\n")),
        _ => (file, text.to_owned()),
    };
    let metadata = ("Chart.yaml", format!("apiVersion: v2\nname: web\nversion: {version}\n"));
    CHART.into_iter().map(text).chain([metadata]).collect()
}

/// Returns the folder with the versions of the chart, which differ only in their number, and in whether their objects
/// have an order.
fn charts() -> anyhow::Result<&'static Path> {
    static CHARTS: OnceLock<tempfile::TempDir> = OnceLock::new();
    if let Some(made) = CHARTS.get() {
        return Ok(made.path());
    }
    // The folder's name comes from the thread's random generator, which the run also uses. Only the first run makes the
    // folder, and must not differ from later ones.
    let state = fastrand::get_seed();
    let made = tempfile::tempdir();
    fastrand::seed(state);
    let made = made?;
    for (name, version) in ["web", "tiers"].into_iter().flat_map(|name| (1..=3).map(move |version| (name, version))) {
        let to = made.path().join(format!("{name}{version}"));
        std::fs::create_dir_all(to.join("templates"))?;
        for (file, text) in chart_files(name, &format!("{version}.0.0")) {
            std::fs::write(to.join(file), text)?;
        }
    }
    // Another thread may have been faster.
    Ok(CHARTS.get_or_init(|| made).path())
}

fn config(world: &Arc<World>, name: &str, setup: &Setup) -> anyhow::Result<Config> {
    let nowhere = || "0".to_owned();
    let controllers = ControllerConfig {
        namespaces: Namespaces::parse(&setup.namespaces),
        pod_name: Some(name.to_owned()),
        reconcile_period: Duration::from_secs(setup.period),
        max_concurrent_reconciles: 4,
        ..ControllerConfig::default()
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
    let mut charts = defaults.charts;
    if setup.is_pulled() {
        charts.chart_cache = world.chart_cache()?.join("charts");
        charts.chart_hop = Some(registry::hop(world, name));
    }
    Ok(Config { process, charts })
}
