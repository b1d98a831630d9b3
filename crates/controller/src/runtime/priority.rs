//! Gives failed resources a lower priority, so that they do not delay the others.
//!
//! - `retries`: a failed resource waits in a separate queue, in which changed resources, unchanged ones and namespaces
//!   alternate.
//! - `concurrency`: the process reconciles one such resource at a time, in addition to the permits of all others.
//! - A slow attempt, such as a render in a worker, has the lowest priority. If there is only one worker, a cooldown
//!   follows (`throttle`).
//!
//! A step that needs no such attempt, such as a deletion or a repair, never waits for one.

use serde::{Deserialize, Serialize};

/// The priority of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Priority {
    /// The priority of most attempts.
    #[default]
    Normal,
    /// The priority of a retry, which is the next attempt of a resource that failed.
    Retry,
}
