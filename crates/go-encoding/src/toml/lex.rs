//! Tokens of a TOML document: names, strings, and the texts of numbers and dates. Counterpart: BurntSushi/toml's `lex.go`.

use std::borrow::Cow;

use golibs::strconv::{quote, quote_rune};
use golibs::unicode::is_letter;
use golibs::utf8::{self, Rune};

use super::error::{Located, Problem, Result};

/// The document and the position in it.
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    pos: usize,
    /// Where the current token began.
    start: usize,
    pub(super) line: usize,
    /// Whether the last read met the end of the document.
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

    /// Reads the next character; `None` at the end.
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

    /// Skips the rest of the line, a comment.
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

    /// An error on this line; at the end of the document, on the last line that is not empty.
    pub(super) fn fail(&self, problem: impl Into<Problem>) -> Located {
        let after_line = self.at_end && self.pos > 0 && self.text[self.pos - 1] == b'\n';
        Located { line: self.line - usize::from(after_line), problem: problem.into() }
    }

    /// An error on the previous line, for what only the line break shows.
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

    /// Reads a string after its opening quote.
    fn string(&mut self) -> Result<String> {
        self.begin();
        loop {
            match self.next()? {
                None => return Err(self.fail("unexpected EOF; expected '\"'")),
                Some('\n' | '\r') => return Err(self.fail_on_previous_line("strings cannot contain newlines")),
                Some('\\') => self.escape()?,
                Some('"') => break,
                Some(_) => {}
            }
        }
        let raw = &self.token()[..self.pos - self.start - 1];
        unescape(raw, self.line)
    }

    fn raw_string(&mut self) -> Result<String> {
        self.begin();
        loop {
            match self.next()? {
                None => return Err(self.fail("unexpected EOF; expected \"'\"")),
                Some('\n' | '\r') => return Err(self.fail_on_previous_line("strings cannot contain newlines")),
                Some('\'') => break,
                Some(_) => {}
            }
        }
        Ok(self.token()[..self.pos - self.start - 1].to_owned())
    }

    /// Reads a multi-line string after its three opening quotes.
    fn multiline_string(&mut self, quote: char) -> Result<String> {
        self.begin();
        let three = String::from(quote).repeat(3);
        loop {
            let c = self.next()?;
            match c {
                None if quote == '"' => return Err(self.fail("unexpected EOF; expected '\"\"\"'")),
                None => return Err(self.fail("unexpected EOF; expected \"'''\"")),
                Some('\\') if quote == '"' => {
                    if !matches!(self.next()?, Some('\n' | '\r')) {
                        self.back();
                        self.escape()?;
                    }
                }
                Some(c) if c == quote => {
                    if !self.accept(quote)? {
                        continue;
                    }
                    if !self.accept(quote)? {
                        self.back();
                        continue;
                    }
                    if self.peek()? != Some(quote) {
                        break;
                    }
                    self.check_quotes(quote)?;
                    self.back();
                    self.back();
                }
                Some(_) => {}
            }
        }
        let raw = self.token();
        let raw = raw.strip_suffix(&three).unwrap_or(&raw);
        let raw = raw.strip_prefix('\n').or(raw.strip_prefix("\r\n")).unwrap_or(raw);
        if quote == '"' { unescape(&join_lines(raw), self.line) } else { Ok(raw.to_owned()) }
    }

    /// Checks that at most two quotes precede the three closing ones.
    fn check_quotes(&self, quote: char) -> Result<()> {
        let token = self.token();
        let five = String::from(quote).repeat(5);
        let escaped = quote == '"' && token.ends_with(&format!("\\{five}"));
        if !token.ends_with(&five) || escaped {
            return Ok(());
        }
        Err(self.fail(if quote == '"' { "unexpected '\"\"\"\"\"\"'" } else { "unexpected \"\"" }))
    }

    /// Checks the escape after a backslash.
    fn escape(&mut self) -> Result<()> {
        let c = self.next()?;
        let (digits, expected) = match c {
            Some('e' | 'b' | 't' | 'n' | 'f' | 'r' | '"' | ' ' | '\t' | '\\') => return Ok(()),
            Some('x') => (2, "two hexadecimal digits after '\\x'"),
            Some('u') => (4, "four hexadecimal digits after '\\u'"),
            Some('U') => (8, "eight hexadecimal digits after '\\U'"),
            Some(c) => return Err(self.fail(Problem::InvalidEscape(c))),
            None => return Err(self.fail_on_previous_line(Problem::InvalidEscape('\0'))),
        };
        for _ in 0..digits {
            if !self.next()?.is_some_and(|c| c.is_ascii_hexdigit()) {
                return Err(self.fail(Problem::Expected { expected, found: quote(&*self.token()) }));
            }
        }
        Ok(())
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

    fn any_string(&mut self, quote: char) -> Result<String> {
        if self.accept(quote)? {
            if self.accept(quote)? {
                return self.multiline_string(quote);
            }
            self.back();
        }
        if quote == '"' { self.string() } else { self.raw_string() }
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

    /// Reads characters while they fit, and returns the token so far.
    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> Result<String> {
        while self.next()?.is_some_and(&fits) {}
        self.back();
        Ok(self.token().into_owned())
    }

    fn number_or_date(&mut self) -> Result<Scalar> {
        self.take_while(|c| c.is_ascii_digit())?;
        match self.next()? {
            Some('-' | ':') => self.date(),
            Some('_') => self.decimal(),
            Some('.' | 'e' | 'E') => self.float(),
            _ => {
                self.back();
                Ok(Scalar::Integer(self.token().into_owned()))
            }
        }
    }

    fn date(&mut self) -> Result<Scalar> {
        let text = self.take_while(|c| c.is_ascii_digit() || "-:Tt .Zz+".contains(c))?;
        Ok(Scalar::Datetime(text.trim().to_owned()))
    }

    fn decimal(&mut self) -> Result<Scalar> {
        self.take_while(|c| c.is_ascii_digit() || c == '_')?;
        if matches!(self.next()?, Some('.' | 'e' | 'E')) {
            return self.float();
        }
        self.back();
        Ok(Scalar::Integer(self.token().into_owned()))
    }

    fn float(&mut self) -> Result<Scalar> {
        self.take_while(|c| c.is_ascii_digit() || "_.-+eE".contains(c)).map(Scalar::Float)
    }

    fn number_after_zero(&mut self) -> Result<Scalar> {
        let (base, fits): (&'static str, fn(char) -> bool) = match self.next()? {
            Some('0'..='9') => return self.number_or_date(),
            Some('_') => return self.decimal(),
            Some('.' | 'e' | 'E') => return self.float(),
            Some('b') => ("a binary", |c| matches!(c, '0' | '1')),
            Some('o') => ("an octal", |c| matches!(c, '0'..='7')),
            Some('x') => ("a hexadecimal", |c| c.is_ascii_hexdigit()),
            _ => {
                self.back();
                return Ok(Scalar::Integer(self.token().into_owned()));
            }
        };
        let digit = self.peek()?;
        if !digit.is_some_and(fits) {
            let text = format!("{}{}", self.token(), digit.unwrap_or('\0'));
            return Err(self.fail(Problem::WrongBase { base, text }));
        }
        self.take_while(|c| fits(c) || c == '_').map(Scalar::Integer)
    }

    fn signed_number(&mut self) -> Result<Scalar> {
        let c = self.next()?;
        let word = match c {
            Some('i') => Some(['n', 'f']),
            Some('n') => Some(['a', 'n']),
            _ => None,
        };
        if let Some([second, third]) = word {
            if !self.accept(second)? || !self.accept(third)? {
                return Err(self.fail(Problem::InvalidFloatName(self.token().into_owned())));
            }
            return Ok(Scalar::Float(self.token().into_owned()));
        }
        match c {
            Some('.') => Err(self.fail("floats must start with a digit, not '.'")),
            Some(digit) if digit.is_ascii_digit() => {
                let base = self.peek()?;
                if digit == '0' && matches!(base, Some('b' | 'o' | 'x')) {
                    let text = format!("{}{}", self.token(), base.unwrap_or('\0'));
                    return Err(self.fail(Problem::SignedBase(text)));
                }
                self.decimal()
            }
            _ => Err(self.fail(Problem::NotADigit(quote_char(c)))),
        }
    }
}

/// Go's `%q` of a character; the end of the document counts as NUL.
pub(super) fn quote_char(c: Option<char>) -> String {
    quote_rune(c.unwrap_or('\0'))
}

/// Removes escaped line breaks and the blanks after them.
fn join_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let after = escape[1..].trim_start_matches([' ', '\t', '\r', '\n']);
        let blanks = &escape[1..escape.len() - after.len()];
        if blanks.contains('\n') {
            rest = after;
        } else {
            let taken = escape.chars().take(2).map(char::len_utf8).sum();
            out.push_str(&escape[..taken]);
            rest = &escape[taken..];
        }
    }
    out.push_str(rest);
    out
}

/// Replaces the escapes, which the lexer has checked already.
fn unescape(text: &str, line: usize) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match rest.next() {
            Some('b') => '\x08',
            Some('t') => '\t',
            Some('n') => '\n',
            Some('f') => '\x0C',
            Some('r') => '\r',
            Some('e') => '\x1B',
            Some(blank @ (' ' | '\t')) => {
                return Err(Located { line, problem: Problem::EscapedBlank(blank) });
            }
            Some('x') => code_point(&mut rest, 2, line)?,
            Some('u') => code_point(&mut rest, 4, line)?,
            Some('U') => code_point(&mut rest, 8, line)?,
            Some(other) => other,
            None => '\\',
        });
    }
    Ok(out)
}

fn code_point(rest: &mut std::str::Chars<'_>, digits: usize, line: usize) -> Result<char> {
    let text: String = rest.take(digits).collect();
    let code = u32::from_str_radix(&text, 16).ok().and_then(char::from_u32);
    code.ok_or(Located { line, problem: Problem::InvalidCodePoint(text) })
}
