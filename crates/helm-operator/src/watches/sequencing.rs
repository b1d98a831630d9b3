//! Decodes `sequencing`, which says whether a chart's objects are applied in the order that the chart asks for.

use super::Error;
use super::decode::wrong;
use super::node::{Entry, Node};

/// Whether a chart's objects are applied in the order that the chart asks for: `sequencing` in watches.yaml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sequencing {
    /// All at once, in Helm's order of kinds.
    #[default]
    None,
    /// One group after the other, each once those that it waits for are ready.
    Ordered,
}

/// Decodes `sequencing: ordered`.
pub(super) fn sequencing(entry: &Entry) -> Result<Sequencing, Error> {
    match &entry.value {
        Node::String(text) if text == "none" => Ok(Sequencing::None),
        Node::String(text) if text == "ordered" => Ok(Sequencing::Ordered),
        Node::String(other) => Err(wrong(entry, format!("must be \"none\" or \"ordered\", found {other:?}"))),
        other => Err(wrong(entry, format!("expected a string, found {}", other.type_name()))),
    }
}
