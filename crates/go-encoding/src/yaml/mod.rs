//! YAML as Helm reads and writes it: sigs.k8s.io/yaml v1.6.0 over yaml.v2, that is, YAML 1.1 by libyaml's rules.
//!
//! [`parse`] is `Unmarshal` into `any`, [`emit()`] is `Marshal`, and [`emit_pretty`] is the yaml.v3 encoder that `toYamlPretty` uses. The parser is
//! our own, because no crate agrees with libyaml on every document and error message. Depth, aliases and output are bounded.

mod compose;
mod decode;
mod describe;
mod documents;
mod emit;
mod error;
mod lines;
mod read;
mod resolve;
mod scan;
mod timestamp;

#[cfg(test)]
mod tests;

use go_template::{List, Map, Value};

use crate::json;
use decode::Numbers;

pub use documents::parse_documents;
pub use documents::split;
pub use emit::{MAX_OUTPUT, emit, emit_pretty};
pub use error::{EmitError, Error};
pub use lines::Lines;

/// Maximum nesting depth when parsing or emitting: less than Go's 10,000, and safe for the stack of any thread.
pub const MAX_DEPTH: usize = 500;

/// Maximum number of values in a document, counting an alias each time it is used: a chart within its size limit could otherwise take gigabytes of
/// memory.
pub const MAX_VALUES: usize = 1_000_000;

/// Maximum size of the text that aliases repeat in a document, in bytes.
pub const MAX_REPEATED: usize = 64 << 20;

/// Parses the first document. Every number becomes a float, every key a string and an empty document nil; the last of several equal keys wins.
/// Counterpart: sigs.k8s.io/yaml's `Unmarshal` into `any`.
pub fn parse(text: &[u8]) -> Result<Value, Error> {
    read(text, Numbers::Floats, Most::default())
}

/// Parses like [`parse`], but converts integers to `int64` where they fit, as Kubernetes' decoder does.
pub fn parse_preserving_ints(text: &[u8]) -> Result<Value, Error> {
    read(text, Numbers::PreserveInts, Most::default())
}

/// Parses like [`parse_preserving_ints`], within tighter limits.
pub fn parse_preserving_ints_within(text: &[u8], most: Most) -> Result<Value, Error> {
    read(text, Numbers::PreserveInts, most)
}

fn read(text: &[u8], numbers: Numbers, most: Most) -> Result<Value, Error> {
    let document = compose::first_document(text, most.values)?;
    decode::decode(&document, numbers, most)
}

/// The maximum size of a document.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// The number of values, including keys. Default: [`MAX_VALUES`].
    pub values: usize,
    /// The number of text bytes that aliases repeat. Default: [`MAX_REPEATED`].
    pub repeated: usize,
}

impl Default for Most {
    fn default() -> Most {
        Most { values: MAX_VALUES, repeated: MAX_REPEATED }
    }
}

/// Parses a map. An empty document becomes an empty map; any other type is an error. Otherwise like [`parse`].
pub fn parse_map(text: &[u8]) -> Result<Map, Error> {
    Ok(json::into_map(parse(text)?)?)
}

/// Parses a list. An empty document becomes an empty list; any other type is an error. Otherwise like [`parse`].
pub fn parse_list(text: &[u8]) -> Result<List, Error> {
    Ok(json::into_list(parse(text)?)?)
}

/// Returns the result of parsing the string's JSON as YAML.
fn unquote_json(text: &str) -> Result<String, error::Syntax> {
    let quoted = json::quoted(text.as_bytes());
    let document = compose::first_document(quoted.as_bytes(), MAX_VALUES)?;
    match document.root.map(|root| document.node(root)) {
        Some(compose::Node::Scalar { value, .. }) => Ok(value.clone()),
        _ => Ok(String::new()),
    }
}
