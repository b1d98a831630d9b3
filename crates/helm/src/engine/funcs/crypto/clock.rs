//! How long keys and hashes take. Steps would be a guess: a prime is found sooner or later, and processors differ.

use go_template::note_time;

use crate::processor_time::processor_time;

/// Runs what is slow by nature, and notes the processor time that it takes for the render. Not to be used inside itself.
pub(super) fn timed<T>(slow: impl FnOnce() -> T) -> T {
    let before = processor_time();
    let result = slow();
    note_time(processor_time().saturating_sub(before));
    result
}
