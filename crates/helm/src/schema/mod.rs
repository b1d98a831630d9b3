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
pub use compile::{Complaint, Schema};
pub use patterns::{MAX_PATTERN_BYTES, MAX_PATTERNS_READ, MAX_PATTERNS_SIZE};

use go_template::{Map, Value};

use crate::chart::ChartView;

/// What is wrong, chart by chart: the chart's name and a colon, then a line for each complaint. Shown in Helm's words, which quote values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.text)]
pub struct Error(Complaint);

impl Error {
    /// The same without any value, for texts that others may read: place and rule.
    pub fn without_values(&self) -> &str {
        &self.0.without_values
    }
}

/// Checks the coalesced values of the chart, and those of each subchart below them. A chart's schema is compiled when it is first used.
///
/// # Errors
/// Every complaint of every chart.
pub fn validate(view: &ChartView, values: &Map) -> Result<(), Error> {
    let mut all = Complaint::from(String::new());
    complain(view, values, &mut all);
    if all.text.is_empty() { Ok(()) } else { Err(Error(all)) }
}

fn complain(view: &ChartView, values: &Map, all: &mut Complaint) {
    let complaint = match view.chart.compiled_schema() {
        None => Ok(()),
        Some(Ok(schema)) => schema.validate(values),
        Some(Err(error)) => Err(error.clone().into()),
    };
    if let Err(complaint) = complaint {
        add(all, view.name(), &complaint);
    }
    for subchart in &view.dependencies {
        match values.get(subchart.name()) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(inner)) => complain(subchart, &inner, all),
            Some(other) => {
                let text = format!("invalid type for values: expected object (map), got {}\n", other.type_name());
                add(all, subchart.name(), &text.into());
            }
        }
    }
}

fn add(all: &mut Complaint, chart: &str, complaint: &Complaint) {
    all.text.push_str(&format!("{chart}:\n{}", complaint.text));
    all.without_values.push_str(&format!("{chart}:\n{}", complaint.without_values));
}
