//! Converts values to numbers and text. Counterparts: `spf13/cast` and Sprig's `strval`.

use go_template::{Object, Str, Value, fmt};
use golibs::strconv::{parse_float, parse_int};

/// Converts a value to an integer. Anything that is not a number becomes 0. Counterpart: Sprig's `toInt64` and `toInt`.
pub(super) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(v, _) => *v,
        Value::Uint(v, _) => *v as i64,
        Value::Float(v) => float_to_int(*v),
        Value::String(s) => parse_int(trim_zero_decimal(s), 0).unwrap_or(0),
        Value::Bool(b) => i64::from(*b),
        Value::Object(object) => named_number(&**object).unwrap_or(0),
        _ => 0,
    }
}

/// Converts a value to a float. Anything that is not a number becomes 0. Counterpart: Sprig's `toFloat64`.
pub(super) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Int(v, _) => *v as f64,
        Value::Uint(v, _) => *v as f64,
        Value::Float(v) => *v,
        Value::String(s) => parse_float(s).unwrap_or(0.0),
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Object(object) => named_number(&**object).unwrap_or(0) as f64,
        _ => 0.0,
    }
}

/// Returns the number of a month or weekday, the only named types that `cast` supports.
pub(super) fn named_number(object: &dyn Object) -> Option<i64> {
    match object.data() {
        Value::Int(n, _) if matches!(object.type_name(), "time.Month" | "time.Weekday") => Some(n),
        _ => None,
    }
}

/// Converts a float like Go on amd64: numbers that do not fit become the smallest integer.
pub(super) fn float_to_int(v: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&v) { v as i64 } else { i64::MIN }
}

/// Removes a zero fraction, as `spf13/cast` does: `1.00` becomes `1`.
fn trim_zero_decimal(text: &[u8]) -> &[u8] {
    let zeros = text.iter().rev().take_while(|b| **b == b'0').count();
    let rest = &text[..text.len() - zeros];
    match rest.split_last() {
        Some((b'.', whole)) if zeros > 0 => whole,
        _ => text,
    }
}

/// Formats a value as a string: strings unchanged, others with `%v`. Counterpart: Sprig's `strval`.
pub(super) fn to_text(value: &Value) -> Str {
    match value {
        Value::String(s) | Value::Bytes(s) => s.clone(),
        Value::Object(o) => o.display().unwrap_or_else(|| printed(value)),
        _ => printed(value),
    }
}

fn printed(value: &Value) -> Str {
    let mut out = Vec::new();
    fmt::append_value(&mut out, value);
    out.into()
}

/// Returns the items of a Go slice of any type, or `None` for any other kind.
pub(super) fn items(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::List(l) => Some(l.to_vec()),
        Value::Bytes(b) => Some(b.iter().map(|v| Value::Uint(u64::from(*v), go_template::UintType::Uint8)).collect()),
        Value::Object(o) if o.kind() == go_template::Kind::Slice => items(&Object::data(o.as_ref())),
        _ => None,
    }
}
