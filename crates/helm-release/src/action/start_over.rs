//! Prepares the records of a release that is removed in order to be installed again.

use super::{Environment, Error};
use crate::kube::Decoration;
use crate::release::Status;
use crate::storage::{Marks, Stored, Written};

/// Records that none of a revision's Jobs has finished. Otherwise, an install that follows an unfinished removal would
/// mistake the Jobs that the removal deleted for finished ones. Returns the record as written, with its marks; `None`
/// if the record stays unchanged. It does if it names no finished Job, if this operator did not write it, or if it no
/// longer has this status: an action whose outcome is unknown may have succeeded.
///
/// # Errors
/// The record cannot be read or written. Repeat it then.
pub async fn expect_jobs_again(
    env: &Environment<'_>,
    version: u32,
    status: Status,
) -> Result<Option<(Written, Marks)>, Error> {
    remark(env, version, status, |marks| marks.without_finished()).await
}

/// Reverts what [`expect_jobs_again`] recorded, because the release stays: its Jobs have finished according to these
/// earlier marks. Returns the same as [`expect_jobs_again`].
///
/// # Errors
/// The record cannot be read or written.
pub async fn expect_no_jobs(
    env: &Environment<'_>,
    version: u32,
    status: Status,
    before: &Marks,
) -> Result<Option<(Written, Marks)>, Error> {
    remark(env, version, status, |marks| Some(Marks { objects: before.objects.clone(), ..marks.clone() })).await
}

async fn remark(
    env: &Environment<'_>,
    version: u32,
    status: Status,
    change: impl FnOnce(&Marks) -> Option<Marks>,
) -> Result<Option<(Written, Marks)>, Error> {
    let Decoration { namespace, release, .. } = &env.decoration;
    let record = match env.storage.get(namespace, release, version).await {
        // It is removed all the same.
        Err(error) if error.is_missing() || error.is_damage() => return Ok(None),
        record => record?,
    };
    let (Stored::Sealed(release), Some(marks)) = (record.release, record.marks) else { return Ok(None) };
    if release.get().info.status != status {
        return Ok(None);
    }
    let Some(marks) = change(&marks) else { return Ok(None) };
    let written = env.storage.update(release.get(), &marks).await?;
    Ok(Some((written, marks)))
}
