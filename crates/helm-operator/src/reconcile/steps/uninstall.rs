//! Uninstalls a release with its custom resource, using only the record. Also manages the finalizer that delays the
//! resource's deletion until then.

use std::sync::Arc;
use std::time::Duration;

use controller::report::{Outcome, chain};
use helm_release::action::{self, Candidate, Environment, PostDelete, Uninstalling};
use helm_release::kube::{Call, HookError};
use helm_release::release::Status;
use helm_release::storage::{Marks, Stored};
use serde_json::json;
use tokio::time::Instant;

use super::deploy;
use super::uninstall_wait::awaited;
use super::unproven::{has_delete_hooks, is_uninstalling, is_unproven};
use crate::chart_metrics::Action;
use crate::reconcile::context::{Next, Work};
use crate::reconcile::decide::state::Recorded;
use crate::reconcile::failure::Failed;
use crate::status::condition;
use crate::status::reason::Reason;
use crate::view::primary::{FINALIZER, Primary, Received};
use crate::view::release::Trust;

/// How often to read objects that no watch covers.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The remedy when a hook, or an undecodable record that may have hooks, blocks the uninstall.
pub(crate) const WITHOUT_HOOKS: &str = "; to uninstall without hooks, set the annotation helm.sdk.operatorframework.io/uninstall-disable-hooks to \"true\"";

/// The field manager of finalizers. If it were the releases' manager, the finalizer of a resource that is itself an
/// object of a release would count as a change of what that release applied.
const FINALIZER_MANAGER: &str = "helm-operator-finalizer";

/// Adds our finalizer before anything is created that must be removed on deletion.
pub(crate) async fn add_finalizer(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Failed> {
    let mut finalizers: Vec<&str> = primary.finalizers.iter().map(|finalizer| &**finalizer).collect();
    finalizers.push(FINALIZER);
    set_finalizers(work, primary, &finalizers, "add").await
}

/// Removes our finalizer and those of upstream operators.
pub(crate) async fn remove_finalizer(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Failed> {
    if work.recorded(primary) == Recorded::None && !work.is_uninstalled(primary) {
        tracing::info!(resource = %work.key, "Release not found");
    }
    tracing::info!(resource = %work.key, "Removing finalizer");
    set_finalizers(work, primary, &primary.other_finalizers(), "remove").await
}

async fn set_finalizers(work: &Work<'_>, primary: &Primary, finalizers: &[&str], verb: &str) -> Result<Next, Failed> {
    let what = format!("failed to {verb} uninstall finalizer");
    let failed = |e: helm_release::kube::Error| Failed::of_request(&e, &what);
    let path = work.shared.resource.path(primary.namespace(), primary.name()).map_err(failed)?;
    // A finalizer that someone has just added must not be lost, and a resource with another uid must not be changed.
    let patch = json!({"metadata": {
        "finalizers": finalizers, "uid": primary.uid(), "resourceVersion": primary.resource_version(),
    }});
    let path = format!("{path}?fieldManager={FINALIZER_MANAGER}");
    match work.shared.api.send(Call::merge(path, patch.to_string().into_bytes())).await {
        Ok(answer) => {
            let answer: Received = answer.parse().map_err(failed)?;
            let gone = answer.primary.deleting && answer.primary.finalizers.is_empty();
            if gone {
                work.shared.primary_deleted(work.key, primary.uid())
            } else {
                work.shared.primary_written(answer)
            }
            Ok(if gone { Next::Done } else { Next::Again })
        }
        // The resource was deleted, or changed a moment ago.
        Err(error) if error.is_not_found() || error.is_conflict() => {
            refresh(work, primary).await;
            Ok(Next::Again)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Reads the resource after the server showed that the cache is stale. If that fails, the watch will catch up.
pub(crate) async fn refresh(work: &Work<'_>, primary: &Primary) {
    if let Err(error) = read_again(work, primary).await {
        tracing::debug!(resource = %work.key, error = chain(&error), "Cannot read the resource again");
    }
}

/// Reads the resource into the cache.
pub(crate) async fn read_again(work: &Work<'_>, primary: &Primary) -> Result<(), helm_release::kube::Error> {
    let path = work.shared.resource.path(primary.namespace(), primary.name())?;
    match work.shared.api.send(Call::get(path)).await.and_then(|answer| answer.parse::<Received>()) {
        Ok(live) => {
            if live.primary.uid() != primary.uid() {
                work.shared.primary_deleted(work.key, primary.uid());
            }
            work.shared.primary_written(live);
            Ok(())
        }
        Err(error) if error.is_missing_object() => {
            work.shared.primary_deleted(work.key, primary.uid());
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Deletes hooks, objects and records. With `uninstall-wait`, the records stay until the objects are deleted.
pub(crate) async fn uninstall(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Failed> {
    let beginning = begin(work, primary).await?;
    let version = uninstalling(work).map(|at| at.version);
    let began = Instant::now();
    let deleted = delete(work, primary, beginning).await;
    // An uninstall that waits for objects has not ended.
    if !matches!(deleted, Ok(Some(_))) {
        work.count_action(Action::Uninstall, began, deleted.as_ref().err());
    }
    match (deleted, version) {
        (Err(error), Some(version)) if is_unproven(&error) => {
            work.distrust(version);
            Ok(Next::Again)
        }
        (Ok(None), _) => {
            tracing::info!(resource = %work.key, "Uninstalled release");
            let note = format!("uninstalled release {:?}{}", primary.name(), work.ran.take());
            work.shared.publish(primary, Outcome::normal("Uninstalled", "Uninstall", note));
            forget(work, primary);
            work.succeed();
            Ok(Next::Again)
        }
        (Ok(Some(awaited)), _) => {
            tracing::info!(resource = %work.key, awaited, "Uninstall wait: Waiting until all resources are deleted");
            work.awaited = Some(awaited);
            work.succeed();
            Ok(if work.is_watched() { Next::Done } else { Next::At(Instant::now() + ASK_AGAIN) })
        }
        (Err(error), _) if error.is_interruption() => Ok(deploy::interrupted(work, primary, &error, None).await),
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
pub(crate) async fn uninstall_failed(work: &Work<'_>, primary: &Primary) -> Result<Option<String>, action::Error> {
    let awaited = delete(work, primary, Beginning::Recorded).await?;
    if awaited.is_none() {
        tracing::info!(resource = %work.key, "Uninstalled the release of a failed upgrade");
        let note = format!("uninstalled release {:?} after a failed upgrade", primary.name());
        work.shared.publish(primary, Outcome::warning("Uninstalled", "Uninstall", note));
        forget(work, primary);
    }
    Ok(awaited)
}

/// Forgets an uninstalled release. Records of others may still exist.
fn forget(work: &Work<'_>, primary: &Primary) {
    if !work.is_displaced(primary) || work.recorded(primary) != Recorded::Lost {
        work.shared.cache.change_release(work.key, |release| release.revisions.clear());
    }
    work.shared.memory.change(work.key, |history| {
        (history.release.lost, history.release.cleared) = (None, Some(primary.uid().into()));
    });
}

/// The starting point of an uninstall.
#[allow(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
enum Beginning {
    /// This operator's own record.
    Recorded,
    /// A record that anyone may have written, and what the objects themselves say. The hooks are the chart's, if it
    /// renders.
    Unproven(Option<Candidate>),
}

/// Determines whether the record counts and, if not, which hooks the chart has.
async fn begin(work: &mut Work<'_>, primary: &Primary) -> Result<Beginning, Failed> {
    let (Some(release), Some(at)) = (work.release(), uninstalling(work)) else { return Ok(Beginning::Recorded) };
    if work.vouches(&release, at.version, primary) || is_uninstalling(&release, &at, primary) {
        return Ok(Beginning::Recorded);
    }
    if work.orphaned || work.is_displaced(primary) || primary.annotations.disable_hooks("uninstall") {
        return Ok(Beginning::Unproven(None));
    }
    Ok(Beginning::Unproven(match work.chart_hooks(primary, at.version).await? {
        Ok(candidate) => Some(candidate),
        Err(why) => {
            work.publish_unproven_hooks(primary, &why);
            None
        }
    }))
}

/// Deletes what is recorded. Returns the objects to wait for.
async fn delete(work: &Work<'_>, primary: &Primary, beginning: Beginning) -> Result<Option<String>, action::Error> {
    let decoration = work.decoration(primary);
    let env = work.environment(&decoration, primary, "uninstall");
    let recorded =
        uninstalling(work).filter(|_| !work.is_displaced(primary) || work.recorded(primary) != Recorded::Lost);
    let Some(mut at) = recorded else { return delete_lost(work, primary, &env).await };
    if let Beginning::Unproven(candidate) = beginning {
        complete(&env, &mut at, candidate.as_ref()).await?;
        cache_hook_records(work, &at);
    }
    let inventory = at.marks.clone();
    if inventory.delete_hooks {
        let ran = action::run_pre_delete(&env, &mut at).await;
        cache_hook_records(work, &at);
        publish_skipped_hooks(work, primary, &ran?).await;
    }
    action::delete_objects(&env, &inventory).await?;
    if let Some(awaited) = still_there(work, primary, &env, &inventory).await? {
        return Ok(Some(awaited));
    }
    if inventory.delete_hooks {
        let ran = action::run_post_delete(&env, &mut at).await;
        cache_hook_records(work, &at);
        match ran? {
            PostDelete::Done(left_out) => publish_skipped_hooks(work, primary, &left_out).await,
            PostDelete::GivenUp(error) => publish_given_up_hook(work, primary, &error).await,
        }
    }
    // The revision that records the progress of the uninstall is deleted last.
    env.storage.delete_all(&decoration.namespace, &decoration.release, &work.records(), at.version).await?;
    publish_left_records(work, primary).await;
    Ok(None)
}

/// Publishes which records a release had before its watch got a `storageNamespace`. `helm list` shows them, and they
/// contain its values.
async fn publish_left_records(work: &Work<'_>, primary: &Primary) {
    let left = work.shared.storage.left_beside(primary.namespace(), primary.name(), primary.uid()).await;
    match left {
        Ok(names) if !names.is_empty() => {
            let (namespace, names) = (primary.namespace(), names.join(", "));
            let message = format!(
                "records from before storageNamespace was set are left in namespace {namespace:?}, with the values of the release: delete the Secrets {names}"
            );
            tracing::warn!(resource = %work.key, message, "Records are left");
            work.shared.publish(primary, Outcome::warning("RecordsLeft", "Uninstall", message));
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(resource = %work.key, error = chain(&error), "Cannot list earlier records"),
    }
}

/// Adds the live objects that name the release as their owner to an unproven record, and replaces its hooks with the
/// chart's.
async fn complete(
    env: &Environment<'_>,
    at: &mut Uninstalling,
    candidate: Option<&Candidate>,
) -> Result<(), action::Error> {
    let found = action::orphans(env).await?;
    let unknown: Vec<_> = found.objects.into_iter().filter(|object| at.marks.find(&object.key).is_none()).collect();
    at.marks.objects.extend(unknown);
    at.marks.delete_hooks = candidate.is_some_and(has_delete_hooks);
    match candidate.filter(|candidate| has_delete_hooks(candidate)) {
        Some(candidate) => action::begin_with_hooks(env, at, candidate).await,
        None => Ok(()),
    }
}

/// Returns the objects that still exist, if the resource asks to wait for them.
async fn still_there(
    work: &Work<'_>,
    primary: &Primary,
    env: &Environment<'_>,
    inventory: &Marks,
) -> Result<Option<String>, action::Error> {
    if primary.annotations.uninstall_wait() { awaited(work, env, inventory).await } else { Ok(None) }
}

/// Deletes the objects of a release without a record: those of the lost inventory, or else of a record elsewhere, or
/// else those that name the release as their owner. Hooks are in the record, so none runs.
async fn delete_lost(
    work: &Work<'_>,
    primary: &Primary,
    env: &Environment<'_>,
) -> Result<Option<String>, action::Error> {
    // Records that name another owner must not decide which objects are deleted.
    let is_displaced = work.is_displaced(primary);
    let known = work.shared.memory.of(work.key).release.lost.as_ref().map(|release| release.inventory());
    let known = known.filter(|_| !is_displaced);
    let inventory = match known {
        Some(known) if !known.objects.is_empty() => known,
        _ if is_displaced => action::claimed(env).await?,
        _ => match action::imported_inventory(env).await? {
            Some(recorded) => recorded,
            None => action::orphans(env).await?,
        },
    };
    tracing::info!(resource = %work.key, objects = inventory.objects.len(), "Uninstalling a release whose record is gone");
    action::delete_objects(env, &inventory).await?;
    still_there(work, primary, env, &inventory).await
}

/// Returns the revision whose hooks run: the one that the live objects come from, or else the newest.
fn uninstalling(work: &Work<'_>) -> Option<Uninstalling> {
    let release = work.release()?;
    let (version, _) = release.base().or(release.newest())?;
    let packed = release.packed.as_ref().filter(|(v, _)| *v == version).map(|(_, p)| p.clone());
    Some(Uninstalling { version, marks: release.inventory(), packed, resource_version: None })
}

/// Stores what the hooks of an uninstall recorded, so that the next step does not run them again.
fn cache_hook_records(work: &Work<'_>, at: &Uninstalling) {
    work.shared.cache.change_release(work.key, |release| {
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
async fn publish_skipped_hooks(work: &Work<'_>, primary: &Primary, hooks: &[HookError]) {
    if hooks.is_empty() {
        return;
    }
    let veil = work.veil(primary, None).await;
    for error in hooks {
        let why = veil.clone().hide_apart(chain(error)).await;
        let message = format!("the release is uninstalled without a hook: {why}");
        tracing::warn!(resource = %work.key, message, "Skipped a hook");
        work.shared.publish(primary, Outcome::warning("HookSkipped", "Uninstall", message));
    }
}

async fn publish_given_up_hook(work: &Work<'_>, primary: &Primary, error: &action::Error) {
    let why = work.veil(primary, None).await.hide_apart(chain(error)).await;
    let message = format!(
        "a post-delete hook failed {} times, so the release is uninstalled without it: {why}",
        action::POST_DELETE_TRIES,
    );
    tracing::error!(resource = %work.key, error = message, "Giving up on a hook");
    work.shared.publish(primary, Outcome::warning("HookGivenUp", "Uninstall", message));
}
