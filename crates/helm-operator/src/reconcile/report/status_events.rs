//! Publishes events about what a new status says for the first time.

use controller::report::Outcome;

use crate::reconcile::step_context::StepContext;
use crate::status::{Status, condition, summary};
use crate::view::primary::Primary;

/// Publishes what this status says and the resource's last one did not.
pub(super) fn publish(context: &StepContext<'_>, primary: &Primary, status: &Status) {
    publish_timeout(context, primary, status);
    publish_waiting(context, primary, status);
    publish_mistakes(context, primary, status);
    publish_recovery(context, primary, status);
}

/// Publishes, once, that there is no more progress.
fn publish_timeout(context: &StepContext<'_>, primary: &Primary, status: &Status) {
    let timeout =
        |status: &Status| status.find(condition::STALLED).filter(|c| *c.reason == *"ProgressTimeout").cloned();
    if let (None, Some(stalled)) = (timeout(&primary.status), timeout(status)) {
        context.shared.publish(primary, Outcome::warning("ProgressTimeout", "Reconcile", stalled.message.to_string()));
    }
}

/// Publishes, once, that the resource waits for others.
fn publish_waiting(context: &StepContext<'_>, primary: &Primary, status: &Status) {
    let Some(waiting) = &context.found.waiting else { return };
    let says = |status: &Status| {
        [condition::RECONCILING, condition::STALLED]
            .iter()
            .any(|kind| status.find(kind).is_some_and(|condition| *condition.reason == *waiting.reason))
    };
    if says(status) && !says(&primary.status) {
        let outcome = if waiting.is_final { Outcome::warning } else { Outcome::normal };
        context.shared.publish(primary, outcome(waiting.reason, "Reconcile", waiting.message.clone()));
    }
}

/// Publishes that a failure is over. Otherwise the last event of a healthy resource would be the warning about it.
fn publish_recovery(context: &StepContext<'_>, primary: &Primary, status: &Status) {
    if let Some(note) = summary::recovery(&primary.status, status) {
        tracing::info!(resource = %context.key, "{note}");
        context.shared.publish(primary, Outcome::normal("Recovered", "Reconcile", note));
    }
}

/// Publishes and logs what has no effect or is not ours, once per change.
fn publish_mistakes(context: &StepContext<'_>, primary: &Primary, status: &Status) {
    for kind in [condition::UNREAD_VALUES, condition::IGNORED_ANNOTATIONS, condition::UNPROVEN_RECORDS] {
        let said = |status: &Status| status.find(kind).map(|condition| condition.message.to_string());
        if let Some(message) = said(status).filter(|message| said(&primary.status).as_ref() != Some(message)) {
            tracing::warn!(resource = %context.key, reason = kind, message, "The resource needs attention");
            context.shared.publish(primary, Outcome::warning(kind, "Reconcile", message));
        }
    }
}
