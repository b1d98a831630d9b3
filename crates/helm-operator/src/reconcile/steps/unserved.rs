//! Handles a release that needs an unserved kind: the retry of its install renders again only when discovery has
//! changed.
//!
//! Until then it would fail in the same way, and rendering may be expensive, because some charts generate keys.

use helm_release::action::Failure;
use tokio::time::Instant;

use crate::reconcile::decide::remembered::Unserved;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::Learned;
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

    /// Returns the state of discovery; `None` if it cannot be read.
    ///
    /// # Errors
    /// The same attempt failed in this state. Returns its failure.
    pub(crate) async fn discovered(&self, primary: &Primary) -> Result<Option<Learned>, Failed> {
        let mapper = &self.shared.applier.mapper;
        let memory = self.shared.memory.of(self.key);
        if memory.unserved.is_some() && mapper.refresh().await.is_err() {
            return Ok(None);
        }
        let generation = mapper.generation();
        if let (Some(unserved), Some(failure)) = (&memory.unserved, &memory.failure)
            && matches!(failure.failed, Failed::Attempt(_))
            && failure.inputs == self.attempt(primary)
            && unserved.holds(&failure.inputs, generation, Instant::now())
        {
            return Err(failure.failed.clone());
        }
        Ok(Some(Learned::Discovered(generation)))
    }
}
