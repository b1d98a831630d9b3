//! Hands fields over to other managers: they are created with the chart's value, and afterwards the release neither
//! applies nor owns them.
//!
//! An apply without a field that only we own would reset the field, so our name is first removed from the object's
//! managed fields. Then no manager owns the field, its value stays, and the next writer takes over nothing of ours. See
//! docs/decisions/0025-handed-over-fields.md.

use serde_json::{Map, Value};

use crate::kube::fields::ownership_loss::{ABSENT, key_of_item};
use crate::kube::fields::unowned::is_ours;
use crate::kube::objects::pointer::{Pointer, index_of};

/// An object whose fields are handed over.
#[derive(Debug, PartialEq)]
pub(in crate::kube) struct HandedOver {
    /// The object to apply, without the fields that the live object already has.
    pub(in crate::kube) body: Value,
    /// The managed fields after releasing our ownership of those fields; `None` if we own none of them.
    pub(in crate::kube) managers: Option<Value>,
}

/// Hands over fields of a live object. Parts that the live object does not have, such as a new list item, stay in the
/// body with the chart's values.
pub(in crate::kube) fn hand_over(
    body: &Value,
    live: &Value,
    managed_fields: &Value,
    pointers: &[Pointer],
) -> HandedOver {
    let entries = || managed_fields.as_array().into_iter().flatten();
    let position = Position { body, live, sets: entries().map(|entry| &entry["fieldsV1"]).collect() };
    let mut paths: Vec<Vec<Key>> = pointers.iter().filter_map(|pointer| position.find(pointer)).collect();
    // In reverse order, so that indexes stay valid while items are removed, and each once, so that no other item is.
    paths.sort();
    paths.dedup();
    paths.reverse();
    let mut left = body.clone();
    paths.iter().for_each(|path| remove(&mut left, path));
    let mut managers: Vec<Value> = entries().cloned().collect();
    let ours = managers.iter_mut().filter(|entry| is_ours(entry));
    ours.for_each(|entry| paths.iter().for_each(|path| release(&mut entry["fieldsV1"], path)));
    let managers = Value::Array(managers);
    HandedOver { body: left, managers: (managers != *managed_fields && !paths.is_empty()).then_some(managers) }
}

/// One step to a field, in the object and in `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Field(String),
    Item {
        at: usize,
        /// `k:{"name":"web"}` or `v:"x"`.
        key: String,
    },
}

/// The same position in the chart's object, the live one and every manager's fields.
struct Position<'a> {
    body: &'a Value,
    live: &'a Value,
    sets: Vec<&'a Value>,
}

impl<'a> Position<'a> {
    /// Finds the path that a pointer hands over: the field, or a list or map around it that has one owner as a whole.
    /// Returns `None` if neither the chart nor the live object sets it, or one of them lacks the part that contains it.
    fn find(&self, pointer: &Pointer) -> Option<Vec<Key>> {
        let mut path = Vec::new();
        self.follow(pointer.steps(), &mut path)?;
        Some(path)
    }

    fn follow(&self, steps: &[Box<str>], path: &mut Vec<Key>) -> Option<()> {
        let Some((step, rest)) = steps.split_first() else { return Some(()) };
        match self.body {
            Value::Object(_) if !path.is_empty() && self.is_atomic_map() => Some(()),
            Value::Array(_) if !self.has_owned_items() => Some(()),
            Value::Object(fields) => {
                let (body, live) = (fields.get(&**step), self.live.as_object()?);
                path.push(Key::Field(step.to_string()));
                if rest.is_empty() {
                    // This includes a field that the chart no longer sets: while only we own it, an apply without it
                    // resets it.
                    return (body.is_some() || live.contains_key(&**step)).then_some(());
                }
                self.step(body?, live.get(&**step)?, &format!("f:{step}")).follow(rest, path)
            }
            Value::Array(items) => {
                let at = index_of(items, step)?;
                let key = self.sets.iter().map(|set| key_of_item(&items[at], set)).find(|key| key != ABSENT)?;
                let live = self.live.as_array()?.iter().find(|live| is_item(live, &key))?;
                // An item without its key would be a different item.
                if let [field] = rest
                    && identity(&key).contains_key(&**field)
                {
                    return None;
                }
                path.push(Key::Item { at, key: key.clone() });
                self.step(&items[at], live, &key).follow(rest, path)
            }
            _ => None,
        }
    }

    fn step(&self, body: &'a Value, live: &'a Value, key: &str) -> Position<'a> {
        Position { body, live, sets: self.sets.iter().filter_map(|set| set.get(key)).collect() }
    }

    /// Returns whether a manager owns the map as a whole, as with `nodeSelector`. A map that was applied empty looks
    /// the same until another manager owns a part of it.
    fn is_atomic_map(&self) -> bool {
        let is_leaf = |set: &&Value| set.as_object().is_some_and(Map::is_empty);
        self.sets.iter().all(is_leaf)
            && !self.sets.is_empty()
            && self.live.as_object().is_some_and(|live| !live.is_empty())
    }

    /// Returns whether managers own single items of the list. A list without any owned part was handed over as a whole.
    fn has_owned_items(&self) -> bool {
        let is_item = |key: &String| key.starts_with("k:") || key.starts_with("v:");
        self.sets.iter().any(|set| set.as_object().is_some_and(|set| set.keys().any(is_item)))
    }
}

/// Returns the fields in a list item's key; empty for an item of a set.
fn identity(key: &str) -> Map<String, Value> {
    key.strip_prefix("k:").and_then(|fields| serde_json::from_str(fields).ok()).unwrap_or_default()
}

fn is_item(item: &Value, key: &str) -> bool {
    match key.strip_prefix("v:") {
        Some(value) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item),
        None => identity(key).iter().all(|(name, value)| item.get(name) == Some(value)),
    }
}

/// Removes a field, and the maps and lists that become empty: an empty map would be applied as one.
fn remove(value: &mut Value, path: &[Key]) {
    let Some((key, rest)) = path.split_first() else { return };
    match (value, key) {
        (Value::Object(fields), Key::Field(name)) if rest.is_empty() => _ = fields.remove(name),
        (Value::Object(fields), Key::Field(name)) => {
            let Some(inner) = fields.get_mut(name) else { return };
            let was_empty = is_empty(inner);
            remove(inner, rest);
            if is_empty(inner) && !was_empty {
                fields.remove(name);
            }
        }
        (Value::Array(items), Key::Item { at, .. }) if rest.is_empty() && *at < items.len() => _ = items.remove(*at),
        (Value::Array(items), Key::Item { at, .. }) => {
            if let Some(item) = items.get_mut(*at) {
                remove(item, rest);
            }
        }
        _ => {}
    }
}

/// Removes a field from a set of fields.
fn release(set: &mut Value, path: &[Key]) {
    let (Some(set), Some((key, rest))) = (set.as_object_mut(), path.split_first()) else { return };
    let key = match key {
        Key::Field(name) => format!("f:{name}"),
        Key::Item { key, .. } => key.clone(),
    };
    let Some(inner) = set.get_mut(&key) else { return };
    let was_leaf = is_empty(inner);
    release(inner, rest);
    if rest.is_empty() || (is_empty(inner) && !was_leaf) {
        set.remove(&key);
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kube::objects::decorate::FIELD_MANAGER;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsV1": fields})
    }

    /// Hands over one field; returns the applied object, and our fields afterwards if they change.
    fn check(body: &Value, live: &Value, ours: Value, theirs: Value, pointer: &str) -> (Value, Option<Value>) {
        let entries = json!([entry(FIELD_MANAGER, "Apply", ours), entry("other", "Update", theirs)]);
        let HandedOver { body, managers } = hand_over(body, live, &entries, &[Pointer::parse(pointer).unwrap()]);
        if let Some(managers) = &managers {
            assert_eq!(managers[1], entries[1], "another manager's fields changed");
        }
        (body, managers.map(|managers| managers[0]["fieldsV1"].clone()))
    }

    #[test]
    fn a_field_that_we_own_is_released_and_left_out() {
        let body = json!({"spec": {"replicas": 1, "paused": true}});
        let ours = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let released = Some(json!({"f:spec": {"f:paused": {}}}));
        assert_eq!(
            check(&body, &body, ours, json!({}), "/spec/replicas"),
            (json!({"spec": {"paused": true}}), released)
        );
    }

    #[test]
    fn a_field_of_another_manager_is_only_left_out() {
        let body = json!({"spec": {"replicas": 1, "paused": true}});
        let live = json!({"spec": {"replicas": 5, "paused": true}});
        let (ours, theirs) = (json!({"f:spec": {"f:paused": {}}}), json!({"f:spec": {"f:replicas": {}}}));
        let expected = (json!({"spec": {"paused": true}}), None);
        assert_eq!(check(&body, &live, ours.clone(), theirs, "/spec/replicas"), expected);
        let gone = json!({"spec": {"paused": true}});
        assert_eq!(check(&body, &gone, ours, json!({}), "/spec/replicas"), expected, "somebody removed it");
    }

    #[test]
    fn a_field_that_the_chart_no_longer_sets_is_released_if_we_own_it() {
        let live = json!({"spec": {"replicas": 5, "paused": true}});
        let rest = json!({"f:spec": {"f:paused": {}}});
        let both = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        for body in [json!({"spec": {"paused": true}}), json!({"spec": {}})] {
            for (ours, released) in [(&both, Some(rest.clone())), (&rest, None)] {
                let found = check(&body, &live, ours.clone(), json!({}), "/spec/replicas");
                assert_eq!(found, (body.clone(), released), "{body} {ours}");
            }
        }
    }

    #[test]
    fn fields_that_nobody_sets_are_no_concern() {
        let body = json!({"spec": {"paused": true}});
        let ours = json!({"f:spec": {"f:paused": {}}});
        for pointer in ["/spec/replicas", "/spec/paused/x", "/data/a", "/spec/a/0"] {
            assert_eq!(check(&body, &body, ours.clone(), json!({}), pointer), (body.clone(), None), "{pointer}");
        }
    }

    #[test]
    fn maps_that_a_handover_empties_are_left_out() {
        let body = json!({"kind": "X", "data": {"a": "1"}, "spec": {"a": {"b": {"c": 1}}}});
        let ours = json!({"f:data": {"f:a": {}}, "f:spec": {"f:a": {"f:b": {"f:c": {}}}}});
        let (left, fields) = check(&body, &body, ours.clone(), json!({}), "/spec/a/b/c");
        assert_eq!((left, fields), (json!({"kind": "X", "data": {"a": "1"}}), Some(json!({"f:data": {"f:a": {}}}))));
        let (left, _) = check(&body, &body, ours, json!({}), "/data/a");
        assert_eq!(left.get("data"), None);
    }

    fn containers(items: Value) -> Value {
        json!({"spec": {"containers": items}})
    }

    #[test]
    fn an_items_field_is_found_by_key_or_by_the_charts_index() {
        let body = containers(json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]));
        // An injector has added its own container in front.
        let live = containers(json!([{"name": "x"}, {"name": "b", "image": "b:2"}, {"name": "a", "image": "a:1"}]));
        let item = json!({".": {}, "f:name": {}, "f:image": {}});
        let ours = json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": item, "k:{\"name\":\"b\"}": item}}});
        let mut released = ours.clone();
        released["f:spec"]["f:containers"]["k:{\"name\":\"b\"}"] = json!({".": {}, "f:name": {}});
        let left = containers(json!([{"name": "a", "image": "a:1"}, {"name": "b"}]));
        for pointer in ["/spec/containers/1/image", "/spec/containers/[name=b]/image"] {
            let found = check(&body, &live, ours.clone(), json!({}), pointer);
            assert_eq!(found, (left.clone(), Some(released.clone())), "{pointer}");
        }
        let whole = check(&body, &live, ours.clone(), json!({}), "/spec/containers/0").0;
        assert_eq!(whole, containers(json!([{"name": "b", "image": "b:1"}])));
        let key = check(&body, &live, ours, json!({}), "/spec/containers/0/name");
        assert_eq!(key, (body, None), "an item keeps its key");
    }

    #[test]
    fn several_items_are_removed_from_the_end() {
        let body = containers(json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]));
        let item = json!({".": {}, "f:name": {}});
        let fields = json!({"f:spec": {"f:containers": {
            "k:{\"name\":\"a\"}": item, "k:{\"name\":\"b\"}": item, "k:{\"name\":\"c\"}": item,
        }}});
        let pointers = ["/spec/containers/0", "/spec/containers/[name=c]", "/spec/containers/0/name"];
        // Two rules may name the same item.
        let twice = pointers.iter().chain(["/spec/containers/[name=a]", "/spec/containers/0"].iter());
        let pointers: Vec<Pointer> = twice.map(|text| Pointer::parse(text).unwrap()).collect();
        let entries = json!([entry(FIELD_MANAGER, "Apply", fields)]);
        let left = hand_over(&body, &body, &entries, &pointers).body;
        assert_eq!(left, containers(json!([{"name": "b"}])));
    }

    #[test]
    fn a_new_item_gets_the_charts_value() {
        let body = containers(json!([{"name": "a", "image": "a:1"}]));
        let live = containers(json!([{"name": "b"}]));
        let theirs = json!({"f:spec": {"f:containers": {"k:{\"name\":\"b\"}": {".": {}, "f:name": {}}}}});
        assert_eq!(check(&body, &live, json!({}), theirs, "/spec/containers/0/image"), (body, None));
        let body = json!({"spec": {"a": {"b": 1}}});
        assert_eq!(check(&body, &json!({"spec": {}}), json!({}), json!({}), "/spec/a/b"), (body, None));
    }

    #[test]
    fn a_list_or_map_with_one_owner_is_handed_over_as_a_whole() {
        let body = json!({"spec": {"rules": [{"host": "a"}], "nodeSelector": {"disk": "ssd"}, "x": 1}});
        let ours = json!({"f:spec": {"f:rules": {}, "f:nodeSelector": {}, "f:x": {}}});
        let (left, fields) = check(&body, &body, ours.clone(), json!({}), "/spec/rules/0/host");
        assert_eq!((&left["spec"].get("rules"), fields.unwrap()["f:spec"].get("f:rules")), (&None, None));
        let (left, fields) = check(&body, &body, ours, json!({}), "/spec/nodeSelector/disk");
        assert_eq!((&left["spec"].get("nodeSelector"), fields.unwrap()["f:spec"].get("f:nodeSelector")), (&None, None));
        let (left, fields) = check(&body, &body, json!({"f:spec": {"f:x": {}}}), json!({}), "/spec/rules/0/host");
        assert_eq!((left["spec"].get("rules"), fields), (None, None), "it stays handed over");
    }

    #[test]
    fn of_a_map_that_was_applied_empty_only_the_named_field_is_handed_over() {
        let body = json!({"spec": {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}});
        let live = json!({"spec": {"resources": {"requests": {"cpu": "3"}}}});
        let (ours, theirs) =
            (json!({"f:spec": {"f:resources": {}}}), json!({"f:spec": {"f:resources": {"f:requests": {"f:cpu": {}}}}}));
        let (left, released) = check(&body, &live, ours, theirs, "/spec/resources/requests");
        assert_eq!((left, released), (json!({"spec": {"resources": {"limits": {"cpu": "2"}}}}), None));
    }

    #[test]
    fn subresources_and_client_side_writes_are_not_released() {
        let body = json!({"spec": {"replicas": 1}});
        let fields = json!({"f:spec": {"f:replicas": {}}});
        let mut scale = entry(FIELD_MANAGER, "Apply", fields.clone());
        scale["subresource"] = "scale".into();
        let entries = json!([scale, entry(FIELD_MANAGER, "Update", fields)]);
        let found = hand_over(&body, &body, &entries, &[Pointer::replicas()]);
        assert_eq!(found, HandedOver { body: json!({}), managers: None });
    }
}
