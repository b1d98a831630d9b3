//! Parses integers. Counterpart: Go's `strconv/atoi.go`, for 64 bits.

use super::NumError;

/// Parses a signed integer in a base from 2 to 36. Base 0 accepts the prefixes `0x`, `0o`, `0b` and `0`, and underscores between digits, as in Go
/// source. Counterpart: `strconv.ParseInt(text, base, 64)`.
///
/// # Errors
/// [`NumError::Range`] beyond 64 bits, at the end that the sign indicates. As in Go, a number that is too large is out of range even if a character
/// that is not a digit follows.
///
/// ```
/// use golibs::strconv::{NumError, parse_int};
///
/// assert_eq!(parse_int(b"-0x1_F", 0), Ok(-31));
/// assert_eq!(parse_int(b"1_000", 10), Err(NumError::Syntax));
/// assert_eq!(parse_int(b"9223372036854775808", 10), Err(NumError::Range));
/// ```
pub fn parse_int(text: &[u8], base: u32) -> Result<i64, NumError> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let magnitude = parse_uint(digits, base)?;
    let number = if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
    number.ok_or(NumError::Range)
}

/// Parses a signed integer and returns what Go returns beside its error: the nearest integer if the number is out of range, 0 if the text is not a
/// number.
pub fn parse_int_or_nearest(text: &[u8], base: u32) -> i64 {
    match parse_int(text, base) {
        Ok(number) => number,
        Err(NumError::Syntax) => 0,
        Err(NumError::Range) if text.starts_with(b"-") => i64::MIN,
        Err(NumError::Range) => i64::MAX,
    }
}

/// Parses an unsigned integer, which must not have a sign. Counterpart: `strconv.ParseUint(text, base, 64)`.
///
/// # Errors
/// Fails like [`parse_int`].
pub fn parse_uint(text: &[u8], base: u32) -> Result<u64, NumError> {
    if text.is_empty() {
        return Err(NumError::Syntax);
    }
    let (radix, digits) = if base == 0 { split_prefix(text) } else { (base, text) };
    let (mut number, mut has_underscores) = (0u64, false);
    for byte in digits {
        if *byte == b'_' && base == 0 {
            has_underscores = true;
            continue;
        }
        let digit = char::from(*byte).to_digit(radix).ok_or(NumError::Syntax)?;
        let shifted = number.checked_mul(u64::from(radix)).and_then(|n| n.checked_add(u64::from(digit)));
        number = shifted.ok_or(NumError::Range)?;
    }
    if has_underscores && !underscores_fit(text) {
        return Err(NumError::Syntax);
    }
    Ok(number)
}

/// Returns the base that a literal's prefix denotes, and the digits after it.
fn split_prefix(text: &[u8]) -> (u32, &[u8]) {
    match text {
        [b'0', b'x' | b'X', digits @ ..] if !digits.is_empty() => (16, digits),
        [b'0', b'o' | b'O', digits @ ..] if !digits.is_empty() => (8, digits),
        [b'0', b'b' | b'B', digits @ ..] if !digits.is_empty() => (2, digits),
        [b'0', digits @ ..] => (8, digits),
        _ => (10, text),
    }
}

/// Returns whether each underscore follows a digit or a base prefix, and precedes a digit. The text has no sign.
pub(super) fn underscores_fit(text: &[u8]) -> bool {
    let is_hex = matches!(text, [b'0', b'x' | b'X', ..]);
    let has_prefix = is_hex || matches!(text, [b'0', b'b' | b'B' | b'o' | b'O', ..]);
    let (mut after_digit, mut after_underscore) = (has_prefix, false);
    for byte in &text[if has_prefix { 2 } else { 0 }..] {
        let is_digit = byte.is_ascii_digit() || is_hex && byte.is_ascii_hexdigit();
        let is_underscore = *byte == b'_';
        if is_underscore && !after_digit || after_underscore && !is_digit {
            return false;
        }
        (after_digit, after_underscore) = (is_digit, is_underscore);
    }
    !after_underscore
}
