//! Tables of values: reads them from YAML, merges them, and looks up paths. Counterparts: Helm's `pkg/chart/common/values.go` and
//! `pkg/chart/v2/loader/load.go`.

use go_template::{Map, Value};

use go_encoding::yaml;

/// The reason why a values file cannot be read. The texts are Helm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A line that separates documents is malformed.
    #[error("error reading yaml document: {0}")]
    Separator(yaml::Error),
    /// A document is not valid YAML, or not a table.
    #[error("cannot unmarshal yaml document: {0}")]
    Document(yaml::Error),
}

/// Reads a values file: one or more YAML documents, merged in order.
///
/// # Errors
/// A document is not valid YAML or not a table.
pub fn read(text: &[u8]) -> Result<Map, ReadError> {
    let documents = yaml::parse_documents(text).map_err(|error| match error {
        yaml::Error::Separator(_) => ReadError::Separator(error),
        _ => ReadError::Document(error),
    })?;
    Ok(documents.iter().fold(Map::default(), |values, document| merge_maps(&values, document)))
}

/// Merges `over` into a copy of `base`. Tables in both are merged; otherwise `over` takes precedence. Counterpart: `MergeMaps`.
pub fn merge_maps(base: &Map, over: &Map) -> Map {
    let merged: Map = base.snapshot().into_iter().collect();
    for (key, value) in over.snapshot() {
        let value = match (&value, merged.get(&key)) {
            (Value::Map(over), Some(Value::Map(base))) => Value::Map(merge_maps(&base, over)),
            _ => value,
        };
        merged.insert(key, value);
    }
    merged
}

/// Returns the table at the dotted path. Counterpart: `Values.Table`.
pub(crate) fn table_at(values: &Map, path: &str) -> Option<Map> {
    path.split('.').try_fold(values.clone(), |table, key| match table.get(key) {
        Some(Value::Map(inner)) => Some(inner),
        _ => None,
    })
}

/// Returns the value at the dotted path, unless it is a table. Counterpart: `Values.PathValue`.
pub(crate) fn scalar_at(values: &Map, path: &str) -> Option<Value> {
    let (table, key) = match path.rsplit_once('.') {
        Some((parents, key)) => (table_at(values, parents)?, key),
        None => (values.clone(), path),
    };
    table.get(key).filter(|value| !matches!(value, Value::Map(_)))
}

/// Removes nulls from the table and the tables below it, but not from lists.
pub(crate) fn remove_nulls(map: &Map) {
    if map.is_known_without_nil() {
        return;
    }
    map.entries_mut().retain(|_, value| !matches!(value, Value::Nil));
    for (_, value) in map.snapshot() {
        if let Value::Map(inner) = value {
            remove_nulls(&inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use go_encoding::json;

    use super::*;

    #[test]
    fn later_documents_of_a_values_file_win() {
        let read = read(b"a: {x: 1}\n---\na: {z: 2}\nb: 3").unwrap();
        let text = json::encode(&Value::Map(read), json::EscapeHtml::No, json::Layout::Compact).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), r#"{"a":{"x":1,"z":2},"b":3}"#);
    }
}
