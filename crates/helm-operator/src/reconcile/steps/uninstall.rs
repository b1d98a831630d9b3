//! Uninstalls a release with its custom resource, using only the record; `unrecorded` does so without one. Also
//! manages the finalizer that delays the resource's deletion until then.

use std::sync::Arc;
use std::time::Duration;

use controller::report::{Outcome, chain};
use helm_release::action::{self, Action, Cached, Candidate, Environment, GivenUp, PostDelete, Uninstalling};
use helm_release::kube::{ApplyError, Call, HookError};
use helm_release::release::Status;
use helm_release::storage::{Home, MarkedObject, Marks, Stored};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::deploy;
use super::repair::fault;
use super::uninstall_wait::awaited;
use super::unproven::{ChartHooks, has_delete_hooks, is_uninstalling, is_unproven};
use super::unrecorded::{add_found, delete_lost, import_hooks, leave_to_successor};
use crate::reconcile::decide::state::Recorded;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, FailedStep, Learned, NextStep, after};
use crate::reconcile::report::status_writer;
use crate::reconcile::reread;
use crate::reconcile::step_context::StepContext;
use crate::rendering::request::Rendered;
use crate::status::condition;
use crate::status::reason::Reason;
use crate::view::finalizers::{FINALIZER, is_ours};
use crate::view::primary::{Primary, Received};
use crate::view::release::{Holder, Trust};

/// How often to read objects that no watch covers.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The remedy when a hook, or an undecodable record that may have hooks, blocks the uninstall.
pub(crate) const WITHOUT_HOOKS: &str = "; to uninstall without hooks, set the annotation helm.sdk.operatorframework.io/uninstall-disable-hooks to \"true\"";

/// The field manager of finalizers. If it were the releases' manager, the finalizer of a resource that is itself an
/// object of a release would count as a change of what that release applied.
const FINALIZER_MANAGER: &str = "helm-operator-finalizer";

/// Adds our finalizer before anything is created that must be removed on deletion.
pub(crate) async fn add_finalizer(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    let Some(mut finalizers) = all_finalizers(context, primary).await? else { return Ok(NextStep::Again) };
    finalizers.push(FINALIZER.into());
    set_finalizers(context, primary, &finalizers, "add").await
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
    let Some(mut finalizers) = all_finalizers(context, primary).await? else { return Ok(NextStep::Again) };
    finalizers.retain(|finalizer| !is_ours(finalizer));
    tracing::info!(resource = %context.key, "Removing finalizer");
    set_finalizers(context, primary, &finalizers, "remove").await
}

/// Reads the records of a release of which none is known: their events may be late. Returns whether there are any. Without the
/// right to list them, the operator hardly wrote any.
async fn finds_records(context: &StepContext<'_>, primary: &Primary) -> Result<bool, Failed> {
    match context.shared.storage.history(primary.namespace(), primary.name()).await {
        Ok(records) => context.shared.cache.catch_up(context.key, records),
        Err(error) if error.is_forbidden() => {}
        Err(error) => return Err(fault(&error.into())),
    }
    Ok(context.release().is_some())
}

/// Leaves the objects of another's release to its holder: a resource that took the release over may not have applied
/// them yet, and a release that this resource began to take over stays as it is.
async fn hand_over(context: &StepContext<'_>, primary: &Primary) -> Result<(), Failed> {
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

/// The finalizers of a resource, however many.
#[derive(Deserialize)]
struct Listed {
    metadata: ListedMetadata,
}

#[derive(Deserialize)]
struct ListedMetadata {
    #[serde(default)]
    finalizers: Vec<Arc<str>>,
}

/// Returns all finalizers of the resource, read again if the cache does not keep them all; `None` if the resource is
/// gone. If they have changed since, the resource version of the write turns it away.
async fn all_finalizers(context: &StepContext<'_>, primary: &Primary) -> Result<Option<Vec<Arc<str>>>, Failed> {
    if let Some(all) = primary.finalizers.all() {
        return Ok(Some(all.to_vec()));
    }
    let failed = |e: helm_release::kube::Error| Failed::of_request(&e, "failed to read the finalizers");
    let path = context.shared.resource.path(primary.namespace(), primary.name()).map_err(failed)?;
    match context.api.send(Call::get(path)).await.and_then(|answer| answer.parse::<Listed>()) {
        Ok(read) => Ok(Some(read.metadata.finalizers)),
        Err(error) if error.is_not_found() => {
            reread::refresh(context, primary).await;
            Ok(None)
        }
        Err(error) => Err(failed(error)),
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
            let gone = answer.primary.deleting && answer.primary.finalizers.is_empty();
            if gone {
                context.shared.primary_deleted(context.key, primary.uid())
            } else {
                context.shared.primary_written(answer)
            }
            Ok(if gone { NextStep::Done } else { NextStep::Again })
        }
        // The resource was deleted, or changed a moment ago.
        Err(error) if error.is_not_found() || error.is_conflict() => {
            reread::refresh(context, primary).await;
            Ok(NextStep::Again)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Deletes hooks, objects and records. With `uninstall-wait`, the records stay until the objects are deleted.
pub(crate) async fn uninstall(context: &StepContext<'_>, primary: &Primary) -> Result<Ended, FailedStep> {
    if import_hooks(context, primary).await? {
        return Ok(NextStep::Again.into());
    }
    let (beginning, learned) = begin(context, primary).await?;
    let Rendered::Done(beginning) = beginning else { return Ok(NextStep::Again.with(learned)) };
    let knowing = context.knowing(&learned);
    if !has_room(&knowing, primary, &beginning).await {
        return Ok(NextStep::Again.with(learned));
    }
    let ended = uninstall_from(&knowing, primary, beginning).await;
    after(learned, ended)
}

async fn uninstall_from(context: &StepContext<'_>, primary: &Primary, beginning: Beginning) -> Result<Ended, Failed> {
    let version = uninstalling(context).map(|at| at.version);
    let began = Instant::now();
    let deleted = delete(context, primary, beginning).await;
    // An uninstall that waits for objects has not ended.
    if !matches!(deleted, Ok(Some(_))) {
        context.count_action(Action::Uninstall, began, deleted.as_ref().err());
    }
    match (deleted, version) {
        (Err(error), Some(version)) if is_unproven(&error) => {
            context.distrust(version);
            Ok(NextStep::Again.into())
        }
        // It was deleted a moment ago, or never made, although no answer said so.
        (Err(action::Error::Storage(error)), Some(version)) if error.is_missing() => {
            context.shared.cache.lose_revision(context.key, version);
            Ok(NextStep::Again.into())
        }
        (Ok(None), _) => {
            tracing::info!(resource = %context.key, "Uninstalled release");
            let note = format!("uninstalled release {:?}{}", primary.name(), context.ran.take());
            context.shared.publish(primary, Outcome::normal("Uninstalled", "Uninstall", note));
            forget(context, primary);
            context.succeed();
            Ok(NextStep::Again.into())
        }
        (Ok(Some(awaited)), _) => {
            tracing::info!(resource = %context.key, awaited, "Uninstall wait: Waiting until all resources are deleted");
            context.succeed();
            let next = if context.is_watched() { NextStep::Done } else { NextStep::At(Instant::now() + ASK_AGAIN) };
            Ok(next.with([Learned::Awaits(awaited)]))
        }
        (Err(error), _) if error.is_interruption() => Ok(deploy::interrupted(context, primary, &error).await.into()),
        (Err(error), _) => {
            let failed = Failed::of_step(&error, condition::RELEASE_FAILED, Reason::UninstallError);
            let mut fault = failed.fault().clone();
            if matches!(error, action::Error::Hook(_)) || error.is_undecodable() {
                fault.message.push_str(WITHOUT_HOOKS);
            }
            Err(failed.reported_as(fault))
        }
    }
}

/// Uninstalls a release whose upgrade failed, so that the next attempt installs it again. Returns the objects to wait
/// for.
pub(crate) async fn uninstall_failed(
    context: &StepContext<'_>,
    primary: &Primary,
) -> Result<Option<String>, action::Error> {
    let awaited = delete(context, primary, Beginning::Recorded).await?;
    if awaited.is_none() {
        tracing::info!(resource = %context.key, "Uninstalled the release of a failed upgrade");
        let note = format!("uninstalled release {:?} after a failed upgrade", primary.name());
        context.shared.publish(primary, Outcome::warning("Uninstalled", "Uninstall", note));
        forget(context, primary);
    }
    Ok(awaited)
}

/// Forgets what is remembered of an uninstalled release.
fn forget(context: &StepContext<'_>, primary: &Primary) {
    context.shared.memory.change(context.key, |memory| {
        (memory.release.lost, memory.release.cleared) = (None, Some(primary.uid().into()));
        memory.release.skip_published = false;
    });
}

/// The starting point of an uninstall.
enum Beginning {
    /// This operator's own record.
    Recorded,
    /// A record that anyone may have written, and what the objects themselves say. The hooks are the chart's, if it
    /// renders.
    Unproven(Option<Arc<Candidate>>),
}

/// Determines whether the record counts and, if not, which hooks the chart has. Nothing is deleted before that is known.
async fn begin(
    context: &StepContext<'_>,
    primary: &Primary,
) -> Result<(Rendered<Beginning>, Vec<Learned>), FailedStep> {
    let recorded = Ok((Rendered::Done(Beginning::Recorded), Vec::new()));
    let (Some(release), Some(at)) = (context.release(), uninstalling(context)) else { return recorded };
    if context.vouches(&release, at.version, primary) || is_uninstalling(&release, &at, primary) {
        return recorded;
    }
    if context.orphaned || context.is_displaced(primary) || primary.annotations.disable_hooks(Action::Uninstall) {
        return Ok((Rendered::Done(Beginning::Unproven(None)), Vec::new()));
    }
    let (hooks, learned) = context.chart_hooks(primary, at.version).await?;
    let candidate = match hooks {
        ChartHooks::Of(candidate) => Some(candidate),
        ChartHooks::Unrendered(why) => {
            context.publish_unproven_hooks(primary, &why);
            None
        }
        ChartHooks::Postponed => return Ok((Rendered::Postponed, learned)),
    };
    Ok((Rendered::Done(Beginning::Unproven(candidate)), learned))
}

/// Reserves the memory that the uninstall holds while it waits for its hooks; returns whether there was room.
async fn has_room(context: &StepContext<'_>, primary: &Primary, beginning: &Beginning) -> bool {
    let waits = context.waits(primary, Action::Uninstall);
    let bytes = match beginning {
        Beginning::Unproven(candidate) => candidate.as_deref().and_then(|candidate| waits.bytes(candidate)),
        Beginning::Recorded => {
            let hooked = uninstalling(context).filter(|at| at.marks.delete_hooks).map(|at| at.version);
            context.held_by_record(primary, hooked, waits).await
        }
    };
    context.reserve(primary, bytes)
}

/// Deletes what is recorded. Returns the objects to wait for.
async fn delete(
    context: &StepContext<'_>,
    primary: &Primary,
    beginning: Beginning,
) -> Result<Option<String>, action::Error> {
    let env = context.environment(primary, Action::Uninstall);
    give_up_unfinished(context, primary, &env).await?;
    let recorded =
        uninstalling(context).filter(|_| !context.is_displaced(primary) || context.recorded(primary) != Recorded::Lost);
    let Some(mut at) = recorded else { return delete_lost(context, primary, &env).await };
    if let Beginning::Unproven(candidate) = beginning {
        complete(&env, primary, &mut at, candidate.as_deref()).await?;
        cache_hook_records(context, &at);
    }
    let inventory = at.marks.clone();
    if inventory.delete_hooks {
        let ran = action::run_pre_delete(&env, &mut at).await;
        cache_hook_records(context, &at);
        publish_skipped_hooks(context, primary, &ran?).await;
    }
    if let Some(awaited) = delete_objects(context, primary, &env, &inventory).await? {
        return Ok(Some(awaited));
    }
    if inventory.delete_hooks {
        let ran = action::run_post_delete(&env, &mut at).await;
        cache_hook_records(context, &at);
        match ran? {
            PostDelete::Done(left_out) => publish_skipped_hooks(context, primary, &left_out).await,
            PostDelete::GivenUp(error) => publish_given_up_hook(context, primary, &error).await,
        }
    }
    if may_have_older_records(context, at.version) {
        forget_in_status(context, primary).await?;
    }
    // The revision that records the progress of the uninstall is deleted last.
    let records = context.records();
    env.storage.delete_all(&env.decoration.namespace, &env.decoration.release, &records, at.version).await?;
    context.shared.cache.forget_records(context.key, &records);
    publish_left_records(context, primary).await;
    Ok(None)
}

async fn forget_in_status(context: &StepContext<'_>, primary: &Primary) -> Result<(), action::Error> {
    let object = format!("the status of {} {:?}", primary.kind, primary.name());
    let failed = |source| ApplyError::Failed { verb: "update", object, source };
    Ok(status_writer::forget_release(context, primary).await.map_err(failed)?)
}

/// Forgets an install that failed before its records are deleted, if earlier ones are left beside it: the status of an
/// action at work would let the next process continue it from those.
pub(super) async fn forget_begun(context: &StepContext<'_>, primary: &Primary) -> Result<(), action::Error> {
    let left = context.shared.cache.release_beside(context.key);
    if !left.is_some_and(|left| left.is_recorded_for(&primary.owner())) {
        return Ok(());
    }
    context.shared.memory.change(context.key, |memory| memory.release.removed = true);
    forget_in_status(context, primary).await
}

/// Returns whether a release that has come to this revision may also have records in its own namespace or in chunks, from
/// which it was imported. Once its own are deleted, a process that finds its name or its uninstall in the status would
/// import it from them again, and run their hooks, which later revisions may have dropped.
fn may_have_older_records(context: &StepContext<'_>, version: u32) -> bool {
    // The first revision that is imported from chunks follows another.
    let may_be_in_chunks = version > 1 && context.release().is_some_and(|release| release.is_taken_over());
    may_be_in_chunks || context.shared.settings.home != Home::default()
}

/// Gives up an action that another process left unfinished, before the uninstall or the removal of a failed install. The
/// action's hooks must neither run beside those of the uninstall nor outlive the record.
pub(super) async fn give_up_unfinished(
    context: &StepContext<'_>,
    primary: &Primary,
    env: &Environment<'_>,
) -> Result<(), action::Error> {
    let unfinished = context.release().and_then(|release| release.unfinished().map(|(version, _)| version));
    let Some(version) = unfinished else { return Ok(()) };
    match action::give_up(env, version, "Interrupted by the uninstall").await {
        Ok(GivenUp::Failed(written)) => {
            context.shared.cache.change_release(context.key, |release| release.given_up(version, &written));
            Ok(())
        }
        Ok(GivenUp::Ended) => {
            context.read_end(primary, version).await?;
            Ok(())
        }
        Ok(GivenUp::Unproven) => Ok(()),
        // It was deleted a moment ago.
        Err(action::Error::Storage(error)) if error.is_missing() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Publishes which records a release had before its watch got a `storageNamespace`. `helm list` shows them, and they
/// contain its values.
pub(super) async fn publish_left_records(context: &StepContext<'_>, primary: &Primary) {
    let left = context.storage.left_beside(primary.namespace(), primary.name(), primary.uid()).await;
    match left {
        Ok(names) if !names.is_empty() => {
            let (namespace, names) = (primary.namespace(), names.join(", "));
            let message = format!(
                "records from before storageNamespace was set are left in namespace {namespace:?}, with the values of the release: delete the Secrets {names}"
            );
            tracing::warn!(resource = %context.key, message, "Records are left");
            context.shared.publish(primary, Outcome::warning("RecordsLeft", "Uninstall", message));
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(resource = %context.key, error = chain(&error), "Cannot list earlier records"),
    }
}

/// Adds the live objects that name the release as their owner to an unproven record, and replaces its hooks with the
/// chart's.
async fn complete(
    env: &Environment<'_>,
    primary: &Primary,
    at: &mut Uninstalling,
    candidate: Option<&Candidate>,
) -> Result<(), action::Error> {
    add_found(env, primary, &mut at.marks).await?;
    at.marks.delete_hooks = candidate.is_some_and(has_delete_hooks);
    match candidate.filter(|candidate| has_delete_hooks(candidate)) {
        Some(candidate) => action::begin_with_hooks(env, at, candidate).await,
        None => Ok(()),
    }
}

/// Deletes the objects of a release. In an ordered release, each round is deleted once the later rounds are deleted.
/// Returns the objects to wait for.
pub(super) async fn delete_objects(
    context: &StepContext<'_>,
    primary: &Primary,
    env: &Environment<'_>,
    inventory: &Marks,
) -> Result<Option<String>, action::Error> {
    for round in action::later_rounds(inventory) {
        let is_left = |object: &&MarkedObject| env.live.cached(&object.key, &env.decoration) != Cached::Absent;
        let left: Vec<&MarkedObject> = round.into_iter().filter(is_left).collect();
        action::delete_each(env, &left).await?;
        if let Some(awaited) = awaited(context, env, &left).await? {
            return Ok(Some(awaited));
        }
    }
    action::delete_objects(env, inventory).await?;
    still_there(context, primary, env, inventory).await
}

/// Returns the objects that still exist, if the resource asks to wait for them.
async fn still_there(
    context: &StepContext<'_>,
    primary: &Primary,
    env: &Environment<'_>,
    inventory: &Marks,
) -> Result<Option<String>, action::Error> {
    if !primary.annotations.uninstall_wait() {
        return Ok(None);
    }
    awaited(context, env, &inventory.objects.iter().collect::<Vec<_>>()).await
}

/// Returns the revision whose hooks run: the one that the live objects come from, or else the newest.
fn uninstalling(context: &StepContext<'_>) -> Option<Uninstalling> {
    let release = context.release()?;
    let (version, _) = release.base().or(release.newest())?;
    let packed = release.record(version).cloned();
    Some(Uninstalling { version, marks: release.inventory(), packed, resource_version: None })
}

/// Stores what the hooks of an uninstall recorded, so that the next step does not run them again.
fn cache_hook_records(context: &StepContext<'_>, at: &Uninstalling) {
    context.shared.cache.change_release(context.key, |release| {
        if let (Some(resource_version), Some(revision)) = (at.resource_version, release.revisions.get_mut(&at.version))
        {
            revision.status = Status::Uninstalling;
            revision.marks = Some(Arc::new(at.marks.clone()));
            revision.trust = Trust::Written(at.packed.as_ref().map(Stored::content));
            revision.rewritten(resource_version);
        }
        release.packed = at.packed.clone().map(|packed| (at.version, packed));
    });
}

/// Publishes which hooks were skipped because the namespace is being deleted.
async fn publish_skipped_hooks(context: &StepContext<'_>, primary: &Primary, hooks: &[HookError]) {
    if hooks.is_empty() {
        return;
    }
    let mask = context.redactions(primary).await;
    for error in hooks {
        let why = mask.clone().hide_apart(chain(error)).await;
        let message = format!("the release is uninstalled without a hook: {why}");
        tracing::warn!(resource = %context.key, message, "Skipped a hook");
        context.shared.publish(primary, Outcome::warning("HookSkipped", "Uninstall", message));
    }
}

async fn publish_given_up_hook(context: &StepContext<'_>, primary: &Primary, error: &action::Error) {
    let why = context.redactions(primary).await.hide_apart(chain(error)).await;
    let message = format!(
        "a post-delete hook failed {} times, so the release is uninstalled without it: {why}",
        action::POST_DELETE_TRIES,
    );
    tracing::error!(resource = %context.key, error = message, "Giving up on a hook");
    context.shared.publish(primary, Outcome::warning("HookGivenUp", "Uninstall", message));
}
