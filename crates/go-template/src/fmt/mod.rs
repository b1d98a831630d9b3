//! How values become text: `print`, `println`, `printf` and every output of a template. Counterpart: Go's `fmt` and `strconv`.
//!
//! Leaves out `Formatter` and scanning. Addresses (`%p`) are a constant, since Go's differ with each run.

mod float;
mod format;
mod printable;
mod printer;
mod printf;
mod quote;
#[cfg(test)]
mod tests;

pub use float::{format_float, json_float};
pub use printable::is_print;
pub use printer::{MAX_DEPTH, MAX_OUTPUT};
pub use quote::{Charset, Rune, can_backquote, first_rune, quote, quote_rune, runes};

use crate::value::Value;
use printer::Printer;

/// Appends the value as `%v` prints it, which is how a template prints it too.
pub fn append_value(out: &mut Vec<u8>, value: &Value) {
    if let Value::String(s) = value {
        return out.extend_from_slice(s);
    }
    Printer::new(out).arg(value, 'v');
}

/// Go's `fmt.Sprint`: a space between two operands of which neither is a string.
pub fn sprint(args: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut after_string = true;
    for arg in args {
        let is_string = arg.kind() == crate::value::Kind::String;
        if !is_string && !after_string {
            out.push(b' ');
        }
        append_value(&mut out, arg);
        after_string = is_string;
    }
    out
}

/// Go's `fmt.Sprintln`: a space between operands, and a newline at the end.
pub fn sprintln(args: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        append_value(&mut out, arg);
    }
    out.push(b'\n');
    out
}

/// Go's `fmt.Sprintf`. Mistakes are noted in the text, such as `%!d(string=a)`.
pub fn sprintf(format: &[u8], args: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    printf::printf(&mut Printer::new(&mut out), format, args);
    out
}
