//! Scans plain, quoted, literal and folded scalars, and folds their line breaks.

use super::super::read::is_blank;
use super::{Result, Scanner, TokenKind};

/// The quotes around a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    Single,
    Double,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockStyle {
    Literal,
    Folded,
}

/// Blanks and line breaks between two words of a scalar, before folding.
#[derive(Default)]
struct Gap {
    blanks: String,
    first_break: String,
    more_breaks: String,
    broken: bool,
}

impl Gap {
    /// Writes the folded gap: its blanks if it has no line break, one space for a single line break, or one break fewer for several.
    fn flush(&mut self, into: &mut String) {
        if !self.broken {
            into.push_str(&self.blanks);
        } else if self.first_break.starts_with('\n') {
            into.push_str(if self.more_breaks.is_empty() { " " } else { &self.more_breaks });
        } else {
            into.push_str(&self.first_break);
            into.push_str(&self.more_breaks);
        }
        self.blanks.clear();
        self.first_break.clear();
        self.more_breaks.clear();
        self.broken = false;
    }
}

/// The treatment of line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

impl Scanner<'_> {
    pub(super) fn fetch_plain_scalar(&mut self) -> Result {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.reader.mark;
        let value = self.scan_plain()?;
        self.push(TokenKind::Scalar { value, plain: true }, start);
        Ok(())
    }

    fn scan_plain(&mut self) -> Result<String> {
        let indent = self.indent + 1;
        let mut value = String::new();
        let mut gap = Gap::default();
        loop {
            self.reader.need(4)?;
            if self.reader.at_document_indicator() || self.reader.peek(0) == b'#' {
                break;
            }
            self.scan_plain_word(&mut value, &mut gap)?;
            if !is_blank(self.reader.peek(0)) && !self.reader.is_break(0) {
                break;
            }
            self.scan_gap(&mut gap, Some(indent))?;
            if self.flow_level == 0 && (self.reader.mark.column as isize) < indent {
                break;
            }
        }
        if gap.broken {
            self.simple_key_allowed = true;
        }
        Ok(value)
    }

    fn scan_plain_word(&mut self, value: &mut String, gap: &mut Gap) -> Result {
        let mut length = 0;
        while !self.ends_plain(length) {
            length += 1;
        }
        if length > 0 {
            gap.flush(value);
            self.reader.read_to(self.reader.pos + length, value);
            self.reader.need(2)?;
        }
        Ok(())
    }

    fn ends_plain(&self, ahead: usize) -> bool {
        match self.reader.peek(ahead) {
            b':' => self.reader.is_blankz(ahead + 1),
            b',' | b'?' | b'[' | b']' | b'{' | b'}' => self.flow_level > 0,
            b'!'..=b'~' => false,
            _ => self.reader.is_blankz(ahead),
        }
    }

    /// Reads blanks and line breaks. In an indented plain scalar, tabs must not replace the indentation.
    fn scan_gap(&mut self, gap: &mut Gap, plain_indent: Option<isize>) -> Result {
        self.reader.need(1)?;
        loop {
            let byte = self.reader.peek(0);
            if is_blank(byte) {
                let outside = plain_indent.is_some_and(|indent| (self.reader.mark.column as isize) < indent);
                if gap.broken && outside && byte == b'\t' {
                    return Err(self.error("found a tab character that violates indentation"));
                }
                if gap.broken { self.reader.skip() } else { self.reader.read(&mut gap.blanks) }
            } else if self.reader.is_break(0) {
                self.reader.need(2)?;
                if gap.broken {
                    self.reader.read_line(&mut gap.more_breaks);
                } else {
                    gap.blanks.clear();
                    self.reader.read_line(&mut gap.first_break);
                    gap.broken = true;
                }
            } else {
                return Ok(());
            }
            self.reader.need(1)?;
        }
    }

    pub(super) fn fetch_quoted_scalar(&mut self, quotes: Quotes) -> Result {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.reader.mark;
        let value = self.scan_quoted(quotes)?;
        self.push(TokenKind::Scalar { value, plain: false }, start);
        Ok(())
    }

    fn scan_quoted(&mut self, quotes: Quotes) -> Result<String> {
        let quote = if quotes == Quotes::Single { b'\'' } else { b'"' };
        let mut value = String::new();
        let mut gap = Gap::default();
        self.reader.skip();
        loop {
            self.reader.need(4)?;
            if self.reader.at_document_indicator() {
                return Err(self.error("found unexpected document indicator"));
            }
            if self.reader.is_end() {
                return Err(self.error("found unexpected end of stream"));
            }
            gap.broken = self.scan_quoted_word(quotes, &mut value)?;
            self.reader.need(1)?;
            if self.reader.peek(0) == quote {
                break;
            }
            self.scan_gap(&mut gap, None)?;
            gap.flush(&mut value);
        }
        self.reader.skip();
        Ok(value)
    }

    /// Reads up to a blank, a line break or the closing quote; returns whether it stopped at an escaped line break.
    fn scan_quoted_word(&mut self, quotes: Quotes, value: &mut String) -> Result<bool> {
        while !self.reader.is_blankz(0) {
            match self.reader.peek(0) {
                b'\'' if quotes == Quotes::Single && self.reader.peek(1) == b'\'' => {
                    value.push('\'');
                    self.reader.skip();
                    self.reader.skip();
                }
                b'\'' if quotes == Quotes::Single => break,
                b'"' if quotes == Quotes::Double => break,
                b'\\' if quotes == Quotes::Double && self.reader.is_break(1) => {
                    self.reader.need(3)?;
                    self.reader.skip();
                    self.reader.skip_line();
                    return Ok(true);
                }
                b'\\' if quotes == Quotes::Double => self.scan_escape(value)?,
                _ => self.scan_quoted_run(quotes, value),
            }
            self.reader.need(2)?;
        }
        Ok(false)
    }

    fn scan_quoted_run(&mut self, quotes: Quotes, value: &mut String) {
        let stops = |ahead: usize| match self.reader.peek(ahead) {
            b'\'' => quotes == Quotes::Single,
            b'"' | b'\\' => quotes == Quotes::Double,
            b'!'..=b'~' => false,
            _ => self.reader.is_blankz(ahead),
        };
        let mut length = 1;
        while !stops(length) {
            length += 1;
        }
        self.reader.read_to(self.reader.pos + length, value);
    }

    fn scan_escape(&mut self, value: &mut String) -> Result {
        let escaped = match self.reader.peek(1) {
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b't' | b'\t' => '\t',
            b'n' => '\n',
            b'v' => '\x0B',
            b'f' => '\x0C',
            b'r' => '\r',
            b'e' => '\x1B',
            b' ' => ' ',
            b'"' => '"',
            b'\'' => '\'',
            b'\\' => '\\',
            b'N' => '\u{85}',
            b'_' => '\u{A0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' => return self.scan_code_point(2, value),
            b'u' => return self.scan_code_point(4, value),
            b'U' => return self.scan_code_point(8, value),
            _ => return Err(self.error("found unknown escape character")),
        };
        value.push(escaped);
        self.reader.skip();
        self.reader.skip();
        Ok(())
    }

    fn scan_code_point(&mut self, digits: usize, value: &mut String) -> Result {
        self.reader.skip();
        self.reader.skip();
        self.reader.need(digits)?;
        let mut code = 0u32;
        for ahead in 0..digits {
            let Some(digit) = char::from(self.reader.peek(ahead)).to_digit(16) else {
                return Err(self.error("did not find expected hexdecimal number"));
            };
            code = code << 4 | digit;
        }
        let Some(c) = char::from_u32(code) else {
            return Err(self.error("found invalid Unicode character escape code"));
        };
        value.push(c);
        (0..digits).for_each(|_| self.reader.skip());
        Ok(())
    }

    pub(super) fn fetch_block_scalar(&mut self, style: BlockStyle) -> Result {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let start = self.reader.mark;
        let value = self.scan_block(style)?;
        self.push(TokenKind::Scalar { value, plain: false }, start);
        Ok(())
    }

    fn scan_block(&mut self, style: BlockStyle) -> Result<String> {
        self.reader.skip();
        let (chomping, increment) = self.scan_block_header()?;
        let mut indent = increment.map(|n| self.indent.max(0) as usize + n);
        let (mut value, mut line_break, mut more_breaks) = (String::new(), String::new(), String::new());
        let mut indent_now = self.scan_block_breaks(&mut indent, &mut more_breaks)?;
        self.reader.need(1)?;
        let mut after_blank = false;
        while self.reader.mark.column == indent_now && !self.reader.is_end() {
            let at_blank = is_blank(self.reader.peek(0));
            if style == BlockStyle::Folded && !after_blank && !at_blank && line_break.starts_with('\n') {
                if more_breaks.is_empty() {
                    value.push(' ');
                }
            } else {
                value.push_str(&line_break);
            }
            value.push_str(&more_breaks);
            line_break.clear();
            more_breaks.clear();
            after_blank = at_blank;
            self.scan_block_line(&mut value)?;
            self.reader.need(2)?;
            if self.reader.is_break(0) {
                self.reader.read_line(&mut line_break);
            }
            indent_now = self.scan_block_breaks(&mut indent, &mut more_breaks)?;
        }
        if chomping != Chomping::Strip {
            value.push_str(&line_break);
        }
        if chomping == Chomping::Keep {
            value.push_str(&more_breaks);
        }
        Ok(value)
    }

    fn scan_block_line(&mut self, value: &mut String) -> Result {
        let mut length = 0;
        while !self.reader.is_breakz(length) {
            length += 1;
        }
        self.reader.read_to(self.reader.pos + length, value);
        self.reader.need(1)
    }

    /// Reads the header of a block scalar: `+` or `-` and a digit, each optional and in either order, and an optional comment.
    fn scan_block_header(&mut self) -> Result<(Chomping, Option<usize>)> {
        self.reader.need(1)?;
        let mut chomping = self.scan_chomping();
        self.reader.need(1)?;
        let increment = self.scan_increment()?;
        if chomping.is_none() && increment.is_some() {
            self.reader.need(1)?;
            chomping = self.scan_chomping();
        }
        self.reader.need(1)?;
        self.skip_blanks()?;
        self.skip_comment()?;
        if !self.reader.is_breakz(0) {
            return Err(self.error("did not find expected comment or line break"));
        }
        if self.reader.is_break(0) {
            self.reader.need(2)?;
            self.reader.skip_line();
        }
        Ok((chomping.unwrap_or(Chomping::Clip), increment))
    }

    fn scan_chomping(&mut self) -> Option<Chomping> {
        let chomping = match self.reader.peek(0) {
            b'+' => Chomping::Keep,
            b'-' => Chomping::Strip,
            _ => return None,
        };
        self.reader.skip();
        Some(chomping)
    }

    fn scan_increment(&mut self) -> Result<Option<usize>> {
        match self.reader.peek(0) {
            b'0' => Err(self.error("found an indentation indicator equal to 0")),
            digit @ b'1'..=b'9' => {
                self.reader.skip();
                Ok(Some(usize::from(digit - b'0')))
            }
            _ => Ok(None),
        }
    }

    /// Skips indentation and empty lines; returns the indentation, which it detects if it is unknown.
    fn scan_block_breaks(&mut self, indent: &mut Option<usize>, breaks: &mut String) -> Result<usize> {
        let mut deepest = 0;
        loop {
            self.reader.need(1)?;
            let inside = |column: usize| indent.is_none_or(|indent| column < indent);
            while inside(self.reader.mark.column) && self.reader.peek(0) == b' ' {
                self.reader.skip();
                self.reader.need(1)?;
            }
            deepest = deepest.max(self.reader.mark.column);
            if inside(self.reader.mark.column) && self.reader.peek(0) == b'\t' {
                return Err(self.error("found a tab character where an indentation space is expected"));
            }
            if !self.reader.is_break(0) {
                break;
            }
            self.reader.need(2)?;
            self.reader.read_line(breaks);
        }
        let least = (self.indent + 1).max(1) as usize;
        Ok(*indent.get_or_insert(deepest.max(least)))
    }
}
