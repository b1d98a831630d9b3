//! Validates the values of a chart and its subcharts against their schemas. Counterpart: Helm's `pkg/chart/common/util/jsonschema.go`.

use go_template::{Map, Value};

use golibs::shorten::{MAX_MESSAGE, shorten};

use super::ChartView;
use crate::schema::{InvalidSchema, Violations};

/// Values that violate schemas. Displays the name of each chart and a line for each violation, in Helm's words, which quote values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", violations.text)]
pub struct SchemaError {
    violations: Violations,
    invalid: Option<Box<Unusable>>,
}

/// The schema of a chart that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The chart's name.
    pub chart: String,
    /// The cause.
    pub why: InvalidSchema,
}

impl SchemaError {
    /// Returns the text without values, which may be secret.
    pub(crate) fn without_values(&self) -> &str {
        &self.violations.without_values
    }

    /// Returns the first schema that cannot be used, or `None` if only the values are invalid.
    pub fn unusable_schema(&self) -> Option<&Unusable> {
        self.invalid.as_deref()
    }
}

/// Validates the coalesced values of the chart and of all its subcharts. Compiles each chart's schema on first use.
///
/// # Errors
/// Fails with all violations of all charts.
pub fn validate(view: &ChartView, values: &Map) -> Result<(), SchemaError> {
    let mut all = SchemaError { violations: Violations::from(String::new()), invalid: None };
    collect(view, values, &mut all);
    let SchemaError { violations, invalid } = all;
    if violations.text.is_empty() { Ok(()) } else { Err(SchemaError { violations: short(violations), invalid }) }
}

fn short(all: Violations) -> Violations {
    let short = |text: &str| shorten(text, MAX_MESSAGE).into_owned();
    Violations { text: short(&all.text), without_values: short(&all.without_values) }
}

/// Total length of the violations after which no more are collected, in bytes.
const ENOUGH: usize = 64 << 10;

fn collect(view: &ChartView, values: &Map, all: &mut SchemaError) {
    if all.violations.text.len() > ENOUGH {
        return;
    }
    let result = match view.chart.compiled_schema() {
        None => Ok(()),
        Some(Ok(schema)) => schema.validate(values),
        Some(Err(error)) => {
            all.invalid.get_or_insert_with(|| Unusable { chart: view.name().to_owned(), why: error.clone() }.into());
            Err(error.to_string().into())
        }
    };
    if let Err(found) = result {
        add(&mut all.violations, view.name(), &found);
    }
    for subchart in &view.dependencies {
        match values.get(subchart.name()) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(inner)) => collect(subchart, &inner, all),
            Some(other) => {
                let text = format!("invalid type for values: expected object (map), got {}\n", other.type_name());
                add(&mut all.violations, subchart.name(), &text.into());
            }
        }
    }
}

fn add(all: &mut Violations, chart: &str, found: &Violations) {
    all.text.push_str(&format!("{chart}:\n{}", found.text));
    all.without_values.push_str(&format!("{chart}:\n{}", found.without_values));
}
