//! Times, durations, zones, months and weekdays as templates see them, with Go's methods.

mod duration;
mod location;
mod moment;
mod named;

use crate::{Object, Value};

pub use duration::{duration_of, duration_value};
pub use moment::{time_of, time_value};

fn downcast<T: Object>(value: &Value) -> Option<&T> {
    match value {
        Value::Object(object) => object.downcast_ref(),
        _ => None,
    }
}
