//! A controller as the manager sees it: a name, and a loop that ends on request.
//!
//! The manager treats chart controllers and native ones (Rust reconcilers) alike. Counterpart: controller-runtime's `Runnable`.

use futures::future::BoxFuture;

use crate::context::Context;

/// Why a controller ended early.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A controller that a manager runs.
pub trait Controller: Send + 'static {
    /// The name in logs, metrics and events: `<kind in lower case>-controller`. The manager numbers duplicates.
    fn name(&self) -> &str;

    /// Reconciles until [`Context::shutdown`] is cancelled, then finishes running work and returns.
    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), Error>>;
}
