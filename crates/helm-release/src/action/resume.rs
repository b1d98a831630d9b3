//! An action that a crash cut off goes on as it was recorded: with the same manifest, random values included, and no hook runs twice.

use super::{Candidate, Current, Environment, Error};
use crate::kube::recorded_objects;
use crate::release::{Hook, HookEvent, HookPhase, LastRun, Status};

/// The recorded candidate of an action that did not end, with the phases of its hooks. Nothing if the action at hand is another one, or if
/// no hook could tell: then what was rendered now will do, and no record is read.
pub(super) async fn resume(
    env: &Environment<'_>,
    candidate: &Candidate,
    current: Option<&Current>,
    pending: Status,
) -> Result<Option<Candidate>, Error> {
    let Some(current) = current.filter(|c| c.pending) else { return Ok(None) };
    let same = current.unfinished.as_ref().is_some_and(|u| u.inputs == candidate.inputs);
    if !same || candidate.hooks.is_empty() {
        return Ok(None);
    }
    let release = env.storage.get(&env.decoration.namespace, &env.decoration.release, current.version).await?;
    if release.info.status != pending {
        return Ok(None);
    }
    let objects = recorded_objects(&release.manifest, &env.decoration.namespace)?;
    Ok(Some(Candidate {
        chart: candidate.chart.clone(),
        config: release.config,
        manifest: release.manifest,
        objects,
        hooks: release.hooks,
        notes: release.info.notes,
        crds: candidate.crds.clone(),
        duplicates: candidate.duplicates.clone(),
        inputs: candidate.inputs.clone(),
    }))
}

/// Hooks that did not run yet in this action.
pub(super) fn not_run(hooks: &[Hook]) -> Vec<Hook> {
    hooks.iter().map(|hook| Hook { last_run: LastRun::default(), ..hook.clone() }).collect()
}

/// After the hooks of one event: those that run at the next one, too, have not run for that.
pub(super) fn await_next(hooks: &mut [Hook], next: HookEvent) {
    for hook in hooks.iter_mut().filter(|hook| hook.events.contains(&next)) {
        hook.last_run.phase = HookPhase::NotRun;
    }
}

/// Whether an event has hooks.
pub(super) fn has(hooks: &[Hook], event: HookEvent) -> bool {
    hooks.iter().any(|hook| hook.events.contains(&event))
}
