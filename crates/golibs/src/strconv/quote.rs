//! Strings and characters in quotes, as Go source would have them. Counterpart: Go's `strconv.Quote` and its relatives.

use crate::unicode::printable::is_print;

/// What stands between the quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Everything that Go prints.
    Unicode,
    /// Everything but ASCII is escaped.
    Ascii,
}

/// One character of a Go string.
pub enum Rune {
    /// A character and its length in bytes.
    Char(char, usize),
    /// A byte that is no part of valid UTF-8.
    Invalid(u8),
}

impl Rune {
    /// The character; U+FFFD for what is none, as Go decodes it.
    pub fn to_char(&self) -> char {
        match self {
            Rune::Char(c, _) => *c,
            Rune::Invalid(_) => char::REPLACEMENT_CHARACTER,
        }
    }

    /// How many bytes it takes.
    pub fn width(&self) -> usize {
        match self {
            Rune::Char(_, width) => *width,
            Rune::Invalid(_) => 1,
        }
    }
}

/// The first character of the bytes; `None` at the end. Each byte that is not UTF-8 stands alone, as in Go.
pub fn first_rune(bytes: &[u8]) -> Option<Rune> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some(Rune::Char(char::from(first), 1));
    }
    let valid = |n: usize| bytes.get(..n).and_then(|b| std::str::from_utf8(b).ok()).and_then(|s| s.chars().next());
    (2..=4).find_map(|n| valid(n).map(|c| Rune::Char(c, n))).or(Some(Rune::Invalid(first)))
}

/// The characters of the bytes.
pub fn runes(bytes: &[u8]) -> impl Iterator<Item = Rune> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let rune = first_rune(rest)?;
        rest = &rest[rune.width()..];
        Some(rune)
    })
}

/// Go's `strconv.Quote` and `QuoteToASCII`.
pub fn quote(bytes: &[u8], charset: Charset) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 2);
    append_quoted(&mut out, bytes, charset);
    out
}

/// Appends what [`quote`] gives.
pub fn append_quoted(out: &mut Vec<u8>, bytes: &[u8], charset: Charset) {
    let plain = |b: &u8| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\');
    let mut rest = bytes;
    out.push(b'"');
    loop {
        let (run, special) = rest.split_at(rest.iter().position(|b| !plain(b)).unwrap_or(rest.len()));
        out.extend_from_slice(run);
        let length = match first_rune(special) {
            None => break,
            Some(Rune::Char(c, length)) => {
                escape(out, c, '"', charset);
                length
            }
            Some(Rune::Invalid(byte)) => {
                out.extend(format!("\\x{byte:02x}").bytes());
                1
            }
        };
        rest = &special[length..];
    }
    out.push(b'"');
}

/// Go's `strconv.QuoteRune` and `QuoteRuneToASCII`.
pub fn quote_rune(c: char, charset: Charset) -> Vec<u8> {
    let mut out = vec![b'\''];
    escape(&mut out, c, '\'', charset);
    out.push(b'\'');
    out
}

/// Whether the text can stand in backquotes on one line: Go's `strconv.CanBackquote`.
pub fn can_backquote(bytes: &[u8]) -> bool {
    runes(bytes).all(|rune| match rune {
        Rune::Invalid(_) => false,
        Rune::Char('\t', _) => true,
        Rune::Char(c, _) => c >= ' ' && !matches!(c, '`' | '\u{7f}' | '\u{feff}'),
    })
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
