//! Sets of fields as `managedFields` records them, and what writes do to an object's fields.

use serde_json::{Map, Value, json};

/// The `fieldsV1` of an applied object. Lists are atomic.
pub(super) fn fields(of: &Value) -> Value {
    let Some(map) = of.as_object() else { return json!({}) };
    let identity = ["apiVersion", "kind", "name", "namespace", "managedFields", "uid", "resourceVersion"];
    map.iter()
        .filter(|(k, _)| !identity.contains(&k.as_str()))
        .map(|(k, v)| (format!("f:{k}"), fields(v)))
        .collect::<Map<_, _>>()
        .into()
}

/// Gives the manager the fields that differ, as an update does.
pub(super) fn record_update(old: &Value, new: &mut Value, manager: &str) {
    let is_own = |m: &Value| m["manager"] == manager && m["operation"] == "Update";
    let mut managers = old["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut own = managers.iter().find(|m| is_own(m)).map_or_else(|| json!({}), |m| m["fieldsV1"].clone());
    managers.iter_mut().for_each(|m| remove_changed(&mut m["fieldsV1"], old, new));
    remove_changed(&mut own, old, new);
    add_changed(&mut own, old, new);
    managers.retain(|m| !is_own(m));
    if own.as_object().is_some_and(|fields| !fields.is_empty()) {
        managers.push(json!({"manager": manager, "operation": "Update", "fieldsV1": own}));
    }
    new["metadata"]["managedFields"] = managers.into();
}

/// Adds the fields that differ between two objects to a set.
fn add_changed(set: &mut Value, old: &Value, new: &Value) {
    let identity = ["apiVersion", "kind", "name", "namespace", "managedFields", "uid", "resourceVersion"];
    for (key, value) in new.as_object().into_iter().flatten().filter(|(key, _)| !identity.contains(&key.as_str())) {
        let before = old.get(key);
        if before == Some(value) {
            continue;
        }
        let inner = &mut set[format!("f:{key}")];
        if inner.is_null() {
            *inner = json!({});
        }
        add_changed(inner, before.unwrap_or(&Value::Null), value);
    }
}

/// Removes the fields that differ between two objects from a set.
pub(super) fn remove_changed(set: &mut Value, old: &Value, new: &Value) {
    let Some(map) = set.as_object_mut() else { return };
    map.retain(|key, inner| {
        let name = key.trim_start_matches("f:");
        if inner.as_object().is_some_and(Map::is_empty) {
            return old[name] == new[name];
        }
        remove_changed(inner, &old[name], &new[name]);
        inner.as_object().is_some_and(|m| !m.is_empty())
    });
}

/// Removes fields that were applied before and no longer are.
pub(super) fn drop_fields(object: &mut Value, before: &Value, body: &Value) {
    let (Some(map), Some(before)) = (object.as_object_mut(), before.as_object()) else { return };
    for (key, inner) in before {
        let name = key.trim_start_matches("f:");
        match body.get(name) {
            None => _ = map.remove(name),
            Some(kept) => {
                if let Some(object) = map.get_mut(name) {
                    drop_fields(object, inner, kept);
                }
            }
        }
    }
}

pub(super) fn overlay(object: &mut Value, body: &Value) {
    match (object.as_object_mut(), body.as_object()) {
        (Some(object), Some(body)) => {
            body.iter().for_each(|(k, v)| overlay(object.entry(k.clone()).or_insert(Value::Null), v))
        }
        _ => *object = body.clone(),
    }
}

pub(super) fn merge_patch(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return *object = patch.clone() };
    if !object.is_object() {
        *object = json!({});
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
