//! Decides what happens to a deleted resource that the author's filters reject, although it has our finalizer: it is
//! uninstalled, or left to another operator.
//!
//! Other operators use the same finalizer, so only a release record shows which one installed the release. If that was
//! another operator, it also owns the status, so the status is not written here. Its records may be in another
//! `storageNamespace`, which this operator does not read. So a resource that this operator has not recorded is not
//! uninstalled: another operator may be about to run its hooks and delete its objects. This operator removes only the
//! finalizer, and only when no operator seems to be at work: there may be none left to do so. The same holds if the status
//! names a newer revision than the records here: another operator has imported the release, under the next number.

use std::time::Duration;

use controller::metrics::ReconcileResult;
use controller::report::Outcome;
use controller::runtime::key::ResourceKey;
use tokio::time::Instant;

use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::left_alone::LeftAlone;
use crate::reconcile::failure::Failed;
use crate::reconcile::step_context::StepContext;
use crate::reconcile::steps::finalizer;
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

/// What the log and an event say of another operator's release.
const LEFT: &str = "the filter of this operator rejects the resource, and an operator with another key has recorded its release: the \
    deletion is left to that one. If it no longer exists, let the filter accept the resource, or remove the finalizer of the uninstall";

/// What they say of a release without a known record.
const UNPROVEN: &str = "the filter of this operator rejects the resource, and this operator has no record of its release, or only of \
    revisions before those in the status: the deletion is left to other operators. This operator only removes the finalizer, after \
    ten minutes without a failure or any other change in the status; if no other operator serves the resource, let the filter accept \
    it, or remove the finalizer of the uninstall";

/// What they say once the finalizer is gone.
const LET_GO: &str = "removed the finalizer of a resource that the filter of this operator rejects, because no operator seems to uninstall \
    it: objects and records of its release may be left";

/// How long to wait before the next attempt to remove the finalizer.
const AGAIN: Duration = Duration::from_secs(30);

/// Whose release a rejected resource has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    /// An operator with another key has recorded it.
    Anothers,
    /// Nothing that this operator knows says that it is its own.
    Unproven,
}

/// Leaves a resource to another operator if it is another's, or may be. Logs and publishes that once.
pub(crate) async fn leave(shared: &ControllerContext, key: &ResourceKey) -> Option<ReconcileResult> {
    let primary = shared.cache.primary(key)?;
    match whose(shared, &primary) {
        Whose::Ours => None,
        Whose::Anothers => {
            // A record of ours, the end of the other's, or an accepting filter wakes it.
            shared.queue.cancel(key);
            look(shared, &primary, LEFT);
            Some(ReconcileResult::Success)
        }
        Whose::Unproven => Some(Box::pin(wait(shared, key, &primary)).await),
    }
}

/// Returns whether a resource is left to another operator.
pub(crate) fn is_left(shared: &ControllerContext, primary: &Primary) -> bool {
    whose(shared, primary) != Whose::Ours
}

fn whose(shared: &ControllerContext, primary: &Primary) -> Whose {
    if !primary.is_rejected {
        return Whose::Ours;
    }
    let (key, owner) = (primary.key(), primary.owner());
    let (recorded, beside) = (shared.cache.release(&key), shared.cache.release_beside(primary));
    if recorded.as_ref().or(beside.as_ref()).is_some_and(|one| one.is_recorded_elsewhere_for(primary.uid())) {
        return Whose::Anothers;
    }
    let memory = shared.memory.of(&key);
    let is_cleared = memory.release.cleared.as_deref() == Some(primary.uid());
    let has_lost_own = memory.release.lost_own(&owner).is_some_and(|lost| lost.was_recorded_for(&owner));
    let named = primary.status.newest_revision();
    let is_newest = |release: &ReleaseRecords| release.newest().is_some_and(|(version, _)| version >= named);
    // An uninstall deletes its own revision's record last, after those of later, failed revisions.
    let is_last = |release: &ReleaseRecords| is_newest(release) || !release.uninstalling().is_empty();
    let is_recorded = [recorded, beside].iter().flatten().any(|one| one.was_recorded_for(&owner) && is_last(one));
    // A reconcile that cannot see the records reports that, and deletes nothing.
    let is_ours = is_recorded || has_lost_own || is_cleared || shared.cache.is_blind(&key);
    if is_ours { Whose::Ours } else { Whose::Unproven }
}

/// Removes the finalizer after a long enough time without a change in the status.
async fn wait(shared: &ControllerContext, key: &ResourceKey, primary: &Primary) -> ReconcileResult {
    let Some(remaining) = look(shared, primary, UNPROVEN) else { return ReconcileResult::Success };
    if !remaining.is_zero() {
        return again(shared, key, remaining);
    }
    if let Err(failed) = let_go(&StepContext::new(shared, key, &()), primary).await {
        tracing::warn!(resource = %key, error = failed.fault().message, "Cannot leave a rejected resource");
        return again(shared, key, AGAIN);
    }
    if shared.cache.primary_with_uid(key, primary.uid()).is_some_and(|now| now.has_finalizer()) {
        // It has changed meanwhile, or has turned out to have a record.
        return again(shared, key, Duration::from_secs(1));
    }
    tracing::warn!(resource = %key, "Left alone: {LET_GO}");
    shared.publish(primary, Outcome::warning("FilterRejects", "Uninstall", LET_GO));
    ReconcileResult::Success
}

/// Removes the finalizer, unless a fresh read finds a record of this operator's or another's. The write fails if the
/// resource has changed since.
async fn let_go(context: &StepContext<'_>, primary: &Primary) -> Result<(), Failed> {
    finalizer::finds_records(context, primary).await?;
    if whose(context.shared, primary) != Whose::Unproven {
        return Ok(());
    }
    // Otherwise the garbage collector would delete objects of a release that the resource had begun to take over.
    if context.release().is_some() {
        finalizer::hand_over(context, primary).await?;
    }
    finalizer::drop_finalizers(context, primary).await.map(drop)
}

/// Remembers the status of a resource that is left alone, and says why at first. Returns how long the finalizer stays;
/// `None` if the resource is gone.
fn look(shared: &ControllerContext, primary: &Primary, why: &'static str) -> Option<Duration> {
    let (key, now) = (primary.key(), Instant::now());
    let is_known = || shared.cache.has_primary(&key, primary.uid());
    let is_paused = primary.paused_by().is_some();
    let seen = shared.memory.change_if(is_known, &key, |memory| {
        let before = memory.release.left_alone.take();
        let seen = LeftAlone::next(before.as_deref(), &primary.status, is_paused, now);
        let remaining = seen.remaining(now);
        memory.release.left_alone = Some(Box::new(seen));
        (before.is_none(), remaining)
    });
    let (is_first, remaining) = seen?;
    if is_first {
        tracing::info!(resource = %key, "Left alone: {why}");
        shared.publish(primary, Outcome::normal("FilterRejects", "Uninstall", why));
    }
    Some(remaining)
}

fn again(shared: &ControllerContext, key: &ResourceKey, after: Duration) -> ReconcileResult {
    shared.queue.push_after(key.clone(), after);
    ReconcileResult::RequeueAfter
}
