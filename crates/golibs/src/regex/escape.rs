//! Parses escaped characters: `\n`, `\x41`, `\x{1F600}`, `\123`, `\.`.

use super::Error;

const MAX_RUNE: u32 = 0x10_FFFF;

/// Parses the escape that the text starts with; returns its code point and the rest. The code point may be a surrogate, which matches nothing.
pub(super) fn parse(text: &str) -> Result<(u32, &str), Error> {
    let mut chars = text[1..].chars();
    let Some(c) = chars.next() else { return Err(Error::new("trailing backslash at end of expression", "")) };
    let rest = chars.as_str();
    let known = match c {
        '0' | '1'..='7' => octal(c, rest),
        'x' => return hexadecimal(text, rest),
        'a' => Some((7, rest)),
        'f' => Some((12, rest)),
        'n' => Some((10, rest)),
        'r' => Some((13, rest)),
        't' => Some((9, rest)),
        'v' => Some((11, rest)),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some((u32::from(c), rest)),
        _ => None,
    };
    known.ok_or_else(|| invalid(text, rest))
}

/// Parses up to three octal digits. A single digit other than `0` would be a backreference, which Go does not support.
fn octal(first: char, rest: &str) -> Option<(u32, &str)> {
    let more = rest.bytes().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
    if first != '0' && more == 0 {
        return None;
    }
    let digits = |s: &str| s.bytes().fold(0, |n, b| n * 8 + u32::from(b - b'0'));
    let value = digits(first.encode_utf8(&mut [0; 4])) * 8u32.pow(more as u32) + digits(&rest[..more]);
    Some((value, &rest[more..]))
}

/// Parses `\x41` or `\x{41}`; `rest` starts after the `x`.
fn hexadecimal<'t>(text: &'t str, rest: &'t str) -> Result<(u32, &'t str), Error> {
    let mut chars = rest.chars();
    match chars.next() {
        None => Err(invalid(text, rest)),
        Some('{') => braced(text, chars.as_str()),
        Some(high) => {
            let low = chars.next().ok_or_else(|| invalid(text, ""))?;
            match (high.to_digit(16), low.to_digit(16)) {
                (Some(high), Some(low)) => Ok((high * 16 + low, chars.as_str())),
                _ => Err(invalid(text, chars.as_str())),
            }
        }
    }
}

fn braced<'t>(text: &'t str, rest: &'t str) -> Result<(u32, &'t str), Error> {
    let mut value = None;
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        if c == '}' {
            return value.map(|v| (v, chars.as_str())).ok_or_else(|| invalid(text, chars.as_str()));
        }
        let next = c.to_digit(16).map(|digit| value.unwrap_or(0) * 16 + digit);
        value = Some(next.filter(|v| *v <= MAX_RUNE).ok_or_else(|| invalid(text, chars.as_str()))?);
    }
    Err(invalid(text, ""))
}

/// Creates an error for the part of `text` before `rest`.
fn invalid(text: &str, rest: &str) -> Error {
    Error::new("invalid escape sequence", &text[..text.len() - rest.len()])
}
