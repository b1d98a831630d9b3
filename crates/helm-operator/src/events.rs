//! Events on the custom resource: one for each change, published in the background, never waited for.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};

use crate::report::{MAX_NOTE, shorten};

/// Publishes events; without a recorder (in tests) it only logs.
#[derive(Clone, Default)]
pub struct Events {
    recorder: Option<Recorder>,
}

impl Events {
    /// Events through this recorder.
    pub fn new(recorder: Recorder) -> Events {
        Events { recorder: Some(recorder) }
    }

    /// Something was done.
    pub fn normal(&self, on: ObjectReference, reason: &str, action: &str, note: String) {
        self.publish(on, EventType::Normal, reason, action, note);
    }

    /// Something is wrong, or worth a look.
    pub fn warning(&self, on: ObjectReference, reason: &str, action: &str, note: String) {
        self.publish(on, EventType::Warning, reason, action, note);
    }

    fn publish(&self, on: ObjectReference, type_: EventType, reason: &str, action: &str, note: String) {
        let Some(recorder) = self.recorder.clone() else { return };
        let note = Some(shorten(&note, MAX_NOTE));
        let event = Event { type_, reason: reason.into(), action: action.into(), note, secondary: None };
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event, &on).await {
                tracing::debug!(%error, reason = event.reason, "cannot publish an event");
            }
        });
    }
}
