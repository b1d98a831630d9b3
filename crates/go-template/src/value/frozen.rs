//! Immutable tables that lazy copies read.
//!
//! Every render reads a chart's default values, but few change them: once they are frozen, copying them costs nothing until a copy changes.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use super::copy::{Budget, copy_map, drop_flat};
use super::{List, Map, Str, Value};

/// One level of a frozen map. The maps below it are lazy copies that stay unchanged.
pub(super) struct Table {
    pub(super) entries: BTreeMap<Str, Value>,
    /// Whether there are maps below, which a copy of this level must replace.
    pub(super) holds_map: bool,
    /// Whether this map or a map below contains nil.
    pub(super) holds_nil: bool,
    /// The number of values on this level and below.
    pub(super) size: usize,
    /// The number of levels, including this one.
    pub(super) depth: usize,
}

impl Map {
    /// Returns a copy that is cheap to copy again: its [`deep_copy`](Map::deep_copy) is lazy, one level at a time.
    ///
    /// Returns the map itself if it exceeds the limits of [`Value::deep_copy`].
    pub fn frozen(&self) -> Map {
        copy_map(self, &mut Budget::whole(), freeze).unwrap_or_else(|_| self.clone())
    }
}

impl Table {
    fn of(entries: BTreeMap<Str, Value>) -> Table {
        let mut table = Table { holds_map: false, holds_nil: false, size: 0, depth: 0, entries: BTreeMap::new() };
        for value in entries.values() {
            let extent = Extent::of(value);
            table.holds_map |= value.holds_map();
            table.holds_nil |= matches!(value, Value::Nil) || extent.holds_nil;
            table.size += 1 + extent.size;
            table.depth = table.depth.max(extent.depth);
        }
        table.depth += 1;
        table.entries = entries;
        table
    }

    /// Returns the entries of a copy of this level. Maps among them are lazy copies.
    pub(super) fn copied(&self) -> BTreeMap<Str, Value> {
        let mut entries = self.entries.clone();
        if self.holds_map {
            entries.values_mut().filter(|value| value.holds_map()).for_each(|value| *value = value.deep_copy());
        }
        entries
    }

    pub(super) fn take(&mut self) -> BTreeMap<Str, Value> {
        mem::take(&mut self.entries)
    }
}

/// Drops the values without recursion.
impl Drop for Table {
    fn drop(&mut self) {
        drop_flat(self.take().into_values());
    }
}

/// The size and depth of a frozen value.
#[derive(Default)]
struct Extent {
    size: usize,
    depth: usize,
    holds_nil: bool,
}

impl Extent {
    fn of(value: &Value) -> Extent {
        match value {
            Value::Map(map) => map.untouched().map_or_else(Extent::default, |table| Extent {
                size: table.size,
                depth: table.depth,
                holds_nil: table.holds_nil,
            }),
            Value::List(list) if list.holds_map() => Extent::of_list(list),
            _ => Extent::default(),
        }
    }

    fn of_list(list: &List) -> Extent {
        let mut whole = Extent::default();
        for item in list.iter() {
            let extent = crate::stack::grow(|| Extent::of(item));
            whole.size += 1 + extent.size;
            whole.depth = whole.depth.max(extent.depth);
        }
        whole.depth += 1;
        whole
    }
}

fn freeze(map: &Map, entries: BTreeMap<Str, Value>) -> Map {
    Map::lazy(map, Arc::new(Table::of(entries)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: Vec<(&str, Value)>) -> Map {
        entries.into_iter().collect()
    }

    /// Returns `{a: {b: {c: 1}}, l: [{m: 1}, [[{n: 1}]]], s: text}`.
    fn sample() -> Map {
        let inner = table(vec![("b", table(vec![("c", Value::int(1))]).into())]);
        let nested = Value::list(vec![Value::list(vec![table(vec![("n", Value::int(1))]).into()])]);
        let list = Value::list(vec![table(vec![("m", Value::int(1))]).into(), nested]);
        table(vec![("a", inner.into()), ("l", list), ("s", "text".into())])
    }

    fn inner(map: &Map, path: &str) -> Map {
        path.split('.').fold(map.clone(), |map, key| match map.get(key) {
            Some(Value::Map(inner)) => inner,
            Some(Value::List(list)) => list[0].as_map().expect("a map").clone(),
            other => panic!("{key}: {other:?}"),
        })
    }

    #[test]
    fn changing_a_copy_changes_neither_the_original_nor_other_copies() {
        let printed = format!("{:?}", sample());
        for path in ["a", "a.b", "l"] {
            let frozen = sample().frozen();
            let (changed, other) = (frozen.deep_copy(), frozen.deep_copy());
            inner(&changed, path).insert("new", true);
            assert!(format!("{changed:?}").contains("new:true"), "{path}");
            assert_eq!(format!("{frozen:?}"), printed, "{path}");
            assert_eq!(format!("{other:?}"), printed, "{path}");
            assert_eq!(format!("{:?}", changed.deep_copy()), format!("{changed:?}"), "{path}");
        }
    }

    #[test]
    fn reading_a_nested_map_of_a_copy_twice_returns_the_same_map() {
        let copy = sample().frozen().deep_copy();
        assert!(inner(&copy, "a.b").same(&inner(&copy, "a.b")));
        let seen = copy.snapshot();
        assert!(seen[0].1.as_map().is_some_and(|a| a.same(&inner(&copy, "a"))));
        assert!(copy.with_type(crate::MapType::Values).same(&copy));
        assert!(!copy.same(&copy.deep_copy()));
    }

    #[test]
    fn a_copy_of_a_changed_copy_has_the_changes() {
        let frozen = sample().frozen();
        let copy = frozen.deep_copy();
        copy.entries_mut().remove(&b"a"[..]);
        copy.insert("x", copy.get("l").unwrap_or_default());
        let again = copy.deep_copy();
        assert_eq!(again.entries().keys().map(|key| key.to_text().into_owned()).collect::<String>(), "lsx");
        assert!(!inner(&again, "l").same(&inner(&copy, "l")));
    }

    #[test]
    fn peek_and_len_copy_nothing() {
        let copy = sample().frozen().deep_copy();
        assert_eq!((copy.len(), copy.peek().len(), copy.is_empty()), (3, 3, false));
        assert_eq!(copy.get("s").unwrap_or_default().as_str().map(|s| s.to_text().into_owned()), Some("text".into()));
        assert!(copy.untouched().is_some());
        let leaf = inner(&copy, "a.b");
        assert_eq!(leaf.snapshot().len(), 1);
        assert!(copy.untouched().is_none() && leaf.untouched().is_some());
    }

    #[test]
    fn nil_below_a_frozen_map_is_known_until_something_changes() {
        let with = |value| table(vec![("a", table(vec![("b", value)]).into())]).frozen().deep_copy();
        assert!(with(Value::int(1)).is_known_without_nil());
        assert!(with(Value::list(vec![Value::Nil])).is_known_without_nil());
        assert!(!with(Value::Nil).is_known_without_nil());
        let changed = with(Value::int(1));
        inner(&changed, "a").insert("b", Value::Nil);
        assert!(!changed.is_known_without_nil());
    }

    #[test]
    fn maps_beyond_the_limits_are_not_frozen_and_deep_ones_do_not_overflow() {
        let own = Map::default();
        own.insert("self", own.clone());
        assert!(own.frozen().same(&own));
        own.entries_mut().clear();
        let deep = (0..9_000).fold(sample(), |map, _| table(vec![("x", map.into())]));
        let frozen = deep.frozen();
        drop(deep);
        let copy = frozen.deep_copy();
        drop(frozen);
        assert_eq!(inner(&copy, &["x"; 8_999].join(".")).len(), 1);
        let deeper = table(vec![("y", copy.clone().into())]);
        drop(copy);
        assert!((0..2_000).fold(deeper, |map, _| table(vec![("x", map.into())])).frozen().untouched().is_none());
    }
}
