//! Reads a resource again whose entry in the cache is outdated.

use controller::report::chain;
use helm_release::kube::{Call, Error};

use crate::reconcile::step_context::StepContext;
use crate::view::primary::{Primary, Received};

/// Reads the resource after the server showed that the cache is stale. If that fails, the watch will catch up.
pub(crate) async fn refresh(context: &StepContext<'_>, primary: &Primary) {
    if let Err(error) = read_again(context, primary).await {
        tracing::debug!(resource = %context.key, error = chain(&error), "Cannot read the resource again");
    }
}

/// Reads the resource into the cache.
pub(crate) async fn read_again(context: &StepContext<'_>, primary: &Primary) -> Result<(), Error> {
    let path = context.shared.resource.path(primary.namespace(), primary.name())?;
    match context.shared.api.send(Call::get(path)).await.and_then(|answer| answer.parse::<Received>()) {
        Ok(live) => {
            if live.primary.uid() != primary.uid() {
                context.shared.primary_deleted(context.key, primary.uid());
            }
            context.shared.primary_written(live);
            Ok(())
        }
        Err(error) if error.is_missing_object() => {
            context.shared.primary_deleted(context.key, primary.uid());
            Ok(())
        }
        Err(error) => Err(error),
    }
}
