//! Go's `text/template` for Rust: the language, its printing and its errors, byte for byte.
//!
//! No I/O, no YAML, no Kubernetes, no async. File names follow Go's: `lex`, `parse`, `node`, `exec`, `funcs`, `fmt`.

pub mod error;
pub mod escape;
pub mod fmt;
pub mod function;
pub mod value;

pub use error::FuncError;
pub use function::{FromValue, FuncMap, Function, IntoFunction, IntoReturn, Param, Rest, Scope};
pub use value::{Kind, List, ListType, Map, MapType, Object, Str, Value};
