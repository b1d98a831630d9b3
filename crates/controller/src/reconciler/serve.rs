//! Runs a reconciler: fills its caches, then reconciles the resources that they wake.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Resource as _;
use kube::discovery::Scope;

use super::contract::Reconciler;
use super::kind::is_namespaced;
use super::rights::Right;
use super::serving::Serving;
use super::settings::Settings;
use super::store::Stores;
use super::watching::{Watched, Watching};
use crate::context::Context;
use crate::reconciler::{Controller, Error};
use crate::runtime::readiness::Requirement;
use crate::runtime::workers;

/// A reconciler as a controller.
pub struct Served<R> {
    pub(super) name: String,
    pub(super) reconciler: R,
}

impl<R: Reconciler> Served<R> {
    /// Creates the controller of this reconciler.
    pub fn new(reconciler: R) -> Served<R> {
        Served { name: reconciler.name(), reconciler }
    }
}

impl<R: Reconciler> Controller for Served<R> {
    fn name(&self) -> &str {
        &self.name
    }

    fn serves(&self) -> Option<String> {
        Some(format!("{}.{}", R::Resource::kind(&()), R::Resource::group(&())))
    }

    fn field_manager(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn former_field_managers(&self) -> &[&str] {
        self.reconciler.former_names()
    }

    fn prepare(&self, context: &Context) {
        _ = started(context, &self.name);
        context.served.add(&R::Resource::group(&()), &R::Resource::kind(&()));
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(run(*self, context))
    }
}

/// Returns the requirement that is met once the controller has started its watches. Each watch has its own requirement.
fn started(context: &Context, name: &str) -> Requirement {
    context.readiness.require(name, "not started yet")
}

async fn run<R: Reconciler>(served: Served<R>, context: Context) -> Result<(), Error> {
    if let Some(ring) = &context.config.ring {
        let scope = if is_namespaced::<R::Resource>() { Scope::Namespaced } else { Scope::Cluster };
        ring.serves(&R::Resource::kind(&()), &scope)?;
    }
    let settings = Settings::new(&context);
    let mut watching = Watching::new(Stores::of(&context), settings);
    let caches = served.reconciler.watch(&mut watching);
    started(&context, &served.name).meet();
    let (kinds, checks) = (std::mem::take(&mut watching.kinds), std::mem::take(&mut watching.checks));
    let (resources, settings, mut listed) = watching.resources();
    tracing::info!(kind = &*R::Resource::kind(&()), api_version = &*R::Resource::api_version(&()), "Watching resource");
    let rights = rights(&served.reconciler);
    undeclared(&kinds, &rights).for_each(|kind| {
        tracing::warn!(kind, "The reconciler watches a kind that its rights do not name: its role will lack it");
    });
    let needs: Vec<_> = rights.iter().map(Right::need).collect();
    let lists = async {
        context.rights.check(&needs, &format!("the reconciler of {}", R::Resource::kind(&()))).await;
        for list in &mut listed {
            list.wait().await;
        }
    };
    tokio::select! {
        biased;
        () = lists => {}
        // No reconcile has started. The server may not answer, and the list of a kind that is not served never
        // completes.
        () = context.shutdown.cancelled() => return Ok(()),
    }
    settings.queue.open();
    let workers = context.concurrency.for_controller(settings.workers);
    let shutdown = context.shutdown.clone();
    let serving = Arc::new(Serving::new(context, served, caches, resources, settings).reading(listed, checks));
    tokio::select! {
        () = workers::serve(&serving, &shutdown, workers) => Ok(()),
        never = serving.follow_lists() => match never {},
    }
}

/// Returns every permission that the reconciler needs.
pub fn rights<R: Reconciler>(reconciler: &R) -> Vec<Right> {
    reconciler.rights().of_reconciler::<R::Resource>()
}

/// Returns the watched kinds that the permissions do not cover.
fn undeclared<'k>(kinds: &'k [Watched], rights: &'k [Right]) -> impl Iterator<Item = String> + 'k {
    let is_missing = |kind: &&Watched| !rights.iter().any(|right| right.covers_watch(&kind.group, &kind.plural));
    let name = |kind: &Watched| format!("{}.{}", kind.plural, kind.group).trim_end_matches('.').to_owned();
    kinds.iter().filter(is_missing).map(name)
}
