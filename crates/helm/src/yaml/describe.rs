//! Prints a node as Go's `%#v` prints its decoded value, for the errors that name a key.

use go_template::fmt::{Charset, quote};

use super::compose::{Document, Node, NodeId};
use super::decode::{Resolved, resolve_tagged};
use super::resolve::Scalar;
use crate::json::number;

/// Go's nil in a collection.
const NIL: &str = "interface {}(nil)";

/// How deep the text goes; an alias may stand for a lot.
const MAX_DEPTH: usize = 8;

/// The node's value in Go's syntax.
pub(super) fn go_syntax(document: &Document, id: NodeId) -> String {
    let mut text = String::new();
    describe(document, id, 0, &mut text);
    text
}

fn describe(document: &Document, id: NodeId, depth: usize, into: &mut String) {
    if depth > MAX_DEPTH {
        into.push('…');
        return;
    }
    match document.node(id) {
        Node::Alias { target, .. } => describe(document, *target, depth + 1, into),
        Node::Sequence(items) => {
            into.push_str("[]interface {}{");
            for (i, item) in items.iter().enumerate() {
                into.push_str(if i > 0 { ", " } else { "" });
                element(document, *item, depth, into);
            }
            into.push('}');
        }
        Node::Mapping(entries) => mapping(document, entries, depth, into),
        Node::Scalar { value, tag, implicit } => scalar(value, tag.as_deref(), *implicit, into),
    }
}

fn mapping(document: &Document, entries: &[(NodeId, NodeId)], depth: usize, into: &mut String) {
    let mut texts: Vec<(String, NodeId)> = Vec::new();
    for (key, value) in entries {
        let mut text = String::new();
        element(document, *key, depth, &mut text);
        texts.retain(|(known, _)| *known != text);
        texts.push((text, *value));
    }
    // Go sorts nil before all else.
    texts.sort_by(|(a, _), (b, _)| (a != NIL, a).cmp(&(b != NIL, b)));
    into.push_str("map[interface {}]interface {}{");
    for (i, (key, value)) in texts.iter().enumerate() {
        into.push_str(if i > 0 { ", " } else { "" });
        into.push_str(key);
        into.push(':');
        element(document, *value, depth, into);
    }
    into.push('}');
}

/// A value inside a collection, where nil has a type.
fn element(document: &Document, id: NodeId, depth: usize, into: &mut String) {
    let start = into.len();
    describe(document, id, depth + 1, into);
    if &into[start..] == "<nil>" {
        into.truncate(start);
        into.push_str(NIL);
    }
}

fn scalar(text: &str, tag: Option<&str>, implicit: bool, into: &mut String) {
    let quoted = |text: &str| String::from_utf8_lossy(&quote(text.as_bytes(), Charset::Unicode)).into_owned();
    let scalar = match resolve_tagged(text, tag, implicit) {
        Ok(Resolved::Scalar(scalar)) => scalar,
        Ok(Resolved::Text(other)) => return into.push_str(&quoted(&other)),
        Err(_) => Scalar::Str,
    };
    match scalar {
        Scalar::Null => into.push_str("<nil>"),
        Scalar::Bool(yes) => into.push_str(if yes { "true" } else { "false" }),
        Scalar::Int(number) => into.push_str(&number.to_string()),
        Scalar::Uint(number) => into.push_str(&format!("{number:#x}")),
        Scalar::Float(number) => into.push_str(&number::shortest(number)),
        Scalar::Str | Scalar::Timestamp => into.push_str(&quoted(text)),
    }
}
