//! Runs the tests of a deployed revision. Helm's `pkg/action/release_testing.go`.

use super::{Environment, Error, Records, read_sealed};
use crate::release::{DeletePolicy, HookEvent, Release};
use crate::storage::{Marks, Tests, Written};

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
/// succeeded. If a test failed, that one and those after it run again.
///
/// # Errors
/// A request was not answered, the run was interrupted, or the record cannot be read or written: the tests stay due.
pub async fn test(env: &Environment<'_>, version: u32, marks: &Marks, if_failed: Tests) -> Result<Tested, Error> {
    let mut release = read_sealed(env, version, None).await?.into_inner();
    let due = Marks { tests: Some(Tests::Due), ..marks.clone() };
    let ran = run(env, &mut release, &due).await;
    let failed = match ran {
        Err(error) if error.is_interruption() || error.is_unanswered() => {
            // The error matters more than a record that lacks the last phase, whose hook then runs again.
            if let Err(error) = env.storage.update(&release, &due).await {
                tracing::warn!(release = release.name, %error, "cannot record an unfinished test");
            }
            return Err(error);
        }
        ran => ran.err(),
    };
    let tests = if failed.is_some() { if_failed } else { Tests::Passed };
    let marks = Marks { tests: Some(tests), ..due };
    let written = env.storage.update(&release, &marks).await?;
    Ok(Tested { written, marks, failed })
}

async fn run(env: &Environment<'_>, release: &mut Release, due: &Marks) -> Result<(), Error> {
    let records = Records { storage: env.storage, marks: due };
    let run = env.hook_run(&records);
    env.applier.run_hooks(release, HookEvent::Test, &run).await?;
    if is_cleaned_up(release) {
        // Before the clean-up, or a restart would not know that the deleted ones succeeded.
        env.storage.update(release, due).await?;
        env.applier.clean_up_hooks(release, HookEvent::Test, None, &run).await?;
    }
    Ok(())
}

fn is_cleaned_up(release: &Release) -> bool {
    let mut tests = release.hooks.iter().filter(|hook| hook.events.contains(&HookEvent::Test));
    tests.any(|hook| hook.delete_policies.contains(&DeletePolicy::HookSucceeded))
}
