//! Stack space for code that recurses as deeply as its input: each level may continue on a new segment.
//!
//! Go's stacks grow by themselves, up to a gigabyte, and templates rely on that.

use std::cell::Cell;

/// The most stack that one level of recursion may need before it checks again, in bytes.
const RED_ZONE: usize = 256 << 10;
/// The size of a new segment, in bytes.
const SEGMENT: usize = 2 << 20;

/// Maximum number of segments per thread: enough for templates that call each other [`MAX_EXEC_DEPTH`](crate::MAX_EXEC_DEPTH) deep.
const MAX_SEGMENTS: usize = 96;

/// The most stack that templates may use, in MiB.
pub(crate) const MAX_MIB: usize = (MAX_SEGMENTS * SEGMENT) >> 20;

thread_local! {
    static SEGMENTS: Cell<usize> = const { Cell::new(0) };
}

/// Runs the closure with at least [`RED_ZONE`] bytes of stack.
#[inline]
pub(crate) fn grow<R>(f: impl FnOnce() -> R) -> R {
    match stacker::remaining_stack().is_some_and(|left| left >= RED_ZONE) {
        true => f(),
        false => on_new_segment(f),
    }
}

#[cold]
fn on_new_segment<R>(f: impl FnOnce() -> R) -> R {
    let _segment = Segment::new();
    stacker::grow(SEGMENT, f)
}

/// Returns whether this thread has reached its maximum number of segments. Code that can fail must then fail; other code continues.
#[inline]
pub(crate) fn is_full() -> bool {
    SEGMENTS.get() >= MAX_SEGMENTS
}

/// A segment in use.
struct Segment;

impl Segment {
    fn new() -> Segment {
        SEGMENTS.set(SEGMENTS.get() + 1);
        Segment
    }
}

/// Frees the segment, even after a panic.
impl Drop for Segment {
    fn drop(&mut self) {
        SEGMENTS.set(SEGMENTS.get() - 1);
    }
}
