//! Go's map with string keys: a shared reference that `set`, `unset` and `merge` change.
//!
//! A deep copy of a [frozen](Map::frozen) map is lazy: it reads the table that both share until something below it could be told apart from
//! the original, and only then copies that one level.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::copy::drop_flat;
use super::frozen::Table;
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
    shared: Arc<Shared>,
}

/// What all clones of a map share.
struct Shared {
    /// What a lazy copy is a copy of.
    origin: Option<Arc<Table>>,
    /// The map's own entries. A lazy copy has none before its first change, or its first look at what holds maps.
    own: OnceLock<RwLock<BTreeMap<Str, Value>>>,
}

/// The entries of a map, to read. The map may be locked as long as this lives.
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
    /// A map of the type.
    pub fn new(ty: MapType, entries: BTreeMap<Str, Value>) -> Map {
        let shared = Shared { origin: None, own: OnceLock::from(RwLock::new(entries)) };
        Map { ty, nil: false, shared: Arc::new(shared) }
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
        Map { ty, nil: self.nil, shared: Arc::clone(&self.shared) }
    }

    /// Whether both are one map in memory.
    pub fn same(&self, other: &Map) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether there are other clones.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// The entries, sorted by key's bytes.
    pub fn entries(&self) -> Entries<'_> {
        match self.untouched() {
            Some(table) if !table.holds_map() => Entries(Reading::Frozen(table.entries())),
            _ => Entries(Reading::Own(self.own().read().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    /// The entries, only to be looked at: maps among them may be those of the frozen original, so they must neither be changed nor kept.
    /// This never copies, unlike [`entries`](Map::entries).
    pub fn peek(&self) -> Entries<'_> {
        match self.untouched() {
            Some(table) => Entries(Reading::Frozen(table.entries())),
            None => self.entries(),
        }
    }

    /// The entries, to change.
    pub fn entries_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<Str, Value>> {
        self.own().write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value under the key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        if let Some(table) = self.untouched() {
            let value = table.entries().get(key.as_ref())?;
            if !value.holds_map() {
                return Some(value.clone());
            }
        }
        self.entries().get(key.as_ref()).cloned()
    }

    /// Puts the value under the key; gives the value that was there.
    pub fn insert(&self, key: impl Into<Str>, value: impl Into<Value>) -> Option<Value> {
        self.entries_mut().insert(key.into(), value.into())
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.peek().len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.peek().is_empty()
    }

    /// The entries as they are now, to walk while template code may change the map.
    pub fn snapshot(&self) -> Vec<(Str, Value)> {
        self.entries().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// The entries of a [`deep_copy`](Map::deep_copy), for a map that is made of them.
    pub fn copied_entries(&self) -> BTreeMap<Str, Value> {
        match self.untouched() {
            Some(table) => table.copied(),
            None => self.deep_copy().entries().clone(),
        }
    }

    /// Whether a map that is still as it was frozen has no nil in it, nor in the maps below it (lists are left aside). False, too, where
    /// only a walk could tell.
    pub fn is_known_without_nil(&self) -> bool {
        self.untouched().is_some_and(|table| !table.holds_nil())
    }

    /// A map of the same type with these entries.
    pub(super) fn with_entries(&self, entries: BTreeMap<Str, Value>) -> Map {
        Map { nil: self.nil, ..Map::new(self.ty, entries) }
    }

    /// A lazy copy of the table, of the same type as this map.
    pub(super) fn lazy(&self, table: Arc<Table>) -> Map {
        let shared = Shared { origin: Some(table), own: OnceLock::new() };
        Map { ty: self.ty, nil: self.nil, shared: Arc::new(shared) }
    }

    /// The table that this is a lazy copy of, if it has no entries of its own yet.
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

    /// The values, if this is the last reference to them.
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

/// Without recursion.
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

/// As `%v` prints it, which ends even if a map holds itself.
impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(&Value::Map(self.clone()), f)
    }
}
