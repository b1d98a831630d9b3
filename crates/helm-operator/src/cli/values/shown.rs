//! The parts of a resource's values that are shown.

use helm::chart::Chart;

use crate::origins::Values;
use crate::origins::rows::{Row, rows};
use crate::view::primary::Primary;

/// A resource's values as they are shown.
pub(super) struct Shown {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The chart's name and version.
    pub(super) chart: String,
    /// Ordered by path.
    pub(super) rows: Vec<Row>,
    /// What the reader must know.
    pub(super) notes: Vec<String>,
}

pub(super) fn of(primary: &Primary, chart: &Chart, values: &Values, notes: Vec<String>) -> Shown {
    let notes = notes.into_iter().chain(values.traced.warnings.iter().cloned()).collect();
    Shown {
        api_version: primary.api_version.to_string(),
        kind: primary.kind.to_string(),
        namespace: primary.own_namespace().to_owned(),
        name: primary.name().to_owned(),
        chart: format!("{} {}", chart.metadata.name, chart.metadata.version),
        rows: rows(values),
        notes,
    }
}
