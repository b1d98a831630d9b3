//! `values.schema.json`: whether the values of a chart and of its subcharts are what their schemas ask for.
//!
//! Counterparts: Helm's `pkg/chart/common/util/jsonschema.go`; the errors' text is that of `santhosh-tekuri/jsonschema` v6.

mod message;
#[cfg(test)]
mod tests;

use std::fmt;

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use go_template::{Map, Str, Value};
use serde_json::Value as Json;

use crate::chart::{Chart, ChartView};
use crate::json;

/// The size that a schema may have, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 5 << 20;

const LOCATION: &str = "file:///values.schema.json";

/// What is wrong, chart by chart: the chart's name and a colon, then a line for each complaint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Checks the coalesced values of the chart, and those of each subchart below them.
///
/// Schemas are read from the chart alone: a `$ref` to a file or to the network is an error.
///
/// # Errors
/// Every complaint of every chart.
pub fn validate(view: &ChartView, values: &Map) -> Result<(), Error> {
    let mut text = String::new();
    complain(view, values, &mut text);
    if text.is_empty() { Ok(()) } else { Err(Error(text)) }
}

fn complain(view: &ChartView, values: &Map, text: &mut String) {
    if let Err(complaint) = check(&view.chart, values) {
        text.push_str(&format!("{}:\n{complaint}", view.name()));
    }
    for subchart in &view.dependencies {
        match values.get(subchart.name()) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(inner)) => complain(subchart, &inner, text),
            Some(other) => text.push_str(&format!(
                "{}:\ninvalid type for values: expected object (map), got {}\n",
                subchart.name(),
                other.type_name()
            )),
        }
    }
}

fn check(chart: &Chart, values: &Map) -> Result<(), String> {
    let compiled = chart.compiled_schema.get_or_init(|| chart.schema.as_ref().map(compile));
    let Some(compiled) = compiled else { return Ok(()) };
    let Compiled { schemas, index } = compiled.as_ref().map_err(Clone::clone)?;
    let instance = json::to_serde(&Value::Map(values.clone()));
    schemas.validate(&instance, *index).map_err(|error| format!("{}\n", message::text(&error)))
}

/// A schema, ready to check values. Compiled once for each chart.
pub(crate) struct Compiled {
    schemas: Schemas,
    index: SchemaIndex,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

fn compile(schema: &Str) -> Result<Compiled, String> {
    if schema.len() > MAX_SCHEMA_BYTES {
        return Err(format!("schema is larger than {MAX_SCHEMA_BYTES} bytes (limit MAX_SCHEMA_BYTES)"));
    }
    let schema: Json = serde_json::from_slice(schema).map_err(|e| e.to_string())?;
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.use_loader(Box::new(Nothing));
    compiler.add_resource(LOCATION, schema).map_err(|e| e.to_string())?;
    let index = compiler.compile(LOCATION, &mut schemas).map_err(|e| format!("{e:#}"))?;
    Ok(Compiled { schemas, index })
}

/// Loads no schema: charts are untrusted, and a schema that names a file or an address would have it read.
struct Nothing;

impl UrlLoader for Nothing {
    fn load(&self, url: &str) -> Result<Json, Box<dyn std::error::Error>> {
        if url.starts_with("urn:") {
            // As Helm: a name that nobody resolves permits everything.
            return Ok(Json::Bool(true));
        }
        Err(format!("schemas are read from the chart alone, not from {url}").into())
    }
}
