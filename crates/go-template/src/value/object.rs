//! Go values with fields and methods.

use std::any::Any;
use std::fmt;

use super::{Kind, Map, Str, Value};
use crate::error::FuncError;
use crate::function::Param;
use crate::scope::Scope;

/// A field of a Go struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name in Go. A lower-case first letter hides the field from everything except `fmt`.
    pub name: &'static str,
    /// The name in JSON.
    pub json_name: &'static str,
    /// Whether JSON omits the field if it is empty.
    pub omit_empty: bool,
    /// The field's value.
    pub value: Value,
}

impl Field {
    /// Creates a field without struct tags, which has the same name in JSON.
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

/// Results that templates do not accept from a Go method. They accept a value, or a value and an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResults {
    /// The number of results, more than two.
    Count(usize),
    /// Go's name of the second result's type, which is not an error.
    Second(&'static str),
}

/// A Go struct, pointer or named type with fields and methods.
pub trait Object: fmt::Debug + Send + Sync + Any {
    /// Returns the name of the type as Go's `%T` prints it, such as `*semver.Version`.
    fn type_name(&self) -> &str;

    /// Returns the kind of the value in Go.
    fn kind(&self) -> Kind;

    /// Returns the fields of a struct, or of the struct behind a pointer, in Go's order: `fmt` prints them and encoders write them. None by default.
    fn fields(&self) -> Vec<Field> {
        Vec::new()
    }

    /// Returns the exported field (or map entry) with this name. Searches [`fields`](Self::fields) by default.
    fn field(&self, name: &str) -> Option<Value> {
        self.fields().into_iter().find(|field| field.is_exported() && field.name == name).map(|field| field.value)
    }

    /// Returns the parameter types of a method, and the type of further arguments if it is variadic; or `None` if there is no such method. The
    /// executor checks the arguments against them before it calls the method.
    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        let _ = method;
        None
    }

    /// Returns why templates cannot call a method that Go has. The executor checks the number of arguments first.
    fn bad_results(&self, method: &str) -> Option<BadResults> {
        let _ = method;
        None
    }

    /// Calls a method with checked arguments. Returns `None` if there is no such method.
    ///
    /// # Errors
    /// Fails with the method's own error.
    fn call(&self, scope: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        let _ = (scope, method, args);
        None
    }

    /// Returns what `%v` prints, if the type has a `String` or `Error` method.
    fn display(&self) -> Option<Str> {
        None
    }

    /// Returns what `%#v` prints, if the type has a `GoString` method.
    fn go_syntax(&self) -> Option<Str> {
        None
    }

    /// Returns what an action prints if the value is part of another one: such a value is addressable, so Go also finds the methods of its pointer.
    fn display_in_place(&self) -> Option<Str> {
        self.display()
    }

    /// Returns the plain data that `toYaml`, `toJson`, `range`, `index` and `len` see, and `%v` if there are no fields. The default is a map of the
    /// fields that appear in JSON.
    fn data(&self) -> Value {
        let fields = self.fields();
        if fields.is_empty() {
            return Value::Nil;
        }
        let seen = fields.into_iter().filter(Field::is_in_json);
        Value::Map(seen.map(|field| (field.json_name, field.value)).collect::<Map>())
    }

    /// Returns what a copy by reflection yields, if it differs from the value itself: such a copy leaves unexported fields at zero.
    fn copied(&self) -> Option<Value> {
        None
    }

    /// Returns whether this pointer points to the same value as another one in Go, although they are two objects here.
    fn is_pointer_to(&self, other: &dyn Object) -> bool {
        let _ = other;
        false
    }

    /// Returns another number of the same type, for a named number such as `time.Month`. `range` needs it.
    fn with_number(&self, number: i64) -> Option<Value> {
        let _ = number;
        None
    }

    /// Returns whether `if` treats the value as true. A struct is always true.
    fn is_true(&self) -> bool {
        true
    }
}

impl dyn Object {
    /// Returns the value as this type, if it has it.
    pub fn downcast_ref<T: Object>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}
