//! Durations: Sprig's `duration` and `durationRound`, and Helm's functions that convert and round durations.

use go_template::IntType;
use go_template::{FuncError, FuncMap, Str, Value};

use crate::cast::named_number;
use go_template::time::{duration_of, duration_value, time_of};
use golibs::strconv::{parse_float, parse_int_or_nearest, quote};
use golibs::time::{Duration, Time};

/// The reason why a value is not a duration, in Helm's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum DurationError {
    #[error("invalid duration")]
    Nil,
    #[error("empty duration")]
    Empty,
    #[error("unsupported duration type {0}")]
    Type(String),
    /// Holds the quoted text.
    #[error("could not parse duration {0}")]
    Syntax(String),
    #[error("invalid duration seconds: {0}")]
    NotFinite(String),
    #[error("duration seconds overflow: {0}")]
    Overflow(String),
}

pub(super) fn register(map: &mut FuncMap) {
    map.add("duration", |seconds: Value| Duration::from_seconds_wrapping(whole_seconds(&seconds)).to_string());
    map.add("durationRound", |duration: Value| rounded(&duration));
    map.add("mustToDuration", |v: Value| -> Result<Value, FuncError> {
        as_duration(&v).map(duration_value).map_err(|error| FuncError::new(error.to_string()))
    });
    map.add("durationSeconds", |v: Value| as_duration(&v).map_or(0.0, Duration::seconds));
    map.add("durationMinutes", |v: Value| as_duration(&v).map_or(0.0, Duration::minutes));
    map.add("durationHours", |v: Value| as_duration(&v).map_or(0.0, Duration::hours));
    map.add("durationDays", |v: Value| as_duration(&v).map_or(0.0, |d| d.hours() / 24.0));
    map.add("durationWeeks", |v: Value| as_duration(&v).map_or(0.0, |d| d.hours() / 24.0 / 7.0));
    map.add("durationMilliseconds", |v: Value| as_duration(&v).map_or(0, |d| d.0 / 1_000_000));
    map.add("durationMicroseconds", |v: Value| as_duration(&v).map_or(0, |d| d.0 / 1_000));
    map.add("durationNanoseconds", |v: Value| as_duration(&v).map_or(0, |d| d.0));
    map.add("durationRoundTo", |v: Value, multiple: Value| to_multiple(&v, &multiple, Duration::round));
    map.add("durationTruncateTo", |v: Value, multiple: Value| to_multiple(&v, &multiple, Duration::truncate));
}

/// Returns the argument of `duration`, a string or an `int64`, as seconds; anything else is 0.
fn whole_seconds(value: &Value) -> i64 {
    match value {
        Value::Int(n, IntType::Int64) => *n,
        Value::String(text) => parse_int_or_nearest(text, 10),
        _ => 0,
    }
}

/// Formats the duration in whole units of the largest unit that it exceeds.
fn rounded(value: &Value) -> String {
    let duration = match value {
        Value::String(text) => Duration::parse(text).unwrap_or(Duration(0)),
        Value::Int(n, IntType::Int64) => Duration(*n),
        other => time_of(other).map_or(Duration(0), |time| Time::now().since(&time)),
    };
    const HOUR: u64 = 3_600_000_000_000;
    let units = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (HOUR / 60, "m"),
        (HOUR / 3600, "s"),
    ];
    let length = duration.0.unsigned_abs();
    let unit = units.iter().find(|(unit, _)| length > *unit);
    unit.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", length / unit))
}

fn to_multiple(value: &Value, multiple: &Value, apply: fn(Duration, Duration) -> Duration) -> Value {
    let Ok(duration) = as_duration(value) else { return duration_value(Duration(0)) };
    duration_value(as_duration(multiple).map_or(duration, |multiple| apply(duration, multiple)))
}

/// Converts a duration, a text such as `1h`, or a number of seconds.
fn as_duration(value: &Value) -> Result<Duration, DurationError> {
    if let Some(duration) = duration_of(value) {
        return Ok(duration);
    }
    match value {
        Value::Nil => Err(DurationError::Nil),
        Value::String(text) => of_text(text),
        Value::Int(seconds, _) => from_seconds(*seconds, seconds),
        Value::Uint(seconds, _) => from_seconds(i64::try_from(*seconds).unwrap_or(i64::MAX), seconds),
        Value::Float(seconds) => from_float(*seconds),
        Value::Object(object) if let Some(seconds) = named_number(&**object) => from_seconds(seconds, &seconds),
        other => Err(DurationError::Type(other.type_name().to_owned())),
    }
}

fn of_text(text: &Str) -> Result<Duration, DurationError> {
    let all = text.to_text();
    let trimmed = all.trim();
    if trimmed.is_empty() {
        return Err(DurationError::Empty);
    }
    if let Ok(duration) = Duration::parse(trimmed.as_bytes()) {
        return Ok(duration);
    }
    match parse_float(trimmed.as_bytes()) {
        Ok(seconds) => from_float(seconds),
        Err(_) => Err(DurationError::Syntax(quote(text))),
    }
}

fn from_seconds(seconds: i64, shown: &dyn std::fmt::Display) -> Result<Duration, DurationError> {
    seconds.checked_mul(1_000_000_000).map(Duration).ok_or_else(|| DurationError::Overflow(shown.to_string()))
}

fn from_float(seconds: f64) -> Result<Duration, DurationError> {
    let shown = |n: f64| String::from_utf8_lossy(&go_template::fmt::sprint(&[Value::Float(n)])).into_owned();
    if !seconds.is_finite() {
        return Err(DurationError::NotFinite(shown(seconds)));
    }
    if seconds.abs() > i64::MAX as f64 / 1e9 {
        return Err(DurationError::Overflow(shown(seconds)));
    }
    Ok(Duration(wrapping_nanoseconds(seconds * 1e9)))
}

/// Converts a float like Go on amd64, where 2^63 becomes the smallest integer: the only value out of range that passes the overflow check.
fn wrapping_nanoseconds(nanoseconds: f64) -> i64 {
    if nanoseconds >= i64::MAX as f64 { i64::MIN } else { nanoseconds as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_convert_from_durations_text_and_seconds() {
        for (value, expected) in [
            (Value::from("2.5"), Ok("2.5s")),
            (Value::from(" 1h30m "), Ok("1h30m0s")),
            (Value::Float(1.5), Ok("1.5s")),
            (Value::int(90), Ok("1m30s")),
            (duration_value(Duration(5)), Ok("5ns")),
            (Value::from(""), Err("empty duration")),
            (Value::from("1d"), Err("could not parse duration \"1d\"")),
            (Value::from("9223372036.854775807"), Ok("-2562047h47m16.854775808s")),
            (Value::from("-9223372036.854775807"), Ok("-2562047h47m16.854775808s")),
            (Value::from("1e999"), Err("could not parse duration \"1e999\"")),
            (Value::from("9999999999999"), Err("duration seconds overflow: 9.999999999999e+12")),
            (Value::from("NaN"), Err("invalid duration seconds: NaN")),
            (Value::int(i64::MAX), Err("duration seconds overflow: 9223372036854775807")),
            (Value::list(vec![]), Err("unsupported duration type []interface {}")),
            (Value::Nil, Err("invalid duration")),
        ] {
            let ours = as_duration(&value).map(|d| d.to_string()).map_err(|error| error.to_string());
            assert_eq!(ours.as_deref().map_err(String::as_str), expected, "{value:?}");
        }
    }

    #[test]
    fn rounding_uses_the_largest_exceeded_unit() {
        for (text, expected) in
            [("2h10m5s", "2h"), ("24h", "24h"), ("25h", "1d"), ("800h", "1mo"), ("9000h", "1y"), ("1s", "0s")]
        {
            assert_eq!(rounded(&text.into()), expected, "{text}");
        }
    }

    #[test]
    fn seconds_parse_as_gos_floats() {
        for (text, expected) in [("1_0", "10s"), ("0x1p4", "16s"), ("1.5", "1.5s")] {
            assert_eq!(as_duration(&text.into()).map(|d| d.to_string()).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn seconds_wrap_as_in_go() {
        assert_eq!(
            Duration::from_seconds_wrapping(whole_seconds(&"9999999999".into())).to_string(),
            "-2346317h47m54.709551616s"
        );
        assert_eq!(whole_seconds(&"99999999999999999999".into()), i64::MAX);
        assert_eq!(whole_seconds(&"1h".into()), 0);
    }
}
