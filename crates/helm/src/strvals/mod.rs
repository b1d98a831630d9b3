//! Parses the text of `--set` and related flags, `a.b[0].c=1,d={x,y}`, into a table of values.
//!
//! Grammar, errors and limits are those of Helm's `pkg/strvals`.

mod error;
mod parser;
mod scan;
#[cfg(test)]
mod tests;

pub use error::Error;

use go_template::{Map, Value};

use parser::{Mode, Parser};
use scan::Scanner;

/// Maximum index of a list: Helm's `MaxIndex`.
pub const MAX_INDEX: i64 = 65_536;

/// Maximum number of dots in a name: Helm's `MaxNestedNameLevel`.
pub const MAX_NESTED_NAME_LEVEL: usize = 30;

/// Maximum nesting of lists, as in `a[0][0].b[0]`. Helm has no such limit; each level can cost [`MAX_INDEX`] values.
pub const MAX_NESTED_LISTS: usize = 30;

type Result<T = (), E = Error> = std::result::Result<T, E>;

/// A function that returns the value for the text of a `--set-file` value.
pub type Reader<'a> = dyn Fn(&str) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> + 'a;

/// Parses `--set`: `true`, `false`, `null` and integers (Go's `int64`) are typed, everything else is a string.
///
/// Adds to existing tables and lists in place, so the caller must own all tables below `into`.
///
/// # Errors
/// The text is malformed, nests too deeply, or does not fit existing values. Names before the error are set nevertheless.
pub fn parse_into(text: &str, into: &Map) -> Result {
    Parser::new(text, Mode::Typed).parse(into)
}

/// Parses `--set-string` like [`parse_into`], except that every value is a string.
///
/// # Errors
/// Fails like [`parse_into`].
pub fn parse_into_string(text: &str, into: &Map) -> Result {
    Parser::new(text, Mode::Text).parse(into)
}

/// Parses `--set-file` like [`parse_into`], except that `read` converts each text to its value.
///
/// # Errors
/// Fails like [`parse_into`], and with the errors of `read`.
pub fn parse_into_file(text: &str, into: &Map, read: &Reader<'_>) -> Result {
    Parser::new(text, Mode::Read(read)).parse(into)
}

/// Parses `--set-json` like [`parse_into`], except that each value is JSON.
///
/// # Errors
/// Fails like [`parse_into`], and if a value is not valid JSON.
pub fn parse_json(text: &str, into: &Map) -> Result {
    Parser::new(text, Mode::Json).parse(into)
}

/// Returns the sum of the indexes in a name such as `a[2].b[3]`: the number of items that setting it may add to lists,
/// apart from one per index. Ignores what is not an index.
pub fn sum_of_indexes(name: &str) -> usize {
    let mut scanner = Scanner::new(name);
    let mut sum: usize = 0;
    while let (_, Some(_)) = scanner.until(&['[']) {
        let (index, _) = scanner.until(&[']']);
        sum = sum.saturating_add(index.parse().unwrap_or_default());
    }
    sum
}

/// Parses `--set-literal`: one name, then `=`, then the value, unchanged. Commas and backslashes have no special meaning.
///
/// # Errors
/// Fails like [`parse_into`].
pub fn parse_literal_into(text: &str, into: &Map) -> Result {
    Parser::new(text, Mode::Literal).parse(into)
}
