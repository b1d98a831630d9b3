//! Moves the fields of a release's earlier writers to ours; otherwise fields that a later chart drops would stay
//! forever.
//!
//! An entry moves because its writer made the object for the release, never because of its name, which any program may
//! use. After the move the entry no longer exists, so nothing moves twice. The additions of other controllers stay,
//! even under the name of an earlier writer: finalizers, their owner references, CA bundles. Counterpart: client-go's
//! `util/csaupgrade`, which moves the manager that it is given.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::kube::fields::unowned::is_ours;
use crate::kube::objects::decorate::{FIELD_MANAGER, PRIMARY_ANNOTATION, RELEASE_NAME};

/// The manager of Helm's command line.
const HELM: &str = "helm";

/// Returns the managed fields with those of the release's earlier writers moved to our entry; `None` if none moves.
/// `owner` is the owner's uid; empty if there is no owner.
pub(crate) fn migrated_managers(managed_fields: &Value, owner: &str) -> Option<Value> {
    let entries = managed_fields.as_array()?;
    let makers: HashSet<&str> =
        entries.iter().filter(|e| made_release(e)).filter_map(|e| e["manager"].as_str()).collect();
    let (mut fields, mut kept) = (Value::Object(Map::new()), Vec::new());
    let (mut ours, mut newest) = (None, None);
    for entry in entries {
        if is_ours(entry) {
            ours = Some(entry);
            continue;
        }
        let moved = if is_predecessor(entry, &makers) { moving(&entry["fieldsV1"], owner) } else { Value::Null };
        if moved.as_object().is_none_or(Map::is_empty) {
            kept.push(entry.clone());
            continue;
        }
        newest.get_or_insert(entry);
        union(&mut fields, &moved, 0);
        let left = without(&entry["fieldsV1"], &moved, 0);
        if left.as_object().is_some_and(|left| !left.is_empty()) {
            let mut entry = entry.clone();
            entry["fieldsV1"] = left;
            kept.push(entry);
        }
    }
    let newest = ours.or(newest).filter(|_| newest.is_some())?;
    if let Some(ours) = ours {
        union(&mut fields, &ours["fieldsV1"], 0);
    }
    let entry = json!({
        "manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": newest["apiVersion"], "time": newest["time"],
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    Some(std::iter::once(entry).chain(kept).collect())
}

/// Returns whether the entry wrote the object for the release: Helm's command line, an operator that made it, or our
/// own client-side writes.
fn is_predecessor(entry: &Value, makers: &HashSet<&str>) -> bool {
    let wrote = |manager| manager == HELM || manager == FIELD_MANAGER || makers.contains(manager);
    has_no_subresource(entry) && entry["manager"].as_str().is_some_and(wrote)
}

/// Returns whether the entry made the object for a release. Operators set Helm's annotation and the owner; a person who
/// marks an object for Helm sets no owner.
fn made_release(entry: &Value) -> bool {
    let metadata = &entry["fieldsV1"]["f:metadata"];
    let annotation = |key: &str| !metadata["f:annotations"][format!("f:{key}")].is_null();
    let is_owned = !metadata["f:ownerReferences"].is_null() || annotation(PRIMARY_ANNOTATION);
    has_no_subresource(entry) && annotation(RELEASE_NAME) && is_owned
}

fn has_no_subresource(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or("").is_empty()
}

/// Returns the fields that move, without the additions of other controllers.
fn moving(fields: &Value, owner: &str) -> Value {
    let mut fields = without_ca_bundles(fields, 0);
    if let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut) {
        metadata.remove("f:finalizers");
        let owners = metadata.get_mut("f:ownerReferences").and_then(Value::as_object_mut);
        let is_left = owners.is_some_and(|owners| {
            let is_owner = |key: &str| !owner.is_empty() && key.contains(&format!("\"{owner}\""));
            let is_shared = owners.keys().any(|key| key != LIST && !is_owner(key));
            owners.retain(|key, _| is_owner(key) || (key == LIST && !is_shared));
            owners.keys().all(|key| key == LIST)
        });
        if is_left {
            metadata.remove("f:ownerReferences");
        }
        if metadata.is_empty() {
            fields.as_object_mut().and_then(|fields| fields.remove("f:metadata"));
        }
    }
    fields
}

/// The key of a list itself, as opposed to its items.
const LIST: &str = ".";

fn without_ca_bundles(fields: &Value, depth: usize) -> Value {
    let Some(fields) = fields.as_object().filter(|_| depth <= MAX_DEPTH) else { return json!({}) };
    let left = fields.iter().filter(|(key, _)| *key != "f:caBundle");
    Value::Object(left.map(|(key, inner)| (key.clone(), without_ca_bundles(inner, depth + 1))).collect())
}

/// Returns one set of fields minus another.
pub(in crate::kube) fn without(fields: &Value, moved: &Value, depth: usize) -> Value {
    let Some(fields) = fields.as_object().filter(|_| depth <= MAX_DEPTH) else { return json!({}) };
    let rest = fields.iter().filter_map(|(key, inner)| match moved.get(key) {
        None => Some((key.clone(), inner.clone())),
        Some(moved) => {
            let rest = without(inner, moved, depth + 1);
            rest.as_object().is_some_and(|rest| !rest.is_empty()).then(|| (key.clone(), rest))
        }
    });
    Value::Object(rest.collect())
}

/// Maximum depth of field sets. The server limits the depth of objects; this protects our stack from a hostile server.
const MAX_DEPTH: usize = 512;

/// Adds the fields of one set to another, from `depth` 0 down to [`MAX_DEPTH`].
pub(in crate::kube) fn union(into: &mut Value, from: &Value, depth: usize) {
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

    /// Returns the fields that operator-sdk's and helm-operator-plugins' operators set on an object of the resource
    /// `u1`.
    fn made(more: Value) -> Value {
        let mut fields = json!({"f:metadata": {
            "f:annotations": {"f:meta.helm.sh/release-name": {}}, "f:ownerReferences": {".": {}, "k:{\"uid\":\"u1\"}": {}},
        }});
        union(&mut fields, &more, 0);
        fields
    }

    #[test]
    fn without_predecessors_nothing_moves() {
        assert_eq!(migrated_managers(&Value::Null, "u1"), None);
        assert_eq!(migrated_managers(&json!([]), "u1"), None);
        let apply = ours("v1", "t", json!({"f:a": {}}));
        let mut status = entry("helm", "Update", json!({"f:status": {}}));
        status["subresource"] = "status".into();
        assert_eq!(migrated_managers(&json!([apply, entry("kubectl", "Update", json!({})), status]), "u1"), None);
    }

    #[test]
    fn a_managers_name_alone_moves_nothing() {
        let marked =
            json!({"f:data": {"f:a": {}}, "f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}}});
        for (manager, fields) in [
            ("manager", json!({"f:spec": {"f:a": {}}})),
            ("kubectl-client-side-apply", json!({"f:spec": {"f:a": {}}})),
            ("helm-operator-plugins", json!({"f:spec": {"f:a": {}}})),
            ("kubectl-create", marked),
        ] {
            assert_eq!(migrated_managers(&json!([entry(manager, "Update", fields)]), "u1"), None, "{manager}");
        }
    }

    #[test]
    fn the_fields_of_those_who_made_the_object_become_ours() {
        for manager in ["helm", FIELD_MANAGER] {
            let entries =
                json!([entry("kubectl", "Update", json!({"f:b": {}})), entry(manager, "Update", json!({"f:a": {}}))]);
            let expected = json!([ours("v1", manager, json!({"f:a": {}})), entries[0]]);
            assert_eq!(migrated_managers(&entries, "u1"), Some(expected), "{manager}");
        }
        let older = entry("manager", "Update", json!({"f:spec": {"f:old": {}}}));
        let entries = json!([entry("manager", "Update", made(json!({"f:spec": {"f:a": {}}}))), older]);
        let all = made(json!({"f:spec": {"f:a": {}, "f:old": {}}}));
        assert_eq!(migrated_managers(&entries, "u1"), Some(json!([ours("v1", "manager", all)])), "of all its versions");
    }

    #[test]
    fn what_other_controllers_add_stays_theirs() {
        let theirs = json!({
            "f:metadata": {"f:finalizers": {"v:\"x/y\"": {}}, "f:ownerReferences": {".": {}, "k:{\"uid\":\"other\"}": {}}},
            "f:webhooks": {"k:{\"name\":\"a\"}": {"f:clientConfig": {"f:caBundle": {}}}},
        });
        let mut mixed = made(json!({"f:webhooks": {"k:{\"name\":\"a\"}": {"f:clientConfig": {"f:url": {}}}}}));
        let mut moved = mixed.clone();
        // The list has other items as well, so the list itself stays theirs.
        moved["f:metadata"]["f:ownerReferences"].as_object_mut().unwrap().remove(LIST);
        union(&mut mixed, &theirs, 0);
        let entries = json!([entry("manager", "Update", mixed)]);
        let after = migrated_managers(&entries, "u1").unwrap();
        assert_eq!(after, json!([ours("v1", "manager", moved), entry("manager", "Update", theirs)]));
        assert_eq!(migrated_managers(&after, "u1"), None, "nothing moves twice");
    }

    #[test]
    fn several_entries_merge_under_our_api_version_and_time() {
        let mine = ours("apps/v1", "now", json!({"f:spec": {"f:b": {".": {}}, "f:c": {}}}));
        let entries = json!([
            entry("helm", "Update", json!({"f:spec": {"f:a": {}, "f:b": {}}})),
            entry("kubectl", "Update", json!({})),
            mine,
            entry("helm", "Apply", json!({"f:spec": {"f:d": {}}})),
        ]);
        let united = ours("apps/v1", "now", json!({"f:spec": {"f:a": {}, "f:b": {".": {}}, "f:c": {}, "f:d": {}}}));
        assert_eq!(migrated_managers(&entries, "u1"), Some(json!([united, entries[1]])));
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
