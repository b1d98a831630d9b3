//! Removes fields from an object. Counterpart: `typed/remove.go`.

use serde_json::{Map, Value};

use super::Set;
use super::shape::{Shape, element, field, named};
use crate::schema::{Identity, Type};

/// Removes fields from an object. A map or list that loses all its content becomes null; an atomic one always does.
pub(crate) fn remove(of: &Type, value: Value, fields: &Set) -> Value {
    let shape = Shape::of(of, &value);
    match (shape, value) {
        (Shape::Map(of), Value::Object(map)) if !map.is_empty() => remove_of_map(of, map, fields),
        (Shape::List(of, identity), Value::Array(items)) if !items.is_empty() => {
            remove_of_list(of, identity, items, fields)
        }
        (Shape::Leaf, scalar @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) => scalar,
        _ => Value::Null,
    }
}

fn remove_of_map(of: &Type, map: Map<String, Value>, fields: &Set) -> Value {
    let mut kept = Map::new();
    for (key, value) in map {
        let name = named(&key);
        if fields.has(&name) {
            continue;
        }
        let value = match fields.below(&name) {
            Some(below) => remove(field(of, &key).0, value, below),
            None => value,
        };
        kept.insert(key, value);
    }
    if kept.is_empty() { Value::Null } else { kept.into() }
}

fn remove_of_list(of: &Type, identity: &Identity, items: Vec<Value>, fields: &Set) -> Value {
    let mut kept = Vec::new();
    for item in items {
        let name = element(of, identity, &item).unwrap_or_default();
        if fields.has(&name) {
            continue;
        }
        kept.push(match fields.below(&name) {
            Some(below) => remove(of, item, below),
            None => item,
        });
    }
    if kept.is_empty() { Value::Null } else { kept.into() }
}
