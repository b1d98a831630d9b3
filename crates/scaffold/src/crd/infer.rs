//! Infers a schema from a chart's default values, for charts without `values.schema.json`.

use serde_json::{Map, Value as Json, json};

use super::comments::Comments;

/// Maximum depth of described maps. Deeper ones are left open.
const MAX_DEPTH: usize = 24;

/// Returns the schema of a map of values.
pub(super) fn table(values: &Json, comments: &Comments) -> Json {
    schema(values, "", comments, 0)
}

fn schema(value: &Json, path: &str, comments: &Comments, depth: usize) -> Json {
    let mut schema = match value {
        _ if depth > MAX_DEPTH => json!({"x-kubernetes-preserve-unknown-fields": true}),
        Json::Object(table) => object(table, path, comments, depth),
        Json::Array(items) => json!({"type": "array", "items": item(items, path, comments, depth)}),
        Json::Bool(_) => json!({"type": "boolean"}),
        // Charts print numbers as text, and users write ports, tags and quantities as either.
        Json::Number(number) if number.is_f64() => json!({"type": "number"}),
        Json::Number(_) | Json::String(_) => json!({"x-kubernetes-int-or-string": true}),
        // A null reveals nothing about the type.
        Json::Null => json!({"x-kubernetes-preserve-unknown-fields": true}),
    };
    schema["nullable"] = true.into();
    if let Some(text) = description(value, comments.get(path)) {
        schema["description"] = text.into();
    }
    schema
}

fn object(table: &Map<String, Json>, path: &str, comments: &Comments, depth: usize) -> Json {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let entry = |(key, value): (&String, &Json)| (key.clone(), schema(value, &below(key), comments, depth + 1));
    let properties: Map<String, Json> = table.iter().map(entry).collect();
    let mut schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if !properties.is_empty() {
        schema["properties"] = Json::Object(properties);
    }
    schema
}

/// Returns the schema of a list's items: what all of them have in common.
fn item(items: &[Json], path: &str, comments: &Comments, depth: usize) -> Json {
    let common = items.iter().cloned().reduce(common).unwrap_or(Json::Null);
    let mut schema = match common {
        Json::Null => return json!({"x-kubernetes-preserve-unknown-fields": true}),
        common => schema(&common, &format!("{path}[]"), comments, depth + 1),
    };
    let schema_fields = schema.as_object_mut();
    schema_fields.map(|fields| fields.remove("description"));
    schema
}

/// Returns a value with the shape of both: maps have the fields of both, and values of different types become null.
fn common(one: Json, other: Json) -> Json {
    match (one, other) {
        (Json::Object(mut one), Json::Object(other)) => {
            for (key, value) in other {
                let known = one.remove(&key);
                one.insert(key, known.map_or(value.clone(), |known| common(known, value)));
            }
            Json::Object(one)
        }
        (Json::Array(one), Json::Array(other)) => Json::Array(one.into_iter().chain(other).collect()),
        (one, other) if class(&one) == class(&other) => one,
        _ => Json::Null,
    }
}

/// Returns the class of a value. Scalars of one class share a schema.
fn class(value: &Json) -> u8 {
    match value {
        Json::Bool(_) => 0,
        Json::Number(number) if number.is_f64() => 1,
        Json::Number(_) | Json::String(_) => 2,
        Json::Object(_) => 3,
        Json::Array(_) => 4,
        Json::Null => 5,
    }
}

/// Returns the comment with a scalar's default.
pub(super) fn description(default: &Json, comment: Option<&String>) -> Option<String> {
    let default = match default {
        Json::Bool(_) | Json::Number(_) => Some(default.to_string()),
        Json::String(text) if !text.is_empty() && text.len() <= 60 && !text.contains('\n') => Some(format!("{text:?}")),
        _ => None,
    };
    match (comment.map(|text| text.trim_end()), default) {
        (Some(text), Some(default)) => Some(format!("{text} (default: {default})")),
        (Some(text), None) => Some(text.to_owned()),
        (None, Some(default)) => Some(format!("Default: {default}.")),
        (None, None) => None,
    }
}
