//! `import-values`: imports parts of a subchart's values as defaults of its parent.

use go_template::{Map, Value};

use super::ChartView;
use super::coalesce::{Nulls, TypeMismatch, coalesce, merge_tables};
use crate::values;

/// Imports values into the view and its subcharts. Counterpart: `processDependencyImportValues`, keeping nulls.
pub(super) fn import(view: &mut ChartView, warnings: &mut Vec<String>) -> Result<(), TypeMismatch> {
    for dependency in &mut view.dependencies {
        import(dependency, warnings)?;
    }
    if view.metadata.dependencies.is_empty() {
        return Ok(());
    }
    let merged = coalesce(view, &Map::default(), Nulls::Keep, warnings)?;
    let imported = Map::default();
    for dependency in &mut view.metadata.dependencies {
        let mut done = Vec::new();
        for wanted in &dependency.import_values {
            let Some((child, parent)) = import_paths(wanted) else { continue };
            let pair: Map = [("child", child.as_str()), ("parent", parent.as_str())].into_iter().collect();
            done.push(Value::Map(pair));
            match values::table_at(&merged, &format!("{}.{child}", dependency.name)) {
                Some(table) => merge_tables(&imported, &nested(&parent, table), warnings),
                None => warnings.push(format!("subchart {:?} has no table {child:?} to import", dependency.name)),
            }
        }
        dependency.import_values = done;
    }
    let values = merged.deep_copy();
    merge_tables(&values, &imported, warnings);
    view.set_values(&values);
    Ok(())
}

/// Returns the source path in the child and the target path in the parent.
fn import_paths(wanted: &Value) -> Option<(String, String)> {
    match wanted {
        Value::String(name) => Some((format!("exports.{name}"), ".".to_owned())),
        Value::Map(pair) => {
            let text = |key: &str| {
                let value = pair.get(key).unwrap_or_default();
                String::from_utf8_lossy(&go_template::fmt::sprint(&[value])).into_owned()
            };
            Some((text("child"), text("parent")))
        }
        _ => None,
    }
}

/// Wraps the table: `a.b` yields `{a: {b: table}}`.
fn nested(path: &str, table: Map) -> Map {
    if path == "." {
        return table;
    }
    path.split('.').rev().fold(table, |inner, key| [(key, inner)].into_iter().collect())
}
