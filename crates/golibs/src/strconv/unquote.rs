//! Parses quoted literals. Counterpart: Go's `strconv.Unquote` and `UnquoteChar`.

use crate::utf8::decode;

/// Returns the text of a literal in double or back quotes, or `None` if it is invalid. Counterpart: `strconv.Unquote`.
///
/// ```
/// use golibs::strconv::unquote;
///
/// assert_eq!(unquote(br#""a\tb\xff""#).as_deref(), Some(&b"a\tb\xff"[..]));
/// assert_eq!(unquote(b"'a'"), None);
/// ```
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

/// One character of a literal. Escapes such as `\xff` and `\377` denote single bytes, which need not be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unquoted {
    /// A `\x` or octal escape.
    Byte(u8),
    /// Any other character.
    Char(char),
}

impl Unquoted {
    /// Returns the value of the byte, or the character's code point.
    pub fn code(self) -> u32 {
        match self {
            Unquoted::Byte(b) => u32::from(b),
            Unquoted::Char(c) => u32::from(c),
        }
    }
}

/// Returns the first character of a literal's content, and the text after it, or `None` if it is invalid. `quote` is the literal's own quote, the
/// only one that may be escaped. Counterpart: `strconv.UnquoteChar`.
pub fn unquote_char(text: &[u8], quote: u8) -> Option<(Unquoted, &[u8])> {
    match text {
        [] => None,
        [c, ..] if *c == quote => None,
        [b'\\', escape, rest @ ..] => unquote_escape(*escape, rest, quote),
        [b'\\'] => None,
        _ => {
            let rune = decode(text)?;
            Some((Unquoted::Char(rune.to_char()), &text[rune.width()..]))
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
