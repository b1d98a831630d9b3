//! Events on custom resources: one for each change.
//!
//! A repeated event increases the count of the first; an event with another text is a new one, or its text would stay hidden. Counterpart:
//! client-go's `tools/events` and `tools/record`, whose keys leave out the text.

mod form;
mod recorder;
mod rights;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use helm_release::kube::Api;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::report::{Outcome, chain};
use form::Event;
use recorder::Recorder;

/// Publishes events in one controller's name. The default, for tests, drops them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Events {
    named: Option<Named>,
}

#[derive(Clone)]
struct Named {
    /// Shared by all controllers of the process, so that its memory is bounded however many there are.
    recorder: Arc<Recorder>,
    controller: Arc<str>,
    /// The pod.
    instance: Option<Arc<str>>,
}

impl Events {
    /// Publishes through this API server in a controller's name; `instance` is the pod's name. Default for `None`: the controller's.
    pub(crate) fn new(api: Arc<dyn Api>, controller: &str, instance: Option<&str>) -> Events {
        let recorder = Arc::new(Recorder::new(api));
        Events { named: Some(Named { recorder, controller: controller.into(), instance: instance.map(Arc::from) }) }
    }

    /// The same, in another controller's name.
    #[must_use]
    pub(crate) fn for_controller(&self, controller: &str) -> Events {
        Events { named: self.named.clone().map(|named| Named { controller: controller.into(), ..named }) }
    }

    /// Publishes an outcome in the background.
    pub fn publish(&self, on: ObjectReference, outcome: Outcome) {
        let events = self.clone();
        tokio::spawn(async move { events.deliver(&on, &outcome).await });
    }

    /// Publishes an outcome and waits for the answer. A failure is only logged; a missing right only once.
    pub async fn deliver(&self, on: &ObjectReference, outcome: &Outcome) {
        let Some(named) = &self.named else { return };
        let event = named.event(on, outcome);
        if let Err(error) = named.recorder.publish(&event).await {
            tracing::warn!(error = chain(&error), reason = event.reason, "Cannot publish an event");
        }
    }
}

impl Named {
    fn event<'a>(&'a self, on: &'a ObjectReference, outcome: &'a Outcome) -> Event<'a> {
        Event::new(on, outcome, &self.controller, self.instance.as_deref().unwrap_or(&self.controller))
    }
}
