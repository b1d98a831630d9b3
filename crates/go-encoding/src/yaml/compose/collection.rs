//! Composes collections, in block and flow style. Each is registered before its children, so that an alias inside it finds its anchor.

use super::{BLOCK, BLOCK_VALUE, Collection, Composer, FLOW, Kind, Next, Node, Result, error};
use crate::yaml::scan::TokenKind;

impl Composer<'_> {
    pub(super) fn open(&mut self, kind: Kind, anchor: Option<String>) -> Next {
        let id = self.add(Node::Sequence(Vec::new()));
        self.set_anchor(anchor, id);
        Next::Open(Collection { id, kind, items: Vec::new(), entries: Vec::new(), key: None, lone_key: false })
    }

    pub(super) fn close(&mut self, collection: Option<Collection>) -> Next {
        let Some(collection) = collection else { return Next::Done(self.empty()) };
        self.document.nodes[collection.id] = match collection.kind {
            Kind::BlockSequence | Kind::IndentlessSequence | Kind::FlowSequence => Node::Sequence(collection.items),
            _ => Node::Mapping(collection.entries),
        };
        Next::Done(collection.id)
    }

    /// Starts the collection's next child; returns `None` at its end.
    pub(super) fn advance(&mut self, collection: &mut Collection) -> Result<Option<Next>> {
        match collection.kind {
            Kind::BlockSequence => self.block_sequence(),
            Kind::IndentlessSequence => self.indentless_sequence(),
            Kind::BlockMapping if collection.key.is_none() => self.block_mapping_key(),
            Kind::BlockMapping => self.block_mapping_value().map(Some),
            Kind::FlowSequence => self.flow_sequence(collection),
            Kind::FlowMapping if collection.key.is_none() => self.flow_mapping_key(collection),
            Kind::FlowMapping if collection.lone_key => self.lone_key_value(collection),
            Kind::FlowMapping => self.flow_value(&TokenKind::FlowMappingEnd).map(Some),
            Kind::FlowPair if !collection.entries.is_empty() => self.scanner.peek().map(|_| None),
            Kind::FlowPair if collection.key.is_none() => self.flow_pair_key().map(Some),
            Kind::FlowPair => self.flow_value(&TokenKind::FlowSequenceEnd).map(Some),
        }
    }

    fn block_sequence(&mut self) -> Result<Option<Next>> {
        let token = self.scanner.peek()?;
        let start = token.start;
        match token.kind {
            TokenKind::BlockEntry => {}
            TokenKind::BlockEnd => return self.scanner.take().map(|_| None),
            _ => return Err(error("did not find expected '-' indicator", start)),
        }
        self.scanner.take()?;
        match self.scanner.peek()?.kind {
            TokenKind::BlockEntry | TokenKind::BlockEnd => Ok(Some(Next::Done(self.empty()))),
            _ => self.begin(BLOCK).map(Some),
        }
    }

    fn indentless_sequence(&mut self) -> Result<Option<Next>> {
        if self.scanner.peek()?.kind != TokenKind::BlockEntry {
            return Ok(None);
        }
        self.scanner.take()?;
        match self.scanner.peek()?.kind {
            TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                Ok(Some(Next::Done(self.empty())))
            }
            _ => self.begin(BLOCK).map(Some),
        }
    }

    fn block_mapping_key(&mut self) -> Result<Option<Next>> {
        let token = self.scanner.peek()?;
        let start = token.start;
        match token.kind {
            TokenKind::Key => {}
            TokenKind::BlockEnd => return self.scanner.take().map(|_| None),
            _ => return Err(error("did not find expected key", start)),
        }
        self.scanner.take()?;
        self.block_mapping_part().map(Some)
    }

    fn block_mapping_value(&mut self) -> Result<Next> {
        if self.scanner.peek()?.kind != TokenKind::Value {
            return Ok(Next::Done(self.empty()));
        }
        self.scanner.take()?;
        self.block_mapping_part()
    }

    fn block_mapping_part(&mut self) -> Result<Next> {
        match self.scanner.peek()?.kind {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => Ok(Next::Done(self.empty())),
            _ => self.begin(BLOCK_VALUE),
        }
    }

    fn flow_sequence(&mut self, collection: &Collection) -> Result<Option<Next>> {
        let first = collection.items.is_empty();
        if !self.flow_entry_follows(TokenKind::FlowSequenceEnd, first, "did not find expected ',' or ']'")? {
            return self.scanner.take().map(|_| None);
        }
        if self.scanner.peek()?.kind != TokenKind::Key {
            return self.begin(FLOW).map(Some);
        }
        self.scanner.take()?;
        Ok(Some(self.open(Kind::FlowPair, None)))
    }

    /// Reads the comma between entries; returns whether another entry follows.
    fn flow_entry_follows(&mut self, end: TokenKind, first: bool, problem: &'static str) -> Result<bool> {
        let token = self.scanner.peek()?;
        if token.kind == end {
            return Ok(false);
        }
        if !first {
            if token.kind != TokenKind::FlowEntry {
                return Err(error(problem, token.start));
            }
            self.scanner.take()?;
        }
        Ok(self.scanner.peek()?.kind != end)
    }

    fn flow_pair_key(&mut self) -> Result<Next> {
        match self.scanner.peek()?.kind {
            // libyaml drops this token, so `[? : x]` parses oddly. We must reproduce it.
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd => {
                self.scanner.take()?;
                Ok(Next::Done(self.empty()))
            }
            _ => self.begin(FLOW),
        }
    }

    fn flow_mapping_key(&mut self, collection: &mut Collection) -> Result<Option<Next>> {
        let first = collection.entries.is_empty();
        if !self.flow_entry_follows(TokenKind::FlowMappingEnd, first, "did not find expected ',' or '}'")? {
            return self.scanner.take().map(|_| None);
        }
        collection.lone_key = self.scanner.peek()?.kind != TokenKind::Key;
        if collection.lone_key {
            return self.begin(FLOW).map(Some);
        }
        self.scanner.take()?;
        match self.scanner.peek()?.kind {
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd => Ok(Some(Next::Done(self.empty()))),
            _ => self.begin(FLOW).map(Some),
        }
    }

    fn lone_key_value(&mut self, collection: &mut Collection) -> Result<Option<Next>> {
        collection.lone_key = false;
        self.scanner.peek()?;
        Ok(Some(Next::Done(self.empty())))
    }

    fn flow_value(&mut self, end: &TokenKind) -> Result<Next> {
        if self.scanner.peek()?.kind != TokenKind::Value {
            return Ok(Next::Done(self.empty()));
        }
        self.scanner.take()?;
        let kind = &self.scanner.peek()?.kind;
        if *kind == TokenKind::FlowEntry || kind == end { Ok(Next::Done(self.empty())) } else { self.begin(FLOW) }
    }
}
