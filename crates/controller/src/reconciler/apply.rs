//! Decides, without a request, whether a server-side apply would change an object.

use serde_json::{Map, Value};

/// The fields that identify an object; the server records no manager for them.
const IDENTITY: [&str; 2] = ["apiVersion", "kind"];
const PLACE: [&str; 3] = ["name", "namespace", "uid"];

/// What the server adds to values that are managed as a whole, such as a `fieldRef`, a port of a NetworkPolicy, a
/// subject of a role, a rule of a webhook or a projected token. Anything else in these values was wanted earlier.
const DEFAULTS: [(&str, &str); 5] = [
    ("apiVersion", "v1"),
    ("divisor", "0"),
    ("protocol", "TCP"),
    ("apiGroup", "rbac.authorization.k8s.io"),
    ("scope", "*"),
];
const TOKEN_LIFETIME: (&str, u64) = ("expirationSeconds", 3600);

/// Returns whether an apply of `wanted` by this manager would change the live object: a value differs, another manager
/// has a field, or the manager has a field that is no longer wanted.
///
/// A value that the server normalizes, such as `0.5` of a processor, counts as different; its apply changes nothing.
pub(super) fn differs(wanted: &Value, live: &Value, manager: &str) -> bool {
    subresource_differs(wanted, live, manager, "")
}

/// Returns whether an apply to the subresource would change the live object, see [`differs`].
pub(super) fn subresource_differs(wanted: &Value, live: &Value, manager: &str, subresource: &str) -> bool {
    let Some(fields) = applied_by(live, manager, subresource) else { return true };
    let managed = managed_part(wanted);
    !(contains(live, wanted, fields) && has_all(fields, &managed) && has_only(fields, &managed))
}

/// Returns the fields that the manager last applied to the subresource; to the object itself if that is empty.
pub(super) fn applied_by<'a>(live: &'a Value, manager: &str, subresource: &str) -> Option<&'a Value> {
    let mut entries = live["metadata"]["managedFields"].as_array()?.iter();
    let ours = |entry: &&Value| {
        let of = entry["subresource"].as_str().unwrap_or_default();
        entry["manager"] == manager && entry["operation"] == "Apply" && of == subresource
    };
    entries.find(ours).map(|entry| &entry["fieldsV1"])
}

/// Returns the object without the fields that no manager has.
fn managed_part(wanted: &Value) -> Value {
    let mut managed = wanted.clone();
    let remove = |from: Option<&mut Map<String, Value>>, names: &[&str]| {
        from.into_iter().for_each(|map| names.iter().for_each(|name| _ = map.remove(*name)));
    };
    remove(managed.as_object_mut(), &IDENTITY);
    remove(managed["metadata"].as_object_mut(), &PLACE);
    managed
}

/// Returns whether the live value has everything that is wanted. `fields` are the parts of it that the manager owns. A
/// list of objects may have more items, such as sidecars, unless it is managed as a whole; other lists must be equal.
fn contains(live: &Value, wanted: &Value, fields: &Value) -> bool {
    match (wanted, live) {
        (wanted, live) if is_leaf(fields) => is_whole(live, wanted),
        (wanted, Value::Null) => is_empty(wanted),
        (Value::Object(wanted), Value::Object(_)) => {
            wanted.iter().all(|(key, value)| contains(&live[key], value, &fields[format!("f:{key}")]))
        }
        (Value::Array(wanted), Value::Array(live)) if wanted.iter().any(Value::is_object) => {
            wanted.iter().all(|item| {
                let mut entries = fields.as_object().into_iter().flatten();
                let fields = entries.find(|(key, _)| names_item(key, item)).map_or(&Value::Null, |(_, fields)| fields);
                live.iter().any(|live| contains(live, item, fields))
            })
        }
        (wanted, live) => wanted == live,
    }
}

/// Returns whether the live value is the wanted one, apart from defaults.
fn is_whole(live: &Value, wanted: &Value) -> bool {
    match (wanted, live) {
        (wanted, Value::Null) => is_empty(wanted),
        // An empty map does not claim the keys that others may have.
        (Value::Object(wanted), Value::Object(_)) if wanted.is_empty() => true,
        (Value::Object(wanted), Value::Object(live)) => {
            let is_wanted = |key: &String| wanted.get(key).is_some_and(|value| !value.is_null());
            wanted.iter().all(|(key, value)| is_whole(live.get(key).unwrap_or(&Value::Null), value))
                && live.iter().all(|(key, value)| is_wanted(key) || is_default(key, value))
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len() && wanted.iter().zip(live).all(|(wanted, live)| is_whole(live, wanted))
        }
        (wanted, live) => wanted == live,
    }
}

fn is_default(key: &str, value: &Value) -> bool {
    is_empty(value)
        || DEFAULTS.iter().any(|(name, default)| *name == key && value == default)
        || (key == TOKEN_LIFETIME.0 && *value == TOKEN_LIFETIME.1)
}

/// Returns whether the manager has every wanted field.
fn has_all(fields: &Value, wanted: &Value) -> bool {
    is_leaf(fields)
        || match wanted {
            Value::Object(map) => {
                let mut all = map.iter().filter(|(_, value)| !is_empty(value));
                all.all(|(key, value)| fields.get(format!("f:{key}")).is_some_and(|sub| has_all(sub, value)))
            }
            Value::Array(items) => items.iter().all(|item| {
                let mut entries = fields.as_object().into_iter().flatten();
                entries.any(|(key, sub)| names_item(key, item) && has_all(sub, item))
            }),
            _ => true,
        }
}

/// Returns whether every field of the manager is wanted.
fn has_only(fields: &Value, wanted: &Value) -> bool {
    fields.as_object().into_iter().flatten().all(|(key, sub)| match (key.strip_prefix("f:"), wanted) {
        _ if key == "." => true,
        (Some(name), _) => wanted.get(name).is_some_and(|value| has_only(sub, value)),
        (None, Value::Array(items)) => items.iter().any(|item| names_item(key, item) && has_only(sub, item)),
        (None, _) => false,
    })
}

/// Returns whether the key of a managed list item (`k:{"name":"web"}`, `v:"web"`) identifies the item. The key may
/// contain defaults that the item omits.
fn names_item(key: &str, item: &Value) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    match key.split_at_checked(2) {
        Some(("k:", keys)) => {
            let keys = read(keys);
            let mut keys = keys.as_object().into_iter().flatten();
            keys.all(|(key, value)| item.get(key).is_none_or(|own| own == value))
        }
        Some(("v:", value)) => read(value) == *item,
        _ => false,
    }
}

/// Returns whether the value is managed as a whole.
fn is_leaf(fields: &Value) -> bool {
    fields.as_object().is_some_and(Map::is_empty)
}

/// Returns whether the server drops the value.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "ns", "labels": {"app": "a"}},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [
                {"name": "c", "image": "i:1", "args": ["-v"], "resources": {}, "ports": [{"containerPort": 80}]},
            ]}}},
        })
    }

    /// Returns the object as the server stores it: with defaults, and the fields of the manager `m`.
    fn live() -> Value {
        let mut live = wanted();
        let container = json!({
            "name": "c", "image": "i:1", "args": ["-v"], "imagePullPolicy": "Always",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
        });
        live["spec"]["template"]["spec"]["containers"][0] = container;
        let fields = json!({
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                ".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:resources": {},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
            }}}}},
        });
        live["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Apply", "fieldsV1": fields}]);
        live
    }

    fn changed(object: Value, at: &str, to: Value) -> Value {
        let mut object = object;
        *object.pointer_mut(at).unwrap() = to;
        object
    }

    const CONTAINERS: &str = "/spec/template/spec/containers";
    const FIELDS: &str = "/metadata/managedFields/0/fieldsV1/f:spec";

    #[test]
    fn what_the_server_adds_is_no_difference() {
        assert!(!differs(&wanted(), &live(), "m"));
        let mut injected = live();
        injected.pointer_mut(CONTAINERS).unwrap().as_array_mut().unwrap().push(json!({"name": "sidecar"}));
        assert!(!differs(&wanted(), &injected, "m"), "a sidecar");
    }

    #[test]
    fn a_changed_value_a_lost_field_and_a_field_no_longer_wanted_are_differences() {
        assert!(differs(&wanted(), &changed(live(), "/spec/replicas", json!(3)), "m"), "a foreign value");
        assert!(differs(&changed(wanted(), "/spec/replicas", json!(1)), &live(), "m"), "a new value");
        let image = format!("{CONTAINERS}/0/image");
        assert!(differs(&changed(wanted(), &image, json!("i:2")), &live(), "m"), "in a list");
        let args = format!("{CONTAINERS}/0/args");
        assert!(differs(&wanted(), &changed(live(), &args, json!(["-v", "-x"])), "m"), "a longer list of values");
        let mut lost = live();
        lost.pointer_mut(FIELDS).unwrap().as_object_mut().unwrap().remove("f:replicas");
        assert!(differs(&wanted(), &lost, "m"), "another manager has a field of ours");
        let mut dropped = wanted();
        dropped["spec"].as_object_mut().unwrap().remove("replicas");
        assert!(differs(&dropped, &live(), "m"), "a field that is no longer wanted");
        let mut gone = wanted();
        *gone.pointer_mut(CONTAINERS).unwrap() = json!([]);
        assert!(differs(&gone, &live(), "m"), "an item that is no longer wanted");
    }

    #[test]
    fn a_value_that_is_owned_as_a_whole_has_nothing_that_is_no_longer_wanted() {
        let live = |spec: Value, fields: Value| {
            let managed = json!([{"manager": "m", "operation": "Apply", "fieldsV1": {"f:spec": fields}}]);
            json!({"metadata": {"managedFields": managed}, "spec": spec})
        };
        let selector = live(json!({"selector": {"a": "1", "b": "2"}}), json!({"f:selector": {}}));
        assert!(differs(&json!({"spec": {"selector": {"a": "1"}}}), &selector, "m"), "a key of a map");
        assert!(!differs(&json!({"spec": {"selector": {"a": "1", "b": "2"}}}), &selector, "m"));
        let rules = live(json!({"rules": [{"host": "a"}, {"host": "b"}]}), json!({"f:rules": {}}));
        assert!(differs(&json!({"spec": {"rules": [{"host": "a"}]}}), &rules, "m"), "an item of a list");
        assert!(differs(&json!({"spec": {"rules": [{"host": "b"}, {"host": "a"}]}}), &rules, "m"), "the order");
        let env = live(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}), json!({"f:fieldRef": {}}));
        assert!(!differs(&json!({"spec": {"fieldRef": {"fieldPath": "x"}}}), &env, "m"), "a default");
    }

    #[test]
    fn what_the_manager_never_applied_differs() {
        assert!(differs(&wanted(), &live(), "other"));
        let updated = changed(live(), "/metadata/managedFields/0/operation", json!("Update"));
        assert!(differs(&wanted(), &updated, "m"));
    }
}
