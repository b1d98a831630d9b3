//! JSON as Go's `encoding/json` reads and writes it, and the way between our values and `serde_json`'s.
//!
//! [`encode()`] is `Marshal`, [`decode()`] `Unmarshal` into `interface{}`, with their errors. Objects are not kept in the order of a struct's fields
//! but sorted, as maps are.

mod convert;
mod decode;
mod encode;
pub mod number;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use base64::Engine as _;
use go_template::{List, Map, Value};

pub use convert::{from_serde, to_serde};
pub use decode::{DecodeError, decode, decode_list, decode_map, decode_preserving_ints};
pub use decode::{decode_partly, integer};
pub use encode::{EncodeError, EscapeHtml, Layout, MAX_OUTPUT, encode};
pub use encode::{check_depth, quoted};

/// How deep values may nest, read or written. Go allows 10,000.
pub const MAX_DEPTH: usize = 500;

/// How many values a text may have. Go has no such limit.
pub const MAX_VALUES: usize = 1_000_000;

/// A value of another kind than the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal {found} into Go value of type {wanted}")]
pub struct TypeError {
    found: &'static str,
    wanted: &'static str,
}

/// The value as a map; nil is an empty one.
pub fn into_map(value: Value) -> Result<Map, TypeError> {
    match value {
        Value::Map(map) => Ok(map),
        Value::Nil => Ok(Map::default()),
        other => Err(TypeError { found: kind(&other), wanted: "map[string]interface {}" }),
    }
}

/// The value as a list; nil is an empty one.
pub fn into_list(value: Value) -> Result<List, TypeError> {
    match value {
        Value::List(list) => Ok(list),
        Value::Nil => Ok(List::new(go_template::ListType::Interface, Vec::new())),
        other => Err(TypeError { found: kind(&other), wanted: "[]interface {}" }),
    }
}

/// What Go's `encoding/json` calls the value in its errors.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Float(_) | Value::Int(..) | Value::Uint(..) => "number",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "string",
    }
}

/// The bytes as text; each byte that is no UTF-8 becomes U+FFFD, as in Go.
pub fn to_utf8(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n('\u{FFFD}', chunk.invalid().len()));
    }
    Cow::Owned(text)
}

/// How a `[]byte` stands in JSON.
pub fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
