//! Prints values: `print`, `println`, `printf`, and all output of a template. Counterpart: Go's `fmt`.
//!
//! Leaves out `Formatter` and scanning. Addresses (`%p`) are a constant, because Go's differ from run to run.

mod format;
mod printer;
mod printf;
#[cfg(test)]
mod tests;

pub use printer::{MAX_DEPTH, MAX_OUTPUT};

use crate::value::Value;
use printer::Printer;

/// Appends the value as `%v` and actions print it.
pub fn append_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(s) => out.extend_from_slice(s),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        Value::Int(v, _) => append_integer(out, *v),
        Value::Float(v) if is_short_integer(*v) => append_integer(out, *v as i64),
        _ => Printer::new(out).arg(value, 'v'),
    }
}

/// Appends the number's decimal digits.
pub(crate) fn append_integer(out: &mut Vec<u8>, number: i64) {
    append_digits(out, i128::from(number));
}

/// Appends the decimal digits of a number of 64 bits, signed or not.
fn append_digits(out: &mut Vec<u8>, number: i128) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = number.unsigned_abs() as u64;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[start..]);
}

/// Returns whether `%v` prints the number like an integer. From a million up it prints an exponent, and negative zero has a sign.
fn is_short_integer(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < 1e6 && (number != 0.0 || number.is_sign_positive())
}

/// Formats the operands, with a space between two operands if neither is a string. Counterpart: `fmt.Sprint`.
pub fn sprint(args: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    append_all(&mut out, args);
    out
}

/// Appends the result of [`sprint`].
pub(crate) fn append_all(out: &mut Vec<u8>, args: &[Value]) {
    let mut after_string = true;
    let limit = out.len().saturating_add(MAX_OUTPUT);
    for arg in args {
        if out.len() > limit {
            return;
        }
        let is_string = arg.kind() == crate::value::Kind::String;
        if !is_string && !after_string {
            out.push(b' ');
        }
        append_value(out, arg);
        after_string = is_string;
    }
}

/// Formats the operands with spaces between them and a newline at the end. Counterpart: `fmt.Sprintln`.
pub(crate) fn sprintln(args: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        if out.len() > MAX_OUTPUT {
            break;
        }
        if i > 0 {
            out.push(b' ');
        }
        append_value(&mut out, arg);
    }
    out.push(b'\n');
    out
}

/// Formats the operands by a format string. Errors appear in the text, such as `%!d(string=a)`. Counterpart: `fmt.Sprintf`.
pub fn sprintf(format: &[u8], args: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    append_formatted(&mut out, format, args);
    out
}

/// Appends the result of [`sprintf`].
pub(crate) fn append_formatted(out: &mut Vec<u8>, format: &[u8], args: &[Value]) {
    printf::printf(&mut Printer::new(out), format, args);
}
