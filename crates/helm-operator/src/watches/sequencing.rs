//! Decodes `sequencing`, which says whether a chart's objects are applied in the order that the chart defines.

use super::node::Node;

/// Whether a chart's objects are applied in the order that the chart asks for: `sequencing` in watches.yaml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sequencing {
    /// All at once, in Helm's order of kinds.
    #[default]
    None,
    /// One group after the other, each once the groups that it waits for are ready.
    Ordered,
}

/// Decodes `sequencing: ordered`.
pub(super) fn sequencing(value: &Node) -> Result<Sequencing, String> {
    value.one_of(&[("none", Sequencing::None), ("ordered", Sequencing::Ordered)])
}
