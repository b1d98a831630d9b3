//! Continues an interrupted action from its record: with the same manifest, random values included, and without running
//! a hook twice.

use std::sync::Arc;

use super::give_up::{FOLLOWED, GivenUp, give_up_unless_held};
use super::{Candidate, Current, Environment, Error, Failure, RecordedFailure};
use crate::kube::{HookError, recorded_objects};
use crate::release::{Hook, HookEvent, HookPhase, LastRun, Release, Status};
use crate::storage::{Marks, Sealed};

/// An interrupted action, as its record describes it.
pub(super) struct Resumed {
    /// The interrupted revision's content, with the phases of its hooks.
    pub(super) candidate: Candidate,
    /// Whether its pre hooks succeeded.
    pub(super) hooks_done: bool,
    pub(super) record_uid: Option<Arc<str>>,
}

/// How an action treats the pending revision.
pub(super) enum Interrupted {
    /// The same action, which is continued.
    Same(Box<Resumed>),
    /// An upgrade to the inputs of a rollback, or a rollback whose hook failed. The rollback gives it up, and makes the next
    /// revision.
    Other,
    /// A rollback to the candidate's inputs, or an upgrade whose hook failed. It was given up: the next revision needs a
    /// candidate of its own, because the templates know its number. Holds the failure to return, which includes the record
    /// as written, unless the revision had ended already.
    GivenUp(Box<Failure>),
    /// There is nothing to continue: no revision is pending, it has other inputs, or this operator did not write its
    /// record.
    Nothing,
}

impl Interrupted {
    /// Returns the action to continue.
    pub(super) fn same(self) -> Option<Box<Resumed>> {
        if let Interrupted::Same(resumed) = self { Some(resumed) } else { None }
    }
}

/// Returns an interrupted action from its record alone. What this process remembers may differ from it, because the
/// last write of the record failed; and the candidate may have been rendered with other random values before the
/// record's event arrived.
///
/// # Errors
/// The record cannot be read, or that of an action that is given up cannot be written. [`Error::Ended`] if the action has
/// ended, although no answer said so.
pub(super) async fn resume(
    env: &Environment<'_>,
    candidate: &Candidate,
    current: Option<&Current>,
    pending: Status,
) -> Result<Interrupted, Error> {
    let is_continued = |current: &&Current| current.is_continued_with(&candidate.inputs);
    let Some(current) = current.filter(is_continued) else { return Ok(Interrupted::Nothing) };
    let record = env.storage.get(&env.decoration.namespace, &env.decoration.release, current.version).await?;
    let Some(release) = record.release.sealed().map(Sealed::into_inner) else { return Ok(Interrupted::Nothing) };
    if !release.info.status.is_pending() {
        return Err(Error::Ended { version: current.version });
    }
    let failed = failed_hook(&release).filter(|_| !env.options.disable_hooks);
    if release.info.status != pending || failed.is_some() {
        // What a rollback applies is not rendered.
        if pending == Status::PendingRollback {
            return Ok(Interrupted::Other);
        }
        let why = failed.map_or(FOLLOWED.into(), |hook| format!("Interrupted after its hook {} failed", hook.path));
        return given_up(env, current.version, &why, record.marks).await;
    }
    let mut objects = recorded_objects(&release.manifest, &env.decoration.namespace)?;
    if let Some(marks) = &record.marks {
        marks.give_turns(&mut objects, &env.decoration.namespace);
    }
    let candidate = Candidate {
        chart: candidate.chart.clone(),
        config: release.config,
        manifest: release.manifest,
        objects,
        hooks: release.hooks,
        notes: release.info.notes,
        crds: candidate.crds.clone(),
        duplicates: candidate.duplicates.clone(),
        unread: candidate.unread.clone(),
        inputs: candidate.inputs.clone(),
    };
    let record_uid = release.record_uid;
    let hooks_done = record.marks.is_some_and(|marks| marks.hooks_done);
    Ok(Interrupted::Same(Box::new(Resumed { candidate, record_uid, hooks_done })))
}

/// Gives a revision up. If hooks are disabled, it does so even if a hook may still run: that is the remedy for a hook whose
/// end stays unknown, and no other revision can begin before this one is recorded as failed.
async fn given_up(env: &Environment<'_>, version: u32, why: &str, marks: Option<Marks>) -> Result<Interrupted, Error> {
    let are_disabled = env.options.disable_hooks;
    let leaves = |error: &HookError| env.leaves_hook(error) || (are_disabled && error.leaves_hook_running());
    let (written, cause) = match give_up_unless_held(env, version, why, leaves).await? {
        GivenUp::Failed(written) => (Some(written), Error::Ended { version }),
        GivenUp::Left(written, _) if are_disabled => (Some(written), Error::Ended { version }),
        GivenUp::Left(written, hook) => (Some(written), Error::Left { version, hook }),
        GivenUp::Ended | GivenUp::Unproven => (None, Error::Ended { version }),
    };
    let recorded = written.zip(marks).map(|(written, marks)| RecordedFailure {
        version,
        status: Status::Failed,
        resource_version: written.resource_version,
        marks,
        dropped: Vec::new(),
    });
    Ok(Interrupted::GivenUp(Box::new(Failure { cause, recorded, lost: None })))
}

/// Returns the hook that failed, or that was ended by a process which gave the revision up and died before it recorded that.
/// If the revision were continued, the hook would run twice for it.
fn failed_hook(release: &Release) -> Option<&Hook> {
    release.hooks.iter().find(|hook| hook.last_run.phase == HookPhase::Failed)
}

/// Returns the hooks with their last runs cleared, for a new action.
pub(super) fn not_run(hooks: &[Hook]) -> Vec<Hook> {
    hooks.iter().map(|hook| Hook { last_run: LastRun::default(), ..hook.clone() }).collect()
}

/// Returns a release with its tests yet to run, because they ran for another resource.
pub(super) fn with_tests_to_run(mut release: Release) -> Release {
    let tests = release.hooks.iter_mut().filter(|hook| hook.events.contains(&HookEvent::Test));
    tests.for_each(|hook| hook.last_run = LastRun::default());
    release
}

/// Resets the hooks that also run at the next event.
pub(super) fn await_next(hooks: &mut [Hook], next: HookEvent) {
    for hook in hooks.iter_mut().filter(|hook| hook.events.contains(&next)) {
        hook.last_run.phase = HookPhase::NotRun;
    }
}

/// Returns whether any hook runs when the release is uninstalled.
pub(super) fn has_delete_hooks(hooks: &[Hook]) -> bool {
    has(hooks, HookEvent::PreDelete) || has(hooks, HookEvent::PostDelete)
}

pub(super) fn has(hooks: &[Hook], event: HookEvent) -> bool {
    hooks.iter().any(|hook| hook.events.contains(&event))
}
