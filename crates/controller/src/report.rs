//! Reports the outcome of a reconcile, under one stable reason for log, metric and event.
//!
//! Messages must never contain values or secrets.

use std::error::Error;

pub use outside::chain;

/// An error with a stable name for conditions, events and metrics.
pub trait Reason: Error {
    /// Returns the name, in upper camel case.
    fn reason(&self) -> &'static str;

    /// Reports whether only a change of the resource, or of what its controller watches, can help. Such an error is not
    /// retried before. Default: no.
    fn is_terminal(&self) -> bool {
        false
    }
}

/// Something that a user should know. Publish one per change, not one per reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether its event is a `Warning`; `Normal` otherwise.
    pub warning: bool,
    /// The stable reason, in upper camel case.
    pub reason: &'static str,
    /// The action, in upper camel case: `Install`, `Scale`.
    pub action: &'static str,
    /// The message for the user.
    pub message: String,
}

impl Outcome {
    /// Creates the outcome of something that was done.
    pub fn normal(reason: &'static str, action: &'static str, message: impl Into<String>) -> Outcome {
        Outcome { warning: false, reason, action, message: message.into() }
    }

    /// Creates the outcome of something that failed or needs attention.
    pub fn warning(reason: &'static str, action: &'static str, message: impl Into<String>) -> Outcome {
        Outcome { warning: true, reason, action, message: message.into() }
    }
}

/// How serde's errors begin that quote a value.
const QUOTING: [&str; 3] = ["invalid type: ", "invalid value: ", "unknown variant "];

/// Drops the value that an error of serde quotes: from its first mark to what the type expects.
pub(crate) fn without_value(cause: &str) -> String {
    let Some(start) = QUOTING.iter().filter_map(|start| cause.find(start)).min() else { return cause.to_owned() };
    let end = cause.rfind(", expected ").filter(|end| *end > start).unwrap_or(cause.len());
    match cause[start..end].find(['`', '"']) {
        Some(quote) => format!("{}{}", cause[..start + quote].trim_end(), &cause[end..]),
        None => cause.to_owned(),
    }
}

/// Shortens a text to at most `max` bytes. Replaces the middle with an ellipsis, between characters: the start of an
/// error says where it happened, its end says why.
pub fn shorten(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let half = (max - '…'.len_utf8()) / 2;
    let (start, end) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    format!("{}…{}", &text[..start], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_something_does_not_decode_quotes_no_value() {
        for (quoting, told) in [
            (r#"invalid type: string "a\", expected b", expected a map"#, "invalid type: string, expected a map"),
            ("invalid value: integer `300`, expected u8 at line 1", "invalid value: integer, expected u8 at line 1"),
            ("unknown variant `secret`, expected `a` or `b`", "unknown variant, expected `a` or `b`"),
            ("unknown variant `secret`, there are no variants", "unknown variant"),
            ("invalid type: map, expected `x`", "invalid type: map, expected `x`"),
            ("missing field `a`", "missing field `a`"),
            (r#"line 2: invalid type: string "a", expected a map"#, "line 2: invalid type: string, expected a map"),
            (", expected a: invalid type: string `a`", ", expected a: invalid type: string"),
        ] {
            assert_eq!(without_value(quoting), told);
        }
    }

    #[test]
    fn a_long_text_keeps_its_start_and_its_end() {
        let check = |text: &str, max, expected: &str| assert_eq!(shorten(text, max), expected);
        check("short", 10, "short");
        check("exactly 10", 10, "exactly 10");
        check("longer than ten", 10, "lon…ten");
        check("äöüäöü", 8, "ä…ü");
    }
}
