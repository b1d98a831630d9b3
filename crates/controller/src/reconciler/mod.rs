//! Controllers in Rust.
//!
//! A [`Reconciler`] serves one kind of custom resource: it declares what triggers a reconcile, and makes the cluster
//! match a resource's `spec`. The library provides queue, caches, retries, events, metrics and finalizers. A
//! [`Controller`] is what the manager runs: a name, and a loop that ends on request. Chart controllers implement it as
//! well. The counterparts in controller-runtime are `reconcile.Reconciler` and `manager.Runnable`.

mod apply;
mod cache;
mod conditions;
mod contract;
mod decoded;
mod deletion;
mod failing;
mod failure;
mod former;
mod kind;
mod known;
mod once;
mod options;
mod rights;
mod scope;
mod selector;
mod serve;
mod serving;
mod settings;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod untyped;
mod watching;
mod written;

use futures::future::BoxFuture;

use crate::context::Context;

pub use cache::{Cache, Indexed};
pub use conditions::Conditions;
pub use contract::{Next, Reconciler};
pub(crate) use decoded::cause_of;
pub use kind::{Kind, KindScope};
pub use once::once;
pub use options::{Apply, Conflicts, Ownership};
pub use rights::Rights;
pub use scope::{Applied, Change, Scope, WriteError};
pub use selector::Selector;
pub use serve::{Served, rights};
pub use store::Stores;
pub use watching::{Objects, Watched, Watching, generation_changed};

/// The reason why a controller ended early.
pub use crate::runtime::BoxError as Error;

/// A controller that a manager runs.
///
/// # Contract
/// The manager calls [`run`](Self::run) once, and only while this process leads. It cancels [`Context::shutdown`] to
/// end the controller, then waits for at most [`Config::shutdown_grace`](crate::manager::Config::shutdown_grace). If
/// the lease is lost, the grace period ends or a second signal arrives, it drops the future: any `.await` may be the
/// last, so each write must be idempotent.
///
/// Nothing is retried: a return before shutdown, with or without an error, ends the process. Retry within `run`:
/// [`crate::backoff::Backoff`] computes the waits, and [`Context::events`] publishes outcomes.
pub trait Controller: Send + 'static {
    /// Returns the name for logs, metrics and events: `<kind in lower case>-controller`. The manager numbers
    /// duplicates.
    fn name(&self) -> &str;

    /// Returns the kind that the controller reconciles: `Shop.apps.my.domain`. The lease of a process names the kinds
    /// of its controllers. Default: unknown.
    fn serves(&self) -> Option<String> {
        None
    }

    /// Returns the field manager of the controller's writes, which no other controller of the process may have: each
    /// apply would remove the other's fields. Default: none that must be unique.
    fn field_manager(&self) -> Option<&str> {
        None
    }

    /// Returns the [former](Reconciler::former_names) field managers of the controller's writes, which no controller of
    /// the process may have. Default: none.
    fn former_field_managers(&self) -> &[&str] {
        &[]
    }

    /// Declares what the controller needs from the process. Called for every controller before any of them runs.
    fn prepare(&self, _context: &Context) {}

    /// Reconciles until [`Context::shutdown`] is cancelled, then finishes running work and returns.
    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), Error>>;
}
