//! The steps shared by all actions that make a revision: check ownership, write ahead, pre hooks, apply, prune, post
//! hooks, complete.
//!
//! `objects` decides what to write to the cluster; `records` builds, writes and completes the record; `dropped` decides
//! which objects only leave the release; `deletions` notes which unfinished objects are deleted; `forms` finds Jobs
//! that ran although no record says so, and `appeared` objects that somebody has made meanwhile.

mod appeared;
mod deletions;
mod dropped;
mod forms;
mod objects;
mod records;

pub(super) use objects::Observations;

use records::pending_release;

use super::environment::leave_unended;
use super::handover::Handover;
use super::keys::keyed;
use super::last::RecordedBases;
use super::remains::renewed;
use super::resume::{Interrupted, await_next, has, resume};
use super::{Candidate, Completed, Current, Environment, Error, Failure, Records, failure};
use crate::kube::{Applied, Decoration, HookError, ObjectKey};
use crate::release::{HookEvent, Release, Status};
use crate::storage::{Marks, check_fits};

/// How the actions differ.
#[derive(Clone)]
pub(super) struct ActionKind {
    pub(super) pending: Status,
    pub(super) before: HookEvent,
    pub(super) after: HookEvent,
    pub(super) complete: String,
    pub(super) failed: &'static str,
    pub(super) rollback_revision: u32,
}

/// What an action changed in the cluster.
pub(super) struct Changes {
    pub(super) applied: Vec<Applied>,
    pub(super) pruned: Vec<ObjectKey>,
}

/// One run of an action: the revision that it makes, and its starting point.
pub(super) struct Attempt<'a> {
    pub(super) env: &'a Environment<'a>,
    pub(super) candidate: &'a Candidate,
    /// The keys of the candidate's objects, in the same order.
    pub(super) keys: Vec<ObjectKey>,
    pub(super) current: Option<&'a Current>,
    pub(super) kind: ActionKind,
    /// The fields that other managers own.
    pub(super) handover: Handover<'a>,
    /// The revisions that merges start from.
    pub(super) bases: RecordedBases<'a>,
}

/// Makes a revision from a candidate. A failure after the record was written is recorded.
pub(super) async fn deploy(
    env: &Environment<'_>,
    candidate: &Candidate,
    current: Option<&Current>,
    kind: ActionKind,
) -> Result<Completed, Failure> {
    check_size(env, candidate, current, &kind)?;
    let renewed = renewed(env, current).await.map_err(|error| failure::unread(error, current))?;
    let current = renewed.as_ref().or(current);
    let interrupted = match resume(env, candidate, current, kind.pending).await {
        // A damaged record is replaced.
        Err(Error::Storage(error)) if error.is_damage() => Interrupted::Nothing,
        Ok(Interrupted::GivenUp(failure)) => return Err(*failure),
        interrupted => interrupted.map_err(|error| failure::unread(error, current))?,
    };
    let given_up = current.filter(|_| matches!(interrupted, Interrupted::Other)).map(Current::giving_up);
    let (current, resumed) = (given_up.as_ref().or(current), interrupted.same());
    let candidate = resumed.as_ref().map_or(candidate, |resumed| &resumed.candidate);
    // As this revision's marks will say: the last revision's marks may differ.
    let decoration = Decoration { tie: candidate.tie(), ..env.decoration.clone() };
    let env = &Environment { decoration, options: env.options.clone(), ..*env };
    let (unique, keys) = keyed(env, candidate).await?;
    let candidate = &*unique;
    let handover = Handover::new(env, &candidate.objects);
    let bases = RecordedBases::before(env, current);
    let attempt = Attempt { env, candidate, keys, current, kind, handover, bases };
    attempt.check_reach().await?;
    let observations = attempt.check_ownership().await?;
    let adopting = attempt.as_adopting(&observations);
    let attempt = Attempt { current: adopting.as_ref().or(current), ..attempt };
    let seen = attempt.as_seen(&observations).await?;
    let attempt = Attempt { current: seen.as_ref().or(attempt.current), ..attempt };
    failure::check_refusal(&attempt, &observations).await?;
    let mut release = pending_release(env, candidate, current, &attempt.kind);
    let mut ahead = attempt.inventory(&release, &observations);
    if let Some(resumed) = &resumed {
        release.hooks.clone_from(&candidate.hooks);
        ahead.hooks_done = resumed.hooks_done;
        release.record_uid.clone_from(&resumed.record_uid);
    }
    attempt.write_ahead(&mut release, &ahead).await?;
    let ran = async {
        attempt.run_before(&mut release, &mut ahead).await?;
        let changes = attempt.apply(&observations, &release, &mut ahead).await?;
        attempt.run_after(&mut release, &ahead).await?;
        Ok::<Changes, Error>(changes)
    };
    match ran.await {
        Ok(changes) => {
            let marks = attempt.marks(&changes.applied, &release, &observations);
            attempt.complete(release, (marks, &ahead), changes).await
        }
        Err(cause) => Err(failure::record(&attempt, release, ahead, cause).await),
    }
}

/// Checks that the revision can be recorded, before anything is written.
pub(super) fn check_size(
    env: &Environment<'_>,
    candidate: &Candidate,
    current: Option<&Current>,
    kind: &ActionKind,
) -> Result<(), Error> {
    Ok(check_fits(&pending_release(env, candidate, current, kind))?)
}

impl Attempt<'_> {
    /// Runs the pre hooks, unless they succeeded before an interruption. If hooks are disabled, ends the hooks that
    /// began before that. Fails if the action has been interrupted by the end: while the last hook ended, another writer may
    /// have replaced the revision, and its objects must not be overwritten.
    async fn run_before(&self, release: &mut Release, ahead: &mut Marks) -> Result<(), Error> {
        let (env, kind) = (self.env, &self.kind);
        if env.options.disable_hooks {
            let records = Records { storage: env.storage, marks: ahead };
            let ended = env.applier.abandon_hooks(release, &env.hook_run(&records)).await;
            return leave_unended(env, ended).map(|_| ());
        }
        if !has(&release.hooks, kind.before) {
            return Ok(());
        }
        let journalled = ahead.clone();
        let records = Records { storage: env.storage, marks: &journalled };
        let run = env.hook_run(&records);
        if !ahead.hooks_done {
            env.applier.run_hooks(release, kind.before, &run).await?;
            await_next(&mut release.hooks, kind.after);
            ahead.hooks_done = true;
            // Recorded before the clean-up: otherwise a restart would not know that the deleted hooks succeeded.
            env.storage.update(release, ahead).await?;
        }
        env.applier.clean_up_hooks(release, kind.before, Some(kind.after), &run).await?;
        // Checked last, because the clean-up takes time. The record already says which hooks succeeded.
        let interruption = env.slot.interruption();
        interruption.map_or(Ok(()), |why| Err(HookError::Overtaken { why }.into()))
    }

    async fn run_after(&self, release: &mut Release, ahead: &Marks) -> Result<(), Error> {
        let (env, kind) = (self.env, &self.kind);
        if env.options.disable_hooks || !has(&release.hooks, kind.after) {
            return Ok(());
        }
        let records = Records { storage: env.storage, marks: ahead };
        let run = env.hook_run(&records);
        env.applier.run_hooks(release, kind.after, &run).await?;
        env.storage.update(release, ahead).await?;
        Ok(env.applier.clean_up_hooks(release, kind.after, None, &run).await?)
    }
}
