//! Where each value of a resource comes from: a value source, its `spec`, an override value, or a chart's default.
//! Reads no cluster.

mod layers;
pub(crate) mod rows;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use helm::chart::Chart;
use helm::origins::{self, Origin, Traced};

use crate::values::Spec;
use crate::values_from::{self, FoundSource, Resolved, SourceKind};
use crate::watches::{OverrideError, OverrideValuesType, Overrides};

/// What a resource's values are merged from, above the chart's defaults.
pub(crate) struct Inputs<'a> {
    /// The value sources, lowest precedence first. One without content is left out.
    pub(crate) sources: &'a [FoundSource<'a>],
    /// The resource's own values.
    pub(crate) spec: &'a Spec,
    pub(crate) overrides: &'a Overrides,
    /// How the override values' texts become values.
    pub(crate) overrides_type: OverrideValuesType,
}

/// Something that sets values above the chart's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// An entry of `valuesFrom`.
    Source(Resolved),
    Spec,
    /// An override value of watches.yaml.
    Override {
        /// Its path, as in `--set`.
        key: String,
        /// Whether its text depends on the operator's environment.
        from_environment: bool,
    },
}

/// A resource's values with their origins.
pub(crate) struct Values {
    /// What the user and the operator give, by the index that [`Origin::Given`] has.
    pub(crate) given: Vec<Given>,
    pub(crate) traced: Traced,
}

/// The reason why a resource has no values. The messages never quote a value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Sources(#[from] values_from::MergeError),
    #[error(transparent)]
    Spec(#[from] crate::values::Error),
    #[error(transparent)]
    Override(#[from] OverrideError),
    #[error("{}", .0.without_values())]
    Chart(#[from] origins::Error),
}

/// Merges a resource's values exactly as for a render, and traces each to its origin.
///
/// # Errors
/// A source is invalid, the `spec` is not a map, an override value does not fit it, or the values do not fit the chart's
/// subcharts.
pub(crate) fn values(chart: &Arc<Chart>, inputs: &Inputs<'_>) -> Result<Values, Error> {
    let (given, layers) = layers::of(inputs)?;
    Ok(Values { given, traced: origins::trace(chart, &layers)? })
}

impl Given {
    /// Returns whether its values may not be shown: they come from a Secret or from the operator's environment.
    pub(crate) fn is_hidden(&self) -> bool {
        match self {
            Given::Source(source) => source.key.kind == SourceKind::Secret,
            Given::Override { from_environment, .. } => *from_environment,
            Given::Spec => false,
        }
    }
}

/// Formats it for a table: `Secret web-values, key values.yaml`.
impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Source(source) => {
                write!(f, "{} {}, key {}", source.key.kind.as_str(), source.key.name, source.values_key)
            }
            Given::Spec => f.write_str("spec"),
            Given::Override { key, from_environment: false } => write!(f, "overrideValues {key}"),
            Given::Override { key, from_environment: true } => write!(f, "overrideValues {key} (environment)"),
        }
    }
}

impl Values {
    /// Returns the source that an origin refers to, unless it is the chart.
    pub(crate) fn given(&self, origin: &Origin) -> Option<&Given> {
        match origin {
            Origin::Given(layer) => self.given.get(*layer),
            Origin::Default(_) | Origin::Helm => None,
        }
    }

    /// Returns whether a value with this origin may not be shown. What Helm made itself is only an empty table.
    pub(crate) fn is_hidden(&self, origin: &Origin) -> bool {
        self.given(origin).is_some_and(Given::is_hidden)
    }

    /// Describes an origin: `shop/values.yaml:12`, `spec`.
    pub(crate) fn describe(&self, origin: &Origin) -> String {
        match origin {
            Origin::Given(_) => self.given(origin).map(ToString::to_string).unwrap_or_default(),
            Origin::Default(default) => default.to_string(),
            Origin::Helm => "Helm".to_owned(),
        }
    }
}
