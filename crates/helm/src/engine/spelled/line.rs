//! Finds the lines of a template that set the kind or the namespace of an object, and splits the values that they set.

use std::collections::BTreeSet;

use super::{Key, blocks};
use crate::dns::is_subdomain;

/// Maximum number of groups that one head may name, because each of its kinds gets a copy of them.
const MAX_GROUPS: usize = 64;

/// A line that sets a kind or a namespace.
pub(super) struct Found<'a> {
    /// The line, counted from 1.
    pub(super) line: usize,
    pub(super) key: Key,
    /// The text after the key.
    pub(super) value: &'a str,
    /// The API groups that a kind may have, empty for the core group; none if they are unknown.
    pub(super) groups: BTreeSet<&'a str>,
}

/// A reader of a template's lines.
#[derive(Default)]
pub(super) struct Lines<'a> {
    found: Vec<Found<'a>>,
    /// The kinds in this document, with their columns.
    kinds: Vec<(usize, Found<'a>)>,
    /// The columns at which this document has an `apiVersion`, which an object has and a reference to one does not.
    objects: BTreeSet<usize>,
    head: Head<'a>,
    /// The column of `metadata`, and that of its first field.
    metadata: Option<(usize, Option<usize>)>,
}

/// Lines in one column that set `apiVersion` or `kind`, with nothing but blocks and comments between them, not even the
/// border of a definition. Any of these kinds may have any of these groups, because branches may exclude each other.
#[derive(Default)]
struct Head<'a> {
    column: Option<usize>,
    /// The index of its first kind.
    first: usize,
    groups: BTreeSet<&'a str>,
    /// Whether an expression determines a group, or prints something next to these lines, which may be an `apiVersion`; or
    /// there are too many groups.
    is_computed: bool,
}

impl<'a> Lines<'a> {
    /// Returns the lines of a text that set the kind or the namespace of an object.
    pub(super) fn of(text: &'a str) -> Vec<Found<'a>> {
        let mut lines = Lines::default();
        let mut first = 1;
        for part in blocks::definitions(text) {
            part.lines().enumerate().for_each(|(at, line)| lines.read(first + at, line));
            first += part.matches('\n').count();
            // What a definition prints is included next to other lines.
            lines.end_head();
        }
        lines.end_document();
        lines.found
    }

    fn read(&mut self, line: usize, text: &'a str) {
        if text.starts_with("---") {
            self.end_document();
        }
        let mut part = content(text);
        loop {
            let (own, rest) = blocks::branch(part.text);
            let next = Content { column: part.column, ..content(rest) };
            self.read_part(line, Content { text: own, ..part });
            if next.text.is_empty() && !next.prints {
                return;
            }
            // What another branch prints in this line may be an `apiVersion`.
            self.interrupt_head();
            part = next;
        }
    }

    fn read_part(&mut self, line: usize, Content { column, text, prints, is_item }: Content<'a>) {
        if is_item {
            self.end_head();
        }
        let field = text.split_once(':').map(|(key, value)| (unquoted(key), value.trim()));
        let is_head = matches!(field, Some(("kind" | "apiVersion", _)));
        if prints {
            self.interrupt_head();
        } else if !is_head && !text.is_empty() && !text.starts_with('#') {
            self.end_head();
        }
        let Some((key, value)) = field else { return };
        self.leave_metadata(column);
        match key {
            "kind" => {
                self.enter_head(column);
                self.kinds.push((column, found(line, Key::Kind, value)));
            }
            "apiVersion" => {
                self.enter_head(column);
                self.objects.insert(column);
                self.head.add(value);
            }
            "metadata" => {
                self.metadata = Some((column, None));
                self.found.extend(in_flow(value).map(|value| found(line, Key::Namespace, value)));
            }
            "namespace" if self.is_field_of_metadata(column) => self.found.push(found(line, Key::Namespace, value)),
            _ => _ = self.is_field_of_metadata(column),
        }
    }

    fn enter_head(&mut self, column: usize) {
        // An action may remove the whitespace by which the columns differ.
        if self.head.column.is_some_and(|of| of != column) {
            self.interrupt_head();
        }
        self.head.column = Some(column);
    }

    /// Ends the lines of a head. Its kinds have the groups that it names, unless one is computed.
    fn end_head(&mut self) {
        let next = Head { first: self.kinds.len(), ..Head::default() };
        let head = std::mem::replace(&mut self.head, next);
        if !head.is_computed {
            self.kinds[head.first..].iter_mut().for_each(|(_, found)| found.groups.clone_from(&head.groups));
        }
    }

    /// Ends a head at text that an expression prints, which also belongs to what follows.
    fn interrupt_head(&mut self) {
        self.head.is_computed = true;
        self.end_head();
        self.head.is_computed = true;
    }

    /// Ends a document. Drops references to objects, which have no `apiVersion` in their column and are not at the top level.
    fn end_document(&mut self) {
        self.end_head();
        let objects = std::mem::take(&mut self.objects);
        let is_object = |column: &usize| *column == 0 || objects.contains(column);
        self.found.extend(self.kinds.drain(..).filter(|(column, _)| is_object(column)).map(|(_, found)| found));
        self.head = Head::default();
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

impl<'a> Head<'a> {
    fn add(&mut self, api_version: &'a str) {
        match group(api_version) {
            Some(group) => _ = self.groups.insert(group),
            None => self.is_computed = true,
        }
        self.is_computed |= self.groups.len() > MAX_GROUPS;
    }
}

fn found(line: usize, key: Key, value: &str) -> Found<'_> {
    Found { line, key, value, groups: BTreeSet::new() }
}

/// Returns the group in the value of `apiVersion`, such as `apps/v1` or `policy/{{ .x }}`, if the text determines it.
fn group(api_version: &str) -> Option<&str> {
    let all = pieces(api_version);
    let printed: Vec<Piece<'_>> = all.iter().copied().filter(|piece| *piece != Piece::Control).collect();
    let text = match (&printed[..], all.first()) {
        ([Piece::Text("v1")], _) => return Some(""),
        ([Piece::Text(text)], _) | (_, Some(Piece::Text(text))) => text,
        _ => return None,
    };
    let (group, version) = text.split_once('/')?;
    (is_subdomain(group) && version.chars().all(|c| c.is_ascii_alphanumeric())).then_some(group)
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

/// A line, without leading actions and without the dash of a list item.
struct Content<'a> {
    column: usize,
    text: &'a str,
    /// Whether a leading action may print something, or one that spans several lines.
    prints: bool,
    /// Whether it begins an item of a list.
    is_item: bool,
}

fn content(line: &str) -> Content<'_> {
    let mut column = line.len() - line.trim_start().len();
    let mut text = line.trim_start();
    let (mut prints, mut is_item) = (false, false);
    loop {
        if let Some((action, rest)) = text.strip_prefix("{{").and_then(|inside| inside.split_once("}}")) {
            prints |= may_print(action);
            text = rest.trim_start();
        } else if let Some(rest) = text.strip_prefix("- ") {
            column += text.len() - rest.trim_start().len();
            text = rest.trim_start();
            is_item = true;
        } else {
            prints |= match text.split_once("{{") {
                Some(("", begun)) => may_print(begun),
                Some((before, _)) => ends_action(before),
                None => ends_action(text),
            };
            return Content { column, text, prints, is_item };
        }
    }
}

/// Returns whether an action may print something, by its first words.
fn may_print(action: &str) -> bool {
    let mut words = action.strip_prefix('-').unwrap_or(action).split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    let assigns = first.starts_with('$') && (first.contains('=') || matches!(second, Some("=" | ":=")));
    !first.is_empty() && first != "define" && !is_control(first) && !assigns
}

/// Returns whether a text ends an action of an earlier line, other than a comment.
fn ends_action(text: &str) -> bool {
    text.split_once("}}").is_some_and(|(action, _)| !action.trim_end_matches(['-', ' ']).ends_with("*/"))
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

fn is_control(first: &str) -> bool {
    CONTROL.iter().any(|word| first == *word || (*word == "/*" && first.starts_with(word)))
}

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
        if is_control(first) {
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
