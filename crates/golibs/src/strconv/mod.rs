//! Converts between text and booleans, numbers and quoted literals. Counterpart: Go's `strconv`.
//!
//! Numbers have 64 bits. Text is bytes, as in Go.

mod atof;
mod atoi;
mod ftoa;
mod quote;
#[cfg(test)]
mod tests;
mod unquote;

pub use atof::parse_float;
pub use atoi::{parse_int, parse_int_or_nearest, parse_uint};
pub use ftoa::{format_float, json_float};
pub use quote::{Charset, append_quoted, append_quoted_rune, can_backquote, quote, quote_rune};
pub use unquote::{Unquoted, unquote, unquote_char};

/// The reason why a text is not a number or a boolean: Go's `strconv.ErrSyntax` and `ErrRange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumError {
    /// The text does not have the right form.
    #[error("invalid syntax")]
    Syntax,
    /// The value does not fit into the type.
    #[error("value out of range")]
    Range,
}

impl NumError {
    /// Returns the text of Go's `*strconv.NumError`, which names the function and its argument.
    ///
    /// ```
    /// use golibs::strconv::NumError;
    ///
    /// assert_eq!(NumError::Syntax.message("ParseBool", b"yes"), r#"strconv.ParseBool: parsing "yes": invalid syntax"#);
    /// ```
    pub fn message(self, function: &str, text: &[u8]) -> String {
        format!("strconv.{function}: parsing {}: {self}", quote(text))
    }
}

/// Parses a boolean: `1`, `t`, `T`, `TRUE`, `true` and `True`, or their opposites. Counterpart: `strconv.ParseBool`.
///
/// # Errors
/// [`NumError::Syntax`] for any other text.
///
/// ```
/// use golibs::strconv::{NumError, parse_bool};
///
/// assert_eq!(parse_bool(b"T"), Ok(true));
/// assert_eq!(parse_bool(b"yes"), Err(NumError::Syntax));
/// ```
pub fn parse_bool(text: &[u8]) -> Result<bool, NumError> {
    match text {
        b"1" | b"t" | b"T" | b"TRUE" | b"true" | b"True" => Ok(true),
        b"0" | b"f" | b"F" | b"FALSE" | b"false" | b"False" => Ok(false),
        _ => Err(NumError::Syntax),
    }
}
