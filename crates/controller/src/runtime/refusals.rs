//! Decides how long to wait before a refused watch is reopened.

use std::time::Duration;

use super::backoff;

/// The maximum pause after refusals.
const LONGEST: Duration = Duration::from_secs(30);

/// How long a watch must last to reset the count.
const HELD: Duration = Duration::from_secs(5);

/// A count of a watch's consecutive refusals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals(u32);

impl Refusals {
    /// Counts a refusal of a watch that was opened this long ago.
    pub fn add(&mut self, opened: Duration) {
        self.0 = if opened > HELD { 1 } else { self.0.saturating_add(1) };
    }

    /// Counts the refusal of a watch that lasted for this time, if that was short. A longer watch resets the count, so
    /// that no pause follows.
    pub fn add_if_soon(&mut self, lasted: Duration) {
        self.0 = if lasted > HELD { 0 } else { self.0.saturating_add(1) };
    }

    /// Returns whether the watch was never refused.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the pause before the watch is reopened.
    pub fn pause(self) -> Duration {
        backoff::wait(self.0).min(LONGEST)
    }
}
