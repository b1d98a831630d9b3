//! Records the outcome of a reconcile: one status write if something is new, and when to look again.

use std::time::Duration;

use helm::kube::{Call, FIELD_MANAGER};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::cache::Release;
use super::primary::Primary;
use super::uninstall;
use super::work::Work;
use crate::metrics::ReconcileResult;
use crate::status::{DeployedRelease, Facts, Status};

/// Writes the status and plans the next look.
pub(super) async fn settle(work: &Work<'_>) -> ReconcileResult {
    let Some(primary) = work.shared.cache.primary(work.key) else { return ReconcileResult::Success };
    // A resource that is let go, or that was never ours, has no status to write.
    if !primary.deleting || primary.has_finalizer() {
        write_status(work, &primary).await;
    }
    plan(work, &primary)
}

fn facts(work: &Work<'_>, primary: &Primary) -> Facts {
    let release = work.release();
    let deployed = release.as_ref().and_then(Release::deployed);
    let history = work.shared.cache.history(work.key);
    let conflict = history.failure.as_ref().is_some_and(|f| f.fault.reason == "ReleaseConflict");
    let deployed = deployed.filter(|_| !conflict && !work.uninstalled);
    Facts {
        generation: primary.generation,
        release: deployed.map(|(version, _)| deployed_release(primary, version, release.as_ref())),
        notes: history.notes,
        health: deployed.and_then(|(_, r)| r.marks.as_ref()).map(|m| work.health(m)).unwrap_or_default(),
        fault: history.failure.map(|f| f.fault),
        waiting_for_objects: work.uninstalled,
    }
}

/// What the status says stays, unless this process knows the record.
fn deployed_release(primary: &Primary, version: u32, release: Option<&Release>) -> DeployedRelease {
    let packed = release.and_then(|r| r.packed.as_ref()).filter(|(v, _)| *v == version);
    let known =
        primary.status.deployed_release.clone().filter(|known| known.revision == version && !known.chart.is_empty());
    match (packed, known) {
        (Some((_, packed)), _) => {
            let chart = packed.chart();
            DeployedRelease {
                name: primary.name().to_owned(),
                revision: version,
                chart: format!("{}-{}", chart.name, chart.version),
                app_version: chart.app_version.clone(),
            }
        }
        (None, Some(known)) => known,
        (None, None) => {
            DeployedRelease { name: primary.name().to_owned(), revision: version, ..DeployedRelease::default() }
        }
    }
}

async fn write_status(work: &Work<'_>, primary: &Primary) {
    let Some(status) = primary.status.next(&facts(work, primary), Timestamp::now()) else { return };
    // A schema may drop fields of ours; then the same is not written again and again.
    if work
        .shared
        .cache
        .history(work.key)
        .written
        .is_some_and(|(wrote, answer)| is_alike(&wrote, &status) && answer == primary.status)
    {
        return;
    }
    if primary.has_manifest {
        drop_manifest(work, primary).await;
    }
    match apply(work, primary, &status).await {
        Ok(answer) => {
            let answered = answer.status.clone();
            work.shared.cache.put_primary(answer);
            work.shared.cache.change_history(work.key, |h| (h.written, h.notes) = (Some((status, answered)), None));
        }
        Err(error) if error.is_not_found() => uninstall::refresh(work, primary).await,
        Err(error) => {
            tracing::warn!(resource = %work.key, %error, "cannot write the status");
            work.shared.queue.push_after(work.key.clone(), Duration::from_secs(1));
        }
    }
}

/// Removes the manifest that operator-sdk kept in the status: applying our own fields would leave it there for ever.
async fn drop_manifest(work: &Work<'_>, primary: &Primary) {
    let Ok(path) = work.shared.resource.path(primary.namespace(), primary.name()) else { return };
    let patch = json!({"metadata": {"uid": primary.uid()}, "status": {"deployedRelease": {"manifest": null}}});
    let path = format!("{path}/status?fieldManager={FIELD_MANAGER}");
    if let Err(error) = work.shared.api.send(Call::merge(path, patch.to_string().into_bytes())).await {
        tracing::warn!(resource = %work.key, %error, "cannot remove the manifest from the status");
    }
}

fn is_alike(a: &Status, b: &Status) -> bool {
    let timeless = |status: &Status| {
        let mut status = status.clone();
        status.conditions.iter_mut().for_each(|c| c.last_transition_time = None);
        status
    };
    timeless(a) == timeless(b)
}

async fn apply(work: &Work<'_>, primary: &Primary, status: &Status) -> Result<Primary, helm::kube::Error> {
    let path = work.shared.resource.path(primary.namespace(), primary.name())?;
    let mut metadata = json!({"name": primary.name(), "uid": primary.uid()});
    if !primary.namespace().is_empty() {
        metadata["namespace"] = primary.namespace().into();
    }
    let body = json!({
        "apiVersion": &*primary.api_version, "kind": &*primary.kind, "metadata": metadata,
        "status": status.to_apply(primary.conditions_are_one_field),
    });
    let path = format!("{path}/status?fieldManager={FIELD_MANAGER}&force=true");
    work.shared.api.send(Call::apply(path, body.to_string().into_bytes())).await?.parse()
}

/// When to look again: after the wait that a failure has, else after the period.
fn plan(work: &Work<'_>, primary: &Primary) -> ReconcileResult {
    let history = work.shared.cache.history(work.key);
    let failed = history.failure.is_some();
    let held = history.failure.map(|f| f.retry_at).into_iter().chain(history.drift.hold_until).min();
    let wait = held.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_millis(10)));
    let period = primary.annotations.reconcile_period().ok().flatten().unwrap_or(work.shared.settings.period);
    let period = (period > Duration::ZERO).then_some(period);
    let marks = work.release().as_ref().and_then(Release::deployed).and_then(|(_, r)| r.marks.clone());
    let ask = marks.and_then(|marks| work.shared.cache.ask_at(&work.watched(&marks)));
    let ask = ask.map(|at| at.saturating_duration_since(Instant::now()));
    match wait.into_iter().chain(period).chain(ask).min() {
        Some(after) => work.shared.queue.push_after(work.key.clone(), after),
        None => work.shared.queue.cancel(work.key),
    }
    match (failed, period) {
        (true, _) => ReconcileResult::Error,
        (false, Some(_)) => ReconcileResult::RequeueAfter,
        (false, None) => ReconcileResult::Success,
    }
}
