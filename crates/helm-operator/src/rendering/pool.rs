//! Hands jobs to workers: starts one when needed, keeps it while there is work, and ends it when it has been idle.
//!
//! No render makes others wait for long. A render that failed before runs in a separate worker, with low priority. It
//! never takes the last permit, unless there is only one; then there is a cooldown after each such render. Any other
//! render that takes long while others wait is postponed, and then repeated like one that failed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use controller::runtime::priority::Priority;
use controller::runtime::throttle::{Cooldown, Pacer};
use helm::engine::Capabilities;
use outside::sync::lock;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep};

use super::ending::Ending;
use super::lookup::ClusterLookup;
use super::message::{Confinement, Failure, Job};
use super::output::Output;
use super::process::{GRACE, LIFE, Program, Worker};
use super::readable;
use super::request::{RenderError, Rendered};
use super::settings::Rendering;
use super::worker::{OBJECTS, Settings};
use crate::chart_metrics::{ChartMetrics, RenderOutcome};

/// The maximum time that a worker may be idle. An idle worker ends after at most twice this time.
const IDLE: Duration = Duration::from_secs(10);

/// The maximum time that a render may make others wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// The cooldown after a retry that uses the only worker: others have it most of the time.
const COOLDOWN: Cooldown = Cooldown { factor: 3, longest: Duration::MAX };

/// The part of a render's memory that one response to a lookup may have: parsed, it takes several times as much.
const LOOKUP: u64 = 8;

/// The workers of a process.
///
/// Each renders one release at a time, so a crash is that release's fault. The worker of a render that is dropped is
/// killed.
pub(crate) struct Workers {
    rendering: Rendering,
    program: Program,
    permits: Semaphore,
    /// The number of renders that wait for a permit.
    waiting: watch::Sender<usize>,
    pub(super) patience: Duration,
    /// The cooldown between retries, if there is only one worker.
    retries: Pacer,
    /// The files and folders that workers may read.
    folders: Mutex<BTreeSet<PathBuf>>,
    idle: Mutex<Idle>,
    has_reported: AtomicBool,
    metrics: ChartMetrics,
    #[cfg(test)]
    started: Mutex<Vec<u32>>,
}

#[derive(Default)]
struct Idle {
    workers: Vec<(Worker, Instant)>,
    /// Whether a task ends idle workers.
    is_watched: bool,
}

impl Workers {
    /// Creates an empty pool; returns `None` if charts are rendered in this process.
    pub(crate) fn new(rendering: Rendering, program: Program, metrics: ChartMetrics) -> Option<Arc<Workers>> {
        let permits = Semaphore::new(rendering.workers);
        let (folders, idle, has_reported) = (Mutex::default(), Mutex::default(), AtomicBool::default());
        let workers = Workers {
            rendering,
            program,
            permits,
            waiting: watch::Sender::default(),
            patience: PATIENCE,
            retries: Pacer::new(COOLDOWN),
            folders,
            idle,
            has_reported,
            metrics,
            #[cfg(test)]
            started: Mutex::default(),
        };
        (rendering.workers > 0).then(|| Arc::new(workers))
    }

    /// Returns the maximum memory of the objects of one render in this process, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        self.rendering.memory / OBJECTS
    }

    /// Returns the maximum size of a response to a lookup, in bytes.
    pub(crate) fn largest_answer(&self) -> u64 {
        self.rendering.memory / LOOKUP
    }

    /// Lets workers that start from now on read a chart.
    pub(crate) fn admit(&self, chart: &Path) {
        lock(&self.folders).extend(readable::of_chart(chart));
    }

    /// Lets workers that start from now on read a chart and its siblings.
    pub(crate) fn admit_beside(&self, chart: &Path) {
        lock(&self.folders).insert(readable::beside(chart));
    }

    /// Lets workers that start from now on read this file or folder.
    pub(crate) fn admit_copy(&self, copy: &Path) {
        lock(&self.folders).insert(copy.to_owned());
    }

    /// Renders a job as soon as a worker is free.
    ///
    /// # Errors
    /// Returns the chart's own error, `RenderLimit` with the limit that ended the worker, or the error of a lookup that
    /// was not answered.
    pub(crate) async fn render(
        self: &Arc<Self>,
        job: Job,
        capabilities: &Arc<Capabilities>,
        lookup: &ClusterLookup,
    ) -> Result<Rendered<Output>, RenderError> {
        let rendered = self.attempt(&Arc::new(job), capabilities, lookup).await;
        self.metrics.render(match &rendered {
            Ok(Rendered::Done(Ok(_))) => RenderOutcome::Rendered,
            Ok(Rendered::Done(Err(_))) => RenderOutcome::Failed,
            Ok(Rendered::Postponed) => RenderOutcome::Postponed,
            Err(_) => RenderOutcome::Limit,
        });
        match rendered {
            Ok(Rendered::Done(Ok(output))) => Ok(Rendered::Done(output)),
            Ok(Rendered::Postponed) => Ok(Rendered::Postponed),
            Ok(Rendered::Done(Err(failure))) => Err(lookup.redact(failure.into()).await),
            Err(ending) => Err(ending.error(&self.rendering)),
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        job: &Arc<Job>,
        capabilities: &Arc<Capabilities>,
        lookup: &ClusterLookup,
    ) -> Result<Rendered<Result<Output, Failure>>, Ending> {
        let _permit = self.permit(job).await;
        let _task = (job.priority == Priority::Retry && self.rendering.workers == 1).then(|| self.retries.begin());
        let mut is_second = false;
        loop {
            let kept = if is_second { None } else { self.take(job) };
            let mut worker = kept.map_or_else(|| self.start(job.priority), Ok)?;
            let rendered = tokio::select! {
                biased;
                rendered = worker.render(job, capabilities, lookup, self.rendering.timeout) => rendered,
                () = self.impatience(), if job.priority == Priority::Normal => return Ok(Rendered::Postponed),
            };
            match rendered {
                Ok(answer) => {
                    self.keep(worker);
                    return Ok(Rendered::Done(answer));
                }
                Err(ending) if !is_second && ending.may_pass(worker.past) => is_second = true,
                Err(ending) => return Err(ending),
            }
        }
    }

    /// Waits until the cooldown of retries is over.
    pub(crate) async fn rested(&self) {
        self.retries.ready().await;
    }

    /// Waits for a permit; a retry first waits for the end of the cooldown. The semaphore is never closed.
    async fn permit(&self, job: &Job) -> Option<SemaphorePermit<'_>> {
        if job.priority == Priority::Retry {
            self.rested().await;
        }
        if let Ok(permit) = self.permits.try_acquire() {
            return Some(permit);
        }
        let _waiting = Waiting::begin(&self.waiting);
        self.permits.acquire().await.ok()
    }

    /// Waits until a render that starts now makes others wait for too long.
    async fn impatience(&self) {
        sleep(self.patience).await;
        // The sender lives as long as the workers.
        _ = self.waiting.subscribe().wait_for(|waiting| *waiting > 0).await;
    }

    fn start(&self, priority: Priority) -> Result<Worker, Ending> {
        let cpu_seconds = self.rendering.timeout.saturating_add(GRACE).saturating_mul(LIFE + 2).as_secs();
        let folders = lock(&self.folders).iter().cloned().collect();
        let settings = Settings { memory: self.rendering.memory, cpu_seconds, folders, priority };
        let worker = Worker::start(&self.program, &settings).map_err(Ending::NotStarted)?;
        #[cfg(test)]
        lock(&self.started).extend(worker.id());
        Ok(worker)
    }

    /// Returns an idle worker with the job's priority, preferably one that has already loaded the chart. If there is
    /// none and no process may be added, ends an idle worker of the other priority to make room for a new worker.
    fn take(&self, job: &Job) -> Option<Worker> {
        let mut idle = lock(&self.idle);
        let is_fit = |worker: &Worker| worker.priority == job.priority;
        let at = idle.workers.iter().rposition(|(worker, _)| is_fit(worker) && worker.knows(job));
        let at = at.or_else(|| idle.workers.iter().rposition(|(worker, _)| is_fit(worker)));
        let busy = self.rendering.workers - self.permits.available_permits();
        if at.is_none() && idle.workers.len() + busy > self.rendering.workers {
            idle.workers.pop();
        }
        Some(idle.workers.swap_remove(at?).0)
    }

    fn keep(self: &Arc<Self>, mut worker: Worker) {
        if let Some(confinement) = worker.confinement.take() {
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

    /// Logs, once, which restrictions the kernel does not support.
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

    /// Returns the processes that have been started.
    #[cfg(test)]
    pub(crate) fn started(&self) -> Vec<u32> {
        lock(&self.started).clone()
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        lock(&self.idle).workers.len()
    }
}

/// A render that waits for a permit, until it is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl Waiting<'_> {
    fn begin(count: &watch::Sender<usize>) -> Waiting<'_> {
        count.send_modify(|waiting| *waiting += 1);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
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
