//! How large the result of one function may get. Charts are untrusted, and a short template can ask for any size.

use go_template::FuncError;

/// The longest string that one function makes, in bytes: far over any manifest, which a cluster takes up to 1.5 MiB of.
pub(super) const MAX_STRING_BYTES: usize = 16 << 20;

/// The longest list that one function makes.
pub(super) const MAX_LIST_ITEMS: usize = 1_000_000;

/// How deep functions walk values: a map can contain itself.
pub(super) const MAX_VALUE_DEPTH: usize = 500;

/// How many values one deep copy, merge or comparison visits: a map that contains itself twice would otherwise double at each level.
pub(super) const MAX_VALUE_NODES: usize = 2_000_000;

/// Fails if a string of so many bytes is over the limit.
pub(super) fn check_string(function: &str, bytes: usize) -> Result<(), FuncError> {
    check(function, "MAX_STRING_BYTES", bytes, MAX_STRING_BYTES, "bytes")
}

/// Fails if a list of so many items is over the limit.
pub(super) fn check_list(function: &str, items: usize) -> Result<(), FuncError> {
    check(function, "MAX_LIST_ITEMS", items, MAX_LIST_ITEMS, "items")
}

fn check(function: &str, name: &str, size: usize, limit: usize, unit: &str) -> Result<(), FuncError> {
    if size <= limit {
        return Ok(());
    }
    Err(FuncError::new(format!("{function}: the result would exceed the limit {name} of {limit} {unit}")))
}

/// What is left of [`MAX_VALUE_DEPTH`] and [`MAX_VALUE_NODES`] in one walk over a value.
pub(super) struct Walk {
    depth: usize,
    nodes: usize,
}

impl Walk {
    /// A walk that has visited nothing.
    pub(super) fn new() -> Walk {
        Walk { depth: 0, nodes: 0 }
    }

    /// Goes one level down for the length of the call.
    pub(super) fn enter<T>(&mut self, visit: impl FnOnce(&mut Walk) -> Result<T, FuncError>) -> Result<T, FuncError> {
        self.nodes += 1;
        if self.nodes > MAX_VALUE_NODES {
            return Err(FuncError::new(format!("value exceeds the limit MAX_VALUE_NODES of {MAX_VALUE_NODES}")));
        }
        if self.depth >= MAX_VALUE_DEPTH {
            return Err(FuncError::new(format!("value exceeds the limit MAX_VALUE_DEPTH of {MAX_VALUE_DEPTH}")));
        }
        self.depth += 1;
        let result = visit(self);
        self.depth -= 1;
        result
    }
}
