//! Characters up to a sign that means something, and values of JSON, from one text.

use std::str::Chars;

use serde_json::Value as Json;

use super::Error;

/// The text that is left.
pub(super) struct Scanner<'a> {
    rest: Chars<'a>,
    /// Whether a backslash takes the meaning from the next character.
    escapes: bool,
}

/// What stands before a sign, and the sign; `None` where the text ended.
pub(super) type Piece = (String, Option<char>);

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str, escapes: bool) -> Scanner<'a> {
        Scanner { rest: text.chars(), escapes }
    }

    /// Takes everything up to one of the signs, and the sign.
    pub(super) fn until(&mut self, signs: &[char]) -> Piece {
        let mut text = String::new();
        while let Some(c) = self.rest.next() {
            if signs.contains(&c) {
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

    /// Whether nothing is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.as_str().is_empty()
    }

    /// Takes the character if it is next.
    pub(super) fn take(&mut self, wanted: char) -> bool {
        let mut ahead = self.rest.clone();
        let found = ahead.next() == Some(wanted);
        if found {
            self.rest = ahead;
        }
        found
    }

    /// Takes white space and a comma behind it; whether there is no value here.
    pub(super) fn is_empty_value(&mut self) -> bool {
        self.rest = self.rest.as_str().trim_start().chars();
        self.is_at_end() || self.take(',')
    }

    /// Takes one JSON value.
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
