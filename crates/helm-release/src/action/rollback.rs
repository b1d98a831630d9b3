//! Makes an earlier revision current again, as a new one. Helm's `pkg/action/rollback.go`.

use super::deploy::{Kind, deploy};
use super::{Candidate, Current, Environment, Failure, Outcome, read_release};
use crate::release::{HookEvent, Status};

/// Rolls back to the deployed revision of `current`, whose `inputs` are those of the marks that it had.
pub async fn rollback(env: &Environment<'_>, current: &Current, to: u32, inputs: &str) -> Result<Outcome, Failure> {
    let target = read_release(env, to, current.packed.as_ref()).await?;
    let candidate = Candidate::recorded(target, inputs)?;
    let kind = Kind {
        pending: Status::PendingRollback,
        before: HookEvent::PreRollback,
        after: HookEvent::PostRollback,
        complete: format!("Rollback to {to}"),
        failed: "Rollback",
        rollback_revision: to,
    };
    deploy(env, &candidate, Some(current), kind).await
}
