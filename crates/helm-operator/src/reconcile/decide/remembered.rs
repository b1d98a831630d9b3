//! Remembers the results of individual steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helm_release::kube::{Mark, ObjectKey};
use tokio::time::Instant;

use crate::status::Handled;

/// The requested and scheduled actions that this process has done. Rare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandledTriggers {
    /// The tokens that this process has handled.
    pub(crate) tokens: Handled,
    /// The last `reconcile-now` token whose work is complete.
    pub(crate) done: Option<Box<str>>,
    /// When everything was last applied again.
    pub(crate) resynced: Option<Instant>,
}

/// How long a failed attempt predicts its retries. Its output may also depend on its lookups.
const VALID: Duration = Duration::from_secs(900);

/// An install that failed before its first write.
#[derive(Clone, Debug)]
pub(crate) struct Unserved {
    pub(crate) attempt: String,
    /// The generation of discovery when it started.
    pub(crate) generation: usize,
    pub(crate) at: Instant,
}

impl Unserved {
    /// Returns whether a retry of this attempt would fail in the same way.
    pub(crate) fn holds(&self, attempt: &str, generation: usize, now: Instant) -> bool {
        self.attempt == attempt && self.generation == generation && now < self.at + VALID
    }
}

/// The values that no template read in the last render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) generation: i64,
    pub(crate) message: String,
}

/// What is known about another process that serves the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// The process that was reported last.
    pub(crate) reported: Option<Arc<str>>,
    /// The revision that this process has already waited for.
    pub(crate) waited_for: u32,
}

/// The drift that one resource reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detections {
    pub(crate) objects: BTreeMap<ObjectKey, Detection>,
    /// When objects without a watch were last read.
    pub(crate) looked: Option<Instant>,
}

/// The finding about one drifted object.
#[derive(Clone, Debug)]
pub(crate) struct Detection {
    /// The mark of the cached object that caused the check; `None` inside if the object did not exist.
    pub(crate) seen: Option<Option<Mark>>,
    /// Who changed what; empty if the kind is no longer served.
    pub(crate) text: String,
}
