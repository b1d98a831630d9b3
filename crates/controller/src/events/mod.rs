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

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use outside::Api;

use crate::metrics::Metrics;
use crate::report::{Outcome, shorten};
pub(crate) use form::EventKey;
pub use form::MAX_NOTE;
pub(crate) use recorder::SERIES;

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
    /// Receives a copy of each event.
    listener: Option<Arc<dyn Listener>>,
}

/// Receives every published event.
pub(crate) trait Listener: Send + Sync {
    /// Queues an event without waiting.
    fn hear(&self, notice: Notice);

    /// Completes what it does in the background.
    fn flush(&self) -> BoxFuture<'_, ()>;
}

/// An event, for a listener.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    /// Equal for events that differ only in their time.
    pub(crate) key: EventKey,
    pub(crate) on: ObjectReference,
    pub(crate) outcome: Outcome,
    pub(crate) controller: Arc<str>,
    pub(crate) instance: Arc<str>,
    pub(crate) at: Timestamp,
}

impl Events {
    /// Creates a publisher that uses this API server and the controller's name. `instance` is the pod's name; `None`
    /// uses the controller's.
    pub fn new(api: Arc<dyn Api>, controller: &str, instance: Option<&str>) -> Events {
        let (recorder, outbox) = (Arc::new(Recorder::new(api)), Outbox::new());
        let (controller, instance) = (controller.into(), instance.map(Arc::from));
        Events { named: Some(Named { recorder, outbox, controller, instance, listener: None }) }
    }

    /// Returns a publisher whose events also go to a listener.
    #[must_use]
    pub(crate) fn heard_by(&self, listener: Arc<dyn Listener>) -> Events {
        Events { named: self.named.clone().map(|named| Named { listener: Some(listener), ..named }) }
    }

    /// Returns a publisher in another controller's name.
    #[must_use]
    pub fn for_controller(&self, controller: &str) -> Events {
        Events { named: self.named.clone().map(|named| Named { controller: controller.into(), ..named }) }
    }

    /// Publishes an outcome in the background, as soon as the server has time for it. Retries for two minutes what the
    /// server cannot take now. Any other failure is only logged, and a missing permission only once.
    pub fn publish(&self, on: ObjectReference, outcome: Outcome) {
        if let Some(named) = &self.named {
            if let Some(listener) = &named.listener {
                listener.hear(named.notice(&on, &outcome));
            }
            named.outbox.put(named.clone(), on, outcome);
        }
    }

    /// Publishes the waiting events, for at most `limit`.
    pub async fn flush(&self, limit: Duration) {
        let Some(named) = &self.named else { return };
        let heard = async {
            if let Some(listener) = &named.listener {
                let _ = tokio::time::timeout(limit, listener.flush()).await;
            }
        };
        tokio::join!(named.outbox.flush(limit), heard);
    }
}

impl Named {
    fn event<'a>(&'a self, on: &'a ObjectReference, outcome: &'a Outcome) -> Event<'a> {
        Event::new(on, outcome, &self.controller, self.instance.as_deref().unwrap_or(&self.controller))
    }

    fn notice(&self, on: &ObjectReference, outcome: &Outcome) -> Notice {
        Notice {
            key: self.event(on, outcome).key(),
            on: on.clone(),
            outcome: Outcome { message: shorten(&outcome.message, MAX_NOTE), ..outcome.clone() },
            controller: self.controller.clone(),
            instance: self.instance.clone().unwrap_or_else(|| self.controller.clone()),
            at: outside::now(),
        }
    }
}

/// Counts an outcome, and publishes it as an event in the background.
pub fn publish(metrics: &Metrics, events: &Events, controller: &Arc<str>, on: ObjectReference, outcome: Outcome) {
    metrics.outcome(controller, outcome.reason);
    events.publish(on, outcome);
}
