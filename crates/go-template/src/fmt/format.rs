//! Formats one number, character or string with flags, width and precision. Counterpart: Go's `fmt/format.go`.

use golibs::strconv::{Charset, append_quoted, append_quoted_rune, can_backquote, format_float};
use golibs::unicode::is_print;
use golibs::utf8::{decode, runes};

/// The flags, width and precision between `%` and the verb.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Flags {
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
    pub(super) minus: bool,
    pub(super) plus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    /// `%+v`, in which the plus does not request a sign.
    pub(super) plus_v: bool,
    /// `%#v`, which prints Go syntax.
    pub(super) sharp_v: bool,
}

impl Flags {
    /// Returns whether there is nothing between `%` and the verb.
    pub(super) fn is_default(&self) -> bool {
        *self == Flags::default()
    }

    fn charset(&self) -> Charset {
        if self.plus { Charset::Ascii } else { Charset::Unicode }
    }

    fn fill(&self, out: &mut Vec<u8>, count: usize, zero: bool) {
        let byte = if zero && !self.minus { b'0' } else { b' ' };
        out.extend(std::iter::repeat_n(byte, count));
    }

    fn pad_with(&self, out: &mut Vec<u8>, text: &[u8], zero: bool) {
        let missing = self.width.unwrap_or(0).saturating_sub(runes(text).count());
        if self.minus {
            out.extend_from_slice(text);
            self.fill(out, missing, zero);
        } else {
            self.fill(out, missing, zero);
            out.extend_from_slice(text);
        }
    }

    /// Appends the text, padded to the width.
    pub(super) fn pad(&self, out: &mut Vec<u8>, text: &[u8]) {
        match self.width {
            None | Some(0) => out.extend_from_slice(text),
            _ => self.pad_with(out, text, self.zero),
        }
    }

    /// Formats `%s`, whose precision counts characters.
    pub(super) fn string(&self, out: &mut Vec<u8>, text: &[u8]) {
        self.pad(out, self.truncate(text));
    }

    fn truncate<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        let Some(precision) = self.precision else { return text };
        let mut end = 0;
        for _ in 0..precision {
            let Some(rune) = decode(&text[end..]) else { break };
            end += rune.width();
        }
        &text[..end]
    }

    /// Formats `%q` of a string.
    pub(super) fn quoted(&self, out: &mut Vec<u8>, text: &[u8]) {
        let text = self.truncate(text);
        if self.sharp && can_backquote(text) {
            return self.pad(out, &[b"`", text, b"`"].concat());
        }
        if self.width.is_none() {
            return append_quoted(out, text, self.charset());
        }
        let mut quoted = Vec::new();
        append_quoted(&mut quoted, text, self.charset());
        self.pad(out, &quoted);
    }

    /// Formats `%x` or `%X` of a string: two digits per byte. The precision counts bytes.
    pub(super) fn hex_bytes(&self, out: &mut Vec<u8>, bytes: &[u8], verb: char) {
        let bytes = &bytes[..self.precision.unwrap_or(bytes.len()).min(bytes.len())];
        let upper = verb == 'X';
        let prefix = if upper { "0X" } else { "0x" };
        let mut text = String::new();
        for (i, byte) in bytes.iter().enumerate() {
            if i > 0 && self.space {
                text.push(' ');
            }
            if self.sharp && (i == 0 || self.space) {
                text.push_str(prefix);
            }
            text.push_str(&if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        }
        self.pad(out, text.as_bytes());
    }

    /// Formats `%c`.
    pub(super) fn character(&self, out: &mut Vec<u8>, code: u64) {
        self.pad(out, to_char(code).encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Formats `%q` of an integer.
    pub(super) fn quoted_character(&self, out: &mut Vec<u8>, code: u64) {
        let mut quoted = Vec::new();
        append_quoted_rune(&mut quoted, to_char(code), self.charset());
        self.pad(out, &quoted);
    }

    pub(super) fn unicode(&self, out: &mut Vec<u8>, code: u64) {
        let digits = self.precision.unwrap_or(0).max(4);
        let mut text = format!("U+{}", left_zeros(format!("{code:X}"), digits));
        let printable = u32::try_from(code).ok().and_then(char::from_u32).filter(|c| is_print(*c));
        if let Some(c) = printable.filter(|_| self.sharp) {
            text.push_str(&format!(" '{c}'"));
        }
        self.pad_with(out, text.as_bytes(), false);
    }

    /// Formats an integer in base 2, 8, 10 or 16. The verbs `O` and `X` select the prefix and upper-case digits.
    pub(super) fn integer(&self, out: &mut Vec<u8>, number: i128, base: u32, verb: char) {
        let (magnitude, negative) = (number.unsigned_abs(), number < 0);
        if self.precision == Some(0) && magnitude == 0 {
            return self.fill(out, self.width.unwrap_or(0), false);
        }
        let upper = verb == 'X';
        let digits = match base {
            2 => format!("{magnitude:b}"),
            8 => format!("{magnitude:o}"),
            16 if upper => format!("{magnitude:X}"),
            16 => format!("{magnitude:x}"),
            _ => magnitude.to_string(),
        };
        let digits = left_zeros(digits, self.least_digits(negative));
        let prefix = match base {
            2 if self.sharp => "0b",
            8 if self.sharp && !digits.starts_with('0') => "0",
            16 if self.sharp && upper => "0X",
            16 if self.sharp => "0x",
            _ => "",
        };
        let octal = if verb == 'O' { "0o" } else { "" };
        let sign = match (negative, self.plus, self.space) {
            (true, _, _) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        self.pad_with(out, format!("{sign}{octal}{prefix}{digits}").as_bytes(), false);
    }

    fn least_digits(&self, negative: bool) -> usize {
        match (self.precision, self.width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if self.zero && !self.minus => {
                width - usize::from(width > 0 && (negative || self.plus || self.space))
            }
            _ => 0,
        }
    }

    /// Formats a float with one of `strconv`'s verbs. `precision` is the verb's default.
    pub(super) fn float(&self, out: &mut Vec<u8>, value: f64, verb: u8, precision: Option<usize>) {
        let precision = self.precision.or(precision);
        let text = format_float(value, verb, precision);
        let (negative, body) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(&text)),
        };
        let sign = match (negative, self.plus, self.space) {
            (true, _, _) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        if !value.is_finite() {
            let sign = if value.is_infinite() && sign.is_empty() { "+" } else { sign };
            return self.pad_with(out, format!("{sign}{body}").as_bytes(), false);
        }
        let body = if self.sharp && verb != b'b' { with_point(body, verb, precision) } else { body.to_owned() };
        let length = sign.len() + body.len();
        if self.zero && !self.minus && !sign.is_empty() {
            out.extend_from_slice(sign.as_bytes());
            self.fill(out, self.width.unwrap_or(0).saturating_sub(length), true);
            return out.extend_from_slice(body.as_bytes());
        }
        self.pad(out, format!("{sign}{body}").as_bytes());
    }
}

/// Adds what `#` asks for with a verb such as `%g`: a decimal point, and trailing zeros up to the precision.
fn with_point(body: &str, verb: u8, precision: Option<usize>) -> String {
    let marks: &[char] = if matches!(verb, b'x' | b'X') { &['p', 'P'] } else { &['e', 'E'] };
    let (number, tail) = body.split_at(body.find(marks).unwrap_or(body.len()));
    let wanted = if matches!(verb, b'g' | b'G' | b'x') { precision.unwrap_or(6) } else { 0 };
    let significant = number.bytes().skip_while(|b| matches!(b, b'0' | b'.')).filter(|b| *b != b'.').count();
    let has_point = number.contains('.');
    let lone_zero = usize::from(!has_point && number == "0");
    let missing = wanted.saturating_sub(significant + lone_zero);
    let point = if has_point { "" } else { "." };
    format!("{number}{point}{}{tail}", "0".repeat(missing))
}

fn left_zeros(digits: String, least: usize) -> String {
    let missing = least.saturating_sub(digits.len());
    if missing == 0 { digits } else { "0".repeat(missing) + &digits }
}

fn to_char(code: u64) -> char {
    u32::try_from(code).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}
