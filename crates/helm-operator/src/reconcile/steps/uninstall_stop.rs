//! Says why an uninstall that has begun does not go on: its resource or its values have changed since then.

use super::sources::have_changed;
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

/// The reason why an uninstall after a failed upgrade stops once a person requests a revision that would be lost with
/// the release.
const PINNED: &str = "stopped, because the annotation pin changed";

/// The reasons why it stops once there are other values, which are tried on the present objects.
const CORRECTED: &str = "stopped, because the spec changed";
const OTHER_VALUES: &str = "stopped, because a source of values changed";

/// The reason why it stops while the resource is to be left alone.
const LEFT_ALONE: &str = "stopped, because an annotation leaves the release alone";

/// Returns why an uninstall after a failed upgrade that has deleted nothing does not go on: since it began, something
/// has stopped it, or there are other values, with which the next attempt upgrades the release. Other values do not
/// stop an uninstall that has begun to delete, because it would be completed first anyway.
pub(super) async fn called_off_by(context: &StepContext<'_>, primary: &Primary) -> Option<&'static str> {
    let has_other_values = have_changed(context.shared, &context.used_sources(primary)).await;
    // Other changes that arrived during that read also count.
    let stopped = stopped_by(context, primary);
    let now = context.shared.cache.primary_with_uid(context.key, primary.uid()).filter(|now| !now.deleting)?;
    match () {
        () if stopped.is_some() => stopped,
        () if now.spec.digest() != primary.spec.digest() => Some(CORRECTED),
        () => has_other_values.then_some(OTHER_VALUES),
    }
}

/// Returns why an uninstall after a failed upgrade does not go on for now: since it began, someone has requested to
/// leave the resource alone, or changed its pin.
pub(super) fn stopped_by(context: &StepContext<'_>, primary: &Primary) -> Option<&'static str> {
    let now = context.shared.cache.primary_with_uid(context.key, primary.uid()).filter(|now| !now.deleting)?;
    if now.annotations.leaves_alone() && !primary.annotations.leaves_alone() {
        return Some(LEFT_ALONE);
    }
    (now.annotations.pin() != primary.annotations.pin()).then_some(PINNED)
}
