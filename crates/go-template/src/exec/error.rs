//! The reasons why execution fails.

use golibs::strconv::quote;

use super::MAX_EXEC_DEPTH;
use crate::function::Param;
use crate::value::Str;

/// The reason why a node fails on its data, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The messages say it.
pub enum EvalError {
    /// A variable is used whose declaration did not run. Holds its name with the dollar sign.
    #[error("undefined variable: {0}")]
    UndefinedVariable(Str),
    /// A `range` over something that has no elements. Holds the printed value.
    #[error("range can't iterate over {0}")]
    NotIterable(String),
    /// A `range` over a number declares two variables. Holds the number.
    #[error("can't use {0} to iterate over more than one variable")]
    OneVariable(String),
    /// A `{{template}}` names a template that does not exist.
    #[error("template {} not defined", quote(.0))]
    UndefinedTemplate(Str),
    /// More than [`MAX_EXEC_DEPTH`] templates call each other.
    #[error("exceeded maximum template depth ({MAX_EXEC_DEPTH})")]
    TemplateDepth,
    /// Something that is not a function is given an argument. Holds its source.
    #[error("can't give argument to non-function {0}")]
    NotAFunction(String),
    /// `{{nil}}`.
    #[error("nil is not a command")]
    NilCommand,
    /// The operand cannot be evaluated as a command. Holds its source.
    #[error("can't evaluate command {}", quote(.0.as_bytes()))]
    NotACommand(String),
    /// An integer constant needs more than 64 bits. Holds its source.
    #[error("{0} overflows int")]
    Overflow(Str),
    /// A field of nil is read under [`MissingKey::Error`](crate::MissingKey::Error). Holds the field.
    #[error("nil data; no entry for key {}", quote(.0))]
    NilData(Str),
    /// A field of a nil value is read. Holds the field.
    #[error("nil pointer evaluating interface {{}}.{0}")]
    NilPointer(Str),
    /// The map does not have the key, under [`MissingKey::Error`](crate::MissingKey::Error). Holds the key.
    #[error("map has no entry for key {}", quote(.0))]
    MissingKey(Str),
    /// A map entry is given arguments. Holds the key.
    #[error("{0} is not a method but has arguments")]
    NotAMethod(Str),
    /// A field of a struct is given arguments. Holds the field.
    #[error("{0} has arguments but cannot be invoked as function")]
    NotInvokable(Str),
    #[error("can't evaluate field {field} in type {type_name}")]
    NoField { field: Str, type_name: String },
    /// The field's name starts with a lower-case letter.
    #[error("{field} is an unexported field of struct type {type_name}")]
    UnexportedField { field: Str, type_name: String },
    #[error("function {method} has {count} return values; should be 1 or 2")]
    ResultCount {
        method: Str,
        /// The number of values that it returns.
        count: usize,
    },
    /// The second result of the method is not an error.
    #[error("invalid function signature for {method}: second return value should be error; is {type_name}")]
    SecondResult { method: Str, type_name: &'static str },
    #[error("wrong number of args for {name}: want at least {want} got {got}")]
    TooFewArgs {
        name: Str,
        /// The number of arguments that it needs at least.
        want: usize,
        /// The number of arguments that it is given, without the one from the pipeline.
        got: usize,
    },
    #[error("wrong number of args for {name}: want {want} got {got}")]
    ArgCount { name: Str, want: usize, got: usize },
    /// An untyped nil is passed to a parameter that cannot be nil.
    #[error("invalid value; expected {}", .0.name())]
    InvalidValue(Param),
    #[error("wrong type for value; expected {}; got {got}", .expected.name())]
    WrongType { expected: Param, got: String },
    /// The constant `nil` is passed to a parameter that cannot be nil.
    #[error("cannot assign nil to {}", .0.name())]
    NilArg(Param),
    #[error("expected {expected}; found {found}")]
    WrongConstant { expected: &'static str, found: String },
    #[error("can't handle {found} for arg of type {}", .expected.name())]
    NoConstant { expected: Param, found: String },
    #[error("can't print {action} of type {type_name}")]
    NotPrintable { action: String, type_name: String },
}
