//! Patches of watches.yaml on what a chart rendered.

use controller::report::chain;
use helm_release::action::Candidate;
use serde_json::{Value, json};

use crate::reconcile::failure::{Failed, FailedAttempt};
use crate::reconcile::step_context::StepContext;
use crate::rendering::patches;
use crate::status::reason::Reason;
use crate::view::primary::Primary;

impl StepContext<'_> {
    /// Returns the patches for the digest of the inputs; `None` if there are none.
    pub(crate) fn patches(&self) -> Option<Value> {
        let patches = &self.shared.settings.patches.0;
        let written: Vec<&Value> = patches.iter().map(|patch| &patch.written).collect();
        (!written.is_empty()).then(|| json!(["patches", written]))
    }

    /// Lets post-renderers, patches and labels change a rendered candidate, in this order. As in Helm, that includes the
    /// chart's hooks.
    ///
    /// # Errors
    /// A post-renderer or a patch fails, or the result cannot be read.
    pub(crate) async fn decorated(&self, primary: &Primary, rendered: Candidate) -> Result<Candidate, Failed> {
        let rendered = self.post_render(primary, rendered).await?;
        self.labelled(primary, self.patched(primary, rendered)?)
    }

    fn patched(&self, primary: &Primary, candidate: Candidate) -> Result<Candidate, Failed> {
        let patches = &self.shared.settings.patches;
        if patches.0.is_empty() {
            return Ok(candidate);
        }
        patches::apply(candidate, patches, primary.namespace()).map_err(|error| {
            FailedAttempt::rendering(Reason::RenderError, format!("cannot apply patches: {}", chain(&error))).into()
        })
    }
}
