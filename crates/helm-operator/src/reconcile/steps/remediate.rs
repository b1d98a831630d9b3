//! Cleans up after a failed attempt: rolls back to the deployed revision, or removes an install that never succeeded.
//!
//! The attempt that left something need not be the one that failed now, because a later one may fail before its first
//! write.

use std::sync::Arc;

use controller::report::{Outcome, chain};
use helm_release::action::{self, Action, Candidate, Current, Failure};
use helm_release::kube::{Applied, ApplyMethod};
use helm_release::release::{Packed, Status};
use helm_release::storage::{Marks, Written};
use tokio::time::Instant;

use super::deploy::record;
use super::sources::have_changed;
use super::{give_up, uninstall};
use crate::reconcile::decide::last_failure::MAX_OBSTRUCTIONS;
use crate::reconcile::decide::memory::ResourceMemory;
use crate::reconcile::decide::recorded::was_never_deployed;
use crate::reconcile::failure::{Failed, FailedAttempt, Obstacle};
use crate::reconcile::report::blame::blame;
use crate::reconcile::step_context::StepContext;
use crate::status::condition;
use crate::status::reason::Reason;
use crate::view::primary::Primary;
use crate::view::release::{Holder, ReleaseRecords, Revision};
use crate::watches::OnFailure;

/// The remediation after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// There is nothing to clean up.
    Nothing,
    /// Roll back to this deployed revision.
    RollBack(u32),
    /// Remove objects and records, because no revision was ever deployed.
    RemoveFailedInstall,
    /// Uninstall the release, including its hooks.
    Uninstall,
}

/// How a clean-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CleanUp {
    /// It succeeded, there was nothing to do, or trying again would not help.
    Ended,
    /// It is not complete, and is tried again.
    Met(Obstacle),
}

impl CleanUp {
    /// Classifies the failure of a clean-up. `obstructions` counts earlier ones that met an obstacle that may last forever.
    /// What does not go away by itself, such as a finalizer or a record that the server rejects, ends the attempt: unlimited
    /// retries would run its hooks again each time. A rollback that only lacks refused deletions
    /// repeats nothing else. A rollback has not begun if another writer took its revision number, or while it waits for a
    /// hook to end; after enough refusals, it begins without waiting for the hook.
    fn failed(error: &action::Error, obstructions: u32) -> CleanUp {
        if error.is_refused_end() {
            return CleanUp::Met(Obstacle::Unended);
        }
        let is_outdated = error.ended().is_some() || error.is_taken();
        let is_outage = error.is_outage() || is_outdated || error.is_refused_deletion();
        let may_last = if is_outage { error.reached_server() } else { error.is_slow_deletion() };
        match may_last {
            true if obstructions < MAX_OBSTRUCTIONS => CleanUp::Met(Obstacle::Lasting),
            false if is_outage => CleanUp::Met(Obstacle::Outage),
            _ => CleanUp::Ended,
        }
    }
}

/// The part of an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The render. Its failure does not concern the remains of an earlier attempt, so they are not removed.
    Render,
    /// A check before the record is written: of its size, of the kinds, namespaces and owners of the objects, or of the
    /// definitions in `crds`. Its failure does not concern the objects of an earlier attempt either, whose revision may be
    /// pending, or failed because another `spec` followed: a deployed release is not uninstalled, and no install is removed.
    Check,
    /// The action with the rendered objects.
    Action,
}

impl Stage {
    /// Returns the stage at which an action failed. A record that was deleted since counts as written. Nothing is deleted for an
    /// action that was interrupted and whose hook could not be ended, because the action itself did not fail.
    fn of(context: &StepContext<'_>, primary: &Primary, failure: &Failure) -> Stage {
        let is_recorded = failure.recorded.is_some() || failure.lost.is_some();
        let has_written = is_recorded && !failure.cause.was_interrupted();
        match has_written || is_refused_again(context, primary, failure) {
            true => Stage::Action,
            false => Stage::Check,
        }
    }
}

/// Returns whether the newest revision has failed with these inputs because the server refused an object, and a dry run
/// shows that it still does. The clean-up after that revision may have failed as well, and so may the record of its
/// failure, which then says that it is pending.
fn is_refused_again(context: &StepContext<'_>, primary: &Primary, failure: &Failure) -> bool {
    let release = context.release().unwrap_or_default();
    let failed = release.newest().filter(|(_, newest)| newest.status.is_unsuccessful());
    let refusal = failure.cause.refusal();
    let is_same = refusal.is_some() && refusal == context.refused(primary);
    is_same && failed.is_some_and(|(_, newest)| context.has_present_inputs(newest, primary))
}

impl Remedy {
    /// Returns the remedy, given the resource as the attempt began and as it is now. Nothing is deleted once the
    /// resource is to be left alone, or has another `spec` or pin: the next attempt starts from the present objects.
    fn as_wanted_now(self, begun: &Primary, now: Option<&Primary>) -> Remedy {
        let has_changed = |now: &Primary| {
            now.spec.digest() != begun.spec.digest() || now.annotations.pin() != begun.annotations.pin()
        };
        let is_outdated =
            |now: &Primary| now.uid() == begun.uid() && (now.annotations.leaves_alone() || has_changed(now));
        match self {
            remedy if remedy.deletes() && now.is_some_and(is_outdated) => Remedy::Nothing,
            remedy => remedy,
        }
    }

    /// Returns whether the remedy deletes present objects.
    fn deletes(self) -> bool {
        matches!(self, Remedy::RemoveFailedInstall | Remedy::Uninstall)
    }
}

fn remedy(release: &ReleaseRecords, policy: OnFailure, stage: Stage, is_vouched: impl Fn(u32) -> bool) -> Remedy {
    // A revision that this operator did not record is Helm's, which a person may be writing right now, or someone
    // else's.
    let Some((_, newest)) = release.newest().filter(|(_, newest)| newest.is_sealed()) else {
        return Remedy::Nothing;
    };
    let has_begun = || release.begun_uninstall().is_some_and(|(version, _)| is_vouched(version));
    match release.deployed() {
        _ if !newest.status.is_unsuccessful() || policy == OnFailure::Keep => Remedy::Nothing,
        Some((to, _)) if !is_vouched(to) => Remedy::Nothing,
        Some((to, _)) if policy != OnFailure::Uninstall => Remedy::RollBack(to),
        _ if stage == Stage::Render => Remedy::Nothing,
        Some(_) if stage == Stage::Check => Remedy::Nothing,
        Some(_) => Remedy::Uninstall,
        None if policy == OnFailure::Uninstall && has_begun() => Remedy::Uninstall,
        None if stage == Stage::Check => Remedy::Nothing,
        None if was_never_deployed(release) && release.revisions.values().all(Revision::is_sealed) => {
            Remedy::RemoveFailedInstall
        }
        None => Remedy::Nothing,
    }
}

/// Stores what a failed action left, and cleans up if it was a failed attempt. After any other failure, the attempt
/// continues later. `reason` applies to a failed attempt.
pub(crate) async fn after_action(
    context: &StepContext<'_>,
    primary: &Primary,
    (candidate, failure): (&Candidate, &Failure),
    reason: Reason,
) -> Failed {
    note(context, failure);
    match Failed::of_attempt(&failure.cause, condition::RELEASE_FAILED, reason) {
        Failed::Attempt(attempt) => {
            let stage = Stage::of(context, primary, failure);
            let refused = failure.cause.refusal().map(|refusal| Box::new((context.attempt(primary), refusal)));
            let unserved = context.unserved(primary, failure);
            context.shared.memory.change(context.key, |memory| {
                (memory.refused, memory.unserved) = (refused, unserved);
            });
            let blame = blame(&failure.cause, candidate, primary, &*context.shared.renderer);
            let message = format!("{}{blame}", attempt.message());
            clean_up(context, primary, attempt.with_message(message), stage).await
        }
        failed => failed,
    }
}

/// Continues the clean-up after the last action with these inputs, if it is not complete. Returns how the attempt has then
/// failed. A new attempt would abandon the clean-up, and run its own hooks again.
pub(super) async fn continue_clean_up(context: &StepContext<'_>, primary: &Primary) -> Option<Failed> {
    let attempt = context.shared.memory.of(context.key).uncleaned(&context.attempt(primary))?;
    let release = context.release().unwrap_or_default();
    let is_failed = |(_, newest): (u32, &Revision)| newest.is_sealed() && newest.status.is_unsuccessful();
    let is_begun = release.begun_uninstall().is_some();
    let is_undone = is_begun || release.deployed().is_some() || was_never_deployed(&release);
    match release.newest() {
        // The chart did not render before, and has rendered now.
        _ if !attempt.is_of_action() => {}
        // The failed install is removed, although the last answer was lost.
        None => return Some(attempt.into()),
        // So is the failed upgrade undone, as a watch has reported since.
        Some(_) if is_rolled_back(&release, |failed| context.has_present_inputs(failed, primary)) => {
            return Some(attempt.into());
        }
        Some(newest) if is_undone && is_failed(newest) => {
            return Some(clean_up(context, primary, attempt, Stage::Action).await);
        }
        Some(_) => {}
    }
    context.shared.memory.change(context.key, ResourceMemory::forget_uncleaned);
    None
}

/// Returns whether the newest revision has undone the one before it, which failed and was of this attempt.
fn is_rolled_back(release: &ReleaseRecords, is_of_attempt: impl Fn(&Revision) -> bool) -> bool {
    let is_made = |one: &Revision| one.is_sealed() && one.status == Status::Deployed && one.is_rollback();
    let is_undone = |one: &Revision| one.is_sealed() && one.status.is_unsuccessful() && is_of_attempt(one);
    let mut newest = release.revisions.iter().rev().map(|(_, revision)| revision);
    newest.next().is_some_and(is_made) && newest.next().is_some_and(is_undone)
}

/// Cleans up after a failed attempt. Adds the result to the message. An attempt that wrote nothing removes nothing of
/// an earlier one, which continues once the values are as before, or is given up. If the clean-up is not complete,
/// the attempt uses up no retries: after the last one, nothing would complete the clean-up.
pub(crate) async fn clean_up(
    context: &StepContext<'_>,
    primary: &Primary,
    attempt: FailedAttempt,
    stage: Stage,
) -> Failed {
    let message = attempt.message().to_owned();
    let (message, ended) = with_remedy(context, primary, message, stage).await;
    match ended {
        CleanUp::Ended => attempt.with_message(message).into(),
        CleanUp::Met(obstacle) => attempt.uncleaned(obstacle, message).into(),
    }
}

/// Returns the message with the result of the clean-up, and how that ended.
async fn with_remedy(context: &StepContext<'_>, primary: &Primary, message: String, stage: Stage) -> (String, CleanUp) {
    // Another resource must clean up what it left, and whoever runs an action in progress must finish it.
    let is_ours = |release: &ReleaseRecords| {
        let owner = primary.owner();
        release.holder(&owner) == Holder::Resource && release.in_flight(&owner, outside::now()).is_none()
    };
    let release = context.release().filter(|release| is_ours(release));
    let Some(release) = release else { return (message, CleanUp::Ended) };
    let obstructions = context.shared.memory.of(context.key).obstructions(&context.attempt(primary));
    let failed = |error: &action::Error| CleanUp::failed(error, obstructions);
    let is_vouched = |version| context.vouches(&release, version, primary);
    let remedy = remedy(&release, context.shared.settings.on_failure, stage, is_vouched);
    let remedy = remedy.as_wanted_now(primary, context.shared.cache.primary(context.key).as_deref());
    // Changed values from a source are tried on the present objects, like a changed `spec`.
    let has_other_values = remedy.deletes() && have_changed(context.shared, &context.used_sources(primary)).await;
    let remedy = if has_other_values { Remedy::Nothing } else { remedy };
    match remedy {
        Remedy::Nothing => (message, CleanUp::Ended),
        Remedy::RollBack(_) if stage == Stage::Render && !context.has_room_for_remedy(primary).await => (
            format!("{message}; the rollback waits for memory, which other actions hold"),
            CleanUp::Met(Obstacle::Outage),
        ),
        Remedy::RollBack(to) => match roll_back(context, primary, to).await {
            Ok(()) => (message, CleanUp::Ended),
            Err(Failure { cause, .. }) => (format!("{message}; rollback failed: {}", chain(&cause)), failed(&cause)),
        },
        Remedy::RemoveFailedInstall => match remove_failed_install(context, primary).await {
            Ok(()) => (message, CleanUp::Ended),
            Err(error) => {
                (format!("failed installation ({message}) and failed rollback: {}", chain(&error)), failed(&error))
            }
        },
        Remedy::Uninstall => {
            // The records will be deleted, and with them the values to hide in the message.
            let message = context.redactions(primary).await.hide_apart(message).await;
            match uninstall_failed(context, primary).await {
                Ok(None) => (message, CleanUp::Ended),
                Ok(Some(awaited)) => {
                    (format!("{message}; the release is being uninstalled: {awaited}"), CleanUp::Met(Obstacle::Outage))
                }
                Err(error) => (format!("{message}; uninstall failed: {}", chain(&error)), failed(&error)),
            }
        }
    }
}

/// Stores the failed revision in the cache before the watch reports it, or drops one whose record was deleted.
pub(crate) fn note(context: &StepContext<'_>, failure: &Failure) {
    if let Some(version) = failure.lost {
        context.shared.cache.lose_revision(context.key, version);
    }
    let Some(recorded) = &failure.recorded else { return };
    context.shared.cache.change_release(context.key, |release| release.put_failed(recorded));
    context.shared.cache.forget_records(context.key, &recorded.dropped);
}

async fn roll_back(context: &StepContext<'_>, primary: &Primary, to: u32) -> Result<(), Failure> {
    let Some(current) = context.current(primary) else { return Ok(()) };
    let mut env = context.environment(primary, Action::Upgrade);
    context.running.makes_revision(current.version_of_rollback());
    // The event of the rollback names only its own hooks.
    _ = context.ran.take();
    // The refusal was about another revision, and the description is that of upgrades.
    (env.options.refused, env.options.description) = (None, None);
    let inputs = current.inventory.inputs.clone();
    let began = Instant::now();
    let rolled_back = action::rollback(&env, &current, to, &inputs).await;
    context.count_action(Action::Rollback, began, rolled_back.as_ref().err().map(|failure| &failure.cause));
    match rolled_back {
        Ok(outcome) => {
            tracing::info!(resource = %context.key, to, revision = outcome.version, "Rolled back release");
            let (failed, hooks) = (current.version, context.ran.take());
            let note = format!(
                "rolled back to revision {to} as revision {}: revision {failed} failed{hooks}",
                outcome.version
            );
            context.shared.publish(primary, Outcome::normal("RolledBack", "Rollback", note));
            record(context, outcome).await;
            Ok(())
        }
        Err(failure) => {
            if let Some(version) = failure.cause.ended() {
                context.read_end(primary, version).await.map_err(action::Error::from)?;
                let release = context.release().unwrap_or_default();
                // If it ended well, there is nothing to undo.
                let is_left = release.newest().is_some_and(|(_, newest)| newest.status.is_unsuccessful());
                return if is_left { Err(failure) } else { Ok(()) };
            }
            note(context, &failure);
            Err(failure)
        }
    }
}

async fn remove_failed_install(context: &StepContext<'_>, primary: &Primary) -> Result<(), action::Error> {
    let env = context.environment(primary, Action::Uninstall);
    give_up::give_up_unfinished(context, primary, &env).await?;
    let failed = || context.current(primary).filter(|current| current.never_deployed);
    // By now it may be known that it ended well.
    if failed().is_none() {
        return Ok(());
    }
    expect_jobs_again(context, &env).await?;
    let Some(current) = failed() else { return Ok(()) };
    let mut current = with_recorded_objects(&env, current, &[]).await?;
    // A record that was too large for its inventory does not say so.
    current.inventory.objects.iter_mut().for_each(|object| object.attempted = true);
    action::delete_objects(&env, &current.inventory).await?;
    uninstall::forget_begun(context, primary).await?;
    // The oldest is deleted last: a history without its start does not prove that no revision was ever deployed.
    let oldest = current.records.iter().map(|known| known.version).min().unwrap_or_default();
    let (namespace, name) = (&env.decoration.namespace, &env.decoration.release);
    env.storage.delete_all(namespace, name, &current.records, oldest).await?;
    context.shared.cache.forget_records(context.key, &current.records);
    context.shared.memory.change(context.key, |memory| memory.release.lost = None);
    Ok(())
}

/// Uninstalls the release of a failed upgrade. Returns the objects to wait for, or why it does not go on for now.
pub(super) async fn uninstall_failed(
    context: &StepContext<'_>,
    primary: &Primary,
) -> Result<Option<String>, action::Error> {
    let env = context.environment(primary, Action::Uninstall);
    give_up::give_up_unfinished(context, primary, &env).await?;
    // By now it may be known that the last upgrade ended well.
    let release = context.release().unwrap_or_default();
    if release.newest().is_some_and(|(_, newest)| newest.status == Status::Deployed) {
        return Ok(None);
    }
    uninstall::uninstall_failed(context, primary).await
}

/// Notes in the records that no Job has finished, before the objects of the release are deleted: the next attempt installs
/// it again, even if this removal is interrupted or has to wait. Returns the marks from before.
pub(super) async fn expect_jobs_again(
    context: &StepContext<'_>,
    env: &action::Environment<'_>,
) -> Result<Vec<FinishedJobs>, action::Error> {
    let release = context.release().unwrap_or_default();
    let has_finished =
        |revision: &Revision| revision.marks.as_ref().is_some_and(|m| m.objects.iter().any(|o| o.expires));
    let live = release.live().filter(|(_, revision)| has_finished(revision));
    let finished: Vec<FinishedJobs> =
        live.filter_map(|(version, one)| Some((version, one.status, one.marks.clone()?))).collect();
    for (version, status, _) in &finished {
        cache_marks(context, *version, action::expect_jobs_again(env, *version, *status).await?);
    }
    Ok(finished)
}

/// Takes over the marks of a revision whose record was rewritten with them, if it was.
pub(super) fn cache_marks(context: &StepContext<'_>, version: u32, rewritten: Option<(Written, Marks)>) {
    if let Some((written, marks)) = rewritten {
        context.shared.cache.change_release(context.key, |release| release.remarked(version, &written, marks));
    }
}

/// A revision with its status and marks, according to which some of its Jobs have finished.
pub(super) type FinishedJobs = (u32, Status, Arc<Marks>);

/// Takes back what [`expect_jobs_again`] has noted, because the release stays.
pub(super) async fn expect_no_jobs(
    context: &StepContext<'_>,
    env: &action::Environment<'_>,
    finished: &[FinishedJobs],
) -> Result<(), action::Error> {
    for (version, status, before) in finished {
        cache_marks(context, *version, action::expect_no_jobs(env, *version, *status, before).await?);
    }
    Ok(())
}

/// Returns the release to upgrade from. If nothing is deployed, the live objects are those of the last good revision
/// and of the newest one.
pub(crate) async fn base(env: &action::Environment<'_>, current: Current) -> Result<Current, action::Error> {
    let good: Vec<u32> = current.last_good.into_iter().filter(|_| current.deployed.is_none()).collect();
    with_recorded_objects(env, current, &good).await
}

/// Adds the objects in these revisions' manifests, and in the newest one's if it has no marks.
async fn with_recorded_objects(
    env: &action::Environment<'_>,
    mut current: Current,
    versions: &[u32],
) -> Result<Current, action::Error> {
    let newest = (current.deployed.is_none() && current.inventory.objects.is_empty()).then_some(current.version);
    for version in versions.iter().copied().chain(newest) {
        let marks = match action::inventory_of(env, version).await {
            Ok((marks, _)) => marks,
            // It was damaged by someone else, so its objects may stay behind.
            Err(action::Error::Storage(error)) if error.is_damage() => {
                tracing::warn!(release = env.decoration.release, version, %error, "A damaged record names no objects");
                continue;
            }
            Err(error) => return Err(error),
        };
        let listed = current.inventory.with_inventory(marks.objects).objects;
        let unknown: Vec<_> = listed.into_iter().filter(|o| current.inventory.find(&o.key).is_none()).collect();
        current.inventory.objects.extend(unknown);
    }
    Ok(current)
}

/// Publishes each change that server-side apply rejected and that was applied client-side instead. `made` is the record
/// of the revision that contains the objects, if the cache does not know it yet.
pub(crate) async fn publish_client_side_applies(
    context: &StepContext<'_>,
    primary: &Primary,
    applied: &[Applied],
    made: Option<&Packed>,
) {
    let refused = |one: &Applied| match &one.method {
        ApplyMethod::Client { refused: Some(why) } => Some(why.to_string()),
        _ => None,
    };
    let refused: Vec<(&Applied, String)> = applied.iter().filter_map(|one| Some((one, refused(one)?))).collect();
    if refused.is_empty() {
        return;
    }
    let mut mask = context.redactions(primary).await;
    if let Some(made) = made {
        context.add_made(&mut mask, primary, made).await;
    }
    for (one, why) in refused {
        let why = mask.clone().hide_apart(why).await;
        let note = format!("server-side apply rejects {}, so it is written client-side: {why}", one.key);
        tracing::warn!(resource = %context.key, object = %one.key, why, "server-side apply rejects an object");
        context.shared.publish(primary, Outcome::warning("ClientSideApply", "Apply", note));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controller::runtime::freshness::Stamp;
    use helm_release::storage::Marks;
    use serde_json::{Value, json};

    use super::*;
    use crate::view::primary::Received;
    use crate::view::release::Trust;

    /// Returns a release with these revisions. The newest one has these marks.
    fn release(statuses: &[(u32, Status)], marks: Option<Marks>) -> ReleaseRecords {
        let stamp = Stamp::written(None);
        let revision = |status| Revision {
            status,
            resource_version: 0,
            owners: Box::default(),
            marks: marks.clone().map(Arc::new),
            trust: if marks.is_some() { Trust::Written(None) } else { Trust::Foreign },
            names_us: marks.is_some(),
            has_other_key: false,
            stamp,
            written: None,
            is_settled: false,
        };
        let revisions = statuses.iter().map(|(version, status)| (*version, revision(*status))).collect();
        ReleaseRecords { revisions, ..ReleaseRecords::default() }
    }

    #[test]
    fn a_release_that_was_ever_deployed_is_never_removed() {
        use Remedy::{Nothing, RemoveFailedInstall, RollBack};
        use Stage::{Action, Check, Render};
        use Status::{Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Superseded, Uninstalled};
        let cases: [(&[(u32, Status)], Remedy); 14] = [
            (&[], Nothing),
            (&[(1, Deployed)], Nothing),
            (&[(1, Failed)], RemoveFailedInstall),
            (&[(1, PendingInstall)], RemoveFailedInstall),
            (&[(1, Failed), (2, Failed)], RemoveFailedInstall),
            (&[(1, Failed), (2, PendingInstall)], RemoveFailedInstall),
            (&[(1, Deployed), (2, Failed)], RollBack(1)),
            (&[(1, Superseded), (2, Deployed), (3, PendingUpgrade)], RollBack(2)),
            (&[(1, Superseded), (2, Superseded), (3, Failed)], Nothing),
            (&[(1, Superseded), (2, PendingRollback)], Nothing),
            (&[(1, Failed), (2, PendingUpgrade)], Nothing),
            (&[(1, Uninstalled), (2, Failed)], Nothing),
            (&[(4, Failed), (5, Failed)], Nothing),
            (&[(1, Failed), (3, Failed)], Nothing),
        ];
        for (statuses, expected) in cases {
            let ours = release(statuses, Some(Marks::default()));
            let check = |policy, stage, expected| {
                assert_eq!(remedy(&ours, policy, stage, |_| true), expected, "{statuses:?} {policy:?} {stage:?}");
            };
            check(OnFailure::Rollback, Action, expected);
            check(OnFailure::Keep, Action, Nothing);
            let rolls_back = matches!(expected, RollBack(_));
            check(OnFailure::Uninstall, Action, if rolls_back { Remedy::Uninstall } else { expected });
            check(OnFailure::Rollback, Render, if rolls_back { expected } else { Nothing });
            check(OnFailure::Uninstall, Render, Nothing);
            check(OnFailure::Rollback, Check, if rolls_back { expected } else { Nothing });
            check(OnFailure::Uninstall, Check, Nothing);
            let helms = remedy(&release(statuses, None), OnFailure::Uninstall, Action, |_| true);
            assert_eq!(helms, Nothing, "Helm's {statuses:?}");
            let unproven = remedy(&ours, OnFailure::Rollback, Action, |_| false);
            assert!(!matches!(unproven, RollBack(_)), "{statuses:?}");
        }
    }

    fn primary(change: impl FnOnce(&mut Value)) -> Primary {
        let mut object = json!({
            "apiVersion": "example.com/v1", "kind": "Shop", "spec": {"a": 1},
            "metadata": {"name": "a", "namespace": "ns", "uid": "u1", "annotations": {}},
        });
        change(&mut object);
        serde_json::from_value::<Received>(object).unwrap().primary
    }

    #[test]
    fn nothing_is_deleted_that_the_resource_asks_to_keep_by_now() {
        use Remedy::{Nothing, RemoveFailedInstall, RollBack, Uninstall};
        let annotate = |p: &mut Value, key: &str| {
            p["metadata"]["annotations"][format!("helm.sdk.operatorframework.io/{key}")] = "true".into();
        };
        let correct = |p: &mut Value| p["spec"]["a"] = 2.into();
        let pin = |p: &mut Value| p["metadata"]["annotations"]["helm.sdk.operatorframework.io/pin"] = "1".into();
        let check = |now: Option<Primary>, expected: Remedy, remedy: Remedy| {
            assert_eq!(remedy.as_wanted_now(&primary(|_| ()), now.as_ref()), expected, "{remedy:?}");
        };
        for deletes in [RemoveFailedInstall, Uninstall] {
            check(Some(primary(|_| ())), deletes, deletes);
            check(Some(primary(|p| p["metadata"]["labels"] = json!({"a": "b"}))), deletes, deletes);
            check(Some(primary(|p| annotate(p, "pause"))), Nothing, deletes);
            check(Some(primary(|p| annotate(p, "suspend"))), Nothing, deletes);
            check(Some(primary(|p| annotate(p, "retry-now"))), deletes, deletes);
            check(Some(primary(pin)), Nothing, deletes);
            check(Some(primary(correct)), Nothing, deletes);
            // No attempt of this resource follows.
            check(None, deletes, deletes);
            check(Some(primary(|p| (p["metadata"]["uid"] = "u2".into(), correct(p)).1)), deletes, deletes);
        }
        check(Some(primary(|p| annotate(p, "pause"))), RollBack(1), RollBack(1));
    }

    #[test]
    fn only_an_outage_or_a_slow_deletion_leaves_a_clean_up_incomplete() {
        use helm_release::kube::{ApplyError, Error, HookError};
        use helm_release::storage;
        let deleting = |finalizers: &[&str]| {
            let finalizers = finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect();
            ApplyError::StillDeleting { object: "a".into(), seconds: 60, finalizers }
        };
        let applying = |source| ApplyError::Failed { verb: "apply", object: "a".into(), source };
        let recording = |source| storage::Error::Api { verb: "create", key: "web.v3".into(), source };
        let rejected = |code| Error::from_status(code, "", "no");
        let (lasting, outage) = (CleanUp::Met(Obstacle::Lasting), CleanUp::Met(Obstacle::Outage));
        let exists = Error::from_status(409, "AlreadyExists", "it exists");
        let away = |verb: &str| HookError::Api { path: "h".into(), source: Error::Transport(verb.into()) };
        let late = || HookError::TimedOut { path: "h".into(), limit: "1h".into(), what: "Job".into() };
        let unended = |source| HookError::Unended { why: Box::new(late()), source: Box::new(source) };
        let unanswered = |was_answered| {
            let (path, limit, what) = ("h".into(), "1m".into(), "Job".into());
            HookError::Unanswered { path, limit, what, was_answered }
        };
        let left = |source| HookError::MayRun { path: "h".into(), source: Box::new(source) };
        let unable = CleanUp::Met(Obstacle::Unended);
        let cases: [(action::Error, CleanUp); 17] = [
            (unended(unanswered(false)).into(), outage),
            (unended(unanswered(true)).into(), lasting),
            (left(unanswered(false)).into(), outage),
            (left(away("delete")).into(), outage),
            (left(unanswered(true)).into(), unable),
            (unended(away("delete")).into(), outage),
            (late().into(), CleanUp::Ended),
            (deleting(&["foregroundDeletion"]).into(), lasting),
            (deleting(&[]).into(), lasting),
            (deleting(&["foregroundDeletion", "x/y"]).into(), CleanUp::Ended),
            (applying(rejected(422)).into(), CleanUp::Ended),
            (applying(rejected(503)).into(), lasting),
            (applying(Error::Outdated).into(), outage),
            (recording(rejected(403)).into(), CleanUp::Ended),
            (recording(exists).into(), lasting),
            (recording(Error::Transport("reset".into())).into(), outage),
            (action::Error::Unproven { version: 1 }, CleanUp::Ended),
        ];
        for (error, expected) in cases {
            assert_eq!(CleanUp::failed(&error, 9), expected, "{error}");
        }
        assert_eq!(CleanUp::failed(&left(unanswered(true)).into(), 10), unable, "it is left then");
        assert_eq!(CleanUp::failed(&deleting(&["foregroundDeletion"]).into(), 10), CleanUp::Ended, "no more");
        assert_eq!(CleanUp::failed(&applying(rejected(503)).into(), 10), CleanUp::Ended, "no more");
        assert_eq!(CleanUp::failed(&applying(Error::Transport("reset".into())).into(), 10), outage, "without contact");
    }

    #[test]
    fn an_uninstall_that_has_begun_goes_on_by_its_own_policy_alone() {
        use Remedy::{Nothing, Uninstall};
        let begun = release(&[(1, Status::Uninstalling), (2, Status::Failed)], Some(Marks::default()));
        for (policy, stage, is_vouched, expected) in [
            (OnFailure::Uninstall, Stage::Action, true, Uninstall),
            (OnFailure::Uninstall, Stage::Action, false, Nothing),
            (OnFailure::Uninstall, Stage::Check, true, Uninstall),
            (OnFailure::Uninstall, Stage::Render, true, Nothing),
            (OnFailure::Rollback, Stage::Action, true, Nothing),
            (OnFailure::Keep, Stage::Action, true, Nothing),
        ] {
            assert_eq!(remedy(&begun, policy, stage, |_| is_vouched), expected, "{policy:?} {stage:?} {is_vouched}");
        }
    }

    #[test]
    fn a_failed_install_is_removed_although_the_first_ones_have_left_the_history() {
        let marks = Marks { none_deployed_before: true, ..Marks::default() };
        let trimmed = release(&[(4, Status::Failed), (6, Status::Failed)], Some(marks));
        assert_eq!(remedy(&trimmed, OnFailure::Rollback, Stage::Action, |_| true), Remedy::RemoveFailedInstall);
    }
}
