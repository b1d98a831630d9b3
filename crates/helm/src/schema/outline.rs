//! Reduces a schema to what determines the validator's work: which subschemas apply where, and how long its lists are.
//!
//! Where it is uncertain which subschema applies, all candidates count, so that the outline never underestimates: patterns match every property, and
//! a relative reference may start at each `$id` around it.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::bounds::{BoundError, MAX_SUBSCHEMAS};
use super::compile::Document;
use super::index::Index;

/// The position of a node in the outline.
pub(super) type NodeId = u32;

/// A reduced schema. The first node is the root.
pub(super) struct Outline {
    nodes: Vec<Node>,
    /// Whether the validator tracks evaluated properties and items, which it copies for each subschema.
    pub(super) tracks_evaluated: bool,
}

/// Subschemas by name, sorted.
type Properties = Box<[(Box<str>, NodeId)]>;

/// A subschema.
#[derive(Default)]
pub(super) struct Node {
    /// The kinds of values that pass `type`, as bits of [`kind`]. For other values, the validator ignores everything else.
    kinds: Option<u8>,
    /// The size of `enum` and `const`.
    pub(super) literals: u64,
    /// The number of names that `required` and similar keywords list.
    pub(super) names: u64,
    /// The number of patterns that each property is matched with.
    pub(super) patterns: u64,
    /// Whether items are compared with each other.
    pub(super) unique: bool,
    /// Whether the node belongs to a resource with `$recursiveAnchor`.
    pub(super) recursive: bool,
    properties: Properties,
    pub(super) rules: Box<[Rule]>,
}

/// A subschema, and the values that it applies to.
pub(super) enum Rule {
    Same(NodeId),
    /// The same value, if it has this property.
    WithProperty(Box<str>, NodeId),
    /// The same value, to which the outermost schema of a resource with `$recursiveAnchor` applies.
    Recursive,
    /// The same value, which must be a schema.
    Metaschema,
    Properties(NodeId),
    /// Every property that `properties` does not name.
    Additional(NodeId),
    /// The name of every property.
    Names(NodeId),
    Item(usize, NodeId),
    Items(NodeId),
}

impl Outline {
    /// Reduces the schema, which is the first document, and the parts of the other documents that it uses.
    pub(super) fn of(documents: &[Document]) -> Result<Outline, BoundError> {
        let index = Index::of(documents)?;
        let tracks_evaluated = index.tracks_evaluated;
        let mut builder = Builder { index, ids: HashMap::new(), queue: Vec::new() };
        if let Some(root) = documents.first() {
            builder.id(&root.json)?;
        }
        let mut nodes = Vec::new();
        while let Some(schema) = builder.queue.get(nodes.len()) {
            nodes.push(builder.node(schema)?);
        }
        Ok(Outline { nodes, tracks_evaluated })
    }

    /// Returns the node. It exists if the id comes from this outline.
    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id as usize)
    }
}

impl Node {
    /// Returns whether the validator looks beyond `type` for this value.
    pub(super) fn admits(&self, value: &Json) -> bool {
        self.kinds.is_none_or(|kinds| kinds & kind(value) != 0)
    }

    /// Returns the subschema of a property that `properties` names.
    pub(super) fn property(&self, name: &str) -> Option<NodeId> {
        let at = self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(self.properties[at].1)
    }
}

const NUMBER: u8 = 8;

/// Returns the bit of the value's kind. Integers count as numbers.
fn kind(value: &Json) -> u8 {
    match value {
        Json::Null => 1,
        Json::Bool(_) => 2,
        Json::Number(_) => NUMBER,
        Json::String(_) => 16,
        Json::Array(_) => 32,
        Json::Object(_) => 64,
    }
}

fn kind_named(name: &Json) -> u8 {
    match name.as_str().unwrap_or_default() {
        "null" => 1,
        "boolean" => 2,
        "number" | "integer" => NUMBER,
        "string" => 16,
        "array" => 32,
        "object" => 64,
        _ => 0,
    }
}

struct Builder<'a> {
    index: Index<'a>,
    /// The ids, by address.
    ids: HashMap<*const Json, NodeId>,
    queue: Vec<&'a Json>,
}

impl<'a> Builder<'a> {
    fn id(&mut self, schema: &'a Json) -> Result<NodeId, BoundError> {
        if let Some(id) = self.ids.get(&std::ptr::from_ref(schema)) {
            return Ok(*id);
        }
        if self.queue.len() >= MAX_SUBSCHEMAS {
            return Err(BoundError::TooManySubschemas);
        }
        let id = self.queue.len() as NodeId;
        self.ids.insert(schema, id);
        self.queue.push(schema);
        Ok(id)
    }

    fn node(&mut self, schema: &'a Json) -> Result<Node, BoundError> {
        let Json::Object(entries) = schema else { return Ok(Node::default()) };
        let mut node = Node { recursive: self.index.is_recursive(schema), ..Node::default() };
        let mut rules = Vec::new();
        for (keyword, value) in entries {
            measure(&mut node, keyword, value);
            self.apply(&mut node, &mut rules, keyword, value)?;
            if let ("$ref" | "$dynamicRef" | "$recursiveRef", Json::String(reference)) = (keyword.as_str(), value) {
                self.refer(schema, keyword, reference, &mut rules)?;
            }
        }
        // Old drafts ignore keywords beside a reference.
        if entries.contains_key("$ref") {
            node.kinds = None;
        }
        node.rules = rules.into();
        Ok(node)
    }

    fn refer(
        &mut self,
        schema: &'a Json,
        keyword: &str,
        reference: &str,
        rules: &mut Vec<Rule>,
    ) -> Result<(), BoundError> {
        for target in self.index.targets(schema, keyword, reference)? {
            rules.push(Rule::Same(self.id(target)?));
        }
        if keyword == "$recursiveRef" {
            rules.push(Rule::Recursive);
        }
        if self.index.may_be_metaschema(reference) {
            rules.push(Rule::Metaschema);
        }
        Ok(())
    }

    fn apply(
        &mut self,
        node: &mut Node,
        rules: &mut Vec<Rule>,
        keyword: &str,
        value: &'a Json,
    ) -> Result<(), BoundError> {
        match (keyword, value) {
            ("not" | "if" | "then" | "else", schema) => rules.push(Rule::Same(self.id(schema)?)),
            ("allOf" | "anyOf" | "oneOf", Json::Array(schemas)) => {
                for schema in schemas {
                    rules.push(Rule::Same(self.id(schema)?));
                }
            }
            ("dependencies" | "dependentSchemas", Json::Object(entries)) => {
                for (name, schema) in entries.iter().filter(|(_, schema)| !schema.is_array()) {
                    rules.push(Rule::WithProperty(name.as_str().into(), self.id(schema)?));
                }
            }
            ("properties", Json::Object(entries)) => node.properties = self.properties(entries)?,
            ("patternProperties", Json::Object(entries)) => {
                for (pattern, schema) in entries {
                    node.patterns += 1 + pattern.len() as u64 / 256;
                    rules.push(Rule::Properties(self.id(schema)?));
                }
            }
            ("unevaluatedProperties", schema) => rules.push(Rule::Properties(self.id(schema)?)),
            ("additionalProperties", schema) => rules.push(Rule::Additional(self.id(schema)?)),
            ("propertyNames", schema) => rules.push(Rule::Names(self.id(schema)?)),
            ("items" | "prefixItems", Json::Array(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    rules.push(Rule::Item(index, self.id(schema)?));
                }
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", schema) => {
                rules.push(Rule::Items(self.id(schema)?));
            }
            _ => {}
        }
        Ok(())
    }

    fn properties(&mut self, entries: &'a Map<String, Json>) -> Result<Properties, BoundError> {
        let mut properties = Vec::with_capacity(entries.len());
        for (name, schema) in entries {
            properties.push((name.as_str().into(), self.id(schema)?));
        }
        properties.sort_by(|(a, _): &(Box<str>, NodeId), (b, _)| a.cmp(b));
        Ok(properties.into())
    }
}

/// Adds the keyword's cost, apart from that of subschemas.
fn measure(node: &mut Node, keyword: &str, value: &Json) {
    let listed = |value: &Json| value.as_array().map_or(0, Vec::len) as u64;
    match (keyword, value) {
        ("type", Json::Array(names)) => node.kinds = Some(names.iter().map(kind_named).fold(0, |all, one| all | one)),
        ("type", name) => node.kinds = Some(kind_named(name)),
        ("enum" | "const", literals) => node.literals += size(literals),
        ("required", names) => node.names += listed(names),
        ("dependencies" | "dependentRequired", Json::Object(entries)) => {
            node.names += entries.values().map(|names| 1 + listed(names)).sum::<u64>();
        }
        ("uniqueItems", unique) => node.unique = unique.as_bool() == Some(true),
        _ => {}
    }
}

/// Bytes of a string that count as one value.
const BYTES_PER_VALUE: usize = 256;

/// Counts the values in a value, including the value itself.
pub(super) fn size(value: &Json) -> u64 {
    match value {
        Json::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Json::Object(entries) => 1 + entries.values().map(size).sum::<u64>(),
        Json::String(text) => 1 + (text.len() / BYTES_PER_VALUE) as u64,
        _ => 1,
    }
}
