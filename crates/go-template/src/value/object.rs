//! Go values with fields and methods of their own.

use std::any::Any;
use std::fmt;

use super::{Kind, Str, Value};
use crate::error::FuncError;
use crate::function::{Param, Scope};

/// A Go struct, pointer or named type that templates reach through fields and methods.
pub trait Object: fmt::Debug + Send + Sync + Any {
    /// The type's name as Go's `%T` prints it, such as `*semver.Version`.
    fn type_name(&self) -> &str;

    /// Go's kind of the value.
    fn kind(&self) -> Kind;

    /// The exported field (or map key) of this name.
    fn field(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// The parameters of the method of this name, and the type of further ones if it is variadic. The executor checks the arguments
    /// against them before it calls the method. `None` if there is no such method.
    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
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

    /// What an action prints for the value where it stands in its owner: there Go finds the methods of its pointer too.
    fn display_in_place(&self) -> Option<Str> {
        self.display()
    }

    /// The plain data that stands for it in `toYaml`, `toJson`, `%v`, `range`, `index` and `len`.
    fn data(&self) -> Value {
        Value::Nil
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
