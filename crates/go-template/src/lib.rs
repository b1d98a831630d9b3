//! Go's `text/template` for Rust: the language, its printing and its errors, byte for byte.
//!
//! No I/O, no YAML, no Kubernetes, no async. File names follow Go's: `lex`, `parse`, `node`, `exec`, `funcs`, `fmt`.

mod compare;
pub mod error;
pub mod escape;
mod exec;
pub mod fmt;
mod funcs;
pub mod function;
mod lex;
mod node;
mod number;
mod parse;
mod reflect;
mod scope;
mod stack;
mod strconv;
mod template;
mod unicode;
pub mod value;

pub use error::{Cause, ExecError, FuncError, LimitError, Location, ParseError};
pub use exec::MAX_EXEC_DEPTH;
pub use function::{FromValue, FuncMap, Function, IntoFunction, IntoReturn, Param, Rest, Scope};
pub use node::Tree;
pub use parse::{MAX_BLOCK_DEPTH, MAX_PAREN_DEPTH, Parsed, parse};
pub use scope::{Limits, MissingKey, Options, ValuesMethods};
pub use template::Templates;
pub use value::{Kind, List, ListType, Map, MapType, Object, Str, Value};
