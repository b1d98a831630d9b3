//! Classifies why a step failed. A failed attempt is a verdict on the chart, the values or an object: the same inputs
//! will fail again. Any other failure does not prove the inputs bad, so it uses up no retries, and nothing that an
//! attempt created is removed because of it.
//!
//! The classes are types. A [`FailedAttempt`] can be created only from such a verdict, and the code that counts
//! attempts and cleans up accepts nothing else.

use controller::report::chain;
use helm_release::action;

use crate::rendering::request::RenderError;
use crate::status::reason::Reason;
use crate::status::{Fault, condition};

/// An attempt that failed: its chart does not render, its values are invalid, or the server rejects one of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedAttempt(Fault);

/// A question that the API server or the code of the operator's author did not answer, or answered illegibly. Also a
/// failed attempt whose clean-up is not complete, and an action of which only refused deletions are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    fault: Fault,
    /// The attempt that had failed before its clean-up met an obstacle.
    uncleaned: Option<Box<(FailedAttempt, Obstacle)>>,
    /// Whether the server refused to show an object of a group that an ordered release waits for, or a conversion
    /// webhook failed.
    hides_objects: bool,
    /// Whether the server answered the end of an interrupted action's hook with errors.
    is_refused_end: bool,
}

/// What keeps a clean-up from completion, and may go away by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A request was not answered or relied on an outdated state, other actions hold the memory for its waits, or an
    /// uninstall waits for objects, or a rollback for the permission to delete some, which repeats none of its hooks.
    Outage,
    /// Kubernetes takes long to delete an object, or the server answers that it cannot serve a request now. A finalizer
    /// of a Pod or a webhook may be the cause, so it may last forever.
    Lasting,
    /// A hook of the failed attempt may still run, because the server answers its end with errors. It ends once that has
    /// been tried for long enough: the clean-up then goes on beside the hook.
    Unended,
}

/// The reason why a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// An attempt failed; a clean-up follows.
    Attempt(FailedAttempt),
    /// The step could not determine what it needed to know.
    Unanswered(Unanswered),
    /// No attempt is allowed: the release is someone else's, an annotation is invalid, or a permission is missing.
    Blocked(Fault),
}

impl FailedAttempt {
    /// Creates the failure of a chart that does not render.
    pub(crate) fn rendering(reason: Reason, message: String) -> FailedAttempt {
        FailedAttempt(Fault { condition: condition::IRRECONCILABLE, reason, message })
    }

    pub(crate) fn invalid_values(message: String) -> FailedAttempt {
        FailedAttempt::rendering(Reason::InvalidValues, message)
    }

    /// Returns the failure with another message.
    pub(crate) fn with_message(self, message: String) -> FailedAttempt {
        FailedAttempt(Fault { message, ..self.0 })
    }

    /// Returns the failure of an attempt whose clean-up met an obstacle, with a message that says so.
    pub(crate) fn uncleaned(self, obstacle: Obstacle, message: String) -> Unanswered {
        let fault = Fault { message, ..self.0.clone() };
        let is_refused_end = obstacle == Obstacle::Unended;
        Unanswered { fault, uncleaned: Some(Box::new((self, obstacle))), hides_objects: false, is_refused_end }
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns whether it is the failure of an action, and not of the render before it.
    pub(crate) fn is_of_action(&self) -> bool {
        self.0.condition == condition::RELEASE_FAILED
    }
}

impl Unanswered {
    pub(crate) fn request(error: &(dyn std::error::Error + 'static)) -> Unanswered {
        Unanswered::with_reason(Reason::Unanswered, chain(error))
    }

    /// Creates the failure of an action whose candidate is not the cause.
    fn action(error: &action::Error) -> Unanswered {
        // An outage that a proxy or the server itself answers with a code is one nevertheless. But the candidate may
        // have broken a conversion webhook, which then hides its objects for ever, from every request.
        let is_refused_look = error.is_group() && error.reached_server() && !error.is_outage();
        let hides_objects = is_refused_look || error.is_of_conversion();
        match error.is_refused_deletion() {
            true => Unanswered::with_reason(Reason::DeletionRefused, chain(error)),
            false => Unanswered { hides_objects, is_refused_end: error.is_refused_end(), ..Unanswered::request(error) },
        }
    }

    /// Creates the failure of something other than a request, which has its own reason.
    pub(crate) fn with_reason(reason: Reason, message: String) -> Unanswered {
        let fault = Fault { condition: condition::IRRECONCILABLE, reason, message };
        Unanswered { fault, uncleaned: None, hides_objects: false, is_refused_end: false }
    }
}

impl Failed {
    /// Classifies the failure of an action that creates a revision, or of a part of one. `reason` applies to a failed
    /// attempt.
    pub(crate) fn of_attempt(error: &action::Error, condition: &'static str, reason: Reason) -> Failed {
        match error.is_unanswered() {
            true => Failed::Unanswered(Unanswered::action(error)),
            false => Failed::Attempt(FailedAttempt(fault(error, condition, reason))),
        }
    }

    /// Classifies the failure of a step that creates no revision.
    pub(crate) fn of_step(error: &action::Error, condition: &'static str, reason: Reason) -> Failed {
        match error.is_unanswered() {
            true => Failed::Unanswered(Unanswered::action(error)),
            false => Failed::Blocked(fault(error, condition, reason)),
        }
    }

    /// Classifies the failure of one of the reconciler's own requests.
    pub(crate) fn of_request(error: &helm_release::kube::Error, what: &str) -> Failed {
        let message = format!("{what}: {}", chain(error));
        match error.is_unanswered() {
            true => Unanswered::with_reason(Reason::Unanswered, message).into(),
            false => {
                Failed::Blocked(Fault { condition: condition::IRRECONCILABLE, reason: Reason::ReconcileError, message })
            }
        }
    }

    pub(crate) fn fault(&self) -> &Fault {
        match self {
            Failed::Attempt(FailedAttempt(fault))
            | Failed::Unanswered(Unanswered { fault, .. })
            | Failed::Blocked(fault) => fault,
        }
    }

    /// Returns whether an attempt failed, whether or not its clean-up is complete.
    pub(crate) fn is_of_attempt(&self) -> bool {
        matches!(self, Failed::Attempt(_)) || self.uncleaned().is_some()
    }

    /// Returns the failed attempt whose clean-up is not complete, and what it waits for.
    pub(crate) fn uncleaned(&self) -> Option<&(FailedAttempt, Obstacle)> {
        if let Failed::Unanswered(unanswered) = self { unanswered.uncleaned.as_deref() } else { None }
    }

    /// Returns whether the server refuses to delete what a revision drops, after all else is applied.
    pub(crate) fn is_refused_deletion(&self) -> bool {
        matches!(self, Failed::Unanswered(unanswered) if unanswered.fault.reason == Reason::DeletionRefused)
    }

    /// Returns whether a release does not go on because a conversion webhook fails, or because the server refuses to show
    /// an object of a group. No other outage is such a refusal, with or without an answer.
    pub(crate) fn hides_objects(&self) -> bool {
        matches!(self, Failed::Unanswered(unanswered) if unanswered.hides_objects)
    }

    /// Returns whether a release does not go on because the server answers the end of an interrupted action's hook with
    /// errors.
    pub(crate) fn is_refused_end(&self) -> bool {
        matches!(self, Failed::Unanswered(unanswered) if unanswered.is_refused_end)
    }

    /// Returns the failure with another fault to report.
    pub(crate) fn reported_as(self, fault: Fault) -> Failed {
        match self {
            Failed::Attempt(_) => Failed::Attempt(FailedAttempt(fault)),
            Failed::Unanswered(unanswered) => Failed::Unanswered(Unanswered { fault, ..unanswered }),
            Failed::Blocked(_) => Failed::Blocked(fault),
        }
    }
}

fn fault(error: &action::Error, condition: &'static str, reason: Reason) -> Fault {
    let reason = match error {
        error if error.is_ownership_conflict() => Reason::ReleaseConflict,
        error if error.is_out_of_reach() => Reason::OutOfReach,
        error if error.is_too_large() => Reason::RecordTooLarge,
        error if error.is_group() => Reason::GroupNotReady,
        _ => reason,
    };
    Fault { condition, reason, message: chain(error) }
}

impl From<RenderError> for Failed {
    fn from(error: RenderError) -> Failed {
        match error {
            RenderError::Failed { reason, message } => FailedAttempt::rendering(Reason::named(reason), message).into(),
            RenderError::Unanswered { reason, message } => {
                Unanswered::with_reason(Reason::named(reason), message).into()
            }
        }
    }
}

impl From<FailedAttempt> for Failed {
    fn from(attempt: FailedAttempt) -> Failed {
        Failed::Attempt(attempt)
    }
}

impl From<Unanswered> for Failed {
    fn from(unanswered: Unanswered) -> Failed {
        Failed::Unanswered(unanswered)
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Failed {
        Failed::Blocked(fault)
    }
}

#[cfg(test)]
mod tests {
    use helm_release::kube::{ApplyError, Error, Purpose};
    use helm_release::storage;

    use super::*;

    fn judged(error: impl Into<action::Error>) -> (bool, Reason) {
        match Failed::of_attempt(&error.into(), condition::RELEASE_FAILED, Reason::UpgradeError) {
            Failed::Attempt(FailedAttempt(fault)) => (true, fault.reason),
            Failed::Unanswered(Unanswered { fault, .. }) => (false, fault.reason),
            Failed::Blocked(_) => unreachable!("an attempt is judged or not answered"),
        }
    }

    fn applying(source: Error) -> ApplyError {
        ApplyError::Failed { verb: "apply", object: "ConfigMap \"a\"".into(), source }
    }

    fn of_record(source: Error) -> storage::Error {
        storage::Error::Api { verb: "read", key: "sh.helm.release.v1.web.v1".into(), source }
    }

    #[test]
    fn only_a_refused_object_is_a_failed_attempt() {
        let unanswered = (false, Reason::Unanswered);
        assert_eq!(judged(applying(Error::from_status(422, "Invalid", "no"))), (true, Reason::UpgradeError));
        assert_eq!(judged(ApplyError::Foreign(Vec::new())), (true, Reason::ReleaseConflict));
        assert_eq!(judged(storage::Error::TooLarge { name: "web".into(), size: 1 }), (true, Reason::RecordTooLarge));
        let unreadable =
            storage::Error::Unreadable { name: "web".into(), source: helm_release::release::Error::TooDeep };
        assert_eq!(judged(unreadable), (true, Reason::RecordTooLarge));
        assert_eq!(judged(applying(Error::from_status(503, "", "away"))), unanswered);
        assert_eq!(judged(applying(Error::Transport("reset".into()))), unanswered);
        for code in [403, 404, 409, 422, 500] {
            assert_eq!(judged(of_record(Error::from_status(code, "", "no"))), unanswered, "{code}");
        }
        assert_eq!(judged(storage::Error::Incomplete { key: "web".into() }), unanswered);
        assert_eq!(Purpose::default(), Purpose::Write);
    }
}
