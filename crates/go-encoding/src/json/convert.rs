//! Converts between values and `serde_json`, for code that talks to Kubernetes.

use go_template::{Map, MapType, Str, Value};
use serde_json::{Map as JsonMap, Number, Value as Json};

/// Converts JSON as `encoding/json` does: every number becomes a float.
pub fn from_serde(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(yes) => Value::Bool(*yes),
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or(0.0)),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(from_serde).collect()),
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (Str::from(key.as_str()), from_serde(value)));
            Value::Map(Map::new(MapType::Interface, entries.collect()))
        }
    }
}

/// Converts a value to JSON. Whole floats become integers; whatever JSON cannot represent (functions, infinities, NaN, maps that contain themselves)
/// becomes null.
pub fn to_serde(value: &Value) -> Json {
    convert(value, 0)
}

fn convert(value: &Value, depth: usize) -> Json {
    if depth > super::MAX_DEPTH {
        return Json::Null;
    }
    match value {
        Value::Nil | Value::Complex(..) | Value::Func(_) => Json::Null,
        Value::Bool(yes) => Json::Bool(*yes),
        Value::Int(number, _) => Json::from(*number),
        Value::Uint(number, _) => Json::from(*number),
        Value::Float(number) => whole(*number).or_else(|| Number::from_f64(*number)).map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(super::to_utf8(text).into_owned()),
        Value::Bytes(bytes) => Json::String(super::base64(bytes)),
        Value::List(list) => Json::Array(list.iter().map(|item| convert(item, depth + 1)).collect()),
        Value::Map(map) => {
            let entries = map.peek();
            let pairs = entries.iter().map(|(k, v)| (super::to_utf8(k).into_owned(), convert(v, depth + 1)));
            Json::Object(pairs.collect::<JsonMap<String, Json>>())
        }
        Value::Object(object) => convert(&object.data(), depth + 1),
    }
}

fn whole(number: f64) -> Option<Number> {
    let exact = number.fract() == 0.0 && number.abs() < super::number::MAX_EXACT;
    exact.then(|| Number::from(number as i64))
}
