//! What the steps of one reconcile find for those after them, and when the next one follows.

use helm_release::action::Candidate;
use serde_json::Value;
use tokio::time::Instant;

use crate::dependencies::Waiting;
use crate::mask::Mask;
use crate::reconcile::decide::state::Inputs;
use crate::values::Spec;

/// What earlier steps of a reconcile found.
#[derive(Default)]
pub(crate) struct Findings {
    /// The rendered candidate for the next revision.
    pub(crate) candidate: Option<Candidate>,
    /// The deployed revision as the chart renders it, while its record has yet to be checked against that.
    pub(crate) rendered: Option<Candidate>,
    /// The result of comparing or rendering the inputs.
    pub(crate) judged: Option<Inputs>,
    /// The generation of discovery before the chart was rendered.
    pub(crate) discovered: Option<usize>,
    /// The `spec`, if the cache does not keep it.
    pub(crate) spec: Option<Spec>,
    /// The content of the value sources.
    pub(crate) loaded: Option<Loaded>,
    /// How far a full reconcile has got.
    pub(crate) progress: ResyncProgress,
    /// Whether the resource waits for an upgrade slot.
    pub(crate) is_queued: bool,
    /// What the resource waits for.
    pub(crate) waiting: Option<Waiting>,
    /// Deleted objects that still exist, as a text.
    pub(crate) awaited: Option<String>,
    /// Whether the resource was read again.
    pub(crate) reread: bool,
}

/// The progress of a full reconcile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResyncProgress {
    pub(crate) rendered: bool,
    pub(crate) applied: bool,
}

impl ResyncProgress {
    /// Records that the chart was rendered, and that any difference was upgraded.
    pub(crate) fn rendered(&mut self) {
        self.rendered = true;
    }
}

/// What a reconcile has read from the value sources.
pub(crate) struct Loaded {
    /// The digest of the contents, as a part of the inputs' digest.
    pub(crate) digest: Value,
    /// The resource's `spec` merged over the contents, until it is rendered.
    pub(crate) spec: Option<Spec>,
    /// Redacts the contents of Secrets.
    pub(crate) mask: Mask,
}

/// When to take the next step.
pub(crate) enum NextStep {
    /// Immediately.
    Again,
    /// Immediately, and without earlier findings, because the resource has changed.
    Anew,
    /// When something changes, or after the reconcile period.
    Done,
    /// When something changes, or at this time if no watch reports the change.
    At(Instant),
}
