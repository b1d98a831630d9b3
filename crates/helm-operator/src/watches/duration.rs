//! Parses Go's duration strings: `1m30s`, `1.5h`, `-2ms`, `0`.
//!
//! Counterpart: Go's `time.ParseDuration`. Rejects negative durations, because nothing here can wait for one.

use std::time::Duration;

/// The units and their nanoseconds; a name precedes its own prefixes.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The reason why a text is not a duration, or not a valid one. The messages are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    #[error("time: unknown unit {1:?} in duration {0:?}")]
    UnknownUnit(String, String),
    #[error("duration {0:?} must not be negative")]
    Negative(String),
}

/// Parses a Go duration string.
///
/// # Errors
/// Go's errors, and negative durations.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let nanos = sum(text, rest)?;
    match i64::try_from(nanos) {
        Err(_) => Err(invalid()),
        Ok(0) => Ok(Duration::ZERO),
        Ok(_) if negative => Err(DurationError::Negative(text.to_owned())),
        Ok(_) => Ok(Duration::from_nanos(nanos as u64)),
    }
}

/// Returns the nanoseconds of `1m30s`, saturating. At least one part is required.
fn sum(text: &str, mut rest: &str) -> Result<u128, DurationError> {
    let mut total = 0_u128;
    loop {
        let (nanos, after) = part(text, rest)?;
        total = total.saturating_add(nanos);
        if after.is_empty() {
            return Ok(total);
        }
        rest = after;
    }
}

/// Returns the nanoseconds of the first number with its unit, and the rest.
fn part<'a>(text: &str, rest: &'a str) -> Result<(u128, &'a str), DurationError> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, rest) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(DurationError::Invalid(text.to_owned()));
    }
    let (unit, rest) = rest.split_at(rest.find(is_number).unwrap_or(rest.len()));
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(DurationError::UnknownUnit(text.to_owned(), unit.to_owned()));
    };
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(u128::MAX) };
    Ok((whole.saturating_mul(u128::from(*scale)).saturating_add(part_of(fraction, *scale)), rest))
}

/// Returns the nanoseconds of a decimal `fraction` of one unit.
fn part_of(fraction: &str, scale: u64) -> u128 {
    let (mut nanos, mut place) = (0_u128, u128::from(scale));
    let mut remainder = 0_u128;
    let mut divisor = 1_u128;
    // Further digits are below a nanosecond.
    for digit in fraction.bytes().take(18) {
        divisor *= 10;
        remainder = remainder * 10 + u128::from(digit - b'0');
    }
    place = place.saturating_mul(remainder);
    nanos += place / divisor;
    nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let check =
            |text: &str, nanos: u64| assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        check("0", 0);
        check("0s", 0);
        check("-0", 0);
        check("+5s", 5_000_000_000);
        check("1m30s", 90_000_000_000);
        check("1h15m30.918273645s", 4_530_918_273_645);
        check("1.5h", 5_400_000_000_000);
        check(".5s", 500_000_000);
        check("1.s", 1_000_000_000);
        check("100ms", 100_000_000);
        check("3us", 3_000);
        check("3µs", 3_000);
        check("7ns", 7);
        check("0.3333333333333333333h", 1_199_999_999_999);
        check("9223372036854775807ns", 9_223_372_036_854_775_807);
    }

    #[test]
    fn input_that_go_rejects_is_rejected_with_its_message() {
        let check = |text: &str, expected: &str| {
            assert_eq!(parse_duration(text).map_err(|e| e.to_string()), Err(expected.to_owned()), "{text}");
        };
        check("", r#"time: invalid duration """#);
        check("-", r#"time: invalid duration "-""#);
        check("s", r#"time: invalid duration "s""#);
        check(".s", r#"time: invalid duration ".s""#);
        check("60", r#"time: missing unit in duration "60""#);
        check("1m30", r#"time: missing unit in duration "1m30""#);
        check("1d", r#"time: unknown unit "d" in duration "1d""#);
        check("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#);
        check(
            "99999999999999999999999999999999999999999999h",
            r#"time: invalid duration "99999999999999999999999999999999999999999999h""#,
        );
        check("-1s", r#"duration "-1s" must not be negative"#);
    }
}
