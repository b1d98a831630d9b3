//! Hands jobs to workers: starts one on need, keeps it while there is work, and ends it when it has been idle.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use golibs::shorten::{MAX_MESSAGE, shorten};
use helm::engine::Capabilities;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::ending::Ending;
use super::message::{Confinement, Failure, Job};
use super::output::Output;
use super::process::{GRACE, LIFE, Program, Worker};
use super::settings::Rendering;
use super::worker::Settings;
use crate::lookup::ClusterLookup;
use crate::metrics::{Metrics, RenderOutcome};
use crate::reconciler::{RenderError, lock};

/// How long a worker may be idle. It ends at most twice as late.
const IDLE: Duration = Duration::from_secs(10);

/// The workers of a process.
///
/// Each renders one release at a time, so what ends it is that release's fault. The worker of a render that is dropped is killed.
pub(crate) struct Workers {
    rendering: Rendering,
    program: Program,
    permits: Semaphore,
    /// What workers may read.
    folders: Mutex<BTreeSet<PathBuf>>,
    idle: Mutex<Idle>,
    has_reported: AtomicBool,
    metrics: Metrics,
    /// The processes that it started.
    #[cfg(test)]
    started: Mutex<Vec<u32>>,
}

#[derive(Default)]
struct Idle {
    workers: Vec<(Worker, Instant)>,
    /// Whether a task ends them in time.
    is_watched: bool,
}

impl Workers {
    /// No workers yet; `None` if charts are rendered in this process.
    pub(crate) fn new(rendering: Rendering, program: Program, metrics: Metrics) -> Option<Arc<Workers>> {
        let permits = Semaphore::new(rendering.workers);
        let (folders, idle, has_reported) = (Mutex::default(), Mutex::default(), AtomicBool::default());
        let workers = Workers {
            rendering,
            program,
            permits,
            folders,
            idle,
            has_reported,
            metrics,
            #[cfg(test)]
            started: Mutex::default(),
        };
        (rendering.workers > 0).then(|| Arc::new(workers))
    }

    /// Lets workers that start from now on read a chart.
    pub(crate) fn admit(&self, chart: &Path) {
        lock(&self.folders).insert(readable(chart));
    }

    /// Renders a job as soon as a worker is free.
    ///
    /// # Errors
    /// The chart's own, or `RenderLimit` with the limit that ended the worker.
    pub(crate) async fn render(
        self: &Arc<Self>,
        job: Job,
        capabilities: &Arc<Capabilities>,
        lookup: &ClusterLookup,
    ) -> Result<Output, RenderError> {
        let rendered = self.attempt(&Arc::new(job), capabilities, lookup).await;
        self.metrics.render(match &rendered {
            Ok(Ok(_)) => RenderOutcome::Rendered,
            Ok(Err(_)) => RenderOutcome::Failed,
            Err(_) => RenderOutcome::Limit,
        });
        match rendered {
            Ok(answer) => answer.map_err(failed),
            Err(ending) => Err(ending.error(&self.rendering)),
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        job: &Arc<Job>,
        capabilities: &Arc<Capabilities>,
        lookup: &ClusterLookup,
    ) -> Result<Result<Output, Failure>, Ending> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let mut is_second = false;
        loop {
            let kept = if is_second { None } else { self.take(job) };
            let mut worker = kept.map_or_else(|| self.start(), Ok)?;
            match worker.render(job, capabilities, lookup, self.rendering.timeout).await {
                Ok(answer) => {
                    self.keep(worker);
                    return Ok(answer);
                }
                Err(ending) if !is_second && ending.may_pass(worker.is_shared()) => is_second = true,
                Err(ending) => return Err(ending),
            }
        }
    }

    fn start(&self) -> Result<Worker, Ending> {
        let cpu_seconds = self.rendering.timeout.saturating_add(GRACE).saturating_mul(LIFE + 2).as_secs();
        let folders = lock(&self.folders).iter().cloned().collect();
        let settings = Settings { memory: self.rendering.memory, cpu_seconds, folders };
        let worker = Worker::start(&self.program, &settings).map_err(Ending::NotStarted)?;
        #[cfg(test)]
        lock(&self.started).extend(worker.id());
        Ok(worker)
    }

    /// An idle worker, at best one that has the chart in memory.
    fn take(&self, job: &Job) -> Option<Worker> {
        let mut idle = lock(&self.idle);
        let at = idle.workers.iter().rposition(|(worker, _)| worker.knows(job));
        let at = at.or_else(|| idle.workers.len().checked_sub(1))?;
        Some(idle.workers.swap_remove(at).0)
    }

    fn keep(self: &Arc<Self>, mut worker: Worker) {
        if let Some(confinement) = worker.take_confinement() {
            self.report(confinement);
        }
        if worker.is_spent(self.rendering.timeout) {
            return;
        }
        let mut idle = lock(&self.idle);
        idle.workers.push((worker, Instant::now()));
        if !std::mem::replace(&mut idle.is_watched, true) {
            tokio::spawn(end_idle(Arc::downgrade(self)));
        }
    }

    /// Logs once what the kernel does not restrict.
    fn report(&self, Confinement { files, calls }: Confinement) {
        if (files && calls) || self.has_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            landlock = files,
            seccomp = calls,
            "The kernel lacks restrictions for render workers; limits of memory, time and files hold, and workers have no token"
        );
    }

    /// The processes that it started so far.
    #[cfg(test)]
    pub(crate) fn started(&self) -> Vec<u32> {
        lock(&self.started).clone()
    }

    /// How many workers are idle.
    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        lock(&self.idle).workers.len()
    }
}

async fn end_idle(workers: Weak<Workers>) {
    loop {
        sleep(IDLE).await;
        let Some(workers) = workers.upgrade() else { return };
        let mut idle = lock(&workers.idle);
        idle.workers.retain(|(_, since)| since.elapsed() < IDLE);
        if idle.workers.is_empty() {
            idle.is_watched = false;
            return;
        }
    }
}

/// Charts may link to files beside them, as in [`helm::chart::Chart::load`].
fn readable(chart: &Path) -> PathBuf {
    let chart = std::fs::canonicalize(chart).unwrap_or_else(|_| chart.to_owned());
    match chart.parent() {
        Some(parent) if parent.parent().is_some() => parent.to_owned(),
        _ => chart,
    }
}

fn failed(failure: Failure) -> RenderError {
    let message = shorten(&failure.message, MAX_MESSAGE).into_owned();
    RenderError { reason: failure.reason.text(), message }
}
