//! Splits text at delimiters, and reads JSON values from it.

use std::str::Chars;

use serde_json::Value as Json;

use super::Error;

/// The rest of the text.
pub(super) struct Scanner<'a> {
    rest: Chars<'a>,
    /// Whether a backslash escapes the next character.
    escapes: bool,
}

/// The text before a delimiter, and the delimiter, which is `None` at the end of the text.
pub(super) type Piece = (String, Option<char>);

impl<'a> Scanner<'a> {
    /// Scans a text in which a backslash escapes the next character.
    pub(super) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { rest: text.chars(), escapes: true }
    }

    /// Scans a text in which a backslash has no special meaning.
    pub(super) fn literal(text: &'a str) -> Scanner<'a> {
        Scanner { rest: text.chars(), escapes: false }
    }

    /// Consumes the text up to and including the next delimiter.
    pub(super) fn until(&mut self, delimiters: &[char]) -> Piece {
        let mut text = String::new();
        while let Some(c) = self.rest.next() {
            if delimiters.contains(&c) {
                return (text, Some(c));
            }
            if c == '\\' && self.escapes {
                let Some(next) = self.rest.next() else { break };
                text.push(next);
            } else {
                text.push(c);
            }
        }
        (text, None)
    }

    /// Returns whether the whole text is consumed.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.as_str().is_empty()
    }

    /// Consumes the character if it is next; returns whether it was.
    pub(super) fn take(&mut self, wanted: char) -> bool {
        let mut ahead = self.rest.clone();
        let found = ahead.next() == Some(wanted);
        if found {
            self.rest = ahead;
        }
        found
    }

    /// Consumes white space and a comma after it; returns whether the value is empty.
    pub(super) fn is_empty_value(&mut self) -> bool {
        self.rest = self.rest.as_str().trim_start().chars();
        self.is_at_end() || self.take(',')
    }

    /// Consumes one JSON value.
    pub(super) fn json(&mut self) -> Result<Json, Error> {
        let text = self.rest.as_str();
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
        let value = match values.next() {
            Some(value) => value.map_err(|e| Error::Json(e.to_string()))?,
            None => return Err(Error::Json("unexpected end of JSON input".to_owned())),
        };
        self.rest = text.get(values.byte_offset()..).unwrap_or_default().chars();
        Ok(value)
    }
}
