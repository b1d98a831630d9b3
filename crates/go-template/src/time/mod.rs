//! Times, durations, zones, months and weekdays as templates see them, with Go's methods.

mod duration;
mod location;
mod named;
mod time;

use crate::{Object, Value};

pub use duration::{duration_of, duration_value};
pub use time::time_of;
pub use time::time_value;

fn downcast<T: Object>(value: &Value) -> Option<&T> {
    match value {
        Value::Object(object) => object.as_any().downcast_ref(),
        _ => None,
    }
}
