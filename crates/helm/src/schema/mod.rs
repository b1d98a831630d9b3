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
