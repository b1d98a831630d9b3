//! Maps the case of single characters. Counterpart: Go's `unicode.ToUpper` and its relatives.
//!
//! Rust may map one character to several (`ß` to `SS`); Go then keeps the character. Only characters of Go's Unicode version are mapped.

use super::is_print;

/// Maps a character to upper case. Counterpart: `unicode.ToUpper`.
pub fn to_upper(c: char) -> char {
    match u32::from(c) {
        // Greek letters with an iota subscript, which Rust maps to two characters.
        code @ (0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => shifted(code + 8, c),
        code @ (0x1fb3 | 0x1fc3 | 0x1ff3) => shifted(code + 9, c),
        _ => known(c, single(c.to_uppercase(), c)),
    }
}

/// Maps a character to lower case. Counterpart: `unicode.ToLower`.
pub fn to_lower(c: char) -> char {
    if c == '\u{130}' { 'i' } else { known(c, single(c.to_lowercase(), c)) }
}

/// Maps a character to title case. Counterpart: `unicode.ToTitle`.
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
