//! Why YAML could not be read or written, with the words of yaml.v2 and sigs.k8s.io/yaml.

use std::borrow::Cow;

/// A document that is not YAML: what the scanner or parser found, and on which line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", line_prefix(*.line))]
pub(super) struct Syntax {
    /// The line as yaml.v2 counts it; 0 if it names none.
    pub(super) line: usize,
    pub(super) problem: Cow<'static, str>,
}

/// Why a document could not be read. The text is that of sigs.k8s.io/yaml's `Unmarshal`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not YAML, or YAML that yaml.v2 does not decode; `line` is yaml.v2's own count, 0 if it names none.
    #[error("error converting YAML to JSON: yaml: {}{problem}", line_prefix(*.line))]
    Syntax {
        /// The line, from 1, sometimes one too low as in yaml.v2.
        line: usize,
        /// What was found.
        problem: Cow<'static, str>,
    },
    /// YAML that has no counterpart in JSON, such as a null key or a number that is not finite.
    #[error("error converting YAML to JSON: {0}")]
    NotJson(String),
    /// A document of another kind than the one that was asked for.
    #[error("error unmarshaling JSON: while decoding JSON: {0}")]
    WrongType(#[from] crate::json::TypeError),
    /// A line that begins with `---` and goes on with text: Kubernetes' reader of streams refuses it.
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

/// Why a value could not be written. The text is that of sigs.k8s.io/yaml's `Marshal`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The value has no counterpart in JSON.
    #[error("error marshaling into JSON: {0}")]
    Json(#[from] crate::json::EncodeError),
    /// A string with a character that YAML does not allow, or a key that is too long to be read back.
    #[error("yaml: {0}")]
    Yaml(String),
    /// A type for which yaml.v3 has no form. Go panics there.
    #[error("cannot marshal type: {0}")]
    CannotMarshal(String),
    /// The text would be longer than [`MAX_OUTPUT`](super::MAX_OUTPUT).
    #[error("yaml: output is longer than {0} bytes")]
    TooLong(usize),
}
