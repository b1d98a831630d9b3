//! Runs the tests of a deployed revision. Helm's `pkg/action/release_testing.go`.

use futures::future::BoxFuture;

use super::{Environment, Error};
use crate::kube::{Decoration, Journal, JournalError};
use crate::release::{DeletePolicy, HookEvent, Release, Status};
use crate::storage::{Marks, Record, Storage, Tests, Written};

/// How often to read a record again that changes between its read and its write.
const MAX_TRIES: usize = 5;

/// The outcome of a revision's tests.
#[derive(Debug)]
pub struct Tested {
    /// The record as written.
    pub written: Written,
    /// The marks as written.
    pub marks: Marks,
    /// Why a test failed; `None` if all succeeded.
    pub failed: Option<Error>,
}

/// Runs the test hooks of the deployed revision `version` and records the outcome: each hook's run, as Helm does, and
/// in the marks whether all succeeded or `if_failed`. The revision's status stays, as in Helm.
///
/// Call it again after an error, a cancellation or a crash: it waits for tests that still run, and repeats none that
/// succeeded. If a test failed, it and the tests after it run again.
///
/// # Errors
/// A request was not answered, the run was interrupted, or the record cannot be read or written: the tests stay due. Or
/// somebody has replaced the revision meanwhile ([`Error::Replaced`]): its record stays as it is, and the tests have ended.
/// The same error says that the record has the outcome already, although no answer said so.
pub async fn test(env: &Environment<'_>, version: u32, marks: &Marks, if_failed: Tests) -> Result<Tested, Error> {
    let mut release = under_test(env, version, marks).await?;
    let due = Marks { tests: Some(Tests::Due), ..marks.clone() };
    let records = DeployedRecord::of(env, &due);
    let ran = run(env, &mut release, &records).await;
    let failed = match ran {
        Err(error) if error.is_interruption() || error.is_unanswered() => {
            return Err(unfinished(env, release, &records, error).await);
        }
        ran => ran.err(),
    };
    let tests = if failed.is_some() { if_failed } else { Tests::Passed };
    let marks = Marks { tests: Some(tests), ..due.clone() };
    let written = DeployedRecord { marks: &marks, ..records }.rewrite(&release).await?;
    Ok(Tested { written, marks, failed })
}

/// Records that the finished tests of the deployed revision `version` are due again, before [`test()`] runs them. Otherwise,
/// if the write of the second outcome got no answer, it could not be told from the first. Returns the record and the marks
/// as written.
///
/// # Errors
/// The record cannot be read or written: repeat the call. [`Error::Replaced`] if somebody has replaced the revision, or if
/// the record and these marks have different outcomes.
pub async fn expect_tests_again(env: &Environment<'_>, version: u32, marks: &Marks) -> Result<(Written, Marks), Error> {
    let release = under_test(env, version, marks).await?;
    let due = Marks { tests: Some(Tests::Due), ..marks.clone() };
    let written = DeployedRecord::of(env, &due).rewrite(&release).await?;
    Ok((written, due))
}

/// Reads the revision whose tests run. They may have another outcome by now than in these marks: the answer to the last
/// write of the record may have been lost.
async fn under_test(env: &Environment<'_>, version: u32, marks: &Marks) -> Result<Release, Error> {
    let Decoration { namespace, release: name, .. } = &env.decoration;
    let Record { release, marks: recorded, .. } = env.storage.get(namespace, name, version).await?;
    let has_ended = |recorded: &Marks| recorded.tests != marks.tests && recorded.tests != Some(Tests::Due);
    if recorded.as_ref().is_some_and(has_ended) {
        return Err(Error::Replaced { version });
    }
    Ok(release.sealed().ok_or(Error::Unproven { version })?.into_inner())
}

async fn run(env: &Environment<'_>, release: &mut Release, records: &DeployedRecord<'_>) -> Result<(), Error> {
    let run = env.hook_run(records);
    env.applier.run_hooks(release, HookEvent::Test, &run).await?;
    if is_cleaned_up(release) {
        // Recorded before the clean-up: otherwise a restart would not know that the deleted hooks succeeded.
        records.rewrite(release).await?;
        env.applier.clean_up_hooks(release, HookEvent::Test, None, &run).await?;
    }
    Ok(())
}

fn is_cleaned_up(release: &Release) -> bool {
    let mut tests = release.hooks.iter().filter(|hook| hook.events.contains(&HookEvent::Test));
    tests.any(|hook| hook.delete_policies.contains(&DeletePolicy::HookSucceeded))
}

/// Records how far unfinished tests got. If somebody has replaced the revision, ends them instead: they must not run in
/// parallel with another revision's hooks. Returns why they have not ended.
async fn unfinished(env: &Environment<'_>, mut release: Release, records: &DeployedRecord<'_>, why: Error) -> Error {
    match records.rewrite(&release).await {
        Ok(_) => why,
        Err(replaced @ Error::Replaced { .. }) => {
            // The record is somebody else's now.
            if let Err(error) = env.applier.abandon_hooks(&mut release, &env.hook_run(&())).await {
                // So nothing shows that its tests run, and nothing tries to end them again.
                env.report_left(&error);
            }
            replaced
        }
        // The error matters more than a record that lacks the last phase, whose hook then runs again.
        Err(error) => {
            tracing::warn!(release = release.name, %error, "cannot record an unfinished test");
            why
        }
    }
}

/// The record of a deployed revision while its tests run or end. A person's helm may replace the revision meanwhile, or
/// another resource may take it over: then its record is no longer written, because that would make it the deployed
/// revision, or the former owner's, again.
pub(super) struct DeployedRecord<'a> {
    storage: &'a Storage,
    decoration: &'a Decoration,
    /// The marks to write.
    marks: &'a Marks,
}

impl<'a> DeployedRecord<'a> {
    pub(super) fn of(env: &'a Environment<'_>, marks: &'a Marks) -> DeployedRecord<'a> {
        DeployedRecord::at(env.storage, &env.decoration, marks)
    }

    pub(super) fn at(storage: &'a Storage, decoration: &'a Decoration, marks: &'a Marks) -> DeployedRecord<'a> {
        DeployedRecord { storage, decoration, marks }
    }

    /// Rewrites the record, if it still is this operator's, of the deployed revision, and unchanged since that was read. If
    /// it only changes in between, reads it again, up to 5 times.
    ///
    /// # Errors
    /// [`Error::Replaced`] if it is not, or the record cannot be read or written.
    pub(super) async fn rewrite(&self, release: &Release) -> Result<Written, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let resource_version = self.deployed_at(release.version).await?;
            match self.storage.update_unchanged(release, self.marks, resource_version).await {
                Err(error) if error.is_changed() && tries < MAX_TRIES => {}
                written => return Ok(written?),
            }
        }
    }

    /// Returns the resource version of the record.
    async fn deployed_at(&self, version: u32) -> Result<u64, Error> {
        let Decoration { namespace, release, .. } = self.decoration;
        let Record { release, marks, resource_version, .. } = self.storage.get(namespace, release, version).await?;
        let is_deployed = |release: &Release| release.info.status == Status::Deployed;
        // Another resource may have taken the revision over.
        let is_owners = marks.is_some_and(|marks| marks.owner == self.marks.owner);
        match is_owners && release.sealed().is_some_and(|release| is_deployed(release.get())) {
            true => Ok(resource_version),
            false => Err(Error::Replaced { version }),
        }
    }
}

impl Journal for DeployedRecord<'_> {
    fn record<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.rewrite(release).await.map(|_| ())?) })
    }

    fn is_gone(&self, error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
        error.downcast_ref().is_some_and(Error::is_replaced)
    }
}
