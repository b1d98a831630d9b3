//! Errors in patterns, worded as Go words them.

/// A problem, and the part of the pattern that causes it. Counterpart: `syntax.Error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {problem}: `{part}`")]
pub struct Error {
    problem: &'static str,
    part: String,
}

/// Maximum length of the part that an error shows, in bytes.
const MAX_PART: usize = 4096;

impl Error {
    /// Creates an error from Go's text for the problem, and shortens the part.
    pub(super) fn new(problem: &'static str, part: &str) -> Error {
        let shown = &part[..part.floor_char_boundary(MAX_PART)];
        let rest = if shown.len() < part.len() { "…" } else { "" };
        Error { problem, part: format!("{shown}{rest}") }
    }
}
