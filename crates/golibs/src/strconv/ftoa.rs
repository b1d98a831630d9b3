//! Formats floating-point numbers. Counterpart: Go's `strconv/ftoa.go`, for 64 bits.

/// Maximum number of digits of a double before or after the decimal point; all further digits are zeros.
const MAX_DIGITS: usize = 1100;

/// Decimal digits without trailing zeros, and the position of the decimal point: `0.d1d2… × 10^point`.
struct Decimal {
    digits: Vec<u8>,
    point: i32,
}

/// Formats a number with one of the verbs `b e E f g G x X`. Without a precision, prints the shortest text that parses to the same number.
/// Counterpart: `strconv.FormatFloat(value, verb, precision, 64)`.
pub fn format_float(value: f64, verb: u8, precision: Option<usize>) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let magnitude = value.abs();
    let text = match verb {
        b'b' => binary(magnitude),
        b'x' => hexadecimal(magnitude, precision),
        b'X' => hexadecimal(magnitude, precision).to_uppercase(),
        b'e' | b'E' => exponent(magnitude, precision, verb),
        b'f' => fixed(magnitude, precision),
        _ => general(magnitude, precision, if verb == b'G' { b'E' } else { b'e' }),
    };
    format!("{sign}{text}")
}

/// Formats a number as `encoding/json` does; returns `None` for NaN and the infinities, which JSON cannot represent.
pub fn json_float(value: f64) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        return Some(format_float(value, b'f', None));
    }
    let text = format_float(value, b'e', None);
    Some(text.replace("e-0", "e-"))
}

impl Decimal {
    fn shortest(value: f64) -> Decimal {
        let shortest = parse_scientific(&format!("{value:e}"));
        let length = shortest.digits.len().max(1);
        let nearest = format!("{value:.*e}", length - 1);
        // Among several shortest texts, Go uses the nearest to the number, and in a tie the one whose last digit is even.
        if nearest.parse() == Ok(value) { parse_scientific(&nearest) } else { shortest }
    }

    fn rounded(value: f64, digits: usize) -> Decimal {
        parse_scientific(&format!("{value:.*e}", digits.clamp(1, MAX_DIGITS) - 1))
    }

    fn exponent(&self) -> i32 {
        if self.digits.is_empty() { 0 } else { self.point - 1 }
    }
}

/// Parses text printed with Rust's `{:e}`, such as `1.25e-7`.
fn parse_scientific(text: &str) -> Decimal {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    let point = if digits.is_empty() { 0 } else { exponent.parse::<i32>().unwrap_or(0) + 1 };
    Decimal { digits, point }
}

fn exponent(value: f64, precision: Option<usize>, letter: u8) -> String {
    match precision {
        None => {
            let decimal = Decimal::shortest(value);
            let places = decimal.digits.len().saturating_sub(1);
            exponent_text(&decimal, places, letter)
        }
        Some(places) => exponent_text(&Decimal::rounded(value, places.saturating_add(1)), places, letter),
    }
}

fn exponent_text(decimal: &Decimal, places: usize, letter: u8) -> String {
    let mut text = String::new();
    let digit = |i: usize| decimal.digits.get(i).map_or('0', |d| char::from(*d));
    text.push(digit(0));
    if places > 0 {
        text.push('.');
        text.extend((1..=places).map(digit));
    }
    let exponent = decimal.exponent();
    let sign = if exponent < 0 { '-' } else { '+' };
    text.push_str(&format!("{}{sign}{:02}", char::from(letter), exponent.unsigned_abs()));
    text
}

fn fixed(value: f64, precision: Option<usize>) -> String {
    let Some(places) = precision else {
        let decimal = Decimal::shortest(value);
        let places = decimal.digits.len() as i32 - decimal.point;
        return fixed_text(&decimal, places.max(0) as usize);
    };
    // Rust limits the precision; all digits past the last one of a double are zeros.
    let exact = places.min(MAX_DIGITS);
    let mut text = format!("{value:.exact$}");
    text.extend(std::iter::repeat_n('0', places - exact));
    text
}

fn fixed_text(decimal: &Decimal, places: usize) -> String {
    let digit = |i: i32| usize::try_from(i).ok().and_then(|i| decimal.digits.get(i)).map_or('0', |d| char::from(*d));
    let mut text = String::new();
    if decimal.point > 0 {
        text.extend((0..decimal.point).map(digit));
    } else {
        text.push('0');
    }
    if places > 0 {
        text.push('.');
        text.extend((0..places as i32).map(|i| digit(decimal.point + i)));
    }
    text
}

fn general(value: f64, precision: Option<usize>, letter: u8) -> String {
    let decimal = match precision {
        None => Decimal::shortest(value),
        Some(p) => Decimal::rounded(value, p),
    };
    let length = decimal.digits.len() as i32;
    let mut threshold = precision.map_or(6, |p| p.clamp(1, MAX_DIGITS) as i32);
    if precision.is_some() && threshold > length && length >= decimal.point {
        threshold = length;
    }
    let exponent = decimal.point - 1;
    if exponent < -4 || exponent >= threshold {
        return exponent_text(&decimal, decimal.digits.len().saturating_sub(1), letter);
    }
    fixed_text(&decimal, (length - decimal.point).max(0) as usize)
}

/// Returns the 53-bit mantissa and the exponent of two.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match (bits >> 52) as i32 & 0x7ff {
        0 => (fraction, -1074),
        exponent => (fraction | 1 << 52, exponent - 1075),
    }
}

fn binary(value: f64) -> String {
    let (mantissa, exponent) = parts(value);
    format!("{mantissa}p{exponent:+}")
}

fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    let (mut mantissa, mut exponent) = parts(value);
    if mantissa == 0 {
        exponent = 0;
    } else {
        // One bit before the point, 60 after it.
        let shift = mantissa.leading_zeros() as i32 - 3;
        mantissa <<= shift;
        exponent += 60 - shift;
    }
    if let Some(places) = precision.filter(|p| *p < 15) {
        let shift = places * 4;
        let extra = (mantissa << shift) & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        if extra | (mantissa & 1) > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & (1 << 61) != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let mut text = format!("0x{}", mantissa >> 60);
    let mut digits = format!("{:015x}", mantissa & ((1 << 60) - 1));
    match precision {
        None => digits.truncate(digits.trim_end_matches('0').len()),
        Some(places) if places < digits.len() => digits.truncate(places),
        Some(places) => digits.extend(std::iter::repeat_n('0', places - digits.len())),
    }
    if !digits.is_empty() {
        text.push('.');
        text.push_str(&digits);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    text.push_str(&format!("p{sign}{:02}", exponent.unsigned_abs()));
    text
}
