//! Patterns for file paths, such as those of `.Files.Glob`: `*`, `**`, `?`, `[a-z]` and `{a,b}`, with the separator `/`.
//!
//! Counterpart: gobwas/glob v0.2.3, including its bugs, which we must reproduce: `files/{a*,b}` does not match `files/ab` in Helm.

mod cache;
mod compile;
mod matcher;
mod parse;
#[cfg(test)]
mod tests;

pub use cache::cached;

use matcher::Matcher;
use parse::parse;

/// Maximum length of a pattern, in bytes. Real patterns have a few dozen.
pub const MAX_PATTERN_LENGTH: usize = 4096;

/// Maximum work of one search over files, in character comparisons. Patterns with many stars compare the same characters again and again; real
/// patterns need about a hundred per file.
pub const MAX_WORK: usize = 1 << 25;

/// The reason why a pattern cannot be used, in gobwas' words except for our own limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An unclosed `[`.
    #[error("unexpected end of input")]
    UnexpectedEnd,
    /// A range not followed by `]`.
    #[error("expected close range character")]
    ExpectedClose,
    /// Empty brackets.
    #[error("could not parse range")]
    BadRange,
    /// A range whose end precedes its start.
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
    /// Alternatives nested deeper than 50 levels.
    #[error("pattern is nested too deeply (max {max})", max = parse::MAX_DEPTH)]
    TooDeep,
    /// The pattern is longer than [`MAX_PATTERN_LENGTH`].
    #[error("pattern is too large (max {MAX_PATTERN_LENGTH} bytes)")]
    TooLarge,
    /// A panic of gobwas, which Helm reports as an error.
    #[error("runtime error: slice bounds out of range [:{end}] with length {length}")]
    OutOfRange {
        /// The requested length.
        end: usize,
        /// The available length.
        length: usize,
    },
    /// The search takes more than [`MAX_WORK`].
    #[error("pattern takes too much work (limit MAX_WORK); use fewer stars")]
    TooMuchWork,
}

impl Error {
    /// Returns the name of the exceeded limit, if the error is one of our own limits.
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
    /// Compiles a pattern with the separator `/`.
    ///
    /// # Errors
    /// The pattern is malformed, or exceeds the limits on length and nesting.
    ///
    /// ```
    /// use golibs::glob::{Glob, Work};
    ///
    /// let glob = Glob::new("dashboards/**.{json,yaml}")?;
    /// assert!(glob.is_match("dashboards/a/b.json", &mut Work::default())?);
    /// # Ok::<(), golibs::glob::Error>(())
    /// ```
    pub fn new(pattern: &str) -> Result<Glob, Error> {
        if pattern.len() > MAX_PATTERN_LENGTH {
            return Err(Error::TooLarge);
        }
        Ok(Glob(compile::compile(parse(pattern)?)))
    }

    /// Returns whether the whole path matches, and deducts the work.
    ///
    /// # Errors
    /// The search has no work left, or gobwas would panic.
    pub fn is_match(&self, path: impl AsRef<[u8]>, work: &mut Work) -> Result<bool, Error> {
        let found = self.0.matches(path.as_ref(), work);
        match work.fault.take() {
            Some(fault) => Err(fault),
            None => Ok(found),
        }
    }
}

/// The work that one search may still do, at most [`MAX_WORK`].
#[derive(Debug)]
pub struct Work {
    left: usize,
    /// The reason why the current match failed.
    fault: Option<Error>,
}

impl Default for Work {
    fn default() -> Self {
        Work { left: MAX_WORK, fault: None }
    }
}

impl Work {
    /// Returns the work done so far, in character comparisons.
    pub fn done(&self) -> usize {
        MAX_WORK - self.left
    }

    /// Deducts work; returns whether enough was left and the match has not failed.
    fn spend(&mut self, work: usize) -> bool {
        self.left = self.left.saturating_sub(1 + work);
        if self.left == 0 {
            self.fault = Some(Error::TooMuchWork);
        }
        self.fault.is_none()
    }
}
