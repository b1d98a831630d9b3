//! Uninstalls a release with its custom resource, using only the record; `unrecorded` does so without one. The finalizer
//! (`finalizer`) delays the resource's deletion until then.

use std::sync::Arc;
use std::time::Duration;

use controller::report::{Outcome, chain};
use helm_release::action::{self, Action, Cached, Candidate, Environment, PostDelete, Uninstalling};
use helm_release::kube::{ApplyError, HookError};
use helm_release::release::Status;
use helm_release::storage::{Home, MarkedObject, Marks, Stored};
use tokio::time::Instant;

use super::give_up::give_up_unfinished;
use super::uninstall_revision::complete;
use super::uninstall_stop::{called_off_by, read_records, stopped_by};
use super::uninstall_wait::awaited;
use super::unproven::{ChartHooks, is_uninstalling, is_unproven};
use super::unrecorded::{delete_lost, import_hooks};
use super::{deploy, remediate};
use crate::reconcile::decide::state::Recorded;
use crate::reconcile::decide::uninstall_notes::UninstallNotes;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, FailedStep, Learned, NextStep, after};
use crate::reconcile::report::status_writer;
use crate::reconcile::step_context::StepContext;
use crate::rendering::request::Rendered;
use crate::status::condition;
use crate::status::reason::Reason;
use crate::view::primary::Primary;
use crate::view::release::Trust;

/// How often to read objects that no watch covers.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The remedy when a hook, or an undecodable record that may have hooks, blocks the uninstall.
pub(crate) const WITHOUT_HOOKS: &str = "; to uninstall without hooks, set the annotation helm.sdk.operatorframework.io/uninstall-disable-hooks to \"true\"";

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
    let mut version = None;
    let began = Instant::now();
    let deleted = delete(context, primary, beginning, &mut version).await;
    // An uninstall that waits for objects, or stops for now, is still in progress.
    if matches!(deleted, Ok(Deletion::Done) | Err(_)) {
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
        (Ok(Deletion::Done), _) => {
            tracing::info!(resource = %context.key, "Uninstalled release");
            let note = format!("uninstalled release {:?}{}", primary.name(), context.ran.take());
            context.shared.publish(primary, Outcome::normal("Uninstalled", "Uninstall", note));
            forget(context, primary);
            context.succeed();
            Ok(NextStep::Again.into())
        }
        (Ok(Deletion::Stopped(why)), _) => {
            tracing::info!(resource = %context.key, why, "The uninstall does not go on for now");
            Ok(NextStep::Anew.into())
        }
        (Ok(Deletion::Awaits(awaited)), _) => {
            tracing::info!(resource = %context.key, awaited, "Uninstall wait: Waiting until all resources are deleted");
            context.succeed();
            let next = if context.is_watched() { NextStep::Done } else { NextStep::At(Instant::now() + ASK_AGAIN) };
            Ok(next.with([Learned::Awaits(awaited)]))
        }
        (Err(error), _) if error.is_interruption() => Ok(deploy::interrupted(context, primary, &error).await.into()),
        (Err(error), _) => {
            let failed = Failed::of_step(&error, condition::RELEASE_FAILED, Reason::UninstallError);
            let mut fault = failed.fault().clone();
            let is_forbidden = matches!(&error, action::Error::Storage(error) if error.is_forbidden());
            if matches!(error, action::Error::Hook(_)) || error.is_undecodable() || is_forbidden {
                fault.message.push_str(WITHOUT_HOOKS);
            }
            Err(failed.reported_as(fault))
        }
    }
}

/// Uninstalls a release whose upgrade failed, so that the next attempt installs it again. Returns the objects to wait
/// for, or why it does not go on for now.
pub(crate) async fn uninstall_failed(
    context: &StepContext<'_>,
    primary: &Primary,
) -> Result<Option<String>, action::Error> {
    match delete(context, primary, Beginning::AfterFailure, &mut None).await? {
        Deletion::Done => {}
        Deletion::Awaits(awaited) => return Ok(Some(awaited)),
        Deletion::Stopped(why) => return Ok(Some(why.to_owned())),
    }
    tracing::info!(resource = %context.key, "Uninstalled the release of a failed upgrade");
    let note = format!("uninstalled release {:?} after a failed upgrade", primary.name());
    context.shared.publish(primary, Outcome::warning("Uninstalled", "Uninstall", note));
    forget(context, primary);
    Ok(None)
}

/// Ends the hooks of an uninstall after a failed upgrade that does not go on for now, as far as its record says.
pub(super) async fn end_hooks(context: &StepContext<'_>, primary: &Primary) -> Result<(), action::Error> {
    let env = context.environment(primary, Action::Uninstall);
    let Some(mut at) = uninstalling(context) else { return Ok(()) };
    let ended = action::end_delete_hooks(&env, &mut at).await;
    cache_hook_records(context, &at);
    ended
}

/// Forgets what is remembered of an uninstalled release.
fn forget(context: &StepContext<'_>, primary: &Primary) {
    context.shared.memory.change(context.key, |memory| {
        (memory.release.lost, memory.release.cleared) = (None, Some(primary.uid().into()));
        memory.release.uninstall = UninstallNotes::default();
    });
}

/// The starting point of an uninstall.
enum Beginning {
    /// This operator's own record.
    Recorded,
    /// This operator's own record, after a failed upgrade: the release is installed again once it is gone.
    AfterFailure,
    /// A record that anyone may have written, and what the objects themselves say. The hooks are the chart's, if it
    /// renders.
    Unproven(Option<Arc<Candidate>>),
}

/// How far an uninstall has come.
enum Deletion {
    /// Nothing of the release is left.
    Done,
    /// It waits for these objects.
    Awaits(String),
    /// It does not go on for now, for this reason.
    Stopped(&'static str),
}

impl From<Option<String>> for Deletion {
    fn from(awaited: Option<String>) -> Deletion {
        awaited.map_or(Deletion::Done, Deletion::Awaits)
    }
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
        Beginning::Recorded | Beginning::AfterFailure => {
            let hooked = uninstalling(context).filter(|at| at.marks.delete_hooks).map(|at| at.version);
            context.held_by_record(primary, hooked, waits).await
        }
    };
    context.reserve(primary, bytes)
}

/// Deletes what is recorded, unless something stops it. Sets `revision` to the one whose record it follows.
async fn delete(
    context: &StepContext<'_>,
    primary: &Primary,
    beginning: Beginning,
    revision: &mut Option<u32>,
) -> Result<Deletion, action::Error> {
    let env = context.environment(primary, Action::Uninstall);
    context.running.uninstalls(newest_known(context, primary));
    // Something may have changed during a render. What follows the release now is not to be given up.
    if let Some(why) = stopped_by(context, primary) {
        return Ok(Deletion::Stopped(why));
    }
    give_up_unfinished(context, primary, &env).await?;
    if let Some(why) = stopped_by(context, primary) {
        return Ok(Deletion::Stopped(why));
    }
    let recorded =
        uninstalling(context).filter(|_| !context.is_displaced(primary) || context.recorded(primary) != Recorded::Lost);
    let Some(mut at) = recorded else { return Ok(delete_lost(context, primary, &env).await?.into()) };
    *revision = Some(at.version);
    let is_after_failure = matches!(beginning, Beginning::AfterFailure);
    if let Beginning::Unproven(candidate) = beginning {
        if let Some(why) = complete(context, primary, &env, &mut at, candidate.as_deref()).await? {
            return Ok(Deletion::Stopped(why));
        }
        *revision = Some(at.version);
    }
    let inventory = at.marks.clone();
    if inventory.delete_hooks {
        let ran = action::run_pre_delete(&env, &mut at).await;
        cache_hook_records(context, &at);
        publish_skipped_hooks(context, primary, &ran?).await;
    }
    // Even if the hooks ended before: this read may have failed then.
    if is_after_failure || inventory.delete_hooks {
        read_records(context, primary).await?;
    }
    let stopped = match is_after_failure {
        true => begin_deletion(context, primary, &env, &mut at).await?,
        false => stopped_by(context, primary),
    };
    if let Some(why) = stopped {
        return Ok(Deletion::Stopped(why));
    }
    if let Some(awaited) = delete_objects(context, primary, &env, &inventory).await? {
        return Ok(Deletion::Awaits(awaited));
    }
    if inventory.delete_hooks {
        if let Some(why) = stopped_by(context, primary) {
            return Ok(Deletion::Stopped(why));
        }
        let ran = action::run_post_delete(&env, &mut at).await;
        cache_hook_records(context, &at);
        match ran? {
            PostDelete::Done(left_out) => publish_skipped_hooks(context, primary, &left_out).await,
            PostDelete::GivenUp(error) => publish_given_up_hook(context, primary, &error).await,
        }
        read_records(context, primary).await?;
    }
    if let Some(why) = stopped_by(context, primary) {
        return Ok(Deletion::Stopped(why));
    }
    // Listed before the next wait, so that the record of a revision made during it is kept.
    let records = context.records();
    if may_have_older_records(context, at.version) {
        forget_in_status(context, primary).await?;
    }
    // The revision that records the progress of the uninstall is deleted last.
    env.storage.delete_all(&env.decoration.namespace, &env.decoration.release, &records, at.version).await?;
    context.shared.cache.forget_records(context.key, &records);
    publish_left_records(context, primary).await;
    Ok(Deletion::Done)
}

/// Records that the objects of the release are about to be deleted after a failed upgrade. Returns why the uninstall
/// stops instead, if the resource or its values ask for that before the first deletion.
async fn begin_deletion(
    context: &StepContext<'_>,
    primary: &Primary,
    env: &Environment<'_>,
    at: &mut Uninstalling,
) -> Result<Option<&'static str>, action::Error> {
    // The last hook may have ended before its wait could.
    let stopped = match at.marks.hooks_done && !at.marks.revocable {
        true => stopped_by(context, primary),
        false => called_off_by(context, primary).await,
    };
    if stopped.is_some() {
        return Ok(stopped);
    }
    let begun = action::begin_deletion(env, at).await;
    cache_hook_records(context, at);
    let before = begun?;
    // The change may have come during this write.
    let mut stopped = stopped_at(context, primary, before.as_ref()).await;
    let mut finished = Vec::new();
    if stopped.is_none() {
        // Only now: if the uninstall had been called off, the Jobs that have finished would run again.
        finished = remediate::expect_jobs_again(context, env).await?;
        // Or during these. No other request precedes the first deletion.
        stopped = stopped_at(context, primary, before.as_ref()).await;
    }
    if let Some(before) = before.filter(|_| stopped.is_some()) {
        let withdrawn = action::withdraw_deletion(env, at, &before).await;
        cache_hook_records(context, at);
        withdrawn?;
        finished.retain(|(version, ..)| *version != at.version);
        remediate::expect_no_jobs(context, env, &finished).await?;
    }
    if stopped.is_none() {
        context.running.deletes();
    }
    Ok(stopped)
}

/// Returns why an uninstall after a failed upgrade stops before its next deletion. There are marks from `before` if it has
/// deleted nothing.
async fn stopped_at(context: &StepContext<'_>, primary: &Primary, before: Option<&Marks>) -> Option<&'static str> {
    match before {
        None => stopped_by(context, primary),
        Some(_) => called_off_by(context, primary).await,
    }
}

async fn forget_in_status(context: &StepContext<'_>, primary: &Primary) -> Result<(), action::Error> {
    let object = format!("the status of {} {:?}", primary.kind, primary.name());
    let failed = |source| ApplyError::Failed { verb: "update", object, source };
    Ok(status_writer::forget_release(context, primary).await.map_err(failed)?)
}

/// Forgets an install that failed before its records are deleted, if earlier ones are left beside it: if the status
/// still named an action in progress, the next process would continue it from those records.
pub(super) async fn forget_begun(context: &StepContext<'_>, primary: &Primary) -> Result<(), action::Error> {
    if context.shared.cache.release_beside(primary).is_none() {
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
        action::delete_each(env, inventory, &left).await?;
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
pub(super) fn uninstalling(context: &StepContext<'_>) -> Option<Uninstalling> {
    let release = context.release()?;
    let (version, _) = release.base().or(release.newest())?;
    let packed = release.record(version).cloned();
    Some(Uninstalling { version, marks: release.inventory(), packed, resource_version: None })
}

/// Returns the newest revision that an uninstall knows: the newest when it was decided, or one that this operator has
/// recorded since, such as the failed one.
fn newest_known(context: &StepContext<'_>, primary: &Primary) -> u32 {
    let release = context.release().unwrap_or_default();
    release.newest_of(primary.uid()).unwrap_or_default().max(context.newest)
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
