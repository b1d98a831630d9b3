//! Makes the first revision; a failed one is taken away again, as upstream.

use std::sync::Arc;

use helm_release::action::{self, Candidate, Outcome};
use helm_release::kube::Resource;
use helm_release::release::Status;

use super::primary::Primary;
use super::undo;
use super::work::{Next, Work, reference};
use crate::status::{Fault, condition};
use crate::watches::Overrides;

/// Installs the candidate.
pub(super) async fn install(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Fault> {
    let Some(candidate) = work.candidate.take() else { return Ok(Next::Done) };
    tell_overrides(work, primary);
    tell_duplicates(work, primary, &candidate);
    before(work, primary, &candidate.config).await;
    let decoration = work.decoration(primary);
    let env = work.environment(&decoration, primary, "install");
    let current = work.current();
    match action::install(&env, &candidate, current.as_ref()).await {
        Ok(outcome) => {
            let note = format!(
                "installed release {:?} with chart {}-{}",
                primary.name(),
                candidate.chart.name,
                candidate.chart.version
            );
            tracing::info!(resource = %work.key, revision = outcome.version, "Installed release");
            work.shared.events.normal(reference(primary), "Installed", "Install", note);
            after(work, primary, &outcome, &candidate.manifest).await;
            record(work, outcome).await;
            work.succeed();
            Ok(Next::Look)
        }
        Err(failure) => {
            let reason = if failure.cause.is_foreign() { "ReleaseConflict" } else { "InstallError" };
            let message = undo::after_action(work, primary, &failure).await;
            Err(Fault { condition: condition::RELEASE_FAILED, reason, message })
        }
    }
}

/// Takes the outcome of an action into the cache.
pub(super) async fn record(work: &Work<'_>, outcome: Outcome) {
    let shared = work.shared;
    shared.cache.put_applied(&outcome.applied, work.key);
    if let Some(primary) = shared.cache.primary(work.key) {
        undo::tell_refused(work, &primary, &outcome.applied);
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
        for revision in release.revisions.values_mut().filter(|r| r.status == Status::Deployed) {
            revision.status = Status::Superseded;
        }
        for dropped in &outcome.dropped {
            release.revisions.remove(dropped);
        }
        release.put(outcome.version, Status::Deployed, outcome.written.resource_version, outcome.marks);
        release.packed = Some((outcome.version, outcome.written.packed));
    });
    shared.cache.change_history(work.key, |history| {
        history.notes = Some(outcome.notes);
        (history.lost, history.cleared) = (None, None);
        history.resynced = Some(tokio::time::Instant::now());
    });
}

/// A warning for each object that the chart makes more than once.
pub(super) fn tell_duplicates(work: &Work<'_>, primary: &Primary, candidate: &Candidate) {
    for duplicate in &candidate.duplicates {
        tracing::warn!(resource = %work.key, %duplicate, "an object is made more than once");
        work.shared.events.warning(reference(primary), "DuplicateObject", "Render", duplicate.to_string());
    }
}

/// Upstream's event for each override value in use.
pub(super) fn tell_overrides(work: &Work<'_>, primary: &Primary) {
    for (key, value) in work.shared.renderer.overrides().into_iter().flat_map(Overrides::texts) {
        let value = if work.shared.settings.suppress_overrides { "****" } else { value };
        let note = format!("Chart value {key:?} overridden to {value:?} by operator's watches.yaml");
        work.shared.events.warning(reference(primary), "OverrideValuesInUse", "Override", note);
    }
}

/// Runs the author's hooks before an action; as upstream, a failing one stops nothing.
pub(super) async fn before(work: &Work<'_>, primary: &Primary, values: &serde_json::Value) {
    for hook in &work.shared.hooks.before {
        if let Err(error) = hook.run(&primary.owner(), values).await {
            tracing::error!(resource = %work.key, %error, "pre-release hook failed");
        }
    }
}

/// Runs the author's hooks after an action.
pub(super) async fn after(work: &Work<'_>, primary: &Primary, outcome: &Outcome, manifest: &str) {
    for hook in &work.shared.hooks.after {
        if let Err(error) = hook.run(&primary.owner(), outcome.version, manifest).await {
            tracing::error!(resource = %work.key, %error, "post-release hook failed");
        }
    }
}
