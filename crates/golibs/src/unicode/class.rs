//! Go's `unicode` package: letter classes and the one-to-one case mappings.
//!
//! Rust's own mappings may give several characters (`ß` → `SS`), where Go keeps the one. Both sides are limited to Unicode 15.0, which
//! is what Go knows and [`is_print`] holds.

use std::sync::LazyLock;

use super::printable::is_print;
use crate::strconv::quote::{Rune, runes};
use regex::Regex;

/// A general category of characters.
#[derive(Clone, Copy)]
pub enum Class {
    /// `unicode.IsLetter`.
    Letter,
    /// `unicode.IsUpper`.
    Upper,
    /// `unicode.IsLower`.
    Lower,
    /// `unicode.IsTitle`.
    Title,
    /// `unicode.IsDigit`.
    Digit,
    /// `unicode.IsNumber`.
    Number,
    /// `unicode.IsPunct`.
    Punctuation,
}

static CLASSES: LazyLock<[Option<Regex>; 7]> =
    LazyLock::new(|| ["L", "Lu", "Ll", "Lt", "Nd", "N", "P"].map(|name| Regex::new(&format!("\\p{{{name}}}")).ok()));

/// Whether the character is of the class.
pub fn is(class: Class, c: char) -> bool {
    if c.is_ascii() {
        return match class {
            Class::Letter => c.is_ascii_alphabetic(),
            Class::Upper => c.is_ascii_uppercase(),
            Class::Lower => c.is_ascii_lowercase(),
            Class::Title => false,
            Class::Digit | Class::Number => c.is_ascii_digit(),
            Class::Punctuation => c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c),
        };
    }
    let regex = &CLASSES[class as usize];
    is_print(c) && regex.as_ref().is_some_and(|r| r.is_match(c.encode_utf8(&mut [0; 4])))
}

/// Go's `unicode.IsSpace`.
pub fn is_space(c: char) -> bool {
    c.is_whitespace()
}

/// Go's `unicode.ToUpper`.
pub fn to_upper(c: char) -> char {
    match u32::from(c) {
        // Greek letters with iota subscript, which Rust maps to two characters.
        code @ (0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => shifted(code + 8, c),
        code @ (0x1fb3 | 0x1fc3 | 0x1ff3) => shifted(code + 9, c),
        _ => known(c, single(c.to_uppercase(), c)),
    }
}

/// Go's `unicode.ToLower`.
pub fn to_lower(c: char) -> char {
    if c == '\u{130}' { 'i' } else { known(c, single(c.to_lowercase(), c)) }
}

/// Go's `unicode.ToTitle`.
pub fn to_title(c: char) -> char {
    match u32::from(c) {
        0x1c4..=0x1c6 => '\u{1c5}',
        0x1c7..=0x1c9 => '\u{1c8}',
        0x1ca..=0x1cc => '\u{1cb}',
        0x1f1..=0x1f3 => '\u{1f2}',
        0x10d0..=0x10fa | 0x10fd..=0x10ff => c,
        _ => to_upper(c),
    }
}

fn shifted(code: u32, c: char) -> char {
    char::from_u32(code).unwrap_or(c)
}

fn single(mut mapped: impl Iterator<Item = char>, c: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

fn known(c: char, mapped: char) -> char {
    if is_print(c) && is_print(mapped) { mapped } else { c }
}

/// The characters as Go's `[]rune(s)` has them: U+FFFD for each invalid byte.
pub fn chars(bytes: &[u8]) -> impl Iterator<Item = char> {
    runes(bytes).map(|rune| match rune {
        Rune::Char(c, _) => c,
        Rune::Invalid(_) => char::REPLACEMENT_CHARACTER,
    })
}
