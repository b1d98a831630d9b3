//! The values of a render: read, merged, and coalesced with the charts' defaults exactly as Helm does.
//!
//! Counterparts: Helm's `pkg/chart/common/{values.go,util/coalesce.go}` and `pkg/chart/v2/loader/load.go`.

mod coalesce;
#[cfg(test)]
mod tests;

pub(crate) use coalesce::remove_nulls;
pub use coalesce::{Error, Nulls, coalesce, merge_tables};

use go_template::{Map, Value};

use go_encoding::yaml;

/// Reads a values file: one or more YAML documents, later ones over earlier ones.
///
/// # Errors
/// A document that is no YAML, or no table, with Helm's text.
pub fn read(text: &[u8]) -> Result<Map, String> {
    let documents = yaml::parse_documents(text).map_err(|error| match error {
        yaml::Error::Separator(_) => format!("error reading yaml document: {error}"),
        _ => format!("cannot unmarshal yaml document: {error}"),
    })?;
    Ok(documents.iter().fold(Map::default(), |values, document| merge_maps(&values, document)))
}

/// Both maps in one, `over` winning; tables in both are merged. Neither is changed. Counterpart: `MergeMaps`.
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

/// The table at the dotted path. Counterpart: `Values.Table`.
pub fn table_at(values: &Map, path: &str) -> Option<Map> {
    path.split('.').try_fold(values.clone(), |table, key| match table.get(key) {
        Some(Value::Map(inner)) => Some(inner),
        _ => None,
    })
}

/// What stands at the dotted path, unless it is a table. Counterpart: `Values.PathValue`.
pub fn scalar_at(values: &Map, path: &str) -> Option<Value> {
    let (table, key) = match path.rsplit_once('.') {
        Some((parents, key)) => (table_at(values, parents)?, key),
        None => (values.clone(), path),
    };
    table.get(key).filter(|value| !matches!(value, Value::Map(_)))
}
