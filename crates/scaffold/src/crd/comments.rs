//! Reads descriptions of values from comments in `values.yaml`, in plain form and in those of helm-docs and Bitnami.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// Descriptions by dotted path.
pub(super) type Comments = BTreeMap<String, String>;

/// The reader's position: the open maps, each with the column of its keys.
#[derive(Default)]
struct Reader {
    tables: Vec<(usize, String)>,
    /// The column of the dash while in a list.
    list: Option<usize>,
    /// The column of the key whose block scalar is open.
    text: Option<usize>,
    above: Vec<String>,
    found: Comments,
}

/// Reads the comments above keys, or behind them on the same line.
pub(super) fn read(values: &str) -> Comments {
    let mut reader = Reader::default();
    values.lines().for_each(|line| reader.line(line));
    reader.found
}

/// Adds comments to the fields of a converted schema that describe only their default.
pub(super) fn describe_fields(schema: &mut Json, path: &str, comments: &Comments) {
    let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) else { return };
    for (key, field) in properties {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if let Some(comment) = comments.get(&path) {
            let text = with_comment(comment, field.get("description").and_then(Json::as_str).unwrap_or_default());
            field["description"] = text.into();
        }
        describe_fields(field, &path, comments);
    }
}

/// Puts the comment before a description of default and choices. Prose of the schema stays.
fn with_comment(comment: &str, text: &str) -> String {
    let (default, choices) = match text.find("One of: ") {
        Some(start) => (text[..start].trim_end(), format!(" {}", &text[start..])),
        None => (text, String::new()),
    };
    match default.strip_prefix("Default: ").and_then(|default| default.strip_suffix('.')) {
        Some(default) => format!("{comment} (default: {default}){choices}"),
        None if default.is_empty() => format!("{comment}{choices}"),
        None => text.to_owned(),
    }
}

impl Reader {
    fn line(&mut self, line: &str) {
        let content = line.trim_start();
        let column = line.len() - content.len();
        if self.text.is_some_and(|key| content.is_empty() || column > key) {
            return;
        }
        self.text = None;
        if content.is_empty() {
            self.above.clear();
        } else if let Some(comment) = content.strip_prefix('#') {
            self.comment(comment);
        } else {
            self.entry(column, content);
            self.above.clear();
        }
    }

    fn comment(&mut self, comment: &str) {
        let comment = comment.trim_start_matches('#').trim();
        // Bitnami: `## @param image.tag [string] The tag`.
        if let Some((path, text)) = comment.strip_prefix("@param ").and_then(|rest| rest.trim().split_once(' ')) {
            let text = text.trim();
            let text =
                text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(text, |(_, text)| text.trim());
            self.found.insert(path.to_owned(), text.to_owned());
        } else if !comment.starts_with('@') {
            self.above.push(comment.to_owned());
        }
    }

    fn entry(&mut self, column: usize, content: &str) {
        if content.starts_with("- ") || content == "-" {
            self.list.get_or_insert(column);
            return;
        }
        // Keys of a list's items are indented deeper than its dash.
        match self.list {
            Some(dash) if column > dash => return,
            _ => self.list = None,
        }
        let Some((key, rest)) = key(content) else { return };
        self.tables.retain(|(open, _)| *open < column);
        self.tables.push((column, key.to_owned()));
        if rest.starts_with(['|', '>']) {
            self.text = Some(column);
        }
        let path = self.tables.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
        let behind = rest.split_once(" #").map(|(_, comment)| comment.trim().to_owned());
        let text = describe(&self.above).or(behind.filter(|text| !text.is_empty()));
        if let Some(text) = text {
            self.found.entry(path).or_insert(text);
        }
    }
}

/// Returns the key, without quotes, and the rest of the line.
fn key(content: &str) -> Option<(&str, &str)> {
    let (key, rest) = content.split_once(':')?;
    let is_key = rest.is_empty() || rest.starts_with([' ', '\t']);
    let key = key.trim_matches(['"', '\'']);
    (is_key && !key.contains([' ', '{', '['])).then_some((key, rest.trim_start()))
}

/// Returns the prose of the comment lines above a key; `None` if they are commented-out YAML.
fn describe(lines: &[String]) -> Option<String> {
    // helm-docs: the description starts with `-- `; earlier lines are unrelated.
    let start = lines.iter().rposition(|line| line.starts_with("-- "));
    let lines = &lines[start.unwrap_or(0)..];
    let prose: Vec<&str> =
        lines.iter().map(|line| line.trim_start_matches("-- ")).take_while(|line| !is_yaml(line)).collect();
    let text = prose.join(" ");
    (!text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Returns whether a comment looks like commented-out YAML: `key: value`, `key:` or `- item`.
fn is_yaml(line: &str) -> bool {
    let Some((key, rest)) = line.split_once(':') else { return line.starts_with("- ") };
    let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "._-/\"'".contains(c));
    line.starts_with("- ")
        || (is_word && key.starts_with(|c: char| !c.is_ascii_uppercase()) && (rest.is_empty() || rest.starts_with(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_goes_before_default_and_choices() {
        for (text, expected) in [
            ("", "C."),
            ("Default: 2.", "C. (default: 2)"),
            ("One of: \"a\".", "C. One of: \"a\"."),
            ("Default: \"a\". One of: \"a\".", "C. (default: \"a\") One of: \"a\"."),
            ("Own prose. (default: 2)", "Own prose. (default: 2)"),
        ] {
            assert_eq!(with_comment("C.", text), expected);
        }
    }

    #[test]
    fn comments_above_and_behind_keys_describe_them() {
        let text = "\
# The file.

# Number of pods.
# Ignored while autoscaling.
replicas: 3
image:
  # -- The repository
  repository: nginx # not this
  tag: \"\" # The tag
  # sha: abc
  digest: ''
# About the list.
hosts:
  # An item.
  - host: a
    # Of an item.
    path: /
    tls:
      x: y
- not: valid
script: |
  # in text
  key: value
after: 1 # After
## @param auth.password [string] The password
## @section Other
auth:
  password: \"\"
## @skip this
  user: x
";
        let found = read(text);
        let expected = [
            ("after", "After"),
            ("auth.password", "The password"),
            ("hosts", "About the list."),
            ("image.repository", "The repository"),
            ("image.tag", "The tag"),
            ("replicas", "Number of pods. Ignored while autoscaling."),
        ];
        assert_eq!(found.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>(), expected);
    }
}
