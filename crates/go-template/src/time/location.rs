//! Go's `*time.Location`.

use std::sync::Arc;

use crate::{Field, FuncError, Kind, Object, Param, Scope, Str, Value};

use super::downcast;
use golibs::time::Zone;

/// Go's name for the type.
pub(super) const TYPE: &str = "*time.Location";

/// Wraps a `*time.Location` as a value.
pub(super) fn location_value(zone: Zone) -> Value {
    Value::Object(Arc::new(LocationObject(zone)))
}

/// Returns the zone, if the value is a `*time.Location`.
pub(super) fn location_of(value: &Value) -> Option<Zone> {
    downcast::<LocationObject>(value).map(|object| object.0.clone())
}

#[derive(Debug)]
struct LocationObject(Zone);

impl Object for LocationObject {
    fn type_name(&self) -> &str {
        TYPE
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("name", self.0.name())]
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        (method == "String").then_some((&[], None))
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, _: &[Value]) -> Option<Result<Value, FuncError>> {
        (method == "String").then(|| Ok(self.0.name().into()))
    }

    fn display(&self) -> Option<Str> {
        Some(self.0.name().into())
    }

    fn copied(&self) -> Option<Value> {
        Some(location_value(Zone::Fixed(String::new(), 0)))
    }

    fn is_pointer_to(&self, other: &dyn Object) -> bool {
        other.downcast_ref::<LocationObject>().is_some_and(|other| self.0 == other.0)
    }
}
