//! `values.schema.json`: whether the values of a chart and of its subcharts are what their schemas ask for.
//!
//! Counterpart: Helm's `pkg/chart/common/util/jsonschema.go` over santhosh-tekuri/jsonschema v6, with its words. Unlike Helm, nothing outside
//! of the schema is ever read: a `$ref` to a file or the network is an error. A `urn:` allows everything, as in Helm.

mod bounds;
mod compile;
mod number;
mod patterns;
#[cfg(test)]
mod tests;
mod text;
mod tree;

pub use bounds::{MAX_CHAIN, MAX_NAMES, MAX_SCHEMA_BYTES, MAX_STEPS};
pub use compile::Schema;
pub use patterns::{MAX_PATTERN_BYTES, MAX_PATTERNS_READ, MAX_PATTERNS_SIZE};

use go_template::{Map, Value};

use crate::chart::ChartView;

/// What is wrong, chart by chart: the chart's name and a colon, then a line for each complaint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Checks the coalesced values of the chart, and those of each subchart below them. A chart's schema is compiled when it is first used.
///
/// # Errors
/// Every complaint of every chart.
pub fn validate(view: &ChartView, values: &Map) -> Result<(), Error> {
    let mut text = String::new();
    complain(view, values, &mut text);
    if text.is_empty() { Ok(()) } else { Err(Error(text)) }
}

fn complain(view: &ChartView, values: &Map, text: &mut String) {
    let complaint = match view.chart.compiled_schema() {
        None => Ok(()),
        Some(Ok(schema)) => schema.validate(values),
        Some(Err(error)) => Err(error.clone()),
    };
    if let Err(complaint) = complaint {
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
