//! A value and how the template got it: Go's `reflect.Value` distinguishes this, and errors show it.

use crate::value::{MapType, Str, Value};

/// Go's `reflect.Value`, as far as templates can see it.
#[derive(Clone, Debug)]
pub(crate) enum Reflected {
    /// Go's zero `reflect.Value`: an untyped nil.
    Invalid,
    /// A value with its own type; never nil.
    Concrete(Value),
    /// A value in a variable, element or field of type `interface{}`; may be nil.
    Interface(Value),
}

const NIL: &Value = &Value::Nil;

impl Reflected {
    /// Go's `reflect.ValueOf`.
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

    /// The value inside an interface; other values unchanged.
    pub(crate) fn elem(self) -> Reflected {
        match self {
            Reflected::Interface(v) => Reflected::value_of(v),
            other => other,
        }
    }

    /// What a map of the type gives for a missing key.
    pub(crate) fn zero_element(ty: MapType) -> Reflected {
        match ty {
            MapType::String => Reflected::Concrete(Value::String(Str::default())),
            MapType::Bytes => Reflected::Concrete(Value::Bytes(Str::default())),
            MapType::Interface | MapType::Values => Reflected::Interface(Value::Nil),
        }
    }

    /// The static type, as Go's `%s` of `reflect.Type` prints it.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Reflected::Interface(_) => "interface {}",
            other => other.value().type_name(),
        }
    }
}
