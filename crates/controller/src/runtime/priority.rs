//! Which attempts go first: a resource that failed must not delay the others.
//!
//! - `retries`: a failed resource waits in a queue of its own, where changed resources, unchanged ones and namespaces alternate.
//! - `concurrency`: one such resource of the process is reconciled at a time, beside the permits of all others.
//! - A slow attempt, such as a render in a worker, has the lowest priority, and pauses where it shares the only worker (`throttle`).
//!
//! What needs no such attempt, such as a deletion or a repair, never waits for it.

use serde::{Deserialize, Serialize};

/// The priority of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Priority {
    /// Any resource.
    #[default]
    Normal,
    /// The next attempt of a resource that failed.
    Retry,
}
