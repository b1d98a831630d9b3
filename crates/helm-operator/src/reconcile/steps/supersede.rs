//! Marks revisions superseded that stayed deployed because the action that replaced them was interrupted, or could not
//! write their records.

use helm_release::action::{self, Action};
use helm_release::release::Status;
use helm_release::storage::Known;

use super::give_up;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::NextStep;
use crate::reconcile::step_context::StepContext;
use crate::status::condition;
use crate::status::reason::Reason;
use crate::view::primary::Primary;

/// Supersedes every deployed revision but the newest. Otherwise helm lists, and an uninstall uses, each of them as the
/// live one.
pub(crate) async fn supersede(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    let release = context.release().unwrap_or_default();
    let uninstalling = release.uninstalling();
    for version in release.outdated() {
        let failed = |error| Failed::of_step(&error, condition::IRRECONCILABLE, Reason::ReconcileError);
        if uninstalling.contains(&version) {
            // Its record will no longer say that its hooks may run.
            let env = context.environment(primary, Action::Uninstall);
            give_up::end_uninstall(context, &env, version).await.map_err(failed)?;
        }
        let resource_version = match mark(context, version).await {
            // Someone has deleted the record, and its event is late.
            Err(action::Error::Storage(error)) if error.is_missing() => {
                context.shared.cache.lose_revision(context.key, version);
                continue;
            }
            written => written.map_err(failed)?,
        };
        context.shared.cache.change_release(context.key, |release| {
            if let Some(revision) = release.revisions.get_mut(&version) {
                revision.status = Status::Superseded;
                revision.rewritten(resource_version);
            }
        });
        tracing::info!(resource = %context.key, revision = version, "Marked a replaced revision superseded");
    }
    Ok(NextStep::Again)
}

/// Supersedes them while the next revision, whose action would do that, cannot be rendered.
pub(crate) async fn try_supersede(context: &StepContext<'_>, primary: &Primary) {
    if let Err(failed) = supersede(context, primary).await {
        let error = &failed.fault().message;
        tracing::warn!(resource = %context.key, error, "Cannot mark a replaced revision superseded");
    }
}

async fn mark(context: &StepContext<'_>, version: u32) -> Result<u64, action::Error> {
    let of = (&*context.key.namespace, &*context.key.name);
    let known = context.records().into_iter().find(|known| known.version == version);
    let known = known.unwrap_or(Known { version, resource_version: None });
    let read = context.storage.get(of.0, of.1, version).await;
    Ok(context.storage.supersede_as_read(of, known, read).await?)
}
