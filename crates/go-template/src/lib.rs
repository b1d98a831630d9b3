#![doc = include_str!("../README.md")]

mod changed;
pub mod error;
pub mod escape;
mod exec;
pub mod fmt;
mod funcs;
mod function;
mod held;
mod item;
mod lex;
mod limits;
pub mod node;
mod number;
mod outline;
mod parse;
mod reflect;
mod scope;
mod scratch;
mod stack;
mod template;
pub mod time;
mod value;

pub use error::{Cause, ExecError, FuncError, LimitError, Location, ParseError};
pub use exec::MAX_EXEC_DEPTH;
pub use function::{FromValue, FuncMap, Function, IntoFunction, IntoReturn, Param, Rest};
pub use limits::{Limits, Spent};
pub use node::Tree;
pub use outline::{Block, BlockDot, Expression, Part, Pipeline};
pub use parse::{MAX_BLOCK_DEPTH, MAX_PAREN_DEPTH, MAX_TREE_BYTES, Parsed, parse};
pub use scope::{MissingKey, Options, Scope, ValuesMethods};
pub use scratch::build_str;
pub use template::Templates;
pub use value::{
    BadResults, Entries, Field, IntType, Kind, List, ListType, MAX_COPIED_DEPTH, MAX_COPIED_VALUES, Map, MapType,
    Object, Str, UintType, Value,
};
