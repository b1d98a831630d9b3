//! Errors of layouts and durations, in Go's words.

use std::fmt;

/// Text that does not fit its layout. Counterpart: `time.ParseError`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub(super) layout: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) problem: Problem,
}

/// What is wrong with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// This part of the text does not match this part of the layout.
    Mismatch { layout_part: Vec<u8>, value_part: Vec<u8> },
    /// The named part of the time has a value that does not exist.
    OutOfRange(&'static str),
    /// The day of the year is in another month, or is another day of it.
    DayOfYear(&'static str),
    /// The text goes on after the layout.
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

/// A zone offset that [`Time::binary`](super::Time::binary) cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Time.MarshalBinary: unexpected zone offset")]
pub struct OffsetError;

/// Text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Malformed text, or a duration of more than 292 years.
    #[error("time: invalid duration {0}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0}")]
    MissingUnit(String),
    /// An unknown unit.
    #[error("time: unknown unit {unit} in duration {duration}")]
    UnknownUnit {
        /// The unit, quoted.
        unit: String,
        /// The whole text, quoted.
        duration: String,
    },
}

/// Quotes as Go's `time` does, unlike `strconv`: every byte that is not ASCII becomes hexadecimal.
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
