//! Decides what happens to a deleted resource that the author's filters reject, although it has our finalizer: it is
//! uninstalled if this operator installed it, and otherwise left to the operator that serves it.
//!
//! Other operators have the same finalizer, so only a record tells who installed it. Its status is not written either: the
//! other operator writes it.

use controller::metrics::ReconcileResult;
use controller::report::Outcome;
use controller::runtime::key::ResourceKey;

use crate::reconcile::controller_context::ControllerContext;
use crate::view::primary::Primary;

/// What the log and an event say.
const LEFT: &str = "the filter of this operator rejects the resource, and no release record shows that this operator installed it: its deletion \
    is left to the operator that serves it. If none does, remove the finalizer of the uninstall";

/// Leaves a resource to another operator if it is another's. Logs and publishes that once.
pub(crate) fn leave(shared: &ControllerContext, key: &ResourceKey) -> Option<ReconcileResult> {
    let primary = shared.cache.primary(key).filter(|primary| is_anothers(shared, primary))?;
    // A record of ours, or an accepting filter, wakes it.
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

/// Returns whether a resource is rejected, and nothing shows that this operator installed it.
pub(crate) fn is_anothers(shared: &ControllerContext, primary: &Primary) -> bool {
    primary.is_rejected && !is_ours(shared, primary)
}

fn is_ours(shared: &ControllerContext, primary: &Primary) -> bool {
    let (key, uid) = (primary.key(), primary.uid());
    let memory = shared.memory.of(&key);
    // Only its finalizer is left.
    if memory.release.cleared.as_deref() == Some(uid) {
        return true;
    }
    let recorded = || shared.cache.release(&key).or_else(|| shared.cache.release_beside(primary));
    match recorded().or_else(|| memory.release.lost.clone()) {
        Some(release) => release.is_recorded_here_for(uid),
        // Another operator that has uninstalled it is done as well.
        None => primary.status.is_uninstalled(),
    }
}
