//! Prints a node like Go's `%#v` of its decoded value, for errors that name a key.

use std::collections::BTreeMap;

use golibs::strconv::quote;

use super::compose::{Document, Node, NodeId, Typing};
use super::decode::{Resolved, resolve_tagged};
use super::resolve::Scalar;
use crate::json::number;

/// Go's nil in a collection.
const NIL: &str = "interface {}(nil)";

/// Maximum depth of the text: an alias may stand for a large structure.
const MAX_DEPTH: usize = 8;

/// Maximum number of nodes and bytes of scalars in the text.
const MAX_SHOWN: usize = 1 << 16;

/// Formats the node's value in Go syntax.
pub(super) fn go_syntax(document: &Document, id: NodeId) -> String {
    let mut text = String::new();
    Describer { document, shown: 0 }.describe(id, 0, &mut text);
    text
}

struct Describer<'a> {
    document: &'a Document,
    /// The number of nodes and bytes of scalars in the text.
    shown: usize,
}

impl Describer<'_> {
    fn describe(&mut self, id: NodeId, depth: usize, into: &mut String) {
        self.shown += 1;
        if depth > MAX_DEPTH || self.shown > MAX_SHOWN {
            into.push('…');
            return;
        }
        let document = self.document;
        match document.node(id) {
            Node::Alias { target, .. } => self.describe(*target, depth + 1, into),
            Node::Sequence(items) => {
                into.push_str("[]interface {}{");
                for (i, item) in items.iter().enumerate() {
                    into.push_str(if i > 0 { ", " } else { "" });
                    self.element(*item, depth, into);
                }
                into.push('}');
            }
            Node::Mapping(entries) => self.mapping(entries, depth, into),
            Node::Scalar { value, tag, typing } => {
                self.shown += value.len();
                scalar(value, tag.as_deref(), *typing, into);
            }
        }
    }

    fn mapping(&mut self, entries: &[(NodeId, NodeId)], depth: usize, into: &mut String) {
        let mut texts: BTreeMap<(bool, String), NodeId> = BTreeMap::new();
        for (key, value) in entries {
            let mut text = String::new();
            self.element(*key, depth, &mut text);
            // Go sorts nil first.
            texts.insert((text != NIL, text), *value);
        }
        into.push_str("map[interface {}]interface {}{");
        for (i, ((_, key), value)) in texts.iter().enumerate() {
            into.push_str(if i > 0 { ", " } else { "" });
            into.push_str(key);
            into.push(':');
            self.element(*value, depth, into);
        }
        into.push('}');
    }

    /// Appends a value inside a collection, where nil has a type.
    fn element(&mut self, id: NodeId, depth: usize, into: &mut String) {
        let start = into.len();
        self.describe(id, depth + 1, into);
        if &into[start..] == "<nil>" {
            into.truncate(start);
            into.push_str(NIL);
        }
    }
}

fn scalar(text: &str, tag: Option<&str>, typing: Typing, into: &mut String) {
    let scalar = match resolve_tagged(text, tag, typing) {
        Ok(Resolved::Scalar(scalar)) => scalar,
        Ok(Resolved::Text(other)) => return into.push_str(&quote(&other)),
        Err(_) => Scalar::Str,
    };
    match scalar {
        Scalar::Null => into.push_str("<nil>"),
        Scalar::Bool(yes) => into.push_str(if yes { "true" } else { "false" }),
        Scalar::Int(number) => into.push_str(&number.to_string()),
        Scalar::Uint(number) => into.push_str(&format!("{number:#x}")),
        Scalar::Float(number) => into.push_str(&number::shortest(number)),
        Scalar::Str | Scalar::Timestamp => into.push_str(&quote(text)),
    }
}
