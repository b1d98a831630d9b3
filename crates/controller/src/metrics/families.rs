//! Defines the metric families and their labels. Labels are in alphabetical order, as Go's client prints them: scripts
//! and upstream's tests search for the text.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use kube::core::GroupVersionKind;
use outside::intern;
use outside::sync::lock;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::queue::{Queues, RunningWork};
use super::runtime::Runtime;

/// The upper bounds of the reconcile time's buckets, in seconds.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

/// Counts panics of the process's watches. It has no controller label, because controllers share watches.
pub static WATCH_PANICS: LazyLock<Counter> = LazyLock::new(Counter::default);

/// The result of a reconcile, in controller-runtime's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileResult {
    /// It succeeded and nothing is scheduled.
    Success,
    /// It succeeded and is scheduled again.
    RequeueAfter,
    /// It failed and will be retried.
    Error,
}

#[derive(Debug)]
pub(super) struct Families {
    pub(super) registry: Mutex<Registry>,
    pub(super) reconciles: Family<ResultLabels, Counter>,
    pub(super) errors: Family<ControllerLabels, Counter>,
    pub(super) panics: Family<ControllerLabels, Counter>,
    pub(super) seconds: Family<ControllerLabels, Histogram, fn() -> Histogram>,
    pub(super) max_concurrent: Family<ControllerLabels, Gauge>,
    pub(super) active: Family<ControllerLabels, Gauge>,
    pub(super) outcomes: Family<OutcomeLabels, Counter>,
    pub(super) created: Family<ResourceLabels, Gauge<f64, AtomicU64>>,
    pub(super) notified: Family<NotifiedLabels, Counter>,
    pub(super) leader: Family<LeaseLabels, Gauge>,
    pub(super) requests: Family<RequestLabels, Counter>,
    pub(super) webhook_requests: Family<WebhookCodeLabels, Counter>,
    pub(super) webhook_seconds: Family<WebhookLabels, Histogram, fn() -> Histogram>,
    pub(super) queues: Queues,
    pub(super) running: RunningWork,
    /// The host and port of the API server.
    pub(super) host: OnceLock<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ControllerLabels {
    pub(super) controller: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabels {
    pub(super) controller: Arc<str>,
    pub(super) result: ReconcileResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub(super) controller: Arc<str>,
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NotifiedLabels {
    pub(super) result: Notified,
}

/// The outcome of a CloudEvent, or of one attempt to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notified {
    /// The sink took it.
    Delivered,
    /// An attempt failed, and is repeated.
    Retried,
    /// The sink will never take it.
    Refused,
    /// Too many others waited, or it waited too long.
    Dropped,
}

impl EncodeLabelValue for Notified {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        match self {
            Notified::Delivered => "delivered",
            Notified::Retried => "retried",
            Notified::Refused => "refused",
            Notified::Dropped => "dropped",
        }
        .encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResourceLabels {
    group: Arc<str>,
    kind: Arc<str>,
    name: Arc<str>,
    namespace: Arc<str>,
    version: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LeaseLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    code: Code,
    host: Arc<str>,
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WebhookCodeLabels {
    pub(super) code: u16,
    pub(super) webhook: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WebhookLabels {
    pub(super) webhook: String,
}

/// An HTTP status; `None` without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Code(Option<u16>);

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        match self.0 {
            Some(code) => code.encode(encoder),
            // The same text as in client-go's adapter.
            None => "<error>".encode(encoder),
        }
    }
}

impl EncodeLabelValue for ReconcileResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        match self {
            ReconcileResult::Success => "success",
            ReconcileResult::RequeueAfter => "requeue_after",
            ReconcileResult::Error => "error",
        }
        .encode(encoder)
    }
}

impl Families {
    /// Creates empty families. The names of the library's own ones start with the program's name.
    pub(super) fn new(program: &str) -> Families {
        let families = Families {
            registry: Mutex::default(),
            reconciles: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            max_concurrent: Family::default(),
            active: Family::default(),
            outcomes: Family::default(),
            created: Family::default(),
            notified: Family::default(),
            leader: Family::default(),
            requests: Family::default(),
            webhook_requests: Family::default(),
            webhook_seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            queues: Queues::new(),
            running: RunningWork::default(),
            host: OnceLock::new(),
        };
        families.register(program);
        families
    }

    fn register(&self, program: &str) {
        let labels =
            [("commit", option_env!("GIT_COMMIT").unwrap_or("unknown")), ("version", env!("CARGO_PKG_VERSION"))];
        let own = |name: &str| format!("{program}_{name}");
        let mut r = lock(&self.registry);
        r.register(own("build"), "Build of the operator", Info::new(labels.to_vec()));
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
        self.queues.register(&mut r);
        r.register(own("outcomes"), "Outcomes by controller and reason", self.outcomes.clone());
        r.register(own("cloudevents"), "CloudEvents by result", self.notified.clone());
        r.register(own("watch_panics"), "Panics while handling what a watch delivered", WATCH_PANICS.clone());
        r.register(
            "resource_created_at_seconds",
            "When a custom resource was created, in Unix time",
            self.created.clone(),
        );
        r.register("leader_election_master_status", "Whether this process holds the lease", self.leader.clone());
        r.register(
            "rest_client_requests",
            "Requests to the API server by code, host and method",
            self.requests.clone(),
        );
        r.register(
            "controller_runtime_webhook_requests",
            "Requests of the API server by webhook and code",
            self.webhook_requests.clone(),
        );
        r.register(
            "controller_runtime_webhook_latency_seconds",
            "Duration of answers by webhook",
            self.webhook_seconds.clone(),
        );
        r.register_collector(Box::new(Runtime));
        #[cfg(target_os = "linux")]
        r.register_collector(Box::new(super::process::Process));
    }
}

pub(super) fn resource(gvk: &GroupVersionKind, namespace: &str, name: &str) -> ResourceLabels {
    ResourceLabels {
        group: intern(&gvk.group),
        kind: intern(&gvk.kind),
        name: intern(name),
        namespace: intern(namespace),
        version: intern(&gvk.version),
    }
}

pub(super) fn lease(name: &str) -> LeaseLabels {
    LeaseLabels { name: name.to_owned() }
}

pub(super) fn request(code: Option<u16>, host: Arc<str>, method: &http::Method) -> RequestLabels {
    RequestLabels { code: Code(code), host, method: method_label(method) }
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
