//! Go values with fields and methods of their own.

use std::any::Any;
use std::fmt;

use super::{Kind, Map, Str, Value};
use crate::error::FuncError;
use crate::function::Param;
use crate::scope::Scope;

/// A field of a Go struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name in Go. A lower-case first letter hides the field from everything but `fmt`.
    pub name: &'static str,
    /// The name in JSON.
    pub json_name: &'static str,
    /// Whether JSON leaves the field out if it is empty.
    pub omit_empty: bool,
    /// The field's value.
    pub value: Value,
}

impl Field {
    /// A field without struct tags, which has the same name in JSON.
    pub fn new(name: &'static str, value: impl Into<Value>) -> Field {
        Field { name, json_name: name, omit_empty: false, value: value.into() }
    }

    /// Returns whether templates and encoders see the field.
    pub fn is_exported(&self) -> bool {
        self.name.starts_with(|first: char| first.is_ascii_uppercase())
    }

    /// Returns whether the field appears in JSON.
    pub fn is_in_json(&self) -> bool {
        let is_empty = || matches!(&self.value, Value::String(text) if text.is_empty());
        self.is_exported() && !(self.omit_empty && is_empty())
    }
}

/// Results of a Go method that templates cannot use: they take a value, or a value and an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResults {
    /// The number of results, more than two.
    Count(usize),
    /// Go's name of the second result's type, which is not an error.
    Second(&'static str),
}

/// A Go struct, pointer or named type with fields and methods of its own.
pub trait Object: fmt::Debug + Send + Sync + Any {
    /// The name of the type as Go's `%T` prints it, such as `*semver.Version`.
    fn type_name(&self) -> &str;

    /// The kind of the value in Go.
    fn kind(&self) -> Kind;

    /// The fields of a struct, or of the struct behind a pointer, in Go's order: what `fmt` prints and encoders write. None by default.
    fn fields(&self) -> Vec<Field> {
        Vec::new()
    }

    /// The exported field (or map entry) with this name. Looks through [`fields`](Self::fields) by default.
    fn field(&self, name: &str) -> Option<Value> {
        self.fields().into_iter().find(|field| field.is_exported() && field.name == name).map(|field| field.value)
    }

    /// The parameter types of a method, and the type of further arguments if it is variadic. The executor checks arguments against them before it
    /// calls the method. `None` if there is no such method.
    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        let _ = method;
        None
    }

    /// Why templates cannot call a method that Go has. The executor checks the number of arguments first.
    fn bad_results(&self, method: &str) -> Option<BadResults> {
        let _ = method;
        None
    }

    /// Calls a method with checked arguments. `None` if there is no such method.
    ///
    /// # Errors
    /// Those of the method.
    fn call(&self, scope: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        let _ = (scope, method, args);
        None
    }

    /// What `%v` prints, if the type has a `String` or `Error` method.
    fn display(&self) -> Option<Str> {
        None
    }

    /// What `%#v` prints, if the type has a `GoString` method.
    fn go_syntax(&self) -> Option<Str> {
        None
    }

    /// What an action prints if the value is part of another one: there, Go also finds the methods of its pointer.
    fn display_in_place(&self) -> Option<Str> {
        self.display()
    }

    /// The plain data that `toYaml`, `toJson`, `range`, `index` and `len` see, and `%v` if there are no fields. By default a map of the fields
    /// that JSON has.
    fn data(&self) -> Value {
        let fields = self.fields();
        if fields.is_empty() {
            return Value::Nil;
        }
        let seen = fields.into_iter().filter(Field::is_in_json);
        Value::Map(seen.map(|field| (field.json_name, field.value)).collect::<Map>())
    }

    /// What a copy by reflection gives, if not the value itself: such a copy leaves unexported fields at zero.
    fn copied(&self) -> Option<Value> {
        None
    }

    /// For a pointer: whether it points to the same value as the other one in Go, although they are two objects here.
    fn is_pointer_to(&self, other: &dyn Object) -> bool {
        let _ = other;
        false
    }

    /// For a named number such as `time.Month`: another number of the same type, which `range` needs.
    fn with_number(&self, number: i64) -> Option<Value> {
        let _ = number;
        None
    }

    /// Whether `if` treats the value as true. A struct always is.
    fn is_true(&self) -> bool {
        true
    }

    /// The value itself, for functions that downcast it.
    fn as_any(&self) -> &dyn Any;
}
