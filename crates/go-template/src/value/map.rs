//! Go's map with string keys: a shared reference that `set`, `unset` and `merge` change.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::copy::drop_flat;
use super::{Str, Value};

/// The type of a map, which `typeOf` and the type checks see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// `map[string]interface {}`.
    Interface,
    /// `common.Values`: Helm v4's name for `.Values`.
    Values,
    /// `map[string]string`.
    String,
    /// `map[string][]byte`.
    Bytes,
}

impl MapType {
    /// The type's name as Go's `%T` prints it.
    pub fn name(self) -> &'static str {
        match self {
            MapType::Interface => "map[string]interface {}",
            MapType::Values => "common.Values",
            MapType::String => "map[string]string",
            MapType::Bytes => "map[string][]uint8",
        }
    }

    /// Whether the elements are of type `interface {}`.
    pub fn is_interface(self) -> bool {
        matches!(self, MapType::Interface | MapType::Values)
    }
}

/// A map. A clone is the same map, as in Go; `deep_copy` makes another.
///
/// The lock is only ever held inside one method or while the caller reads an [`entries`](Map::entries) guard: never run template code under it.
#[derive(Clone)]
pub struct Map {
    ty: MapType,
    nil: bool,
    entries: Arc<Entries>,
}

impl Map {
    /// A map of the type.
    pub fn new(ty: MapType, entries: BTreeMap<Str, Value>) -> Map {
        Map { ty, nil: false, entries: Arc::new(Entries(RwLock::new(entries))) }
    }

    /// Go's nil map of the type: empty, and null to encoders.
    pub fn nil(ty: MapType) -> Map {
        Map { nil: true, ..Map::new(ty, BTreeMap::new()) }
    }

    /// Whether this is Go's nil map.
    pub fn is_nil(&self) -> bool {
        self.nil
    }

    /// The map's type.
    pub fn ty(&self) -> MapType {
        self.ty
    }

    /// The same entries under another type, as a Go conversion gives.
    pub fn with_type(&self, ty: MapType) -> Map {
        Map { ty, nil: self.nil, entries: Arc::clone(&self.entries) }
    }

    /// Whether both are one map in memory.
    pub fn same(&self, other: &Map) -> bool {
        Arc::ptr_eq(&self.entries, &other.entries)
    }

    /// The entries, sorted by key's bytes.
    pub fn entries(&self) -> RwLockReadGuard<'_, BTreeMap<Str, Value>> {
        self.entries.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entries, to change.
    pub fn entries_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<Str, Value>> {
        self.entries.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value under the key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        self.entries().get(key.as_ref()).cloned()
    }

    /// Puts the value under the key; gives the value that was there.
    pub fn insert(&self, key: impl Into<Str>, value: impl Into<Value>) -> Option<Value> {
        self.entries_mut().insert(key.into(), value.into())
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// The entries as they are now, to walk while template code may change the map.
    pub fn snapshot(&self) -> Vec<(Str, Value)> {
        self.entries().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// The entries, if this is the last reference to them.
    pub(super) fn into_last_entries(self) -> BTreeMap<Str, Value> {
        Arc::into_inner(self.entries).map(|mut entries| entries.take()).unwrap_or_default()
    }
}

/// The entries, which are dropped without recursion.
struct Entries(RwLock<BTreeMap<Str, Value>>);

impl Entries {
    fn take(&mut self) -> BTreeMap<Str, Value> {
        mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        drop_flat(self.take().into_values());
    }
}

impl Default for Map {
    fn default() -> Self {
        Map::new(MapType::Interface, BTreeMap::new())
    }
}

impl<K: Into<Str>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Map::new(MapType::Interface, entries.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

/// As `%v` prints it, which ends even if a map holds itself.
impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(&Value::Map(self.clone()), f)
    }
}
