//! Interprets the format string of `printf`: verbs, flags, `*`, argument indexes, and Go's error markers. Counterpart: `doPrintf` in Go's
//! `fmt/print.go`.

use super::format::Flags;
use super::printer::Printer;
use crate::value::Value;
use golibs::utf8::decode;

/// Maximum width or precision: Go's limit.
const MAX_SIZE: i64 = 1_000_000;

/// The position in the format and in the arguments.
struct Cursor<'a> {
    format: &'a [u8],
    at: usize,
    args: &'a [Value],
    next: usize,
    /// Whether a verb used an argument index, so that unused arguments are not an error.
    reordered: bool,
    /// Whether the index of the current verb is valid.
    good_index: bool,
    /// Whether the last item read was an index.
    after_index: bool,
}

/// Prints the arguments by the format string.
pub(super) fn printf(printer: &mut Printer<'_>, format: &[u8], args: &[Value]) {
    let mut cursor = Cursor { format, at: 0, args, next: 0, reordered: false, good_index: true, after_index: false };
    while cursor.literal(printer) {
        cursor.verb(printer);
    }
    if !cursor.reordered && cursor.next < args.len() {
        extra(printer, &args[cursor.next..]);
    }
}

fn extra(printer: &mut Printer<'_>, args: &[Value]) {
    printer.flags = Flags::default();
    printer.text("%!(EXTRA ");
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            printer.text(", ");
        }
        if !matches!(arg, Value::Nil) {
            printer.text(arg.type_name());
            printer.text("=");
        }
        printer.arg(arg, 'v');
    }
    printer.text(")");
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// Copies the text up to the next verb. Returns `false` at the end.
    fn literal(&mut self, printer: &mut Printer<'_>) -> bool {
        let rest = &self.format[self.at..];
        let length = memchr::memchr(b'%', rest).unwrap_or(rest.len());
        printer.bytes(&rest[..length]);
        self.at += length + 1;
        length < rest.len()
    }

    fn verb(&mut self, printer: &mut Printer<'_>) {
        self.good_index = true;
        self.after_index = false;
        if let Some(verb @ (b's' | b'v' | b'd' | b'q')) = self.peek() {
            printer.flags = Flags::default();
            self.at += 1;
            return self.print(printer, char::from(verb));
        }
        printer.flags = self.flags();
        self.index();
        self.width(printer);
        self.precision(printer);
        if !self.after_index {
            self.index();
        }
        let Some(rune) = self.format.get(self.at..).and_then(decode) else {
            return printer.text("%!(NOVERB)");
        };
        self.at += rune.width();
        self.print(printer, rune.to_char());
    }

    fn print(&mut self, printer: &mut Printer<'_>, verb: char) {
        if verb == '%' {
            return printer.text("%");
        }
        if !self.good_index {
            return printer.text(&format!("%!{verb}(BADINDEX)"));
        }
        let Some(arg) = self.args.get(self.next) else {
            return printer.text(&format!("%!{verb}(MISSING)"));
        };
        if matches!(verb, 'v' | 'w') {
            let flags = &mut printer.flags;
            flags.sharp_v = std::mem::take(&mut flags.sharp);
            flags.plus_v = std::mem::take(&mut flags.plus);
        }
        printer.arg(arg, verb);
        self.next += 1;
    }

    fn flags(&mut self) -> Flags {
        let mut flags = Flags::default();
        while let Some(byte) = self.peek() {
            match byte {
                b'#' => flags.sharp = true,
                b'0' => flags.zero = true,
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b' ' => flags.space = true,
                _ => break,
            }
            self.at += 1;
        }
        flags
    }

    fn width(&mut self, printer: &mut Printer<'_>) {
        if self.peek() != Some(b'*') {
            printer.flags.width = self.number(self.format.len());
            if self.after_index && printer.flags.width.is_some() {
                self.good_index = false;
            }
            return;
        }
        self.at += 1;
        self.after_index = false;
        let Some(width) = self.size_argument() else {
            return printer.text("%!(BADWIDTH)");
        };
        printer.flags.width = usize::try_from(width.unsigned_abs()).ok();
        if width < 0 {
            printer.flags.minus = true;
            printer.flags.zero = false;
        }
    }

    fn precision(&mut self, printer: &mut Printer<'_>) {
        if self.peek() != Some(b'.') || self.at + 1 >= self.format.len() {
            return;
        }
        self.at += 1;
        if self.after_index {
            self.good_index = false;
        }
        self.index();
        if self.peek() != Some(b'*') {
            printer.flags.precision = Some(self.number(self.format.len()).unwrap_or(0));
            return;
        }
        self.at += 1;
        self.after_index = false;
        printer.flags.precision = self.size_argument().and_then(|p| usize::try_from(p).ok());
        if printer.flags.precision.is_none() {
            printer.text("%!(BADPREC)");
        }
    }

    /// Consumes the argument of a `*`; returns it if it is an integer within the limit.
    fn size_argument(&mut self) -> Option<i64> {
        let arg = self.args.get(self.next)?;
        self.next += 1;
        let size = match arg {
            Value::Int(v, _) => *v,
            Value::Uint(v, _) => i64::try_from(*v).ok()?,
            _ => return None,
        };
        (-MAX_SIZE..=MAX_SIZE).contains(&size).then_some(size)
    }

    /// Reads a number before `end`. As in Go, for a number that is much too large, returns `None` and skips to `end`.
    fn number(&mut self, end: usize) -> Option<usize> {
        let mut number = None;
        while let Some(byte) = self.peek().filter(|b| b.is_ascii_digit() && self.at < end) {
            let so_far = number.unwrap_or(0);
            if so_far > MAX_SIZE as usize {
                self.at = end;
                return None;
            }
            number = Some(so_far * 10 + usize::from(byte - b'0'));
            self.at += 1;
        }
        number
    }

    /// Reads an argument index such as `[2]`, if there is one.
    fn index(&mut self) {
        self.after_index = false;
        if self.peek() != Some(b'[') {
            return;
        }
        self.reordered = true;
        let start = self.at;
        let close = self.format[start..].iter().position(|b| *b == b']');
        let Some(close) = close.map(|length| start + length).filter(|_| self.format.len() - start >= 3) else {
            self.at = start + 1;
            self.good_index = false;
            return;
        };
        self.at = start + 1;
        let number = self.number(close).filter(|_| self.at == close);
        self.at = close + 1;
        self.after_index = number.is_some();
        match number.and_then(|n| n.checked_sub(1)).filter(|n| *n < self.args.len()) {
            Some(next) => self.next = next,
            None => self.good_index = false,
        }
    }
}
