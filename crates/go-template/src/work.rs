//! What a function did beyond being called, for the run to count: functions that see no [`Scope`](crate::Scope) note it here.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static NOTED: Cell<u64> = const { Cell::new(0) };
    static TIME: Cell<SlowTime> = const { Cell::new(SlowTime { processor: Duration::ZERO, elapsed: Duration::ZERO }) };
}

/// Notes work of the function that is being called on this thread, such as the values that it visited. The run that calls it takes as
/// many steps off what it may use.
pub fn note_work(steps: u64) {
    NOTED.set(NOTED.get().saturating_add(steps));
}

/// What a function took that is slow by nature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowTime {
    /// Processor time, which counts.
    pub processor: Duration,
    /// Time on the clock, which is not counted against the run's deadline: a busy machine may take many times as long.
    pub elapsed: Duration,
}

/// Notes time of the function that is being called on this thread: for what is slow by nature, such as making a key, where steps would be a
/// guess. The run that calls it takes it off [`function_time`](crate::Limits::function_time) instead of its deadline.
pub fn note_time(time: SlowTime) {
    let before = TIME.get();
    let processor = before.processor.saturating_add(time.processor);
    TIME.set(SlowTime { processor, elapsed: before.elapsed.saturating_add(time.elapsed) });
}

/// What was noted since the last time.
pub(crate) fn take() -> (u64, SlowTime) {
    (NOTED.take(), TIME.take())
}
