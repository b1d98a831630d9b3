//! Looks up nested keys without touching the reference counts of the maps in between, and without copying shared maps.

use std::collections::BTreeMap;
use std::mem;

use super::{Map, MapType, Str, Value};

/// Maximum number of keys that one lookup follows: each holds a lock and a stack frame.
const MAX_PATH: usize = 16;

/// The result of following a path of keys.
#[derive(Debug)]
pub(crate) enum Reached {
    /// The value, an element of type `interface {}`.
    Value(Value),
    /// The last map does not contain the last key.
    Missing,
    /// Undecided: the caller must look up one key at a time.
    Unknown,
}

impl Map {
    /// Follows at most [`MAX_PATH`] keys into nested maps. Decides only if all maps have elements of type `interface {}` and no key is the name of a
    /// method.
    pub(crate) fn reach(&self, path: &[Str], is_method: &impl Fn(MapType, &[u8]) -> bool) -> Reached {
        if path.len() > MAX_PATH { Reached::Unknown } else { self.follow(path, is_method, false) }
    }

    /// Follows the path. If `frozen`, this map may belong to a frozen original, so the caller must not keep any of its values that contain a map.
    fn follow(&self, path: &[Str], is_method: &impl Fn(MapType, &[u8]) -> bool, frozen: bool) -> Reached {
        let Some((key, rest)) = path.split_first() else { return Reached::Unknown };
        if !self.ty().is_interface() || is_method(self.ty(), key) {
            return Reached::Unknown;
        }
        let frozen_below = frozen || self.untouched().is_some();
        match (self.peek().get(&**key), rest) {
            (None, []) => return Reached::Missing,
            (Some(value), []) if !frozen_below || !value.holds_map() => return Reached::Value(value.clone()),
            (Some(Value::Map(inner)), [_, ..]) => return inner.follow(rest, is_method, frozen_below),
            _ => {}
        }
        match rest {
            [] if !frozen => self.get(key).map_or(Reached::Missing, Reached::Value),
            _ => Reached::Unknown,
        }
    }

    /// Takes out the map's own entries. Entries that it still shares with its original stay there.
    pub(crate) fn take_own(&self) -> BTreeMap<Str, Value> {
        match self.untouched() {
            Some(_) => BTreeMap::new(),
            None => mem::take(&mut *self.entries_mut()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(map: &Map, path: &[&str]) -> String {
        let path: Vec<Str> = path.iter().map(|key| Str::from(*key)).collect();
        format!("{:?}", map.reach(&path, &|ty, name| ty == MapType::Values && name == b"YAML"))
    }

    #[test]
    fn nested_values_are_found_or_reported_missing() {
        let inner: Map = [("n", 1.0)].into_iter().collect();
        let map: Map = [("a", Value::Map(inner.clone())), ("s", "x".into()), ("nil", Value::Nil)].into_iter().collect();
        assert_eq!(reach(&map, &["a", "n"]), "Value(Float(1.0))");
        assert_eq!(reach(&map, &["a", "z"]), "Missing");
        assert_eq!(reach(&map, &["nil"]), "Value(Nil)");
        for path in [&["z", "n"][..], &["s", "n"], &["nil", "n"], &[], &["a"; MAX_PATH + 1]] {
            assert_eq!(reach(&map, path), "Unknown", "{path:?}");
        }
        assert_eq!(reach(&map.with_type(MapType::Values), &["YAML"]), "Unknown");
        assert_eq!(reach(&map.with_type(MapType::String), &["s"]), "Unknown");
        let path = [Str::from("a")];
        let Reached::Value(Value::Map(found)) = map.reach(&path, &|_, _| false) else { unreachable!() };
        assert!(found.same(&inner));
    }

    #[test]
    fn take_own_returns_only_the_map_s_own_entries() {
        let map: Map = [("a", 1.0)].into_iter().collect();
        assert_eq!(map.take_own().len(), 1);
        assert!(map.is_empty());
    }
}
