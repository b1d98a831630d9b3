//! How long to wait before a watch that the server refused is opened again.

use std::time::Duration;

use super::backoff;

/// The longest pause after refusals.
const LONGEST: Duration = Duration::from_secs(30);

/// How long a watch must hold to end their count.
const HELD: Duration = Duration::from_secs(5);

/// Counts a watch's refusals in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals(u32);

impl Refusals {
    /// Counts a refusal of a watch that was opened this long ago.
    pub fn add(&mut self, opened: Duration) {
        self.0 = if opened > HELD { 1 } else { self.0.saturating_add(1) };
    }

    /// Whether the watch was never refused.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The pause before it is opened again.
    pub fn pause(self) -> Duration {
        backoff::wait(self.0).min(LONGEST)
    }
}
