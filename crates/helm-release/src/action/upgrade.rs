//! Makes the next revision: only what changed is applied, what is gone is pruned. Helm's `pkg/action/upgrade.go`.

use super::deploy::{Kind, deploy};
use super::{Candidate, Current, Environment, Failure, Outcome};
use crate::release::{HookEvent, Status};

/// Upgrades.
pub async fn upgrade(env: &Environment<'_>, candidate: &Candidate, current: &Current) -> Result<Outcome, Failure> {
    let kind = Kind {
        pending: Status::PendingUpgrade,
        before: HookEvent::PreUpgrade,
        after: HookEvent::PostUpgrade,
        complete: "Upgrade complete".into(),
        failed: "Upgrade",
        rollback_revision: 0,
    };
    deploy(env, candidate, Some(current), kind).await
}
