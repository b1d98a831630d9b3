//! The parser's lookahead, and errors about tokens.

use std::sync::Arc;

use super::{ParseErrorKind, Parser, Result2};
use crate::error::ParseError;
use crate::item::{Item, ItemType};

impl<'a> Parser<'a> {
    pub(super) fn next(&mut self) -> Item<'a> {
        if self.scope.peek_count > 0 {
            self.scope.peek_count -= 1;
        } else {
            self.scope.token[0] = self.lex.next_item();
        }
        self.scope.token[self.scope.peek_count]
    }

    pub(super) fn backup(&mut self) {
        self.scope.peek_count += 1;
    }

    /// Puts back a token and the one after it, which is still in the buffer.
    pub(super) fn backup2(&mut self, first: Item<'a>) {
        self.scope.token[1] = first;
        self.scope.peek_count = 2;
    }

    pub(super) fn backup3(&mut self, first: Item<'a>, second: Item<'a>) {
        self.scope.token[1] = second;
        self.scope.token[2] = first;
        self.scope.peek_count = 3;
    }

    pub(super) fn peek(&mut self) -> Item<'a> {
        if self.scope.peek_count == 0 {
            self.scope.peek_count = 1;
            self.scope.token[0] = self.lex.next_item();
        }
        self.scope.token[self.scope.peek_count - 1]
    }

    pub(super) fn next_non_space(&mut self) -> Item<'a> {
        loop {
            let token = self.next();
            if token.typ != ItemType::Space {
                return token;
            }
        }
    }

    pub(super) fn peek_non_space(&mut self) -> Item<'a> {
        let token = self.next_non_space();
        self.backup();
        token
    }

    pub(super) fn error<T>(&self, kind: ParseErrorKind) -> Result2<T> {
        let (name, line) = (self.parse_name.to_string(), self.scope.token[0].line);
        Err(Box::new(ParseError { name, line, kind }))
    }

    pub(super) fn expect(&mut self, expected: ItemType, context: &'static str) -> Result2<Item<'a>> {
        let token = self.next_non_space();
        if token.typ == expected { Ok(token) } else { self.unexpected(token, context) }
    }

    pub(super) fn unexpected<T>(&self, token: Item<'a>, context: &'static str) -> Result2<T> {
        let Some(error) = self.lex.error.clone().filter(|_| token.typ == ItemType::Error) else {
            return self.error(ParseErrorKind::Unexpected { token: token.describe(), context });
        };
        let started = self.scope.action_line;
        if started == 0 || started == token.line {
            return self.error(ParseErrorKind::Lex(error));
        }
        let name = Arc::clone(&self.parse_name);
        self.error(ParseErrorKind::LexInAction { error, name, line: started })
    }
}
