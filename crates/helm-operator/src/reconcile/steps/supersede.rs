//! Marks revisions superseded that stayed deployed when the action that replaced them was cut off, or their records could not be written then.

use helm_release::action;
use helm_release::release::Status;

use crate::reconcile::context::{Next, Work};
use crate::reconcile::failure::Failed;
use crate::status::condition;
use crate::status::reason::Reason;

/// Supersedes every deployed revision but the newest: helm lists, and an uninstall takes, each deployed one for the one that is live.
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
