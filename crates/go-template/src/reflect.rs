//! Values together with how the template obtained them: Go's `reflect.Value` distinguishes this, and errors show it.

use crate::value::{MapType, Str, Value};

/// Go's `reflect.Value`, as far as templates can observe it.
#[derive(Clone, Debug)]
pub(crate) enum Reflected {
    /// Go's zero `reflect.Value`: an untyped nil.
    Invalid,
    /// A value with a concrete type; never nil.
    Concrete(Value),
    /// The value of a variable, element or field of type `interface{}`; may be nil.
    Interface(Value),
}

const NIL: &Value = &Value::Nil;

impl Reflected {
    /// Wraps a value. Counterpart: `reflect.ValueOf`.
    pub(crate) fn value_of(value: Value) -> Reflected {
        match value {
            Value::Nil => Reflected::Invalid,
            value => Reflected::Concrete(value),
        }
    }

    pub(crate) fn value(&self) -> &Value {
        match self {
            Reflected::Invalid => NIL,
            Reflected::Concrete(v) | Reflected::Interface(v) => v,
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Reflected::Invalid => Value::Nil,
            Reflected::Concrete(v) | Reflected::Interface(v) => v,
        }
    }

    /// Returns the value inside an interface, and any other value unchanged.
    pub(crate) fn elem(self) -> Reflected {
        match self {
            Reflected::Interface(v) => Reflected::value_of(v),
            other => other,
        }
    }

    /// Returns what a map of this type yields for a missing key.
    pub(crate) fn zero_element(ty: MapType) -> Reflected {
        match ty {
            MapType::String => Reflected::Concrete(Value::String(Str::default())),
            MapType::Bytes => Reflected::Concrete(Value::Bytes(Str::default())),
            MapType::Interface | MapType::Values => Reflected::Interface(Value::Nil),
        }
    }

    /// Returns the static type, as Go's `%s` of a `reflect.Type` prints it.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Reflected::Interface(_) => "interface {}",
            other => other.value().type_name(),
        }
    }
}
