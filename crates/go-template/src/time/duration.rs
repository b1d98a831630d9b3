//! Go's `time.Duration`.

use std::sync::Arc;

use crate::{FuncError, Kind, Object, Param, Scope, Str, Value};

use super::downcast;
use golibs::time::Duration;

/// Wraps a `time.Duration` as a value.
pub fn duration_value(duration: Duration) -> Value {
    Value::Object(Arc::new(DurationObject(duration)))
}

/// Returns the duration, if the value is a `time.Duration`.
pub fn duration_of(value: &Value) -> Option<Duration> {
    downcast::<DurationObject>(value).map(|object| object.0)
}

/// Returns the duration that is passed to a method, as an object or a constant.
pub(super) fn duration_argument(value: &Value) -> Option<Duration> {
    match value {
        Value::Int(nanoseconds, _) => Some(Duration(*nanoseconds)),
        other => duration_of(other),
    }
}

#[derive(Debug)]
struct DurationObject(Duration);

impl Object for DurationObject {
    fn type_name(&self) -> &str {
        "time.Duration"
    }

    fn kind(&self) -> Kind {
        Kind::Int64
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        match method {
            "Round" | "Truncate" => Some((&[Param::Duration], None)),
            _ => self.plain(method).map(|_| (&[][..], None)),
        }
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        let multiple = || args.first().and_then(duration_argument);
        let value = match method {
            "Round" => duration_value(self.0.round(multiple()?)),
            "Truncate" => duration_value(self.0.truncate(multiple()?)),
            _ => self.plain(method)?,
        };
        Some(Ok(value))
    }

    fn display(&self) -> Option<Str> {
        Some(self.0.to_string().into())
    }

    fn data(&self) -> Value {
        Value::int64(self.0.0)
    }

    fn with_number(&self, number: i64) -> Option<Value> {
        Some(duration_value(Duration(number)))
    }

    fn is_true(&self) -> bool {
        self.0.0 != 0
    }
}

impl DurationObject {
    fn plain(&self, method: &str) -> Option<Value> {
        let duration = self.0;
        Some(match method {
            "Hours" => Value::Float(duration.hours()),
            "Minutes" => Value::Float(duration.minutes()),
            "Seconds" => Value::Float(duration.seconds()),
            "Milliseconds" => Value::int64(duration.0 / 1_000_000),
            "Microseconds" => Value::int64(duration.0 / 1_000),
            "Nanoseconds" => Value::int64(duration.0),
            "Abs" => duration_value(duration.abs()),
            "String" => duration.to_string().into(),
            _ => return None,
        })
    }
}
