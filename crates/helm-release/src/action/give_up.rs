//! Gives up work that a dead process began and nothing continues: an interrupted action, whose hooks are ended and
//! whose revision is marked failed, and the tests of a deployed revision.

use super::test::DeployedRecord;
use super::{Environment, Error, Records};
use crate::kube::Decoration;
use crate::release::{HookEvent, HookPhase, Release, Status};
use crate::storage::{Marks, Stored, Tests, Written};

/// Why a revision is given up that another one follows.
pub const FOLLOWED: &str = "Interrupted, and followed by another revision";

/// How a revision was given up.
#[derive(Debug)]
pub enum GivenUp {
    /// It has failed; the record as written.
    Failed(Box<Written>),
    /// It had ended before, although no answer said so, and stays as it is.
    Ended,
    /// The record is missing or damaged, or this operator did not write it.
    Unproven,
}

/// Ends the hooks of an interrupted revision and marks it failed, for this reason. Its manifest and marks stay: some of
/// its objects may be live, and merges must know what it applied. A record that this operator did not write stays
/// unproven, and its hooks are left alone.
///
/// # Errors
/// The record cannot be read or written. Repeat it then.
pub async fn give_up(env: &Environment<'_>, version: u32, why: &str) -> Result<GivenUp, Error> {
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
            env.applier.abandon_hooks(&mut release, &env.hook_run(&records)).await?;
            release.set_status(Status::Failed, why);
            Ok(GivenUp::Failed(Box::new(env.storage.update(&release, &marks).await?)))
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

/// Returns whether tests of a revision have begun, and their outcome is not recorded.
pub(super) fn is_under_test(release: &Release, marks: &Marks) -> bool {
    let mut tests = release.hooks.iter().filter(|hook| hook.events.contains(&HookEvent::Test));
    let is_due = release.info.status == Status::Deployed && marks.tests == Some(Tests::Due);
    is_due && tests.any(|hook| hook.last_run.phase != HookPhase::NotRun)
}
