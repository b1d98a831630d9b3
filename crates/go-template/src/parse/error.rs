//! Why the parser failed.

use std::sync::Arc;

use golibs::strconv::quote;

use crate::lex::LexError;
use crate::number::NumberError;
use crate::value::Str;

/// What is wrong with the source text of a template, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Text that is not a token.
    #[error("{0}")]
    Lex(LexError),
    /// Text that is not a token, in an action that started on an earlier line.
    #[error("{error}{} started at {name}:{line}", if *.error == LexError::UnclosedAction { "" } else { " in action" })]
    LexInAction {
        /// What is wrong with the token.
        error: LexError,
        /// The name of the source text.
        name: Arc<str>,
        /// The line that the action starts on, from 1.
        line: usize,
    },
    /// A token in the wrong place.
    #[error("unexpected {token} in {context}")]
    Unexpected {
        /// The token as Go shows it: quoted, or `<end>` for a keyword.
        token: String,
        /// What it stands in, such as `range` or `define clause`.
        context: &'static str,
    },
    /// The source text ends inside a block.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// `{{end}}` without a block.
    #[error("unexpected {{{{end}}}}")]
    UnexpectedEnd,
    /// `{{else}}` without a block.
    #[error("unexpected {{{{else}}}}")]
    UnexpectedElse,
    /// `{{else}}` in a `define` or a `block`.
    #[error("unexpected {{{{else}}}} in {0}")]
    UnexpectedElseIn(&'static str),
    /// A second `{{else}}` in a block.
    #[error("expected end; found {{{{else}}}}")]
    ExpectedEnd,
    /// `{{break}}` or `{{continue}}`, which this holds, outside a range.
    #[error("{0} outside {{{{range}}}}")]
    OutsideRange(&'static str),
    /// Two definitions of one template that both have content.
    #[error("template: multiple definition of template {}", quote(.0))]
    MultipleDefinition(Str),
    /// A string with an invalid escape sequence.
    #[error("invalid syntax")]
    InvalidString,
    /// A number that cannot be read.
    #[error("{0}")]
    Number(#[from] NumberError),
    /// More than [`MAX_BLOCK_DEPTH`](crate::MAX_BLOCK_DEPTH) nested blocks.
    #[error("max block depth exceeded")]
    BlockDepth,
    /// More than [`MAX_PAREN_DEPTH`](crate::MAX_PAREN_DEPTH) nested parentheses.
    #[error("max expression depth exceeded")]
    ExpressionDepth,
    /// The trees take more than [`MAX_TREE_BYTES`](crate::MAX_TREE_BYTES).
    #[error("limit MAX_TREE_BYTES exceeded; the text has too many actions, split it")]
    TooLarge,
    /// More variables than the keyword can declare.
    #[error("too many declarations in {0}")]
    TooManyDeclarations(&'static str),
    /// Something other than a variable after the comma of a `range`.
    #[error("range can only initialize variables")]
    RangeVariables,
    /// A pipeline without a command, such as `{{if}}`.
    #[error("missing value for {0}")]
    MissingValue(&'static str),
    /// A constant that would have to take the value of the pipeline. Holds the number of the command, from 1.
    #[error("non executable command in pipeline stage {0}")]
    NotExecutable(usize),
    /// A pipeline with nothing between two bars.
    #[error("empty command")]
    EmptyCommand,
    /// A field of a constant, such as `"a".b`. Holds the constant's source.
    #[error("unexpected . after term {}", quote(.0.as_bytes()))]
    DotAfterTerm(String),
    /// A name that is neither a built-in function nor in the [`FuncMap`](crate::FuncMap).
    #[error("function {} not defined", quote(.0))]
    UndefinedFunction(Str),
    /// A variable that is used before its declaration. Holds the name with its dollar sign.
    #[error("undefined variable {}", quote(.0))]
    UndefinedVariable(Str),
}
