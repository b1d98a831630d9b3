//! Creates the next revision: installs the first one, upgrades to any later one. [`super::remediate`] rolls back what a
//! failed attempt left.

use std::time::Duration;

use controller::report::{self, shorten};
use helm_release::action::{self, Action, Candidate, Completed, Failure};
use helm_release::kube::intern;
use helm_release::release::Status;
use tokio::time::Instant;

use super::{begun_uninstall, remediate};
use crate::reconcile::changes;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, Learned, NextStep};
use crate::reconcile::step_context::StepContext;
use crate::status::MAX_NAMED;
use crate::status::history::MAX_CAUSE;
use crate::status::reason::Reason;
use crate::view::primary::Primary;
use crate::watches::Overrides;

/// How long to wait for the event of a revision that someone else created.
const TAKEN: Duration = Duration::from_secs(5);

/// An action's names in logs, events and conditions.
struct Words {
    action: &'static str,
    done: &'static str,
    failed: Reason,
}

const INSTALL: Words = Words { action: "Install", done: "Installed", failed: Reason::InstallError };
const UPGRADE: Words = Words { action: "Upgrade", done: "Upgraded", failed: Reason::UpgradeError };

pub(crate) async fn install(
    context: &StepContext<'_>,
    primary: &Primary,
    candidate: &Candidate,
) -> Result<Ended, Failed> {
    if let Some(failed) = remediate::continue_clean_up(context, primary).await {
        return Err(failed);
    }
    begun_uninstall::end_left(context, primary).await?;
    prepare(context, primary, candidate).await;
    let env = context.environment(primary, Action::Install);
    let current = context.current(primary);
    context.running.makes_revision(current.as_ref().map_or(1, |current| current.next_version(&candidate.inputs)));
    let began = Instant::now();
    let installed = action::install(&env, candidate, current.as_ref()).await;
    context.count_action(Action::Install, began, installed.as_ref().err().map(|failure| &failure.cause));
    let chart = &candidate.chart;
    let hooks = context.ran.take();
    let note = format!("installed release {:?} with chart {}-{}{hooks}", primary.name(), chart.name, chart.version);
    conclude(context, primary, candidate, &INSTALL, installed.map(|outcome| (outcome, note))).await
}

pub(crate) async fn upgrade(
    context: &StepContext<'_>,
    primary: &Primary,
    candidate: &Candidate,
) -> Result<Ended, Failed> {
    if let Some(failed) = remediate::continue_clean_up(context, primary).await {
        return Err(failed);
    }
    if let Some(ended) = begun_uninstall::end(context, primary).await? {
        return Ok(ended);
    }
    let Some(current) = context.current(primary) else { return Ok(NextStep::Done.into()) };
    let why = why(context, primary, candidate);
    prepare(context, primary, candidate).await;
    let mut env = context.environment(primary, Action::Upgrade);
    context.running.makes_revision(current.next_version(&candidate.inputs));
    env.options.cause = intern(&shorten(&why, MAX_CAUSE));
    let began = Instant::now();
    let upgraded = match remediate::base(&env, current).await {
        Ok(current) => action::upgrade(&env, candidate, &current).await,
        Err(cause) => Err(cause.into()),
    };
    context.count_action(Action::Upgrade, began, upgraded.as_ref().err().map(|failure| &failure.cause));
    let upgraded = upgraded.map(|outcome| {
        let why = if why.is_empty() { why } else { format!(": {why}") };
        let (pruned, hooks) = (changes::pruned(&outcome.pruned), context.ran.take());
        let note = format!("upgraded release {:?} to revision {}{why}{pruned}{hooks}", primary.name(), outcome.version);
        (outcome, note)
    });
    conclude(context, primary, candidate, &UPGRADE, upgraded).await
}

/// Publishes what the user should know before the action, and runs the author's hooks.
async fn prepare(context: &StepContext<'_>, primary: &Primary, candidate: &Candidate) {
    _ = context.ran.take();
    publish_overrides(context, primary);
    publish_duplicates(context, primary, candidate);
    context.before(primary, candidate).await;
}

/// Records the action's outcome. A success comes with the note for its event.
async fn conclude(
    context: &StepContext<'_>,
    primary: &Primary,
    candidate: &Candidate,
    words: &Words,
    result: Result<(Completed, String), Failure>,
) -> Result<Ended, Failed> {
    if let Err(failure) = &result
        && let Some(version) = failure.cause.ended()
    {
        if failure.recorded.is_some() {
            remediate::note(context, failure);
            return Ok(NextStep::Anew.into());
        }
        return follow_end(context, primary, version).await;
    }
    match result {
        Ok((outcome, note)) => {
            tracing::info!(resource = %context.key, revision = outcome.version, "{} release", words.done);
            context.shared.publish(primary, report::Outcome::normal(words.done, words.action, note));
            context.after(primary, &outcome, &candidate.manifest).await;
            record(context, outcome).await;
            context.succeed();
            Ok(NextStep::Again.with([Learned::Deployed]).with(context.follow_up(primary)))
        }
        // Its event will follow, or has already arrived.
        Err(failure) if failure.cause.is_taken() => {
            tracing::info!(resource = %context.key, "Somebody else has just made the next revision");
            Ok(NextStep::At(Instant::now() + TAKEN).into())
        }
        // The failure is not the action's own, so nothing is cleaned up. The server may be as it was before the action.
        Err(_) if context.is_outdated() => Ok(NextStep::Anew.into()),
        Err(failure) if failure.cause.is_interruption() => {
            remediate::note(context, &failure);
            Ok(interrupted(context, primary, &failure.cause).await.into())
        }
        Err(failure) => Err(remediate::after_action(context, primary, (candidate, &failure), words.failed).await),
    }
}

/// Decides anew from a revision that had ended before the action that was to follow it. If its end cannot be seen yet,
/// its event is awaited.
pub(crate) async fn follow_end(context: &StepContext<'_>, primary: &Primary, version: u32) -> Result<Ended, Failed> {
    let is_known = context.note_end(primary, version).await?;
    let next = if is_known { NextStep::Anew } else { NextStep::At(Instant::now() + TAKEN) };
    Ok(next.into())
}

/// Reports that the resource no longer wants the action that was waiting for a hook or a group. The action that it
/// wants now follows.
pub(crate) async fn interrupted(context: &StepContext<'_>, primary: &Primary, cause: &action::Error) -> NextStep {
    let note = context.redactions(primary).await.hide(report::chain(cause));
    let (reason, action) = if cause.is_group() { ("GroupInterrupted", "Wait") } else { ("HookInterrupted", "Hook") };
    tracing::info!(resource = %context.key, why = note, "Interrupted a wait");
    context.shared.publish(primary, report::Outcome::normal(reason, action, note));
    _ = context.ran.take();
    NextStep::Anew
}

/// Stores the outcome of an action in the cache.
pub(crate) async fn record(context: &StepContext<'_>, outcome: Completed) {
    let shared = context.shared;
    shared.cache.store_applied(&outcome.applied, context.key);
    if let Some(primary) = shared.cache.primary(context.key) {
        let made = outcome.written.packed.get();
        remediate::publish_client_side_applies(context, &primary, &outcome.applied, Some(made)).await;
    }
    shared.cache.change_release(context.key, |release| {
        for (superseded, resource_version) in &outcome.superseded {
            if let Some(revision) = release.revisions.get_mut(superseded) {
                revision.status = Status::Superseded;
                revision.rewritten(*resource_version);
            }
        }
        release.put_written(outcome.version, Status::Deployed, outcome.written, outcome.marks);
    });
    shared.cache.forget_records(context.key, &outcome.dropped);
    shared.memory.change(context.key, |memory| {
        memory.status.notes = Some(outcome.notes);
        (memory.release.lost, memory.release.cleared) = (None, None);
        memory.triggers.resynced = Some(tokio::time::Instant::now());
    });
}

/// Publishes one warning that names the first objects that the chart renders more than once. A resource's values may
/// decide how many there are, and all resources share the queue of events.
fn publish_duplicates(context: &StepContext<'_>, primary: &Primary, candidate: &Candidate) {
    if candidate.duplicates.is_empty() {
        return;
    }
    let mut named: Vec<String> = candidate.duplicates.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    if let more @ 1.. = candidate.duplicates.len().saturating_sub(MAX_NAMED) {
        named.push(format!("and {more} more"));
    }
    let note = named.join("; ");
    tracing::warn!(resource = %context.key, duplicates = note, "The chart renders objects more than once");
    context.shared.publish(primary, report::Outcome::warning("DuplicateObject", "Render", note));
}

/// Returns why the candidate becomes a revision; empty if unknown. Publishes an event if it undoes a person's `helm
/// rollback` or `helm upgrade`.
fn why(context: &StepContext<'_>, primary: &Primary, candidate: &Candidate) -> String {
    let why = context.why(primary, candidate);
    let Some(version) = made_with_helm(context, primary) else { return why };
    publish_undone(context, primary, candidate, version);
    let undone = format!("undoes revision {version}, which was made with helm");
    if why.is_empty() { undone } else { format!("{undone}, {why}") }
}

/// Returns the deployed revision if a person created it with helm. A revision from before the resource's first one does
/// not count.
pub(crate) fn made_with_helm(context: &StepContext<'_>, primary: &Primary) -> Option<u32> {
    let release = context.release()?;
    let (version, deployed) = release.deployed()?;
    let by_helm = deployed.marks.as_ref().is_none_or(|marks| marks.inputs.is_empty());
    let before = primary.status.deployed_release.as_ref().map_or(0, |before| before.revision);
    (by_helm && (1..version).contains(&before)).then_some(version)
}

/// Publishes that a person's change is being undone, and how to keep such a change.
fn publish_undone(context: &StepContext<'_>, primary: &Primary, candidate: &Candidate, version: u32) {
    let release = context.release();
    let record = release.as_deref().and_then(|release| release.record(version)?.facts().unpack().ok());
    let did = record.map(|record| record.info.description).filter(|text| !text.is_empty());
    let did = did.map(|text| format!(" ({text})")).unwrap_or_default();
    let (chart, number) = (&candidate.chart.name, &candidate.chart.version);
    let note = format!(
        "revision {version}{did} was made with helm and is undone: spec and chart {chart}-{number} decide. To keep such a change, set the annotation \
         helm.sdk.operatorframework.io/suspend to \"true\" first, or make it in spec"
    );
    tracing::warn!(resource = %context.key, "{note}");
    context.shared.publish(primary, report::Outcome::warning("HelmChangeUndone", "Upgrade", note));
}

/// Publishes an event for each override value in use, in the words of the upstream operator that the resource comes
/// from.
fn publish_overrides(context: &StepContext<'_>, primary: &Primary) {
    let (reason, by) = match primary.status.is_from_plugins() {
        true => ("ValueOverridden", "operator"),
        false => ("OverrideValuesInUse", "operator's watches.yaml"),
    };
    for (key, value) in context.shared.renderer.overrides().into_iter().flat_map(Overrides::texts) {
        let value = if context.shared.settings.suppress_overrides { "****" } else { value };
        let note = format!("Chart value {key:?} overridden to {value:?} by {by}");
        context.shared.publish(primary, report::Outcome::normal(reason, "Override", note));
    }
}
