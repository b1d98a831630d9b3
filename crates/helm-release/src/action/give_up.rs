//! Gives up work that a dead process began and nothing continues: an interrupted action, whose hooks are ended and
//! whose revision is marked failed, and the tests of a deployed revision.

use std::time::Duration;

use super::test::DeployedRecord;
use super::{Environment, Error, Records};
use crate::kube::{Decoration, HookError};
use crate::release::{Hook, HookEvent, HookPhase, Release, Status};
use crate::storage::{Marks, Stored, Tests, Written};

/// Why a revision is given up that another one follows.
pub const FOLLOWED: &str = "Interrupted, and followed by another revision";

/// How a revision was given up.
#[derive(Debug)]
pub enum GivenUp {
    /// It has failed; the record as written.
    Failed(Box<Written>),
    /// It has failed as well, beside a hook that may still run ([`Options::leave_unended`](super::Options::leave_unended)).
    Left(Box<Written>, LeftHook),
    /// It had ended before, although no answer said so, and stays as it is.
    Ended,
    /// The record is missing or damaged, or this operator did not write it.
    Unproven,
}

/// A hook of a revision that was given up, which may still run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftHook {
    /// Its template, its object, and why it was not ended.
    pub what: String,
    /// Whether a hook of the revision has used up its time. Otherwise, it was interrupted.
    pub has_run_out: bool,
}

/// Ends the hooks of an interrupted revision and marks it failed, for this reason. Its manifest and marks stay: some of
/// its objects may be live, and merges must know what it applied. A record that this operator did not write stays
/// unproven, and its hooks are left alone.
///
/// # Errors
/// The record cannot be read or written. Repeat it then.
pub async fn give_up(env: &Environment<'_>, version: u32, why: &str) -> Result<GivenUp, Error> {
    give_up_unless_held(env, version, why, |error| env.leaves_hook(error)).await
}

/// Gives a revision up like [`give_up`], and goes on beside a hook if `leaves` says so of the error that kept it from being
/// ended.
///
/// # Errors
/// As [`give_up`].
pub(super) async fn give_up_unless_held(
    env: &Environment<'_>,
    version: u32,
    why: &str,
    leaves: impl Fn(&HookError) -> bool,
) -> Result<GivenUp, Error> {
    let Decoration { namespace, release, .. } = &env.decoration;
    let record = match env.storage.get(namespace, release, version).await {
        // A damaged record cannot be rewritten, and no longer counts.
        Err(error) if error.is_missing() || error.is_damage() => return Ok(GivenUp::Unproven),
        record => record?,
    };
    let is_pending = record.release.facts().info.status.is_pending();
    match (record.release, record.marks) {
        (Stored::Sealed(_), Some(_)) if !is_pending => Ok(GivenUp::Ended),
        (Stored::Sealed(release), Some(marks)) => {
            let mut release = release.into_inner();
            let records = Records { storage: env.storage, marks: &marks };
            let left = match env.applier.abandon_hooks(&mut release, &env.hook_run(&records)).await {
                Err(error) if leaves(&error) => Some(error),
                ended => ended.map(|()| None)?,
            };
            release.set_status(Status::Failed, why);
            let written = Box::new(env.storage.update(&release, &marks).await?);
            let has_run_out = has_run_out(&release.hooks, env.options.hook_timeout);
            Ok(match left {
                Some(error) => GivenUp::Left(written, LeftHook { what: env.report_left(&error), has_run_out }),
                None => GivenUp::Failed(written),
            })
        }
        (release, _) => {
            if is_pending {
                env.storage.rewrite(release.facts(), Status::Failed).await?;
            }
            Ok(GivenUp::Unproven)
        }
    }
}

/// Ends the tests of a deployed revision that have begun, before another revision or an uninstall follows: they must
/// not run beside its hooks. They stay due. Returns the record as written, with its marks; `None` if no test has begun,
/// if all that began have ended, or if this operator did not write the record.
///
/// # Errors
/// The record cannot be read or written; repeat the call. [`Error::Replaced`] if somebody has replaced the revision.
pub async fn end_tests(env: &Environment<'_>, version: u32) -> Result<Option<(Written, Marks)>, Error> {
    let Decoration { namespace, release, .. } = &env.decoration;
    let record = match env.storage.get(namespace, release, version).await {
        Err(error) if error.is_missing() || error.is_damage() => return Ok(None),
        record => record?,
    };
    let (Stored::Sealed(release), Some(marks)) = (record.release, record.marks) else { return Ok(None) };
    if !is_under_test(release.get(), &marks) {
        return Ok(None);
    }
    let mut release = release.into_inner();
    let records = DeployedRecord::of(env, &marks);
    let run = env.hook_run(&records);
    if !release.has_unfinished_hooks() {
        env.applier.delete_ended(&release, &run).await?;
        return Ok(None);
    }
    env.applier.abandon_hooks(&mut release, &run).await?;
    let written = records.rewrite(&release).await?;
    Ok(Some((written, marks)))
}

/// Returns whether one of these hooks failed after it had used up its time.
fn has_run_out(hooks: &[Hook], limit: Option<Duration>) -> bool {
    let took = |hook: &Hook| {
        let (from, to) = hook.last_run.started_at.zip(hook.last_run.completed_at)?;
        Duration::try_from(to.duration_since(from)).ok()
    };
    let mut failed = hooks.iter().filter(|hook| hook.last_run.phase == HookPhase::Failed);
    limit.is_some_and(|limit| failed.any(|hook| took(hook).is_some_and(|took| took >= limit)))
}

/// Returns whether tests of a revision have begun, and their outcome is not recorded.
pub(super) fn is_under_test(release: &Release, marks: &Marks) -> bool {
    let mut tests = release.hooks.iter().filter(|hook| hook.events.contains(&HookEvent::Test));
    let is_due = release.info.status == Status::Deployed && marks.tests == Some(Tests::Due);
    is_due && tests.any(|hook| hook.last_run.phase != HookPhase::NotRun)
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::release::LastRun;
    use crate::sample;

    #[test]
    fn only_a_failed_hook_that_took_all_its_time_has_used_it_up() {
        let minute = Some(Duration::from_secs(60));
        for (phase, seconds, limit, expected) in [
            (HookPhase::Failed, 60, minute, true),
            (HookPhase::Failed, 59, minute, false),
            (HookPhase::Failed, 6000, None, false),
            (HookPhase::Failed, -60, minute, false),
            (HookPhase::Succeeded, 60, minute, false),
        ] {
            let started_at = Some(Timestamp::UNIX_EPOCH);
            let completed_at = Some(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds));
            let last_run = LastRun { phase, started_at, completed_at, ..LastRun::default() };
            let hook = Hook { last_run, ..sample::hook("h", &[HookEvent::PostUpgrade]) };
            assert_eq!(has_run_out(&[hook], limit), expected, "{phase:?} {seconds} s of {limit:?}");
        }
    }
}
