//! The stored form of objects of built-in kinds: without unknown fields and nulls, and with the structures that are
//! always present.

use serde_json::{Map, Value, json};

use super::{Field, Identity, Presence, Type, schema};

/// Converts an object to the form in which the server stores it.
pub(crate) fn normalise(of: &Type, value: &mut Value) {
    match (of, value) {
        (Type::Struct { name, .. }, Value::Object(map)) => normalise_struct(name, map),
        (Type::Map { of, .. }, Value::Object(map)) => {
            map.retain(|_, inner| !inner.is_null());
            map.values_mut().for_each(|inner| normalise(of, inner));
        }
        (Type::List { of, .. }, Value::Array(items)) => items.iter_mut().for_each(|item| normalise(of, item)),
        _ => {}
    }
}

fn normalise_struct(name: &str, map: &mut Map<String, Value>) {
    let fields = &schema().structure(name).fields;
    map.retain(|key, inner| fields.contains_key(key.as_str()) && !is_omitted(&fields[key.as_str()], inner));
    for (key, field) in fields {
        match (map.get_mut(*key), field.presence) {
            (Some(inner), _) => normalise(&field.of, inner),
            (None, Presence::Always) => {
                map.insert((*key).to_owned(), zero_of(field));
            }
            (None, Presence::Required) => {
                map.insert((*key).to_owned(), Value::Null);
            }
            (None, Presence::Optional) => {}
        }
    }
}

fn is_omitted(field: &Field, value: &Value) -> bool {
    if field.presence == Presence::Required {
        return false;
    }
    match (&field.of, value) {
        (_, Value::Null) => true,
        (Type::List { .. }, Value::Array(items)) => items.is_empty(),
        (Type::Map { .. }, Value::Object(map)) => map.is_empty(),
        (Type::Struct { .. } | Type::Any, _) => false,
        (Type::Scalar, Value::String(text)) => text.is_empty(),
        _ => false,
    }
}

fn zero_of(field: &Field) -> Value {
    match &field.of {
        Type::Struct { name, .. } => zero(name),
        Type::List { identity: Identity::Atomic, .. } => Value::Null,
        _ => json!({}),
    }
}

/// Returns the structure without any field set.
pub(crate) fn zero(name: &str) -> Value {
    let mut map = Map::new();
    normalise_struct(name, &mut map);
    map.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_deployment_has_its_structures() {
        let zero = zero("apps.v1.Deployment");
        assert_eq!(zero["spec"]["template"], json!({"metadata": {}, "spec": {"containers": null}}));
        assert_eq!((&zero["spec"]["strategy"], &zero["status"]), (&json!({}), &json!({})));
    }

    #[test]
    fn nulls_empty_lists_and_unknown_fields_go() {
        let mut map = json!({
            "metadata": {"name": "a", "labels": {}, "annotations": {"a": null, "b": ""}, "finalizers": []},
            "data": {"a": ""}, "immutable": null, "unknown": 1,
        });
        normalise(&Type::object("core.v1.ConfigMap"), &mut map);
        assert_eq!(map, json!({"metadata": {"name": "a", "annotations": {"b": ""}}, "data": {"a": ""}}));
    }
}
