//! Go's map with string keys: a shared reference, which functions such as Sprig's `set` and `merge` change.
//!
//! A deep copy of a [frozen](Map::frozen) map is lazy: it reads the table that both share, and copies a level only when the copy could be
//! distinguished from the original.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::copy::drop_flat;
use super::frozen::Table;
use super::{Str, Value};

/// The type of a map, which `typeOf` and type checks see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// `map[string]interface {}`.
    Interface,
    /// `common.Values`: the type of `.Values` in Helm v4.
    Values,
    /// `map[string]string`.
    String,
    /// `map[string][]byte`.
    Bytes,
}

impl MapType {
    /// Returns the type's name as Go's `%T` prints it.
    pub fn name(self) -> &'static str {
        match self {
            MapType::Interface => "map[string]interface {}",
            MapType::Values => "common.Values",
            MapType::String => "map[string]string",
            MapType::Bytes => "map[string][]uint8",
        }
    }

    /// Returns whether the elements are of type `interface {}`.
    pub(crate) fn is_interface(self) -> bool {
        matches!(self, MapType::Interface | MapType::Values)
    }
}

/// A map. A clone refers to the same map, as in Go; [`deep_copy`](Map::deep_copy) creates a new one.
///
/// A lock guards the entries. It is held inside a method, or while a guard from [`entries`](Map::entries) or [`entries_mut`](Map::entries_mut) lives:
/// do not run template code in the meantime.
#[derive(Clone)]
pub struct Map {
    ty: MapType,
    nil: bool,
    shared: Arc<Shared>,
}

/// The state that all clones of a map share.
struct Shared {
    /// The table that a lazy copy reads.
    origin: Option<Arc<Table>>,
    /// The map's own entries. A lazy copy has none until it first changes, or until its nested maps are read.
    own: OnceLock<RwLock<BTreeMap<Str, Value>>>,
}

/// A read guard for the entries of a map. The map may be locked while this guard lives.
pub struct Entries<'a>(Reading<'a>);

enum Reading<'a> {
    Own(RwLockReadGuard<'a, BTreeMap<Str, Value>>),
    Frozen(&'a BTreeMap<Str, Value>),
}

impl Deref for Entries<'_> {
    type Target = BTreeMap<Str, Value>;
    fn deref(&self) -> &BTreeMap<Str, Value> {
        match &self.0 {
            Reading::Own(entries) => entries,
            Reading::Frozen(entries) => entries,
        }
    }
}

impl Map {
    /// Creates a map of this type.
    pub fn new(ty: MapType, entries: BTreeMap<Str, Value>) -> Map {
        let shared = Shared { origin: None, own: OnceLock::from(RwLock::new(entries)) };
        Map { ty, nil: false, shared: Arc::new(shared) }
    }

    /// Returns Go's nil map of this type: empty, and `null` to encoders.
    pub fn nil(ty: MapType) -> Map {
        Map { nil: true, ..Map::new(ty, BTreeMap::new()) }
    }

    /// Returns whether this is Go's nil map.
    pub fn is_nil(&self) -> bool {
        self.nil
    }

    /// Returns the map's type.
    pub fn ty(&self) -> MapType {
        self.ty
    }

    /// Returns the same map under another type, like a Go conversion.
    pub fn with_type(&self, ty: MapType) -> Map {
        Map { ty, nil: self.nil, shared: Arc::clone(&self.shared) }
    }

    /// Returns whether both refer to the same map.
    pub fn same(&self, other: &Map) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns whether other clones exist.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// Returns the entries, sorted by the bytes of their keys.
    pub fn entries(&self) -> Entries<'_> {
        match self.untouched() {
            Some(table) if !table.holds_map => Entries(Reading::Frozen(&table.entries)),
            _ => Entries(Reading::Own(self.own().read().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    /// Returns the entries without copying, for reading only. Nested maps may belong to the frozen original: do not change or keep them.
    pub fn peek(&self) -> Entries<'_> {
        match self.untouched() {
            Some(table) => Entries(Reading::Frozen(&table.entries)),
            None => self.entries(),
        }
    }

    /// Returns a write guard for the entries.
    pub fn entries_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<Str, Value>> {
        self.own().write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value of the key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        if let Some(table) = self.untouched() {
            let value = table.entries.get(key.as_ref())?;
            if !value.holds_map() {
                return Some(value.clone());
            }
        }
        self.entries().get(key.as_ref()).cloned()
    }

    /// Sets the value of the key and returns the old one.
    pub fn insert(&self, key: impl Into<Str>, value: impl Into<Value>) -> Option<Value> {
        self.entries_mut().insert(key.into(), value.into())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.peek().len()
    }

    /// Returns whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.peek().is_empty()
    }

    /// Returns a copy of the entries, to iterate over while template code may change the map.
    pub fn snapshot(&self) -> Vec<(Str, Value)> {
        self.entries().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// Returns the entries of a [`deep_copy`](Map::deep_copy).
    pub fn copied_entries(&self) -> BTreeMap<Str, Value> {
        match self.untouched() {
            Some(table) => table.copied(),
            None => self.deep_copy().entries().clone(),
        }
    }

    /// Returns whether this map and all maps below are known to contain no nil. This is known without a walk only for an unchanged copy of a frozen
    /// map. Ignores lists.
    pub fn is_known_without_nil(&self) -> bool {
        self.untouched().is_some_and(|table| !table.holds_nil)
    }

    /// Returns a map of the same type with these entries.
    pub(super) fn with_entries(&self, entries: BTreeMap<Str, Value>) -> Map {
        Map { nil: self.nil, ..Map::new(self.ty, entries) }
    }

    /// Returns a lazy copy of the table, with the type of this map.
    pub(super) fn lazy(&self, table: Arc<Table>) -> Map {
        let shared = Shared { origin: Some(table), own: OnceLock::new() };
        Map { ty: self.ty, nil: self.nil, shared: Arc::new(shared) }
    }

    /// Returns the table that a lazy copy still shares with its original.
    pub(super) fn untouched(&self) -> Option<&Arc<Table>> {
        match self.shared.own.get() {
            None => self.shared.origin.as_ref(),
            Some(_) => None,
        }
    }

    fn own(&self) -> &RwLock<BTreeMap<Str, Value>> {
        let copied = || self.shared.origin.as_deref().map(Table::copied).unwrap_or_default();
        self.shared.own.get_or_init(|| RwLock::new(copied()))
    }

    /// Returns the values if this is the last reference to them.
    pub(super) fn into_last_values(self) -> impl Iterator<Item = Value> {
        Arc::into_inner(self.shared).into_iter().flat_map(|mut shared| shared.take())
    }
}

impl Shared {
    fn take(&mut self) -> impl Iterator<Item = Value> + use<> {
        let own = self.own.take().map(|own| own.into_inner().unwrap_or_else(PoisonError::into_inner));
        let frozen = self.origin.take().and_then(Arc::into_inner).map(|mut table| table.take());
        own.into_iter().chain(frozen).flat_map(BTreeMap::into_values)
    }
}

/// Drops the values without recursion.
impl Drop for Shared {
    fn drop(&mut self) {
        drop_flat(self.take());
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

/// Prints like `%v`, which stops even if a map contains itself.
impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(&Value::Map(self.clone()), f)
    }
}
