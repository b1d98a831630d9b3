//! Watches of a collection: where they begin, and what they deliver.
//!
//! A watch is pulled: nothing happens between two calls of [`Watch::next`], so whoever drives it decides about delays and order.

use serde_json::{Value, json};
use tokio::sync::watch;

use super::MemoryApi;
use super::changes::{Change, ChangeKind, Watched, shown};
use super::selector::Selector;
use crate::kube::api::{Call, Error};

/// A watch that a client opened.
#[derive(Debug)]
pub struct Watch {
    watched: Watched,
    accept: Option<&'static str>,
    /// The version up to which events were delivered.
    seen: u64,
    /// Whether the objects of that version are yet to be delivered.
    begins_with_objects: bool,
    /// Whether the end of these objects is announced by a bookmark.
    announces_end: bool,
    bookmarks: bool,
}

impl MemoryApi {
    /// Returns the resource version of the last write.
    pub fn version(&self) -> u64 {
        self.state().version
    }

    /// Returns a receiver of the resource version of each later write.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.state().written.subscribe()
    }

    /// Forgets the changes up to a version: watches that begin before it fail with 410 `Expired`.
    pub fn compact(&self, version: u64) {
        self.state().changes.compact(version);
    }

    /// Returns what a watch of this collection with this label selector sees after a version, oldest first.
    ///
    /// # Errors
    /// 410 `Expired` if the version is compacted.
    pub fn changes(&self, collection: &str, selector: &str, since: u64) -> Result<Vec<Change>, Error> {
        let watched = Watched { collection: collection.to_owned(), selector: Selector::of_labels(selector) };
        self.state().changes.changes(&watched, since)
    }

    /// Opens the watch that a request with `watch=true` asks for.
    ///
    /// # Errors
    /// 404 if the server does not serve the path. A version that is too old is the first event instead, as on a real server.
    pub fn watch(&self, call: &Call) -> Result<Watch, Error> {
        let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
        let state = self.state();
        state.check_collection(path)?;
        let value = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let is_set = |name| value(name) == Some("true");
        let since = value("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
        let initial = is_set("sendInitialEvents");
        Ok(Watch {
            watched: Watched { collection: path.to_owned(), selector: Selector::of_query(query) },
            accept: call.accept,
            seen: if since == 0 || initial { state.version } else { since },
            begins_with_objects: since == 0 || initial,
            announces_end: initial,
            bookmarks: is_set("allowWatchBookmarks"),
        })
    }
}

impl Watch {
    /// Returns the events since the last call, oldest first; none if nothing happened.
    ///
    /// # Errors
    /// 410 `Expired` if it fell behind a compaction. [`error_event`] is what a client receives then, as the watch's last event.
    pub fn next(&mut self, server: &MemoryApi) -> Result<Vec<Value>, Error> {
        let state = server.state();
        let mut events = Vec::new();
        if std::mem::take(&mut self.begins_with_objects) {
            // What is there now; later changes follow.
            self.seen = state.version;
            let there = state
                .objects
                .iter()
                .filter(|(path, object)| self.watched.has(path) && self.watched.selector.selects(object));
            events.extend(there.map(|(_, object)| {
                Change { kind: ChangeKind::Added, object: object.clone(), version: self.seen }.event(self.accept)
            }));
            if self.announces_end {
                events.push(self.bookmark_with(json!({"k8s.io/initial-events-end": "true"})));
            }
            return Ok(events);
        }
        let changes = state.changes.changes(&self.watched, self.seen)?;
        self.seen = self.seen.max(state.version);
        events.extend(changes.iter().map(|change| change.event(self.accept)));
        Ok(events)
    }

    /// Returns a bookmark of how far the watch has come, if the client allows bookmarks.
    pub fn bookmark(&self) -> Option<Value> {
        self.bookmarks.then(|| self.bookmark_with(Value::Null))
    }

    /// Returns the version up to which events were delivered.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    fn bookmark_with(&self, annotations: Value) -> Value {
        let mut object = json!({"metadata": {"resourceVersion": self.seen.to_string(), "creationTimestamp": null}});
        if !annotations.is_null() {
            object["metadata"]["annotations"] = annotations;
        }
        json!({"type": "BOOKMARK", "object": shown(&object, self.accept)})
    }
}

/// Returns the event with which a watch ends after an error.
pub fn error_event(error: &Error) -> Value {
    let Error::Refused { code, reason, message, .. } = error else { return Value::Null };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code,
    });
    json!({"type": "ERROR", "object": status})
}
