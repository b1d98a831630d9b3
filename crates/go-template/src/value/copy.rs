//! Copies values deeply, and drops them. Neither may overflow the stack, however deeply values nest.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::LimitError;
use crate::stack;

use super::{List, Map, Str, Value};

/// Maximum number of values in a deep copy. A map that contains itself has no end, and a few template lines create 2^60 paths to one map.
pub const MAX_COPIED_VALUES: usize = 1_000_000;

/// Maximum nesting of a value to be copied.
pub const MAX_COPIED_DEPTH: usize = 10_000;

/// The budget of one copy: the values and levels that it may still use.
pub(super) struct Budget {
    values: usize,
    depth: usize,
}

impl Budget {
    /// Returns the budget of one copy.
    pub(super) fn whole() -> Budget {
        Budget { values: MAX_COPIED_VALUES, depth: MAX_COPIED_DEPTH }
    }

    fn spend(&mut self, values: usize) -> Result<(), LimitError> {
        self.values = self.values.checked_sub(values).ok_or_else(|| exceeded("copied values", MAX_COPIED_VALUES))?;
        Ok(())
    }

    /// Fails if the budget does not allow this many more levels.
    pub(super) fn reach(&self, levels: usize) -> Result<(), LimitError> {
        if levels > self.depth { Err(exceeded("copied depth", MAX_COPIED_DEPTH)) } else { Ok(()) }
    }

    /// Runs the closure one level deeper.
    pub(super) fn nested<T>(&mut self, f: impl FnOnce(&mut Budget) -> Result<T, LimitError>) -> Result<T, LimitError> {
        self.reach(1)?;
        self.depth -= 1;
        let result = stack::grow(|| f(self));
        self.depth += 1;
        result
    }
}

impl Value {
    /// Returns a copy that shares no map with this value. Strings, and lists that contain no map, stay shared.
    ///
    /// # Errors
    /// Fails with the limit that was exceeded: [`MAX_COPIED_VALUES`] or [`MAX_COPIED_DEPTH`].
    pub fn try_deep_copy(&self) -> Result<Value, LimitError> {
        copy_value(self, &mut Budget::whole(), Map::with_entries)
    }

    /// Copies like [`try_deep_copy`](Self::try_deep_copy), but returns the value itself if it exceeds a limit. Only for values that no template
    /// created.
    pub fn deep_copy(&self) -> Value {
        self.try_deep_copy().unwrap_or_else(|_| self.clone())
    }
}

impl Map {
    /// Returns a copy that shares no map with this one, within the limits of [`Value::deep_copy`]. The copy of a [frozen](Map::frozen) map is lazy.
    pub fn deep_copy(&self) -> Map {
        match Value::Map(self.clone()).deep_copy() {
            Value::Map(map) => map,
            _ => self.clone(),
        }
    }
}

impl List {
    /// Returns a copy that shares no map with this list, within the limits of [`Value::deep_copy`].
    pub fn deep_copy(&self) -> List {
        match Value::List(self.clone()).deep_copy() {
            Value::List(list) => list,
            _ => self.clone(),
        }
    }
}

/// Creates a map like the first one, from entries that are already copied.
type Rebuild = fn(&Map, BTreeMap<Str, Value>) -> Map;

fn copy_value(value: &Value, budget: &mut Budget, rebuild: Rebuild) -> Result<Value, LimitError> {
    match value {
        Value::Map(map) => copy_map(map, budget, rebuild).map(Value::Map),
        Value::List(list) if list.holds_map() => {
            budget.spend(list.len())?;
            let copy = |budget: &mut Budget| list.iter().map(|item| copy_value(item, budget, rebuild)).collect();
            Ok(Value::List(List::new(list.ty(), budget.nested(copy)?)))
        }
        other => Ok(other.clone()),
    }
}

/// Copies a map: lazily if it is frozen, else entry by entry.
pub(super) fn copy_map(map: &Map, budget: &mut Budget, rebuild: Rebuild) -> Result<Map, LimitError> {
    if let Some(table) = map.untouched() {
        budget.spend(table.size)?;
        budget.reach(table.depth)?;
        return Ok(Map::lazy(map, Arc::clone(table)));
    }
    let mut entries = map.entries().clone();
    budget.spend(entries.len())?;
    budget.nested(|budget| {
        for value in entries.values_mut().filter(|value| value.holds_map()) {
            *value = copy_value(value, budget, rebuild)?;
        }
        Ok(())
    })?;
    Ok(rebuild(map, entries))
}

fn exceeded(name: &'static str, limit: usize) -> LimitError {
    LimitError { name, message: limit.to_string() }
}

/// Drops nested lists and maps iteratively instead of recursively.
pub(super) fn drop_flat(values: impl Iterator<Item = Value>) {
    let nests = |value: &Value| matches!(value, Value::List(_) | Value::Map(_));
    let mut pending: Vec<Value> = values.filter(nests).collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::List(list) => pending.extend(list.into_last_items().into_iter().filter(nests)),
            Value::Map(map) => pending.extend(map.into_last_values().filter(nests)),
            _ => {}
        }
    }
}
