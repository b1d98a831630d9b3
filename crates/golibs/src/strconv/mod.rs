//! Literals between text and value: runes, quoted strings, numbers. Counterpart: the parts of Go's `strconv` and `unicode/utf8` that
//! the template parser calls.

pub mod float;
pub mod quote;

use crate::unicode::printable::is_print;

/// A rune as Go decodes it: bytes that are not UTF-8 give U+FFFD, one byte at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rune {
    /// The code point.
    pub code: u32,
    /// How many bytes it took.
    pub len: usize,
}

impl Rune {
    const REPLACEMENT: u32 = 0xFFFD;

    /// The character; U+FFFD for a code point that is none.
    pub fn to_char(self) -> char {
        char::from_u32(self.code).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Go's `%#U`.
    pub fn unicode(self) -> String {
        let c = self.to_char();
        match is_print(c) {
            true => format!("U+{:04X} '{c}'", self.code),
            false => format!("U+{:04X}", self.code),
        }
    }
}

/// The first rune; `None` if there is no byte.
#[inline]
pub fn decode_rune(text: &[u8]) -> Option<Rune> {
    let first = *text.first()?;
    if first.is_ascii() {
        return Some(Rune { code: u32::from(first), len: 1 });
    }
    decode_multibyte(text)
}

fn decode_multibyte(text: &[u8]) -> Option<Rune> {
    let found = (2..=text.len().min(4)).find_map(|len| decode_exactly(&text[..len]));
    Some(found.unwrap_or(Rune { code: Rune::REPLACEMENT, len: 1 }))
}

/// The last rune; `None` if there is no byte.
pub fn decode_last_rune(text: &[u8]) -> Option<Rune> {
    let last = *text.last()?;
    if last.is_ascii() {
        return Some(Rune { code: u32::from(last), len: 1 });
    }
    let found = (2..=text.len().min(4)).find_map(|len| decode_exactly(&text[text.len() - len..]));
    Some(found.unwrap_or(Rune { code: Rune::REPLACEMENT, len: 1 }))
}

fn decode_exactly(bytes: &[u8]) -> Option<Rune> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut chars = text.chars();
    let c = chars.next()?;
    chars.next().is_none().then_some(Rune { code: u32::from(c), len: bytes.len() })
}

/// Go's `strconv.Quote`.
pub fn quote(text: &[u8]) -> String {
    String::from_utf8_lossy(&quote::quote(text, quote::Charset::Unicode)).into_owned()
}

/// Go's `strconv.Unquote` for a token in double or back quotes; `None` is its `ErrSyntax`.
pub fn unquote(token: &[u8]) -> Option<Vec<u8>> {
    match token {
        [b'`', inner @ .., b'`'] => Some(inner.iter().copied().filter(|b| *b != b'\r').collect()),
        [b'"', inner @ .., b'"'] => unquote_inner(inner),
        _ => None,
    }
}

fn unquote_inner(mut inner: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(inner.len());
    while !inner.is_empty() {
        let (value, tail) = unquote_char(inner, b'"')?;
        match value {
            Unquoted::Byte(b) => out.push(b),
            Unquoted::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        inner = tail;
    }
    Some(out)
}

/// One character of a literal: `\x` and octal escapes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unquoted {
    /// From a `\\x` or octal escape.
    Byte(u8),
    /// Any other character.
    Char(char),
}

impl Unquoted {
    /// The byte's or the character's number.
    pub fn code(self) -> u32 {
        match self {
            Unquoted::Byte(b) => u32::from(b),
            Unquoted::Char(c) => u32::from(c),
        }
    }
}

/// Go's `strconv.UnquoteChar`: the first character of a literal's inside and the rest; `None` is `ErrSyntax`.
pub fn unquote_char(text: &[u8], quote: u8) -> Option<(Unquoted, &[u8])> {
    match text {
        [] => None,
        [c, ..] if *c == quote => None,
        [b'\\', escape, rest @ ..] => unquote_escape(*escape, rest, quote),
        [b'\\'] => None,
        _ => {
            let rune = decode_rune(text)?;
            Some((Unquoted::Char(rune.to_char()), &text[rune.len..]))
        }
    }
}

fn unquote_escape(escape: u8, rest: &[u8], quote: u8) -> Option<(Unquoted, &[u8])> {
    let byte = match escape {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' => b'\\',
        b'\'' | b'"' if escape == quote => escape,
        b'x' => {
            let (value, rest) = digits(rest, 2, 16)?;
            return Some((Unquoted::Byte(u8::try_from(value).ok()?), rest));
        }
        b'u' | b'U' => {
            let (value, rest) = digits(rest, if escape == b'u' { 4 } else { 8 }, 16)?;
            return Some((Unquoted::Char(char::from_u32(value)?), rest));
        }
        b'0'..=b'7' => {
            let (value, rest) = digits(rest, 2, 8)?;
            let value = u32::from(escape - b'0') * 64 + value;
            return Some((Unquoted::Byte(u8::try_from(value).ok()?), rest));
        }
        _ => return None,
    };
    Some((Unquoted::Byte(byte), rest))
}

fn digits(text: &[u8], count: usize, radix: u32) -> Option<(u32, &[u8])> {
    let (head, rest) = text.split_at_checked(count)?;
    let mut value = 0u32;
    for b in head {
        value = value.checked_mul(radix)?.checked_add(char::from(*b).to_digit(radix)?)?;
    }
    Some((value, rest))
}

/// Go's `strconv.ParseUint` with base 0.
pub fn parse_uint(text: &str) -> Option<u64> {
    let (radix, number) = match text.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &text[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &text[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &text[2..]),
        [b'0', _, ..] => (8, &text[1..]),
        _ => (10, text),
    };
    let plain = without_underscores(text, number)?;
    if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(&plain, radix).ok()
}

/// Go's `strconv.ParseInt` with base 0.
pub fn parse_int(text: &str) -> Option<i64> {
    if let Some(number) = text.strip_prefix('-') {
        let value = parse_uint(number)?;
        return (value <= 1 << 63).then(|| (value as i64).wrapping_neg());
    }
    i64::try_from(parse_uint(text.strip_prefix('+').unwrap_or(text))?).ok()
}

/// Go's `strconv.ParseFloat` for what a number token may hold; out of range is `None`, as an error there.
pub fn parse_float(text: &str) -> Option<f64> {
    let plain = without_underscores(text, text)?;
    let (negative, number) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, &plain[..]),
    };
    let value = match number.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => parse_hex_float(&number[2..])?,
        [b'0'..=b'9' | b'.', ..] => number.parse::<f64>().ok()?,
        _ => return None,
    };
    value.is_finite().then_some(if negative { -value } else { value })
}

fn parse_hex_float(number: &str) -> Option<f64> {
    let (mantissa, exponent) = number.split_once(['p', 'P'])?;
    let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if exponent_digits.is_empty() || !exponent_digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let exponent = exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { -100_000 } else { 100_000 });
    let (bits, shift) = hex_mantissa(mantissa)?;
    Some(scale(bits as f64, exponent.clamp(-100_000, 100_000) + shift))
}

/// The mantissa's first bits, the lowest of them set if any was cut off, and the power of two that they lack.
fn hex_mantissa(mantissa: &str) -> Option<(u64, i64)> {
    let (mut bits, mut shift, mut dot, mut any) = (0u64, 0i64, false, false);
    for c in mantissa.chars() {
        if c == '.' {
            if dot {
                return None;
            }
            dot = true;
            continue;
        }
        let digit = u64::from(c.to_digit(16)?);
        any = true;
        if bits >> 60 == 0 {
            bits = bits << 4 | digit;
            shift -= if dot { 4 } else { 0 };
        } else {
            bits |= u64::from(digit != 0);
            shift += if dot { 0 } else { 4 };
        }
    }
    any.then_some((bits, shift))
}

/// `value * 2^exponent`.
fn scale(mut value: f64, mut exponent: i64) -> f64 {
    while exponent > 1000 && value.is_finite() && value != 0.0 {
        value *= 2f64.powi(1000);
        exponent -= 1000;
    }
    while exponent < -1000 && value != 0.0 {
        value *= 2f64.powi(-1000);
        exponent += 1000;
    }
    if value == 0.0 { value } else { value * 2f64.powi(exponent as i32) }
}

/// The number without its underscores; `None` if one of them, seen in the whole text, is where Go allows none.
fn without_underscores(text: &str, number: &str) -> Option<String> {
    if text.contains('_') && !underscore_ok(text) {
        return None;
    }
    Some(number.chars().filter(|c| *c != '_').collect())
}

/// Whether each underscore is between digits or after a base prefix.
fn underscore_ok(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text).as_bytes();
    let prefixed = matches!(text, [b'0', b'b' | b'B' | b'o' | b'O' | b'x' | b'X', ..]);
    let hex = matches!(text, [b'0', b'x' | b'X', ..]);
    let (mut after_digit, mut after_underscore) = (prefixed, false);
    for b in &text[if prefixed { 2 } else { 0 }..] {
        let digit = b.is_ascii_digit() || hex && b.is_ascii_hexdigit();
        if *b == b'_' && !after_digit || *b != b'_' && !digit && after_underscore {
            return false;
        }
        (after_digit, after_underscore) = (digit, *b == b'_');
    }
    !after_underscore
}
