//! Errors of parsing and emitting, in the words of yaml.v2 and sigs.k8s.io/yaml.

use std::borrow::Cow;

/// A problem that the scanner or parser found, and its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", line_prefix(*.line))]
pub(super) struct Syntax {
    /// The line as yaml.v2 counts it, or 0 if it does not name one.
    pub(super) line: usize,
    pub(super) problem: Cow<'static, str>,
}

/// The reason why a document could not be read, in the words of sigs.k8s.io/yaml's `Unmarshal`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The YAML is invalid, or yaml.v2 cannot decode it.
    #[error("error converting YAML to JSON: yaml: {}{problem}", line_prefix(*.line))]
    Syntax {
        /// The line, counted from 1. As in yaml.v2, it is sometimes one too low, and 0 where yaml.v2 does not name one.
        line: usize,
        /// The problem.
        problem: Cow<'static, str>,
    },
    /// JSON cannot represent the YAML, for example because of a null key or an infinity.
    #[error("error converting YAML to JSON: {0}")]
    NotJson(String),
    /// The document has a different type than the caller requires.
    #[error("error unmarshaling JSON: while decoding JSON: {0}")]
    WrongType(#[from] crate::json::TypeError),
    /// A line starts with `---` and continues with text, which Kubernetes' stream reader rejects.
    #[error("invalid Yaml document separator: {0}")]
    Separator(String),
}

fn line_prefix(line: usize) -> String {
    if line == 0 { String::new() } else { format!("line {line}: ") }
}

impl From<Syntax> for Error {
    fn from(syntax: Syntax) -> Error {
        Error::Syntax { line: syntax.line, problem: syntax.problem }
    }
}

/// The reason why a value could not be emitted, in the words of sigs.k8s.io/yaml's `Marshal`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// JSON cannot represent the value.
    #[error("error marshaling into JSON: {0}")]
    Json(#[from] crate::json::EncodeError),
    /// A string contains a character that YAML does not allow, or a key is too long to parse.
    #[error("yaml: {0}")]
    Yaml(String),
    /// yaml.v3 cannot represent the type; Go panics.
    #[error("cannot marshal type: {0}")]
    CannotMarshal(String),
    /// The output is longer than [`MAX_OUTPUT`](super::MAX_OUTPUT).
    #[error("yaml: output is longer than {0} bytes")]
    TooLong(usize),
}
