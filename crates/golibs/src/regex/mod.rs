//! Regular expressions with Go's syntax, errors, matches and replacements. Counterpart: Go's `regexp`.
//!
//! It translates patterns for the `regex` crate, which matches in linear time like RE2.

mod cache;
mod class;
mod error;
mod escape;
mod repeat;
mod replace;
mod search;
#[cfg(test)]
mod tests;
mod translate;
mod unicode;

use std::borrow::Cow;
use std::sync::OnceLock;

use search::Search;

use crate::utf8::{Rune, decode};

pub use cache::cached;
pub use error::Error;
pub use search::{MAX_SEARCH_TIME, TooSlow};
pub use translate::{MAX_NESTING, MAX_PATTERN_LENGTH};

/// Maximum memory of a compiled pattern, in bytes.
pub const MAX_COMPILED_SIZE: usize = 8 << 20;

/// Size limits to try when compiling, in this order. The first one that suffices serves as an estimate of the pattern's size.
const SIZES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, MAX_COMPILED_SIZE];

/// Maximum product of a pattern's size and the length of the searched text: in the worst case, a search takes time proportional to both.
pub const MAX_SEARCH_WORK: u64 = 16 << 30;

/// A compiled pattern.
#[derive(Debug)]
pub struct Regex {
    translated: String,
    /// Whether the pattern is empty, which `split` treats specially.
    is_empty: bool,
    /// The names of the groups, starting with the whole match; an unnamed group has an empty name.
    names: Vec<String>,
    text: regex::Regex,
    /// An upper bound on the memory it takes, one of [`SIZES`].
    size: usize,
    /// The same pattern for text that is not UTF-8, compiled on first use.
    bytes: OnceLock<Option<regex::bytes::Regex>>,
}

/// The start and end of a match.
type Span = (usize, usize);

impl Regex {
    /// Compiles a pattern in Go's syntax.
    ///
    /// # Errors
    /// Go rejects the pattern, or it exceeds a limit: [`MAX_PATTERN_LENGTH`], [`MAX_NESTING`] or [`MAX_COMPILED_SIZE`].
    pub fn new(pattern: &[u8]) -> Result<Regex, Error> {
        let translation = translate::translate(pattern)?;
        let (text, size) = built(&translation.regex)
            .ok_or_else(|| Error::new("expression too large", &String::from_utf8_lossy(pattern)))?;
        Ok(Regex {
            size,
            is_empty: pattern.is_empty(),
            translated: translation.regex,
            names: translation.names,
            text,
            bytes: OnceLock::new(),
        })
    }

    /// Returns the cost of searching a text of this length, to compare with [`MAX_SEARCH_WORK`].
    pub fn work(&self, length: usize) -> u64 {
        (self.size as u64).saturating_mul(length as u64)
    }

    /// Returns whether the text contains a match.
    pub fn is_match(&self, text: &[u8]) -> bool {
        match std::str::from_utf8(text) {
            Ok(text) => self.text.is_match(text),
            Err(_) => self.bytes().is_some_and(|bytes| bytes.is_match(text)),
        }
    }

    /// Returns the text of the first match.
    pub fn find<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let first = Search::new(self, text).find_at(0).unwrap_or_default();
        first.map(|(start, end)| &text[start..end])
    }

    /// Returns the first `limit` matches, or all if it is negative. Ignores an empty match directly after another match.
    ///
    /// # Errors
    /// The search takes longer than [`MAX_SEARCH_TIME`].
    pub fn find_all(&self, text: &[u8], limit: isize) -> Result<Vec<Span>, TooSlow> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut search = Search::new(self, text);
        let mut spans = Vec::new();
        let (mut position, mut previous_end) = (0, None);
        while spans.len() < limit && position <= text.len() {
            let Some((start, end)) = search.find_at(position)? else { break };
            let accepted = end != position || Some(start) != previous_end;
            position = if end == position { end + width_at(text, end) } else { end };
            previous_end = Some(end);
            if accepted {
                spans.push((start, end));
            }
        }
        Ok(spans)
    }

    /// Splits the text at the matches into at most `limit` parts, the last of which is the rest, or into all if it is negative. Counterpart: `Split`.
    ///
    /// # Errors
    /// The search takes longer than [`MAX_SEARCH_TIME`].
    pub fn split<'t>(&self, text: &'t [u8], limit: isize) -> Result<Vec<&'t [u8]>, TooSlow> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        if text.is_empty() && !self.is_empty {
            return Ok(vec![text]);
        }
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut parts = Vec::new();
        let (mut start, mut end) = (0, 0);
        for (match_start, match_end) in self.find_all(text, limit)? {
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
        Ok(parts)
    }

    fn bytes(&self) -> Option<&regex::bytes::Regex> {
        let build = || {
            let mut builder = regex::bytes::RegexBuilder::new(&self.translated);
            builder.size_limit(MAX_COMPILED_SIZE).nest_limit(2 * MAX_NESTING as u32).build().ok()
        };
        self.bytes.get_or_init(build).as_ref()
    }
}

/// Compiles a translated pattern; also returns an estimate of its size.
fn built(pattern: &str) -> Option<(regex::Regex, usize)> {
    SIZES.into_iter().find_map(|size| {
        let mut builder = regex::RegexBuilder::new(pattern);
        let regex = builder.size_limit(size).nest_limit(2 * MAX_NESTING as u32).build().ok()?;
        Some((regex, size))
    })
}

/// Escapes all characters that have a meaning in patterns. Counterpart: `QuoteMeta`.
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

/// Returns the length of the character at this position, or 1 at the end.
fn width_at(text: &[u8], position: usize) -> usize {
    decode(&text[position..]).map_or(1, Rune::width)
}
