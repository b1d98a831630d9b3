//! YAML as a tree that knows the line of each key, so that warnings can name it.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;

/// A YAML value; scalars keep their type.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Node {
    /// `null`, or nothing.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// A text.
    String(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// A key of a mapping with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The line, starting at 1; 0 if unknown.
    pub line: u64,
    /// The value.
    pub value: Node,
}

impl Node {
    /// Parses one document.
    ///
    /// # Errors
    /// The text is not YAML, or a key is not a text.
    pub fn parse(text: &str) -> Result<Node, String> {
        let options = serde_yaml::options! { with_snippet: false };
        serde_yaml::from_str_with_options(text, options).map_err(|error| error.to_string())
    }

    /// Returns the type's name in messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "a boolean",
            Node::Integer(_) | Node::Float(_) => "a number",
            Node::String(_) => "a string",
            Node::List(_) => "a list",
            Node::Map(_) => "a mapping",
        }
    }

    /// Returns the string.
    ///
    /// # Errors
    /// It is not one; the text says what it is.
    pub fn string(&self) -> Result<&str, String> {
        if let Node::String(text) = self { Ok(text) } else { Err(self.expected("a string")) }
    }

    /// Returns the boolean.
    ///
    /// # Errors
    /// As [`string`](Node::string).
    pub fn boolean(&self) -> Result<bool, String> {
        if let Node::Bool(b) = self { Ok(*b) } else { Err(self.expected("true or false")) }
    }

    /// Returns the items of the list.
    ///
    /// # Errors
    /// As [`string`](Node::string).
    pub fn list(&self) -> Result<&[Node], String> {
        if let Node::List(items) = self { Ok(items) } else { Err(self.expected("a list")) }
    }

    /// Returns the entries of the mapping.
    ///
    /// # Errors
    /// As [`string`](Node::string).
    pub fn map(&self) -> Result<&[Entry], String> {
        if let Node::Map(entries) = self { Ok(entries) } else { Err(self.expected("a mapping")) }
    }

    /// Returns what one of these words stands for.
    ///
    /// # Errors
    /// It is not a string, or another one; the text lists the words.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, String> {
        let found = self.string()?;
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == found) {
            return Ok(*meaning);
        }
        let quoted: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let (last, others) = quoted.split_last().ok_or("no word is allowed")?;
        Err(format!("must be {} or {last}, found {found:?}", others.join(", ")))
    }

    /// Returns the message for another type.
    pub fn expected(&self, wanted: &str) -> String {
        format!("expected {wanted}, found {}", self.type_name())
    }

    /// Returns the value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
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

    fn visit_bool<E>(self, v: bool) -> Result<Node, E> {
        Ok(Node::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Node, E> {
        Ok(Node::Integer(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Node, E> {
        Ok(Node::Integer(v.into()))
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

/// The keys of a document with their lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    tree: Node,
    /// The number of lines before the document.
    offset: usize,
}

impl Lines {
    /// Reads a document that starts after `offset` lines. A document that is not valid YAML has no lines.
    pub(crate) fn of(text: &str, offset: usize) -> Lines {
        // Keeps the line count, unlike removing the marker's line.
        let text = if text.starts_with("---") { text.replacen("---", "", 1) } else { text.to_owned() };
        Lines { tree: Node::parse(&text).unwrap_or_default(), offset }
    }

    /// Returns the line of the key at this path, or of the innermost existing key on the way. Items of lists have their
    /// index as key.
    pub(crate) fn line<T: AsRef<str>>(&self, path: &[T]) -> Option<usize> {
        let (mut tree, mut line) = (&self.tree, None);
        for key in path.iter().map(AsRef::as_ref) {
            match tree {
                Node::Map(entries) => {
                    let Some(entry) = entries.iter().find(|entry| entry.key == key) else { break };
                    (tree, line) = (&entry.value, Some(entry.line));
                }
                Node::List(items) => {
                    let Some(inner) = key.parse().ok().and_then(|at: usize| items.get(at)) else { break };
                    tree = inner;
                    // The first key of a map is on the item's line.
                    if let Node::Map(entries) = inner {
                        line = entries.first().map(|entry| entry.line).or(line);
                    }
                }
                _ => break,
            }
        }
        let line = line.and_then(|line| usize::try_from(line).ok()).filter(|line| *line > 0);
        line.map(|line| line + self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_that_of_the_innermost_key_that_exists() {
        let lines = Lines::of("spec:\n  image:\n    tag: 1\n  list:\n  - a: 1\n    b: 2\n  - 3\n", 10);
        let check = |path: &[&str], line| assert_eq!(lines.line(path), line, "{path:?}");
        check(&["spec"], Some(11));
        check(&["spec", "image", "tag"], Some(13));
        check(&["spec", "image", "missing", "deeper"], Some(12));
        check(&["spec", "list", "0", "b"], Some(16));
        check(&["spec", "list", "1"], Some(14));
        check(&["missing"], None);
        assert_eq!(Lines::of("a: b: c", 0).line(&["a"]), None);
        assert_eq!(Lines::of("---\na: 1\n", 0).line(&["a"]), Some(2));
        assert_eq!(Lines::of("- kind: A\n- kind: B\n  chart: c\n", 0).line(&["1", "chart"]), Some(3));
    }
}
