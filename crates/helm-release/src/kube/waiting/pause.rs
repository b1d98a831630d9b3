//! Pauses between two reads of an object.

use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Growing pauses between polls.
pub(crate) struct Pause {
    next: Duration,
    last: Duration,
}

impl Default for Pause {
    fn default() -> Self {
        Pause::up_to(LAST_PAUSE)
    }
}

impl Pause {
    /// Returns pauses that grow up to this one.
    pub(crate) fn up_to(last: Duration) -> Pause {
        Pause { next: FIRST_PAUSE, last }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).min(self.last);
        now
    }
}
