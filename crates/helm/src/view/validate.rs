//! The values of a chart and of its subcharts against their schemas. Counterpart: Helm's `pkg/chart/common/util/jsonschema.go`.

use go_template::{Map, Value};

use golibs::shorten::{MAX_MESSAGE, shorten};

use super::ChartView;
use crate::schema::Violations;

/// Values that violate schemas. Shows, for each chart, its name and a line for each violation, in Helm's words, which quote values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.text)]
pub struct SchemaError(Violations);

impl SchemaError {
    /// The text without values, which may be secret.
    pub(crate) fn without_values(&self) -> &str {
        &self.0.without_values
    }
}

/// Validates the coalesced values of the chart and of all its subcharts. Compiles each chart's schema on first use.
///
/// # Errors
/// All violations of all charts.
pub fn validate(view: &ChartView, values: &Map) -> Result<(), SchemaError> {
    let mut all = Violations::from(String::new());
    collect(view, values, &mut all);
    if all.text.is_empty() { Ok(()) } else { Err(SchemaError(short(all))) }
}

fn short(all: Violations) -> Violations {
    let short = |text: &str| shorten(text, MAX_MESSAGE).into_owned();
    Violations { text: short(&all.text), without_values: short(&all.without_values) }
}

/// The length of all violations up to which more are collected, in bytes.
const ENOUGH: usize = 64 << 10;

fn collect(view: &ChartView, values: &Map, all: &mut Violations) {
    if all.text.len() > ENOUGH {
        return;
    }
    let result = match view.chart.compiled_schema() {
        None => Ok(()),
        Some(Ok(schema)) => schema.validate(values),
        Some(Err(error)) => Err(error.to_string().into()),
    };
    if let Err(found) = result {
        add(all, view.name(), &found);
    }
    for subchart in &view.dependencies {
        match values.get(subchart.name()) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(inner)) => collect(subchart, &inner, all),
            Some(other) => {
                let text = format!("invalid type for values: expected object (map), got {}\n", other.type_name());
                add(all, subchart.name(), &text.into());
            }
        }
    }
}

fn add(all: &mut Violations, chart: &str, found: &Violations) {
    all.text.push_str(&format!("{chart}:\n{}", found.text));
    all.without_values.push_str(&format!("{chart}:\n{}", found.without_values));
}
