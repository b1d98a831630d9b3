//! What is wrong with a pattern, in Go's words.

/// Go's `syntax.Error`: what is wrong, and the part of the pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {problem}: `{part}`")]
pub struct Error {
    problem: &'static str,
    part: String,
}

impl Error {
    /// The problem in Go's words, and the part of the pattern that has it.
    pub(super) fn new(problem: &'static str, part: &str) -> Error {
        Error { problem, part: part.to_owned() }
    }
}
