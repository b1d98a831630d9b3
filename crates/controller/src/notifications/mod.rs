//! Sends events to one program outside the cluster, as CloudEvents 1.0 over HTTP, each once.
//!
//! At least once across restarts of the receiver: events that it does not accept are kept, within bounds, and sent
//! again with the same id. Events that still wait when this process ends are lost. Counterpart: Flux's
//! notification-controller.

mod form;
mod queue;
mod send;
mod settings;
mod signature;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};

use crate::events::{Listener, Notice};
use crate::metrics::Metrics;
use queue::Queue;
use send::Sender;

pub use form::Mode;
pub use settings::{Error, Settings, Sink};

/// The receiver of a process's events. Sends in the background, and while nothing happens has no task.
pub struct Notifications(Arc<Queue>);

impl Notifications {
    /// Reads the files of the settings. Opens no connection yet.
    ///
    /// # Errors
    /// A file of the settings cannot be used.
    pub fn new(settings: &Settings, program: &str, metrics: &Metrics) -> Result<Notifications, Error> {
        let sender = Sender::new(settings, program)?;
        tracing::info!(sink = %settings.sink, "Events are also sent as CloudEvents");
        Ok(Notifications(Queue::new(sender, metrics)))
    }
}

impl Listener for Notifications {
    fn hear(&self, notice: Notice) {
        self.0.put(notice);
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        self.0.flush().boxed()
    }
}
