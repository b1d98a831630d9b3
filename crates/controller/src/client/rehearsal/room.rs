//! The memory that a rehearsal may use for the objects that it records. Anyone who may write an object in the cluster
//! decides its size.

use std::sync::Mutex;

use outside::sync::lock;
use outside::weight;
use serde_json::Value;

/// What is left of a memory budget, in bytes; `None` once an object exceeded it.
pub(super) struct Room(Mutex<Option<usize>>);

impl Room {
    pub(super) fn of(bytes: usize) -> Room {
        Room(Mutex::new(Some(bytes)))
    }

    /// Takes the memory of an object; returns whether it fits. Once an object does not fit, no later one does.
    pub(super) fn take(&self, object: &Value) -> bool {
        let mut left = lock(&self.0);
        *left = left.and_then(|left| left.checked_sub(weight(object)));
        left.is_some()
    }

    /// Returns whether an object did not fit.
    pub(super) fn is_exceeded(&self) -> bool {
        lock(&self.0).is_none()
    }
}

#[cfg(test)]
mod tests {
    use outside::NODE_WEIGHT;
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_fits_after_something_did_not() {
        let room = Room::of(3 * NODE_WEIGHT);
        assert!(room.take(&json!(1)) && !room.is_exceeded());
        assert!(!room.take(&json!([1, 2, 3])) && room.is_exceeded());
        assert!(!room.take(&json!(1)));
    }
}
