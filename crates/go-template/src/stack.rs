//! Room on the stack for what recurses as deep as its input: each level may continue on a fresh segment.
//!
//! Go's stacks grow by themselves, up to a gigabyte; templates and vectors rely on that.

/// What one level of recursion may need at most before it asks again.
const RED_ZONE: usize = 256 << 10;
/// How much is added at a time.
const SEGMENT: usize = 2 << 20;

/// Runs the closure with at least [`RED_ZONE`] bytes of stack.
pub(crate) fn grow<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(RED_ZONE, SEGMENT, f)
}
