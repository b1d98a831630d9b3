//! Measures how long keys and hashes take. Their steps could only be guessed: the search for a prime is random, and processors differ.

use golibs::clock::Instant;
use golibs::work::{SlowTime, note_time};

use golibs::processor_time::processor_time;

/// Runs a slow function and charges its time to the render. Calls must not nest.
pub(super) fn timed<T>(slow: impl FnOnce() -> T) -> T {
    let (began, before) = (Instant::now(), processor_time());
    let result = slow();
    note_time(SlowTime { processor: processor_time().saturating_sub(before), elapsed: began.elapsed() });
    result
}
