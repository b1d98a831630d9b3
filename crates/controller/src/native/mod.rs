//! Controllers in Rust.
//!
//! A [`Reconciler`] serves one kind of custom resource: it says what wakes it, and makes the cluster look as a resource asks. Queue, caches, retries,
//! events, metrics and finalizers are the library's. A [`Controller`] is the seam below it, what the manager runs: a name, and a loop that ends on
//! request. Chart controllers are controllers, too. Counterparts: controller-runtime's `reconcile.Reconciler` and `manager.Runnable`.

mod apply;
mod cache;
mod conditions;
mod decoded;
mod failure;
mod kind;
mod known;
mod once;
mod options;
mod reconciler;
mod rights;
mod scope;
mod selector;
mod serve;
mod serving;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod untyped;
mod watching;

use futures::future::BoxFuture;

use crate::context::Context;

pub use cache::{Cache, Indexed};
pub use conditions::Conditions;
pub use kind::{Kind, Reach};
pub use once::once;
pub use options::{Apply, Conflicts, Ownership};
pub use reconciler::{Next, Reconciler};
pub use rights::Rights;
pub use scope::{Applied, Change, Scope, WriteError};
pub use selector::Selector;
pub use serve::{Served, rights};
pub use store::Stores;
pub use watching::{Objects, Watched, Watching, generation_changed};

/// Why a controller ended early.
pub use crate::runtime::BoxError as Error;

/// A controller that a manager runs.
///
/// # Contract
/// The manager calls [`run`](Self::run) once, and only while this process leads. It cancels [`Context::shutdown`] to end the controller, then waits
/// for at most [`Config::shutdown_grace`](crate::manager::Config::shutdown_grace). If the lease is lost, the grace period ends or a second signal
/// arrives, it drops the future: assume that any `.await` may be the last, and make each write idempotent.
///
/// Nothing is retried: returning early, with or without an error, ends the process. Retry inside; [`crate::backoff::Backoff`] has the waits, and
/// [`Context::events`] publishes outcomes.
pub trait Controller: Send + 'static {
    /// The name in logs, metrics and events: `<kind in lower case>-controller`. The manager numbers duplicates.
    fn name(&self) -> &str;

    /// The kind that it reconciles: `Shop.apps.my.domain`. The lease of a process names the kinds of its controllers. Default: unknown.
    fn serves(&self) -> Option<String> {
        None
    }

    /// Tells the process what the controller needs. Called for every controller before any of them runs.
    fn prepare(&self, _context: &Context) {}

    /// Reconciles until [`Context::shutdown`] is cancelled, then finishes running work and returns.
    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), Error>>;
}
