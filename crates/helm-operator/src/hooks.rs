//! Rust code that an operator's author runs around installs and upgrades. Not the chart's own hooks, which `helm_release` runs.
//!
//! Counterpart: helm-operator-plugins' `pkg/hook`. As there, a failing hook is logged and stops nothing.

use futures::future::BoxFuture;
use helm_release::kube::Owner;

/// Why a hook failed.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Runs before each install and upgrade, once a render has shown that the objects change. Hooks run in the order in which they were added, and run
/// again when an attempt is repeated: make them idempotent. Dropped at any `.await` when the process must stop at once.
pub trait PreHook: Send + Sync {
    /// Runs the hook. `values` are those that the chart is rendered with: the resource's `spec` under the override values.
    fn run<'a>(&'a self, resource: &'a Owner, values: &'a serde_json::Value) -> BoxFuture<'a, Result<(), Error>>;
}

/// Runs after each successful install and upgrade, before the status is written. It does not run again if the process ends first.
pub trait PostHook: Send + Sync {
    /// Runs the hook. `revision` was just deployed from `manifest`.
    fn run<'a>(&'a self, resource: &'a Owner, revision: u32, manifest: &'a str) -> BoxFuture<'a, Result<(), Error>>;
}
