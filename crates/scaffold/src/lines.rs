//! Finds the line of each key in a YAML document.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;

/// The keys of a document with their lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    tree: Tree,
    /// The number of lines before the document.
    offset: usize,
}

#[derive(Debug, Default)]
enum Tree {
    #[default]
    Leaf,
    List(Vec<Tree>),
    Table(Vec<(String, usize, Tree)>),
}

impl Lines {
    /// Reads a document that starts after `offset` lines. A document that is not valid YAML has no lines.
    pub(crate) fn of(text: &str, offset: usize) -> Lines {
        // Keeps the line count, unlike removing the marker's line.
        let text = if text.starts_with("---") { text.replacen("---", "", 1) } else { text.to_owned() };
        let options = serde_yaml::options! { with_snippet: false };
        Lines { tree: serde_yaml::from_str_with_options(&text, options).unwrap_or_default(), offset }
    }

    /// Returns the line of the key at this path, or of the innermost existing key on the way. Items of lists have their
    /// index as key.
    pub(crate) fn line<T: AsRef<str>>(&self, path: &[T]) -> Option<usize> {
        let (mut tree, mut line) = (&self.tree, None);
        for key in path.iter().map(AsRef::as_ref) {
            match tree {
                Tree::Table(entries) => {
                    let Some((_, at, inner)) = entries.iter().find(|(name, ..)| name == key) else { break };
                    (tree, line) = (inner, Some(*at));
                }
                Tree::List(items) => {
                    let Some(inner) = key.parse().ok().and_then(|at: usize| items.get(at)) else { break };
                    tree = inner;
                    // The first key of a map is on the item's line.
                    if let Tree::Table(entries) = inner {
                        line = entries.first().map(|(_, at, _)| *at).or(line);
                    }
                }
                Tree::Leaf => break,
            }
        }
        line.filter(|line| *line > 0).map(|line| line + self.offset)
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

/// Defines the visits of values without keys.
macro_rules! leaves {
    ($($name:ident: $type:ty),+) => {
        $(fn $name<E>(self, _: $type) -> Result<Tree, E> {
            Ok(Tree::Leaf)
        })+
    };
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    leaves!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, Tree>()? {
            let line = usize::try_from(key.referenced.line()).unwrap_or_default();
            entries.push((key.value, line, value));
        }
        Ok(Tree::Table(entries))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Tree::Leaf)
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
