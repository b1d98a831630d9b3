//! Decides whether an uninstall that has begun must stop: its resource or its values have changed since then, or another
//! writer has made a revision.

use helm_release::action;

use super::sources::have_changed;
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

/// The reason why an uninstall after a failed upgrade stops once a person requests a revision that would be lost with
/// the release.
const PINNED: &str = "stopped, because the annotation pin changed";

/// The reasons why it stops once there are other values, which are tried on the present objects.
const CORRECTED: &str = "stopped, because the spec changed";
const OTHER_VALUES: &str = "stopped, because a source of values changed";

/// The reason why it stops while the resource is to be left alone, and a deletion while the resource is paused.
const LEFT_ALONE: &str = "stopped, because an annotation leaves the release alone";

/// The reason why any uninstall stops once another writer has made a revision, for example with `helm rollback`:
/// otherwise that revision's objects and record would be deleted.
pub(super) const REPLACED: &str = "stopped, because somebody else has made a revision";

/// Returns why an uninstall after a failed upgrade that has deleted nothing does not go on: since it began, something
/// has stopped it, or there are other values, with which the next attempt upgrades the release. Other values do not
/// stop an uninstall that has begun to delete, because it would be completed first anyway.
pub(super) async fn called_off_by(context: &StepContext<'_>, primary: &Primary) -> Option<&'static str> {
    let has_other_values = have_changed(context.shared, &context.used_sources(primary)).await;
    // Other changes that arrived during that read also count.
    let stopped = stopped_by(context, primary);
    if stopped.is_some() {
        return stopped;
    }
    let now = context.shared.cache.primary_with_uid(context.key, primary.uid()).filter(|now| !now.deleting)?;
    if now.spec.digest() != primary.spec.digest() {
        return Some(CORRECTED);
    }
    has_other_values.then_some(OTHER_VALUES)
}

/// Returns why an uninstall does not go on for now: since it was decided, somebody else has made a revision, or the
/// resource was paused. One after a failed upgrade also stops once another annotation leaves the resource alone, or its
/// pin has changed.
pub(super) fn stopped_by(context: &StepContext<'_>, primary: &Primary) -> Option<&'static str> {
    if context.running.replaced(|| context.release()).is_some() {
        return Some(REPLACED);
    }
    let now = context.shared.cache.primary_with_uid(context.key, primary.uid())?;
    match () {
        () if now.annotations.pause() && !primary.annotations.pause() => Some(LEFT_ALONE),
        () if now.deleting => None,
        () if now.annotations.leaves_alone() && !primary.annotations.leaves_alone() => Some(LEFT_ALONE),
        () => (now.annotations.pin() != primary.annotations.pin()).then_some(PINNED),
    }
}

/// Reads the records of the release after a wait, because the event of a revision that was made meanwhile may be late.
/// Without the right to list records, only events show it.
pub(super) async fn read_records(context: &StepContext<'_>, primary: &Primary) -> Result<(), action::Error> {
    match context.storage.history(primary.namespace(), primary.name()).await {
        Ok(records) => context.shared.cache.catch_up(context.key, records),
        Err(error) if error.is_forbidden() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
