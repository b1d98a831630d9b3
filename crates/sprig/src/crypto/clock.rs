//! How long keys and hashes take. Steps would be a guess: a prime is found sooner or later, and processors differ.

use std::time::Instant;

use golibs::work::{SlowTime, note_time};

use golibs::processor_time::processor_time;

/// Runs what is slow by nature, and notes the time that it takes for the render. Not to be used inside itself.
pub(super) fn timed<T>(slow: impl FnOnce() -> T) -> T {
    let (began, before) = (Instant::now(), processor_time());
    let result = slow();
    note_time(SlowTime { processor: processor_time().saturating_sub(before), elapsed: began.elapsed() });
    result
}
