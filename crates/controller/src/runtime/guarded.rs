//! Keeps a panic of an author's function, which a watch calls for each object, with that object.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::key::ResourceKey;
use crate::metrics::WATCH_PANICS;

/// Calls an author's function for an object of this kind. Returns `None` if it panics. Uncaught, the panic would end the
/// watch, and again each time the object is listed, so anyone who may create such an object could stop all readers.
pub fn guarded<T>(kind: &str, object: &ResourceKey, call: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(call)).ok();
    if result.is_none() {
        WATCH_PANICS.inc();
        tracing::error!(kind, %object, "A function that reads watched objects panicked, which is a bug");
    }
    result
}
