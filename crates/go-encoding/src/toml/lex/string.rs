//! Scans basic and literal strings, on one line or several, with their escapes.

use golibs::strconv::quote;

use super::Lexer;
use crate::toml::error::{Located, Problem, Result};

impl Lexer<'_> {
    /// Reads a string after its opening quote.
    pub(super) fn string(&mut self) -> Result<String> {
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

    pub(super) fn raw_string(&mut self) -> Result<String> {
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

    /// Checks that at most two quotes precede the three closing quotes.
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

    pub(super) fn any_string(&mut self, quote: char) -> Result<String> {
        if self.accept(quote)? {
            if self.accept(quote)? {
                return self.multiline_string(quote);
            }
            self.back();
        }
        if quote == '"' { self.string() } else { self.raw_string() }
    }
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

/// Replaces the escapes, which the lexer has already checked.
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
