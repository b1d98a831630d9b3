//! Makes a new revision from an earlier one. Helm's `pkg/action/rollback.go`.

use super::deploy::{ActionKind, deploy};
use super::{Candidate, Completed, Current, Environment, Failure, read_sealed};
use crate::release::{HookEvent, Status};

/// Rolls back to revision `to` of `current`, by the steps in the [module docs](super#flow) with the rollback hooks.
///
/// The new revision has the chart, values, manifest and hooks that revision `to` recorded: nothing is rendered.
/// `inputs` is the digest in that revision's marks.
///
/// # Errors
/// Revision `to` cannot be read, or this operator did not record it; else as [`install`](super::install::install).
pub async fn rollback(env: &Environment<'_>, current: &Current, to: u32, inputs: &str) -> Result<Completed, Failure> {
    let target = read_sealed(env, to, current.packed.as_ref()).await?;
    let candidate = Candidate::recorded(target, inputs)?;
    let kind = ActionKind {
        pending: Status::PendingRollback,
        before: HookEvent::PreRollback,
        after: HookEvent::PostRollback,
        complete: format!("Rollback to {to}"),
        failed: "Rollback",
        rollback_revision: to,
    };
    deploy(env, &candidate, Some(current), kind).await
}
