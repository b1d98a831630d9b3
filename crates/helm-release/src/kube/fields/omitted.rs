//! Finds what this operator applied to a live object and another form of the object lacks. Unlike the live object itself,
//! our managed fields do not contain what the server sets by default.

use serde_json::{Map, Value};

use crate::kube::fields::unapplied::is_unapplied;
use crate::kube::fields::unowned::is_ours;
use crate::kube::objects::decorate::{CHART_LABEL, MANAGED_BY_LABEL};

/// Returns whether a form of a live object, as a write would send it, lacks a field or label that we applied. Does not look
/// into lists and maps that have one owner as a whole. Nothing is known of an object that others wrote, also if their fields
/// have just become ours.
pub(crate) fn omits_applied(form: &Value, live: &Value) -> bool {
    let managers = &live["metadata"]["managedFields"];
    let entries = managers.as_array().filter(|_| !is_unapplied(managers)).into_iter().flatten();
    entries.filter(|entry| is_ours(entry)).any(|entry| {
        let fields = entry["fieldsV1"].as_object().into_iter().flatten().filter(|(key, _)| *key != "f:metadata");
        let labels = entry["fieldsV1"]["f:metadata"]["f:labels"].as_object().into_iter().flatten();
        let mut labels = labels.filter(|(key, _)| !is_added(key));
        !has_all(form, fields) || labels.any(|(key, _)| part(&form["metadata"]["labels"], key).is_none())
    })
}

/// Returns whether every write of a release adds this label.
fn is_added(key: &str) -> bool {
    key.strip_prefix("f:").is_none_or(|name| [CHART_LABEL, MANAGED_BY_LABEL].contains(&name))
}

/// Returns whether a value has all of these fields.
fn has_all<'f>(value: &Value, mut fields: impl Iterator<Item = (&'f String, &'f Value)>) -> bool {
    fields.all(|(key, below)| {
        // A dot stands for the value itself.
        key == "." || part(value, key).is_some_and(|part| has_all_below(part, below.as_object()))
    })
}

fn has_all_below(value: &Value, fields: Option<&Map<String, Value>>) -> bool {
    fields.is_none_or(|fields| has_all(value, fields.iter()))
}

/// Returns the part of a value that a key of managed fields names: `f:spec`, `k:{"name":"web"}`, `v:"x"` or `i:0`.
fn part<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let (kind, name) = key.split_once(':')?;
    match kind {
        "f" => value.get(name),
        "k" => {
            let id: Map<String, Value> = serde_json::from_str(name).ok()?;
            // The server may have set a part of the key.
            let is_it = |item: &&Value| id.iter().all(|(name, value)| item.get(name).is_none_or(|own| own == value));
            value.as_array()?.iter().find(is_it)
        }
        "v" => {
            let wanted: Value = serde_json::from_str(name).ok()?;
            value.as_array()?.iter().find(|item| **item == wanted)
        }
        _ => value.get(name.parse::<usize>().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kube::fields::unapplied::as_unapplied;
    use crate::kube::objects::decorate::FIELD_MANAGER;

    #[test]
    fn a_form_lacks_a_field_or_label_that_we_applied_and_no_other() {
        let ours = json!({
            "f:metadata": {"f:labels": {"f:a": {}, (format!("f:{MANAGED_BY_LABEL}")): {}}, "f:annotations": {"f:b": {}}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:securityContext": {"f:runAsUser": {}}}},
                "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
                "f:set": {"v:\"x\"": {}},
                "f:whole": {},
            },
        });
        let theirs = json!({"f:spec": {"f:replicas": {}}});
        let entries = json!([
            {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": ours},
            {"manager": "scaler", "operation": "Update", "fieldsV1": theirs},
        ]);
        let live = json!({"metadata": {"managedFields": entries}});
        let unapplied = json!({"metadata": {"managedFields": as_unapplied(entries)}});
        let form = json!({
            "metadata": {"labels": {"a": "1"}},
            "spec": {
                "containers": [{"name": "web", "securityContext": {"runAsUser": 1}}],
                "ports": [{"port": 80}],
                "set": ["x"],
                "whole": [],
            },
        });
        assert!(!omits_applied(&form, &live));
        assert!(!omits_applied(&json!({}), &json!({})), "nothing of it is known");
        assert!(!omits_applied(&json!({}), &unapplied), "others wrote it");
        for (pointer, less) in [
            ("/metadata", json!({})),
            ("/spec/containers", json!([{"name": "side"}])),
            ("/spec/containers/0/securityContext", json!({})),
            ("/spec/ports", json!([{"port": 81}])),
            ("/spec/set", json!([])),
            ("/spec", json!({})),
        ] {
            let mut form = form.clone();
            *form.pointer_mut(pointer).unwrap() = less;
            assert!(omits_applied(&form, &live), "{pointer}");
        }
    }
}
