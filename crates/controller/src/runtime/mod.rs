//! Runs controllers. Knows Kubernetes, but nothing of charts and releases.
//!
//! A `queue` hands out keys, `fair_queue` lets groups take turns, `retries` keeps failed keys apart, `concurrency`
//! limits how many run at once, and `workers` runs them. A `reflector` feeds a store from lists and watches, which
//! `pages` reads, a `shard_selector` selects a range of them, and `freshness` decides how long to trust an entry.
//! `guarded` confines a panic of an author's function to the object that it was called for. `readiness` and `liveness`
//! decide what the probes answer.

pub mod key;
pub mod namespaces;
pub mod served_kinds;

pub mod queue;

pub mod fair_queue;
pub mod priority;
pub mod retries;

pub mod concurrency;

pub mod workers;

pub mod guarded;
pub mod reflector;

pub mod pages;
pub mod refusals;
pub mod shard_selector;

pub mod freshness;

pub mod backoff;
pub mod throttle;

pub mod last_error;
pub mod liveness;
pub mod readiness;

/// The target of spans that become traces: reconciles and their requests.
pub(crate) const SPANS: &str = "controller::spans";

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
