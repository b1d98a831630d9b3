//! The values of a chart and of its subcharts against their schemas. Counterpart: Helm's `pkg/chart/common/util/jsonschema.go`.

use go_template::{Map, Value};

use super::ChartView;
use crate::schema::Complaint;

/// What is wrong, chart by chart: the chart's name and a colon, then a line for each complaint. Shown in Helm's words, which quote values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.text)]
pub struct SchemaError(Complaint);

impl SchemaError {
    /// The same without any value, for texts that others may read: place and rule.
    pub fn without_values(&self) -> &str {
        &self.0.without_values
    }
}

/// Checks the coalesced values of the chart, and those of each subchart below them. A chart's schema is compiled when it is first used.
///
/// # Errors
/// Every complaint of every chart.
pub fn validate(view: &ChartView, values: &Map) -> Result<(), SchemaError> {
    let mut all = Complaint::from(String::new());
    complain(view, values, &mut all);
    if all.text.is_empty() { Ok(()) } else { Err(SchemaError(all)) }
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
