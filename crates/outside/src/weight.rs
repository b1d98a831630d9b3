//! The memory of JSON values. A small text can contain very many of them.

use serde_json::Value;

/// The memory of a value, or of a key with its place in a map, besides its text, in bytes.
pub const NODE_WEIGHT: usize = 64;

/// Estimates the memory of a value, in bytes. It recurses: the parser limits the depth of values.
pub fn weight(value: &Value) -> usize {
    let content: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| NODE_WEIGHT + key.len() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    NODE_WEIGHT + content
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_values_weigh_more_than_their_text() {
        for (value, expected) in [
            (json!(null), NODE_WEIGHT),
            (json!("text"), NODE_WEIGHT + 4),
            (json!(["a", 1]), 3 * NODE_WEIGHT + 1),
            (json!({"a": ["bc", 1]}), 5 * NODE_WEIGHT + 3),
            (json!({"key": {"k": "text"}}), 5 * NODE_WEIGHT + 8),
        ] {
            assert_eq!(weight(&value), expected, "{value}");
        }
    }
}
