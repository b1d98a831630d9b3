//! How large the result of one function may get. Charts are untrusted, and a short template can ask for any size.

use go_template::{FuncError, LimitError};
use golibs::work::note_work;

/// The longest string that one function makes, in bytes: far over any manifest, which a cluster takes up to 1.5 MiB of.
pub(super) const MAX_STRING_BYTES: usize = 16 << 20;

/// The longest list that one function makes.
pub(super) const MAX_LIST_ITEMS: usize = 1_000_000;

/// How deep functions walk values: a map can contain itself.
pub(super) const MAX_VALUE_DEPTH: usize = 500;

/// How many values one deep copy, merge or comparison visits: a map that contains itself twice would otherwise double at each level.
pub(super) const MAX_VALUE_NODES: usize = 1_000_000;

/// Fails if a string of so many bytes is over the limit.
pub(super) fn check_string(function: &str, bytes: usize) -> Result<(), FuncError> {
    check(function, "MAX_STRING_BYTES", bytes, MAX_STRING_BYTES, "bytes")
}

/// Fails if a list of so many items is over the limit.
pub(super) fn check_list(function: &str, items: usize) -> Result<(), FuncError> {
    check(function, "MAX_LIST_ITEMS", items, MAX_LIST_ITEMS, "items")
}

fn check(function: &str, name: &'static str, size: usize, limit: usize, unit: &str) -> Result<(), FuncError> {
    if size <= limit {
        return Ok(());
    }
    Err(exceeded(name, format!("{function} would make more than {limit} {unit}")))
}

/// The error of a limit.
pub fn exceeded(name: &'static str, message: String) -> FuncError {
    FuncError::Limit(LimitError { name, message })
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

    /// Goes one level down, to as many items, for the length of the call.
    pub(super) fn enter<T>(
        &mut self,
        items: usize,
        visit: impl FnOnce(&mut Walk) -> Result<T, FuncError>,
    ) -> Result<T, FuncError> {
        self.count(1 + items)?;
        if self.depth >= MAX_VALUE_DEPTH {
            return Err(exceeded("MAX_VALUE_DEPTH", format!("values nest more than {MAX_VALUE_DEPTH} deep")));
        }
        self.depth += 1;
        let result = visit(self);
        self.depth -= 1;
        result
    }

    /// Counts values that are visited.
    pub(super) fn count(&mut self, values: usize) -> Result<(), FuncError> {
        self.nodes += values;
        if self.nodes > MAX_VALUE_NODES {
            return Err(exceeded("MAX_VALUE_NODES", format!("more than {MAX_VALUE_NODES} values")));
        }
        Ok(())
    }
}

/// The run that calls the function counts the walk among its steps.
impl Drop for Walk {
    fn drop(&mut self) {
        note_work(self.nodes as u64);
    }
}
