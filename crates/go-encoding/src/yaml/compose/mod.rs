//! Composes the first document of a stream from its tokens, by libyaml's grammar.
//!
//! Counterpart: libyaml's parser and yaml.v2's `parser` combined: each production creates a node instead of an event.

mod collection;

use std::collections::HashMap;

use super::error::Syntax;
use super::read::Mark;
use super::scan::{Scanner, Token, TokenKind};
use super::{MAX_DEPTH, MAX_VALUES};

type Result<T, E = Syntax> = std::result::Result<T, E>;

/// The index of a node in its [`Document`].
pub(super) type NodeId = usize;

#[derive(Debug)]
pub(super) enum Node {
    /// A scalar.
    Scalar {
        value: String,
        tag: Option<String>,
        typing: Typing,
    },
    Sequence(Vec<NodeId>),
    /// Alternating keys and values.
    Mapping(Vec<(NodeId, NodeId)>),
    Alias {
        name: String,
        target: NodeId,
    },
}

/// Whether the text of a scalar determines its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typing {
    /// It does: the scalar is plain or tagged `!`.
    Implicit,
    /// It does not: the scalar is quoted, or has another tag.
    Explicit,
}

#[derive(Debug, Default)]
pub(super) struct Document {
    nodes: Vec<Node>,
    /// The root, or `None` if the stream is empty.
    pub(super) root: Option<NodeId>,
    /// The line on which each node starts, counted from 0; empty unless asked for.
    lines: Vec<usize>,
}

impl Document {
    /// Returns the line on which a node starts, counted from 1; `None` unless lines were asked for.
    pub(super) fn line(&self, id: NodeId) -> Option<usize> {
        self.lines.get(id).map(|line| line + 1)
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate()
    }
}

/// Composes the first document of the stream, which may have at most this many nodes.
pub(super) fn first_document(input: &[u8], most: usize) -> Result<Document> {
    compose(input, most, Lines::Drop)
}

/// Composes like [`first_document`], and keeps the line of each node.
pub(super) fn first_document_with_lines(input: &[u8]) -> Result<Document> {
    compose(input, MAX_VALUES, Lines::Keep)
}

/// Whether the lines of nodes are kept. Only people need them.
#[derive(Clone, Copy, PartialEq)]
enum Lines {
    Keep,
    Drop,
}

fn compose(input: &[u8], most: usize, lines: Lines) -> Result<Document> {
    let mut composer = Composer {
        most,
        lines,
        line: 0,
        scanner: Scanner::new(input),
        document: Document::default(),
        anchors: HashMap::new(),
        tags: HashMap::new(),
    };
    composer.scanner.take()?;
    if composer.scanner.peek()?.kind != TokenKind::StreamEnd {
        composer.document.root = Some(composer.document()?);
    }
    Ok(composer.document)
}

struct Composer<'a> {
    /// Maximum number of nodes of the document.
    most: usize,
    lines: Lines,
    /// The line on which the current node starts, counted from 0.
    line: usize,
    scanner: Scanner<'a>,
    document: Document,
    anchors: HashMap<String, NodeId>,
    /// Tag handles and their prefixes.
    tags: HashMap<String, String>,
}

/// The anchor and tag before a node.
#[derive(Default)]
struct Properties {
    anchor: Option<String>,
    tag: Option<(Token, String)>,
}

fn error(problem: impl Into<std::borrow::Cow<'static, str>>, at: Mark) -> Syntax {
    Syntax { line: at.line, problem: problem.into() }
}

impl Composer<'_> {
    fn document(&mut self) -> Result<NodeId> {
        let root = match self.scanner.peek()?.kind {
            TokenKind::VersionDirective { .. } | TokenKind::TagDirective { .. } | TokenKind::DocumentStart => {
                self.directives()?;
                let start = self.scanner.peek()?;
                if start.kind != TokenKind::DocumentStart {
                    return Err(error("did not find expected <document start>", start.start));
                }
                self.scanner.take()?;
                self.document_content()?
            }
            _ => {
                self.add_default_tags();
                self.node()?
            }
        };
        // yaml.v2 also reads the end of the document, so a scanner error there fails this document too.
        self.scanner.peek()?;
        Ok(root)
    }

    fn document_content(&mut self) -> Result<NodeId> {
        match self.scanner.peek()?.kind {
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => Ok(self.empty()),
            _ => self.node(),
        }
    }

    fn directives(&mut self) -> Result<()> {
        let mut versioned = false;
        while let TokenKind::VersionDirective { .. } | TokenKind::TagDirective { .. } = self.scanner.peek()?.kind {
            let token = self.scanner.take()?;
            match token.kind {
                TokenKind::VersionDirective { .. } if versioned => {
                    return Err(error("found duplicate %YAML directive", token.start));
                }
                TokenKind::VersionDirective { major: 1, minor: 1 } => versioned = true,
                TokenKind::VersionDirective { .. } => {
                    return Err(error("found incompatible YAML document", token.start));
                }
                TokenKind::TagDirective { handle, prefix } => self.add_tag(handle, prefix, token.start)?,
                _ => {}
            }
        }
        self.add_default_tags();
        Ok(())
    }

    fn add_tag(&mut self, handle: String, prefix: String, at: Mark) -> Result<()> {
        match self.tags.insert(handle, prefix) {
            Some(_) => Err(error("found duplicate %TAG directive", at)),
            None => Ok(()),
        }
    }

    fn add_default_tags(&mut self) {
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            self.tags.entry(handle.to_owned()).or_insert_with(|| prefix.to_owned());
        }
    }

    fn add(&mut self, node: Node) -> NodeId {
        self.document.nodes.push(node);
        if self.lines == Lines::Keep {
            self.document.lines.push(self.line);
        }
        self.document.nodes.len() - 1
    }

    fn empty(&mut self) -> NodeId {
        self.add(Node::Scalar { value: String::new(), tag: None, typing: Typing::Implicit })
    }

    /// Composes a node and its descendants. Open collections are kept on a separate stack, so nesting does not recurse.
    fn node(&mut self) -> Result<NodeId> {
        let mut open: Vec<Collection> = Vec::new();
        let mut next = self.begin(BLOCK)?;
        loop {
            match next {
                Next::Open(collection) => {
                    if open.len() >= MAX_DEPTH {
                        let start = self.scanner.peek()?.start;
                        return Err(error(format!("exceeded max depth of {MAX_DEPTH}"), start));
                    }
                    open.push(collection);
                }
                Next::Done(id) => match open.last_mut() {
                    Some(collection) => collection.add(id),
                    None => return Ok(id),
                },
            }
            next = match open.last_mut() {
                Some(collection) => match self.advance(collection)? {
                    Some(next) => next,
                    None => self.close(open.pop()),
                },
                None => Next::Done(self.empty()),
            };
        }
    }

    /// Starts a node. A scalar or alias is complete immediately; a collection stays open.
    fn begin(&mut self, place: Allowed) -> Result<Next> {
        if self.document.nodes.len() >= self.most {
            let start = self.scanner.peek()?.start;
            return Err(error(format!("exceeded limit MAX_VALUES of {}", self.most), start));
        }
        let token = self.scanner.peek()?;
        let line = token.start.line;
        let alias = if let TokenKind::Alias(name) = &token.kind { Some(name.clone()) } else { None };
        self.line = line;
        if let Some(name) = alias {
            return self.alias(name).map(Next::Done);
        }
        let properties = self.properties()?;
        let tag = self.resolve_tag(properties.tag)?;
        let anchor = properties.anchor;
        let token = self.scanner.peek()?;
        let start = token.start;
        let kind = match &token.kind {
            TokenKind::BlockEntry if place.indentless => Kind::IndentlessSequence,
            TokenKind::FlowSequenceStart => Kind::FlowSequence,
            TokenKind::FlowMappingStart => Kind::FlowMapping,
            TokenKind::BlockSequenceStart if place.block => Kind::BlockSequence,
            TokenKind::BlockMappingStart if place.block => Kind::BlockMapping,
            TokenKind::Scalar { .. } => return self.scalar(anchor, tag).map(Next::Done),
            _ if anchor.is_some() || tag.is_some() => return Ok(Next::Done(self.bare_properties(anchor, tag))),
            _ => return Err(error("did not find expected node content", start)),
        };
        if kind != Kind::IndentlessSequence {
            self.scanner.take()?;
        }
        Ok(self.open(kind, anchor))
    }

    /// Adds the empty scalar that an anchor or tag without a node denotes.
    fn bare_properties(&mut self, anchor: Option<String>, tag: Option<String>) -> NodeId {
        let typing = if tag.is_none() { Typing::Implicit } else { Typing::Explicit };
        let id = self.add(Node::Scalar { value: String::new(), tag, typing });
        self.set_anchor(anchor, id);
        id
    }

    fn alias(&mut self, name: String) -> Result<NodeId> {
        let Some(&target) = self.anchors.get(&name) else {
            return Err(Syntax { line: 0, problem: format!("unknown anchor '{name}' referenced").into() });
        };
        self.scanner.take()?;
        Ok(self.add(Node::Alias { name, target }))
    }

    fn set_anchor(&mut self, anchor: Option<String>, id: NodeId) {
        if let Some(name) = anchor {
            self.anchors.insert(name, id);
        }
    }

    /// Reads an anchor, a tag, or both in either order.
    fn properties(&mut self) -> Result<Properties> {
        let mut properties = Properties::default();
        loop {
            match &self.scanner.peek()?.kind {
                TokenKind::Anchor(_) if properties.anchor.is_none() => {}
                TokenKind::Tag { .. } if properties.tag.is_none() => {}
                _ => return Ok(properties),
            }
            let token = self.scanner.take()?;
            match token.kind.clone() {
                TokenKind::Anchor(name) => properties.anchor = Some(name),
                TokenKind::Tag { handle, .. } => properties.tag = Some((token, handle)),
                _ => return Ok(properties),
            }
        }
    }

    fn resolve_tag(&self, tag: Option<(Token, String)>) -> Result<Option<String>> {
        let Some((token, handle)) = tag else { return Ok(None) };
        let TokenKind::Tag { suffix, .. } = token.kind else { return Ok(None) };
        if handle.is_empty() {
            return Ok(Some(suffix).filter(|tag| !tag.is_empty()));
        }
        match self.tags.get(&handle) {
            Some(prefix) => Ok(Some(format!("{prefix}{suffix}"))),
            None => Err(error("found undefined tag handle", token.start)),
        }
    }

    fn scalar(&mut self, anchor: Option<String>, tag: Option<String>) -> Result<NodeId> {
        let TokenKind::Scalar { value, plain } = self.scanner.take()?.kind else { return Ok(self.empty()) };
        let typing = match tag.as_deref() {
            None if plain => Typing::Implicit,
            Some("!") => Typing::Implicit,
            _ => Typing::Explicit,
        };
        let id = self.add(Node::Scalar { value, tag, typing });
        self.set_anchor(anchor, id);
        Ok(id)
    }
}

/// The kinds of nodes that a position allows.
#[derive(Clone, Copy)]
struct Allowed {
    /// Whether block collections are allowed.
    block: bool,
    /// Whether a sequence without indentation is allowed, as for a key's value.
    indentless: bool,
}

const BLOCK: Allowed = Allowed { block: true, indentless: false };
const BLOCK_VALUE: Allowed = Allowed { block: true, indentless: true };
const FLOW: Allowed = Allowed { block: false, indentless: false };

/// The result of a step.
enum Next {
    Done(NodeId),
    Open(Collection),
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    BlockSequence,
    IndentlessSequence,
    BlockMapping,
    FlowSequence,
    FlowMapping,
    /// `key: value` in a flow sequence.
    FlowPair,
}

struct Collection {
    id: NodeId,
    kind: Kind,
    items: Vec<NodeId>,
    entries: Vec<(NodeId, NodeId)>,
    key: Option<NodeId>,
    /// Whether the key of a flow mapping has no value.
    lone_key: bool,
}

impl Collection {
    fn add(&mut self, id: NodeId) {
        match self.kind {
            Kind::BlockSequence | Kind::IndentlessSequence | Kind::FlowSequence => self.items.push(id),
            _ => match self.key.take() {
                None => self.key = Some(id),
                Some(key) => self.entries.push((key, id)),
            },
        }
    }
}
