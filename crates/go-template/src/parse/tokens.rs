//! The parser's lookahead, and the errors about tokens.

use super::{Parser, Result2};
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

    /// Gives back the token and the one after it, which is there already.
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

    pub(super) fn errorf<T>(&self, message: impl Into<String>) -> Result2<T> {
        let (name, line) = (self.parse_name.to_string(), self.scope.token[0].line);
        Err(Box::new(ParseError { name, line, message: message.into() }))
    }

    pub(super) fn expect(&mut self, expected: ItemType, context: &str) -> Result2<Item<'a>> {
        let token = self.next_non_space();
        if token.typ == expected { Ok(token) } else { self.unexpected(token, context) }
    }

    pub(super) fn unexpected<T>(&self, token: Item<'a>, context: &str) -> Result2<T> {
        let shown = token.describe(&self.lex.error);
        if token.typ != ItemType::Error {
            return self.errorf(format!("unexpected {shown} in {context}"));
        }
        let started = self.scope.action_line;
        if started == 0 || started == token.line {
            return self.errorf(shown);
        }
        let action = if shown.ends_with(" action") { "" } else { " in action" };
        self.errorf(format!("{shown}{action} started at {}:{started}", self.parse_name))
    }
}
