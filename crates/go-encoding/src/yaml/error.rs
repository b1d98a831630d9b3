//! Errors of reading and writing, in the words of yaml.v2 and sigs.k8s.io/yaml.

use std::borrow::Cow;

/// A problem that the scanner or parser found, and its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", line_prefix(*.line))]
pub(super) struct Syntax {
    /// The line as yaml.v2 counts it; 0 if it does not name one.
    pub(super) line: usize,
    pub(super) problem: Cow<'static, str>,
}

/// Why a document could not be read, in the words of sigs.k8s.io/yaml's `Unmarshal`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Invalid YAML, or YAML that yaml.v2 does not decode.
    #[error("error converting YAML to JSON: yaml: {}{problem}", line_prefix(*.line))]
    Syntax {
        /// The line, from 1, sometimes one too low as in yaml.v2; 0 if yaml.v2 does not name one.
        line: usize,
        /// The problem.
        problem: Cow<'static, str>,
    },
    /// YAML that JSON cannot represent, such as a null key or an infinity.
    #[error("error converting YAML to JSON: {0}")]
    NotJson(String),
    /// A document of another type than the caller wants.
    #[error("error unmarshaling JSON: while decoding JSON: {0}")]
    WrongType(#[from] crate::json::TypeError),
    /// A line that starts with `---` and continues with text, which Kubernetes' stream reader refuses.
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

/// Why a value could not be written, in the words of sigs.k8s.io/yaml's `Marshal`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// A value that JSON cannot represent.
    #[error("error marshaling into JSON: {0}")]
    Json(#[from] crate::json::EncodeError),
    /// A string with a character that YAML does not allow, or a key too long to parse.
    #[error("yaml: {0}")]
    Yaml(String),
    /// A type that yaml.v3 cannot represent, on which Go panics.
    #[error("cannot marshal type: {0}")]
    CannotMarshal(String),
    /// Output longer than [`MAX_OUTPUT`](super::MAX_OUTPUT).
    #[error("yaml: output is longer than {0} bytes")]
    TooLong(usize),
}
