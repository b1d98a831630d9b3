//! Makes the next revision; after a failed one the last good one is rolled back to, as upstream.

use std::sync::Arc;

use helm::action::{self, Failure};
use helm::release::Status;

use super::cache::Revision;
use super::install::{after, before, record, tell_overrides};
use super::primary::Primary;
use super::work::{Next, Work, chain, is_transient, reference};
use crate::status::{Fault, condition};

/// Upgrades to the candidate.
pub(super) async fn upgrade(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Fault> {
    let (Some(candidate), Some(current)) = (work.candidate.take(), work.current()) else { return Ok(Next::Done) };
    tell_overrides(work, primary);
    before(work, primary, &candidate.config).await;
    let decoration = work.decoration(primary);
    let env = work.environment(&decoration, primary, "upgrade");
    match action::upgrade(&env, &candidate, &current).await {
        Ok(outcome) => {
            let note = format!("upgraded release {:?} to revision {}", primary.name(), outcome.version);
            tracing::info!(resource = %work.key, revision = outcome.version, "Upgraded release");
            work.shared.events.normal(reference(primary), "Upgraded", "Upgrade", note);
            after(work, primary, &outcome, &candidate.manifest).await;
            record(work, outcome).await;
            work.succeed();
            Ok(Next::Look)
        }
        Err(failure) => {
            let reason = if failure.cause.is_foreign() { "ReleaseConflict" } else { "UpgradeError" };
            let mut message = chain(&failure.cause);
            if !is_transient(&failure.cause)
                && let Err(error) = roll_back(work, primary, &failure).await
            {
                message = format!("{message}; rollback failed: {}", chain(&error.cause));
            }
            Err(Fault { condition: condition::RELEASE_FAILED, reason, message })
        }
    }
}

/// Goes back to the deployed revision, if there is one and a failed one was recorded above it.
async fn roll_back(work: &Work<'_>, primary: &Primary, failure: &Failure) -> Result<(), Failure> {
    let Some((version, left)) = &failure.recorded else { return Ok(()) };
    work.shared.cache.change_release(work.key, |release| {
        let failed = Revision {
            status: Status::Failed,
            resource_version: 0,
            owners: Vec::new(),
            marks: Some(Arc::new(left.clone())),
        };
        release.revisions.insert(*version, failed);
    });
    let Some(current) = work.current() else { return Ok(()) };
    let Some(to) = current.deployed else { return Ok(()) };
    let decoration = work.decoration(primary);
    let env = work.environment(&decoration, primary, "upgrade");
    let inputs = current.inventory.inputs.clone();
    let outcome = action::rollback(&env, &current, to, &inputs).await?;
    tracing::info!(resource = %work.key, to, revision = outcome.version, "Rolled back release");
    record(work, outcome).await;
    Ok(())
}
