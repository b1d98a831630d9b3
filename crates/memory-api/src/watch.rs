//! Watches of a collection: where they start, and which events they deliver.
//!
//! A watch is pulled: nothing happens between two calls of [`Watch::next`], so its caller decides about delays and
//! order.

use serde_json::{Value, json};

use crate::Server;
use crate::changes::{Change, ChangeKind, Watched, shown};
use crate::request::{Query, Request, Target};
use crate::status::Status;

/// A watch that a client opened.
#[derive(Clone, Debug)]
pub struct Watch {
    watched: Watched,
    api_version: String,
    accept: String,
    /// The version up to which events were delivered.
    seen: u64,
    begins_with_objects: bool,
    /// Whether a bookmark marks the end of the initial objects.
    announces_end: bool,
    bookmarks: bool,
    /// The number of restored backups when the watch was opened.
    life: u64,
}

impl Server {
    /// Opens the watch of a request with `watch=true`.
    ///
    /// # Errors
    /// 404 if the server does not serve the path. A version that is too old fails later, as on a real server:
    /// [`Watch::next`].
    pub fn watch(&self, request: &Request) -> Result<Watch, Status> {
        let (path, query) = Query::split(request.path);
        let (kind, target) = self.collection(path)?;
        let since = query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
        let initial = query.is_set("sendInitialEvents");
        Ok(Watch {
            watched: self.watched(&kind, &target, query),
            api_version: kind.api_version.clone(),
            accept: request.accept.to_owned(),
            seen: if since == 0 || initial { self.store.version } else { since },
            begins_with_objects: since == 0 || initial,
            announces_end: initial,
            bookmarks: query.is_set("allowWatchBookmarks"),
            life: self.life,
        })
    }

    /// Returns the events that a watch of this collection with this label selector delivers after a version, oldest
    /// first.
    ///
    /// # Errors
    /// 404 if the server does not serve the collection, 410 `Expired` if the version is compacted.
    pub fn changes(&self, collection: &str, selector: &str, since: u64) -> Result<Vec<Change>, Status> {
        let (kind, target): (_, Target) = self.collection(collection)?;
        let mut watched = self.watched(&kind, &target, Query(""));
        watched.selector = crate::selector::Selector::of_labels(selector);
        self.store.log.changes(&watched, since)
    }
}

impl Watch {
    /// Returns the events since the last call, oldest first; empty if there are none.
    ///
    /// # Errors
    /// 410 `Expired` if the watch fell behind a compaction, or if the server restored a backup. The client receives
    /// [`error_event`] as the watch's last event.
    pub fn next(&mut self, server: &Server) -> Result<Vec<Value>, Status> {
        if self.life != server.life {
            return Err(Status::new(410, "Expired", "the server was restored"));
        }
        if std::mem::take(&mut self.begins_with_objects) {
            return Ok(self.first(server));
        }
        let changes = server.store.log.changes(&self.watched, self.seen)?;
        self.seen = self.seen.max(server.store.version);
        Ok(changes.iter().map(|change| self.event(change)).collect())
    }

    /// Returns the current objects as events; later calls return changes.
    fn first(&mut self, server: &Server) -> Vec<Value> {
        self.seen = server.store.version;
        let there = server
            .store
            .of_resource(&self.watched.resource)
            .filter(|(key, stored)| self.watched.covers(key) && self.watched.selector.selects(&stored.object));
        let added = |object| Change { kind: ChangeKind::Added, object, version: self.seen };
        let mut events: Vec<Value> = there.map(|(_, stored)| self.event(&added(stored.object.clone()))).collect();
        if self.announces_end {
            events.push(self.bookmark_with(json!({"k8s.io/initial-events-end": "true"})));
        }
        events
    }

    fn event(&self, change: &Change) -> Value {
        let mut event = change.event(&self.accept);
        let object = &mut event["object"];
        if !crate::changes::wants_metadata(&self.accept) && object.get("apiVersion").is_some() {
            object["apiVersion"] = self.api_version.as_str().into();
        }
        event
    }

    /// Returns a bookmark at the watch's current version, if the client allows bookmarks.
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
        json!({"type": "BOOKMARK", "object": shown(&object, &self.accept)})
    }
}

/// Returns the last event of a watch that fails.
pub fn error_event(error: &Status) -> Value {
    json!({"type": "ERROR", "object": error.to_json()})
}
