//! Patches: JSON merge patch, JSON patch, strategic merge patch.

mod json;
mod strategic;

use serde_json::{Map, Value};

pub(crate) use json::json_patch;
pub(crate) use strategic::strategic_patch;

/// Applies a JSON merge patch (RFC 7386).
pub(crate) fn merge_patch(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return *object = patch.clone() };
    if !object.is_object() {
        *object = Map::new().into();
    }
    let Some(map) = object.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge_patch(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
