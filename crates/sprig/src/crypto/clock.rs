//! Measures how long keys and hashes take. A number of steps would be a guess: the search for a prime is random, and processors differ.

use std::time::Instant;

use golibs::work::{SlowTime, note_time};

use golibs::processor_time::processor_time;

/// Runs a slow function and charges the render for its time. Calls must not nest.
pub(super) fn timed<T>(slow: impl FnOnce() -> T) -> T {
    let (began, before) = (Instant::now(), processor_time());
    let result = slow();
    note_time(SlowTime { processor: processor_time().saturating_sub(before), elapsed: began.elapsed() });
    result
}
