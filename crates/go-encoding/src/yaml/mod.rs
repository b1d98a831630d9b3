//! YAML as Helm reads and writes it: sigs.k8s.io/yaml v1.6.0 over yaml.v2, which is YAML 1.1 by libyaml's rules.
//!
//! [`parse`] is `Unmarshal` into `interface{}`, [`emit()`] is `Marshal`, [`emit_pretty`] what `toYamlPretty` uses (yaml.v3). The parser is our
//! own: no crate agrees with libyaml on every document and on the errors' text. Depth, aliases and output are bounded.

mod compose;
mod decode;
mod describe;
mod documents;
mod emit;
mod error;
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

/// How deep values may nest, read or written: less than Go's 10,000, as much as every thread's stack bears.
pub const MAX_DEPTH: usize = 500;

/// How many values a document may have, those of aliases counted each time: some gigabytes of memory less than a chart's size allows.
pub const MAX_VALUES: usize = 1_000_000;

/// Reads the first document of the text as sigs.k8s.io/yaml's `Unmarshal` into an empty interface does: every number a float, every key
/// a string, nil for an empty document. Duplicate keys: the last wins. Errors have Go's text.
pub fn parse(text: &[u8]) -> Result<Value, Error> {
    let document = compose::first_document(text)?;
    decode::decode(&document, Numbers::Floats)
}

/// As [`parse`], with the numbers that Kubernetes' decoder makes of the JSON between: `int64` for what fits, `float64` for the rest.
pub fn parse_preserving_ints(text: &[u8]) -> Result<Value, Error> {
    let document = compose::first_document(text)?;
    decode::decode(&document, Numbers::PreserveInts)
}

/// As [`parse`], into a map: nothing at all is an empty map, anything else an error.
pub fn parse_map(text: &[u8]) -> Result<Map, Error> {
    Ok(json::into_map(parse(text)?)?)
}

/// As [`parse`], into a list: nothing at all is an empty list, anything else an error.
pub fn parse_list(text: &[u8]) -> Result<List, Error> {
    Ok(json::into_list(parse(text)?)?)
}

/// What a JSON string comes to when YAML reads it.
fn unquote_json(text: &str) -> Result<String, error::Syntax> {
    let quoted = json::quoted(text.as_bytes());
    let document = compose::first_document(quoted.as_bytes())?;
    match document.root.map(|root| document.node(root)) {
        Some(compose::Node::Scalar { value, .. }) => Ok(value.clone()),
        _ => Ok(String::new()),
    }
}
