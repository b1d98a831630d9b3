//! Finds the lines of a template that set the kind or the namespace of an object, and splits the values that they set.

use super::Key;

/// A line that sets a kind or a namespace.
pub(super) struct Found<'a> {
    /// The line, counted from 1.
    pub(super) line: usize,
    pub(super) key: Key,
    /// The text after the key.
    pub(super) value: &'a str,
}

/// A reader of a template's lines.
#[derive(Default)]
pub(super) struct Lines<'a> {
    found: Vec<Found<'a>>,
    /// The kinds in this document, with their columns.
    kinds: Vec<(usize, Found<'a>)>,
    /// The columns at which this document has an `apiVersion`, which an object has and a reference to one does not.
    objects: Vec<usize>,
    /// The column of `metadata`, and that of its first field.
    metadata: Option<(usize, Option<usize>)>,
}

impl<'a> Lines<'a> {
    /// Returns the lines of a text that set the kind or the namespace of an object.
    pub(super) fn of(text: &'a str) -> Vec<Found<'a>> {
        let mut lines = Lines::default();
        for (at, line) in text.lines().enumerate() {
            lines.read(at + 1, line);
        }
        lines.end_document();
        lines.found
    }

    fn read(&mut self, line: usize, text: &'a str) {
        if text.starts_with("---") {
            self.end_document();
        }
        let (column, text) = content(text);
        let Some((key, value)) = text.split_once(':') else { return };
        let (key, value) = (unquoted(key), value.trim());
        self.leave_metadata(column);
        match key {
            "kind" => self.kinds.push((column, Found { line, key: Key::Kind, value })),
            "apiVersion" => self.objects.push(column),
            "metadata" => {
                self.metadata = Some((column, None));
                self.found.extend(in_flow(value).map(|value| Found { line, key: Key::Namespace, value }));
            }
            "namespace" if self.is_field_of_metadata(column) => {
                self.found.push(Found { line, key: Key::Namespace, value });
            }
            _ => _ = self.is_field_of_metadata(column),
        }
    }

    /// Ends a document. Drops references to objects, which have no `apiVersion` in their column and are not at the top level.
    fn end_document(&mut self) {
        let objects = std::mem::take(&mut self.objects);
        let is_object = |column: &usize| *column == 0 || objects.contains(column);
        self.found.extend(self.kinds.drain(..).filter(|(column, _)| is_object(column)).map(|(_, found)| found));
        self.metadata = None;
    }

    fn leave_metadata(&mut self, column: usize) {
        if self.metadata.is_some_and(|(outer, _)| column <= outer) {
            self.metadata = None;
        }
    }

    /// Returns whether a key at this column is a field of the metadata itself.
    fn is_field_of_metadata(&mut self, column: usize) -> bool {
        let Some((_, first)) = &mut self.metadata else { return false };
        *first.get_or_insert(column) == column
    }
}

/// Returns the value of `namespace` in `{name: a, namespace: b}`.
fn in_flow(value: &str) -> Option<&str> {
    let inside = value.strip_prefix('{').filter(|inside| !inside.starts_with('{'))?;
    let (_, after) = inside.split_once("namespace")?;
    let after = after.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':')?.trim_start();
    let end = match after.starts_with("{{") {
        true => after.find("}}").map(|end| end + 2),
        false => after.find([',', '}']),
    };
    Some(after[..end.unwrap_or(after.len())].trim())
}

/// Returns a line's column and text, without leading actions and without the dash of a list item.
fn content(line: &str) -> (usize, &str) {
    let mut column = line.len() - line.trim_start().len();
    let mut text = line.trim_start();
    loop {
        if let Some((_, rest)) = text.strip_prefix("{{").and_then(|inside| inside.split_once("}}")) {
            text = rest.trim_start();
        } else if let Some(rest) = text.strip_prefix("- ") {
            column += text.len() - rest.trim_start().len();
            text = rest.trim_start();
        } else {
            return (column, text);
        }
    }
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Text that is printed unchanged.
    Text(&'a str),
    /// The content of an action that prints something.
    Action(&'a str),
    /// The beginning, the end or a branch of a block.
    Control,
}

/// The words with which an action starts that prints nothing.
const CONTROL: [&str; 8] = ["if", "else", "end", "with", "range", "break", "continue", "/*"];

/// Splits a value into its parts.
pub(super) fn pieces(value: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = value.trim();
    while !rest.is_empty() {
        let (text, action) = rest.split_once("{{").unwrap_or((rest, ""));
        // A comment ends the value; an action in it prints into the comment.
        let (text, is_ended) = text.split_once(" #").map_or((text, false), |(text, _)| (text, true));
        let text = unquoted(text.trim_end_matches(','));
        if !text.is_empty() && !text.starts_with('#') {
            pieces.push(Piece::Text(text));
        }
        if is_ended {
            break;
        }
        let (inside, after) = action.split_once("}}").unwrap_or((action, ""));
        let inside = inside.strip_prefix('-').unwrap_or(inside).trim();
        let inside = inside.strip_suffix('-').unwrap_or(inside).trim();
        let first = inside.split_whitespace().next().unwrap_or_default();
        if CONTROL.iter().any(|word| first == *word || (*word == "/*" && first.starts_with(word))) {
            pieces.push(Piece::Control);
        } else if !inside.is_empty() {
            pieces.push(Piece::Action(inside));
        }
        rest = after;
    }
    pieces
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\'']).trim()
}
