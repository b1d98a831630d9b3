//! Uninstalls a release that has no record here: imports it from a record elsewhere, because that has its hooks, or finds
//! its objects by their own metadata.

use controller::report::Outcome;
use helm_release::action::{self, Action, Environment};
use helm_release::kube::Decoration;
use helm_release::release::Status;
use helm_release::storage::Marks;

use super::uninstall::{WITHOUT_HOOKS, delete_objects, publish_left_records};
use crate::reconcile::decide::beside::Beside;
use crate::reconcile::decide::memory::ResourceMemory;
use crate::reconcile::decide::state::Recorded;
use crate::reconcile::failure::Failed;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::view::chart_names;
use crate::view::primary::Primary;
use crate::view::release::{Holder, ReleaseRecords};

/// What an object must name to be found.
#[derive(Clone, Copy)]
enum Naming {
    Release,
    /// The custom resource itself.
    Resource,
}

/// Imports a release that only a record elsewhere has, because hooks run from our own record alone; returns whether there
/// was one. A record there that is older than what the status reports was imported before.
pub(super) async fn import_hooks(context: &StepContext<'_>, primary: &Primary) -> Result<bool, Failed> {
    let has_lost_own = context.shared.memory.of(context.key).release.lost_own(&primary.owner()).is_some();
    let is_known = context.release().is_some() || has_lost_own;
    let runs_none = context.orphaned || primary.annotations.disable_hooks(Action::Uninstall);
    // Its uninstall may have run them.
    let may_have_run = context.beside(primary) == Beside::Begun;
    if is_known || runs_none || may_have_run || context.recorded(primary) != Recorded::Lost {
        return Ok(false);
    }
    match context.import(primary, primary.reported()).await {
        // The hooks are its successor's.
        Err(failed) if failed.fault().reason == Reason::ReleaseConflict => Ok(false),
        // It ends by itself.
        Err(failed) if failed.fault().reason == Reason::ReleaseInFlight => Err(failed),
        Err(failed @ Failed::Unanswered(_)) => {
            let mut fault = failed.fault().clone();
            fault.message.push_str(WITHOUT_HOOKS);
            Err(failed.reported_as(fault))
        }
        Err(failed) => {
            let why = context.redactions(primary).await.hide_apart(failed.fault().message.clone()).await;
            publish_skipped(context, primary, &format!("it cannot be imported from its record elsewhere: {why}"));
            Ok(false)
        }
        imported => imported,
    }
}

/// Publishes once that no hook runs. An uninstall that waits for objects gets here again and again.
fn publish_skipped(context: &StepContext<'_>, primary: &Primary, why: &str) {
    let was_published =
        |memory: &mut ResourceMemory| std::mem::replace(&mut memory.release.uninstall.skips_hooks, true);
    if context.shared.memory.change(context.key, was_published) {
        return;
    }
    let message = format!("the release is uninstalled without its hooks: {why}");
    tracing::warn!(resource = %context.key, message, "Skipped hooks");
    context.shared.publish(primary, Outcome::warning("HookSkipped", "Uninstall", message));
}

/// Deletes the objects of a release without a record: the objects of the lost inventory, or else objects that a record
/// elsewhere lists or that name the release as their owner. Hooks are in the record, so none runs, which an event says
/// unless the release had none. If the lost records named another resource, it may still exist, so the objects stay.
pub(super) async fn delete_lost(
    context: &StepContext<'_>,
    primary: &Primary,
    env: &Environment<'_>,
) -> Result<Option<String>, action::Error> {
    // Records that name another owner must not decide which objects are deleted.
    let is_displaced = context.is_displaced(primary);
    let lost = context.shared.memory.of(context.key).release.lost.clone().unwrap_or_default();
    if !is_displaced && matches!(lost.holder(&primary.owner()), Holder::Successor | Holder::Other | Holder::Upstream) {
        return leave_to_successor(env, primary).await;
    }
    let known = Some(lost.inventory()).filter(|known| !is_displaced && !known.objects.is_empty());
    let may_have_hooks =
        !is_displaced && known.as_ref().is_none_or(|known| known.delete_hooks && !has_run_hooks(&lost));
    let inventory = match known {
        Some(known) => known,
        None if is_displaced => search(env, primary, Naming::Resource).await?,
        None => {
            let mut recorded = match action::end_hooks_elsewhere(env).await {
                Err(error) if error.is_taken_over() => return leave_to_successor(env, primary).await,
                recorded => recorded?.unwrap_or_default(),
            };
            add_found(env, primary, &mut recorded).await?;
            recorded
        }
    };
    // If nothing is left of it, its uninstall may have ended.
    if may_have_hooks && !env.options.disable_hooks && !inventory.objects.is_empty() {
        publish_skipped(context, primary, "no record of it has them any more");
    }
    tracing::info!(resource = %context.key, objects = inventory.objects.len(), "Uninstalling a release whose record is gone");
    let awaited = delete_objects(context, primary, env, &inventory).await?;
    if awaited.is_none() {
        publish_left_records(context, primary).await;
    }
    Ok(awaited)
}

/// Leaves the objects to the resource that had the release last, and may not have applied them yet.
pub(super) async fn leave_to_successor(
    env: &Environment<'_>,
    primary: &Primary,
) -> Result<Option<String>, action::Error> {
    let found = search(env, primary, Naming::Resource).await?;
    action::hand_over(env, &found).await?;
    Ok(None)
}

/// Returns whether the uninstall of a release ran its hooks before its records were gone. The response to the deletion of
/// the last record may be lost, and only the record knows which hooks ran after the objects were deleted.
fn has_run_hooks(lost: &ReleaseRecords) -> bool {
    lost.base().is_some_and(|(_, base)| {
        base.status == Status::Uninstalling && base.marks.as_ref().is_some_and(|marks| marks.hooks_done)
    })
}

/// Adds the live objects that name the release as their owner to an inventory that may lack some.
pub(super) async fn add_found(
    env: &Environment<'_>,
    primary: &Primary,
    inventory: &mut Marks,
) -> Result<(), action::Error> {
    let found = search(env, primary, Naming::Release).await?;
    let unknown: Vec<_> = found.objects.into_iter().filter(|object| inventory.find(&object.key).is_none()).collect();
    inventory.objects.extend(unknown);
    Ok(())
}

/// Finds a release's objects by their own metadata, with the label of the chart that is served or of one that the
/// release has had.
async fn search(env: &Environment<'_>, primary: &Primary, naming: Naming) -> Result<Marks, action::Error> {
    let mut found = search_labelled(env, naming).await?;
    for chart in chart_names::others(&env.decoration.chart, primary.status.charts()) {
        let decoration = Decoration { chart: chart.to_owned(), ..env.decoration.clone() };
        let other = Environment { decoration, options: env.options.clone(), ..*env };
        found.objects.extend(search_labelled(&other, naming).await?.objects);
    }
    Ok(found)
}

async fn search_labelled(env: &Environment<'_>, naming: Naming) -> Result<Marks, action::Error> {
    match naming {
        Naming::Release => action::orphans(env).await,
        Naming::Resource => action::claimed(env).await,
    }
}
