//! Moving in: the fields of a client-side manager of the same release become ours, or what a later chart drops would stay for ever.
//!
//! Counterpart: client-go's `util/csaupgrade`, which knows one manager; we take the operators', Helm's and kubectl's.

use serde_json::{Map, Value, json};

use super::FIELD_MANAGER;

/// Who managed objects of a release before us.
const PREDECESSORS: [&str; 5] =
    ["helm-operator", "manager", "helm", "helm-operator-plugins", "kubectl-client-side-apply"];

/// The managed fields with every predecessor's entry turned into ours; absent if there is nothing to turn.
pub fn migrated_managers(managed_fields: &Value) -> Option<Value> {
    let entries = managed_fields.as_array()?;
    let (theirs, mut kept): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(|entry| is_predecessor(entry));
    if theirs.is_empty() {
        return None;
    }
    let ours = kept.iter().position(|entry| is_ours(entry)).map(|at| kept.remove(at));
    let mut fields = Value::Object(Map::new());
    for entry in theirs.iter().copied().chain(ours) {
        unite(&mut fields, &entry["fieldsV1"], 0);
    }
    let newest = ours.unwrap_or(theirs[0]);
    let entry = json!({
        "manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": newest["apiVersion"], "time": newest["time"],
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    Some(std::iter::once(entry).chain(kept.into_iter().cloned()).collect())
}

fn is_ours(entry: &Value) -> bool {
    entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply" && has_no_subresource(entry)
}

fn is_predecessor(entry: &Value) -> bool {
    let known = entry["manager"].as_str().is_some_and(|manager| PREDECESSORS.contains(&manager));
    (known || says_whose_it_is(entry)) && has_no_subresource(entry) && !is_ours(entry)
}

/// An operator built by someone else has its program's name as manager; but it is who wrote Helm's ownership annotations.
fn says_whose_it_is(entry: &Value) -> bool {
    !entry["fieldsV1"]["f:metadata"]["f:annotations"]["f:meta.helm.sh/release-name"].is_null()
}

fn has_no_subresource(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or("").is_empty()
}

/// The server bounds how deep an object is; this only keeps a hostile one off our stack.
const MAX_DEPTH: usize = 512;

fn unite(into: &mut Value, from: &Value, depth: usize) {
    let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) else { return };
    if depth > MAX_DEPTH {
        return;
    }
    for (key, value) in from {
        unite(into.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())), value, depth + 1);
    }
}
