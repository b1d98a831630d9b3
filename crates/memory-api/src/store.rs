//! The objects, and the one place that changes them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use crate::changes::Log;
use crate::kinds::Kind;

/// What identifies an object, in whatever version it is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// `configmaps`, `deployments.apps`.
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

/// All objects, and their history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Stored>,
    pub(crate) version: u64,
    uids: u64,
    pub(crate) log: Log,
}

impl Kind {
    /// Returns the resource that its objects are stored as.
    pub(crate) fn resource(&self) -> Arc<str> {
        match self.group() {
            "" => self.plural.as_str().into(),
            group => format!("{}.{group}", self.plural).into(),
        }
    }

    /// Returns what identifies an object of this kind.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Key {
        Key { resource: self.resource(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl Store {
    /// Returns an object.
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

    /// Returns a uid that no object ever had.
    pub(crate) fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    /// Stores an object in a new version, which it returns with the object.
    pub(crate) fn write(&mut self, key: Key, kind: Arc<Kind>, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.put(key, kind, object)
    }

    /// Stores an object as it is, at the current version.
    pub(crate) fn put(&mut self, key: Key, kind: Arc<Kind>, object: Value) -> Arc<Value> {
        let object = Arc::new(object);
        let stored = Stored { kind: kind.clone(), object: object.clone() };
        let before = self.objects.insert(key.clone(), stored).map(|before| before.object);
        self.log.record(self.version, (key, kind), before, Some(object.clone()));
        object
    }

    /// Removes an object, which is a write, too.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Stored> {
        let removed = self.objects.remove(key)?;
        self.version += 1;
        self.log.record(self.version, (key.clone(), removed.kind.clone()), Some(removed.object.clone()), None);
        Some(removed)
    }

    /// Returns to an earlier state, as from a backup. Uids are not given out twice all the same.
    pub(crate) fn restore(&mut self, backup: &Store) {
        let uids = self.uids.max(backup.uids);
        *self = Store { uids, ..backup.clone() };
        self.log.rewind(self.version);
    }
}

/// What a server stored at some time.
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
