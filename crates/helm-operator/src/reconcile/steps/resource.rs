//! Reads the resource's `spec`, because the cache keeps a limited amount of large ones, and its newest state before an
//! upgrade.

use std::sync::Arc;

use controller::report::chain;
use helm_release::kube::Call;

use crate::reconcile::decide::state::Step;
use crate::reconcile::failure::{Failed, Unanswered};
use crate::reconcile::learned::{Ended, Learned, NextStep};
use crate::reconcile::reread::read_again;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::values::Spec;
use crate::view::primary::{Primary, Received};

impl StepContext<'_> {
    /// Returns the resource with the `spec` that this reconcile has read, if it is still the same.
    pub(crate) fn with_spec(&self, primary: Arc<Primary>) -> Arc<Primary> {
        match &self.found.spec {
            Some(spec) if primary.spec.is_away() && spec.digest() == primary.spec.digest() => {
                Arc::new(primary.with_spec(spec.clone()))
            }
            _ => primary,
        }
    }

    /// Returns whether a step needs the `spec`, and the cache no longer holds it.
    pub(crate) fn lacks_spec(&self, step: Step, primary: &Primary) -> bool {
        primary.spec.is_away() && (step.reads_values() || !self.shared.settings.expressions.fields().is_empty())
    }

    /// Returns the resource with its `spec`; `None` if the `spec` cannot be read.
    pub(crate) async fn completed(&self, primary: &Arc<Primary>) -> Option<Arc<Primary>> {
        if !primary.spec.is_away() {
            return Some(primary.clone());
        }
        let spec = self.spec(primary).await?;
        Some(Arc::new(primary.with_spec(spec)))
    }

    /// Returns the `spec` of the resource, read again if the cache does not keep it; `None` if it cannot be read, or
    /// has changed since.
    pub(crate) async fn spec(&self, primary: &Primary) -> Option<Spec> {
        let is_it = |spec: &Spec| !spec.is_away() && spec.digest() == primary.spec.digest();
        if let Some(known) =
            [Some(&primary.spec), self.found.spec.as_ref()].into_iter().flatten().find(|spec| is_it(spec))
        {
            return Some(known.clone());
        }
        match self.read_spec(primary).await.ok()? {
            Learned::Spec(spec) => Some(spec).filter(is_it),
            _ => None,
        }
    }

    pub(crate) async fn read_spec(&self, primary: &Primary) -> Result<Learned, Failed> {
        let shared = self.shared;
        let path = shared.resource.path(primary.own_namespace(), primary.name());
        let path = path.map_err(|error| Unanswered::request(&error))?;
        let answer = shared.api.send(Call::get(path)).await.map_err(|error| Unanswered::request(&error))?;
        let received: Received = serde_json::from_slice(&answer.body).map_err(|error| {
            Unanswered::with_reason(Reason::Unanswered, format!("cannot read the resource: {}", chain(&error)))
        })?;
        let spec = received.primary.spec.clone();
        // If the resource has changed in the meantime, the next steps use the new one.
        shared.primary_written(received);
        Ok(Learned::Spec(spec))
    }

    /// Returns whether the controller of another version may have created the newest revision, because it serves the
    /// resource now and our watch lags behind.
    pub(crate) fn may_be_another_versions(&self) -> bool {
        self.shared.acceptance.version.is_some() && !self.found.reread && self.release().is_some()
    }

    /// Reads the resource once before an upgrade, because another controller may serve it in the meantime.
    pub(crate) async fn reread(&self, primary: &Primary) -> Result<Ended, Failed> {
        read_again(self, primary).await.map_err(|e| Failed::of_request(&e, "cannot read the resource again"))?;
        Ok(NextStep::Again.with([Learned::Reread]))
    }
}
