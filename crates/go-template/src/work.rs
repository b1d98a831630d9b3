//! What a function did beyond being called, for the run to count: functions that see no [`Scope`](crate::Scope) note it here.

use std::cell::Cell;

thread_local! {
    static NOTED: Cell<u64> = const { Cell::new(0) };
}

/// Notes work of the function that is being called on this thread, such as the values that it visited. The run that calls it takes as
/// many steps off what it may use.
pub fn note_work(steps: u64) {
    NOTED.set(NOTED.get().saturating_add(steps));
}

/// What was noted since the last time.
pub(crate) fn take() -> u64 {
    NOTED.take()
}
