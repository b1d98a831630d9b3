//! Scans tokens of one or a few characters.

use super::{Result, Scanner, SimpleKey, Token, TokenKind};
use crate::yaml::MAX_DEPTH;

impl Scanner<'_> {
    pub(super) fn fetch_stream_end(&mut self) -> Result {
        if self.reader.mark.column != 0 {
            self.reader.mark.column = 0;
            self.reader.mark.line += 1;
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.ended = true;
        self.push(TokenKind::StreamEnd, self.reader.mark);
        Ok(())
    }

    pub(super) fn fetch_directive(&mut self) -> Result {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.reader.mark;
        let kind = self.scan_directive()?;
        self.push(kind, start);
        Ok(())
    }

    pub(super) fn fetch_document_indicator(&mut self, kind: TokenKind) -> Result {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(kind, self.reader.mark);
        (0..3).for_each(|_| self.reader.skip());
        Ok(())
    }

    fn push_indicator(&mut self, kind: TokenKind) {
        self.push(kind, self.reader.mark);
        self.reader.skip();
    }

    pub(super) fn fetch_flow_start(&mut self, kind: TokenKind) -> Result {
        self.save_simple_key()?;
        let token = self.taken + self.tokens.len();
        self.simple_keys.push(SimpleKey { token, ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return Err(self.error(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.simple_key_allowed = true;
        self.push_indicator(kind);
        Ok(())
    }

    pub(super) fn fetch_flow_end(&mut self, kind: TokenKind) -> Result {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            let inner = self.simple_keys.pop().unwrap_or_default();
            let outer = self.simple_key();
            outer.lost |= outer.token == inner.token;
        }
        self.simple_key_allowed = false;
        self.push_indicator(kind);
        Ok(())
    }

    pub(super) fn fetch_flow_entry(&mut self) -> Result {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(TokenKind::FlowEntry);
        Ok(())
    }

    /// Starts a block collection here, unless one with this indentation is open. `refusal` is the error if none may start here. Does nothing inside a
    /// flow collection.
    fn start_block(&mut self, start: TokenKind, refusal: &'static str) -> Result {
        if self.flow_level > 0 {
            return Ok(());
        }
        if !self.simple_key_allowed {
            return Err(self.error(refusal));
        }
        let mark = self.reader.mark;
        self.roll_indent(mark.column, None, start, mark)
    }

    pub(super) fn fetch_block_entry(&mut self) -> Result {
        self.start_block(TokenKind::BlockSequenceStart, "block sequence entries are not allowed in this context")?;
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(TokenKind::BlockEntry);
        Ok(())
    }

    pub(super) fn fetch_key(&mut self) -> Result {
        self.start_block(TokenKind::BlockMappingStart, "mapping keys are not allowed in this context")?;
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.push_indicator(TokenKind::Key);
        Ok(())
    }

    pub(super) fn fetch_value(&mut self) -> Result {
        let key = *self.simple_key();
        if self.is_valid_key(self.simple_keys.len() - 1)? {
            let token = Token { kind: TokenKind::Key, start: key.mark };
            self.insert(Some(key.token), token);
            self.roll_indent(key.mark.column, Some(key.token), TokenKind::BlockMappingStart, key.mark)?;
            self.simple_key().possible = false;
            self.simple_key_allowed = false;
        } else {
            self.start_block(TokenKind::BlockMappingStart, "mapping values are not allowed in this context")?;
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.push_indicator(TokenKind::Value);
        Ok(())
    }
}
