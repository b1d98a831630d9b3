//! Stack space for code that recurses as deep as its input: each level may continue on a fresh segment.
//!
//! Go's stacks grow on their own, up to a gigabyte, and templates rely on that.

/// The most stack that one level of recursion may need before it asks again.
const RED_ZONE: usize = 256 << 10;
/// The size of a new segment.
const SEGMENT: usize = 2 << 20;

/// Runs the closure with at least [`RED_ZONE`] bytes of stack.
pub(crate) fn grow<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(RED_ZONE, SEGMENT, f)
}
