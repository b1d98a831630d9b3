//! The log of writes in order: the source of watches, and of lists at earlier versions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{Key, Stored};

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Change {
    /// What happened to the object, from the point of view of the watch's selector.
    pub kind: ChangeKind,
    /// The object afterwards. A deleted one has its last state, with the version of its deletion.
    pub object: Arc<Value>,
    /// The write's resource version.
    pub version: u64,
}

/// One write of one object, as the store saw it.
#[derive(Clone, Debug)]
pub struct Written {
    /// The object's path, in the version in which it was written.
    pub path: String,
    /// The write's resource version.
    pub version: u64,
    /// The object before; `None` if the write created it.
    pub before: Option<Arc<Value>>,
    /// The object afterwards; `None` if the write removed it.
    pub after: Option<Arc<Value>>,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created, or the selector now matches it.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted, or the selector no longer matches it.
    Deleted,
}

impl ChangeKind {
    /// Returns the event type: `ADDED`.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Added => "ADDED",
            ChangeKind::Modified => "MODIFIED",
            ChangeKind::Deleted => "DELETED",
        }
    }
}

impl Change {
    /// Returns the event as a watch delivers it, reduced to metadata if the watch accepts only that.
    pub fn event(&self, accept: &str) -> Value {
        json!({"type": self.kind.name(), "object": shown(&self.object, accept)})
    }
}

/// Returns an object in the form that this `Accept` header requests.
pub(crate) fn shown(object: &Value, accept: &str) -> Value {
    if !wants_metadata(accept) {
        return object.clone();
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// Returns whether a response holds metadata alone.
pub(crate) fn wants_metadata(accept: &str) -> bool {
    accept.contains("as=PartialObjectMetadata")
}

/// The objects that a watch or list selects.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) resource: Arc<str>,
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    pub(crate) selector: Selector,
}

impl Watched {
    /// Returns whether the object is in the collection, whatever its labels.
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.namespace.is_empty() || key.namespace == self.namespace
    }
}

#[derive(Clone, Debug)]
struct Write {
    version: u64,
    key: Key,
    kind: Arc<Kind>,
    before: Option<Arc<Value>>,
    after: Option<Arc<Value>>,
}

/// The writes since the last compaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    writes: HashMap<Arc<str>, VecDeque<Write>>,
    compacted: u64,
}

/// Maximum number of writes of one resource that are kept without a compaction.
const MAX_WRITES: usize = 20_000;

impl Log {
    pub(crate) fn record(
        &mut self,
        version: u64,
        (key, kind): (Key, Arc<Kind>),
        before: Option<Arc<Value>>,
        after: Option<Arc<Value>>,
    ) {
        if before.is_none() && after.is_none() {
            return;
        }
        let writes = self.writes.entry(key.resource.clone()).or_default();
        writes.push_back(Write { version, key, kind, before, after });
        if writes.len() > MAX_WRITES {
            let until = writes[MAX_WRITES / 2].version;
            self.compact(until);
        }
    }

    /// Drops the writes up to a version.
    pub(crate) fn compact(&mut self, version: u64) {
        self.compacted = self.compacted.max(version);
        for writes in self.writes.values_mut() {
            let gone = writes.partition_point(|write| write.version <= version);
            writes.drain(..gone);
        }
    }

    /// Drops the writes after a version, as restoring a backup does.
    pub(crate) fn rewind(&mut self, version: u64) {
        for writes in self.writes.values_mut() {
            let kept = writes.partition_point(|write| write.version <= version);
            writes.truncate(kept);
        }
    }

    fn check(&self, version: u64) -> Result<(), Status> {
        if version >= self.compacted {
            return Ok(());
        }
        let message = format!("too old resource version: {version} ({})", self.compacted);
        Err(Status::new(410, "Expired", message))
    }

    fn after(&self, resource: &str, version: u64) -> impl DoubleEndedIterator<Item = &Write> {
        let writes = self.writes.get(resource);
        let from = writes.map_or(0, |writes| writes.partition_point(|write| write.version <= version));
        writes.into_iter().flat_map(move |writes| writes.range(from..))
    }

    /// Returns every uncompacted write after a version, oldest first.
    pub(crate) fn written(&self, since: u64) -> Vec<Written> {
        let later = |writes: &VecDeque<Write>| writes.partition_point(|write| write.version <= since);
        let writes = self.writes.values().flat_map(|writes| writes.range(later(writes)..));
        let mut all: Vec<Written> = writes.map(Write::whole).collect();
        all.sort_by_key(|write| write.version);
        all
    }

    /// Returns the events of a collection's watch after a version.
    ///
    /// # Errors
    /// 410 `Expired` if that version is compacted.
    pub(crate) fn changes(&self, of: &Watched, since: u64) -> Result<Vec<Change>, Status> {
        self.check(since)?;
        Ok(self.after(&of.resource, since).filter_map(|write| write.seen_by(of)).collect())
    }

    /// Rewinds the objects of a resource to an earlier version.
    ///
    /// # Errors
    /// 410 `Expired` if that version is compacted.
    pub(crate) fn undo(&self, resource: &str, version: u64, objects: &mut BTreeMap<Key, Stored>) -> Result<(), Status> {
        self.check(version)?;
        for write in self.after(resource, version).rev() {
            match &write.before {
                Some(object) => {
                    let stored = Stored { kind: write.kind.clone(), object: object.clone() };
                    objects.insert(write.key.clone(), stored);
                }
                None => _ = objects.remove(&write.key),
            }
        }
        Ok(())
    }
}

impl Write {
    fn whole(&self) -> Written {
        Written {
            path: self.kind.path(&self.key.namespace, &self.key.name),
            version: self.version,
            before: self.before.clone(),
            after: self.after.clone(),
        }
    }

    fn seen_by(&self, watched: &Watched) -> Option<Change> {
        if !watched.covers(&self.key) {
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

    /// Returns the last state of an object that a watch no longer selects.
    fn last(&self, before: &Value) -> Arc<Value> {
        let mut object = before.clone();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        Arc::new(object)
    }
}
