//! Reads a resource again whose entry in the cache is outdated.

use controller::report::chain;
use controller::runtime::key::ResourceKey;
use helm_release::kube::{Call, Error};

use crate::reconcile::controller_context::ControllerContext;
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
    read(context.shared, context.key, primary).await
}

/// Reads the resource into the cache, before a reconcile of it begins.
pub(crate) async fn read(shared: &ControllerContext, key: &ResourceKey, primary: &Primary) -> Result<(), Error> {
    match live(shared, key).await? {
        Some(live) => {
            if live.primary.uid() != primary.uid() {
                shared.primary_deleted(key, primary.uid());
            }
            shared.primary_written(live);
        }
        None => shared.primary_deleted(key, primary.uid()),
    }
    Ok(())
}

/// Reads the resource with this key, whether or not this controller serves it. Returns `None` if there is none.
pub(crate) async fn live(shared: &ControllerContext, key: &ResourceKey) -> Result<Option<Received>, Error> {
    let path = shared.resource.path(&key.namespace, &key.name)?;
    match shared.api.send(Call::get(path)).await.and_then(|answer| answer.parse::<Received>()) {
        Ok(live) => Ok(Some(live)),
        Err(error) if error.is_missing_object() => Ok(None),
        Err(error) => Err(error),
    }
}
