//! The objects in a project's YAML files. A `List` counts as its items, as in kubectl.

use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;

use crate::lines::Lines;
use crate::{Project, yaml};

/// An object in a file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) path: String,
    /// The object; always a map.
    pub(crate) content: Json,
    text: Arc<Text>,
    /// The keys that lead to the object if it is an item of a list.
    prefix: Vec<String>,
}

/// The text of a YAML document.
#[derive(Debug)]
struct Text {
    text: String,
    /// The number of lines before it.
    offset: usize,
    lines: OnceLock<Lines>,
}

/// A document that is not valid YAML, or a file that is missing.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) path: String,
    /// The line on which the document starts.
    pub(crate) line: Option<usize>,
    pub(crate) reason: String,
}

impl Document {
    /// Returns the line of the key at this path, or of the innermost existing key on the way.
    pub(crate) fn line<T: AsRef<str>>(&self, path: &[T]) -> Option<usize> {
        let lines = self.text.lines.get_or_init(|| Lines::of(&self.text.text, self.text.offset));
        let path: Vec<&str> = self.prefix.iter().map(String::as_str).chain(path.iter().map(AsRef::as_ref)).collect();
        lines.line(&path)
    }

    /// Returns whether the file contains nothing else.
    pub(crate) fn is_alone(&self, text: &str) -> bool {
        self.prefix.is_empty()
            && parts(text).iter().filter(|(_, part)| yaml::parse(part).is_ok_and(|one| !one.is_null())).count() == 1
    }

    /// Returns the content of the document's part of the file with this object replaced.
    fn within(&self, part: &str, new: &Json) -> Json {
        let pointer: String = self.prefix.iter().map(|key| format!("/{key}")).collect();
        let mut whole = yaml::parse(part).unwrap_or_default();
        match whole.pointer_mut(&pointer) {
            Some(place) => *place = new.clone(),
            None => whole = new.clone(),
        }
        whole
    }

    /// Returns a string field; empty if absent.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.content.pointer(pointer).and_then(Json::as_str).unwrap_or_default()
    }

    /// Returns whether it is an object of this kind, in any version.
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.text("/kind") == kind && group_of(self.text("/apiVersion")) == group
    }
}

/// Returns the group of an API version; empty for the core group.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns the objects of a file, and errors for the documents that cannot be read.
pub(crate) fn read(project: &Project, path: &str) -> Vec<Result<Document, Broken>> {
    let broken = |line, reason: String| Err(Broken { path: path.to_owned(), line, reason });
    let Some(text) = project.text(path) else {
        return vec![broken(None, "the file does not exist or is not UTF-8".to_owned())];
    };
    let mut found = Vec::new();
    for (offset, part) in parts(text) {
        match yaml::parse(part) {
            Ok(content) => {
                let text = Arc::new(Text { text: part.to_owned(), offset, lines: OnceLock::new() });
                add(path, content, &text, &[], &mut found);
            }
            Err(error) => found.push(broken(Some(offset + 1), error.to_string())),
        }
    }
    found
}

/// Returns the objects in the valid documents of a file.
pub(crate) fn valid(project: &Project, path: &str) -> Vec<Document> {
    read(project, path).into_iter().filter_map(Result::ok).collect()
}

fn add(path: &str, content: Json, text: &Arc<Text>, prefix: &[String], found: &mut Vec<Result<Document, Broken>>) {
    match items(&content) {
        Some(items) => {
            for (at, item) in items.iter().enumerate() {
                let prefix = [prefix, &["items".to_owned(), at.to_string()]].concat();
                add(path, item.clone(), text, &prefix, found);
            }
        }
        None if content.is_object() => {
            let document = Document { path: path.to_owned(), content, text: Arc::clone(text), prefix: prefix.to_vec() };
            found.push(Ok(document));
        }
        None => {}
    }
}

/// Returns the file's text with a document's object replaced. Other documents keep their text.
pub(crate) fn replaced(text: &str, document: &Document, new: &Json) -> String {
    let mut found = String::new();
    for (offset, part) in parts(text) {
        if offset != document.text.offset {
            found.push_str(part);
            continue;
        }
        let marker = part.split_inclusive('\n').next().filter(|line| line.starts_with("---"));
        found.push_str(marker.unwrap_or_default());
        found.push_str(&yaml::print(&document.within(part, new)));
    }
    found
}

/// Returns the items of a list object: of `List`, which may be empty, and of typed lists such as `ConfigMapList`.
pub(crate) fn items(object: &Json) -> Option<&[Json]> {
    let kind = object["kind"].as_str()?;
    match &object["items"] {
        Json::Array(items) if kind.ends_with("List") => Some(items),
        Json::Null if kind == "List" && object["apiVersion"] == "v1" => Some(&[]),
        _ => None,
    }
}

/// Splits a file into its documents, each with the number of lines before it.
pub(crate) fn parts(text: &str) -> Vec<(usize, &str)> {
    let is_marker =
        |line: &str| line.strip_prefix("---").is_some_and(|rest| rest.trim_start() != rest || rest.is_empty());
    let mut found = Vec::new();
    let (mut start, mut at, mut first) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if is_marker(line) && at > start {
            found.push((first, &text[start..at]));
            (start, first) = (at, number);
        }
        at += line.len();
    }
    found.push((first, &text[start..]));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, Option<usize>)> {
        let project = Project::from_files([("a.yaml", text)]);
        let found = valid(&project, "a.yaml");
        found.iter().map(|one| (one.text("/metadata/name").to_owned(), one.line(&["metadata", "name"]))).collect()
    }

    #[test]
    fn lists_count_as_their_items_which_keep_their_lines() {
        let text = "\
# comment
kind: ConfigMap
metadata:
  name: a
---
apiVersion: v1
kind: List
items:
- kind: Secret
  metadata: {name: b}
- kind: SecretList
  items:
  - metadata:
      name: c
--- # nothing
---
kind: AccessList
metadata: {name: d}
";
        let expected = [("a", Some(4)), ("b", Some(10)), ("c", Some(14)), ("d", Some(18))];
        assert_eq!(names(text), expected.map(|(name, line)| (name.to_owned(), line)));
        assert_eq!(names("apiVersion: v1\nkind: List\nitems:\n"), []);
    }

    #[test]
    fn a_replaced_object_leaves_the_others_as_they_are() {
        let text = "# a\nkind: A\n---\nkind: B # b\n---\napiVersion: v1\nkind: List\nitems: [{kind: C}, {kind: D}]\n";
        let project = Project::from_files([("a.yaml", text)]);
        let all = valid(&project, "a.yaml");
        let new = serde_json::json!({"kind": "New"});
        let second = replaced(text, &all[1], &new);
        assert_eq!(second, text.replace("kind: B # b", "kind: New"));
        let third = replaced(text, &all[2], &new);
        assert!(third.starts_with("# a\nkind: A\n---\nkind: B # b\n---\n"), "{third}");
        assert!(third.contains("- kind: New\n- kind: D\n"), "{third}");
        assert!(
            !all[0].is_alone(text)
                && valid(&Project::from_files([("a", "# x\n---\nkind: A\n")]), "a")[0].is_alone("# x\n---\nkind: A\n")
        );
    }

    #[test]
    fn a_broken_document_leaves_the_others() {
        let project = Project::from_files([("a.yaml", "kind: A\n---\na: b: c\n---\nkind: B\n")]);
        let found = read(&project, "a.yaml");
        assert!(matches!(&found[..], [Ok(_), Err(Broken { line: Some(2), .. }), Ok(_)]), "{found:?}");
        assert!(matches!(&read(&project, "b.yaml")[..], [Err(Broken { line: None, .. })]));
    }
}
