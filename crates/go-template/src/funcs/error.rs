//! The reasons why built-in functions fail.

use crate::function::Param;
use crate::value::Str;

/// The problem with the arguments of a built-in function, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The messages say it.
pub enum BuiltinError {
    /// `index nil`.
    #[error("index of untyped nil")]
    IndexOfNil,
    /// `index` into an element that is nil.
    #[error("index of nil pointer")]
    IndexOfNilPointer,
    /// `index` into a value without elements. Holds Go's name for its type.
    #[error("can't index item of type {0}")]
    NotIndexable(String),
    /// The index of a list equals its length.
    #[error("reflect: slice index out of range")]
    EndOfSlice,
    /// The index of a string equals its length.
    #[error("reflect: string index out of range")]
    EndOfString,
    /// A negative index, or one beyond the length.
    #[error("index out of range: {0}")]
    IndexOutOfRange(i64),
    #[error("cannot index slice/array with nil")]
    NilIndex,
    /// An index is not an integer. Holds Go's name for its type.
    #[error("cannot index slice/array with type {0}")]
    IndexType(String),
    #[error(transparent)]
    Key(ArgError),
    /// `slice nil`.
    #[error("slice of untyped nil")]
    SliceOfNil,
    /// `slice` of a value that is neither a list nor a string. Holds Go's name for its type.
    #[error("can't slice item of type {0}")]
    NotSliceable(String),
    /// `slice` with more than three indexes.
    #[error("too many slice indexes: {0}")]
    TooManyIndexes(usize),
    /// `slice` of a string with three indexes.
    #[error("cannot 3-index slice a string")]
    ThreeIndexString,
    /// `slice` with an index greater than the next one.
    #[error("invalid slice index: {0} > {1}")]
    SliceOrder(usize, usize),
    /// `len nil`.
    #[error("reflect: call of reflect.Value.Type on zero Value")]
    LenOfNil,
    /// `len` of an element that is nil.
    #[error("len of nil pointer")]
    LenOfNilPointer,
    /// `len` of a value without a length. Holds Go's name for its type.
    #[error("len of type {0}")]
    NoLength(String),
    /// `call nil`.
    #[error("call of nil")]
    CallOfNil,
    /// `call` of a value that is not a function.
    #[error("non-function {name} of type {type_name}")]
    NotAFunction { name: String, type_name: String },
    #[error("wrong number of args for {name}: got {got} want at least {want}")]
    TooFewArgs { name: String, got: usize, want: usize },
    /// `call` with too few or too many arguments.
    #[error("wrong number of args for {name}: got {got} want {want}")]
    ArgCount { name: String, got: usize, want: usize },
    /// `call` with an argument of the wrong type.
    #[error("arg {index}: {error}")]
    Arg {
        /// The argument, counted from 0.
        index: usize,
        error: ArgError,
    },
    /// The [`Object`](crate::Object) has a signature for the method but does not implement it.
    #[error("method {0} is missing")]
    MissingMethod(Str),
    /// `eq` or `ne` with one argument.
    #[error("missing argument for comparison")]
    MissingOperand,
    /// `lt` or one of its relatives with values that have no order.
    #[error("invalid type for comparison")]
    NotOrdered,
    /// Values of basic types that cannot be compared with each other. Holds Go's names for their types.
    #[error("incompatible types for comparison: {0} and {1}")]
    Incompatible(String, String),
    /// Values that cannot be compared at all. Holds Go's message, which prints the values.
    #[error("{0}")]
    NotComparable(String),
}

/// The reason why a value cannot be converted to the type of a parameter, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgError {
    /// Nil is passed to a parameter that cannot be nil.
    #[error("value is nil; should be of type {}", .0.name())]
    Nil(Param),
    /// A value has the wrong type.
    #[error("value has type {got}; should be {}", .expected.name())]
    Type {
        /// Go's name for the value's type.
        got: String,
        /// The parameter's type.
        expected: Param,
    },
}
