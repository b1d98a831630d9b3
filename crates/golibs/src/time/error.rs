//! Why a text is no time or duration, in Go's words.

use std::fmt;

/// Go's `time.ParseError`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub(super) layout: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) layout_part: Vec<u8>,
    pub(super) value_part: Vec<u8>,
    /// In place of the parts.
    pub(super) message: Option<String>,
}

impl std::error::Error for ParseError {}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parsing time {}", quote(&self.value))?;
        match &self.message {
            Some(message) => write!(f, "{message}"),
            None => {
                let (layout, value, part) = (quote(&self.layout), quote(&self.value_part), quote(&self.layout_part));
                write!(f, " as {layout}: cannot parse {value} as {part}")
            }
        }
    }
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Malformed, or too long.
    #[error("time: invalid duration {0}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0}")]
    MissingUnit(String),
    /// A unit that is none.
    #[error("time: unknown unit {unit} in duration {duration}")]
    UnknownUnit {
        /// The unit, quoted.
        unit: String,
        /// The whole text, quoted.
        duration: String,
    },
}

/// Quotes as Go's `time` does: every byte that is not printable ASCII becomes hexadecimal.
pub(super) fn quote(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=b'\x7f' => quoted.push(char::from(*byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted + "\""
}
