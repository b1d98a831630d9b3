//! Resolves the text of scalars to values, following YAML 1.1 as yaml.v2 implements it.

use std::borrow::Cow;

use golibs::strconv::{NumError, parse_float, parse_int, parse_uint};

use super::timestamp::is_timestamp;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// A date, which yaml.v2 keeps as a string.
    Timestamp,
    /// A string, whose value is the scalar's text.
    Str,
}

impl Scalar {
    /// Returns the short form of the value's tag.
    pub(super) fn tag(self) -> &'static str {
        match self {
            Scalar::Null => "!!null",
            Scalar::Bool(_) => "!!bool",
            Scalar::Int(_) | Scalar::Uint(_) => "!!int",
            Scalar::Float(_) => "!!float",
            Scalar::Timestamp => "!!timestamp",
            Scalar::Str => "!!str",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dates {
    Recognize,
    Ignore,
}

pub(super) fn resolve(text: &str) -> Scalar {
    resolve_with(text, Dates::Recognize)
}

/// Resolves a plain scalar like [`resolve`], but recognizes dates only if asked to.
pub(super) fn resolve_with(text: &str, dates: Dates) -> Scalar {
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => resolve_word(text),
        Some(b'.') => resolve_point(text),
        Some(b'+' | b'-' | b'0'..=b'9') => resolve_number(text, dates),
        Some(_) => Scalar::Str,
    }
}

fn resolve_word(text: &str) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => Scalar::Str,
    }
}

fn resolve_point(text: &str) -> Scalar {
    match text {
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" => Scalar::Float(f64::INFINITY),
        _ if !text.contains('_') => parse_yaml_float(text).map_or(Scalar::Str, Scalar::Float),
        // Go parses this text including its underscores, which are valid only between digits.
        _ if !separates_digits(text.as_bytes()) => Scalar::Str,
        _ => parse_yaml_float(&text.replace('_', "")).map_or(Scalar::Str, Scalar::Float),
    }
}

fn separates_digits(text: &[u8]) -> bool {
    let digit = |i: Option<usize>| i.and_then(|i| text.get(i)).is_some_and(u8::is_ascii_digit);
    (0..text.len()).filter(|i| text[*i] == b'_').all(|i| digit(i.checked_sub(1)) && digit(Some(i + 1)))
}

fn resolve_number(text: &str, dates: Dates) -> Scalar {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if dates == Dates::Recognize && is_timestamp(text) {
        return Scalar::Timestamp;
    }
    let plain = if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) };
    if let Some(number) = parse_integer(plain.as_bytes()) {
        return number;
    }
    if let Some(number) = parse_yaml_float(&plain) {
        return Scalar::Float(number);
    }
    parse_odd_binary(&plain).unwrap_or(Scalar::Str)
}

/// Parses an integer like Go's `strconv.ParseInt(s, 0, 64)`, or else `ParseUint`.
fn parse_integer(text: &[u8]) -> Option<Scalar> {
    match parse_int(text, 0) {
        Ok(number) => Some(Scalar::Int(number)),
        Err(NumError::Range) => parse_uint(text, 0).ok().map(Scalar::Uint),
        Err(NumError::Syntax) => None,
    }
}

/// Parses a binary number. yaml.v2 parses the text after `0b` as a number again, so a sign may follow the prefix.
fn parse_odd_binary(text: &str) -> Option<Scalar> {
    let digits = text.strip_prefix("0b")?;
    i64::from_str_radix(digits, 2).ok().map(Scalar::Int)
}

/// Returns whether yaml.v3 reads this text, which is a string for yaml.v2, as an octal number of YAML 1.2: one with a sign after the prefix.
pub(super) fn is_odd_octal(text: &str) -> bool {
    text.starts_with("0o") && i64::from_str_radix(&text[2..].replace('_', ""), 8).is_ok()
}

/// Parses a float in YAML's syntax; returns `None` if it has another form or is too large.
fn parse_yaml_float(text: &str) -> Option<f64> {
    if is_float(text.as_bytes()) { parse_float(text.as_bytes()).ok() } else { None }
}

fn is_float(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"+").or(text.strip_prefix(b"-")).unwrap_or(text);
    let whole = count_digits(unsigned);
    let mut rest = &unsigned[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = count_digits(fraction);
        if whole == 0 && digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    } else if whole == 0 {
        return false;
    }
    let Some(exponent) = rest.strip_prefix(b"e").or(rest.strip_prefix(b"E")) else { return rest.is_empty() };
    let exponent = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
    !exponent.is_empty() && count_digits(exponent) == exponent.len()
}

fn count_digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// Returns whether the text is a base-60 number. yaml.v2 reads it as a string, but quotes it for other parsers.
pub(super) fn is_base60(text: &str) -> bool {
    let bytes = text.as_bytes();
    if !bytes.contains(&b':') {
        return false;
    }
    let unsigned = bytes.strip_prefix(b"+").or(bytes.strip_prefix(b"-")).unwrap_or(bytes);
    if !unsigned.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let mut parts = unsigned.split(|b| *b == b':');
    let digits = |part: &[u8]| part.iter().all(|b| b.is_ascii_digit() || *b == b'_');
    if !parts.next().is_some_and(digits) {
        return false;
    }
    let rest: Vec<&[u8]> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return false };
    let point = last.iter().position(|b| *b == b'.').unwrap_or(last.len());
    let fraction = last.get(point + 1..).unwrap_or(&[]);
    middle.iter().all(|part| is_sixtieth(part)) && is_sixtieth(&last[..point]) && digits(fraction)
}

fn is_sixtieth(part: &[u8]) -> bool {
    matches!(part, [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'])
}
