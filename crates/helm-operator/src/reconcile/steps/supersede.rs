//! Marks revisions superseded that stayed deployed because the action that replaced them was interrupted, or could not
//! write their records.

use helm_release::action;
use helm_release::release::Status;

use crate::reconcile::context::{Next, Work};
use crate::reconcile::failure::Failed;
use crate::status::condition;
use crate::status::reason::Reason;

/// Supersedes every deployed revision but the newest. Otherwise helm lists, and an uninstall uses, each of them as the
/// live one.
pub(crate) async fn supersede(work: &Work<'_>) -> Result<Next, Failed> {
    let outdated = work.release().map(|release| release.outdated()).unwrap_or_default();
    for version in outdated {
        let written = mark(work, version).await;
        let resource_version =
            written.map_err(|error| Failed::of_step(&error, condition::IRRECONCILABLE, Reason::ReconcileError))?;
        work.shared.cache.change_release(work.key, |release| {
            if let Some(revision) = release.revisions.get_mut(&version) {
                revision.status = Status::Superseded;
                revision.rewritten(resource_version);
            }
        });
        tracing::info!(resource = %work.key, revision = version, "Marked a replaced revision superseded");
    }
    Ok(Next::Again)
}

async fn mark(work: &Work<'_>, version: u32) -> Result<u64, action::Error> {
    let storage = &work.shared.storage;
    let record = storage.get(&work.key.namespace, &work.key.name, version).await?;
    Ok(storage.supersede(record).await?)
}
