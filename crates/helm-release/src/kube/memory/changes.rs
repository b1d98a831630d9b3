//! What was written, in order: the source of watches.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};

use super::selector::Selector;
use crate::kube::api::Error;

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Change {
    /// What happened to the object, as the watch's selector sees it.
    pub kind: ChangeKind,
    /// The object afterwards; a deleted one as it was, with the version of its deletion.
    pub object: Arc<Value>,
    /// The write's resource version.
    pub version: u64,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created, or is selected from now on.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted, or is no longer selected.
    Deleted,
}

impl ChangeKind {
    /// Returns the name in events: `ADDED`.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Added => "ADDED",
            ChangeKind::Modified => "MODIFIED",
            ChangeKind::Deleted => "DELETED",
        }
    }
}

impl Change {
    /// Returns the event as a watch delivers it, reduced to metadata if this is what the watch accepts.
    pub fn event(&self, accept: Option<&str>) -> Value {
        json!({"type": self.kind.name(), "object": shown(&self.object, accept)})
    }
}

/// Returns an object as this `Accept` header wants it.
pub(super) fn shown(object: &Value, accept: Option<&str>) -> Value {
    if !wants_metadata(accept) {
        return object.clone();
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// Returns whether a response holds metadata alone.
pub(super) fn wants_metadata(accept: Option<&str>) -> bool {
    accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata"))
}

/// One write.
#[derive(Clone, Debug)]
struct Write {
    version: u64,
    path: Arc<str>,
    before: Option<Arc<Value>>,
    after: Option<Arc<Value>>,
}

/// The writes since the last compaction.
#[derive(Debug, Default)]
pub(super) struct Log {
    writes: VecDeque<Write>,
    compacted: u64,
}

impl Log {
    /// Records a write. An object that is deleted is logged with the version of its deletion.
    pub(super) fn record(&mut self, path: &str, version: u64, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        if before.is_some() || after.is_some() {
            self.writes.push_back(Write { version, path: path.into(), before, after });
        }
    }

    /// Forgets the writes up to a version.
    pub(super) fn compact(&mut self, version: u64) {
        self.compacted = self.compacted.max(version);
        self.writes.retain(|write| write.version > version);
    }

    /// Returns what a watch of a collection sees after a version.
    ///
    /// # Errors
    /// 410 `Expired` if that version is compacted.
    pub(super) fn changes(&self, of: &Watched, since: u64) -> Result<Vec<Change>, Error> {
        if since < self.compacted {
            let message = format!("too old resource version: {since} ({})", self.compacted);
            return Err(Error::from_status(410, "Expired", &message));
        }
        let from = self.writes.partition_point(|write| write.version <= since);
        Ok(self.writes.range(from..).filter_map(|write| write.seen_by(of)).collect())
    }
}

/// The objects that a watch is for.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) collection: String,
    pub(super) selector: Selector,
}

impl Watched {
    /// Returns whether the watch is for the object at this path.
    pub(super) fn has(&self, path: &str) -> bool {
        is_member(path, &self.collection)
    }
}

impl Write {
    fn seen_by(&self, watched: &Watched) -> Option<Change> {
        if !watched.has(&self.path) {
            return None;
        }
        let selected = |object: &Option<Arc<Value>>| object.clone().filter(|object| watched.selector.selects(object));
        let (kind, object) = match (selected(&self.before), selected(&self.after)) {
            (None, None) => return None,
            (None, Some(after)) => (ChangeKind::Added, after),
            (Some(_), Some(after)) => (ChangeKind::Modified, after),
            (Some(before), None) => (ChangeKind::Deleted, self.last(&before)),
        };
        Some(Change { kind, object, version: self.version })
    }

    /// The last state of an object that a watch selects no longer.
    fn last(&self, before: &Value) -> Arc<Value> {
        let mut object = before.clone();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        Arc::new(object)
    }
}

/// Returns whether `path` is in the collection, which may span all namespaces.
pub(super) fn is_member(path: &str, collection: &str) -> bool {
    let Some((parent, _)) = path.rsplit_once('/') else { return false };
    let everywhere = || {
        let (root, plural) = collection.rsplit_once('/')?;
        parent.strip_prefix(root)?.strip_prefix("/namespaces/")?.split_once('/').map(|(_, p)| p == plural)
    };
    parent == collection || everywhere().unwrap_or(false)
}
