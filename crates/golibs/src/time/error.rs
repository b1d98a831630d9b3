//! Errors of layouts and durations, worded as Go words them.

use std::fmt;

/// A text that does not match its layout. Counterpart: `time.ParseError`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub(super) layout: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) problem: Problem,
}

/// The mismatch between the text and the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// This part of the text does not match this part of the layout.
    Mismatch { layout_part: Vec<u8>, value_part: Vec<u8> },
    /// The named part of the time has a value that does not exist.
    OutOfRange(&'static str),
    /// The day of the year falls in another month, or on another day of the month. Names which.
    DayOfYear(&'static str),
    /// Text is left over after the end of the layout.
    ExtraText(Vec<u8>),
}

impl std::error::Error for ParseError {}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parsing time {}", quote(&self.value))?;
        match &self.problem {
            Problem::Mismatch { layout_part, value_part } => {
                let (layout, value, part) = (quote(&self.layout), quote(value_part), quote(layout_part));
                write!(f, " as {layout}: cannot parse {value} as {part}")
            }
            Problem::OutOfRange(part) => write!(f, ": {part} out of range"),
            Problem::DayOfYear(part) => write!(f, ": day-of-year does not match {part}"),
            Problem::ExtraText(text) => write!(f, ": extra text: {}", quote(text)),
        }
    }
}

/// The zone offset cannot be encoded by [`Time::binary`](super::Time::binary).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Time.MarshalBinary: unexpected zone offset")]
pub struct OffsetError;

/// The reason why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is malformed, or means more than 292 years.
    #[error("time: invalid duration {0}")]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {0}")]
    MissingUnit(String),
    /// The unit is unknown.
    #[error("time: unknown unit {unit} in duration {duration}")]
    UnknownUnit {
        /// The unit, quoted.
        unit: String,
        /// The whole text, quoted.
        duration: String,
    },
}

/// Quotes text as Go's `time` does: unlike `strconv`, it escapes every byte beyond ASCII in hexadecimal.
pub fn quote(text: &[u8]) -> String {
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
