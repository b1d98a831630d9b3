//! Turns source text into tokens. Counterpart: Go's `text/template/parse/lex.go`, including its error texts and trimming rules.
//!
//! Leaves out custom delimiters and comment tokens.

mod error;
mod literal;

pub use error::LexError;

use crate::item::{Item, ItemType};
use golibs::unicode::{is_digit, is_letter, is_print};
use golibs::utf8::{Rune, decode, decode_last};

fn keyword(word: &[u8]) -> Option<ItemType> {
    Some(match word {
        b"block" => ItemType::Block,
        b"break" => ItemType::Break,
        b"continue" => ItemType::Continue,
        b"define" => ItemType::Define,
        b"else" => ItemType::Else,
        b"end" => ItemType::End,
        b"if" => ItemType::If,
        b"range" => ItemType::Range,
        b"nil" => ItemType::Nil,
        b"template" => ItemType::Template,
        b"with" => ItemType::With,
        _ => return None,
    })
}

const LEFT_DELIM: &[u8; 2] = b"{{";
const RIGHT_DELIM: &[u8] = b"}}";
const LEFT_COMMENT: &[u8] = b"/*";
const RIGHT_COMMENT: &[u8; 2] = b"*/";
/// The length of a trim marker and the space beside it.
const TRIM_MARKER_LEN: usize = 2;

pub(crate) struct Lexer<'a> {
    input: &'a [u8],
    pos: usize,
    start: usize,
    at_eof: bool,
    paren_depth: i64,
    line: usize,
    start_line: usize,
    inside_action: bool,
    /// The error of the last [`ItemType::Error`].
    pub(crate) error: Option<LexError>,
    /// Whether `break` and `continue` are keywords. They are not if functions have these names.
    pub(crate) break_ok: bool,
    pub(crate) continue_ok: bool,
}

/// The result of a state function: a token, or the next state.
enum Step<'a> {
    Emit(Item<'a>),
    Text,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Lexer<'a> {
        Lexer {
            input,
            pos: 0,
            start: 0,
            at_eof: false,
            paren_depth: 0,
            line: 1,
            start_line: 1,
            inside_action: false,
            error: None,
            break_ok: true,
            continue_ok: true,
        }
    }

    pub(crate) fn next_item(&mut self) -> Item<'a> {
        let mut step = if self.inside_action { self.lex_inside_action() } else { Step::Text };
        loop {
            match step {
                Step::Emit(item) => return item,
                Step::Text => step = self.lex_text(),
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.input[self.pos..]
    }

    /// Consumes the next rune; returns `None` at the end of the input.
    #[inline]
    fn next(&mut self) -> Option<Rune> {
        let Some(rune) = decode(self.rest()) else {
            self.at_eof = true;
            return None;
        };
        self.pos += rune.width();
        if rune == Rune::Char('\n') {
            self.line += 1;
        }
        Some(rune)
    }

    fn next_char(&mut self) -> Option<char> {
        self.next().map(Rune::to_char)
    }

    fn peek(&self) -> Option<char> {
        decode(self.rest()).map(Rune::to_char)
    }

    /// Steps back one rune, unless the end of the input was reached.
    fn backup(&mut self) {
        if self.at_eof || self.pos == 0 {
            return;
        }
        let passed = &self.input[..self.pos];
        self.pos -= match passed.last() {
            Some(byte) if byte.is_ascii() => 1,
            _ => decode_last(passed).map_or(0, Rune::width),
        };
        if passed.last() == Some(&b'\n') {
            self.line -= 1;
        }
    }

    fn this_item(&mut self, typ: ItemType) -> Item<'a> {
        let item = Item { typ, pos: self.start, val: &self.input[self.start..self.pos], line: self.start_line };
        self.start = self.pos;
        self.start_line = self.line;
        item
    }

    fn emit(&mut self, typ: ItemType) -> Step<'a> {
        Step::Emit(self.this_item(typ))
    }

    /// Skips the text up to the current position, which was scanned without `next`.
    fn ignore(&mut self) {
        self.line += newlines(&self.input[self.start..self.pos]);
        self.start = self.pos;
        self.start_line = self.line;
    }

    fn accept(&mut self, valid: &str) -> bool {
        if self.peek().is_some_and(|c| valid.contains(c)) {
            self.next();
            return true;
        }
        // Go reads the rune and steps back, and so also remembers the end of the input.
        self.at_eof |= self.pos >= self.input.len();
        false
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    /// Emits an error token, which only the end of the input follows.
    fn error(&mut self, error: LexError) -> Step<'a> {
        self.error = Some(error);
        let item = Item { typ: ItemType::Error, pos: self.start, val: b"", line: self.start_line };
        self.start = 0;
        self.pos = 0;
        self.input = b"";
        Step::Emit(item)
    }

    /// Scans text up to the next action.
    fn lex_text(&mut self) -> Step<'a> {
        let Some(x) = find(self.rest(), LEFT_DELIM) else {
            self.pos = self.input.len();
            if self.pos > self.start {
                self.line += newlines(&self.input[self.start..self.pos]);
                return self.emit(ItemType::Text);
            }
            return self.emit(ItemType::Eof);
        };
        if x > 0 {
            self.pos += x;
            let trimmed = match has_left_trim_marker(&self.input[self.pos + LEFT_DELIM.len()..]) {
                true => right_trim_length(&self.input[self.start..self.pos]),
                false => 0,
            };
            self.pos -= trimmed;
            self.line += newlines(&self.input[self.start..self.pos]);
            let item = self.this_item(ItemType::Text);
            self.pos += trimmed;
            self.ignore();
            if !item.val.is_empty() {
                return Step::Emit(item);
            }
        }
        self.lex_left_delim()
    }

    /// Returns whether the right delimiter at this position, if there is one, trims the text after it.
    fn at_right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim_marker(rest) && rest[TRIM_MARKER_LEN..].starts_with(RIGHT_DELIM) {
            return Some(true);
        }
        rest.starts_with(RIGHT_DELIM).then_some(false)
    }

    fn lex_left_delim(&mut self) -> Step<'a> {
        self.pos += LEFT_DELIM.len();
        let after_marker = if has_left_trim_marker(self.rest()) { TRIM_MARKER_LEN } else { 0 };
        if self.rest()[after_marker..].starts_with(LEFT_COMMENT) {
            self.pos += after_marker;
            self.ignore();
            return self.lex_comment();
        }
        let item = self.this_item(ItemType::LeftDelim);
        self.inside_action = true;
        self.pos += after_marker;
        self.ignore();
        self.paren_depth = 0;
        Step::Emit(item)
    }

    fn lex_comment(&mut self) -> Step<'a> {
        self.pos += LEFT_COMMENT.len();
        let Some(x) = find(self.rest(), RIGHT_COMMENT) else {
            return self.error(LexError::UnclosedComment);
        };
        self.pos += x + RIGHT_COMMENT.len();
        let Some(trim) = self.at_right_delim() else {
            return self.error(LexError::CommentEndsEarly);
        };
        if trim {
            self.pos += TRIM_MARKER_LEN;
        }
        self.pos += RIGHT_DELIM.len();
        if trim {
            self.pos += left_trim_length(self.rest());
        }
        self.ignore();
        Step::Text
    }

    fn lex_right_delim(&mut self, trim: bool) -> Step<'a> {
        if trim {
            self.pos += TRIM_MARKER_LEN;
            self.ignore();
        }
        self.pos += RIGHT_DELIM.len();
        let item = self.this_item(ItemType::RightDelim);
        if trim {
            self.pos += left_trim_length(self.rest());
            self.ignore();
        }
        self.inside_action = false;
        Step::Emit(item)
    }

    fn lex_inside_action(&mut self) -> Step<'a> {
        if let Some(trim) = self.at_right_delim() {
            if self.paren_depth == 0 {
                return self.lex_right_delim(trim);
            }
            return self.error(LexError::UnclosedParen);
        }
        let Some(rune) = self.next() else {
            return self.error(LexError::UnclosedAction);
        };
        match rune.to_char() {
            ' ' | '\t' | '\r' | '\n' => {
                self.backup();
                self.lex_space()
            }
            '=' => self.emit(ItemType::Assign),
            ':' if self.next_char() == Some('=') => self.emit(ItemType::Declare),
            ':' => self.error(LexError::ExpectedDeclaration),
            '|' => self.emit(ItemType::Pipe),
            '"' => self.lex_quote(),
            '`' => self.lex_raw_quote(),
            '$' => self.lex_variable(),
            '\'' => self.lex_char(),
            '.' if self.rest().first().is_some_and(|b| !b.is_ascii_digit()) => {
                self.lex_field_or_variable(ItemType::Field)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.backup();
                self.lex_number()
            }
            c if is_alpha_numeric(c) => {
                self.backup();
                self.lex_identifier()
            }
            '(' => {
                self.paren_depth += 1;
                self.emit(ItemType::LeftParen)
            }
            ')' => {
                self.paren_depth -= 1;
                if self.paren_depth < 0 {
                    return self.error(LexError::UnexpectedParen);
                }
                self.emit(ItemType::RightParen)
            }
            ' '..='~' => self.emit(ItemType::Char),
            _ => self.error(LexError::UnrecognizedChar(shown(rune))),
        }
    }

    /// Scans a run of spaces, the last of which may belong to a trim marker.
    fn lex_space(&mut self) -> Step<'a> {
        let mut spaces = 0;
        while self.peek().is_some_and(is_space) {
            self.next();
            spaces += 1;
        }
        let last = &self.input[self.pos - 1..];
        if has_right_trim_marker(last) && last[TRIM_MARKER_LEN..].starts_with(RIGHT_DELIM) {
            self.at_eof = false;
            self.backup();
            if spaces == 1 {
                return self.lex_right_delim(true);
            }
        }
        self.emit(ItemType::Space)
    }

    fn skip_alpha_numeric(&mut self) -> Option<Rune> {
        self.pos += self.rest().iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        loop {
            let next = self.next();
            if !next.is_some_and(|r| is_alpha_numeric(r.to_char())) {
                self.backup();
                return next;
            }
        }
    }

    fn bad_character(&mut self, rune: Option<Rune>) -> Step<'a> {
        let shown = rune.map_or_else(|| "U+FFFFFFFFFFFFFFFF".to_owned(), shown);
        self.error(LexError::BadChar(shown))
    }

    fn lex_identifier(&mut self) -> Step<'a> {
        let next = self.skip_alpha_numeric();
        let word = &self.input[self.start..self.pos];
        if !self.at_terminator() {
            return self.bad_character(next);
        }
        match keyword(word) {
            Some(ItemType::Break) if !self.break_ok => self.emit(ItemType::Identifier),
            Some(ItemType::Continue) if !self.continue_ok => self.emit(ItemType::Identifier),
            Some(typ) => self.emit(typ),
            None if word == b"true" || word == b"false" => self.emit(ItemType::Bool),
            None => self.emit(ItemType::Identifier),
        }
    }

    fn lex_variable(&mut self) -> Step<'a> {
        self.lex_field_or_variable(ItemType::Variable)
    }

    /// Scans the rest of a field or variable, after its `.` or `$`.
    fn lex_field_or_variable(&mut self, typ: ItemType) -> Step<'a> {
        if self.at_terminator() {
            return self.emit(if typ == ItemType::Variable { typ } else { ItemType::Dot });
        }
        let next = self.skip_alpha_numeric();
        if !self.at_terminator() {
            return self.bad_character(next);
        }
        self.emit(typ)
    }

    /// Returns whether the next character may follow an identifier.
    fn at_terminator(&mut self) -> bool {
        match self.peek() {
            None => {
                self.at_eof = true;
                true
            }
            Some(c) => {
                is_space(c) || matches!(c, '.' | ',' | '|' | ':' | ')' | '(') || self.rest().starts_with(RIGHT_DELIM)
            }
        }
    }
}

/// Finds the two bytes.
fn find(text: &[u8], needle: &[u8; 2]) -> Option<usize> {
    memchr::memchr_iter(needle[0], text).find(|i| text.get(i + 1) == Some(&needle[1]))
}

fn newlines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// Returns whether this is one of Go's four space characters.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_space_byte(b: &u8) -> bool {
    is_space(char::from(*b))
}

/// Formats a rune like Go's `%#U`.
fn shown(rune: Rune) -> String {
    let c = rune.to_char();
    let code = format!("U+{:04X}", u32::from(c));
    if is_print(c) { format!("{code} '{c}'") } else { code }
}

fn is_alpha_numeric(c: char) -> bool {
    c == '_' || is_letter(c) || is_digit(c)
}

fn right_trim_length(text: &[u8]) -> usize {
    text.iter().rev().take_while(|b| is_space_byte(b)).count()
}

fn left_trim_length(text: &[u8]) -> usize {
    text.iter().take_while(|b| is_space_byte(b)).count()
}

fn has_left_trim_marker(text: &[u8]) -> bool {
    matches!(text, [b'-', space, ..] if is_space_byte(space))
}

fn has_right_trim_marker(text: &[u8]) -> bool {
    matches!(text, [space, b'-', ..] if is_space_byte(space))
}
