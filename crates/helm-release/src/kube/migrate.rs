//! Moves the fields of a release's earlier managers to ours; otherwise fields that a later chart drops would stay for ever.
//!
//! Counterpart: client-go's `util/csaupgrade`, which moves one manager; we move the upstream operators', Helm's and kubectl's.

use serde_json::{Map, Value, json};

use super::FIELD_MANAGER;
use super::unowned::is_ours;

/// Field managers that wrote release objects before us.
const PREDECESSORS: [&str; 5] =
    ["helm-operator", "manager", "helm", "helm-operator-plugins", "kubectl-client-side-apply"];

/// Returns the managed fields with every predecessor's entry merged into ours; `None` if there is none.
pub(crate) fn migrated_managers(managed_fields: &Value) -> Option<Value> {
    let entries = managed_fields.as_array()?;
    let (theirs, mut kept): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(|entry| is_predecessor(entry));
    if theirs.is_empty() {
        return None;
    }
    let ours = kept.iter().position(|entry| is_ours(entry)).map(|at| kept.remove(at));
    let mut fields = Value::Object(Map::new());
    for entry in theirs.iter().copied().chain(ours) {
        union(&mut fields, &entry["fieldsV1"], 0);
    }
    let newest = ours.unwrap_or(theirs[0]);
    let entry = json!({
        "manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": newest["apiVersion"], "time": newest["time"],
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    Some(std::iter::once(entry).chain(kept.into_iter().cloned()).collect())
}

fn is_predecessor(entry: &Value) -> bool {
    let known = entry["manager"].as_str().is_some_and(|manager| PREDECESSORS.contains(&manager));
    (known || sets_release_name(entry)) && has_no_subresource(entry) && !is_ours(entry)
}

/// A custom-built operator has its program's name as manager, but it writes Helm's ownership annotations.
fn sets_release_name(entry: &Value) -> bool {
    !entry["fieldsV1"]["f:metadata"]["f:annotations"]["f:meta.helm.sh/release-name"].is_null()
}

fn has_no_subresource(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or("").is_empty()
}

/// The server limits the depth of objects; this protects our stack from a hostile one.
const MAX_DEPTH: usize = 512;

/// Adds the fields of one set to another, from `depth` 0 down to [`MAX_DEPTH`].
pub(super) fn union(into: &mut Value, from: &Value, depth: usize) {
    let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) else { return };
    if depth > MAX_DEPTH {
        return;
    }
    for (key, value) in from {
        union(into.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())), value, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": manager, "fieldsV1": fields})
    }

    fn ours(version: &str, time: &str, fields: Value) -> Value {
        json!({
            "manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": version, "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    #[test]
    fn without_predecessors_nothing_moves() {
        assert_eq!(migrated_managers(&Value::Null), None);
        assert_eq!(migrated_managers(&json!([])), None);
        let apply = ours("v1", "t", json!({"f:a": {}}));
        let status = {
            let mut entry = entry("helm", "Update", json!({"f:status": {}}));
            entry["subresource"] = "status".into();
            entry
        };
        assert_eq!(migrated_managers(&json!([apply, entry("kubectl", "Update", json!({})), status])), None);
    }

    #[test]
    fn the_fields_of_every_predecessor_become_ours() {
        for manager in PREDECESSORS {
            let entries =
                json!([entry("kubectl", "Update", json!({"f:b": {}})), entry(manager, "Update", json!({"f:a": {}}))]);
            let expected = json!([ours("v1", manager, json!({"f:a": {}})), entries[0]]);
            assert_eq!(migrated_managers(&entries), Some(expected), "{manager}");
        }
        let annotated = json!({"f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}}});
        let migrated = migrated_managers(&json!([entry("my-operator", "Update", annotated.clone())]));
        assert_eq!(migrated, Some(json!([ours("v1", "my-operator", annotated)])));
    }

    #[test]
    fn several_entries_merge_under_our_api_version_and_time() {
        let mine = ours("apps/v1", "now", json!({"f:spec": {"f:b": {".": {}}, "f:c": {}}}));
        let entries = json!([
            entry("helm", "Update", json!({"f:spec": {"f:a": {}, "f:b": {}}})),
            entry("kubectl", "Update", json!({})),
            mine,
            entry("manager", "Apply", json!({"f:spec": {"f:d": {}}})),
        ]);
        let united = ours("apps/v1", "now", json!({"f:spec": {"f:a": {}, "f:b": {".": {}}, "f:c": {}, "f:d": {}}}));
        assert_eq!(migrated_managers(&entries), Some(json!([united, entries[1]])));
    }

    #[test]
    fn excessive_depth_is_cut_off() {
        let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"f:a": inner}));
        let depth = |mut value: &Value| {
            let mut depth = 0;
            while let Some(inner) = value.get("f:a") {
                (value, depth) = (inner, depth + 1);
            }
            depth
        };
        for (levels, expected) in
            [(MAX_DEPTH, MAX_DEPTH), (MAX_DEPTH + 1, MAX_DEPTH + 1), (MAX_DEPTH + 9, MAX_DEPTH + 1)]
        {
            let mut into = json!({});
            union(&mut into, &deep(levels), 0);
            assert_eq!(depth(&into), expected);
        }
    }
}
