//! Takes over list items that replaced ours, if the server rejects having both.
//!
//! If someone edits the port of a Service, their item replaces ours, because the port is the item's key. Our next apply
//! adds our item again and keeps theirs, and the server rejects two ports without distinct names. Once their item is
//! among our fields, applying the manifest without it removes it.

use serde_json::{Map, Value, json};

use crate::kube::fields::ownership_loss::{ABSENT, key_of_item};
use crate::kube::fields::unowned::is_ours;

/// Returns the managed fields after moving to us the items of keyed lists that replaced ours; `None` if there are none.
///
/// `objections` are paths in the server's notation: `spec.ports[1].name`. Only lists that contain a rejected field
/// count, and only those in which we lost one of the manifest's items.
pub(in crate::kube) fn with_replacements(live: &Value, body: &Value, objections: &[String]) -> Option<Value> {
    let mut entries = live["metadata"]["managedFields"].as_array()?.clone();
    let ours = entries.iter().position(is_ours)?;
    let mut taken = false;
    for objection in objections {
        let Some((list, _)) = objection.split_once('[') else { continue };
        let (path, wanted) = followed(body, list);
        let Some(wanted) = wanted.and_then(Value::as_array) else { continue };
        taken |= take(&mut entries, ours, &path, wanted);
    }
    taken.then(|| entries.into())
}

/// Follows a path of fields such as `spec.ports`. Returns its keys in managed fields, and the manifest's value.
fn followed<'a>(body: &'a Value, path: &str) -> (Vec<String>, Option<&'a Value>) {
    let keys = path.split('.').map(|name| format!("f:{name}")).collect();
    (keys, path.split('.').try_fold(body, |value, name| value.get(name)))
}

/// Moves the items that are not in the manifest from other managers to us, if we lost one of the manifest's. Returns
/// whether it moved any.
fn take(entries: &mut [Value], ours: usize, path: &[String], wanted: &[Value]) -> bool {
    let own = set_at(&entries[ours]["fieldsV1"], path).cloned().unwrap_or_default();
    if wanted.iter().all(|item| key_of_item(item, &own) != ABSENT) {
        return false;
    }
    let mut moved = Map::new();
    for entry in entries.iter_mut().filter(|entry| !is_ours(entry)) {
        moved.extend(entry["fieldsV1"].as_object_mut().map(|set| extract(set, path, wanted)).unwrap_or_default());
    }
    !moved.is_empty() && add(&mut entries[ours]["fieldsV1"], path, moved).is_some()
}

/// Removes and returns the items at a path that match none of the manifest's. Sets that become empty must also be
/// removed, because an empty set owns the field itself.
fn extract(set: &mut Map<String, Value>, path: &[String], wanted: &[Value]) -> Map<String, Value> {
    let Some((key, rest)) = path.split_first() else { return without_wanted(set, wanted) };
    let Some(inner) = set.get_mut(key).and_then(Value::as_object_mut) else { return Map::new() };
    let removed = extract(inner, rest, wanted);
    if !removed.is_empty() && inner.is_empty() {
        set.remove(key);
    }
    removed
}

/// Removes and returns the items of a set that match none of the manifest's.
fn without_wanted(items: &mut Map<String, Value>, wanted: &[Value]) -> Map<String, Value> {
    let mut removed = Map::new();
    items.retain(|key, fields| {
        let one = json!({key.as_str(): fields});
        let goes = key.starts_with("k:") && wanted.iter().all(|item| key_of_item(item, &one) == ABSENT);
        if goes {
            removed.insert(key.clone(), fields.take());
        }
        !goes
    });
    removed
}

fn set_at<'a>(set: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(set, |set, key| set.get(key))
}

/// Adds items to the set at a path; `None` if something on the path is not a set.
fn add(set: &mut Value, path: &[String], items: Map<String, Value>) -> Option<()> {
    let at = path
        .iter()
        .try_fold(set, |set, key| Some(set.as_object_mut()?.entry(key.as_str()).or_insert_with(|| json!({}))))?;
    at.as_object_mut()?.extend(items);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::FIELD_MANAGER;

    const OUR_PORT: &str = "k:{\"port\":80,\"protocol\":\"TCP\"}";
    const THEIR_PORT: &str = "k:{\"port\":81,\"protocol\":\"TCP\"}";

    fn live(ours: Value, theirs: Value) -> Value {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": fields}});
        json!({"metadata": {"managedFields": [entry("kubectl-edit", "Update", theirs), entry(FIELD_MANAGER, "Apply", ours)]}})
    }

    /// Returns their fields and ours after the takeover.
    fn after(live: &Value, ports: Value, objection: &str) -> Option<(Value, Value)> {
        let entries = with_replacements(live, &json!({"spec": {"ports": ports}}), &[objection.to_owned()])?;
        Some((entries[0]["fieldsV1"]["f:spec"].clone(), entries[1]["fieldsV1"]["f:spec"].clone()))
    }

    #[test]
    fn an_item_in_the_place_of_ours_becomes_ours() {
        let theirs = json!({"f:type": {}, "f:ports": {THEIR_PORT: {".": {}, "f:port": {}}}});
        let expected = |ours| Some((json!({"f:type": {}}), ours));
        let item = json!({THEIR_PORT: {".": {}, "f:port": {}}});
        let seen = after(&live(json!({"f:selector": {}}), theirs.clone()), json!([{"port": 80}]), "spec.ports[0].name");
        assert_eq!(seen, expected(json!({"f:selector": {}, "f:ports": item})));
        // One of the two items is left.
        let second = "k:{\"port\":443,\"protocol\":\"TCP\"}";
        let ports = json!([{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]);
        let seen = after(&live(json!({"f:ports": {second: {}}}), theirs), ports, "spec.ports[2].name");
        assert_eq!(seen, expected(json!({"f:ports": {second: {}, THEIR_PORT: item[THEIR_PORT]}})));
    }

    #[test]
    fn additions_beside_our_items_stay() {
        let theirs = json!({"f:ports": {THEIR_PORT: {}}});
        let ours = json!({"f:ports": {OUR_PORT: {}}});
        assert_eq!(after(&live(ours, theirs.clone()), json!([{"port": 80}]), "spec.ports[1].name"), None);
        for unrelated in ["spec.ports", "spec.type", "", "[0]", "spec.externalIPs[0]", "spec.selector[a]"] {
            assert_eq!(after(&live(json!({}), theirs.clone()), json!([{"port": 80}]), unrelated), None, "{unrelated}");
        }
    }

    #[test]
    fn items_that_the_manifest_has_stay_with_whoever_set_them() {
        let theirs = json!({"f:ports": {OUR_PORT: {"f:name": {}}, ".": {}}});
        assert_eq!(after(&live(json!({}), theirs), json!([{"port": 80}]), "spec.ports[0].name"), None);
        assert_eq!(with_replacements(&json!({}), &json!({"spec": {"ports": []}}), &["spec.ports[0]".to_owned()]), None);
    }
}
