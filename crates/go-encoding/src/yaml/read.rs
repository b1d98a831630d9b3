//! The scanner's input: the position, line breaks, and characters that YAML does not allow.
//!
//! Counterpart: libyaml's reader in yaml.v2. It decodes 512 bytes at a time and reports an invalid character only then, so a syntax error in an
//! earlier piece takes precedence.

use std::borrow::Cow;

use super::error::Syntax;

/// Number of bytes that yaml.v2 decodes at once.
const CHUNK: usize = 512;

/// A position in the text, in characters, lines and columns, each counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) index: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// An invalid character, and the start of the piece of text that contains it.
#[derive(Clone, Copy, Debug)]
struct Fault {
    chunk: usize,
    problem: &'static str,
}

/// The text from the current position on. NULs follow its end.
pub(super) struct Reader<'a> {
    text: Cow<'a, str>,
    fault: Option<Fault>,
    pub(super) pos: usize,
    pub(super) mark: Mark,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a [u8]) -> Reader<'a> {
        let (text, bad) = decode(input);
        let fault = bad.map(|problem| Fault { chunk: chunk_start(&text), problem });
        Reader { text, fault, pos: 0, mark: Mark::default() }
    }

    /// Returns the byte at this offset from the current position.
    #[inline]
    pub(super) fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.pos + ahead).copied().unwrap_or(0)
    }

    /// Fails if one of the next `characters` is invalid.
    #[inline]
    pub(super) fn need(&self, characters: usize) -> Result<(), Syntax> {
        match &self.fault {
            None => Ok(()),
            Some(fault) => self.check_fault(*fault, characters),
        }
    }

    fn check_fault(&self, fault: Fault, characters: usize) -> Result<(), Syntax> {
        let readable = self.text.get(self.pos..fault.chunk).unwrap_or("");
        if readable.chars().take(characters).count() < characters {
            return Err(Syntax { line: 0, problem: fault.problem.into() });
        }
        Ok(())
    }

    /// Skips one character other than a line break.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.pos += self.width();
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Copies one character other than a line break.
    pub(super) fn read(&mut self, into: &mut String) {
        let end = self.pos + self.width();
        into.push_str(self.text.get(self.pos..end).unwrap_or(""));
        self.skip();
    }

    /// Copies the text up to this byte position. It must not contain line breaks.
    pub(super) fn read_to(&mut self, end: usize, into: &mut String) {
        let run = self.text.get(self.pos..end).unwrap_or("");
        let characters = run.as_bytes().iter().filter(|b| !is_continuation(**b)).count();
        into.push_str(run);
        self.pos = end;
        self.mark.index += characters;
        self.mark.column += characters;
    }

    /// Skips a line break, if there is one.
    pub(super) fn skip_line(&mut self) {
        if self.is_crlf() {
            self.next_line(2, 2);
        } else if self.is_break(0) {
            self.next_line(self.width(), 1);
        }
    }

    /// Copies a line break as `\n`, but keeps the Unicode separators.
    pub(super) fn read_line(&mut self, into: &mut String) {
        if self.is_crlf() {
            into.push('\n');
            self.next_line(2, 2);
            return;
        }
        match self.peek(0) {
            b'\r' | b'\n' | 0xC2 => into.push('\n'),
            _ => into.push_str(self.text.get(self.pos..self.pos + 3).unwrap_or("")),
        }
        self.next_line(self.width(), 1);
    }

    fn next_line(&mut self, bytes: usize, characters: usize) {
        self.pos += bytes;
        self.mark.index += characters;
        self.mark.column = 0;
        self.mark.line += 1;
    }

    fn width(&self) -> usize {
        match self.peek(0) {
            0..=0x7F => 1,
            0x80..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        }
    }

    fn is_crlf(&self) -> bool {
        self.peek(0) == b'\r' && self.peek(1) == b'\n'
    }

    /// Returns whether the position is the start of the text, at a byte order mark.
    pub(super) fn at_leading_bom(&self) -> bool {
        self.pos == 0 && self.text.starts_with('\u{FEFF}')
    }

    /// Returns whether a line break is at this offset.
    #[inline]
    pub(super) fn is_break(&self, ahead: usize) -> bool {
        match self.peek(ahead) {
            b'\r' | b'\n' => true,
            0xC2 => self.peek(ahead + 1) == 0x85,
            0xE2 => self.peek(ahead + 1) == 0x80 && matches!(self.peek(ahead + 2), 0xA8 | 0xA9),
            _ => false,
        }
    }

    /// Returns whether a line break or the end of the text is at this offset.
    #[inline]
    pub(super) fn is_breakz(&self, ahead: usize) -> bool {
        self.peek(ahead) == 0 || self.is_break(ahead)
    }

    /// Returns whether a space, a tab, a line break or the end of the text is at this offset.
    #[inline]
    pub(super) fn is_blankz(&self, ahead: usize) -> bool {
        is_blank(self.peek(ahead)) || self.is_breakz(ahead)
    }

    pub(super) fn is_end(&self) -> bool {
        self.peek(0) == 0
    }

    /// Returns whether a line that starts with `---` or `...` starts here.
    pub(super) fn at_document_indicator(&self) -> bool {
        self.mark.column == 0 && (self.at_indicator(b'-') || self.at_indicator(b'.'))
    }

    /// Returns whether this byte three times and a blank come next.
    pub(super) fn at_indicator(&self, byte: u8) -> bool {
        (0..3).all(|i| self.peek(i) == byte) && self.is_blankz(3)
    }
}

/// Returns whether this is a space or a tab.
#[inline]
pub(super) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Returns whether the names of anchors, tags and directives may contain this byte.
pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Returns the valid prefix of the text without its byte order mark, and the problem with the character after the prefix.
fn decode(input: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    match input {
        [0xFF, 0xFE, rest @ ..] => decode_utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => decode_utf16(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => decode_utf8(rest),
        _ => decode_utf8(input),
    }
}

fn decode_utf8(input: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    let (text, rest) = match std::str::from_utf8(input) {
        Ok(text) => (text, &[][..]),
        Err(e) => {
            let (valid, rest) = input.split_at(e.valid_up_to());
            (std::str::from_utf8(valid).unwrap_or(""), rest)
        }
    };
    match find_forbidden(text) {
        Some(at) => (Cow::Borrowed(&text[..at]), Some(FORBIDDEN)),
        None if rest.is_empty() => (Cow::Borrowed(text), None),
        None => (Cow::Borrowed(text), Some(utf8_problem(rest))),
    }
}

/// yaml.v2's error for a character that a stream must not contain.
pub(super) const FORBIDDEN: &str = "control characters are not allowed";

/// Finds the first character that a stream must not contain; returns its offset.
fn find_forbidden(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let suspicious =
        |b: &u8| (*b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r')) || *b == 0x7F || matches!(b, 0xC2 | 0xEF);
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(suspicious) {
        let at = from + at;
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let forbidden = match bytes[at] {
            0xC2 => next < 0xA0 && next != 0x85,
            0xEF => next == 0xBF && bytes.get(at + 2).is_some_and(|b| *b >= 0xBE),
            _ => true,
        };
        if forbidden {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Returns yaml.v2's error for invalid UTF-8.
fn utf8_problem(bytes: &[u8]) -> &'static str {
    let first = bytes[0];
    let width = match first {
        0..=0x7F => 1,
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    if bytes.len() < width {
        return "incomplete UTF-8 octet sequence";
    }
    if bytes[1..width].iter().any(|b| !is_continuation(*b)) {
        return "invalid trailing UTF-8 octet";
    }
    match (first, bytes[1]) {
        (0xED, _) => "invalid Unicode character",
        (0xF4.., 0x90..) | (0xF5.., _) => "invalid Unicode character",
        _ => "invalid length of a UTF-8 sequence",
    }
}

fn decode_utf16(input: &[u8], unit: fn([u8; 2]) -> u16) -> (Cow<'static, str>, Option<&'static str>) {
    let units = input.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let mut text = String::new();
    for decoded in char::decode_utf16(units) {
        match decoded {
            Ok(c) => text.push(c),
            Err(e) if e.unpaired_surrogate() >= 0xDC00 => {
                return (Cow::Owned(text), Some("unexpected low surrogate area"));
            }
            Err(_) => return (Cow::Owned(text), Some("expected low surrogate area")),
        }
    }
    if let Some(at) = find_forbidden(&text) {
        text.truncate(at);
        return (Cow::Owned(text), Some(FORBIDDEN));
    }
    let bad = (input.len() % 2 == 1).then_some("incomplete UTF-16 character");
    (Cow::Owned(text), bad)
}

/// Returns the start of the piece that contains the character after the valid text.
fn chunk_start(readable: &str) -> usize {
    let mut start = 0;
    loop {
        let mut end = start + CHUNK;
        if end > readable.len() {
            return start;
        }
        while !readable.is_char_boundary(end) {
            end -= 1;
        }
        start = end;
    }
}
