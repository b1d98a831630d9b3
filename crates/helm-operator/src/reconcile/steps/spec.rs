//! Provides the `spec` of a resource in a reconcile. The cache keeps a limited amount of large ones, so it may have to
//! be read again.

use std::sync::Arc;

use controller::report::chain;
use helm_release::kube::Call;

use crate::reconcile::decide::state::Step;
use crate::reconcile::failure::Unanswered;
use crate::reconcile::learned::NextStep;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
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

    /// Reads the `spec` if a step needs it and the cache does not keep it. Returns `None` if it is available; otherwise
    /// the step is decided again.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn read_spec(&mut self, step: Step, primary: &Primary) -> Result<Option<NextStep>, Unanswered> {
        let is_read = step.reads_values() || !self.shared.settings.expressions.fields().is_empty();
        if !primary.spec.is_away() || !is_read {
            return Ok(None);
        }
        self.fetch_spec(primary).await?;
        Ok(Some(NextStep::Again))
    }

    /// Returns the resource with its `spec`; `None` if the `spec` cannot be read.
    pub(crate) async fn completed(&mut self, primary: &Arc<Primary>) -> Option<Arc<Primary>> {
        if primary.spec.is_away() {
            self.fetch_spec(primary).await.ok()?;
        }
        Some(self.with_spec(primary.clone())).filter(|primary| !primary.spec.is_away())
    }

    async fn fetch_spec(&mut self, primary: &Primary) -> Result<(), Unanswered> {
        let shared = self.shared;
        let path = shared.resource.path(primary.own_namespace(), primary.name());
        let path = path.map_err(|error| Unanswered::request(&error))?;
        let answer = shared.api.send(Call::get(path)).await.map_err(|error| Unanswered::request(&error))?;
        let received: Received = serde_json::from_slice(&answer.body).map_err(|error| {
            Unanswered::with_reason(Reason::Unanswered, format!("cannot read the resource: {}", chain(&error)))
        })?;
        self.found.spec = Some(received.primary.spec.clone());
        // If the resource has changed in the meantime, the next steps use the new one.
        shared.primary_written(received);
        Ok(())
    }
}
