//! The operator's metrics, under the names of controller-runtime and operator-sdk, as Prometheus scrapes them.
//!
//! Labels are bounded: there are few controllers, results and reasons. Only `resource_created_at_seconds` grows with the custom resources, as
//! upstream's does. Counterpart: controller-runtime's `pkg/internal/controller/metrics` and operator-lib's `handler/instrumented`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use kube::core::GroupVersionKind;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// The content type of [`Metrics::encode`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The upper bounds of the reconcile time's buckets, in seconds.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

/// The process's metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Families>);

/// How a reconcile ended, in controller-runtime's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReconcileResult {
    /// It succeeded and nothing is scheduled.
    Success,
    /// It succeeded and is scheduled again.
    RequeueAfter,
    /// It failed and will be retried.
    Error,
}

#[derive(Debug)]
struct Families {
    registry: Registry,
    reconciles: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    seconds: Family<ControllerLabels, Histogram, fn() -> Histogram>,
    max_concurrent: Family<ControllerLabels, Gauge>,
    active: Family<ControllerLabels, Gauge>,
    outcomes: Family<OutcomeLabels, Counter>,
    created: Family<ResourceLabels, Gauge<f64, AtomicU64>>,
    leader: Family<LeaseLabels, Gauge>,
    requests: Family<RequestLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: Arc<str>,
    result: ReconcileResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    controller: Arc<str>,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    group: Arc<str>,
    version: Arc<str>,
    kind: Arc<str>,
    name: String,
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: u16,
    method: &'static str,
}

impl EncodeLabelValue for ReconcileResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        encoder.write_str(match self {
            ReconcileResult::Success => "success",
            ReconcileResult::RequeueAfter => "requeue_after",
            ReconcileResult::Error => "error",
        })
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics(Arc::new(Families::new()))
    }
}

impl Families {
    fn new() -> Families {
        let mut families = Families {
            registry: Registry::default(),
            reconciles: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            max_concurrent: Family::default(),
            active: Family::default(),
            outcomes: Family::default(),
            created: Family::default(),
            leader: Family::default(),
            requests: Family::default(),
        };
        families.register();
        families
    }

    fn register(&mut self) {
        let labels =
            [("commit", option_env!("GIT_COMMIT").unwrap_or("unknown")), ("version", env!("CARGO_PKG_VERSION"))];
        let r = &mut self.registry;
        r.register("helm_operator_build", "Build of the operator", Info::new(labels.to_vec()));
        r.register("controller_runtime_reconcile", "Reconciles by controller and result", self.reconciles.clone());
        r.register("controller_runtime_reconcile_errors", "Failed reconciles by controller", self.errors.clone());
        r.register(
            "controller_runtime_reconcile_panics",
            "Reconciles that panicked by controller",
            self.panics.clone(),
        );
        r.register(
            "controller_runtime_reconcile_time_seconds",
            "Duration of reconciles by controller",
            self.seconds.clone(),
        );
        let max = self.max_concurrent.clone();
        r.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles by controller",
            max,
        );
        r.register("controller_runtime_active_workers", "Running reconciles by controller", self.active.clone());
        r.register("helm_operator_outcomes", "Outcomes by controller and reason", self.outcomes.clone());
        r.register(
            "resource_created_at_seconds",
            "When a custom resource was created, in Unix time",
            self.created.clone(),
        );
        r.register("leader_election_master_status", "Whether this process holds the lease", self.leader.clone());
        r.register("rest_client_requests", "Requests to the API server by code and method", self.requests.clone());
    }
}

impl Metrics {
    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &self.0.registry).is_err() {
            // Only the formatting of a label or value can fail, and ours cannot.
            let _ = writeln!(text, "# EOF");
        }
        text
    }

    /// Sets how many reconciles of a controller may run at once, and shows its other metrics at zero.
    pub fn controller(&self, controller: &Arc<str>, max_concurrent: usize) {
        let labels = ControllerLabels { controller: controller.clone() };
        self.0.max_concurrent.get_or_create(&labels).set(i64::try_from(max_concurrent).unwrap_or(i64::MAX));
        drop(self.0.active.get_or_create(&labels));
        drop(self.0.errors.get_or_create(&labels));
        drop(self.0.panics.get_or_create(&labels));
        for result in [ReconcileResult::Success, ReconcileResult::RequeueAfter, ReconcileResult::Error] {
            drop(self.0.reconciles.get_or_create(&ResultLabels { controller: controller.clone(), result }));
        }
    }

    /// Starts counting a reconcile as running, until the guard is finished or dropped.
    pub(crate) fn reconcile(&self, controller: &Arc<str>) -> Running {
        let labels = ControllerLabels { controller: controller.clone() };
        self.0.active.get_or_create(&labels).inc();
        Running { families: self.0.clone(), labels, started: Instant::now() }
    }

    /// Counts a reconcile that panicked: a bug.
    pub(crate) fn reconcile_panicked(&self, controller: &Arc<str>) {
        self.0.panics.get_or_create(&ControllerLabels { controller: controller.clone() }).inc();
    }

    /// Counts an outcome by its reason.
    pub(crate) fn outcome(&self, controller: &Arc<str>, reason: &'static str) {
        self.0.outcomes.get_or_create(&OutcomeLabels { controller: controller.clone(), reason }).inc();
    }

    /// Shows a custom resource and when it was created, in seconds of Unix time.
    pub fn resource_created(&self, gvk: &GroupVersionKind, namespace: &str, name: &str, created: f64) {
        self.0.created.get_or_create(&resource_labels(gvk, namespace, name)).set(created);
    }

    /// Removes a deleted custom resource.
    pub fn resource_deleted(&self, gvk: &GroupVersionKind, namespace: &str, name: &str) {
        self.0.created.remove(&resource_labels(gvk, namespace, name));
    }

    /// Sets whether this process holds the lease with this name.
    pub(crate) fn leader(&self, lease: &str, leads: bool) {
        self.0.leader.get_or_create(&LeaseLabels { name: lease.to_owned() }).set(i64::from(leads));
    }

    /// Counts a request to the API server.
    pub(crate) fn request(&self, code: u16, method: &http::Method) {
        self.0.requests.get_or_create(&RequestLabels { code, method: method_label(method) }).inc();
    }
}

/// A running reconcile.
#[derive(Debug)]
pub(crate) struct Running {
    families: Arc<Families>,
    labels: ControllerLabels,
    started: Instant,
}

impl Running {
    /// Counts its result and duration; returns the duration.
    pub(crate) fn finish(self, result: ReconcileResult) -> Duration {
        let elapsed = self.started.elapsed();
        let controller = self.labels.controller.clone();
        self.families.reconciles.get_or_create(&ResultLabels { controller, result }).inc();
        self.families.seconds.get_or_create(&self.labels).observe(elapsed.as_secs_f64());
        if result == ReconcileResult::Error {
            self.families.errors.get_or_create(&self.labels).inc();
        }
        elapsed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.families.active.get_or_create(&self.labels).dec();
    }
}

fn resource_labels(gvk: &GroupVersionKind, namespace: &str, name: &str) -> ResourceLabels {
    ResourceLabels {
        group: gvk.group.as_str().into(),
        version: gvk.version.as_str().into(),
        kind: gvk.kind.as_str().into(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    }
}

fn method_label(method: &http::Method) -> &'static str {
    match *method {
        http::Method::GET => "GET",
        http::Method::POST => "POST",
        http::Method::PUT => "PUT",
        http::Method::PATCH => "PATCH",
        http::Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(metrics: &Metrics, line: &str) {
        let text = metrics.encode();
        assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
    }

    #[test]
    fn build_info_is_shown_from_the_start() {
        let version = env!("CARGO_PKG_VERSION");
        let commit = option_env!("GIT_COMMIT").unwrap_or("unknown");
        check(&Metrics::default(), &format!("helm_operator_build_info{{commit=\"{commit}\",version=\"{version}\"}} 1"));
    }

    #[test]
    fn a_controller_shows_its_metrics_before_its_first_reconcile() {
        let metrics = Metrics::default();
        metrics.controller(&"memcached-controller".into(), 2);
        check(&metrics, r#"controller_runtime_max_concurrent_reconciles{controller="memcached-controller"} 2"#);
        check(&metrics, r#"controller_runtime_active_workers{controller="memcached-controller"} 0"#);
        check(&metrics, r#"controller_runtime_reconcile_panics_total{controller="memcached-controller"} 0"#);
        check(&metrics, r#"controller_runtime_reconcile_total{controller="memcached-controller",result="success"} 0"#);
    }

    #[test]
    fn a_failed_reconcile_counts_as_active_until_it_ends_and_then_as_an_error() {
        let metrics = Metrics::default();
        let running = metrics.reconcile(&"a-controller".into());
        check(&metrics, r#"controller_runtime_active_workers{controller="a-controller"} 1"#);
        running.finish(ReconcileResult::Error);
        check(&metrics, r#"controller_runtime_active_workers{controller="a-controller"} 0"#);
        check(&metrics, r#"controller_runtime_reconcile_total{controller="a-controller",result="error"} 1"#);
        check(&metrics, r#"controller_runtime_reconcile_errors_total{controller="a-controller"} 1"#);
        check(&metrics, r#"controller_runtime_reconcile_time_seconds_count{controller="a-controller"} 1"#);
    }

    #[test]
    fn a_panic_is_counted() {
        let metrics = Metrics::default();
        metrics.reconcile_panicked(&"a-controller".into());
        check(&metrics, r#"controller_runtime_reconcile_panics_total{controller="a-controller"} 1"#);
    }

    #[test]
    fn a_cancelled_reconcile_is_no_longer_active() {
        let metrics = Metrics::default();
        drop(metrics.reconcile(&"a-controller".into()));
        check(&metrics, r#"controller_runtime_active_workers{controller="a-controller"} 0"#);
    }

    #[test]
    fn a_custom_resource_has_a_metric_until_it_is_deleted() {
        let metrics = Metrics::default();
        let gvk = GroupVersionKind::gvk("cache.example.com", "v1", "Memcached");
        metrics.resource_created(&gvk, "ns", "a", 1.7e9);
        let line = r#"resource_created_at_seconds{group="cache.example.com",version="v1",kind="Memcached",name="a",namespace="ns"} 1700000000.0"#;
        check(&metrics, line);
        metrics.resource_deleted(&gvk, "ns", "a");
        assert!(!metrics.encode().contains("name=\"a\""));
    }

    #[test]
    fn requests_and_leadership_are_shown() {
        let metrics = Metrics::default();
        metrics.request(201, &http::Method::POST);
        metrics.leader("lock", true);
        check(&metrics, r#"rest_client_requests_total{code="201",method="POST"} 1"#);
        check(&metrics, r#"leader_election_master_status{name="lock"} 1"#);
    }
}
