//! Handles a release that needs an unserved kind: the retry of its install renders again only when discovery has
//! changed.
//!
//! Until then it would fail in the same way, and rendering may be expensive, because some charts generate keys.

use helm_release::action::Failure;
use tokio::time::Instant;

use crate::reconcile::decide::remembered::Unserved;
use crate::reconcile::failure::{Failed, FailedAttempt};
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

impl StepContext<'_> {
    /// Returns what a failed install predicts about its retries; `None` if they may succeed. The author's code may
    /// change what is rendered or served.
    pub(crate) fn unserved(&self, primary: &Primary, failure: &Failure) -> Option<Box<Unserved>> {
        let is_untouched = failure.recorded.is_none() && self.release().is_none();
        let is_certain = failure.cause.is_unserved_kind() && !self.shared.extensions.need_metadata();
        let (generation, at) = (self.found.discovered?, Instant::now());
        (is_untouched && is_certain).then(|| Box::new(Unserved { attempt: self.attempt(primary), generation, at }))
    }

    /// Returns the failure of the same attempt, if discovery has not changed. Records the state of discovery.
    pub(crate) async fn still_unserved(&mut self, primary: &Primary) -> Option<FailedAttempt> {
        let mapper = &self.shared.applier.mapper;
        let history = self.shared.memory.of(self.key);
        if history.unserved.is_some() && mapper.refresh().await.is_err() {
            return None;
        }
        let generation = mapper.generation();
        self.found.discovered = Some(generation);
        let (unserved, failed, attempt) =
            (history.unserved.as_ref()?, history.failure.as_ref()?, self.attempt(primary));
        if failed.inputs != attempt || !unserved.holds(&attempt, generation, Instant::now()) {
            return None;
        }
        if let Failed::Attempt(attempt) = &failed.failed { Some(attempt.clone()) } else { None }
    }
}
