//! Finds structure that no indicator marks: keys without `?`, and indentation.

use super::{MAX_SIMPLE_KEY, Result, Scanner, SimpleKey, Token, TokenKind};
use crate::yaml::MAX_DEPTH;
use crate::yaml::read::Mark;

/// Keys without `?`, which are recognized only when their `:` is read.
impl Scanner<'_> {
    pub(super) fn is_valid_key(&mut self, i: usize) -> Result<bool> {
        let key = self.simple_keys[i];
        if !key.possible {
            return Ok(false);
        }
        let now = self.reader.mark;
        if key.mark.line == now.line && key.mark.index + MAX_SIMPLE_KEY >= now.index {
            return Ok(true);
        }
        if key.required {
            return Err(self.error("could not find expected ':'"));
        }
        self.simple_keys[i].possible = false;
        Ok(false)
    }

    /// Records that the next token may be a key.
    pub(super) fn save_simple_key(&mut self) -> Result {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let mark = self.reader.mark;
        let required = self.flow_level == 0 && self.indent == mark.column as isize;
        let token = self.taken + self.tokens.len();
        self.remove_simple_key()?;
        *self.simple_key() = SimpleKey { possible: true, required, lost: false, token, mark };
        Ok(())
    }

    pub(super) fn remove_simple_key(&mut self) -> Result {
        let key = *self.simple_key();
        if key.possible && key.required {
            return Err(self.error("could not find expected ':'"));
        }
        self.simple_key().possible = false;
        Ok(())
    }

    pub(super) fn simple_key(&mut self) -> &mut SimpleKey {
        if self.simple_keys.is_empty() {
            self.simple_keys.push(SimpleKey::default());
        }
        let last = self.simple_keys.len() - 1;
        &mut self.simple_keys[last]
    }
}

/// Indentation, which determines where block collections start and end.
impl Scanner<'_> {
    /// Starts a block collection at this column, unless there is one. Inserts its token before the token number `before`, if given.
    pub(super) fn roll_indent(&mut self, column: usize, before: Option<usize>, kind: TokenKind, mark: Mark) -> Result {
        if self.flow_level > 0 || self.indent >= column as isize {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column as isize;
        if self.indents.len() > MAX_DEPTH {
            return Err(self.error(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.insert(before, Token { kind, start: mark });
        Ok(())
    }

    /// Inserts the token before the token with this number, or at the end if that token was already taken.
    pub(super) fn insert(&mut self, before: Option<usize>, token: Token) {
        let at = before.and_then(|number| number.checked_sub(self.taken)).unwrap_or(self.tokens.len());
        self.tokens.insert(at.min(self.tokens.len()), token);
    }

    /// Ends the block collections that are indented deeper than this column.
    pub(super) fn unroll_indent(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(TokenKind::BlockEnd, self.reader.mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }
}
