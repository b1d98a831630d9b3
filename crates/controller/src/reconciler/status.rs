//! Decides which part of a wanted status is the reconciler's.

use serde_json::{Map, Value};

use super::apply::applied_by;

/// The subresource to which the status belongs.
pub(super) const STATUS: &str = "status";

/// Returns the wanted status without other managers' conditions that it copies from the state that the reconciler has
/// read. If written, they would become this manager's, with a value that may be old. `newest` is the newest known state
/// of the resource, which names the manager's own conditions.
///
/// A list of conditions that is one value, because its schema does not make it a map by type, is kept whole.
pub(super) fn without_copies(mut wanted: Value, read: &Value, newest: &Value, manager: &str) -> Value {
    let Some(entries) = newest["metadata"]["managedFields"].as_array() else { return wanted };
    if entries.iter().any(|entry| has_whole_conditions(&entry["fieldsV1"])) {
        return wanted;
    }
    let own = applied_by(newest, manager, STATUS).map(|fields| &fields["f:status"]["f:conditions"]);
    let own: Vec<Value> =
        own.and_then(Value::as_object).into_iter().flat_map(Map::keys).filter_map(|k| key(k)).collect();
    let copied = read["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_ours =
        |condition: &Value| own.iter().any(|own| own["type"] == condition["type"]) || !copied.contains(condition);
    let Some(conditions) = wanted.get_mut("conditions").and_then(Value::as_array_mut) else { return wanted };
    let all = conditions.len();
    conditions.retain(is_ours);
    // The server would store an empty list as a value.
    if all > 0
        && conditions.is_empty()
        && let Some(status) = wanted.as_object_mut()
    {
        status.remove("conditions");
    }
    wanted
}

/// Returns whether an entry of the managed fields has the list of conditions as one value.
pub(super) fn has_whole_conditions(fields: &Value) -> bool {
    fields["f:status"]["f:conditions"].as_object().is_some_and(Map::is_empty)
}

/// Reads the key of a managed list item: `k:{"type":"Ready"}`.
fn key(field: &str) -> Option<Value> {
    serde_json::from_str(field.strip_prefix("k:")?).ok()
}
