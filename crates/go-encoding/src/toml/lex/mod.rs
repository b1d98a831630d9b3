//! Splits a TOML document into tokens: names, strings, and the texts of numbers and dates. Counterpart: BurntSushi/toml's `lex.go`.

mod number;
mod string;

use std::borrow::Cow;

use golibs::strconv::{quote, quote_rune};
use golibs::unicode::is_letter;
use golibs::utf8::{self, Rune};

use super::error::{Located, Problem, Result};

/// The document and the position in it.
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    pos: usize,
    /// The start of the current token.
    start: usize,
    pub(super) line: usize,
    /// Whether the last read reached the end of the document.
    at_end: bool,
}

/// The text of a scalar, with its type.
pub(super) enum Scalar {
    Text(String),
    Bool(bool),
    Integer(String),
    Float(String),
    Datetime(String),
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Lexer<'a> {
        let text = match text {
            [0xFF, 0xFE, rest @ ..] | [0xFE, 0xFF, rest @ ..] | [0xEF, 0xBB, 0xBF, rest @ ..] => rest,
            _ => text,
        };
        Lexer { text, pos: 0, start: 0, line: 1, at_end: false }
    }

    /// Returns whether one of the first bytes is NUL, as in UTF-16.
    pub(super) fn begins_with_nul(&self) -> bool {
        self.text.iter().take(6).any(|byte| *byte == 0)
    }

    /// Reads the next character; returns `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<char>> {
        let Some(first) = self.text.get(self.pos) else {
            self.at_end = true;
            return Ok(None);
        };
        if *first == b'\n' {
            self.line += 1;
        }
        let Some(Rune::Char(c)) = utf8::decode(&self.text[self.pos..]) else {
            return Err(self.fail(Problem::InvalidUtf8(*first)));
        };
        let lone_return = c == '\r' && self.text.get(self.pos + 1) != Some(&b'\n');
        if lone_return || (c.is_ascii_control() && !matches!(c, '\t' | '\r' | '\n')) {
            return Err(Located { line: self.line, problem: Problem::ControlCharacter(c) });
        }
        self.pos += c.len_utf8();
        Ok(Some(c))
    }

    /// Unreads the last character.
    pub(super) fn back(&mut self) {
        if std::mem::take(&mut self.at_end) {
            return;
        }
        self.pos -= 1;
        while self.pos > 0 && self.text[self.pos] & 0xC0 == 0x80 {
            self.pos -= 1;
        }
        if self.text[self.pos] == b'\n' {
            self.line -= 1;
        }
    }

    pub(super) fn peek(&mut self) -> Result<Option<char>> {
        let next = self.next()?;
        self.back();
        Ok(next)
    }

    /// Reads the next character if it is this one.
    pub(super) fn accept(&mut self, wanted: char) -> Result<bool> {
        let found = self.next()? == Some(wanted);
        if !found {
            self.back();
        }
        Ok(found)
    }

    pub(super) fn skip_blanks(&mut self) -> Result<()> {
        while matches!(self.next()?, Some(' ' | '\t')) {}
        self.back();
        self.begin();
        Ok(())
    }

    /// Skips the rest of the line, which is a comment.
    pub(super) fn skip_comment(&mut self) -> Result<()> {
        while !matches!(self.next()?, None | Some('\n' | '\r')) {}
        self.back();
        Ok(())
    }

    /// Starts a token here.
    pub(super) fn begin(&mut self) {
        self.start = self.pos;
    }

    fn token(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(&self.text[self.start..self.pos])
    }

    /// Returns an error on this line; at the end of the document, on the last line that is not empty.
    pub(super) fn fail(&self, problem: impl Into<Problem>) -> Located {
        let after_line = self.at_end && self.pos > 0 && self.text[self.pos - 1] == b'\n';
        Located { line: self.line - usize::from(after_line), problem: problem.into() }
    }

    /// Returns an error on the previous line, for a problem that only the line break reveals.
    pub(super) fn fail_on_previous_line(&self, problem: impl Into<Problem>) -> Located {
        Located { line: self.line - 1, problem: problem.into() }
    }

    /// Reads a name of letters, digits, `_` and `-`, which may be empty.
    pub(super) fn bare_name(&mut self) -> Result<String> {
        self.begin();
        while self.next()?.is_some_and(|c| c.is_ascii() && super::is_bare(c as u8)) {}
        self.back();
        Ok(self.token().into_owned())
    }

    /// Reads a name, starting at its opening quote.
    pub(super) fn quoted_name(&mut self) -> Result<String> {
        match self.next()? {
            Some('"') => self.string(),
            _ => self.raw_string(),
        }
    }

    /// Reads a value that is neither an array nor a table.
    pub(super) fn scalar(&mut self) -> Result<Scalar> {
        self.begin();
        let c = self.next()?;
        match c {
            Some('0') => return self.number_after_zero(),
            Some('1'..='9') => return self.number_or_date(),
            Some('+' | '-') => return self.signed_number(),
            Some(quote @ ('"' | '\'')) => return self.any_string(quote).map(Scalar::Text),
            Some('.') => return Err(self.fail("floats must start with a digit, not '.'")),
            Some('i' | 'n') => {
                let inf = self.accept('n')? && self.accept('f')?;
                if inf || (self.accept('a')? && self.accept('n')?) {
                    return Ok(Scalar::Float(self.token().into_owned()));
                }
            }
            _ => {}
        }
        match c {
            Some(c) if is_letter(c) => {
                self.back();
                self.boolean()
            }
            None => Err(self.fail("unexpected EOF; expected value")),
            Some('\n') => Err(self.fail_on_previous_line(Problem::NotAValue("'\\n'".to_owned()))),
            Some(c) => Err(self.fail(Problem::NotAValue(quote_char(Some(c))))),
        }
    }

    fn boolean(&mut self) -> Result<Scalar> {
        self.begin();
        while self.next()?.is_some_and(is_letter) {}
        self.back();
        match &*self.token() {
            "true" => Ok(Scalar::Bool(true)),
            "false" => Ok(Scalar::Bool(false)),
            word => Err(self.fail(Problem::NotAValue(quote(word)))),
        }
    }

    /// Reads characters while they fit; returns the token up to here.
    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> Result<String> {
        while self.next()?.is_some_and(&fits) {}
        self.back();
        Ok(self.token().into_owned())
    }
}

/// Quotes a character like Go's `%q`; the end of the document counts as NUL.
pub(super) fn quote_char(c: Option<char>) -> String {
    quote_rune(c.unwrap_or('\0'))
}
