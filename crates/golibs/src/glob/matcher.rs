//! Compiled patterns and how they match. Counterpart: gobwas' `match`. It has bugs that we must reproduce: it miscounts the lengths of alternatives,
//! counts bytes as characters, and builds trees that match nothing.

use crate::utf8::{Rune, decode, runes};

use super::{Error, Work};

pub(super) const SEPARATOR: char = '/';

/// A part of a compiled pattern, which matches a text or is searched for in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Matcher {
    /// The empty string.
    Nothing,
    Text(String),
    /// One character other than the separator.
    Single,
    List {
        chars: Vec<char>,
        negated: bool,
    },
    Range {
        lo: char,
        hi: char,
        negated: bool,
    },
    /// Any text without a separator.
    Any,
    /// Any text.
    Super,
    /// At least this many characters.
    Min(usize),
    /// At most this many characters.
    Max(usize),
    Contains {
        needle: String,
        negated: bool,
    },
    Prefix(String),
    Suffix(String),
    /// The text, then any text without a separator.
    PrefixAny(String),
    SuffixAny(String),
    PrefixSuffix(String, String),
    /// All of them match the same text.
    Every(Vec<Matcher>),
    AnyOf(Vec<Matcher>),
    /// Consecutive parts of known length, and their total number of characters.
    Row(usize, Vec<Matcher>),
    Tree(Box<Tree>),
}

/// A part to search for first, and what must match before and after it. Without a matcher on a side, that side must be empty.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    pub(super) value: Matcher,
    pub(super) left: Option<Matcher>,
    pub(super) right: Option<Matcher>,
    lengths: Lengths,
}

/// The number of characters in each part of a tree, where known.
#[derive(Clone, Debug, PartialEq)]
struct Lengths {
    left: Option<usize>,
    right: Option<usize>,
    whole: Option<usize>,
}

/// The offset of a match, and each length that it can have.
type Found = Option<(usize, Vec<usize>)>;

impl Tree {
    pub(super) fn new(value: Matcher, left: Option<Matcher>, right: Option<Matcher>) -> Tree {
        let length = |side: &Option<Matcher>| side.as_ref().map_or(Some(0), Matcher::length);
        let (left_length, right_length) = (length(&left), length(&right));
        let whole = value.length().zip(left_length).zip(right_length).map(|((v, l), r)| v + l + r);
        Tree { value, left, right, lengths: Lengths { left: left_length, right: right_length, whole } }
    }

    fn matches(&self, text: &[u8], work: &mut Work) -> bool {
        if self.lengths.whole.is_some_and(|whole| whole > text.len()) {
            return false;
        }
        let mut offset = self.lengths.left.unwrap_or(0);
        let limit = text.len().saturating_sub(self.lengths.right.unwrap_or(0));
        while offset < limit {
            let Some((index, ends)) = self.value.find(&text[offset..limit], work) else { return false };
            let start = offset + index;
            if side(self.left.as_ref(), &text[..start], work) {
                let mut ends = ends.iter().rev().map(|end| (start + end).min(text.len()));
                if ends.any(|end| side(self.right.as_ref(), &text[end..], work)) {
                    return true;
                }
            }
            offset = start + width(&text[start..]);
        }
        false
    }
}

fn side(matcher: Option<&Matcher>, text: &[u8], work: &mut Work) -> bool {
    matcher.map_or(text.is_empty(), |matcher| matcher.matches(text, work))
}

impl Matcher {
    /// Returns the number of characters that it matches, if known. Like gobwas, ignores leading alternatives of unknown length.
    pub(super) fn length(&self) -> Option<usize> {
        match self {
            Matcher::Nothing => Some(0),
            Matcher::Text(text) => Some(text.chars().count()),
            Matcher::Single | Matcher::List { .. } | Matcher::Range { .. } => Some(1),
            Matcher::Row(length, _) => Some(*length),
            Matcher::Tree(tree) => tree.lengths.whole,
            Matcher::AnyOf(alternatives) => {
                let mut lengths = alternatives.iter().map(Matcher::length).skip_while(Option::is_none);
                let first = lengths.next()??;
                lengths.all(|length| length == Some(first)).then_some(first)
            }
            _ => None,
        }
    }

    /// Returns whether it matches the whole text. The result is meaningless once `work` has a fault.
    pub(super) fn matches(&self, text: &[u8], work: &mut Work) -> bool {
        if !work.spend(text.len()) {
            return false;
        }
        match self {
            Matcher::Nothing => text.is_empty(),
            Matcher::Text(wanted) => wanted.as_bytes() == text,
            Matcher::Single | Matcher::List { .. } | Matcher::Range { .. } => {
                // Empty text counts as U+FFFD, as in Go.
                text.len() <= width(text) && self.takes(first(text))
            }
            Matcher::Any => separator(text).is_none(),
            Matcher::Super => true,
            Matcher::Min(least) => count(text) >= *least,
            Matcher::Max(most) => count(text) <= *most,
            Matcher::Contains { needle, negated } => position(text, needle).is_some() != *negated,
            Matcher::Prefix(prefix) => text.starts_with(prefix.as_bytes()),
            Matcher::Suffix(suffix) => text.ends_with(suffix.as_bytes()),
            Matcher::PrefixAny(prefix) => {
                text.strip_prefix(prefix.as_bytes()).is_some_and(|rest| separator(rest).is_none())
            }
            Matcher::SuffixAny(suffix) => {
                text.strip_suffix(suffix.as_bytes()).is_some_and(|rest| separator(rest).is_none())
            }
            Matcher::PrefixSuffix(prefix, suffix) => {
                text.starts_with(prefix.as_bytes()) && text.ends_with(suffix.as_bytes())
            }
            Matcher::Every(all) => all.iter().all(|matcher| matcher.matches(text, work)),
            Matcher::AnyOf(alternatives) => alternatives.iter().any(|matcher| matcher.matches(text, work)),
            Matcher::Row(length, parts) => count(text) == *length && row(parts, text, work),
            Matcher::Tree(tree) => tree.matches(text, work),
        }
    }

    /// Returns whether a one-character matcher accepts this character.
    fn takes(&self, c: char) -> bool {
        match self {
            Matcher::Single => c != SEPARATOR,
            Matcher::List { chars, negated } => chars.contains(&c) != *negated,
            Matcher::Range { lo, hi, negated } => (*lo..=*hi).contains(&c) != *negated,
            _ => false,
        }
    }

    /// Finds the first match in the text, as gobwas does: it never finds a tree.
    fn find(&self, text: &[u8], work: &mut Work) -> Found {
        if !work.spend(text.len()) {
            return None;
        }
        match self {
            Matcher::Nothing => Some((0, vec![0])),
            Matcher::Text(wanted) => Some((position(text, wanted)?, vec![wanted.len()])),
            Matcher::Single | Matcher::List { .. } | Matcher::Range { .. } => {
                characters(text).find(|(_, c)| self.takes(*c)).map(|(i, c)| (i, vec![c.len_utf8()]))
            }
            Matcher::Any => Some((0, starts(&text[..separator(text).unwrap_or(text.len())]))),
            Matcher::Super => Some((0, starts(text))),
            Matcher::Min(least) => {
                let found: Vec<_> = ends(text, 0).skip(*least).collect();
                (text.len() >= *least && !found.is_empty()).then_some((0, found))
            }
            Matcher::Max(most) => Some((0, ends(text, 0).take(most + 1).collect())),
            Matcher::Contains { needle, negated } => find_containing(text, needle, *negated),
            Matcher::Prefix(prefix) => {
                let start = position(text, prefix)?;
                let rest = &text[start + prefix.len()..];
                Some((start, ends(rest, prefix.len()).collect()))
            }
            Matcher::PrefixAny(prefix) => {
                let start = position(text, prefix)?;
                let rest = &text[start + prefix.len()..];
                let rest = &rest[..separator(rest).unwrap_or(rest.len())];
                Some((start, ends(rest, prefix.len()).collect()))
            }
            Matcher::Suffix(suffix) => Some((0, vec![position(text, suffix)? + suffix.len()])),
            Matcher::SuffixAny(suffix) => {
                let index = position(text, suffix)?;
                let start = memchr::memrchr(SEPARATOR as u8, &text[..index]).map_or(0, |slash| slash + 1);
                Some((start, vec![index + suffix.len() - start]))
            }
            Matcher::PrefixSuffix(prefix, suffix) => find_between(text, prefix, suffix),
            Matcher::Every(all) => find_every(all, text, work),
            Matcher::AnyOf(alternatives) => find_any_of(alternatives, text, work),
            Matcher::Row(length, parts) => {
                let fits = |(i, _): &(usize, char)| text.len() - i >= *length;
                let mut places = characters(text).take_while(fits);
                places.find(|(i, _)| row(parts, &text[*i..], work)).map(|(i, _)| (i, vec![*length]))
            }
            Matcher::Tree(_) => None,
        }
    }
}

/// Returns whether each part matches as many characters as its length. Like gobwas, passes the last character of a part only up to its first byte.
fn row(parts: &[Matcher], text: &[u8], work: &mut Work) -> bool {
    let mut rest = text;
    for part in parts {
        let length = part.length().unwrap_or(0);
        let mut seen = 0;
        let mut last = 0;
        for (i, _) in characters(rest) {
            (seen, last) = (seen + 1, i);
            if seen == length {
                break;
            }
        }
        if seen < length {
            return false;
        }
        let Some((taken, after)) = rest.split_at_checked(last + 1) else {
            // Go panics here: a part of length zero takes more than is left.
            work.fault = Some(Error::OutOfRange { end: text.len() - rest.len() + last + 1, length: text.len() });
            return false;
        };
        if !part.matches(taken, work) {
            return false;
        }
        rest = after;
    }
    true
}

fn find_containing(text: &[u8], needle: &str, negated: bool) -> Found {
    let found = position(text, needle);
    if negated {
        return Some((0, starts(&text[..found.unwrap_or(text.len())])));
    }
    let offset = found? + needle.len();
    Some((0, starts(&text[offset..]).into_iter().map(|end| offset + end).collect()))
}

fn find_between(text: &[u8], prefix: &str, suffix: &str) -> Found {
    let start = position(text, prefix)?;
    let mut rest = &text[start..];
    if suffix.is_empty() {
        return Some((start, vec![rest.len()]));
    }
    let mut ends = Vec::new();
    while let Some(index) = rest.windows(suffix.len()).rposition(|window| window == suffix.as_bytes()) {
        ends.push(index + suffix.len());
        rest = &rest[..index];
    }
    ends.reverse();
    (!ends.is_empty()).then_some((start, ends))
}

fn find_every(all: &[Matcher], text: &[u8], work: &mut Work) -> Found {
    let (mut index, mut offset) = (0, 0);
    let mut current: Vec<usize> = Vec::new();
    for (i, matcher) in all.iter().enumerate() {
        let (found, ends) = matcher.find(&text[index..], work)?;
        if i == 0 {
            current = ends;
        } else {
            let moved = |end: &usize| (end + index).checked_sub(found + offset);
            current = current.iter().filter_map(moved).filter(|end| ends.contains(end)).collect();
            if current.is_empty() {
                return None;
            }
        }
        index = found + offset;
        offset += found;
    }
    Some((index, current))
}

fn find_any_of(alternatives: &[Matcher], text: &[u8], work: &mut Work) -> Found {
    let mut best: Found = None;
    for matcher in alternatives {
        let Some((index, ends)) = matcher.find(text, work) else { continue };
        match &mut best {
            Some((first, _)) if index > *first => {}
            Some((first, all)) if index == *first => {
                all.extend(ends);
                all.sort_unstable();
                all.dedup();
            }
            _ => best = Some((index, ends)),
        }
    }
    best
}

/// Iterates over the characters and their offsets, as Go's `range` over a string does.
fn characters(text: &[u8]) -> impl Iterator<Item = (usize, char)> {
    runes(text).scan(0, |at, rune| {
        let place = *at;
        *at += rune.width();
        Some((place, rune.to_char()))
    })
}

/// Returns the offset of each character, and of the end.
fn starts(text: &[u8]) -> Vec<usize> {
    characters(text).map(|(i, _)| i).chain([text.len()]).collect()
}

/// Iterates over the given offset and the end of each character after it, computed with Go's `utf8.RuneLen`.
fn ends(text: &[u8], from: usize) -> impl Iterator<Item = usize> {
    std::iter::once(from).chain(characters(text).map(move |(i, c)| from + i + c.len_utf8()))
}

fn count(text: &[u8]) -> usize {
    characters(text).count()
}

fn first(text: &[u8]) -> char {
    decode(text).map_or(char::REPLACEMENT_CHARACTER, Rune::to_char)
}

/// Returns the length of the first character in bytes; 0 for empty text.
fn width(text: &[u8]) -> usize {
    decode(text).map_or(0, Rune::width)
}

fn separator(text: &[u8]) -> Option<usize> {
    memchr::memchr(SEPARATOR as u8, text)
}

fn position(text: &[u8], wanted: &str) -> Option<usize> {
    memchr::memmem::find(text, wanted.as_bytes())
}
