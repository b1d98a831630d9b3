//! Postpones attempts that would delay others: they wait for a permit that only retries share.

use controller::runtime::retries::RetryInputs;

use crate::reconcile::learned::NextStep;
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

impl StepContext<'_> {
    /// Queues the resource for a retry permit.
    pub(crate) fn wait_for_retry(&self, primary: &Primary) -> NextStep {
        let has_changed = self.shared.memory.of(self.key).has_changed(&self.attempt(primary));
        let attempt = if has_changed { RetryInputs::Corrected } else { RetryInputs::Same };
        self.shared.queue.retry(self.key, attempt);
        NextStep::Done
    }

    /// Postpones a render that delayed others: although nothing failed, it is repeated with a retry permit.
    pub(crate) fn postpone(&self) -> NextStep {
        self.shared.memory.change(self.key, |history| history.is_slow = true);
        NextStep::Again
    }
}
