//! Finds the line of a key in a values file, for people who look for it.

use std::collections::HashMap;

use super::compose::{self, Document, Node, NodeId};
use super::documents::split_with_lines;

/// Maximum number of merge keys (`<<`) that are followed for one key.
const MAX_MERGES: usize = 64;

/// The keys of a values file, which may have several documents, with their lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// The documents, last one first, because it wins.
    documents: Vec<Keys>,
}

#[derive(Debug)]
struct Keys {
    document: Document,
    /// The number of lines before the document.
    before: usize,
    /// The line and the value of each key in each mapping. The last of several equal keys wins.
    entries: HashMap<(NodeId, String), (usize, NodeId)>,
}

impl Lines {
    /// Reads a values file. A document that is not valid YAML has no lines.
    pub fn of(text: &[u8]) -> Lines {
        let documents = split_with_lines(text).unwrap_or_default();
        Lines { documents: documents.into_iter().rev().filter_map(|(before, text)| Keys::of(&text, before)).collect() }
    }

    /// Returns the line of the key at this path, counted from 1, or of the innermost key on the way that exists. A key that an alias or a merge key
    /// brings is on the line where it is written.
    pub fn line<K: AsRef<str>>(&self, path: &[K]) -> Option<usize> {
        let found = self.documents.iter().map(|keys| keys.line(path));
        // Of equally deep keys, the last document's wins.
        found.fold((0, None), |best, (depth, line)| if depth > best.0 { (depth, line) } else { best }).1
    }
}

impl Keys {
    fn of(text: &[u8], before: usize) -> Option<Keys> {
        let document = compose::first_document_with_lines(text).ok()?;
        let mut entries = HashMap::new();
        for (id, node) in document.nodes() {
            let Node::Mapping(pairs) = node else { continue };
            for (key, value) in pairs {
                if let (Node::Scalar { value: text, .. }, Some(line)) = (document.node(*key), document.line(*key)) {
                    entries.insert((id, text.clone()), (line, *value));
                }
            }
        }
        Some(Keys { document, before, entries })
    }

    /// Returns how many keys of the path exist, and the line of the last of them.
    fn line<K: AsRef<str>>(&self, path: &[K]) -> (usize, Option<usize>) {
        let (mut at, mut depth, mut line) = (self.document.root, 0, None);
        for key in path {
            let found = at.and_then(|at| self.entry(self.target(at), key.as_ref(), &mut { MAX_MERGES }));
            let Some((found, value)) = found else { break };
            (at, depth, line) = (Some(value), depth + 1, Some(found + self.before));
        }
        (depth, line)
    }

    /// Returns the line and the value of a key, which the mapping may have from another one.
    fn entry(&self, mapping: NodeId, key: &str, merges: &mut usize) -> Option<(usize, NodeId)> {
        if let Some(found) = self.entries.get(&(mapping, key.to_owned())) {
            return Some(*found);
        }
        *merges = merges.checked_sub(1)?;
        let (_, merged) = self.entries.get(&(mapping, "<<".to_owned()))?;
        match self.document.node(*merged) {
            Node::Sequence(items) => items.iter().find_map(|item| self.entry(self.target(*item), key, merges)),
            _ => self.entry(self.target(*merged), key, merges),
        }
    }

    /// Returns the node that an alias stands for.
    fn target(&self, id: NodeId) -> NodeId {
        match self.document.node(id) {
            Node::Alias { target, .. } => *target,
            _ => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_on_the_line_where_it_is_written() {
        let text = "# head\nimage:\n  # tag\n  tag: 1\n  'name': x\nflow: {a: 1,\n  b: 2}\nlist:\n- 1\nlong: |\n  a\n  b\nlast: 1\n";
        let lines = Lines::of(text.as_bytes());
        for (path, line) in [
            (&["image"][..], Some(2)),
            (&["image", "tag"], Some(4)),
            (&["image", "name"], Some(5)),
            (&["flow", "a"], Some(6)),
            (&["flow", "b"], Some(7)),
            (&["list"], Some(8)),
            (&["last"], Some(13)),
            (&["image", "missing", "deeper"], Some(2)),
            (&["missing"], None),
        ] {
            assert_eq!(lines.line(path), line, "{path:?}");
        }
    }

    #[test]
    fn aliases_and_merge_keys_lead_to_the_line_where_a_key_is_written() {
        let lines = Lines::of(
            b"base: &base\n  a: 1\nalias: *base\nmerged:\n  <<: *base\n  b: 2\nmany:\n  <<: [*base, {c: 1}]\n",
        );
        for (path, line) in
            [(["alias", "a"], 2), (["merged", "a"], 2), (["merged", "b"], 6), (["many", "a"], 2), (["many", "c"], 8)]
        {
            assert_eq!(lines.line(&path), Some(line), "{path:?}");
        }
    }

    #[test]
    fn merge_keys_that_multiply_are_followed_so_often_and_no_more() {
        let level = |at: usize| format!("l{at}: &l{at}\n  <<: [*l{0}, *l{0}, *l{0}]\n", at - 1);
        let text: String = std::iter::once("l0: &l0 {a: 1}\n".to_owned()).chain((1..30).map(level)).collect();
        assert_eq!(Lines::of(text.as_bytes()).line(&["l29", "missing"]), Some(58));
    }

    #[test]
    fn the_last_document_that_sets_a_key_wins() {
        let lines = Lines::of(b"---\na: 1\nb: {c: 1}\n---\n# more\na: 2\nb: {d: 1}\n");
        for (path, line) in [(&["a"][..], 6), (&["b", "c"], 3), (&["b", "d"], 7)] {
            assert_eq!(lines.line(path), Some(line), "{path:?}");
        }
    }

    #[test]
    fn invalid_text_has_no_lines() {
        assert_eq!(Lines::of(b"a: [").line(&["a"]), None);
        assert_eq!(Lines::of(b"--- x\na: 1").line(&["a"]), None);
        assert_eq!(Lines::of(b"").line(&["a"]), None);
    }
}
