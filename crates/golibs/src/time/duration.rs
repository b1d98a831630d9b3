//! Durations in nanoseconds: parses `1h2m3.5s`, prints and rounds. Counterpart: `time.Duration`.

use std::fmt;

use super::DurationError;
use super::error::quote;

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub i64);

const SECOND: i64 = 1_000_000_000;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The magnitude of the most negative duration.
const LIMIT: u64 = 1 << 63;

impl Duration {
    /// Returns a duration of this many seconds, which wraps beyond about 292 years, as in Go.
    pub fn from_seconds_wrapping(seconds: i64) -> Duration {
        Duration(seconds.wrapping_mul(SECOND))
    }

    /// Parses numbers with units, such as `-1.5h` or `1h15m`. Counterpart: `time.ParseDuration`.
    ///
    /// # Errors
    /// The text is malformed, or the duration exceeds 64 bits of nanoseconds.
    ///
    /// ```
    /// use golibs::time::Duration;
    ///
    /// assert_eq!(Duration::parse(b"1h2m3.5s")?.to_string(), "1h2m3.5s");
    /// assert!(Duration::parse(b"1d").is_err());
    /// # Ok::<(), golibs::time::DurationError>(())
    /// ```
    pub fn parse(text: &[u8]) -> Result<Duration, DurationError> {
        let invalid = || DurationError::Invalid(quote(text));
        let negative = text.first() == Some(&b'-');
        let mut rest = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
        if rest == b"0" {
            return Ok(Duration(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0u64;
        while !rest.is_empty() {
            let (term, after) = parse_term(rest, text)?;
            total = total.checked_add(term).filter(|t| *t <= LIMIT).ok_or_else(invalid)?;
            rest = after;
        }
        match (negative, i64::try_from(total)) {
            (false, Ok(n)) => Ok(Duration(n)),
            (false, Err(_)) => Err(invalid()),
            (true, _) => Ok(Duration((total as i64).wrapping_neg())),
        }
    }

    /// Returns the duration in hours, with a fraction.
    pub fn hours(self) -> f64 {
        self.parts(3600 * SECOND)
    }

    /// Returns the duration in minutes, with a fraction.
    pub fn minutes(self) -> f64 {
        self.parts(60 * SECOND)
    }

    /// Returns the duration in seconds, with a fraction.
    pub fn seconds(self) -> f64 {
        self.parts(SECOND)
    }

    /// Adds the whole units and the fraction of the rest, as Go does, so that the result agrees to the last bit.
    fn parts(self, unit: i64) -> f64 {
        (self.0 / unit) as f64 + (self.0 % unit) as f64 / unit as f64
    }

    /// Rounds towards zero to a multiple of the other duration, if that is positive.
    pub fn truncate(self, multiple: Duration) -> Duration {
        if multiple.0 <= 0 { self } else { Duration(self.0 - self.0 % multiple.0) }
    }

    /// Rounds to the nearest multiple of the other duration, half away from zero, if that duration is positive.
    pub fn round(self, multiple: Duration) -> Duration {
        if multiple.0 <= 0 {
            return self;
        }
        let rest = i128::from(self.0 % multiple.0);
        let step = i128::from(multiple.0);
        let toward_zero = i128::from(self.0) - rest;
        let rounded = if 2 * rest.abs() < step { toward_zero } else { toward_zero + step * rest.signum() };
        Duration(rounded.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// Returns the absolute value.
    pub fn abs(self) -> Duration {
        Duration(self.0.checked_abs().unwrap_or(i64::MAX))
    }
}

/// Splits off a number with its unit; returns its nanoseconds and the rest.
fn parse_term<'t>(text: &'t [u8], whole: &[u8]) -> Result<(u64, &'t [u8]), DurationError> {
    let invalid = || DurationError::Invalid(quote(whole));
    let (integer, mut rest) = text.split_at(digits(text));
    let value = leading_int(integer).ok_or_else(invalid)?;
    let mut fraction: &[u8] = b"";
    if let Some(after) = rest.strip_prefix(b".") {
        (fraction, rest) = after.split_at(digits(after));
    }
    if integer.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let length = rest.iter().position(|b| *b == b'.' || b.is_ascii_digit()).unwrap_or(rest.len());
    if length == 0 {
        return Err(DurationError::MissingUnit(quote(whole)));
    }
    let (name, rest) = rest.split_at(length);
    let unit = UNITS.iter().find(|(n, _)| n.as_bytes() == name).map(|(_, unit)| *unit);
    let unit = unit.ok_or_else(|| DurationError::UnknownUnit { unit: quote(name), duration: quote(whole) })?;
    let nanoseconds = value.checked_mul(unit).filter(|n| *n <= LIMIT).ok_or_else(invalid)?;
    let nanoseconds =
        nanoseconds.checked_add(fraction_of(fraction, unit)).filter(|n| *n <= LIMIT).ok_or_else(invalid)?;
    Ok((nanoseconds, rest))
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn leading_int(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |n, b| n.checked_mul(10)?.checked_add(u64::from(b - b'0')).filter(|n| *n <= LIMIT))
}

/// Scales the digits after the point. Ignores digits beyond 64 bits.
fn fraction_of(digits: &[u8], unit: u64) -> u64 {
    let (mut value, mut scale) = (0u64, 1.0);
    for digit in digits {
        if value > (LIMIT - 1) / 10 {
            break;
        }
        value = value * 10 + u64::from(digit - b'0');
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

impl From<std::time::Duration> for Duration {
    /// Converts a duration; one of more than about 292 years becomes the longest.
    fn from(duration: std::time::Duration) -> Duration {
        Duration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let n = self.0.unsigned_abs();
        match n {
            0 => write!(f, "0s"),
            1..1_000 => write!(f, "{sign}{n}ns"),
            1_000..1_000_000 => write!(f, "{sign}{}\u{b5}s", decimal(n, 3)),
            1_000_000..1_000_000_000 => write!(f, "{sign}{}ms", decimal(n, 6)),
            _ => {
                let seconds = n / 1_000_000_000;
                let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
                write!(f, "{sign}")?;
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if seconds >= 60 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", decimal(n % 60_000_000_000, 9))
            }
        }
    }
}

/// Formats the number with the point this many digits from the end, without trailing zeros.
fn decimal(n: u64, digits: usize) -> String {
    let power = 10u64.pow(digits as u32);
    let fraction = format!("{:0digits$}", n % power);
    match fraction.trim_end_matches('0') {
        "" => (n / power).to_string(),
        fraction => format!("{}.{fraction}", n / power),
    }
}
