//! Labels of watches.yaml on every object of a release.

use helm_release::action::Candidate;
use serde_json::{Value, json};

use crate::reconcile::failure::{Failed, FailedAttempt};
use crate::reconcile::step_context::StepContext;
use crate::rendering::labels;
use crate::status::reason::Reason;
use crate::view::primary::Primary;

impl StepContext<'_> {
    /// Returns the labels for the digest of the inputs; `None` if there are none.
    pub(crate) fn common_labels(&self) -> Option<Value> {
        let labels = &self.shared.settings.common_labels.0;
        (!labels.is_empty()).then(|| json!(["common labels", **labels]))
    }

    /// Adds the labels to the objects and hooks of a rendered candidate.
    ///
    /// # Errors
    /// A post-renderer made something that cannot be read.
    pub(crate) fn labelled(&self, primary: &Primary, candidate: Candidate) -> Result<Candidate, Failed> {
        let labels = &self.shared.settings.common_labels.0;
        if labels.is_empty() {
            return Ok(candidate);
        }
        labels::add(candidate, labels, primary.namespace()).map_err(|error| {
            FailedAttempt::rendering(Reason::RenderError, format!("cannot add commonLabels: {error}")).into()
        })
    }
}
