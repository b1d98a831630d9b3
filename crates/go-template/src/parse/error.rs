//! The reasons why the parser fails.

use std::sync::Arc;

use golibs::strconv::quote;

use crate::lex::LexError;
use crate::number::NumberError;
use crate::value::Str;

/// The problem with a template's source text, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text does not form a token.
    #[error("{0}")]
    Lex(LexError),
    /// The text does not form a token, in an action that starts on an earlier line.
    #[error("{error}{} started at {name}:{line}", if *.error == LexError::UnclosedAction { "" } else { " in action" })]
    LexInAction {
        /// The problem with the token.
        error: LexError,
        /// The name of the source text.
        name: Arc<str>,
        /// The line on which the action starts, counted from 1.
        line: usize,
    },
    /// A token is in the wrong place.
    #[error("unexpected {token} in {context}")]
    Unexpected {
        /// The token as Go shows it: quoted, or `<end>` for a keyword.
        token: String,
        /// The construct that contains it, such as `range` or `define clause`.
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
    /// A `define` or a `block` contains `{{else}}`.
    #[error("unexpected {{{{else}}}} in {0}")]
    UnexpectedElseIn(&'static str),
    /// A block has a second `{{else}}`.
    #[error("expected end; found {{{{else}}}}")]
    ExpectedEnd,
    /// A `{{break}}` or `{{continue}}` is outside a range. Holds the action.
    #[error("{0} outside {{{{range}}}}")]
    OutsideRange(&'static str),
    /// Two definitions of the same template both have content.
    #[error("template: multiple definition of template {}", quote(.0))]
    MultipleDefinition(Str),
    /// A string has an invalid escape sequence.
    #[error("invalid syntax")]
    InvalidString,
    /// A number is invalid.
    #[error("{0}")]
    Number(#[from] NumberError),
    /// Blocks nest deeper than [`MAX_BLOCK_DEPTH`](crate::MAX_BLOCK_DEPTH).
    #[error("max block depth exceeded")]
    BlockDepth,
    /// Parentheses nest deeper than [`MAX_PAREN_DEPTH`](crate::MAX_PAREN_DEPTH).
    #[error("max expression depth exceeded")]
    ExpressionDepth,
    /// The trees take up more than [`MAX_TREE_BYTES`](crate::MAX_TREE_BYTES).
    #[error("limit MAX_TREE_BYTES exceeded; the text has too many actions, split it")]
    TooLarge,
    /// There are more variables than the keyword can declare.
    #[error("too many declarations in {0}")]
    TooManyDeclarations(&'static str),
    /// The comma of a `range` is followed by something other than a variable.
    #[error("range can only initialize variables")]
    RangeVariables,
    /// A pipeline, such as that of `{{if}}`, has no command.
    #[error("missing value for {0}")]
    MissingValue(&'static str),
    /// A constant follows a `|`, where it cannot receive the value. Holds the number of the command, counted from 1.
    #[error("non executable command in pipeline stage {0}")]
    NotExecutable(usize),
    /// A pipeline has no command between two `|`.
    #[error("empty command")]
    EmptyCommand,
    /// A constant has a field, such as `"a".b`. Holds the constant's source.
    #[error("unexpected . after term {}", quote(.0.as_bytes()))]
    DotAfterTerm(String),
    /// A name is neither that of a built-in function nor in the [`FuncMap`](crate::FuncMap).
    #[error("function {} not defined", quote(.0))]
    UndefinedFunction(Str),
    /// A variable is used before its declaration. Holds its name with the dollar sign.
    #[error("undefined variable {}", quote(.0))]
    UndefinedVariable(Str),
}
