//! Defines an event, and how it is written in each of the two APIs.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use outside::Call;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::report::{Outcome, shorten};

/// The maximum length of a note in the events API, in bytes.
pub const MAX_NOTE: usize = 1024;
/// The maximum length of an object's name, in bytes.
const MAX_NAME: usize = 253;

/// The API in which an event is written. Both show the same events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `events.k8s.io/v1`.
    Events,
    /// The core `v1`, the only one that upstream's RBAC grants.
    Core,
}

#[derive(Debug)]
pub(super) struct Event<'a> {
    on: &'a ObjectReference,
    pub(super) namespace: &'a str,
    kind: &'static str,
    pub(super) reason: &'static str,
    action: &'static str,
    note: String,
    controller: &'a str,
    instance: &'a str,
}

/// A digest of everything that makes two events equal. Notes are long, so they are not kept.
pub(crate) type EventKey = [u8; 32];

impl<'a> Event<'a> {
    pub(super) fn new(
        on: &'a ObjectReference,
        outcome: &'a Outcome,
        controller: &'a str,
        instance: &'a str,
    ) -> Event<'a> {
        Event {
            on,
            // Events of cluster-scoped objects live in this namespace.
            namespace: on.namespace.as_deref().unwrap_or("default"),
            kind: if outcome.warning { "Warning" } else { "Normal" },
            reason: outcome.reason,
            action: outcome.action,
            note: shorten(&outcome.message, MAX_NOTE),
            controller,
            instance,
        }
    }

    pub(super) fn key(&self) -> EventKey {
        let (uid, name) = (self.on.uid.as_deref(), self.object_name());
        let parts = [
            self.controller,
            self.namespace,
            uid.unwrap_or_default(),
            name,
            self.kind,
            self.reason,
            self.action,
            &self.note,
        ];
        let mut all = Sha256::new();
        parts.iter().for_each(|part| all.update(Sha256::digest(part)));
        all.finalize().into()
    }

    /// Returns the object's name and the time, as client-go does. Truncates a long name so that it stays valid.
    pub(super) fn name(&self, at: Timestamp) -> String {
        let suffix = format!(".{:x}", at.as_nanosecond());
        let name = self.object_name();
        let kept = &name[..name.floor_char_boundary(MAX_NAME - suffix.len())];
        format!("{}{suffix}", kept.trim_end_matches(['.', '-']))
    }

    fn object_name(&self) -> &str {
        self.on.name.as_deref().unwrap_or_default()
    }
}

impl Form {
    pub(super) fn other(self) -> Form {
        match self {
            Form::Events => Form::Core,
            Form::Core => Form::Events,
        }
    }

    /// Returns the request that creates the event under this name.
    pub(super) fn create(self, event: &Event<'_>, name: &str, at: Timestamp) -> Call {
        let metadata = json!({"name": name, "namespace": event.namespace});
        let body = match self {
            Form::Events => json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata, "eventTime": micro_time(at),
                "type": event.kind, "reason": event.reason, "action": event.action, "note": event.note,
                "regarding": event.on, "reportingController": event.controller, "reportingInstance": event.instance,
            }),
            // Like client-go's recorder: without `eventTime`, which would require the other API's fields.
            Form::Core => json!({
                "apiVersion": "v1", "kind": "Event", "metadata": metadata, "count": 1,
                "firstTimestamp": time(at), "lastTimestamp": time(at),
                "type": event.kind, "reason": event.reason, "action": event.action, "message": event.note,
                "involvedObject": event.on, "source": {"component": event.controller},
                "reportingComponent": event.controller, "reportingInstance": event.instance,
            }),
        };
        Call::post(self.collection(event.namespace), body.to_string().into_bytes())
    }

    /// Returns the request that sets the event's count.
    pub(super) fn repeat(self, namespace: &str, name: &str, count: u32, at: Timestamp) -> Call {
        let body = match self {
            Form::Events => json!({"series": {"count": count, "lastObservedTime": micro_time(at)}}),
            Form::Core => json!({"count": count, "lastTimestamp": time(at)}),
        };
        Call::merge(format!("{}/{name}", self.collection(namespace)), body.to_string().into_bytes())
    }

    fn collection(self, namespace: &str) -> String {
        let api = match self {
            Form::Events => "apis/events.k8s.io/v1",
            Form::Core => "api/v1",
        };
        format!("/{api}/namespaces/{namespace}/events")
    }
}

fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
