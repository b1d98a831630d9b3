//! The grammar of `--set` and its kin: `a.b[0].c=1,d={x,y}`, into a table of values. `overrideValues` of watches.yaml uses it too.
//!
//! Follows Helm's `pkg/strvals` in grammar, errors and limits. Which flag is applied when is the caller's question.

mod error;
mod parser;
mod scan;
#[cfg(test)]
mod tests;

pub use error::Error;

use go_template::{Map, Value};

use parser::{Mode, Parser};

/// The highest index of a list: Helm's `MaxIndex`.
pub const MAX_INDEX: i64 = 65_536;

/// How many dots a name may have: Helm's `MaxNestedNameLevel`.
pub const MAX_NESTED_NAME_LEVEL: usize = 30;

/// How many lists may lie in each other, `a[0][0].b[0]…`. Helm has no such limit: each level can cost [`MAX_INDEX`] values.
pub const MAX_NESTED_LISTS: usize = 30;

type Result<T = (), E = Error> = std::result::Result<T, E>;

/// `--set`: `true`, `false`, `null` and whole numbers (as Go's `int64`) are typed, all else is a string.
///
/// Tables and lists that are there already are added to, in place: tables below `into` must be the caller's own.
///
/// # Errors
/// With Helm's texts. What came before the error is set nevertheless.
pub fn parse_into(text: &str, into: &Map) -> Result {
    Parser::new(text, Mode::Typed).parse(into)
}

/// `--set-string`: as [`parse_into`], but every value is a string.
///
/// # Errors
/// As [`parse_into`].
pub fn parse_into_string(text: &str, into: &Map) -> Result {
    Parser::new(text, Mode::Text).parse(into)
}

/// `--set-file`: as [`parse_into`], but each value is what `read` makes of its text.
///
/// # Errors
/// As [`parse_into`], and what `read` fails with.
pub fn parse_into_file(text: &str, into: &Map, read: &dyn Fn(&str) -> Result<Value, String>) -> Result {
    Parser::new(text, Mode::Read(read)).parse(into)
}

/// `--set-json`: as [`parse_into`], but each value is JSON.
///
/// # Errors
/// As [`parse_into`], and where a value is not JSON.
pub fn parse_json(text: &str, into: &Map) -> Result {
    Parser::new(text, Mode::Json).parse(into)
}

/// `--set-literal`: one name, and everything behind its `=` is the value. Neither commas nor backslashes mean anything.
///
/// # Errors
/// As [`parse_into`].
pub fn parse_literal_into(text: &str, into: &Map) -> Result {
    Parser::new(text, Mode::Literal).parse(into)
}
