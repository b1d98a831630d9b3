//! The memory that a rehearsal may take for the objects that it records. Anyone who may change an object in the cluster
//! decides how large it is.

use std::sync::Mutex;

use outside::sync::lock;
use serde_json::Value;

/// The memory of a value, or of a key with its place in a map, besides its text, in bytes.
const NODE: usize = 64;

/// What is left of a budget, in bytes; `None` once something did not fit.
pub(super) struct Room(Mutex<Option<usize>>);

impl Room {
    pub(super) fn of(bytes: usize) -> Room {
        Room(Mutex::new(Some(bytes)))
    }

    /// Takes the memory of an object; returns whether it fits. After one that does not, none does.
    pub(super) fn take(&self, object: &Value) -> bool {
        let mut left = lock(&self.0);
        *left = left.and_then(|left| left.checked_sub(weight(object)));
        left.is_some()
    }

    /// Returns whether something did not fit.
    pub(super) fn is_exceeded(&self) -> bool {
        lock(&self.0).is_none()
    }
}

/// Estimates the memory of a value. The parser limits its depth.
fn weight(value: &Value) -> usize {
    let content: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| NODE + key.len() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    NODE + content
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_values_weigh_more_than_their_text() {
        for (value, expected) in [
            (json!(null), NODE),
            (json!("text"), NODE + 4),
            (json!(["a", 1]), 3 * NODE + 1),
            (json!({"key": {"k": "text"}}), 5 * NODE + 8),
        ] {
            assert_eq!(weight(&value), expected, "{value}");
        }
    }

    #[test]
    fn nothing_fits_after_something_did_not() {
        let room = Room::of(3 * NODE);
        assert!(room.take(&json!(1)) && !room.is_exceeded());
        assert!(!room.take(&json!([1, 2, 3])) && room.is_exceeded());
        assert!(!room.take(&json!(1)));
    }
}
