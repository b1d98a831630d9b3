//! One reconcile of one resource, for tests of a reconciler.

use kube::Resource as _;

use super::contract::{Next, Reconciler};
use super::scope::Scope;
use super::serving::{due_finalizer, undecodable_of};
use super::settings::Settings;
use super::store::Stores;
use super::watching::{Watched, Watching};
use crate::ResourceKey;
use crate::context::Context;

/// Lists what the reconciler watches, then reconciles the resource once, or cleans up after it if it is being deleted.
/// Does nothing if the resource does not exist, or if it or an object that it owns does not decode. Calls `serve` with
/// each watched kind before its first list.
pub async fn once<R: Reconciler>(
    reconciler: &R,
    context: &Context,
    key: &ResourceKey,
    serve: impl Fn(&Watched),
) -> Result<Next, R::Error> {
    let mut watching = Watching::new(Stores::of(context), Settings::new(context));
    let caches = reconciler.watch(&mut watching);
    watching.kinds.iter().for_each(serve);
    let checks = std::mem::take(&mut watching.checks);
    let (resources, _settings, mut listed) = watching.resources();
    for list in &mut listed {
        list.wait().await;
    }
    let Some(resource) = resources.get(key) else { return Ok(Next::Wait) };
    if let Some(what) = undecodable_of(&checks, &*resource) {
        tracing::error!(resource = %key, "The resource owns an object that does not decode: {what}");
        return Ok(Next::Wait);
    }
    let name = reconciler.name();
    let scope = Scope::new(context, &resource, &name).of(&resources).formerly(reconciler.former_names());
    match resource.meta().deletion_timestamp {
        None => reconciler.reconcile(&scope, &caches).await,
        Some(_) => match due_finalizer(reconciler, &resource) {
            Some(finalizer) => reconciler.cleanup(finalizer, &scope, &caches).await,
            None => Ok(Next::Wait),
        },
    }
}
