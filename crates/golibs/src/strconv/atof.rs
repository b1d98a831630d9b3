//! Parses floating-point numbers. Counterpart: Go's `strconv/atof.go`, for 64 bits.

use super::NumError;
use super::atoi::underscores_fit;
use crate::math::ldexp;

/// Parses a decimal or hexadecimal number, an infinity or NaN, in upper or lower case and with underscores between digits. Counterpart:
/// `strconv.ParseFloat(text, 64)`.
///
/// # Errors
/// [`NumError::Range`] if the nearest number is infinite. A number too close to zero becomes 0.
///
/// ```
/// use golibs::strconv::{NumError, parse_float};
///
/// assert_eq!(parse_float(b"1_000.5"), Ok(1000.5));
/// assert_eq!(parse_float(b"-0x1.8p3"), Ok(-12.0));
/// assert_eq!(parse_float(b"1e999"), Err(NumError::Range));
/// ```
pub fn parse_float(text: &[u8]) -> Result<f64, NumError> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let magnitude = match unsigned {
        [b'i' | b'I' | b'n' | b'N', ..] => named(unsigned, unsigned.len() < text.len())?,
        _ if !unsigned.contains(&b'_') => finite(unsigned)?,
        _ if underscores_fit(unsigned) => {
            finite(&unsigned.iter().copied().filter(|b| *b != b'_').collect::<Vec<u8>>())?
        }
        _ => return Err(NumError::Syntax),
    };
    Ok(if negative { -magnitude } else { magnitude })
}

fn named(text: &[u8], has_sign: bool) -> Result<f64, NumError> {
    if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
        return Ok(f64::INFINITY);
    }
    if text.eq_ignore_ascii_case(b"nan") && !has_sign { Ok(f64::NAN) } else { Err(NumError::Syntax) }
}

fn finite(text: &[u8]) -> Result<f64, NumError> {
    let number = match text {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits)?,
        _ => decimal(text)?,
    };
    if number.is_finite() { Ok(number) } else { Err(NumError::Range) }
}

/// Parses a decimal number. Rust accepts what Go accepts, and also names and a second sign, which are ruled out first.
fn decimal(text: &[u8]) -> Result<f64, NumError> {
    if !matches!(text, [b'0'..=b'9' | b'.', ..]) {
        return Err(NumError::Syntax);
    }
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(NumError::Syntax)
}

/// Parses the part after `0x`, such as `1.8p3`. The exponent is mandatory.
fn hexadecimal(text: &[u8]) -> Result<f64, NumError> {
    let at = text.iter().position(|b| matches!(b, b'p' | b'P')).ok_or(NumError::Syntax)?;
    let (mantissa, shift) = hex_mantissa(&text[..at]).ok_or(NumError::Syntax)?;
    let exponent = hex_exponent(&text[at + 1..]).ok_or(NumError::Syntax)?;
    Ok(rounded(mantissa, exponent.saturating_add(shift)))
}

fn hex_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let magnitude = digits.iter().fold(0i64, |n, b| n.saturating_mul(10).saturating_add(i64::from(b - b'0')));
    is_number.then_some(if negative { -magnitude } else { magnitude })
}

/// Returns the leading bits of the mantissa and the power of two to scale them by. The lowest bit is set if any digit cut off was not zero.
fn hex_mantissa(text: &[u8]) -> Option<(u64, i64)> {
    let (mut bits, mut shift, mut in_fraction, mut has_digits) = (0u64, 0i64, false, false);
    for byte in text {
        if *byte == b'.' && !in_fraction {
            in_fraction = true;
            continue;
        }
        let digit = u64::from(char::from(*byte).to_digit(16)?);
        has_digits = true;
        if bits >> 60 == 0 {
            bits = bits << 4 | digit;
            shift -= if in_fraction { 4 } else { 0 };
        } else {
            bits |= u64::from(digit != 0);
            shift += if in_fraction { 0 } else { 4 };
        }
    }
    has_digits.then_some((bits, shift))
}

/// Returns the double nearest to `mantissa × 2^exponent`, and in a tie the one whose last bit is 0. Rounds the mantissa once, to the bits that the
/// result has: a number near zero has fewer than 53.
fn rounded(mantissa: u64, exponent: i64) -> f64 {
    const SMALLEST: i64 = -1074;
    if mantissa == 0 {
        return 0.0;
    }
    let spare = i64::from(53 - (64 - mantissa.leading_zeros() as i32));
    let last_bit = exponent.saturating_sub(spare).max(SMALLEST);
    let dropped = last_bit.saturating_sub(exponent);
    let mantissa = match dropped {
        ..=0 => return ldexp(mantissa as f64, exponent.min(4096) as i32),
        1..=64 => nearest_even(mantissa, dropped as u32),
        _ => return 0.0,
    };
    ldexp(mantissa as f64, last_bit.min(4096) as i32)
}

/// Returns `mantissa / 2^dropped`, rounded half to even.
fn nearest_even(mantissa: u64, dropped: u32) -> u64 {
    let wide = u128::from(mantissa);
    let (whole, rest, half) = (wide >> dropped, wide & ((1 << dropped) - 1), 1u128 << (dropped - 1));
    let up = rest > half || rest == half && whole & 1 == 1;
    (whole as u64) + u64::from(up)
}
