//! Parses watches.yaml into a tree with line numbers, so that warnings can name them.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;

use super::Error;

/// A YAML value; scalars keep their type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    String(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a mapping with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The line, starting at 1; 0 if unknown.
    pub(super) line: u64,
    pub(super) value: Node,
}

/// Returns the entries of the top-level list, each of which is a mapping.
pub(super) fn entries(text: &str) -> Result<Vec<Vec<Entry>>, Error> {
    let options = serde_yaml::options! { with_snippet: false };
    let node: Node =
        serde_yaml::from_str_with_options(text, options).map_err(|error| Error::Yaml(error.to_string()))?;
    let list = match node {
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

impl Node {
    /// Returns the type's name in messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "a boolean",
            Node::Integer(_) | Node::Float(_) => "a number",
            Node::String(_) => "a string",
            Node::List(_) => "a list",
            Node::Map(_) => "a mapping",
        }
    }

    /// Returns the value as JSON.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Node::Null => serde_json::Value::Null,
            Node::Bool(b) => (*b).into(),
            Node::Integer(i) => i64::try_from(*i).map_or_else(|_| (*i as f64).into(), Into::into),
            Node::Float(f) => (*f).into(),
            Node::String(s) => s.as_str().into(),
            Node::List(list) => list.iter().map(Node::to_json).collect(),
            Node::Map(entries) => {
                serde_json::Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.to_json())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Node, E> {
        Ok(Node::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Node, E> {
        Ok(Node::Integer(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Node, E> {
        Ok(Node::Integer(v.into()))
    }

    fn visit_i128<E>(self, v: i128) -> Result<Node, E> {
        Ok(Node::Integer(v))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Node, E> {
        Ok(Node::Float(v))
    }

    fn visit_str<E>(self, v: &str) -> Result<Node, E> {
        Ok(Node::String(v.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element()? {
            list.push(node);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, Node>()? {
            entries.push(Entry { line: key.referenced.line(), key: key.value, value });
        }
        Ok(Node::Map(entries))
    }
}
