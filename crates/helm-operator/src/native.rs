//! What a controller is to the manager: a name and a loop that ends when it is told to.
//!
//! Chart controllers and native ones (Rust reconcilers) are the same to the manager. Counterpart: controller-runtime's `Runnable`.

use futures::future::BoxFuture;

use crate::context::Context;

/// What ended a controller before it was told to end.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A controller that a manager runs.
pub trait Controller: Send + 'static {
    /// The name in logs, metrics and events, `<kind in lower case>-controller`; a second of the same name gets a number.
    fn name(&self) -> &str;

    /// Reconciles until [`Context::shutdown`] is cancelled, then finishes what runs and returns. The manager calls it once, only
    /// while this process leads. An error ends the process.
    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), Error>>;
}
