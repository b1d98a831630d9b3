//! Publishes events on custom resources, one per change.
//!
//! A repeated event increases the count of the first. An event with another text is a new one, because its text would
//! otherwise stay hidden. Counterpart: client-go's `tools/events` and `tools/record`, whose keys leave out the text.

mod form;
mod outbox;
mod recorder;
mod rights;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use outside::Api;

use crate::metrics::Metrics;
use crate::report::Outcome;
pub use form::MAX_NOTE;

use form::Event;
use outbox::Outbox;
use recorder::Recorder;

/// Publishes events in one controller's name. The default, for tests, drops them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Events {
    named: Option<Named>,
}

#[derive(Clone)]
struct Named {
    /// Shared by all controllers of the process, so that its memory is bounded no matter how many there are.
    recorder: Arc<Recorder>,
    outbox: Arc<Outbox>,
    controller: Arc<str>,
    /// The pod's name.
    instance: Option<Arc<str>>,
}

impl Events {
    /// Creates a publisher that uses this API server and the controller's name. `instance` is the pod's name; `None`
    /// uses the controller's.
    pub fn new(api: Arc<dyn Api>, controller: &str, instance: Option<&str>) -> Events {
        let (recorder, outbox) = (Arc::new(Recorder::new(api)), Outbox::new());
        let (controller, instance) = (controller.into(), instance.map(Arc::from));
        Events { named: Some(Named { recorder, outbox, controller, instance }) }
    }

    /// Returns a publisher in another controller's name.
    #[must_use]
    pub fn for_controller(&self, controller: &str) -> Events {
        Events { named: self.named.clone().map(|named| Named { controller: controller.into(), ..named }) }
    }

    /// Publishes an outcome in the background, as soon as the server has time for it. A failure is only logged, and a
    /// missing permission only once.
    pub fn publish(&self, on: ObjectReference, outcome: Outcome) {
        if let Some(named) = &self.named {
            named.outbox.put(named.clone(), on, outcome);
        }
    }

    /// Publishes the waiting events, for at most `limit`.
    pub async fn flush(&self, limit: Duration) {
        if let Some(named) = &self.named {
            named.outbox.flush(limit).await;
        }
    }
}

impl Named {
    fn event<'a>(&'a self, on: &'a ObjectReference, outcome: &'a Outcome) -> Event<'a> {
        Event::new(on, outcome, &self.controller, self.instance.as_deref().unwrap_or(&self.controller))
    }
}

/// Counts an outcome, and publishes it as an event in the background.
pub fn publish(metrics: &Metrics, events: &Events, controller: &Arc<str>, on: ObjectReference, outcome: Outcome) {
    metrics.outcome(controller, outcome.reason);
    events.publish(on, outcome);
}
