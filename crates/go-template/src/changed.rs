//! The maps that functions changed during a run. Go's garbage collector frees cycles; reference counting does not, so the host breaks them.

use std::collections::HashSet;

use crate::value::{Map, Value};

/// Maps into which a function put a map or a list, and which may therefore contain themselves.
#[derive(Debug, Default)]
pub(crate) struct ChangedMaps(Vec<Map>);

impl ChangedMaps {
    /// Records that the value was put into the map.
    pub(crate) fn add(&mut self, map: &Map, value: &Value) {
        if nests(value) && !self.0.last().is_some_and(|last| last.same(map)) {
            self.0.push(map.clone());
        }
    }

    /// Empties the maps and everything in them.
    pub(crate) fn empty(self) {
        let mut pending: Vec<Value> = self.0.into_iter().map(Value::Map).collect();
        let mut seen = HashSet::new();
        while let Some(value) = pending.pop() {
            match value {
                Value::Map(map) => pending.extend(map.take_own().into_values().filter(nests)),
                Value::List(list) if seen.insert(list.as_ptr()) => {
                    pending.extend(list.iter().filter(|item| nests(item)).cloned());
                }
                _ => {}
            }
        }
    }
}

fn nests(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::List(_))
}
