//! What a resource's memory holds of single steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helm_release::kube::{Mark, ObjectKey};
use tokio::time::Instant;

use crate::status::Handled;

/// What this process did without a reason in the inputs. Few resources have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The tokens that this process handled.
    pub(crate) handled: Handled,
    /// The token of `reconcile-now` whose work is complete.
    pub(crate) done: Option<Box<str>>,
    /// When everything was applied again for the last time.
    pub(crate) resynced: Option<Instant>,
}

/// How long an attempt speaks for its retries: what a chart renders may also depend on what it looks up.
const VALID: Duration = Duration::from_secs(900);

/// An install that failed before it wrote anything.
#[derive(Clone, Debug)]
pub(crate) struct Unserved {
    pub(crate) attempt: String,
    /// The discovery when it began.
    pub(crate) generation: usize,
    pub(crate) at: Instant,
}

impl Unserved {
    /// Whether a retry of this attempt would fail in the same way.
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

/// What a resource's history knows of another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// The process that was reported.
    pub(crate) reported: Option<Arc<str>>,
    /// The revision that this process has waited for.
    pub(crate) waited_for: u32,
}

/// The drift that one resource reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detections {
    pub(crate) objects: BTreeMap<ObjectKey, Detection>,
    /// When objects that no watch covers were last read.
    pub(crate) looked: Option<Instant>,
}

/// What a look at a drifted object found.
#[derive(Clone, Debug)]
pub(crate) struct Detection {
    /// The cached object that prompted the look: its mark, or `None` if it was gone.
    pub(crate) seen: Option<Option<Mark>>,
    /// Who changed what; empty if the kind is no longer served.
    pub(crate) text: String,
}
