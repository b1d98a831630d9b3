//! Patterns for file paths, as `.Files.Glob` and `fromFiles` take them: `*`, `**`, `?`, `[a-z]`, `{a,b}`, parted by `/`.
//!
//! Counterpart: gobwas/glob v0.2.3, with its slips: `files/{a*,b}` finds no `files/ab` in Helm, so it must not here.

mod cache;
mod compile;
mod matcher;
mod parse;
#[cfg(test)]
mod tests;

pub use cache::cached;

use matcher::Matcher;
use parse::parse;

/// The longest pattern, in bytes. Real ones have some dozen; more is an attempt to use memory.
pub const MAX_PATTERN_LENGTH: usize = 4096;

/// How much work one search among files may take: characters looked at, again and again where a pattern has many stars. A real one takes
/// some hundred for each file.
pub const MAX_WORK: usize = 1 << 25;

/// Why a pattern cannot be used. The texts are gobwas', except for the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A `[` that is not closed.
    #[error("unexpected end of input")]
    UnexpectedEnd,
    /// Something else than `]` after a range.
    #[error("expected close range character")]
    ExpectedClose,
    /// Brackets with neither characters nor a range.
    #[error("could not parse range")]
    BadRange,
    /// A range whose end comes before its start.
    #[error("hi character '{hi}' should be greater than lo '{lo}'")]
    Descending {
        /// The start.
        lo: char,
        /// The end.
        hi: char,
    },
    /// The pattern is not UTF-8.
    #[error("could not read rune")]
    BadRune,
    /// Alternatives nested deeper than the 50 levels that are read.
    #[error("pattern is nested too deeply (max {max})", max = parse::MAX_DEPTH)]
    TooDeep,
    /// The pattern is longer than [`MAX_PATTERN_LENGTH`].
    #[error("pattern is too large (max {MAX_PATTERN_LENGTH} bytes)")]
    TooLarge,
    /// Some slips of gobwas' end in a panic, as this one does in Helm.
    #[error("runtime error: slice bounds out of range [:{end}] with length {length}")]
    OutOfRange {
        /// How much of the text was asked for.
        end: usize,
        /// How much there was.
        length: usize,
    },
    /// The pattern has so many stars that a search takes more than [`MAX_WORK`].
    #[error("pattern takes too much work (limit MAX_WORK); use fewer stars")]
    TooMuchWork,
}

impl Error {
    /// The name of the limit that was exceeded, if it is one of ours.
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Error::TooDeep => Some("MAX_DEPTH"),
            Error::TooLarge => Some("MAX_PATTERN_LENGTH"),
            Error::TooMuchWork => Some("MAX_WORK"),
            _ => None,
        }
    }
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Glob(Matcher);

impl Glob {
    /// Compiles a pattern whose separator is `/`.
    pub fn new(pattern: &str) -> Result<Glob, Error> {
        if pattern.len() > MAX_PATTERN_LENGTH {
            return Err(Error::TooLarge);
        }
        Ok(Glob(compile::compile(parse(pattern)?)))
    }

    /// Whether the whole path matches. Fails where nothing of the work is left, and where gobwas panics.
    pub fn is_match(&self, path: impl AsRef<[u8]>, work: &mut Work) -> Result<bool, Error> {
        let found = self.0.matches(path.as_ref(), work);
        match work.fault.take() {
            Some(fault) => Err(fault),
            None => Ok(found),
        }
    }
}

/// What is left of [`MAX_WORK`] in one search.
#[derive(Debug)]
pub struct Work {
    left: usize,
    /// Why the current match ends without a result.
    fault: Option<Error>,
}

impl Default for Work {
    fn default() -> Self {
        Work { left: MAX_WORK, fault: None }
    }
}

impl Work {
    /// How much was done: characters looked at, about.
    pub fn done(&self) -> usize {
        MAX_WORK - self.left
    }

    /// Whether there was enough left, and no fault before.
    fn spend(&mut self, work: usize) -> bool {
        self.left = self.left.saturating_sub(1 + work);
        if self.left == 0 {
            self.fault = Some(Error::TooMuchWork);
        }
        self.fault.is_none()
    }
}
