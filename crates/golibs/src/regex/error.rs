//! What is wrong with a pattern, in Go's words.

/// Go's `syntax.Error`: what is wrong, and the part of the pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {problem}: `{part}`")]
pub struct Error {
    problem: &'static str,
    part: String,
}

/// How much of a pattern an error shows, in bytes.
const MAX_PART: usize = 4096;

impl Error {
    /// The problem in Go's words, and the part of the pattern that has it.
    pub(super) fn new(problem: &'static str, part: &str) -> Error {
        let shown = &part[..part.floor_char_boundary(MAX_PART)];
        let rest = if shown.len() < part.len() { "…" } else { "" };
        Error { problem, part: format!("{shown}{rest}") }
    }
}
