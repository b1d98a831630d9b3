//! Decides what happens to a deleted resource that the author's filters reject, although it has our finalizer: it is
//! uninstalled, or left to another operator that has recorded its release.
//!
//! Other operators use the same finalizer, so only a release record shows which one installed the release. If that was
//! another operator, it also owns the status, so the status is not written here. Without such a record, the resource is
//! uninstalled: there may be no other operator to remove the finalizer.

use controller::metrics::ReconcileResult;
use controller::report::Outcome;
use controller::runtime::key::ResourceKey;

use crate::reconcile::controller_context::ControllerContext;
use crate::view::primary::Primary;

/// What the log and an event say.
const LEFT: &str = "the filter of this operator rejects the resource, and an operator with another key has recorded its release: the \
    deletion is left to that one. If it no longer exists, let the filter accept the resource, or remove the finalizer of the uninstall";

/// Leaves a resource to another operator if it is another's. Logs and publishes that once.
pub(crate) fn leave(shared: &ControllerContext, key: &ResourceKey) -> Option<ReconcileResult> {
    let primary = shared.cache.primary(key).filter(|primary| is_anothers(shared, primary))?;
    // A record of ours, the end of the other's, or an accepting filter wakes it.
    shared.queue.cancel(key);
    let is_known = || shared.cache.has_primary(key, primary.uid());
    let was_published =
        shared.memory.change_if(is_known, key, |memory| std::mem::replace(&mut memory.release.leave_published, true));
    if was_published == Some(false) {
        tracing::info!(resource = %key, "Left alone: {LEFT}");
        shared.publish(&primary, Outcome::normal("FilterRejects", "Uninstall", LEFT.to_owned()));
    }
    Some(ReconcileResult::Success)
}

/// Returns whether a resource is rejected, and another operator has recorded its release.
pub(crate) fn is_anothers(shared: &ControllerContext, primary: &Primary) -> bool {
    let recorded = || shared.cache.release(&primary.key()).or_else(|| shared.cache.release_beside(primary));
    primary.is_rejected && recorded().is_some_and(|release| release.is_recorded_elsewhere_for(primary.uid()))
}
