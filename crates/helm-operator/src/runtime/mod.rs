//! Runs controllers. Knows Kubernetes, and nothing of charts and releases.
//!
//! A `queue` hands out keys, `fair_queue` lets groups take turns, `retries` keeps those that failed apart, `concurrency` limits how many run at once,
//! and `workers` runs them. A `reflector` feeds a store from lists and watches, which `pages` reads, and `freshness` says how long to trust what it knows.

pub(crate) mod key;
pub(crate) mod namespaces;
pub(crate) mod served_kinds;
pub(crate) mod sync;

pub(crate) mod queue;

pub(crate) mod fair_queue;
pub(crate) mod retries;

pub(crate) mod concurrency;

pub(crate) mod workers;

pub(crate) mod reflector;

pub(crate) mod pages;
pub(crate) mod refusals;

pub(crate) mod freshness;

pub mod backoff;
pub(crate) mod throttle;

pub(crate) mod last_error;
pub(crate) mod readiness;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
