//! Any value as a number or text, by the rules of the library that Sprig uses. Counterparts: `spf13/cast` and Sprig's `strval`.

use go_template::{Object, Str, Value, fmt};

/// Sprig's `toInt64` and `toInt`: 0 for what is no number.
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

/// Sprig's `toFloat64`: 0 for what is no number.
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

/// The number of a month or weekday: the only named types that the library knows.
pub(super) fn named_number(object: &dyn Object) -> Option<i64> {
    match object.data() {
        Value::Int(n, _) if matches!(object.type_name(), "time.Month" | "time.Weekday") => Some(n),
        _ => None,
    }
}

/// Go's conversion on amd64: whatever does not fit becomes the smallest integer.
pub(super) fn float_to_int(v: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&v) { v as i64 } else { i64::MIN }
}

/// `1.00` → `1`, as `spf13/cast` reads integers.
fn trim_zero_decimal(text: &[u8]) -> &[u8] {
    let zeros = text.iter().rev().take_while(|b| **b == b'0').count();
    let rest = &text[..text.len() - zeros];
    match rest.split_last() {
        Some((b'.', whole)) if zeros > 0 => whole,
        _ => text,
    }
}

/// Why a number could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParseIntError {
    /// It is no number.
    Syntax,
    /// It is beyond 64 bits, below or above zero.
    Range {
        /// Below.
        negative: bool,
    },
}

/// Go's `strconv.ParseInt` into 64 bits. Base 0 takes it from the prefix, and allows underscores.
pub(super) fn parse_int(text: &[u8], base: u32) -> Result<i64, ParseIntError> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let (radix, body) = if base == 0 { prefix(digits) } else { (base, digits) };
    if base == 0 && !underscores_fit(digits) {
        return Err(ParseIntError::Syntax);
    }
    let mut seen = false;
    let mut number: Option<u64> = Some(0);
    for byte in body.iter().filter(|b| base != 0 || **b != b'_') {
        let digit = char::from(*byte).to_digit(radix).ok_or(ParseIntError::Syntax)?;
        seen = true;
        number = number.and_then(|n| n.checked_mul(u64::from(radix))?.checked_add(u64::from(digit)));
    }
    if !seen && body.len() == digits.len() || body.is_empty() {
        return Err(ParseIntError::Syntax);
    }
    let range = ParseIntError::Range { negative };
    match (number, negative) {
        (Some(n), false) => i64::try_from(n).map_err(|_| range),
        (Some(n), true) => 0i64.checked_sub_unsigned(n).ok_or(range),
        (None, _) => Err(range),
    }
}

fn prefix(digits: &[u8]) -> (u32, &[u8]) {
    match digits {
        [b'0', b'x' | b'X', rest @ ..] if !rest.is_empty() => (16, rest),
        [b'0', b'b' | b'B', rest @ ..] if !rest.is_empty() => (2, rest),
        [b'0', b'o' | b'O', rest @ ..] if !rest.is_empty() => (8, rest),
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest),
        _ => (10, digits),
    }
}

/// Whether each underscore stands between two digits, or between a base prefix and a digit.
fn underscores_fit(digits: &[u8]) -> bool {
    let (mut last, rest) = match digits {
        [b'0', b'x' | b'X' | b'b' | b'B' | b'o' | b'O', rest @ ..] => (b'0', rest),
        _ => (b'^', digits),
    };
    let hex = matches!(digits, [b'0', b'x' | b'X', ..]);
    for byte in rest {
        let digit = byte.is_ascii_digit() || hex && byte.is_ascii_hexdigit();
        match (digit, byte) {
            (true, _) => last = b'0',
            (false, b'_') if last != b'0' => return false,
            (false, b'_') => last = b'_',
            _ if last == b'_' => return false,
            _ => last = b'!',
        }
    }
    last != b'_'
}

/// Go's `strconv.ParseFloat` into 64 bits; `None` for what is no number or out of range.
pub(super) fn parse_float(text: &[u8]) -> Option<f64> {
    let (sign, body) = match text.split_first() {
        Some((b'-', rest)) => (-1.0, rest),
        Some((b'+', rest)) => (1.0, rest),
        _ => (1.0, text),
    };
    let lower = body.to_ascii_lowercase();
    match lower.as_slice() {
        b"inf" | b"infinity" => return Some(sign * f64::INFINITY),
        b"nan" => return (body.len() == text.len()).then_some(f64::NAN),
        [b'0', b'x', ..] => return underscores_fit(&lower).then(|| hex_float(&lower[2..])).flatten().map(|v| sign * v),
        _ => {}
    }
    if lower.contains(&b'_') && !underscores_fit(&lower) {
        return None;
    }
    let digits: Vec<u8> = lower.into_iter().filter(|b| *b != b'_').collect();
    // What is left is what Rust reads too, but for its words and a second sign.
    let plain = digits.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-'));
    if !plain || matches!(digits.first(), None | Some(b'+' | b'-')) {
        return None;
    }
    let value: f64 = std::str::from_utf8(&digits).ok()?.parse().ok()?;
    value.is_finite().then_some(sign * value)
}

/// `1.8p3`, after the `0x`: the exponent is a must.
fn hex_float(text: &[u8]) -> Option<f64> {
    let split = text.iter().position(|b| *b == b'p')?;
    let exponent: i64 = std::str::from_utf8(&text[split + 1..]).ok()?.parse().ok()?;
    let (mut mantissa, mut scale, mut sticky, mut digits, mut fraction) = (0u64, 0i64, false, 0, false);
    for byte in text[..split].iter().filter(|b| **b != b'_') {
        if *byte == b'.' && !fraction {
            fraction = true;
            continue;
        }
        let digit = u64::from(char::from(*byte).to_digit(16)?);
        digits += 1;
        if mantissa >> 58 == 0 {
            mantissa = mantissa << 4 | digit;
            scale -= i64::from(fraction) * 4;
        } else {
            sticky |= digit != 0;
            scale += i64::from(!fraction) * 4;
        }
    }
    if digits == 0 {
        return None;
    }
    let total = exponent.saturating_add(scale).clamp(-5000, 5000) as i32;
    let value = ldexp((mantissa | u64::from(sticky)) as f64, total);
    value.is_finite().then_some(value)
}

/// Go's `math.Ldexp`, in steps that stay exact.
pub(super) fn ldexp(mut value: f64, mut exponent: i32) -> f64 {
    while exponent > 1000 {
        value *= 2f64.powi(1000);
        exponent -= 1000;
    }
    while exponent < -1000 {
        value *= 2f64.powi(-1000);
        exponent += 1000;
    }
    value * 2f64.powi(exponent)
}

/// Sprig's `strval`: text as it is, and everything else as `%v` prints it.
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

/// The items of a Go slice of any type; `None` for another kind.
pub(super) fn items(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::List(l) => Some(l.to_vec()),
        Value::Bytes(b) => {
            Some(b.iter().map(|v| Value::Uint(u64::from(*v), go_template::value::UintType::Uint8)).collect())
        }
        Value::Object(o) if o.kind() == go_template::Kind::Slice => items(&Object::data(o.as_ref())),
        _ => None,
    }
}
