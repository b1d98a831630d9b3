//! What an operator's author can run around the actions on a release, in Rust; the chart's own hooks are `helm_release::kube`'s.
//!
//! Counterpart: helm-operator-plugins' `pkg/hook`. As there, a failing hook is logged and stops nothing.

use futures::future::BoxFuture;
use helm_release::kube::Owner;

/// Why a hook failed.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Runs before a release is installed or upgraded.
pub trait PreHook: Send + Sync {
    /// `values` are the values that the chart is rendered with.
    fn run<'a>(&'a self, resource: &'a Owner, values: &'a serde_json::Value) -> BoxFuture<'a, Result<(), Error>>;
}

/// Runs after a release was installed or upgraded.
pub trait PostHook: Send + Sync {
    /// `manifest` is what was applied; `revision` its number.
    fn run<'a>(&'a self, resource: &'a Owner, revision: u32, manifest: &'a str) -> BoxFuture<'a, Result<(), Error>>;
}
