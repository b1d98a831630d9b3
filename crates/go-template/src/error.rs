//! Errors as data: template, line, column, context and cause. `Display` prints Go's messages.

use std::fmt;
use std::sync::Arc;

pub use crate::exec::EvalError;
pub use crate::funcs::{ArgError, BuiltinError};
pub use crate::lex::LexError;
pub use crate::number::NumberError;
pub use crate::parse::ParseErrorKind;
use crate::stack;
use golibs::strconv::quote;
use golibs::work::Exhausted;

/// Source text that failed to parse. Displays as in Go: `template: NAME:LINE: kind`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template: {name}:{line}: {kind}")]
pub struct ParseError {
    /// The name of the source text.
    pub name: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The problem.
    pub kind: ParseErrorKind,
}

/// The reason why a function or method failed. The executor adds the function's name and the location.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FuncError {
    /// The function's own message, like Go's `error.Error()`.
    #[error("{0}")]
    Message(String),
    /// A built-in function rejected its arguments.
    #[error("{0}")]
    Builtin(Box<BuiltinError>),
    /// Another template, which the function executed, failed.
    #[error("{0}")]
    Template(Box<ExecError>),
    /// Source text that the function parsed is not a valid template.
    #[error("{0}")]
    Parse(Box<ParseError>),
    /// The set has no template with this name.
    #[error("template: no template {} associated with template {}", quote(.name.as_bytes()), quote(.set.as_bytes()))]
    NoTemplate {
        /// The missing template.
        name: String,
        /// The name of the set.
        set: String,
    },
    /// Another error, prefixed with a message, like Go's `fmt.Errorf("…: %w", err)`.
    #[error("{message}: {source}")]
    Context {
        /// The message.
        message: String,
        /// The error.
        source: Box<FuncError>,
    },
    /// The run exceeded a limit.
    #[error("{0}")]
    Limit(LimitError),
}

impl FuncError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> FuncError {
        FuncError::Message(message.into())
    }

    /// Prefixes the error with a message.
    pub fn context(self, message: impl Into<String>) -> FuncError {
        FuncError::Context { message: message.into(), source: Box::new(self) }
    }

    /// Returns the limit that caused this error, if one did.
    pub fn limit(&self) -> Option<&LimitError> {
        match self {
            FuncError::Limit(limit) => Some(limit),
            FuncError::Template(error) => error.limit(),
            FuncError::Context { source, .. } => source.limit(),
            FuncError::Message(_) | FuncError::Builtin(_) | FuncError::Parse(_) | FuncError::NoTemplate { .. } => None,
        }
    }
}

impl From<String> for FuncError {
    fn from(message: String) -> Self {
        FuncError::Message(message)
    }
}

impl From<&str> for FuncError {
    fn from(message: &str) -> Self {
        FuncError::Message(message.into())
    }
}

impl From<ParseError> for FuncError {
    fn from(error: ParseError) -> Self {
        FuncError::Parse(Box::new(error))
    }
}

impl From<BuiltinError> for FuncError {
    fn from(error: BuiltinError) -> Self {
        FuncError::Builtin(Box::new(error))
    }
}

/// The executor replaces this error with the error of the limit.
impl From<Exhausted> for FuncError {
    fn from(exhausted: Exhausted) -> Self {
        FuncError::Message(exhausted.to_string())
    }
}

impl From<LimitError> for FuncError {
    fn from(error: LimitError) -> Self {
        FuncError::Limit(error)
    }
}

/// An exceeded limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit {name} exceeded: {message}")]
pub struct LimitError {
    /// The limit's name, such as `steps`.
    pub name: &'static str,
    /// The limit and how to stay within it, in words for people.
    pub message: String,
}

/// A location in a source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name of the source text, which may define several templates.
    pub name: Arc<str>,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in bytes, counted from 0 as in Go.
    pub column: usize,
}

/// A template that failed during execution.
///
/// Displays as in Go: `template: NAME:1:5: executing "NAME" at <.x>: cause`.
#[derive(Clone, Debug)]
pub struct ExecError {
    /// The name of the template.
    pub template: String,
    /// The location, or `None` if the template failed before its first node.
    pub location: Option<Location>,
    /// The source of the node that failed.
    pub context: String,
    /// The cause.
    pub cause: Cause,
}

/// The reason why a node failed.
#[derive(Clone, Debug)]
pub enum Cause {
    /// The node cannot be evaluated on its data.
    Eval(EvalError),
    /// A function or method failed.
    Call {
        /// The function's name.
        function: String,
        /// The function's error.
        error: FuncError,
    },
    /// The run exceeded a limit.
    Limit(LimitError),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Eval(error) => error.fmt(f),
            Cause::Call { function, error } => write!(f, "error calling {function}: {error}"),
            Cause::Limit(limit) => limit.fmt(f),
        }
    }
}

impl ExecError {
    /// Returns the limit that caused this error, if one did.
    pub fn limit(&self) -> Option<&LimitError> {
        match &self.cause {
            Cause::Eval(_) => None,
            Cause::Call { error, .. } => stack::grow(|| error.limit()),
            Cause::Limit(limit) => Some(limit),
        }
    }
}

/// Errors nest as deeply as executions, so displaying them may need more stack.
impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        stack::grow(|| self.write_to(f))
    }
}

impl ExecError {
    fn write_to(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Location { name, line, column }) = &self.location else {
            return write!(f, "template: {}: {}", self.template, self.cause);
        };
        let executing = quote(self.template.as_bytes());
        write!(f, "template: {name}:{line}:{column}: executing {executing} at <{}>: {}", self.context, self.cause)
    }
}

impl std::error::Error for ExecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Eval(error) => Some(error),
            Cause::Call { error, .. } => Some(error),
            Cause::Limit(limit) => Some(limit),
        }
    }
}
