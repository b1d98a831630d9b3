//! Regular expressions in Go's syntax, with Go's errors, matches and replacements.
//!
//! Patterns are translated for the `regex` crate, whose matching is linear in the text as RE2's is. Counterpart: Go's `regexp`.

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

pub use cache::{CACHE_CAPACITY, MAX_CACHED_SIZE, cached};
pub use error::Error;
pub use search::{MAX_SEARCH_TIME, TooSlow};
pub use translate::{MAX_NESTING, MAX_PATTERN_LENGTH};

/// The most memory that one compiled pattern may take, in bytes.
pub const MAX_COMPILED_SIZE: usize = 8 << 20;

/// Sizes that a compiled pattern may have, tried in turn: what a pattern costs is told by the first that suffices.
const SIZES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, MAX_COMPILED_SIZE];

/// The most that a pattern's size and the length of the text that it is searched in may come to, multiplied: a search takes time by both where
/// the pattern is made for it.
pub const MAX_SEARCH_WORK: u64 = 16 << 30;

/// A compiled pattern.
#[derive(Debug)]
pub struct Regex {
    translated: String,
    /// Whether the pattern is the empty text, which `split` treats apart.
    is_empty: bool,
    /// The name of each group, the whole match first; empty for a group without a name.
    names: Vec<String>,
    text: regex::Regex,
    /// At most so much memory does it take, one of [`SIZES`].
    size: usize,
    /// For texts that are not UTF-8, made when the first one comes.
    bytes: OnceLock<Option<regex::bytes::Regex>>,
}

/// Where a match lies in the text: start and end.
type Span = (usize, usize);

impl Regex {
    /// Compiles a pattern in Go's syntax.
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

    /// What a search in a text of this length may take, in units of which [`MAX_SEARCH_WORK`] are too many for one.
    pub fn work(&self, length: usize) -> u64 {
        (self.size as u64).saturating_mul(length as u64)
    }

    /// Whether there is a match anywhere in the text.
    pub fn is_match(&self, text: &[u8]) -> bool {
        match std::str::from_utf8(text) {
            Ok(text) => self.text.is_match(text),
            Err(_) => self.bytes().is_some_and(|bytes| bytes.is_match(text)),
        }
    }

    /// The text of the first match.
    pub fn find<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let first = Search::new(self, text).find_at(0).unwrap_or_default();
        first.map(|(start, end)| &text[start..end])
    }

    /// The first `limit` matches; all if it is negative. An empty match right after another is none.
    ///
    /// # Errors
    /// It takes longer than [`MAX_SEARCH_TIME`].
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

    /// The texts between the matches, at most `limit` of them, the last with all the rest; all if it is negative. Go's `Split`.
    ///
    /// # Errors
    /// It takes longer than [`MAX_SEARCH_TIME`].
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

/// The compiled pattern and its size.
fn built(pattern: &str) -> Option<(regex::Regex, usize)> {
    SIZES.into_iter().find_map(|size| {
        let mut builder = regex::RegexBuilder::new(pattern);
        let regex = builder.size_limit(size).nest_limit(2 * MAX_NESTING as u32).build().ok()?;
        Some((regex, size))
    })
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
    decode(&text[position..]).map_or(1, Rune::width)
}
