//! Splits YAML into tokens, including block structure. Counterpart: libyaml's scanner in yaml.v2, with its limits and messages.
//!
//! `scalar.rs` scans plain, quoted and block scalars, `property.rs` anchors, tags and directives, and `indicator.rs` tokens of a few characters;
//! `block.rs` finds the structure that only `:` and indentation show.

mod block;
mod indicator;
mod property;
mod scalar;
mod token;

use std::borrow::Cow;
use std::collections::VecDeque;

pub(super) use token::{Token, TokenKind};

use super::error::Syntax;
use super::read::{Mark, Reader};
use golibs::work::note_work;
use scalar::{BlockStyle, Quotes};

/// Maximum length of a key without `?`, in characters.
pub(super) const MAX_SIMPLE_KEY: usize = 1024;

/// Levels per step: each token looks for a key in all flow collections around it.
const LEVELS_PER_STEP: usize = 32;

/// A token that becomes a key if `:` follows it on its line.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    /// Whether the key is lost: yaml.v2 forgets the possible key `[]` or `{}`, because it does not wait for the colon, and then emits tokens out of
    /// order.
    lost: bool,
    token: usize,
    mark: Mark,
}

/// The tokens of a text, scanned on demand.
pub(super) struct Scanner<'a> {
    reader: Reader<'a>,
    tokens: VecDeque<Token>,
    taken: usize,
    started: bool,
    ended: bool,
    flow_level: usize,
    /// The column of the enclosing block collection, or -1 outside any.
    indent: isize,
    indents: Vec<isize>,
    simple_key_allowed: bool,
    /// The possible keys, one per flow level, innermost last.
    simple_keys: Vec<SimpleKey>,
}

type Result<T = (), E = Syntax> = std::result::Result<T, E>;

impl<'a> Scanner<'a> {
    pub(super) fn new(input: &'a [u8]) -> Scanner<'a> {
        Scanner {
            reader: Reader::new(input),
            tokens: VecDeque::new(),
            taken: 0,
            started: false,
            ended: false,
            flow_level: 0,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
        }
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&mut self) -> Result<&Token> {
        while self.must_look_ahead()? {
            self.fetch_next()?;
        }
        // After its end, the stream contains only end tokens.
        if self.tokens.is_empty() {
            let start = self.reader.mark;
            self.tokens.push_back(Token { kind: TokenKind::StreamEnd, start });
        }
        Ok(&self.tokens[0])
    }

    /// Consumes the next token.
    pub(super) fn take(&mut self) -> Result<Token> {
        self.peek()?;
        self.taken += 1;
        Ok(self.tokens.pop_front().unwrap_or(Token { kind: TokenKind::StreamEnd, start: self.reader.mark }))
    }

    /// Returns whether the queue is empty, or a KEY token may still have to be inserted before its first token.
    fn must_look_ahead(&mut self) -> Result<bool> {
        if self.tokens.is_empty() {
            return Ok(!self.ended);
        }
        let first = self.taken;
        note_work((self.simple_keys.len() / LEVELS_PER_STEP) as u64);
        // Inner levels opened later, so their keys have higher numbers.
        let candidate = self.simple_keys.iter().rposition(|key| key.possible && key.token <= first);
        match candidate {
            Some(i) if self.simple_keys[i].token == first && !self.simple_keys[i].lost => self.is_valid_key(i),
            _ => Ok(false),
        }
    }

    fn fetch_next(&mut self) -> Result {
        self.reader.need(1)?;
        if !self.started {
            self.started = true;
            self.push(TokenKind::StreamStart, self.reader.mark);
            return Ok(());
        }
        self.scan_to_next_token()?;
        self.unroll_indent(self.reader.mark.column as isize);
        self.reader.need(4)?;
        if self.reader.mark.column == 0 && self.fetch_at_line_start()? {
            return Ok(());
        }
        self.fetch_by_first_byte()
    }

    fn fetch_at_line_start(&mut self) -> Result<bool> {
        if self.reader.peek(0) == b'%' {
            self.fetch_directive()?;
        } else if self.reader.at_indicator(b'-') {
            self.fetch_document_indicator(TokenKind::DocumentStart)?;
        } else if self.reader.at_indicator(b'.') {
            self.fetch_document_indicator(TokenKind::DocumentEnd)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn fetch_by_first_byte(&mut self) -> Result {
        let in_flow = self.flow_level > 0;
        let blank_follows = self.reader.is_blankz(1);
        match self.reader.peek(0) {
            0 => self.fetch_stream_end(),
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if blank_follows => self.fetch_block_entry(),
            b'?' if in_flow || blank_follows => self.fetch_key(),
            b':' if in_flow || blank_follows => self.fetch_value(),
            b'*' => self.fetch_anchor(TokenKind::Alias),
            b'&' => self.fetch_anchor(TokenKind::Anchor),
            b'!' => self.fetch_tag(),
            b'|' if !in_flow => self.fetch_block_scalar(BlockStyle::Literal),
            b'>' if !in_flow => self.fetch_block_scalar(BlockStyle::Folded),
            b'\'' => self.fetch_quoted_scalar(Quotes::Single),
            b'"' => self.fetch_quoted_scalar(Quotes::Double),
            b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => {
                Err(self.error("found character that cannot start any token"))
            }
            _ => self.fetch_plain_scalar(),
        }
    }

    /// Returns an error at the current position. yaml.v2 does not name the first line.
    fn error(&self, problem: impl Into<Cow<'static, str>>) -> Syntax {
        let line = self.reader.mark.line;
        Syntax { line: if line == 0 { 0 } else { line + 1 }, problem: problem.into() }
    }

    fn push(&mut self, kind: TokenKind, start: Mark) {
        self.tokens.push_back(Token { kind, start });
    }

    /// Skips blanks, comments and line breaks. A tab must not precede a possible key.
    fn scan_to_next_token(&mut self) -> Result {
        loop {
            self.reader.need(1)?;
            if self.reader.at_leading_bom() {
                self.reader.skip();
            }
            self.reader.need(1)?;
            let tabs = self.flow_level > 0 || !self.simple_key_allowed;
            while self.reader.peek(0) == b' ' || (tabs && self.reader.peek(0) == b'\t') {
                self.reader.skip();
                self.reader.need(1)?;
            }
            self.skip_comment()?;
            if !self.reader.is_break(0) {
                return Ok(());
            }
            self.reader.need(2)?;
            self.reader.skip_line();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    fn skip_comment(&mut self) -> Result {
        if self.reader.peek(0) == b'#' {
            while !self.reader.is_breakz(0) {
                self.reader.skip();
                self.reader.need(1)?;
            }
        }
        Ok(())
    }

    fn skip_blanks(&mut self) -> Result {
        while super::read::is_blank(self.reader.peek(0)) {
            self.reader.skip();
            self.reader.need(1)?;
        }
        Ok(())
    }
}
