//! Errors in TOML documents, in BurntSushi/toml's words.

use golibs::strconv::quote;
use golibs::work::Exhausted;

use super::MAX_DEPTH;

/// The reason why a document could not be decoded: the line, the last key before it, and the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("toml: line {line}{}: {problem}", last_key_text(.last_key))]
pub struct Error {
    line: usize,
    last_key: String,
    problem: Problem,
}

impl Error {
    pub(super) fn new(error: Located, last_key: String) -> Error {
        Error { line: error.line, last_key, problem: error.problem }
    }
}

fn last_key_text(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!(" (last key {})", quote(key)) }
}

/// A problem and its line, before the key is known.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) line: usize,
    pub(super) problem: Problem,
}

pub(super) type Result<T, E = Located> = std::result::Result<T, E>;

/// The problem with a document. Texts are quoted from the document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    #[error("{0}")]
    Syntax(&'static str),
    #[error("expected {expected}, but got {found} instead")]
    Expected { expected: &'static str, found: String },
    #[error("expected a comma (',') or array terminator (']'), but got {0}")]
    ArraySeparator(String),
    #[error("expected value but found {0} instead")]
    NotAValue(String),
    #[error("expected a digit but got {0}")]
    NotADigit(String),
    #[error("invalid UTF-8 byte: 0x{0:02x}")]
    InvalidUtf8(u8),
    #[error("TOML files cannot contain control characters: '0x{:02x}'", u32::from(*.0))]
    ControlCharacter(char),
    #[error("invalid escape in string '\\{0}'")]
    InvalidEscape(char),
    #[error("invalid escape: '\\{0}'")]
    EscapedBlank(char),
    #[error("Escaped character '\\u{0}' is not valid UTF-8.")]
    InvalidCodePoint(String),
    #[error("not {base} number: '{text}'")]
    WrongBase { base: &'static str, text: String },
    #[error("cannot use sign with non-decimal numbers: '{0}'")]
    SignedBase(String),
    #[error("invalid float: '{0}'")]
    InvalidFloatName(String),
    #[error("Invalid integer {}: {reason}", quote(.text))]
    InvalidInteger { text: String, reason: &'static str },
    #[error("Invalid float {}: {reason}", quote(.text))]
    InvalidFloat { text: String, reason: &'static str },
    #[error("Invalid float value: {}", quote(.0))]
    InvalidFloatValue(String),
    #[error("{text} is out of range for {wanted}")]
    OutOfRange { text: String, wanted: &'static str },
    #[error("invalid datetime: {}", quote(.0))]
    InvalidDatetime(String),
    #[error("exceeded max depth of {MAX_DEPTH}")]
    TooDeep,
    #[error("Key '{0}' was already created as a hash.")]
    CreatedAsTable(String),
    #[error("Key '{0}' was already created and cannot be used as an array.")]
    CreatedAsOther(String),
    #[error("Key '{0}' has already been defined.")]
    Defined(String),
    #[error("[{0}] is not a table")]
    NotATable(String),
}

impl From<&'static str> for Problem {
    fn from(message: &'static str) -> Problem {
        Problem::Syntax(message)
    }
}
