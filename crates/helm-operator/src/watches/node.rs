//! Parses watches.yaml into a tree with line numbers, so that warnings can name them.

pub(super) use scaffold::lines::{Entry, Node};

use super::Error;

/// Returns the entries of the top-level list, each of which is a mapping.
pub(super) fn entries(text: &str) -> Result<Vec<Vec<Entry>>, Error> {
    let list = match Node::parse(text).map_err(Error::Yaml)? {
        Node::List(list) => list,
        Node::Null => Vec::new(),
        other => return Err(Error::Yaml(format!("expected a list of watches, found {}", other.type_name()))),
    };
    list.into_iter().enumerate().map(|(index, node)| entry(index, node)).collect()
}

fn entry(index: usize, node: Node) -> Result<Vec<Entry>, Error> {
    match node {
        Node::Map(entries) => Ok(entries),
        other => Err(Error::Yaml(format!("watch {} must be a mapping, found {}", index + 1, other.type_name()))),
    }
}
