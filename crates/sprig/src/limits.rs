//! Limits on the result of one function. Charts are untrusted, and a short template can request a result of any size.

use go_template::{FuncError, LimitError};
use golibs::work::{note_work, spend};

/// Maximum length of a string from one function, in bytes: far larger than a manifest, of which a cluster accepts 1.5 MiB.
pub(super) const MAX_STRING_BYTES: usize = 16 << 20;

/// Maximum length of a list from one function.
pub(super) const MAX_LIST_ITEMS: usize = 1_000_000;

/// Maximum depth to which functions walk values, because a map can contain itself.
pub(super) const MAX_VALUE_DEPTH: usize = 500;

/// Maximum number of values that one deep copy, merge or comparison visits: a map that contains itself twice would double at each level.
pub(super) const MAX_VALUE_NODES: usize = 1_000_000;

/// Fails if a string of this many bytes exceeds the limit.
pub(super) fn check_string(function: &str, bytes: usize) -> Result<(), FuncError> {
    check(function, "MAX_STRING_BYTES", bytes, MAX_STRING_BYTES, "bytes")
}

/// Fails if a list of this many items exceeds the limit of one function.
///
/// # Errors
/// Fails with the limit that was exceeded.
pub fn check_list(function: &str, items: usize) -> Result<(), FuncError> {
    check(function, "MAX_LIST_ITEMS", items, MAX_LIST_ITEMS, "items")
}

fn check(function: &str, name: &'static str, size: usize, limit: usize, unit: &str) -> Result<(), FuncError> {
    if size <= limit {
        return Ok(());
    }
    Err(exceeded(name, format!("{function} would make more than {limit} {unit}")))
}

/// Returns the error of an exceeded limit.
pub fn exceeded(name: &'static str, message: String) -> FuncError {
    FuncError::Limit(LimitError { name, message })
}

/// Bytes of a compared or hashed string per step.
const BYTES_PER_STEP: usize = 128;

/// Charges for comparing or hashing a string, before doing so.
pub(super) fn spend_bytes(bytes: usize) -> Result<(), FuncError> {
    Ok(spend((bytes / BYTES_PER_STEP) as u64)?)
}

/// The progress of one walk over a value, limited by [`MAX_VALUE_DEPTH`] and [`MAX_VALUE_NODES`].
pub(super) struct Walk {
    depth: usize,
    nodes: usize,
}

impl Walk {
    pub(super) fn new() -> Walk {
        Walk { depth: 0, nodes: 0 }
    }

    /// Runs `visit` one level deeper, for this many items.
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

    pub(super) fn count(&mut self, values: usize) -> Result<(), FuncError> {
        self.nodes += values;
        if self.nodes > MAX_VALUE_NODES {
            return Err(exceeded("MAX_VALUE_NODES", format!("more than {MAX_VALUE_NODES} values")));
        }
        Ok(())
    }
}

/// Charges the walk to the caller's run as steps.
impl Drop for Walk {
    fn drop(&mut self) {
        note_work(self.nodes as u64);
    }
}
