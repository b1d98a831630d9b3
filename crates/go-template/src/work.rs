//! What a function did beyond being called, for the run to count: functions that see no [`Scope`](crate::Scope) note it here.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static NOTED: Cell<u64> = const { Cell::new(0) };
    static TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Notes work of the function that is being called on this thread, such as the values that it visited. The run that calls it takes as
/// many steps off what it may use.
pub fn note_work(steps: u64) {
    NOTED.set(NOTED.get().saturating_add(steps));
}

/// Notes processor time of the function that is being called on this thread: for what is slow by nature, such as making a key, where steps
/// would be a guess. The run that calls it takes it off [`function_time`](crate::Limits::function_time).
pub fn note_time(time: Duration) {
    TIME.set(TIME.get().saturating_add(time));
}

/// What was noted since the last time.
pub(crate) fn take() -> (u64, Duration) {
    (NOTED.take(), TIME.take())
}
