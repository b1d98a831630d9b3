//! Scans constants: numbers, characters and quoted strings.

use super::{LexError, Lexer, Step, is_alpha_numeric};
use crate::item::ItemType;
use golibs::strconv::quote;

impl<'a> Lexer<'a> {
    /// Moves past the closing quote. Returns `false` if the line has none.
    fn skip_quoted(&mut self, closing: char) -> bool {
        loop {
            match self.next_char() {
                Some('\\') => match self.next_char() {
                    None | Some('\n') => return false,
                    Some(_) => {}
                },
                None | Some('\n') => return false,
                Some(c) if c == closing => return true,
                Some(_) => {}
            }
        }
    }

    pub(super) fn lex_char(&mut self) -> Step<'a> {
        match self.skip_quoted('\'') {
            true => self.emit(ItemType::CharConstant),
            false => self.error(LexError::UnterminatedChar),
        }
    }

    pub(super) fn lex_quote(&mut self) -> Step<'a> {
        match self.skip_quoted('"') {
            true => self.emit(ItemType::String),
            false => self.error(LexError::UnterminatedString),
        }
    }

    pub(super) fn lex_raw_quote(&mut self) -> Step<'a> {
        loop {
            match self.next_char() {
                None => return self.error(LexError::UnterminatedRawString),
                Some('`') => return self.emit(ItemType::RawString),
                Some(_) => {}
            }
        }
    }

    /// Scans a number, or text that resembles one: the parser checks the details.
    pub(super) fn lex_number(&mut self) -> Step<'a> {
        if !self.scan_number() {
            return self.bad_number();
        }
        if matches!(self.peek(), Some('+' | '-')) {
            if !self.scan_number() || self.input[self.pos - 1] != b'i' {
                return self.bad_number();
            }
            return self.emit(ItemType::Complex);
        }
        self.emit(ItemType::Number)
    }

    fn bad_number(&mut self) -> Step<'a> {
        self.error(LexError::BadNumber(quote(&self.input[self.start..self.pos])))
    }

    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        let mut exponent = "eE";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
                exponent = "pP";
            } else if self.accept("oO") {
                digits = "01234567_";
                exponent = "";
            } else if self.accept("bB") {
                digits = "01_";
                exponent = "";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if self.accept(exponent) {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        self.accept("i");
        if self.peek().is_some_and(is_alpha_numeric) {
            self.next();
            return false;
        }
        true
    }
}
