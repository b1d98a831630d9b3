//! Strategic merge patch by the merge keys of built-in kinds. Counterpart: k8s.io/apimachinery
//! `pkg/util/strategicpatch`.

use serde_json::{Map, Value};

use crate::schema::{Field, Type, schema};

/// Applies a strategic merge patch to an object of a type.
pub(crate) fn strategic_patch(of: &Type, object: &mut Value, patch: &Value) {
    let (Some(map), Some(patch)) = (object.as_object_mut(), patch.as_object()) else { return };
    patch_map(of, map, patch);
}

fn patch_map(of: &Type, map: &mut Map<String, Value>, patch: &Map<String, Value>) {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *map = patch.iter().filter(|(key, _)| *key != "$patch").map(|(k, v)| (k.clone(), v.clone())).collect();
            return;
        }
        Some("delete") => return map.clear(),
        _ => {}
    }
    if let Some(retained) = patch.get("$retainKeys").and_then(Value::as_array) {
        map.retain(|key, _| retained.iter().any(|name| name == key));
    }
    for (key, value) in patch {
        if let Some((directive, name)) = key.strip_prefix('$').and_then(|key| key.split_once('/')) {
            directed(directive, map, name, value);
        } else if !key.starts_with('$') {
            patch_field(of, map, key, value);
        }
    }
}

/// Applies `$deleteFromPrimitiveList/NAME`; ignores `$setElementOrder/NAME`.
fn directed(directive: &str, map: &mut Map<String, Value>, name: &str, value: &Value) {
    let Some(items) = map.get_mut(name).and_then(Value::as_array_mut) else { return };
    let listed = value.as_array().map_or(&[][..], Vec::as_slice);
    if directive == "deleteFromPrimitiveList" {
        items.retain(|item| !listed.contains(item));
    }
}

fn patch_field(of: &Type, map: &mut Map<String, Value>, key: &str, value: &Value) {
    let field = match of {
        Type::Struct { name, .. } => schema().structure(name).fields.get(key),
        _ => None,
    };
    let inner = match (field, of) {
        (Some(field), _) => &field.of,
        (None, Type::Map { of, .. }) => of,
        _ => &Type::Any,
    };
    match value {
        Value::Null => _ = map.remove(key),
        Value::Object(patch) => {
            let old = map.entry(key.to_owned()).or_insert_with(|| Map::new().into());
            if !old.is_object() {
                *old = Map::new().into();
            }
            old.as_object_mut().into_iter().for_each(|old| patch_map(inner, old, patch));
        }
        Value::Array(items) => {
            let old = map.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
            map.insert(key.to_owned(), patch_list(field, inner, old, items).into());
        }
        scalar => _ = map.insert(key.to_owned(), scalar.clone()),
    }
}

fn patch_list(field: Option<&Field>, of: &Type, mut old: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    let Some(field) = field.filter(|field| field.strategy.contains("merge")) else { return patch.to_vec() };
    let Type::List { of: element, .. } = of else { return patch.to_vec() };
    let Some(key) = field.merge_key else { return in_order(&old, patch, patch.to_vec(), |item| item.clone()) };
    let directive = |item: &Value| item["$patch"].as_str().map(str::to_owned);
    let (special, plain): (Vec<&Value>, Vec<&Value>) = patch.iter().partition(|item| directive(item).is_some());
    if special.iter().any(|item| item["$patch"] == "replace") {
        return plain.into_iter().cloned().collect();
    }
    old.retain(|known| !special.iter().any(|item| known.get(key) == item.get(key)));
    let merged = |item: &&Value| {
        let known = old.iter().find(|known| known.get(key) == item.get(key));
        let mut new = known.cloned().unwrap_or_else(|| Map::new().into());
        strategic_patch(element, &mut new, item);
        new
    };
    let new: Vec<Value> = plain.iter().map(merged).collect();
    let plain: Vec<Value> = plain.into_iter().cloned().collect();
    in_order(&old, &plain, new, |item| item[key].clone())
}

/// Inserts the elements that the patch does not name among those that it names, in their old order.
fn in_order(old: &[Value], patch: &[Value], new: Vec<Value>, key: impl Fn(&Value) -> Value) -> Vec<Value> {
    let place = |item: &Value| old.iter().position(|known| key(known) == key(item));
    let others = old.iter().filter(|known| patch.iter().all(|item| key(item) != key(known)));
    let mut others = others.peekable();
    let mut merged: Vec<Value> = Vec::new();
    for item in new {
        while let Some(other) = others.next_if(|other| place(&item).is_some_and(|at| place(other) < Some(at))) {
            merged.push(other.clone());
        }
        merged.push(item);
    }
    merged.extend(others.cloned());
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_with_merge_keys_are_merged_and_others_replaced() {
        let mut pod = json!({
            "containers": [{"name": "a", "args": ["x"], "image": "1"}, {"name": "b"}], "nodeSelector": {"a": "b"},
        });
        let patch = json!({
            "containers": [
                {"name": "a", "args": ["y"]}, {"name": "b", "$patch": "delete"}, {"name": "c", "image": "2"},
            ],
            "nodeSelector": {"c": "d"},
        });
        strategic_patch(&Type::object("core.v1.PodSpec"), &mut pod, &patch);
        let containers = json!([{"name": "a", "args": ["y"], "image": "1"}, {"name": "c", "image": "2"}]);
        assert_eq!(pod, json!({"containers": containers, "nodeSelector": {"a": "b", "c": "d"}}));
    }

    #[test]
    fn directives_replace_retain_and_delete() {
        let of = Type::object("core.v1.ConfigMap");
        let mut map = json!({"metadata": {"finalizers": ["a", "b"]}, "data": {"a": "1", "b": "2"}});
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
            "data": {"$patch": "replace", "c": "3"},
        });
        strategic_patch(&of, &mut map, &patch);
        assert_eq!(map["data"], json!({"c": "3"}));
        let mut finalizers: Vec<&str> =
            map["metadata"]["finalizers"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
        finalizers.sort_unstable();
        assert_eq!(finalizers, ["b", "c"]);
    }
}
