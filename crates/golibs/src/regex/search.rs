//! Searches one text repeatedly, in bounded time.
//!
//! Finding one match takes linear time. Finding all of them may take quadratic time, if each attempt reads far ahead before it settles for a short
//! match, as `.*z|a` does in a long run of `a`.

use std::time::Duration;

use super::{Regex, Span};
use crate::processor_time::processor_time;

/// Maximum processor time for finding all matches in one text.
pub const MAX_SEARCH_TIME: Duration = Duration::from_millis(500);

/// Number of bytes to search between two readings of the clock.
const BYTES_PER_LOOK: usize = 1 << 20;

/// The search for all matches took longer than [`MAX_SEARCH_TIME`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("searching a text took more than {MAX_SEARCH_TIME:?} of processor time")]
pub struct TooSlow;

/// A pattern and the text to search, either as UTF-8 or as bytes.
enum Pair<'r, 't> {
    Text(&'r regex::Regex, &'t str),
    Bytes(&'r regex::bytes::Regex, &'t [u8]),
    /// The text is not UTF-8, and the pattern does not compile for bytes.
    Nothing,
}

pub(super) struct Search<'r, 't> {
    pair: Pair<'r, 't>,
    length: usize,
    /// An upper bound on the bytes searched since the last reading of the clock.
    searched: usize,
    started: Option<Duration>,
}

impl<'r, 't> Search<'r, 't> {
    pub(super) fn new(regex: &'r Regex, text: &'t [u8]) -> Search<'r, 't> {
        let pair = match std::str::from_utf8(text) {
            Ok(text) => Pair::Text(&regex.text, text),
            Err(_) => regex.bytes().map_or(Pair::Nothing, |bytes| Pair::Bytes(bytes, text)),
        };
        Search { pair, length: text.len(), searched: 0, started: None }
    }

    /// Returns the first match at or after the position.
    pub(super) fn find_at(&mut self, position: usize) -> Result<Option<Span>, TooSlow> {
        self.look(position)?;
        Ok(match &self.pair {
            Pair::Text(regex, text) => regex.find_at(text, position).map(|m| (m.start(), m.end())),
            Pair::Bytes(regex, text) => regex.find_at(text, position).map(|m| (m.start(), m.end())),
            Pair::Nothing => None,
        })
    }

    /// Returns the span of each group of the first match at or after the position, starting with the whole match.
    pub(super) fn groups_at(&mut self, position: usize) -> Result<Option<Vec<Option<Span>>>, TooSlow> {
        self.look(position)?;
        Ok(match &self.pair {
            Pair::Text(regex, text) => {
                let groups = regex.captures_at(text, position);
                groups.map(|groups| groups.iter().map(|g| g.map(|g| (g.start(), g.end()))).collect())
            }
            Pair::Bytes(regex, text) => {
                let groups = regex.captures_at(text, position);
                groups.map(|groups| groups.iter().map(|g| g.map(|g| (g.start(), g.end()))).collect())
            }
            Pair::Nothing => None,
        })
    }

    fn look(&mut self, position: usize) -> Result<(), TooSlow> {
        self.searched += self.length.saturating_sub(position) + 1;
        if self.searched < BYTES_PER_LOOK {
            return Ok(());
        }
        self.searched = 0;
        let now = processor_time();
        let started = *self.started.get_or_insert(now);
        if now.saturating_sub(started) > MAX_SEARCH_TIME { Err(TooSlow) } else { Ok(()) }
    }
}
