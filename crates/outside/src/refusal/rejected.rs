//! Finds the values of the fields that the server rejects.

use serde_json::Value;

use super::schema_error;
use crate::api::Error;

impl Error {
    /// Returns the fields that the server rejects, in one of its notations: `spec.ports[0].port`,
    /// `.spec.ports[port=80,protocol="TCP"].port`.
    pub fn rejected_fields(&self) -> Vec<&str> {
        match self {
            Error::Refused { fields, .. } if !fields.is_empty() => fields.iter().map(String::as_str).collect(),
            Error::Refused { message, .. } => schema_error::fields(message),
            _ => Vec::new(),
        }
    }
}

/// Returns an object's value at a field, in any of the server's notations. A decoder's path does not name list items;
/// then the first item that has the field counts.
pub fn value_at<'v>(object: &'v Value, field: &str) -> Option<&'v Value> {
    let field = field.trim_start_matches('.');
    if field.is_empty() {
        return Some(object);
    }
    if let Some(rest) = field.strip_prefix('[') {
        let (key, rest) = rest.split_at(end_of_key(rest)?);
        return value_at(item(object, key)?, &rest[1..]);
    }
    let (name, rest) = field.split_at(field.find(['.', '[']).unwrap_or(field.len()));
    match object {
        Value::Array(items) => items.iter().find_map(|item| value_at(item, field)),
        _ => value_at(object.get(name)?, rest),
    }
}

/// Returns the end of a key in brackets: the first closing bracket outside quotes.
fn end_of_key(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    text.char_indices().find_map(|(at, c)| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return Some(at),
            _ => {}
        }
        None
    })
}

/// Returns the value that a key in brackets selects: the item at an index, the item with these fields, or the entry of
/// a map.
fn item<'v>(of: &'v Value, key: &str) -> Option<&'v Value> {
    match of {
        Value::Array(items) => match key.parse::<usize>() {
            Ok(at) => items.get(at),
            Err(_) => items.iter().find(|item| has_fields(item, key)),
        },
        _ => of.get(key.trim_matches('"')),
    }
}

/// Returns whether an item has the fields of `port=80,protocol="TCP"`. The server fills in defaults, so an absent field
/// may have any value.
fn has_fields(item: &Value, key: &str) -> bool {
    let pairs = key.split(',').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().all(|(name, value)| match &item[name] {
        Value::Null => true,
        other => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *other),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_found_in_each_of_the_servers_notations() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}},
            "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": "eighty", "protocol": "TCP"}]},
        });
        let check = |field, expected: Option<Value>| assert_eq!(value_at(&object, field), expected.as_ref(), "{field}");
        check("spec.ports[1].port", Some(json!("eighty")));
        check(".spec.ports[port=\"eighty\",protocol=\"TCP\"].port", Some(json!("eighty")));
        check(".spec.ports[port=80,protocol=\"TCP\"].name", Some(json!("a")));
        check("spec.ports.protocol", Some(json!("TCP")));
        check("metadata.labels[a.b/c]", Some(json!("x")));
        check("metadata.labels[\"a.b/c\"]", Some(json!("x")));
        for absent in ["spec.ports[7].port", "spec.gone", "spec.ports[port=81].name", "spec.ports[1", "spec.ports[a]x"]
        {
            check(absent, None);
        }
        check("", Some(object.clone()));
    }

    #[test]
    fn a_refusal_names_its_fields() {
        let invalid = json!({"message": "no", "details": {"causes": [{"field": "spec.a[0]"}, {"field": ""}]}});
        let invalid = super::super::refusal(422, invalid.to_string().as_bytes());
        assert_eq!(invalid.rejected_fields(), ["spec.a[0]"]);
        let typed = "failed to create typed patch object (ns/a; /v1, Kind=Service): .spec.ports[port=\"eighty\",protocol=\"TCP\"].port: \
                     expected numeric (int or float), got &value.valueUnstructured{Value:\"eighty\"}";
        assert_eq!(
            Error::from_status(500, "", typed).rejected_fields(),
            [".spec.ports[port=\"eighty\",protocol=\"TCP\"].port"]
        );
        assert!(Error::from_status(503, "", "away: expected").rejected_fields().is_empty());
    }
}
