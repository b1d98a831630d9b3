//! Shows how an object changes, as a unified diff of its YAML. Never shows a Secret's contents.

use std::io::IsTerminal;
use std::ops::Range;

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use serde_json::Value;

/// How many lines are shown around a change.
const CONTEXT: u32 = 3;

const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const REVERSE: &str = "\u{1b}[7m";
const NOT_REVERSE: &str = "\u{1b}[27m";
const PLAIN: &str = "\u{1b}[0m";

/// Returns how an object changes, with the lines that name it before and after; `(none)` where it does not exist.
pub(crate) fn of(name: &str, old: Option<&Value>, new: Option<&Value>) -> String {
    let (old_text, new_text) = (text(old, new, "before"), text(new, old, "after"));
    let lines = InternedInput::new(old_text.as_str(), new_text.as_str());
    let mut diff = Diff::compute(Algorithm::Histogram, &lines);
    diff.postprocess_lines(&lines);
    let side = |object: Option<&Value>| if object.is_some() { name } else { "(none)" };
    let printer = BasicLineDiffPrinter(&lines.interner);
    let mut config = UnifiedDiffConfig::default();
    let hunks = diff.unified_diff(&printer, config.context_len(CONTEXT).clone(), &lines).to_string();
    // A first change that is this near to the top is shown from the top, but imara-diff numbers its lines otherwise.
    let is_at_top = diff.hunks().next().is_some_and(|first| first.before.start <= 2 * CONTEXT);
    let hunks = if is_at_top { from_top(&hunks) } else { hunks };
    format!("--- {}\n+++ {}\n{hunks}", side(old), side(new))
}

/// Numbers the lines of the first hunk from 1.
fn from_top(hunks: &str) -> String {
    let (header, rest) = hunks.split_once('\n').unwrap_or((hunks, ""));
    let mut counts = header.split(' ').filter_map(|range| range.split_once(',')).map(|(_, count)| count);
    match (counts.next(), counts.next()) {
        (Some(before), Some(after)) => format!("@@ -1,{before} +1,{after} @@\n{rest}"),
        _ => hunks.to_owned(),
    }
}

/// Returns an object's text. A Secret's values are redacted; those that differ from the `other` side's are marked.
fn text(object: Option<&Value>, other: Option<&Value>, side: &str) -> String {
    let Some(object) = object else { return String::new() };
    let mut object = object.clone();
    if object["kind"] == "Secret" {
        for field in ["data", "stringData"] {
            for (key, value) in object.get_mut(field).and_then(Value::as_object_mut).into_iter().flatten() {
                let is_same = other.is_none_or(|other| other[field].get(key).is_none_or(|known| known == value));
                *value = if is_same { "****".into() } else { format!("**** ({side})").into() };
            }
        }
        // kubectl keeps the whole text of what it applied.
        if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    let value = go_encoding::json::from_serde(&object);
    go_encoding::yaml::emit(&value).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Never,
    Ansi,
}

impl Colour {
    /// Returns colours if the output is a terminal, unless `NO_COLOR` is set.
    pub(crate) fn of(output: &impl IsTerminal) -> Colour {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if output.is_terminal() && is_wanted { Colour::Ansi } else { Colour::Never }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line<'d> {
    pub(crate) side: Side,
    pub(crate) text: &'d str,
    /// What differs from the line that it replaces or that replaces it, in whole words.
    pub(crate) changed: Option<Range<usize>>,
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Both,
    Removed,
    Added,
}

/// Returns the lines of a diff, and marks what differs within a changed line.
pub(crate) fn lines(diff: &str) -> Vec<Line<'_>> {
    let all: Vec<&str> = diff.lines().collect();
    let (mut lines, mut at) = (Vec::new(), 0);
    while at < all.len() {
        let removed = run(&all[at..], '-');
        let added = run(&all[at + removed.len()..], '+');
        if removed.is_empty() && added.is_empty() {
            lines.push(Line { side: Side::Both, text: all[at], changed: None });
            at += 1;
            continue;
        }
        let is_paired = removed.len() == added.len();
        for (side, own, others) in [(Side::Removed, removed, added), (Side::Added, added, removed)] {
            lines.extend(own.iter().enumerate().map(|(index, text)| {
                let other = others.get(index).filter(|_| is_paired);
                // The signs in front differ always.
                let changed = other.and_then(|other| differing(&text[1..], &other[1..]));
                Line { side, text, changed: changed.map(|(begin, end)| begin + 1..end + 1) }
            }));
        }
        at += removed.len() + added.len();
    }
    lines
}

/// Adds colours to a diff, and highlights the differences within changed lines.
pub(crate) fn coloured(diff: &str, colour: Colour) -> String {
    if colour == Colour::Never {
        return diff.trim_end().to_owned();
    }
    let text: String = lines(diff).iter().map(painted).collect();
    text.trim_end().to_owned()
}

/// Returns the lines at the front with this sign.
fn run<'l, 'd>(lines: &'l [&'d str], sign: char) -> &'l [&'d str] {
    let end = lines.iter().position(|line| !line.starts_with(sign)).unwrap_or(lines.len());
    &lines[..end]
}

/// Returns a line in its colour. What differs from the other side's line is reversed.
fn painted(line: &Line<'_>) -> String {
    let Line { side, text, changed } = line;
    let colour = match side {
        Side::Both => return format!("{text}\n"),
        Side::Removed => RED,
        Side::Added => GREEN,
    };
    let marked = changed.as_ref().map(|Range { start, end }| {
        format!("{}{REVERSE}{}{NOT_REVERSE}{}", &text[..*start], &text[*start..*end], &text[*end..])
    });
    format!("{colour}{}{PLAIN}\n", marked.as_deref().unwrap_or(text))
}

/// Returns the part of a line that differs from another, in whole words; `None` if they have nothing in common.
fn differing(line: &str, other: &str) -> Option<(usize, usize)> {
    let same = |(a, b): &(char, char)| a == b;
    let begin: usize = line.chars().zip(other.chars()).take_while(same).map(|(c, _)| c.len_utf8()).sum();
    let rest = (&line[begin..], &other[begin..]);
    let tail: usize = rest.0.chars().rev().zip(rest.1.chars().rev()).take_while(same).map(|(c, _)| c.len_utf8()).sum();
    let is_word = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let begin = line[..begin].trim_end_matches(is_word).len();
    let end = line.len() - tail;
    let end = end + line[end..].len() - line[end..].trim_start_matches(is_word).len();
    let has_common = line[..begin].contains(|c: char| !c.is_whitespace());
    (has_common && begin < end).then_some((begin, end))
}
