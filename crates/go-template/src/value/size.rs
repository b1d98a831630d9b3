//! Estimates the memory that dropping a value would free.

use std::sync::Arc;

use super::{List, Map, Str, Value};
use crate::stack;

/// A string, besides its bytes: reference counts and allocator overhead.
const TEXT: usize = 32;
/// A list, besides its items.
const LIST: usize = 64;
/// A map, besides its entries.
const MAP: usize = 96;
/// A node of a map's tree, and the average number of entries in it.
const NODE: usize = 456;
const ENTRIES_PER_NODE: usize = 8;
/// An object, which is small and behind a pointer.
const OBJECT: usize = 128;

/// Size of a part, in bytes, from which it is counted separately, because it may outlive the whole.
const LARGE_PART: usize = 1 << 10;

impl Value {
    /// Returns whether something else refers to the same string, list, map or object. Always false for values without a reference count.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Value::String(s) | Value::Bytes(s) => Str::is_shared(s),
            Value::List(list) => list.is_shared(),
            Value::Map(map) => map.is_shared(),
            Value::Object(object) => Arc::strong_count(object) > 1,
            _ => false,
        }
    }

    /// Returns the bytes that only this value holds. Passes its large parts, which are not included, to `part`.
    pub(crate) fn own_bytes(&self, part: &mut dyn FnMut(&Value, usize)) -> usize {
        if self.is_shared() {
            return 0;
        }
        match self {
            Value::String(s) | Value::Bytes(s) => TEXT + s.len(),
            Value::List(list) => LIST + stack::grow(|| items(list, part)),
            Value::Map(map) => MAP + stack::grow(|| entries(map, part)),
            Value::Object(_) => OBJECT,
            _ => 0,
        }
    }
}

fn below(value: &Value, part: &mut dyn FnMut(&Value, usize)) -> usize {
    match value.own_bytes(part) {
        bytes if bytes >= LARGE_PART => {
            part(value, bytes);
            0
        }
        bytes => bytes,
    }
}

fn items(list: &List, part: &mut dyn FnMut(&Value, usize)) -> usize {
    list.iter().map(|item| size_of::<Value>() + below(item, part)).sum()
}

/// Returns the bytes of a map's entries; zero for a lazy copy, whose entries are the original's.
fn entries(map: &Map, part: &mut dyn FnMut(&Value, usize)) -> usize {
    if map.untouched().is_some() {
        return 0;
    }
    let entries = map.peek();
    let own: usize = entries.iter().map(|(key, value)| key.len() + below(value, part)).sum();
    entries.len().div_ceil(ENTRIES_PER_NODE) * NODE + own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(value: &Value) -> (usize, Vec<usize>) {
        let mut parts = Vec::new();
        let own = value.own_bytes(&mut |_, bytes| parts.push(bytes));
        (own, parts)
    }

    #[test]
    fn shared_values_count_nothing() {
        let text = Value::from("0123456789");
        assert_eq!(sizes(&text), (TEXT + 10, vec![]));
        let shared = text.clone();
        assert_eq!(sizes(&shared), (0, vec![]));
        assert_eq!(sizes(&Value::list(vec![text])), (LIST + size_of::<Value>(), vec![]));
        for value in [Value::list(vec![]), Map::default().into(), Value::Bytes("a".into())] {
            let other = value.clone();
            assert!(other.is_shared());
            drop(value);
            assert!(!other.is_shared());
        }
        assert!(!Value::int(1).is_shared());
        assert_eq!(sizes(&Value::int(1)), (0, vec![]));
    }

    #[test]
    fn nested_values_count_and_large_parts_count_separately() {
        let item = size_of::<Value>();
        assert_eq!(sizes(&Value::list(vec!["abc".into(), Value::Nil])), (LIST + 2 * item + TEXT + 3, vec![]));
        let large = "x".repeat(LARGE_PART);
        assert_eq!(sizes(&Value::list(vec![large.as_str().into()])), (LIST + item, vec![TEXT + LARGE_PART]));
        let map: Map = [("key", Value::from("abc")), ("large", Value::from(large))].into_iter().collect();
        assert_eq!(sizes(&Value::Map(map)), (MAP + NODE + 8 + TEXT + 3, vec![TEXT + LARGE_PART]));
        let nine: Map = (0..9).map(|i| (i.to_string(), Value::int(i))).collect();
        assert_eq!(sizes(&Value::Map(nine)), (MAP + 2 * NODE + 9, vec![]));
    }

    #[test]
    fn a_lazy_copy_counts_nothing_for_what_it_shares() {
        let map: Map = (0..99).map(|i| (i.to_string(), Value::from("text"))).collect();
        let frozen = map.frozen();
        let copy = Value::Map(frozen.deep_copy());
        assert_eq!(sizes(&copy), (MAP, vec![]));
        copy.as_map().unwrap().insert("new", "text");
        assert_eq!(sizes(&copy), (MAP + 13 * NODE + 10 + 89 * 2 + 3 + TEXT + 4, vec![]));
    }
}
