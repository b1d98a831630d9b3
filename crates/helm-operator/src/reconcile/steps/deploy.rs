//! Creates the next revision: installs the first one, upgrades to any later one. [`super::remediate`] rolls back what a
//! failed attempt left.

use std::sync::Arc;
use std::time::Duration;

use controller::report;
use helm_release::action::{self, Candidate, Failure, Outcome};
use helm_release::kube::{Decoration, Resource};
use helm_release::release::Status;
use tokio::time::Instant;

use super::remediate;
use crate::chart_metrics::Action;
use crate::reconcile::context::{Next, Work};
use crate::reconcile::failure::Failed;
use crate::reconcile::report::changes;
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

/// Installs the candidate.
pub(crate) async fn install(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Failed> {
    let Some(candidate) = work.candidate.take() else { return Ok(Next::Done) };
    prepare(work, primary, &candidate).await;
    let decoration = Decoration { tie: candidate.tie(), ..work.decoration(primary) };
    let env = work.environment(&decoration, primary, "install");
    let began = Instant::now();
    let installed = action::install(&env, &candidate, work.current().as_ref()).await;
    work.count_action(Action::Install, began, installed.as_ref().err().map(|failure| &failure.cause));
    let chart = &candidate.chart;
    let hooks = work.ran.take();
    let note = format!("installed release {:?} with chart {}-{}{hooks}", primary.name(), chart.name, chart.version);
    let concluded = conclude(work, primary, &candidate, &INSTALL, installed.map(|outcome| (outcome, note))).await;
    keep_failed(work, candidate, concluded)
}

/// Upgrades to the candidate.
pub(crate) async fn upgrade(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Failed> {
    let (Some(candidate), Some(current)) = (work.candidate.take(), work.current()) else { return Ok(Next::Done) };
    let why = why(work, primary, &candidate);
    prepare(work, primary, &candidate).await;
    let decoration = Decoration { tie: candidate.tie(), ..work.decoration(primary) };
    let env = work.environment(&decoration, primary, "upgrade");
    let began = Instant::now();
    let upgraded = match remediate::base(&env, current).await {
        Ok(current) => action::upgrade(&env, &candidate, &current).await,
        Err(cause) => Err(cause.into()),
    };
    work.count_action(Action::Upgrade, began, upgraded.as_ref().err().map(|failure| &failure.cause));
    let upgraded = upgraded.map(|outcome| {
        let why = if why.is_empty() { why } else { format!(": {why}") };
        let (pruned, hooks) = (changes::pruned(&outcome.pruned), work.ran.take());
        let note = format!("upgraded release {:?} to revision {}{why}{pruned}{hooks}", primary.name(), outcome.version);
        (outcome, note)
    });
    let concluded = conclude(work, primary, &candidate, &UPGRADE, upgraded).await;
    keep_failed(work, candidate, concluded)
}

/// Keeps a failed candidate until its failure is reported, because it shows which words in the message are values and
/// which are names.
fn keep_failed(work: &mut Work<'_>, candidate: Candidate, concluded: Result<Next, Failed>) -> Result<Next, Failed> {
    work.candidate = concluded.is_err().then_some(candidate);
    concluded
}

/// Publishes what the user should know before the action, and runs the author's hooks.
async fn prepare(work: &Work<'_>, primary: &Primary, candidate: &Candidate) {
    _ = work.ran.take();
    publish_overrides(work, primary);
    publish_duplicates(work, primary, candidate);
    work.before(primary, candidate).await;
}

/// Records the action's outcome. A success comes with the note for its event.
async fn conclude(
    work: &Work<'_>,
    primary: &Primary,
    candidate: &Candidate,
    words: &Words,
    result: Result<(Outcome, String), Failure>,
) -> Result<Next, Failed> {
    match result {
        Ok((outcome, note)) => {
            tracing::info!(resource = %work.key, revision = outcome.version, "{} release", words.done);
            work.shared.publish(primary, report::Outcome::normal(words.done, words.action, note));
            work.after(primary, &outcome, &candidate.manifest).await;
            record(work, outcome, Some(candidate)).await;
            work.succeed();
            Ok(Next::Again)
        }
        // Its event will follow, or has already arrived.
        Err(failure) if failure.cause.is_taken() => {
            tracing::info!(resource = %work.key, "Somebody else has just made the next revision");
            Ok(Next::At(Instant::now() + TAKEN))
        }
        Err(failure) if failure.cause.is_interruption() => {
            remediate::note(work, &failure);
            Ok(interrupted(work, primary, &failure.cause, Some(candidate)).await)
        }
        Err(failure) => Err(remediate::after_action(work, primary, (candidate, &failure), words.failed).await),
    }
}

/// Reports that the resource no longer wants the action whose hook was running. The action that it wants now follows.
pub(crate) async fn interrupted(
    work: &Work<'_>,
    primary: &Primary,
    cause: &action::Error,
    candidate: Option<&Candidate>,
) -> Next {
    let note = work.veil(primary, candidate).await.hide(report::chain(cause));
    tracing::info!(resource = %work.key, why = note, "Interrupted a hook");
    work.shared.publish(primary, report::Outcome::normal("HookInterrupted", "Hook", note));
    _ = work.ran.take();
    Next::Anew
}

/// Stores the outcome of an action in the cache.
pub(crate) async fn record(work: &Work<'_>, outcome: Outcome, candidate: Option<&Candidate>) {
    let shared = work.shared;
    shared.cache.store_applied(&outcome.applied, work.key);
    if let Some(primary) = shared.cache.primary(work.key) {
        remediate::publish_client_side_applies(work, &primary, &outcome.applied, candidate).await;
    }
    let mut kinds: Vec<Arc<Resource>> = Vec::new();
    for object in &outcome.marks.objects {
        if let Ok(kind) = shared.applier.mapper.resource(&object.api_version, &object.key.kind).await
            && !kinds.contains(&kind)
        {
            kinds.push(kind);
        }
    }
    shared.watch_kinds(kinds);
    shared.cache.change_release(work.key, |release| {
        for superseded in &outcome.superseded {
            if let Some(revision) = release.revisions.get_mut(superseded) {
                revision.status = Status::Superseded;
            }
        }
        for dropped in &outcome.dropped {
            release.revisions.remove(dropped);
        }
        release.put_written(outcome.version, Status::Deployed, outcome.written, outcome.marks);
    });
    shared.memory.change(work.key, |history| {
        history.status.notes = Some(outcome.notes);
        (history.release.lost, history.release.cleared) = (None, None);
        history.requests.resynced = Some(tokio::time::Instant::now());
    });
}

/// Publishes a warning for each object that the chart renders more than once.
fn publish_duplicates(work: &Work<'_>, primary: &Primary, candidate: &Candidate) {
    for duplicate in &candidate.duplicates {
        tracing::warn!(resource = %work.key, %duplicate, "The chart renders an object more than once");
        work.shared.publish(primary, report::Outcome::warning("DuplicateObject", "Render", duplicate.to_string()));
    }
}

/// Returns why the candidate becomes a revision; empty if unknown. Publishes whether it undoes a person's `helm
/// rollback` or `helm upgrade`.
fn why(work: &Work<'_>, primary: &Primary, candidate: &Candidate) -> String {
    let why = work.why(primary, candidate);
    let Some(version) = made_with_helm(work, primary) else { return why };
    publish_undone(work, primary, candidate, version);
    let undone = format!("undoes revision {version}, which was made with helm");
    if why.is_empty() { undone } else { format!("{undone}, {why}") }
}

/// Returns the deployed revision if a person created it with helm. A revision from before the resource's first one does
/// not count.
pub(crate) fn made_with_helm(work: &Work<'_>, primary: &Primary) -> Option<u32> {
    let release = work.release()?;
    let (version, deployed) = release.deployed()?;
    let by_helm = deployed.marks.as_ref().is_none_or(|marks| marks.inputs.is_empty());
    let before = primary.status.deployed_release.as_ref().map_or(0, |before| before.revision);
    (by_helm && (1..version).contains(&before)).then_some(version)
}

/// Publishes that a person's change is being undone, and how to keep such a change.
fn publish_undone(work: &Work<'_>, primary: &Primary, candidate: &Candidate, version: u32) {
    let release = work.release();
    let packed = release.as_deref().and_then(|release| release.packed.as_ref()).filter(|(of, _)| *of == version);
    let record = packed.and_then(|(_, packed)| packed.facts().unpack().ok());
    let did = record.map(|record| record.info.description).filter(|text| !text.is_empty());
    let did = did.map(|text| format!(" ({text})")).unwrap_or_default();
    let (chart, number) = (&candidate.chart.name, &candidate.chart.version);
    let note = format!(
        "revision {version}{did} was made with helm and is undone: spec and chart {chart}-{number} decide. To keep such a change, set the annotation \
         helm.sdk.operatorframework.io/suspend to \"true\" first, or make it in spec"
    );
    tracing::warn!(resource = %work.key, "{note}");
    work.shared.publish(primary, report::Outcome::warning("HelmChangeUndone", "Upgrade", note));
}

/// Publishes an event for each override value in use, in the words of the upstream operator that the resource comes
/// from.
fn publish_overrides(work: &Work<'_>, primary: &Primary) {
    let (reason, by) = match primary.status.is_from_plugins() {
        true => ("ValueOverridden", "operator"),
        false => ("OverrideValuesInUse", "operator's watches.yaml"),
    };
    for (key, value) in work.shared.renderer.overrides().into_iter().flat_map(Overrides::texts) {
        let value = if work.shared.settings.suppress_overrides { "****" } else { value };
        let note = format!("Chart value {key:?} overridden to {value:?} by {by}");
        work.shared.publish(primary, report::Outcome::normal(reason, "Override", note));
    }
}
