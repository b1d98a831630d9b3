//! JSON as Go's `encoding/json` decodes and encodes it, and conversions to and from `serde_json`.
//!
//! [`encode()`] is `Marshal`, and [`decode()`] is `Unmarshal` into `any`, with the same errors. Keys are sorted, as `Marshal` sorts those of a map.

mod convert;
mod decode;
mod encode;
pub(crate) mod number;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use base64::Engine as _;
use go_template::{List, Map, Value};

pub use convert::{from_serde, to_serde};
pub use decode::decode_partly;
pub(crate) use decode::integer;
pub use decode::{DecodeError, decode, decode_list, decode_preserving_ints};
pub use encode::{EncodeError, EscapeHtml, Layout, MAX_OUTPUT, encode, encode_within};
pub(crate) use encode::{check_depth, quoted};

/// Maximum nesting depth when decoding or encoding. Go allows 10,000.
pub const MAX_DEPTH: usize = 500;

/// Maximum number of values in a text. Go has no such limit.
pub const MAX_VALUES: usize = 1_000_000;

/// A value has a different type than the caller requires.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal {found} into Go value of type {wanted}")]
pub struct TypeError {
    found: &'static str,
    wanted: &'static str,
}

/// Converts a value to a map; nil becomes an empty map.
pub fn into_map(value: Value) -> Result<Map, TypeError> {
    match value {
        Value::Map(map) => Ok(map),
        Value::Nil => Ok(Map::default()),
        other => Err(TypeError { found: kind(&other), wanted: "map[string]interface {}" }),
    }
}

/// Converts a value to a list; nil becomes an empty list.
pub(crate) fn into_list(value: Value) -> Result<List, TypeError> {
    match value {
        Value::List(list) => Ok(list),
        Value::Nil => Ok(List::new(go_template::ListType::Interface, Vec::new())),
        other => Err(TypeError { found: kind(&other), wanted: "[]interface {}" }),
    }
}

/// Returns the name that `encoding/json`'s errors use for the value's type.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Float(_) | Value::Int(..) | Value::Uint(..) => "number",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "string",
    }
}

/// Converts bytes to text. Each invalid byte becomes U+FFFD, as in Go.
pub(crate) fn to_utf8(bytes: &[u8]) -> Cow<'_, str> {
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

/// Encodes a `[]byte` as in JSON, without the quotes.
pub(crate) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
