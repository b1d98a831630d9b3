//! The `workqueue_*` metrics, with the names, labels and buckets of controller-runtime's `pkg/metrics/workqueue.go`.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use outside::sync;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::ReconcileResult;

/// The labels of a queue, which has its controller's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    controller: Arc<str>,
    name: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DepthLabels {
    controller: Arc<str>,
    name: Arc<str>,
    /// Always empty, as for upstream's queues without priorities.
    priority: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// The metric families of all queues.
#[derive(Debug)]
pub(super) struct Queues {
    depth: Family<DepthLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    waited: Family<QueueLabels, Histogram, fn() -> Histogram>,
    worked: Family<QueueLabels, Histogram, fn() -> Histogram>,
    unfinished: Family<QueueLabels, Seconds>,
    longest: Family<QueueLabels, Seconds>,
    retries: Family<QueueLabels, Counter>,
}

/// The metrics of one work queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    waited: Histogram,
}

/// The start time of each running reconcile, by controller.
#[derive(Debug, Default)]
pub(super) struct RunningWork {
    starts: Mutex<HashMap<Arc<str>, BTreeMap<u64, Instant>>>,
    next: AtomicU64,
}

impl QueueMetrics {
    /// Counts a key that was added and not waiting before.
    pub fn added(&self) {
        self.adds.inc();
        self.depth.inc();
    }

    /// Counts a key that was handed out after waiting this long.
    pub fn taken(&self, waited: Duration) {
        self.depth.dec();
        self.waited.observe(waited.as_secs_f64());
    }

    /// Counts a key that left the queue because nothing remained to be done.
    pub fn left(&self) {
        self.depth.dec();
    }
}

impl Queues {
    pub(super) fn new() -> Queues {
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(10e-9, 10.0, 12));
        Queues {
            depth: Family::default(),
            adds: Family::default(),
            waited: Family::new_with_constructor(histogram),
            worked: Family::new_with_constructor(histogram),
            unfinished: Family::default(),
            longest: Family::default(),
            retries: Family::default(),
        }
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register("workqueue_depth", "Keys that wait in the queue", self.depth.clone());
        r.register("workqueue_adds", "Keys added to the queue", self.adds.clone());
        r.register("workqueue_queue_duration_seconds", "How long a key waits in the queue", self.waited.clone());
        r.register("workqueue_work_duration_seconds", "How long the work on a key takes", self.worked.clone());
        r.register(
            "workqueue_unfinished_work_seconds",
            "How long all running work has taken so far; grows while work is stuck",
            self.unfinished.clone(),
        );
        r.register(
            "workqueue_longest_running_processor_seconds",
            "How long the longest running work has taken so far",
            self.longest.clone(),
        );
        r.register("workqueue_retries", "Keys added again after a failure", self.retries.clone());
    }

    /// Initialises a controller's work queue series to zero.
    pub(super) fn show_work(&self, controller: &Arc<str>) {
        let labels = labels(controller);
        drop(self.worked.get_or_create(&labels));
        drop(self.unfinished.get_or_create(&labels));
        drop(self.longest.get_or_create(&labels));
        drop(self.retries.get_or_create(&labels));
    }

    pub(super) fn queue(&self, controller: &Arc<str>) -> QueueMetrics {
        let (labels, name) = (labels(controller), controller.clone());
        let depth = DepthLabels { controller: controller.clone(), name, priority: "" };
        QueueMetrics {
            depth: self.depth.get_or_create_owned(&depth),
            adds: self.adds.get_or_create_owned(&labels),
            waited: self.waited.get_or_create_owned(&labels),
        }
    }

    pub(super) fn worked(&self, controller: &Arc<str>, time: Duration, result: ReconcileResult) {
        let labels = labels(controller);
        self.worked.get_or_create(&labels).observe(time.as_secs_f64());
        if result == ReconcileResult::Error {
            self.retries.get_or_create(&labels).inc();
        }
    }
}

impl RunningWork {
    /// Records the start of a reconcile. Returns the number to end it with.
    pub(super) fn start(&self, controller: &Arc<str>, at: Instant) -> u64 {
        let id = self.next.fetch_add(1, Relaxed);
        self.starts().entry(controller.clone()).or_default().insert(id, at);
        id
    }

    pub(super) fn end(&self, controller: &Arc<str>, id: u64) {
        if let Some(starts) = self.starts().get_mut(controller) {
            starts.remove(&id);
        }
    }

    /// Sets the gauges that grow while work is running.
    pub(super) fn show(&self, queues: &Queues) {
        let now = Instant::now();
        for (controller, starts) in &*self.starts() {
            let labels = labels(controller);
            let seconds = starts.values().map(|start| now.saturating_duration_since(*start).as_secs_f64());
            let (sum, longest) = seconds.fold((0.0, 0.0), |(sum, longest), time| (sum + time, f64::max(longest, time)));
            queues.unfinished.get_or_create(&labels).set(sum);
            queues.longest.get_or_create(&labels).set(longest);
        }
    }

    fn starts(&self) -> MutexGuard<'_, HashMap<Arc<str>, BTreeMap<u64, Instant>>> {
        sync::lock(&self.starts)
    }
}

fn labels(controller: &Arc<str>) -> QueueLabels {
    QueueLabels { controller: controller.clone(), name: controller.clone() }
}
