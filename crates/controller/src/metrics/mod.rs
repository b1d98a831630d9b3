//! The operator's metrics, under the names that controller-runtime and operator-sdk use.
//!
//! Labels are bounded: there are few controllers, results and reasons. Only `resource_created_at_seconds` grows with
//! the number of custom resources, as upstream's does. Counterpart: controller-runtime's `pkg/metrics` and
//! operator-lib's `handler/instrumented`.

mod families;
mod format;
#[cfg(target_os = "linux")]
mod process;
mod queue;
mod runtime;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::core::GroupVersionKind;
use outside::sync;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

pub use families::WATCH_PANICS;
use families::{ControllerLabels, Families, OutcomeLabels, ResultLabels};
pub use families::{Notified, ReconcileResult};
pub use format::Format;
pub use queue::QueueMetrics;

/// The process's metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Families>);

impl Default for Metrics {
    /// Creates the metrics of a program called `controller`.
    fn default() -> Metrics {
        Metrics::of("controller")
    }
}

impl Metrics {
    /// Creates the metrics of a program with this name, in lower case with `_` between words: `PROGRAM_outcomes_total`.
    pub fn of(program: &str) -> Metrics {
        Metrics(Arc::new(Families::new(program)))
    }

    /// Registers further families, to be scraped with the others.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut sync::lock(&self.0.registry));
    }

    /// Returns all metrics as text.
    pub fn encode(&self, format: Format) -> String {
        self.0.running.show(&self.0.queues);
        format.encode(&sync::lock(&self.0.registry))
    }

    /// Sets how many reconciles of a controller may run concurrently, and initialises its other metrics to zero.
    pub fn controller(&self, controller: &Arc<str>, max_concurrent: usize) {
        let labels = ControllerLabels { controller: controller.clone() };
        self.0.max_concurrent.get_or_create(&labels).set(i64::try_from(max_concurrent).unwrap_or(i64::MAX));
        drop(self.0.active.get_or_create(&labels));
        drop(self.0.errors.get_or_create(&labels));
        drop(self.0.panics.get_or_create(&labels));
        for result in [ReconcileResult::Success, ReconcileResult::RequeueAfter, ReconcileResult::Error] {
            drop(self.0.reconciles.get_or_create(&ResultLabels { controller: controller.clone(), result }));
        }
        self.0.queues.show_work(controller);
    }

    /// Returns the metrics of a controller's work queue.
    pub fn queue(&self, controller: &Arc<str>) -> QueueMetrics {
        self.0.queues.queue(controller)
    }

    /// Counts a reconcile as running until the guard is finished or dropped.
    pub fn reconcile(&self, controller: &Arc<str>) -> RunningReconcile {
        let labels = ControllerLabels { controller: controller.clone() };
        self.0.active.get_or_create(&labels).inc();
        let started = Instant::now();
        RunningReconcile { families: self.0.clone(), labels, started, id: self.0.running.start(controller, started) }
    }

    /// Counts a reconcile that panicked, which is a bug.
    pub fn reconcile_panicked(&self, controller: &Arc<str>) {
        self.0.panics.get_or_create(&ControllerLabels { controller: controller.clone() }).inc();
    }

    /// Counts an outcome by its reason.
    pub fn outcome(&self, controller: &Arc<str>, reason: &'static str) {
        self.0.outcomes.get_or_create(&OutcomeLabels { controller: controller.clone(), reason }).inc();
    }

    /// Counts a CloudEvent, or an attempt to send one.
    pub fn notified(&self, result: Notified) {
        self.0.notified.get_or_create(&families::NotifiedLabels { result }).inc();
    }

    /// Shows the counts of CloudEvents before there is one.
    pub fn show_notifications(&self) {
        for result in [Notified::Delivered, Notified::Retried, Notified::Refused, Notified::Dropped] {
            drop(self.0.notified.get_or_create(&families::NotifiedLabels { result }));
        }
    }

    /// Records a custom resource and its creation time, in seconds of Unix time.
    pub fn resource_created(&self, gvk: &GroupVersionKind, namespace: &str, name: &str, created: f64) {
        self.0.created.get_or_create(&families::resource(gvk, namespace, name)).set(created);
    }

    /// Removes the series of a deleted custom resource.
    pub fn resource_deleted(&self, gvk: &GroupVersionKind, namespace: &str, name: &str) {
        self.0.created.remove(&families::resource(gvk, namespace, name));
    }

    /// Records that this process holds the lease with this name.
    pub fn leads(&self, lease: &str) {
        self.0.leader.get_or_create(&families::lease(lease)).set(1);
    }

    /// Records that this process does not hold the lease with this name.
    pub fn follows(&self, lease: &str) {
        self.0.leader.get_or_create(&families::lease(lease)).set(0);
    }

    /// Sets the host and port of the API server, which label the requests from then on.
    pub fn api_server(&self, host: &str) {
        // A process has one API server. A test's second client keeps the first one's.
        let _ = self.0.host.set(host.into());
    }

    /// Counts a request of the API server to the webhook at this path, which must be a served one.
    pub fn webhook(&self, path: &str, code: u16, took: Duration) {
        let labels = families::WebhookCodeLabels { code, webhook: path.to_owned() };
        self.0.webhook_requests.get_or_create(&labels).inc();
        let labels = families::WebhookLabels { webhook: path.to_owned() };
        self.0.webhook_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Counts a request to the API server; the code is `None` without a response.
    pub fn request(&self, code: Option<u16>, method: &http::Method) {
        let host = self.0.host.get().cloned().unwrap_or_default();
        self.0.requests.get_or_create(&families::request(code, host, method)).inc();
    }
}

/// A running reconcile.
#[derive(Debug)]
pub struct RunningReconcile {
    families: Arc<Families>,
    labels: ControllerLabels,
    started: Instant,
    id: u64,
}

impl RunningReconcile {
    /// Counts the reconcile's result and duration; returns the duration.
    pub fn finish(self, result: ReconcileResult) -> Duration {
        let elapsed = self.started.elapsed();
        let controller = &self.labels.controller;
        self.families.reconciles.get_or_create(&ResultLabels { controller: controller.clone(), result }).inc();
        self.families.seconds.get_or_create(&self.labels).observe(elapsed.as_secs_f64());
        self.families.queues.worked(controller, elapsed, result);
        if result == ReconcileResult::Error {
            self.families.errors.get_or_create(&self.labels).inc();
        }
        elapsed
    }
}

impl Drop for RunningReconcile {
    fn drop(&mut self) {
        self.families.active.get_or_create(&self.labels).dec();
        self.families.running.end(&self.labels.controller, self.id);
    }
}
