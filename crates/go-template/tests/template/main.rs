//! Tests of the public API.

/// Output and errors recorded from Go.
mod golden;
/// Sets of templates, scopes, objects, and errors as data.
mod library;
/// Exceeds every limit once.
mod limits;
/// Shared vectors of Helm's output.
mod vectors;

use go_template::{List, ListType, Map, Value};
use serde_json::Value as Json;

/// Converts JSON as Go's `json.Unmarshal` does: every number becomes a float.
fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => Value::Float(n.as_f64().unwrap_or_default()),
        Json::String(s) => Value::from(s.as_str()),
        Json::Array(items) => Value::List(List::new(ListType::Interface, items.iter().map(value).collect())),
        Json::Object(entries) => Value::Map(entries.iter().map(|(k, v)| (k.as_str(), value(v))).collect::<Map>()),
    }
}
