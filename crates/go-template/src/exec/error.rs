//! Why the executor failed.

use golibs::strconv::quote;

use super::MAX_EXEC_DEPTH;
use crate::function::Param;
use crate::value::Str;

/// What is wrong with a node for the data that it runs on, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// A variable whose declaration did not run. Holds the name with its dollar sign.
    #[error("undefined variable: {0}")]
    UndefinedVariable(Str),
    /// `range` over something without elements. Holds the printed value.
    #[error("range can't iterate over {0}")]
    NotIterable(String),
    /// `range` over a number with two variables. Holds the number.
    #[error("can't use {0} to iterate over more than one variable")]
    OneVariable(String),
    /// `{{template}}` of a name that no template has.
    #[error("template {} not defined", quote(.0))]
    UndefinedTemplate(Str),
    /// More than [`MAX_EXEC_DEPTH`] templates inside each other.
    #[error("exceeded maximum template depth ({MAX_EXEC_DEPTH})")]
    TemplateDepth,
    /// An argument for something that is not a function. Holds its source.
    #[error("can't give argument to non-function {0}")]
    NotAFunction(String),
    /// `{{nil}}`.
    #[error("nil is not a command")]
    NilCommand,
    /// An operand that has no value of its own. Holds its source.
    #[error("can't evaluate command {}", quote(.0.as_bytes()))]
    NotACommand(String),
    /// An integer constant that needs more than 64 bits. Holds its source.
    #[error("{0} overflows int")]
    Overflow(Str),
    /// A field of nil under [`MissingKey::Error`](crate::MissingKey::Error). Holds the field.
    #[error("nil data; no entry for key {}", quote(.0))]
    NilData(Str),
    /// A field of a nil value. Holds the field.
    #[error("nil pointer evaluating interface {{}}.{0}")]
    NilPointer(Str),
    /// A key that the map does not have, under [`MissingKey::Error`](crate::MissingKey::Error). Holds the key.
    #[error("map has no entry for key {}", quote(.0))]
    MissingKey(Str),
    /// Arguments for an entry of a map. Holds the key.
    #[error("{0} is not a method but has arguments")]
    NotAMethod(Str),
    /// Arguments for a field of a struct. Holds the field.
    #[error("{0} has arguments but cannot be invoked as function")]
    NotInvokable(Str),
    /// A field that the type does not have.
    #[error("can't evaluate field {field} in type {type_name}")]
    NoField {
        /// The field.
        field: Str,
        /// Go's name of the type.
        type_name: String,
    },
    /// A field whose name starts with a small letter.
    #[error("{field} is an unexported field of struct type {type_name}")]
    UnexportedField {
        /// The field.
        field: Str,
        /// Go's name of the type.
        type_name: String,
    },
    /// A method that returns more than a value and an error.
    #[error("function {method} has {count} return values; should be 1 or 2")]
    ResultCount {
        /// The method.
        method: Str,
        /// How many values it returns.
        count: usize,
    },
    /// A method whose second result is not an error.
    #[error("invalid function signature for {method}: second return value should be error; is {type_name}")]
    SecondResult {
        /// The method.
        method: Str,
        /// Go's name of the second result's type.
        type_name: &'static str,
    },
    /// Too few arguments for a variadic function.
    #[error("wrong number of args for {name}: want at least {want} got {got}")]
    TooFewArgs {
        /// Converts the closure.
        name: Str,
        /// How many arguments it needs.
        want: usize,
        /// How many arguments it has, without the one from the pipeline.
        got: usize,
    },
    /// Too few or too many arguments.
    #[error("wrong number of args for {name}: want {want} got {got}")]
    ArgCount {
        /// Converts the closure.
        name: Str,
        /// How many arguments it takes.
        want: usize,
        /// How many arguments it has.
        got: usize,
    },
    /// An untyped nil for a parameter that cannot be nil.
    #[error("invalid value; expected {}", .0.name())]
    InvalidValue(Param),
    /// A value of the wrong type.
    #[error("wrong type for value; expected {}; got {got}", .expected.name())]
    WrongType {
        /// The parameter's type.
        expected: Param,
        /// Go's name of the value's type.
        got: String,
    },
    /// The constant `nil` for a parameter that cannot be nil.
    #[error("cannot assign nil to {}", .0.name())]
    NilArg(Param),
    /// A constant of the wrong kind.
    #[error("expected {expected}; found {found}")]
    WrongConstant {
        /// The kind of constant that the parameter takes.
        expected: &'static str,
        /// The source of the argument.
        found: String,
    },
    /// A constant for a parameter that takes none.
    #[error("can't handle {found} for arg of type {}", .expected.name())]
    NoConstant {
        /// The parameter's type.
        expected: Param,
        /// The source of the argument.
        found: String,
    },
    /// An action whose value cannot be printed.
    #[error("can't print {action} of type {type_name}")]
    NotPrintable {
        /// The source of the action.
        action: String,
        /// Go's name of the value's type.
        type_name: String,
    },
}
