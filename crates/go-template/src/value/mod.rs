//! The values that templates compute with: Go's kinds, shared as in Go.
//!
//! Maps are shared references that functions may change, as in Go. No template function modifies a list in place, so lists are immutable. Strings are
//! bytes. Counterpart: the parts of Go's `reflect` that `text/template` uses.

mod copy;
mod frozen;
mod list;
mod map;
mod object;
mod path;
mod size;
mod string;

pub use copy::{MAX_COPIED_DEPTH, MAX_COPIED_VALUES};
pub use list::{List, ListType};
pub use map::{Entries, Map, MapType};
pub use object::{BadResults, Field, Object};
pub(crate) use path::Reached;
pub use string::Str;

use std::fmt;
use std::sync::Arc;

use strum::IntoStaticStr;

use crate::function::Function;

/// A Go value. Cheap to clone: everything large is behind a shared pointer.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// The nil interface: YAML's null, an absent map key, or the literal `nil`.
    #[default]
    Nil,
    /// `bool`.
    Bool(bool),
    /// A signed integer of the named Go type.
    Int(i64, IntType),
    /// An unsigned integer of the named Go type.
    Uint(u64, UintType),
    /// `float64`: the type of every number that Go's JSON decoder reads.
    Float(f64),
    /// `complex128`: only literals such as `1i` have this type.
    Complex(f64, f64),
    /// `string`: bytes, not necessarily UTF-8.
    String(Str),
    /// `[]byte`.
    Bytes(Str),
    /// A slice.
    List(List),
    /// A map with string keys.
    Map(Map),
    /// A Go value with methods or fields, such as a `time.Time`.
    Object(Arc<dyn Object>),
    /// A function value, for `call`.
    Func(Arc<Function>),
}

/// Go's signed integer types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are Go's.
pub enum IntType {
    Int,
    Int8,
    Int16,
    Int32,
    Int64,
}

/// Go's unsigned integer types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are Go's.
pub enum UintType {
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Uintptr,
}

/// Go's `reflect.Kind`, as `kindOf` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[allow(missing_docs)] // The names are Go's.
pub enum Kind {
    Invalid,
    Bool,
    Int,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Uintptr,
    Float64,
    Complex128,
    String,
    Slice,
    Map,
    Struct,
    Ptr,
    Func,
}

impl Kind {
    /// Returns the name of the kind. Counterpart: `reflect.Kind.String`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Value {
    /// Creates a Go `int`.
    pub fn int(v: i64) -> Value {
        Value::Int(v, IntType::Int)
    }

    /// Creates a Go `int64`.
    pub fn int64(v: i64) -> Value {
        Value::Int(v, IntType::Int64)
    }

    /// Creates a `[]interface{}`.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(List::new(ListType::Interface, items))
    }

    /// Returns the kind of the value. Counterpart: `reflect.Value.Kind`.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Nil => Kind::Invalid,
            Value::Bool(_) => Kind::Bool,
            Value::Int(_, t) => match t {
                IntType::Int => Kind::Int,
                IntType::Int8 => Kind::Int8,
                IntType::Int16 => Kind::Int16,
                IntType::Int32 => Kind::Int32,
                IntType::Int64 => Kind::Int64,
            },
            Value::Uint(_, t) => match t {
                UintType::Uint => Kind::Uint,
                UintType::Uint8 => Kind::Uint8,
                UintType::Uint16 => Kind::Uint16,
                UintType::Uint32 => Kind::Uint32,
                UintType::Uint64 => Kind::Uint64,
                UintType::Uintptr => Kind::Uintptr,
            },
            Value::Float(_) => Kind::Float64,
            Value::Complex(..) => Kind::Complex128,
            Value::String(_) => Kind::String,
            Value::Bytes(_) | Value::List(_) => Kind::Slice,
            Value::Map(_) => Kind::Map,
            Value::Object(o) => o.kind(),
            Value::Func(_) => Kind::Func,
        }
    }

    /// Returns the name of the type as Go's `%T` prints it, or `<nil>` for nil.
    pub fn type_name(&self) -> &str {
        match self {
            Value::Nil => "<nil>",
            Value::Bytes(_) => "[]uint8",
            Value::List(l) => l.ty().name(),
            Value::Map(m) => m.ty().name(),
            Value::Object(o) => o.type_name(),
            Value::Func(_) => "func",
            _ => self.kind().name(),
        }
    }

    /// Returns whether the value is nil in Go: the nil interface, or a nil slice or map.
    pub fn is_nil(&self) -> bool {
        match self {
            Value::Nil => true,
            Value::List(list) => list.is_nil(),
            Value::Map(map) => map.is_nil(),
            _ => false,
        }
    }

    /// Returns whether `if` treats the value as true. Counterpart: `template.IsTrue`.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Nil => false,
            Value::Bool(b) => *b,
            Value::Int(v, _) => *v != 0,
            Value::Uint(v, _) => *v != 0,
            Value::Float(v) => *v != 0.0,
            Value::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Value::String(s) | Value::Bytes(s) => !s.is_empty(),
            Value::List(l) => !l.is_empty(),
            Value::Map(m) => !m.is_empty(),
            Value::Object(o) => o.is_true(),
            Value::Func(_) => true,
        }
    }

    /// Returns whether this is a map or a list that contains one, which a deep copy must not share.
    fn holds_map(&self) -> bool {
        match self {
            Value::Map(_) => true,
            Value::List(list) => list.holds_map(),
            _ => false,
        }
    }

    /// Returns the string's bytes, if this is a Go `string`.
    pub fn as_str(&self) -> Option<&Str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the map, if this is one.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(m) => Some(m),
            _ => None,
        }
    }

    /// Returns the list, if this is one.
    pub fn as_list(&self) -> Option<&List> {
        match self {
            Value::List(l) => Some(l),
            _ => None,
        }
    }
}

fn debug(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = Vec::new();
    crate::fmt::append_value(&mut text, value);
    f.write_str(&String::from_utf8_lossy(&text))
}

macro_rules! conversions {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Value {
            fn from(v: $from) -> Self {
                Value::$variant(v.into())
            }
        }
    )*};
}

conversions! {
    bool => Bool,
    f64 => Float,
    &str => String,
    String => String,
    Str => String,
    List => List,
    Map => Map,
}
