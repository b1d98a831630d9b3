//! A chart as one render sees it: which subcharts are enabled, under which names, with which values.
//!
//! Counterparts: Helm's `pkg/chart/v2/util/dependencies.go` and `pkg/chart/common/util/{coalesce,jsonschema}.go`.

mod coalesce;
mod resolve;
#[cfg(test)]
mod tests;
mod validate;

pub use coalesce::{Nulls, TypeMismatch, coalesce};
pub(crate) use resolve::in_range;
pub use resolve::{ChartView, Resolver, resolve};
pub use validate::{SchemaError, validate};
