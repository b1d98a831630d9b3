//! Copies that share no map with their original, and the end of values: neither may overflow the stack, however deep values nest.

use crate::error::LimitError;
use crate::stack;

use super::{List, ListType, Map, Value};

/// How many values a copy may consist of. Values that hold themselves have no end, and a few lines make 2^60 paths to one map.
pub const MAX_COPIED_VALUES: usize = 1_000_000;

/// How deep the values that are copied may nest.
pub const MAX_COPIED_DEPTH: usize = 10_000;

/// What the copy may still use.
struct Budget {
    values: usize,
    depth: usize,
}

impl Value {
    /// A copy that shares no map with this value; lists and strings without maps inside stay shared.
    ///
    /// # Errors
    /// The limit that was exceeded: [`MAX_COPIED_VALUES`] or [`MAX_COPIED_DEPTH`].
    pub fn try_deep_copy(&self) -> Result<Value, LimitError> {
        copy(self, &mut Budget { values: MAX_COPIED_VALUES, depth: MAX_COPIED_DEPTH })
    }

    /// A copy as [`try_deep_copy`](Self::try_deep_copy) makes it. A value beyond its limits stays shared: only for values that no
    /// template made.
    pub fn deep_copy(&self) -> Value {
        self.try_deep_copy().unwrap_or_else(|_| self.clone())
    }
}

impl Map {
    /// A copy that shares no map with this one, within the limits of [`Value::deep_copy`].
    pub fn deep_copy(&self) -> Map {
        match Value::Map(self.clone()).deep_copy() {
            Value::Map(map) => map,
            _ => self.clone(),
        }
    }
}

impl List {
    /// A copy that shares no map with this list, within the limits of [`Value::deep_copy`].
    pub fn deep_copy(&self) -> List {
        match Value::List(self.clone()).deep_copy() {
            Value::List(list) => list,
            _ => self.clone(),
        }
    }
}

fn copy(value: &Value, budget: &mut Budget) -> Result<Value, LimitError> {
    budget.values = budget.values.checked_sub(1).ok_or_else(|| exceeded("copied values", MAX_COPIED_VALUES))?;
    match value {
        Value::List(list) if !list.is_nil() && list.ty() != ListType::String && list.ty() != ListType::Int => {
            let copied = nested(budget, |budget| list.iter().map(|v| copy(v, budget)).collect::<Result<_, _>>());
            Ok(Value::List(List::new(list.ty(), copied?)))
        }
        Value::Map(map) => {
            let copied = nested(budget, |budget| {
                map.snapshot().into_iter().map(|(k, v)| Ok((k, copy(&v, budget)?))).collect::<Result<_, _>>()
            });
            Ok(Value::Map(Map::new(map.ty(), copied?)))
        }
        other => Ok(other.clone()),
    }
}

fn nested<T>(budget: &mut Budget, f: impl FnOnce(&mut Budget) -> Result<T, LimitError>) -> Result<T, LimitError> {
    budget.depth = budget.depth.checked_sub(1).ok_or_else(|| exceeded("copied depth", MAX_COPIED_DEPTH))?;
    let result = stack::grow(|| f(budget));
    budget.depth += 1;
    result
}

fn exceeded(name: &'static str, limit: usize) -> LimitError {
    LimitError { name, message: limit.to_string() }
}

/// Drops nested lists and maps one after the other instead of inside each other.
pub(super) fn drop_flat(values: impl Iterator<Item = Value>) {
    let nests = |value: &Value| matches!(value, Value::List(_) | Value::Map(_));
    let mut pending: Vec<Value> = values.filter(nests).collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::List(list) => pending.extend(list.into_last_items().into_iter().filter(nests)),
            Value::Map(map) => pending.extend(map.into_last_entries().into_values().filter(nests)),
            _ => {}
        }
    }
}
