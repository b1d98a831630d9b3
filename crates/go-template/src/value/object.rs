//! Go values with fields and methods of their own.

use std::any::Any;
use std::fmt;

use super::{Kind, Map, Str, Value};
use crate::error::FuncError;
use crate::function::{Param, Scope};

/// A field of a Go struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// Go's name. A small first letter hides the field from all but `fmt`.
    pub name: &'static str,
    /// The name in JSON.
    pub json_name: &'static str,
    /// Whether JSON leaves the field out if it is empty.
    pub omit_empty: bool,
    /// What is in it.
    pub value: Value,
}

impl Field {
    /// A field without tags.
    pub fn new(name: &'static str, value: impl Into<Value>) -> Field {
        Field { name, json_name: name, omit_empty: false, value: value.into() }
    }

    /// Whether templates and encoders see it.
    pub fn is_exported(&self) -> bool {
        self.name.starts_with(|first: char| first.is_ascii_uppercase())
    }

    /// Whether JSON has it.
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

/// A Go struct, pointer or named type that templates reach through fields and methods.
pub trait Object: fmt::Debug + Send + Sync + Any {
    /// The type's name as Go's `%T` prints it, such as `*semver.Version`.
    fn type_name(&self) -> &str;

    /// Go's kind of the value.
    fn kind(&self) -> Kind;

    /// The fields of a struct, or of the one that a pointer points to, in Go's order: what `fmt` prints and encoders write.
    fn fields(&self) -> Vec<Field> {
        Vec::new()
    }

    /// The exported field (or map key) of this name.
    fn field(&self, name: &str) -> Option<Value> {
        self.fields().into_iter().find(|field| field.is_exported() && field.name == name).map(|field| field.value)
    }

    /// The parameters of the method of this name, and the type of further ones if it is variadic. The executor checks the arguments
    /// against them before it calls the method. `None` if there is no such method.
    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        let _ = method;
        None
    }

    /// Why templates cannot call the method of this name although Go has it. Its arguments are counted first.
    fn bad_results(&self, method: &str) -> Option<BadResults> {
        let _ = method;
        None
    }

    /// Calls the method; `None` if there is no such method.
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

    /// What an action prints for the value where it stands in its owner: there Go finds the methods of its pointer too.
    fn display_in_place(&self) -> Option<Str> {
        self.display()
    }

    /// The plain data that stands for it in `toYaml`, `toJson`, `range`, `index` and `len`; in `%v` too if it has no fields.
    fn data(&self) -> Value {
        let fields = self.fields();
        if fields.is_empty() {
            return Value::Nil;
        }
        let seen = fields.into_iter().filter(Field::is_in_json);
        Value::Map(seen.map(|field| (field.json_name, field.value)).collect::<Map>())
    }

    /// What a copy by reflection makes of it, if not the value itself: it leaves fields that are not exported at zero.
    fn copied(&self) -> Option<Value> {
        None
    }

    /// For a pointer: whether Go's points to the same as the other, although they are two objects here.
    fn is_pointer_to(&self, other: &dyn Object) -> bool {
        let _ = other;
        false
    }

    /// Another number of the same named type, if this is one: what `range` gives over `time.Month`.
    fn with_number(&self, number: i64) -> Option<Value> {
        let _ = number;
        None
    }

    /// Whether `if` takes it as true; a struct always is.
    fn is_true(&self) -> bool {
        true
    }

    /// The value itself, to be downcast by the functions that know its type.
    fn as_any(&self) -> &dyn Any;
}
