//! Converts between JSON values and CEL values. Whole numbers are `int`, so that expressions need no conversions.

use std::collections::HashMap;
use std::sync::Arc;

use ::cel::objects::{Key, Map};
use serde_json::Value;

use super::Fault;

pub(super) fn to_cel(value: &Value) -> ::cel::Value {
    match value {
        Value::Null => ::cel::Value::Null,
        Value::Bool(b) => ::cel::Value::Bool(*b),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(int), _) => ::cel::Value::Int(int),
            (None, float) => ::cel::Value::Float(float.unwrap_or(f64::NAN)),
        },
        Value::String(s) => ::cel::Value::String(Arc::new(s.clone())),
        Value::Array(items) => ::cel::Value::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, field)| (Key::String(Arc::new(key.clone())), to_cel(field)));
            ::cel::Value::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
        }
    }
}

/// Converts a result to JSON. An absent optional is null.
pub(super) fn from_cel(value: &::cel::Value) -> Result<Value, Fault> {
    Ok(match value {
        ::cel::Value::Null => Value::Null,
        ::cel::Value::Bool(b) => Value::Bool(*b),
        ::cel::Value::Int(n) => (*n).into(),
        ::cel::Value::UInt(n) => (*n).into(),
        ::cel::Value::Float(n) => serde_json::Number::from_f64(*n).map_or(Value::Null, Value::Number),
        ::cel::Value::String(s) => Value::String(s.to_string()),
        ::cel::Value::List(items) => Value::Array(items.iter().map(from_cel).collect::<Result<_, _>>()?),
        ::cel::Value::Map(map) => {
            let field = |(key, field): (&Key, &::cel::Value)| Ok((key.to_string(), from_cel(field)?));
            Value::Object(map.map.iter().map(field).collect::<Result<_, Fault>>()?)
        }
        _ => {
            return Err(Fault::Failed("the result is not a JSON value; end with .orValue(…) if it is optional".into()));
        }
    })
}

pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
