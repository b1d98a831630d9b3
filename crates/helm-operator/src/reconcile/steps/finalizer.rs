//! Manages the finalizer that delays a resource's deletion until its release is uninstalled.

use std::sync::Arc;

use controller::report::Outcome;
use helm_release::action::{self, Action};
use helm_release::kube::Call;
use outside::Headed;
use serde_json::json;
use tokio::time::Instant;

use super::repair::fault;
use super::unrecorded::leave_to_successor;
use crate::reconcile::decide::additions::Wait;
use crate::reconcile::decide::last_failure::LastFailure;
use crate::reconcile::decide::memory::ResourceMemory;
use crate::reconcile::decide::state::Recorded;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::NextStep;
use crate::reconcile::report::other_operator::{finalizer_removed, finalizer_removed_now_and_then};
use crate::reconcile::reread;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::status::{Fault, condition};
use crate::view::finalizers::{FINALIZER, is_ours};
use crate::view::primary::{Primary, Received};
use crate::view::release::Holder;

/// The field manager of finalizers. If it were the releases' manager, the finalizer of a resource that is itself an
/// object of a release would count as a change of what that release applied.
const FINALIZER_MANAGER: &str = "helm-operator-finalizer";

/// Adds our finalizer before anything is created that must be removed on deletion. Waits longer each time if someone
/// keeps removing it.
pub(crate) async fn add_finalizer(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    if let Some(wait) = wait_to_add(context, primary) {
        let waiting = LastFailure::waiting(finalizer_removed(), context.attempt(primary), wait.until);
        let before = context.shared.memory.of(context.key);
        let waiting = waiting.after(before.failure.as_deref());
        // Only the start of a wait is reported.
        match wait.is_new {
            true => context.wait_for_others(primary, waiting),
            false => _ = context.hold_for_others(primary, waiting),
        }
        return Ok(NextStep::Again);
    }
    let Some(mut finalizers) = all_finalizers(context, primary).await? else { return Ok(NextStep::Again) };
    finalizers.push(FINALIZER.into());
    set_finalizers(context, primary, &finalizers, "add").await
}

/// Returns how long to wait before our finalizer is added once more; `None` if it may be added now.
fn wait_to_add(context: &StepContext<'_>, primary: &Primary) -> Option<Wait> {
    let (now, generation) = (Instant::now(), primary.generation);
    let wait = |memory: &mut ResourceMemory| memory.competitor.as_mut()?.additions.wait(now, generation);
    context.shared.memory.change(context.key, wait)
}

/// Counts an addition of our finalizer, unless the resource is new, and reports a long series of them.
fn count_addition(context: &StepContext<'_>, primary: &Primary) {
    let was_served = primary.was_served() || context.release().is_some();
    let is_known = || was_served && context.shared.cache.has_primary(context.key, primary.uid());
    let is_reported = context.shared.memory.change_if(is_known, context.key, |memory| {
        memory.competitor.get_or_insert_default().additions.count(Instant::now())
    });
    if is_reported == Some(true) {
        let message = finalizer_removed_now_and_then();
        tracing::warn!(resource = %context.key, error = message, "Adding a finalizer that something keeps removing");
        context.shared.publish(primary, Outcome::warning("FinalizerRemoved", "Reconcile", message));
    }
}

/// Removes our finalizer and those of upstream operators.
pub(crate) async fn remove_finalizer(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    if context.recorded(primary) == Recorded::None && !context.is_uninstalled(primary) {
        if finds_records(context, primary).await? {
            return Ok(NextStep::Again);
        }
        tracing::info!(resource = %context.key, "Release not found");
    }
    hand_over(context, primary).await?;
    drop_finalizers(context, primary).await
}

/// Removes the same finalizers, and leaves everything else as it is.
pub(crate) async fn drop_finalizers(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    let Some(mut finalizers) = all_finalizers(context, primary).await? else { return Ok(NextStep::Again) };
    finalizers.retain(|finalizer| !is_ours(finalizer));
    tracing::info!(resource = %context.key, "Removing finalizer");
    set_finalizers(context, primary, &finalizers, "remove").await
}

/// Reads the records of a release that has no known records: their events may be late. Returns whether there are any.
/// Without the right to list records, the operator is unlikely to have written any.
pub(crate) async fn finds_records(context: &StepContext<'_>, primary: &Primary) -> Result<bool, Failed> {
    match context.shared.storage.history(primary.namespace(), primary.name()).await {
        Ok(records) => context.shared.cache.catch_up(context.key, records),
        Err(error) if error.is_forbidden() => {}
        Err(error) => return Err(fault(&error.into())),
    }
    Ok(context.release().is_some())
}

/// Leaves the objects of someone else's release to its holder: a resource that took the release over may not have
/// applied them yet, and a release that this resource began to take over stays as it is.
pub(crate) async fn hand_over(context: &StepContext<'_>, primary: &Primary) -> Result<(), Failed> {
    let Some(release) = context.release() else { return hand_over_unrecorded(context, primary).await };
    let env = || context.environment(primary, Action::Uninstall);
    let left = match release.holder(&primary.owner()) {
        Holder::Resource => Ok(()),
        Holder::Successor => action::hand_over(&env(), &release.inventory()).await,
        // It has deleted what names it.
        _ if context.is_uninstalled(primary) => Ok(()),
        Holder::Nobody | Holder::Upstream | Holder::Other => match release.base().or(release.newest()) {
            Some((version, _)) => action::give_back(&env(), version).await,
            None => Ok(()),
        },
    };
    left.map_err(|e| fault(&e))
}

/// Leaves the objects of a release to the resource that took it over before the records moved.
async fn hand_over_unrecorded(context: &StepContext<'_>, primary: &Primary) -> Result<(), Failed> {
    if context.is_uninstalled(primary) || !context.is_taken_over_beside(primary).await? {
        return Ok(());
    }
    let env = context.environment(primary, Action::Uninstall);
    leave_to_successor(&env, primary).await.map(drop).map_err(|e| fault(&e))
}

/// Returns all finalizers of the resource, read again if the cache does not keep them all; `None` if the resource is
/// gone, or was replaced. If they have changed since, the resource version of the write turns it away.
async fn all_finalizers(context: &StepContext<'_>, primary: &Primary) -> Result<Option<Vec<Arc<str>>>, Failed> {
    if let Some(all) = primary.finalizers.all() {
        return Ok(Some(all.to_vec()));
    }
    let what = "failed to read the finalizers";
    let failed = |e: helm_release::kube::Error| Failed::of_request(&e, what);
    let path = context.shared.resource.path(primary.namespace(), primary.name()).map_err(failed)?;
    match context.api.send(Call::get(path)).await.and_then(|answer| answer.parse::<Headed>()) {
        Ok(read) => Ok(Some(read.metadata.finalizers)),
        Err(error) if error.is_not_found() => look_again(context, primary, &error, what).await.map(|()| None),
        Err(error) => Err(failed(error)),
    }
}

/// Reads the resource again, because the server answered as if it were deleted or had just changed.
///
/// # Errors
/// It cannot be read, or is the same: another try at once would meet the same refusal, as often as a reconcile has
/// steps.
async fn look_again(
    context: &StepContext<'_>,
    primary: &Primary,
    refusal: &helm_release::kube::Error,
    what: &str,
) -> Result<(), Failed> {
    reread::read_again(context, primary).await.map_err(|e| Failed::of_request(&e, what))?;
    let now = context.shared.cache.primary_with_uid(context.key, primary.uid());
    match now.is_some_and(|now| now.resource_version() == primary.resource_version()) {
        true => Err(Failed::of_request(refusal, what)),
        false => Ok(()),
    }
}

async fn set_finalizers(
    context: &StepContext<'_>,
    primary: &Primary,
    finalizers: &[Arc<str>],
    verb: &str,
) -> Result<NextStep, Failed> {
    let what = format!("failed to {verb} uninstall finalizer");
    let failed = |e: helm_release::kube::Error| Failed::of_request(&e, &what);
    let path = context.shared.resource.path(primary.namespace(), primary.name()).map_err(failed)?;
    // A finalizer that someone has just added must not be lost, and a resource with another uid must not be changed.
    let patch = json!({"metadata": {
        "finalizers": finalizers, "uid": primary.uid(), "resourceVersion": primary.resource_version(),
    }});
    let path = format!("{path}?fieldManager={FINALIZER_MANAGER}");
    match context.api.send(Call::merge(path, patch.to_string().into_bytes())).await {
        Ok(answer) => {
            let answer: Received = answer.parse().map_err(failed)?;
            let is_added = finalizers.iter().any(|finalizer| is_ours(finalizer));
            let is_undone = answer.primary.has_finalizer() != is_added;
            if answer.primary.deleting && answer.primary.finalizers.is_empty() {
                context.shared.primary_deleted(context.key, primary.uid());
                return Ok(NextStep::Done);
            }
            context.shared.primary_written(answer);
            if is_undone {
                return Err(undone(&what));
            }
            if is_added {
                count_addition(context, primary);
            }
            Ok(NextStep::Again)
        }
        // The resource was deleted, or changed a moment ago.
        Err(error) if error.is_not_found() || error.is_conflict() => {
            look_again(context, primary, &error, &what).await.map(|()| NextStep::Again)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Returns the failure of a write of our finalizer that has no effect. The same step would follow at once, without end.
fn undone(what: &str) -> Failed {
    let message = format!(
        "{what}: the API server accepts the patch and stores the resource as before, which a webhook may cause"
    );
    Failed::Blocked(Fault { condition: condition::IRRECONCILABLE, reason: Reason::ReconcileError, message })
}
