//! Controllers without Helm: knows Kubernetes, and nothing of charts and releases.
//!
//! A `queue` hands out keys, `fair_queue` lets groups take turns, `retries` keeps those that failed apart, `concurrency` limits how many run at once,
//! and `workers` runs them. A `reflector` feeds a store from lists and watches (`pages`, `served`), and `freshness` says how long to trust what it knows.

pub mod backoff;
pub(crate) mod concurrency;
pub(crate) mod fair_queue;
pub(crate) mod freshness;
pub(crate) mod last_error;
pub(crate) mod pages;
pub(crate) mod queue;
pub(crate) mod readiness;
pub(crate) mod reflector;
pub(crate) mod refusals;
pub(crate) mod retries;
pub(crate) mod served;
pub(crate) mod sync;
pub(crate) mod throttle;
pub(crate) mod workers;
