//! Reads a resource again that the controller of another version may serve by now.

use super::uninstall;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, Learned, NextStep};
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

impl StepContext<'_> {
    /// Returns whether the controller of another version may have created the newest revision, because it serves the
    /// resource now and our watch lags behind.
    pub(crate) fn may_be_another_versions(&self) -> bool {
        self.shared.acceptance.version.is_some() && !self.found.reread && self.release().is_some()
    }

    /// Reads the resource once before an upgrade, because another controller may serve it by now.
    pub(crate) async fn reread(&self, primary: &Primary) -> Result<Ended, Failed> {
        uninstall::read_again(self, primary)
            .await
            .map_err(|e| Failed::of_request(&e, "cannot read the resource again"))?;
        Ok(NextStep::Again.with([Learned::Reread]))
    }
}
