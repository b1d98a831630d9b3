//! The store of objects; the only module that changes them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use crate::changes::Log;
use crate::kinds::Kind;

/// The identity of an object, independent of the version it is read in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The resource: `configmaps`, `deployments.apps`.
    pub(crate) resource: Arc<str>,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// An object, with the kind in whose version it was written.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) kind: Arc<Kind>,
    pub(crate) object: Arc<Value>,
}

/// All objects, and the log of their changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Stored>,
    pub(crate) version: u64,
    uids: u64,
    pub(crate) log: Log,
}

impl Kind {
    /// Returns the resource under which its objects are stored.
    pub(crate) fn resource(&self) -> Arc<str> {
        match self.group() {
            "" => self.plural.as_str().into(),
            group => format!("{}.{group}", self.plural).into(),
        }
    }

    /// Returns the key of an object of this kind.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Key {
        Key { resource: self.resource(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl Store {
    pub(crate) fn get(&self, key: &Key) -> Option<&Stored> {
        self.objects.get(key)
    }

    /// Returns every object, in order of resource, namespace and name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Stored)> {
        self.objects.iter()
    }

    /// Returns the objects of a resource, in order of namespace and name.
    pub(crate) fn of_resource<'a>(&'a self, resource: &'a Arc<str>) -> impl Iterator<Item = (&'a Key, &'a Stored)> {
        let first = Key { resource: resource.clone(), namespace: String::new(), name: String::new() };
        let rest = self.objects.range((Bound::Included(first), Bound::Unbounded));
        rest.take_while(move |(key, _)| key.resource == *resource)
    }

    /// Returns a uid that no object has had before.
    pub(crate) fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    /// Stores an object at a new version; returns it with that version.
    pub(crate) fn write(&mut self, key: Key, kind: Arc<Kind>, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.put(key, kind, object)
    }

    /// Stores an object unchanged, at the current version.
    pub(crate) fn put(&mut self, key: Key, kind: Arc<Kind>, object: Value) -> Arc<Value> {
        let object = Arc::new(object);
        let stored = Stored { kind: kind.clone(), object: object.clone() };
        let before = self.objects.insert(key.clone(), stored).map(|before| before.object);
        self.log.record(self.version, (key, kind), before, Some(object.clone()));
        object
    }

    /// Removes an object; this is a write with its own version.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Stored> {
        let removed = self.objects.remove(key)?;
        self.version += 1;
        self.log.record(self.version, (key.clone(), removed.kind.clone()), Some(removed.object.clone()), None);
        Some(removed)
    }

    /// Restores an earlier state, as from a backup. Never reuses a uid.
    pub(crate) fn restore(&mut self, backup: &Store) {
        let uids = self.uids.max(backup.uids);
        *self = Store { uids, ..backup.clone() };
        self.log.rewind(self.version);
    }
}

/// A snapshot of a server's store.
#[derive(Clone, Debug)]
pub struct Backup(Store);

impl Backup {
    pub(crate) fn of(store: &Store) -> Backup {
        Backup(store.clone())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0
    }
}
