//! Makes a new revision from an earlier one. Helm's `pkg/action/rollback.go`.

use super::deploy::{ActionKind, deploy};
use super::{Candidate, Completed, Current, Environment, Error, Failure, read_sealed};
use crate::release::{HookEvent, Release, Status};
use crate::storage::{Marks, Record, Sealed};

/// Rolls back to revision `to` of `current`, by the steps in the [module docs](super#flow) with the rollback hooks.
///
/// The new revision has the chart, values, manifest and hooks that revision `to` recorded: nothing is rendered.
/// `inputs` is the digest in that revision's marks. `current.packed` must be that revision's record, if it is set.
///
/// # Errors
/// Revision `to` cannot be read, or this operator did not record it; else as [`install`](super::install::install).
pub async fn rollback(env: &Environment<'_>, current: &Current, to: u32, inputs: &str) -> Result<Completed, Failure> {
    let target = read_sealed(env, to, current.packed.as_ref()).await?;
    let marks = current.marks.as_deref().filter(|_| current.deployed == Some(to)).unwrap_or(&current.inventory);
    make(env, current, target, (to, inputs, marks)).await
}

/// Rolls back to an older revision than the one that `current` describes: its record, with its inputs, is read.
///
/// # Errors
/// As [`rollback`].
pub async fn rollback_to(env: &Environment<'_>, current: &Current, to: u32) -> Result<Completed, Failure> {
    let read = env.storage.get(&env.decoration.namespace, &env.decoration.release, to).await;
    let Record { release, marks, .. } = read.map_err(Error::from)?;
    let (Some(target), Some(marks)) = (release.sealed(), marks) else {
        return Err(Error::Unproven { version: to }.into());
    };
    make(env, current, target, (to, &marks.inputs, &marks)).await
}

async fn make(
    env: &Environment<'_>,
    current: &Current,
    target: Sealed<Release>,
    (to, inputs, marks): (u32, &str, &Marks),
) -> Result<Completed, Failure> {
    let candidate = Candidate::recorded(target, inputs, marks)?;
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
