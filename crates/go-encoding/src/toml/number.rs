//! Parses numbers and dates.

use go_template::Value;
use go_template::time::time_value;
use golibs::strconv::{NumError, parse_float, parse_int};
use golibs::time::{Time, Zone};

use super::error::Problem;

const UNDERSCORES: &str = "underscores must be surrounded by digits";
const LEADING_ZERO: &str = "cannot have leading zeroes";

/// Parses an integer, which may have underscores and a base prefix.
pub(super) fn integer(text: &str) -> Result<Value, Problem> {
    let invalid = |reason| Problem::InvalidInteger { text: text.to_owned(), reason };
    if !underscores_ok(text) {
        return Err(invalid(UNDERSCORES));
    }
    if has_leading_zero(text) {
        return Err(invalid(LEADING_ZERO));
    }
    parse_int(text.as_bytes(), 0).map(Value::int64).map_err(|_| out_of_range(text, "int64"))
}

/// Parses a float, which may have underscores.
pub(super) fn float(text: &str) -> Result<Value, Problem> {
    let invalid = |reason| Problem::InvalidFloat { text: text.to_owned(), reason };
    let mut parts = text.split(['.', 'e', 'E']).filter(|part| !part.is_empty()).peekable();
    let leading_zero = parts.peek().is_some_and(|first| has_leading_zero(first));
    if !parts.all(underscores_ok) {
        return Err(invalid(UNDERSCORES));
    }
    if leading_zero {
        return Err(invalid(LEADING_ZERO));
    }
    if !periods_ok(text) {
        return Err(invalid("'.' must be followed by one or more digits"));
    }
    let plain = text.replace('_', "");
    match plain.trim_start_matches(['+', '-']) {
        "nan" => return Ok(Value::Float(f64::NAN)),
        "inf" => return Ok(Value::Float(if plain.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY })),
        _ => {}
    }
    match parse_float(plain.as_bytes()) {
        Ok(number) => Ok(Value::Float(number)),
        Err(NumError::Range) => Err(out_of_range(text, "float64")),
        Err(NumError::Syntax) => Err(Problem::InvalidFloatValue(text.to_owned())),
    }
}

fn out_of_range(text: &str, wanted: &'static str) -> Problem {
    Problem::OutOfRange { text: text.to_owned(), wanted }
}

fn has_leading_zero(text: &str) -> bool {
    match text.as_bytes() {
        [b'0', second, ..] => !matches!(second, b'b' | b'o' | b'x'),
        [b'+' | b'-', b'0', _, ..] => true,
        _ => false,
    }
}

fn underscores_ok(text: &str) -> bool {
    if matches!(text.trim_start_matches(['+', '-']), "nan" | "inf") {
        return true;
    }
    let mut after_digit = false;
    for c in text.chars() {
        if c == '_' && !after_digit {
            return false;
        }
        after_digit = c.is_ascii_hexdigit();
    }
    after_digit
}

fn periods_ok(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit_follows = |i: usize| bytes.get(i + 1).is_some_and(u8::is_ascii_digit);
    (0..bytes.len()).filter(|i| bytes[*i] == b'.').all(digit_follows)
}

/// Layouts of dates and times, with the zone's name for texts without an offset.
const LAYOUTS: [(&str, Option<&str>); 7] = [
    ("2006-01-02T15:04:05.999999999Z07:00", None),
    ("2006-01-02T15:04:05.999999999", Some("datetime-local")),
    ("2006-01-02", Some("date-local")),
    ("15:04:05.999999999", Some("time-local")),
    ("2006-01-02T15:04Z07:00", None),
    ("2006-01-02T15:04", Some("datetime-local")),
    ("15:04", Some("time-local")),
];

/// Parses a date, a time of day or both. Without an offset, the time is in the local zone.
pub(super) fn datetime(text: &str) -> Result<Value, Problem> {
    let text = text.replace('z', "Z").replace(['t', ' '], "T");
    for (layout, zone) in LAYOUTS {
        let Ok(time) = Time::parse(layout.as_bytes(), text.as_bytes()) else { continue };
        if lacks_zero(&text, layout) {
            break;
        }
        let (_, offset) = time.zone();
        return Ok(time_value(match zone {
            Some(name) => time.in_zone(Zone::Fixed(name.to_owned(), offset)),
            None => time,
        }));
    }
    Err(Problem::InvalidDatetime(text))
}

/// Returns whether there is one digit where two are required, which the layouts accept for hours.
fn lacks_zero(text: &str, layout: &str) -> bool {
    let fixed = layout.bytes().take_while(|b| *b != b'.' && *b != b'Z');
    fixed.zip(text.bytes()).any(|(expected, found)| !expected.is_ascii_digit() && expected != found)
}
