//! The keys that a chart documents in its defaults and its schema, including those of its subcharts.

use std::collections::BTreeMap;

use go_template::{Map, Value};
use serde_json::Value as Json;

use crate::view::ChartView;

/// Maximum depth to which schemas are followed, including references; recursive schemas have no end.
const MAX_SCHEMA_DEPTH: usize = 12;

/// Maximum number of fields to keep from schemas.
const MAX_FIELDS: usize = 50_000;

/// The documentation of a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    fields: BTreeMap<String, Known>,
    /// The documentation of each item of a list.
    items: Option<Box<Known>>,
    /// Whether the chart sets a default.
    has_default: bool,
}

/// The documentation of an undocumented value.
pub(super) static UNKNOWN: Known = Known { fields: BTreeMap::new(), items: None, has_default: false };

impl Known {
    /// Returns what a chart documents. `defaults` are its coalesced default values.
    pub(super) fn of(view: &ChartView, defaults: &Map) -> Known {
        let mut known = Known::default();
        known.add_defaults(&Value::Map(defaults.clone()));
        known.add_schemas(view, &mut 0);
        known
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    pub(super) fn field(&self, key: &str) -> &Known {
        self.fields.get(key).unwrap_or(&UNKNOWN)
    }

    pub(super) fn item(&self) -> &Known {
        self.items.as_deref().unwrap_or(&UNKNOWN)
    }

    /// Returns whether the chart's default is a table that is not empty.
    pub(super) fn has_default_fields(&self) -> bool {
        self.fields.values().any(|field| field.has_default)
    }

    /// Returns the dotted path of the only field with this name in the tables below, or `None` if there are several.
    pub(super) fn only_path(&self, name: &str) -> Option<String> {
        let mut found = Vec::new();
        self.add_paths(name, &mut Vec::new(), &mut found);
        let last = found.pop();
        if found.is_empty() { last } else { None }
    }

    fn add_paths<'a>(&'a self, name: &str, path: &mut Vec<&'a str>, found: &mut Vec<String>) {
        for (key, field) in &self.fields {
            path.push(key);
            if key == name {
                found.push(path.join("."));
            }
            field.add_paths(name, path, found);
            path.pop();
        }
    }

    fn add_defaults(&mut self, value: &Value) {
        self.has_default = !matches!(value, Value::Nil);
        match value {
            Value::Map(table) => {
                for (key, value) in table.snapshot() {
                    self.fields.entry(key.to_text().into_owned()).or_default().add_defaults(&value);
                }
            }
            _ => {
                for item in value.as_list().into_iter().flat_map(|list| list.iter()) {
                    self.items.get_or_insert_default().add_defaults(item);
                }
            }
        }
    }

    /// Adds the schema of a chart, and those of its subcharts below their names.
    fn add_schemas(&mut self, view: &ChartView, count: &mut usize) {
        let schema = view.chart.schema.as_ref().and_then(|text| serde_json::from_slice(text).ok());
        if let Some(schema) = schema {
            self.add_schema(&schema, &schema, 0, count);
        }
        for subchart in &view.dependencies {
            self.fields.entry(subchart.name().to_owned()).or_default().add_schemas(subchart, count);
        }
    }

    fn add_schema(&mut self, root: &Json, schema: &Json, depth: usize, count: &mut usize) {
        if depth > MAX_SCHEMA_DEPTH {
            return;
        }
        let reference = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?));
        if let Some(schema) = reference {
            self.add_schema(root, schema, depth + 1, count);
        }
        for part in ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()).flatten() {
            self.add_schema(root, part, depth + 1, count);
        }
        for (key, field) in schema["properties"].as_object().into_iter().flatten() {
            *count += 1;
            if *count < MAX_FIELDS {
                self.fields.entry(key.clone()).or_default().add_schema(root, field, depth + 1, count);
            }
        }
        if schema["items"].is_object() {
            self.items.get_or_insert_default().add_schema(root, &schema["items"], depth + 1, count);
        }
    }
}
