//! Regular expressions in Go's syntax, with Go's errors, matches and replacements.
//!
//! Patterns are translated for the `regex` crate, whose matching is linear in the text as RE2's is. Counterpart: Go's `regexp`.

mod cache;
mod class;
mod error;
mod escape;
mod repeat;
mod replace;
#[cfg(test)]
mod tests;
mod translate;
mod unicode;

use std::borrow::Cow;
use std::sync::OnceLock;

pub use cache::{CACHE_CAPACITY, cached};
pub use error::Error;
pub use translate::{MAX_NESTING, MAX_PATTERN_LENGTH};

/// The most memory that one compiled pattern may take, in bytes.
pub const MAX_COMPILED_SIZE: usize = 32 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub struct Regex {
    translated: String,
    /// Whether the pattern is the empty text, which `split` treats apart.
    is_empty: bool,
    /// The name of each group, the whole match first; empty for a group without a name.
    names: Vec<String>,
    text: regex::Regex,
    /// For texts that are not UTF-8, made when the first one comes.
    bytes: OnceLock<Option<regex::bytes::Regex>>,
}

/// Where a match lies in the text: start and end.
type Span = (usize, usize);

impl Regex {
    /// Compiles a pattern in Go's syntax.
    pub fn new(pattern: &[u8]) -> Result<Regex, Error> {
        let translation = translate::translate(pattern)?;
        let text = regex::RegexBuilder::new(&translation.regex)
            .size_limit(MAX_COMPILED_SIZE)
            .nest_limit(2 * MAX_NESTING as u32)
            .build()
            .map_err(|_| Error::new("expression too large", &String::from_utf8_lossy(pattern)))?;
        Ok(Regex {
            is_empty: pattern.is_empty(),
            translated: translation.regex,
            names: translation.names,
            text,
            bytes: OnceLock::new(),
        })
    }

    /// Whether there is a match anywhere in the text.
    pub fn is_match(&self, text: &[u8]) -> bool {
        match std::str::from_utf8(text) {
            Ok(text) => self.text.is_match(text),
            Err(_) => self.find_at(text, 0).is_some(),
        }
    }

    /// The text of the first match.
    pub fn find<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        self.find_at(text, 0).map(|(start, end)| &text[start..end])
    }

    /// The first `limit` matches; all if it is negative. An empty match right after another is none.
    pub fn find_all(&self, text: &[u8], limit: isize) -> Vec<Span> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut spans = Vec::new();
        let (mut position, mut previous_end) = (0, None);
        while spans.len() < limit && position <= text.len() {
            let Some((start, end)) = self.find_at(text, position) else { break };
            let accepted = end != position || Some(start) != previous_end;
            position = if end == position { end + width_at(text, end) } else { end };
            previous_end = Some(end);
            if accepted {
                spans.push((start, end));
            }
        }
        spans
    }

    /// The texts between the matches, at most `limit` of them, the last with all the rest; all if it is negative. Go's `Split`.
    pub fn split<'t>(&self, text: &'t [u8], limit: isize) -> Vec<&'t [u8]> {
        if limit == 0 {
            return Vec::new();
        }
        if text.is_empty() && !self.is_empty {
            return vec![text];
        }
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut parts = Vec::new();
        let (mut start, mut end) = (0, 0);
        for (match_start, match_end) in self.find_all(text, limit) {
            if parts.len() + 1 == most {
                break;
            }
            end = match_start;
            if match_end != 0 {
                parts.push(&text[start..end]);
            }
            start = match_end;
        }
        if end != text.len() {
            parts.push(&text[start..]);
        }
        parts
    }

    fn find_at(&self, text: &[u8], position: usize) -> Option<Span> {
        match std::str::from_utf8(text) {
            Ok(valid) => self.text.find_at(valid, position).map(|m| (m.start(), m.end())),
            Err(_) => self.bytes()?.find_at(text, position).map(|m| (m.start(), m.end())),
        }
    }

    /// Where each group matched, the whole match first.
    fn groups_at(&self, text: &[u8], position: usize) -> Option<Vec<Option<Span>>> {
        let range = |m: (usize, usize)| m;
        match std::str::from_utf8(text) {
            Ok(valid) => {
                let groups = self.text.captures_at(valid, position)?;
                Some(groups.iter().map(|g| g.map(|g| range((g.start(), g.end())))).collect())
            }
            Err(_) => {
                let groups = self.bytes()?.captures_at(text, position)?;
                Some(groups.iter().map(|g| g.map(|g| range((g.start(), g.end())))).collect())
            }
        }
    }

    fn bytes(&self) -> Option<&regex::bytes::Regex> {
        let build = || {
            let mut builder = regex::bytes::RegexBuilder::new(&self.translated);
            builder.size_limit(MAX_COMPILED_SIZE).nest_limit(2 * MAX_NESTING as u32).build().ok()
        };
        self.bytes.get_or_init(build).as_ref()
    }
}

/// The text with everything escaped that means something in a pattern. Go's `QuoteMeta`.
pub fn quote_meta(text: &[u8]) -> Cow<'_, [u8]> {
    let is_special = |b: &u8| br"\.+*?()|[]{}^$".contains(b);
    if !text.iter().any(is_special) {
        return Cow::Borrowed(text);
    }
    let mut quoted = Vec::with_capacity(text.len() + 8);
    for byte in text {
        if is_special(byte) {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    Cow::Owned(quoted)
}

/// The length of the character at the position; at least one, past the end too.
fn width_at(text: &[u8], position: usize) -> usize {
    match go_template::fmt::first_rune(&text[position..]) {
        Some(go_template::fmt::Rune::Char(_, width)) => width,
        _ => 1,
    }
}
