//! Quotes text as in Go source. Counterpart: Go's `strconv.Quote` and its relatives.

use crate::unicode::is_print;
use crate::utf8::{Rune, decode, runes};

/// The characters that are printed without an escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Every character that Go considers printable.
    Unicode,
    /// Printable ASCII.
    Ascii,
}

/// Quotes the text. Invalid bytes become `\xff`. Counterpart: `strconv.Quote`.
///
/// ```
/// use golibs::strconv::quote;
///
/// assert_eq!(quote("a\"\n\u{ad}é"), r#""a\"\n\u00adé""#);
/// assert_eq!(quote(b"\xff"), r#""\xff""#);
/// ```
pub fn quote(text: impl AsRef<[u8]>) -> String {
    let text = text.as_ref();
    let mut out = Vec::with_capacity(text.len() + 2);
    append_quoted(&mut out, text, Charset::Unicode);
    into_string(out)
}

/// Appends the quoted text. Counterpart: `strconv.AppendQuote` and `AppendQuoteToASCII`.
pub fn append_quoted(out: &mut Vec<u8>, bytes: &[u8], charset: Charset) {
    let plain = |b: &u8| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\');
    let mut rest = bytes;
    out.push(b'"');
    loop {
        let (run, special) = rest.split_at(rest.iter().position(|b| !plain(b)).unwrap_or(rest.len()));
        out.extend_from_slice(run);
        let Some(rune) = decode(special) else { break };
        match rune {
            Rune::Char(c) => escape(out, c, '"', charset),
            Rune::Invalid(byte) => out.extend(format!("\\x{byte:02x}").bytes()),
        }
        rest = &special[rune.width()..];
    }
    out.push(b'"');
}

/// Quotes a character. Counterpart: `strconv.QuoteRune`.
pub fn quote_rune(c: char) -> String {
    let mut out = Vec::new();
    append_quoted_rune(&mut out, c, Charset::Unicode);
    into_string(out)
}

/// Appends the quoted character. Counterpart: `strconv.AppendQuoteRune` and `AppendQuoteRuneToASCII`.
pub fn append_quoted_rune(out: &mut Vec<u8>, c: char, charset: Charset) {
    out.push(b'\'');
    escape(out, c, '\'', charset);
    out.push(b'\'');
}

/// Returns whether the text, on one line, can be written between backquotes. Counterpart: `strconv.CanBackquote`.
pub fn can_backquote(text: &[u8]) -> bool {
    runes(text).all(|rune| match rune {
        Rune::Invalid(_) => false,
        Rune::Char('\t') => true,
        Rune::Char(c) => c >= ' ' && !matches!(c, '`' | '\u{7f}' | '\u{feff}'),
    })
}

fn into_string(quoted: Vec<u8>) -> String {
    String::from_utf8(quoted).expect("escapes and whole characters are UTF-8")
}

fn escape(out: &mut Vec<u8>, c: char, quote: char, charset: Charset) {
    if c == quote || c == '\\' {
        out.extend([b'\\', c as u8]);
        return;
    }
    if is_print(c) && (charset == Charset::Unicode || c.is_ascii()) {
        out.extend(c.encode_utf8(&mut [0; 4]).bytes());
        return;
    }
    let text = match c {
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c if u32::from(c) < 0x10000 => format!("\\u{:04x}", u32::from(c)),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    out.extend(text.bytes());
}
