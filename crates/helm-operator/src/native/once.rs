//! One reconcile of one resource, for tests of a reconciler.

use kube::Resource as _;

use super::reconciler::{Next, Reconciler, Watching};
use super::scope::Scope;
use super::serve::Settings;
use super::store::Stores;
use crate::ResourceKey;
use crate::context::Context;

/// Lists what the reconciler watches, then reconciles the resource, or cleans up after it if it is being deleted. A resource that does not exist needs
/// nothing.
pub(crate) async fn once<R: Reconciler>(
    reconciler: &R,
    context: &Context,
    key: &ResourceKey,
) -> Result<Next, R::Error> {
    let mut watching = Watching::new(Stores::of(context), Settings::new(context));
    let caches = reconciler.watch(&mut watching);
    let (resources, _settings, mut listed) = watching.resources();
    for list in &mut listed {
        list.wait().await;
    }
    let Some(resource) = resources.get(key) else { return Ok(Next::Wait) };
    let name = reconciler.name();
    let scope = Scope::new(context, &resource, &name);
    match resource.meta().deletion_timestamp {
        None => reconciler.reconcile(&scope, &caches).await,
        Some(_) => reconciler.cleanup(&scope, &caches).await,
    }
}
