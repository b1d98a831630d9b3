//! Takes over list items that replaced ours, if the server rejects having both.
//!
//! If someone edits the port of a Service, their item replaces ours, because the port is the item's key. Our next apply
//! adds our item again and keeps theirs, and the server rejects two ports without distinct names. Once their item is
//! among our fields, applying the manifest without it removes it.

use serde_json::{Map, Value, json};

use crate::kube::fields::migrate::union;
use crate::kube::fields::ownership_loss::{ABSENT, key_of_item};
use crate::kube::fields::unowned::is_ours;

/// Returns the managed fields after moving to us the items of keyed lists that replaced ours; `None` if there are none.
///
/// `objections` are paths in the server's notation: `spec.ports[1].name`. Considers only lists that contain a rejected
/// field and in which we lost one of the manifest's items. Other managers keep their other items in these lists.
pub(in crate::kube) fn with_replacements(live: &Value, body: &Value, objections: &[String]) -> Option<Value> {
    let mut entries = live["metadata"]["managedFields"].as_array()?.clone();
    let ours = entries.iter().position(is_ours)?;
    let mut taken = false;
    for objection in objections {
        let Some((list, rest)) = objection.split_once('[') else { continue };
        let Some((_, field)) = rest.split_once(']') else { continue };
        let (Some(wanted), Some(present)) = (items_at(body, list), items_at(live, list)) else { continue };
        let path: Vec<String> = list.split('.').map(|name| format!("f:{name}")).collect();
        let own = set_at(&entries[ours]["fieldsV1"], &path).cloned().unwrap_or_default();
        let replacing = replacing(&own, wanted, present, field);
        let moves = |one: &Value| has_item(one, &replacing) && !has_item(one, wanted);
        taken |= take(&mut entries, ours, &path, &moves);
    }
    taken.then(|| entries.into())
}

/// Returns the items of the list at a path such as `spec.ports`.
fn items_at<'a>(object: &'a Value, path: &str) -> Option<&'a [Value]> {
    path.split('.').try_fold(object, |value, name| value.get(name))?.as_array().map(Vec::as_slice)
}

/// Returns the live items that share the rejected field's value with a wanted item that we lost. The field's index does
/// not identify them, because it refers to the list that the apply would have made. An item that lacks the field
/// excludes all others.
fn replacing(own: &Value, wanted: &[Value], present: &[Value], field: &str) -> Vec<Value> {
    let lost = wanted.iter().filter(|item| key_of_item(item, own) == ABSENT);
    let lost: Vec<Vec<&Value>> = lost.map(|item| values_at(item, field)).collect();
    let replaces = |item: &&Value| {
        let values = values_at(item, field);
        lost.iter().any(|lost| lost.is_empty() || lost.iter().any(|value| values.contains(value)))
    };
    present.iter().filter(replaces).cloned().collect()
}

/// Returns the values of an item's field such as `.name`. For a nested field such as `.ports[0].hostPort`, all items of
/// the inner list count.
fn values_at<'a>(item: &'a Value, field: &str) -> Vec<&'a Value> {
    let names = field.split('.').filter(|name| !name.is_empty());
    names.filter_map(|name| name.split('[').next()).fold(vec![item], |values, name| {
        let found = values.into_iter().filter_map(|value| value.get(name)).filter(|value| !value.is_null());
        found.flat_map(|value| value.as_array().map_or_else(|| vec![value], |items| items.iter().collect())).collect()
    })
}

/// Returns whether the only item of a field set is one of these.
fn has_item(one: &Value, items: &[Value]) -> bool {
    items.iter().any(|item| key_of_item(item, one) != ABSENT)
}

/// Moves the items at a path that `moves` selects from other managers to us. Returns whether it moved any.
fn take(entries: &mut [Value], ours: usize, path: &[String], moves: &dyn Fn(&Value) -> bool) -> bool {
    let mut moved = json!({});
    for entry in entries.iter_mut().filter(|entry| !is_ours(entry)) {
        let found = entry["fieldsV1"].as_object_mut().map(|set| extract(set, path, moves));
        union(&mut moved, &Value::Object(found.unwrap_or_default()), 0);
    }
    moved != json!({}) && add(&mut entries[ours]["fieldsV1"], path, &moved).is_some()
}

/// Removes and returns the items at a path that `moves` selects. Sets that become empty must also be removed, because
/// an empty set owns the field itself.
fn extract(set: &mut Map<String, Value>, path: &[String], moves: &dyn Fn(&Value) -> bool) -> Map<String, Value> {
    let Some((key, rest)) = path.split_first() else { return without(set, moves) };
    let Some(inner) = set.get_mut(key).and_then(Value::as_object_mut) else { return Map::new() };
    let removed = extract(inner, rest, moves);
    if !removed.is_empty() && inner.is_empty() {
        set.remove(key);
    }
    removed
}

/// Removes and returns the items of a set that `moves` selects.
fn without(items: &mut Map<String, Value>, moves: &dyn Fn(&Value) -> bool) -> Map<String, Value> {
    let mut removed = Map::new();
    items.retain(|key, fields| {
        let goes = key.starts_with("k:") && moves(&json!({key.as_str(): fields}));
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
fn add(set: &mut Value, path: &[String], items: &Value) -> Option<()> {
    let at = path
        .iter()
        .try_fold(set, |set, key| Some(set.as_object_mut()?.entry(key.as_str()).or_insert_with(|| json!({}))))?;
    at.is_object().then(|| union(at, items, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::objects::decorate::FIELD_MANAGER;

    const OUR_PORT: &str = "k:{\"port\":80,\"protocol\":\"TCP\"}";
    const THEIR_PORT: &str = "k:{\"port\":81,\"protocol\":\"TCP\"}";

    const METRICS: &str = "k:{\"port\":9090,\"protocol\":\"TCP\"}";

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": fields}})
    }

    /// Returns a live Service with these ports, and the fields of others and of ours.
    fn live(ports: Value, ours: Value, theirs: Value) -> Value {
        let entries = [entry("kubectl-edit", "Update", &theirs), entry(FIELD_MANAGER, "Apply", &ours)];
        json!({"metadata": {"managedFields": entries}, "spec": {"ports": ports}})
    }

    fn port(number: u16, name: &str) -> Value {
        json!({"port": number, "protocol": "TCP", "name": name})
    }

    /// Returns the fields of each manager after the takeover.
    fn all_after(live: &Value, ports: &Value, objection: &str) -> Option<Vec<Value>> {
        let entries = with_replacements(live, &json!({"spec": {"ports": ports}}), &[objection.to_owned()])?;
        Some(entries.as_array().unwrap().iter().map(|entry| entry["fieldsV1"]["f:spec"].clone()).collect())
    }

    /// Returns their fields and ours after the takeover.
    fn after(live: &Value, ports: Value, objection: &str) -> Option<(Value, Value)> {
        let fields = all_after(live, &ports, objection)?;
        Some((fields[0].clone(), fields[1].clone()))
    }

    #[test]
    fn an_item_in_the_place_of_ours_becomes_ours() {
        let theirs = json!({"f:type": {}, "f:ports": {THEIR_PORT: {".": {}, "f:port": {}}}});
        let expected = |ours| Some((json!({"f:type": {}}), ours));
        let item = json!({THEIR_PORT: {".": {}, "f:port": {}}});
        // A port without a name stands beside no other, named or not.
        for edited in [json!({"port": 81, "protocol": "TCP"}), port(81, "http")] {
            let live = live(json!([edited]), json!({"f:selector": {}}), theirs.clone());
            let seen = after(&live, json!([{"port": 80}]), "spec.ports[0].name");
            assert_eq!(seen, expected(json!({"f:selector": {}, "f:ports": item})));
        }
        // One of the two items is left.
        let second = "k:{\"port\":443,\"protocol\":\"TCP\"}";
        let ports = json!([{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]);
        let live = live(json!([port(81, "http"), port(443, "https")]), json!({"f:ports": {second: {}}}), theirs);
        let seen = after(&live, ports, "spec.ports[2].name");
        assert_eq!(seen, expected(json!({"f:ports": {second: {}, THEIR_PORT: item[THEIR_PORT]}})));
    }

    #[test]
    fn items_of_others_beside_an_edited_one_stay_theirs() {
        let ports = json!([port(81, "http"), port(9090, "metrics")]);
        let mut live = live(ports, json!({"f:selector": {}}), json!({"f:ports": {THEIR_PORT: {}}}));
        let theirs = json!({"f:ports": {METRICS: {".": {}, "f:name": {}}}});
        live["metadata"]["managedFields"].as_array_mut().unwrap().push(entry("mesh", "Apply", &theirs));
        let ours = json!({"f:selector": {}, "f:ports": {THEIR_PORT: {}}});
        // The index refers to the merged list, which only the server has seen.
        for objection in ["spec.ports[0].name", "spec.ports[1].name", "spec.ports[2].name"] {
            let seen = all_after(&live, &json!([{"port": 80, "name": "http"}]), objection).unwrap();
            assert_eq!(seen, [Value::Null, ours.clone(), theirs.clone()], "{objection}");
        }
        assert_eq!(all_after(&live, &json!([{"port": 80, "name": "web"}]), "spec.ports[1].name"), None);
    }

    #[test]
    fn containers_of_others_beside_a_renamed_one_stay_theirs() {
        let container =
            |name: &str, port: u16| json!({"name": name, "ports": [{"containerPort": 1}, {"hostPort": port}]});
        let template = |containers: Value| json!({"template": {"spec": {"containers": containers}}});
        let fields = |containers: Value| json!({"f:template": {"f:spec": {"f:containers": containers}}});
        let (renamed, sidecar) = ("k:{\"name\":\"web2\"}", "k:{\"name\":\"sidecar\"}");
        let managers = json!([
            entry("kubectl-edit", "Update", &fields(json!({renamed: {}, sidecar: {}}))),
            entry(FIELD_MANAGER, "Apply", &json!({})),
        ]);
        let live = json!({
            "metadata": {"managedFields": managers},
            "spec": template(json!([container("web2", 80), container("sidecar", 81)])),
        });
        let body = json!({"spec": template(json!([container("web", 80)]))});
        let objection = "spec.template.spec.containers[1].ports[1].hostPort".to_owned();
        let seen = with_replacements(&live, &body, &[objection]).unwrap();
        assert_eq!(seen[0]["fieldsV1"]["f:spec"], fields(json!({sidecar: {}})));
        assert_eq!(seen[1]["fieldsV1"]["f:spec"], fields(json!({renamed: {}})));
    }

    #[test]
    fn an_item_that_two_managers_share_becomes_ours_with_the_fields_of_both() {
        let named = json!({"f:ports": {THEIR_PORT: {".": {}, "f:name": {}}}});
        let mut live = live(json!([port(81, "http")]), json!({}), json!({"f:ports": {THEIR_PORT: {"f:port": {}}}}));
        live["metadata"]["managedFields"].as_array_mut().unwrap().insert(0, entry("kubectl", "Update", &named));
        let seen = all_after(&live, &json!([{"port": 80, "name": "http"}]), "spec.ports[1].name").unwrap();
        let ours = json!({"f:ports": {THEIR_PORT: {".": {}, "f:name": {}, "f:port": {}}}});
        assert_eq!(seen, [Value::Null, Value::Null, ours]);
    }

    #[test]
    fn additions_beside_our_items_stay() {
        let theirs = json!({"f:ports": {THEIR_PORT: {}}});
        let ours = json!({"f:ports": {OUR_PORT: {}}});
        let present = json!([port(80, "http"), port(81, "http")]);
        let ports = || json!([{"port": 80, "name": "http"}]);
        assert_eq!(after(&live(present.clone(), ours, theirs.clone()), ports(), "spec.ports[1].name"), None);
        for unrelated in
            ["spec.ports", "spec.type", "", "[0]", "spec.externalIPs[0]", "spec.selector[a]", "spec.ports[1]"]
        {
            let live = live(present.clone(), json!({}), theirs.clone());
            assert_eq!(after(&live, ports(), unrelated), None, "{unrelated}");
        }
    }

    #[test]
    fn items_that_the_manifest_has_stay_with_whoever_set_them() {
        let theirs = json!({"f:ports": {OUR_PORT: {"f:name": {}}, ".": {}}});
        let live = live(json!([port(80, "http")]), json!({}), theirs);
        assert_eq!(after(&live, json!([{"port": 80}]), "spec.ports[0].name"), None);
        assert_eq!(with_replacements(&json!({}), &json!({"spec": {"ports": []}}), &["spec.ports[0]".to_owned()]), None);
    }
}
