//! What failed last for a resource, and how often.

use controller::runtime::backoff::Retry;
use tokio::time::Instant;

use crate::reconcile::failure::{Failed, FailedAttempt};
use crate::status::Fault;

/// How many clean-ups of an attempt may fail because of an obstacle that may be permanent: a finalizer that keeps an
/// object for longer than the two minutes that a clean-up waits, or a broken webhook that makes the server reject
/// requests. And how many attempts may wait for the end of a hook that the server answers with errors.
pub(crate) const MAX_OBSTRUCTIONS: u32 = 10;

/// A failure that still applies.
#[derive(Clone, Debug)]
pub(crate) struct LastFailure {
    pub(crate) failed: Failed,
    /// The inputs that failed; empty if the cause was someone else's action on the release.
    pub(crate) inputs: String,
    pub(crate) retry: Retry,
    /// How many attempts with these inputs failed, not counting outages.
    pub(crate) attempts: u32,
    /// How often the clean-up after such an attempt met an obstacle that may last forever.
    pub(crate) obstructions: u32,
    /// How often the server has answered the end of an interrupted action's hook with errors since the last attempt. Only
    /// this process counts: after a restart, the next one waits for as long again, which loses nothing. The age of the Job or
    /// of its record would prove no refusal: the webhook may just be starting, as this process is.
    pub(crate) refused_ends: u32,
    /// The last attempt with these inputs, if its clean-up is not complete. Other failures may have followed it.
    pub(crate) uncleaned: Option<FailedAttempt>,
    /// Whether the resource itself is the cause, and not an outage.
    pub(crate) is_own: bool,
    /// Whether the retries are used up, so that only other inputs are tried.
    pub(crate) exhausted: bool,
    /// When the server first and last refused to show a group of an ordered release with these inputs, if it refused
    /// every look.
    pub(crate) hidden: Option<(Instant, Instant)>,
}

impl LastFailure {
    /// Creates the failure of a resource that waits until a time, although no attempt failed.
    pub(crate) fn waiting(fault: Fault, inputs: String, until: Instant) -> LastFailure {
        LastFailure {
            failed: Failed::Blocked(fault),
            inputs,
            retry: Retry { failures: 0, at: until },
            attempts: 0,
            obstructions: 0,
            refused_ends: 0,
            uncleaned: None,
            is_own: false,
            exhausted: false,
            hidden: None,
        }
    }

    /// Keeps what is known of the attempts with the same inputs, if the wait ends none of them: how many failed, and
    /// which one's clean-up is not complete.
    pub(crate) fn after(self, before: Option<&LastFailure>) -> LastFailure {
        let Some(before) = before.filter(|before| before.inputs == self.inputs) else { return self };
        let retry = Retry { failures: before.retry.failures, ..self.retry };
        LastFailure { failed: self.failed, retry, ..before.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::reconcile::decide::memory::ResourceMemory;
    use crate::reconcile::failure::Obstacle;
    use crate::status::condition;
    use crate::status::reason::Reason;

    #[tokio::test(start_paused = true)]
    async fn a_wait_between_attempts_with_the_same_inputs_forgets_none_of_them() {
        let (now, mut memory) = (Instant::now(), ResourceMemory::default());
        let attempt = FailedAttempt::rendering(Reason::Own("X"), "m".into());
        memory.fail(&attempt.clone().into(), "a".into(), now, Some(1));
        let uncleaned: Failed = attempt.clone().uncleaned(Obstacle::Lasting, "m; and more".into()).into();
        memory.fail(&uncleaned, "a".into(), now, Some(1));
        let fault = Fault { condition: condition::IRRECONCILABLE, reason: Reason::ReconcileError, message: "w".into() };
        let until = now + Duration::from_secs(60);
        for (inputs, failures, attempts, obstructions, uncleaned) in
            [("a", 2, 1, 1, Some(attempt)), ("b", 0, 0, 0, None)]
        {
            let waiting = LastFailure::waiting(fault.clone(), inputs.into(), until).after(memory.failure.as_deref());
            assert_eq!((waiting.failed.fault(), waiting.retry), (&fault, Retry { failures, at: until }), "{inputs}");
            assert_eq!((waiting.attempts, waiting.obstructions), (attempts, obstructions), "{inputs}");
            assert_eq!(waiting.uncleaned, uncleaned, "{inputs}");
        }
    }
}
