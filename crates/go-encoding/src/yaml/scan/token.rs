//! What the scanner cuts the text into.

use super::super::read::Mark;

/// A piece of the text, or a place where a block begins or ends.
#[derive(Clone, Debug)]
pub(in crate::yaml) struct Token {
    pub(in crate::yaml) kind: TokenKind,
    pub(in crate::yaml) start: Mark,
}

/// The kinds of tokens, named as in libyaml.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::yaml) enum TokenKind {
    StreamStart,
    StreamEnd,
    VersionDirective { major: u8, minor: u8 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { value: String, plain: bool },
}
