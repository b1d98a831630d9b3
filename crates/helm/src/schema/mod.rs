//! Validates values against one `values.schema.json`.
//!
//! Counterpart: santhosh-tekuri/jsonschema v6 as Helm's `pkg/chart/common/util/jsonschema.go` uses it, with the same error texts. Unlike in Helm, a
//! schema cannot read arbitrary files of the machine or the network: it may refer to the documents that come with its chart. A `urn:` accepts every
//! value, as in Helm.

mod bounds;
mod compile;
mod cost;
mod documents;
mod index;
mod number;
mod outline;
mod patterns;
#[cfg(test)]
mod tests;
mod text;
mod tree;

pub use bounds::{BoundError, MAX_NAMES, MAX_NESTING, MAX_SCHEMA_BYTES, MAX_SCHEMA_NODES, MAX_STEPS, MAX_SUBSCHEMAS};
pub use compile::{InvalidSchema, Schema, Violations};
pub use documents::{Documents, MAX_DOCUMENTS};
pub(crate) use index::percent_decoded;
pub use patterns::{MAX_PATTERN_BYTES, MAX_PATTERNS_READ, MAX_PATTERNS_SIZE, PatternError};
