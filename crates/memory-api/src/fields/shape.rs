//! How a value is walked: as one leaf, as fields, or as elements with an identity.

use serde_json::{Map, Value, json};

use crate::schema::{Identity, Type, schema};

/// The parts that a value of a type consists of.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape<'a> {
    Leaf,
    Map(&'a Type),
    List(&'a Type, &'a Identity),
}

static ANY: Type = Type::Any;

impl<'a> Shape<'a> {
    /// Returns how a value of this type is walked.
    pub(super) fn of(of: &'a Type, value: &Value) -> Shape<'a> {
        match (of, value) {
            (Type::Struct { is_atomic: true, .. } | Type::Map { is_atomic: true, .. }, _) => Shape::Leaf,
            (Type::Struct { name, .. }, Value::Object(_) | Value::Null) if !schema().structure(name).is_atomic => {
                Shape::Map(of)
            }
            (Type::Map { .. }, Value::Object(_) | Value::Null) => Shape::Map(of),
            (Type::List { identity: Identity::Atomic, .. }, _) => Shape::Leaf,
            (Type::List { of, identity }, Value::Array(_) | Value::Null) => Shape::List(of, identity),
            (Type::Any, Value::Object(_) | Value::Null) => Shape::Map(of),
            _ => Shape::Leaf,
        }
    }
}

/// Returns the type of a map's field, and whether the schema names the field.
pub(super) fn field<'a>(of: &'a Type, name: &str) -> (&'a Type, bool) {
    match of {
        Type::Struct { name: structure, .. } => {
            let field = schema().structure(structure).fields.get(name);
            (field.map_or(&ANY, |field| &field.of), field.is_some())
        }
        Type::Map { of, .. } => (of, false),
        _ => (&ANY, false),
    }
}

/// Returns a field's name in the form of a path element.
pub(super) fn named(field: &str) -> String {
    format!("f:{field}")
}

/// Returns the identity of a list element; `None` if its keys are missing.
pub(super) fn element(of: &Type, identity: &Identity, item: &Value) -> Option<String> {
    let Identity::Keys(keys) = identity else { return Some(format!("v:{item}")) };
    let mut found = Map::new();
    for key in keys {
        let default = || match of {
            Type::Struct { name, .. } => schema().structure(name).fields.get(key)?.default.map(Value::from),
            _ => None,
        };
        if let Some(value) = item.get(*key).cloned().or_else(default) {
            found.insert((*key).to_owned(), value);
        }
    }
    (!found.is_empty()).then(|| format!("k:{}", json!(found)))
}

/// Returns an element in the form that conflicts use.
pub(super) fn shown(element: &str) -> String {
    let (kind, rest) = element.split_once(':').unwrap_or(("f", element));
    match kind {
        "f" => format!(".{rest}"),
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        "v" => format!("[={rest}]"),
        _ => format!("[{rest}]"),
    }
}

/// Returns the items of a list; an empty slice for null.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns whether a map or list is empty.
pub(super) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => true,
    }
}
