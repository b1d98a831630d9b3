//! Makes the next revision; after a failed one the last good one is rolled back to, as upstream.

use helm_release::action;

use super::install::{after, before, record, tell_duplicates, tell_overrides};
use super::primary::Primary;
use super::undo;
use super::work::{Next, Work, reference};
use crate::status::{Fault, condition};

/// Upgrades to the candidate.
pub(super) async fn upgrade(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Fault> {
    let (Some(candidate), Some(current)) = (work.candidate.take(), work.current()) else { return Ok(Next::Done) };
    tell_overrides(work, primary);
    tell_duplicates(work, primary, &candidate);
    before(work, primary, &candidate.config).await;
    let decoration = work.decoration(primary);
    let env = work.environment(&decoration, primary, "upgrade");
    let upgraded = match undo::base(&env, current).await {
        Ok(current) => action::upgrade(&env, &candidate, &current).await,
        Err(cause) => Err(cause.into()),
    };
    match upgraded {
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
            let message = undo::after_action(work, primary, &failure).await;
            Err(Fault { condition: condition::RELEASE_FAILED, reason, message })
        }
    }
}
