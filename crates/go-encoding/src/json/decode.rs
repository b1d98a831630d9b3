//! Decodes JSON like `encoding/json`'s `Unmarshal` into `any` (all numbers are floats, the last of several equal keys wins), or like Kubernetes, with
//! integers.

use std::collections::BTreeMap;

use go_template::{List, ListType, Map, MapType, Str, Value};
use golibs::strconv::quote_rune;

use super::{MAX_DEPTH, MAX_VALUES, TypeError};

/// The reason why a text is not valid JSON, in `encoding/json`'s words except for our own limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A character is unexpected. Holds the quoted character and the context.
    #[error("invalid character {0} {1}")]
    Character(String, String),
    /// The text ends inside a value.
    #[error("unexpected end of JSON input")]
    End,
    /// Values nest deeper than [`MAX_DEPTH`].
    #[error("exceeded max depth")]
    TooDeep,
    /// There are more than [`MAX_VALUES`] values.
    #[error("exceeded limit MAX_VALUES of {MAX_VALUES}")]
    TooMany,
    /// A number exceeds the range of a float.
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    Number(String),
    /// The JSON value has a different type than the caller requires.
    #[error(transparent)]
    Type(#[from] TypeError),
}

type Result<T, E = DecodeError> = std::result::Result<T, E>;

/// Decodes a value, which may be surrounded by whitespace.
pub fn decode(text: &[u8]) -> Result<Value> {
    match decode_partly(text)? {
        (value, None) => Ok(value),
        (_, Some(error)) => Err(error),
    }
}

/// Decodes like [`decode`], but converts numbers without a point or exponent to `int64` where they fit. Counterpart:
/// `UnmarshalCaseSensitivePreserveInts` of sigs.k8s.io/json.
pub fn decode_preserving_ints(text: &[u8]) -> Result<Value> {
    match Decoder::new(text, Numbers::PreserveInts).document()? {
        (value, None) => Ok(value),
        (_, Some(error)) => Err(error),
    }
}

/// Decodes like [`decode`], but turns a number that is too large into nil and returns the error beside the value.
pub fn decode_partly(text: &[u8]) -> Result<(Value, Option<DecodeError>)> {
    Decoder::new(text, Numbers::Floats).document()
}

/// Decodes a list; `null` becomes Go's nil slice.
pub fn decode_list(text: &[u8]) -> Result<List> {
    match decode(text)? {
        Value::Nil => Ok(List::nil(ListType::Interface)),
        value => Ok(super::into_list(value)?),
    }
}

/// The types that numbers are decoded to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Floats,
    PreserveInts,
}

struct Decoder<'a> {
    text: &'a [u8],
    numbers: Numbers,
    pos: usize,
    depth: usize,
    values: usize,
    /// The first error that does not stop decoding.
    error: Option<DecodeError>,
}

impl<'a> Decoder<'a> {
    fn new(text: &'a [u8], numbers: Numbers) -> Decoder<'a> {
        Decoder { text, numbers, pos: 0, depth: 0, values: 0, error: None }
    }

    fn document(mut self) -> Result<(Value, Option<DecodeError>)> {
        let value = self.value()?;
        self.skip_blanks();
        if self.pos < self.text.len() {
            return Err(self.unexpected("after top-level value"));
        }
        Ok((value, self.error))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.pos += 1;
        }
    }

    fn unexpected(&self, context: &str) -> DecodeError {
        match self.peek() {
            // At the end of the text, Go tries a space, which is valid between values and in strings.
            None if context.starts_with("looking") || (context.starts_with("after") && !context.contains("point")) => {
                DecodeError::End
            }
            None if context == "in string literal" => DecodeError::End,
            None => DecodeError::Character(quote_char(b' '), context.to_owned()),
            Some(byte) => DecodeError::Character(quote_char(byte), context.to_owned()),
        }
    }

    fn value(&mut self) -> Result<Value> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(DecodeError::TooMany);
        }
        self.skip_blanks();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Nil),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value>) -> Result<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        self.pos += 1;
        self.skip_blanks();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value> {
        let mut entries = BTreeMap::new();
        let mut more = !self.closes(b'}');
        while more {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_blanks();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.pos += 1;
            let value = self.value()?;
            entries.insert(key, value);
            more = self.goes_on(b'}', "after object key:value pair")?;
        }
        Ok(Value::Map(Map::new(MapType::Interface, entries)))
    }

    fn array(&mut self) -> Result<Value> {
        let mut items = Vec::new();
        let mut more = !self.closes(b']');
        while more {
            items.push(self.value()?);
            more = self.goes_on(b']', "after array element")?;
        }
        Ok(Value::list(items))
    }

    fn closes(&mut self, bracket: u8) -> bool {
        let closes = self.peek() == Some(bracket);
        self.pos += usize::from(closes);
        closes
    }

    /// Reads a comma or the closing bracket; returns whether another item follows.
    fn goes_on(&mut self, bracket: u8, context: &str) -> Result<bool> {
        self.skip_blanks();
        if self.closes(bracket) {
            return Ok(false);
        }
        if self.peek() != Some(b',') {
            return Err(self.unexpected(context));
        }
        self.pos += 1;
        Ok(true)
    }

    fn literal(&mut self, literal: &str, value: Value) -> Result<Value> {
        for expected in literal.bytes() {
            if self.peek() != Some(expected) {
                return Err(self.unexpected(&format!("in literal {literal} (expecting '{}')", char::from(expected))));
            }
            self.pos += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value> {
        let start = self.pos;
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        if self.peek() == Some(b'0') {
            self.pos += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.pos += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = String::from_utf8_lossy(&self.text[start..self.pos]);
        if self.numbers == Numbers::PreserveInts
            && let Some(number) = integer(&text)
        {
            return Ok(Value::int64(number));
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => {
                self.error.get_or_insert(DecodeError::Number(text.into_owned()));
                Ok(Value::Nil)
            }
        }
    }

    fn digits(&mut self, context: &str) -> Result<()> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return Err(self.unexpected(context));
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.pos += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<Str> {
        self.pos += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.pos..];
            let run = rest.iter().position(|b| *b == b'"' || *b == b'\\' || *b < 0x20).unwrap_or(rest.len());
            text.push_str(&super::to_utf8(&rest[..run]));
            self.pos += run;
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape(&mut text)?,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
        self.pos += 1;
        Ok(Str::from(text))
    }

    fn escape(&mut self, text: &mut String) -> Result<()> {
        self.pos += 1;
        let c = match self.peek() {
            Some(b'b') => '\x08',
            Some(b'f') => '\x0C',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'u') => return self.unicode_escape(text),
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.pos += 1;
        text.push(c);
        Ok(())
    }

    /// Reads `\uXXXX`, or two of them that form a surrogate pair; a lone surrogate becomes U+FFFD.
    fn unicode_escape(&mut self, text: &mut String) -> Result<()> {
        let first = self.code_unit()?;
        if !(0xD800..0xDC00).contains(&first) {
            text.push(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Ok(());
        }
        let after_first = self.pos;
        if self.text[self.pos..].starts_with(b"\\u") {
            self.pos += 1;
            let second = self.code_unit()?;
            if (0xDC00..0xE000).contains(&second) {
                let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
        }
        self.pos = after_first;
        text.push(char::REPLACEMENT_CHARACTER);
        Ok(())
    }

    fn code_unit(&mut self) -> Result<u32> {
        self.pos += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(16)) else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            unit = unit << 4 | digit;
            self.pos += 1;
        }
        Ok(unit)
    }
}

/// Parses a number that has neither a point nor an exponent and fits an `int64`.
pub(crate) fn integer(text: &str) -> Option<i64> {
    if text.contains(['.', 'e', 'E']) { None } else { text.parse().ok() }
}

/// Quotes a byte as a character of Latin-1. Counterpart: `quoteChar` of `encoding/json`.
fn quote_char(byte: u8) -> String {
    quote_rune(char::from(byte))
}
