//! Runs a reconciler: fills its caches, then reconciles what they wake.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use kube::api::{Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;

use super::cache::Cache;
use super::known::Known;
use super::reconciler::{Namespaced, Next, Reconciler, Watching};
use super::rights::Right;
use super::scope::{Scope, is_gone, reference};
use super::store::Stores;
use crate::ResourceKey;
use crate::context::Context;
use crate::metrics::{Metrics, ReconcileResult};
use crate::native::{Controller, Error};
use crate::report::{self, Outcome, Reason as _, chain};
use crate::runtime::backoff::Backoff;
use crate::runtime::concurrency::Turn;
use crate::runtime::queue::Queue;
use crate::runtime::readiness::Requirement;
use crate::runtime::sync::lock;
use crate::runtime::workers::{self, Work};

/// A reconciler as a controller.
pub(crate) struct Served<R> {
    name: String,
    reconciler: R,
}

impl<R: Reconciler> Served<R> {
    pub(crate) fn new(reconciler: R) -> Served<R> {
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

    fn prepare(&self, context: &Context) {
        _ = started(context, &self.name);
        context.served.add(&R::Resource::group(&()), &R::Resource::kind(&()));
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(run(*self, context))
    }
}

/// Met once the controller has started its watches, each of which is its own requirement.
fn started(context: &Context, name: &str) -> Requirement {
    context.readiness.require(name, "not started yet")
}

async fn run<R: Reconciler>(served: Served<R>, context: Context) -> Result<(), Error> {
    let settings = Settings::new(&context);
    let mut watching = Watching::new(Stores::of(&context), settings);
    let caches = served.reconciler.watch(&mut watching);
    started(&context, &served.name).meet();
    let kinds = std::mem::take(&mut watching.kinds);
    let (resources, settings, mut listed) = watching.resources();
    tracing::info!(kind = &*R::Resource::kind(&()), api_version = &*R::Resource::api_version(&()), "Watching resource");
    let rights = rights(&served.reconciler);
    undeclared(&kinds, &rights).for_each(|kind| {
        tracing::warn!(kind, "The reconciler watches a kind that its rights do not name: its role will lack it");
    });
    let needs: Vec<_> = rights.iter().map(Right::need).collect();
    context.rights.check(&needs, &format!("the reconciler of {}", R::Resource::kind(&()))).await;
    let lists = async {
        for list in &mut listed {
            list.wait().await;
        }
    };
    tokio::select! {
        biased;
        () = lists => {}
        // Nothing runs yet, and a kind that is not served never lists.
        () = context.shutdown.cancelled() => return Ok(()),
    }
    settings.queue.open();
    let workers = context.turns.for_controller(settings.workers);
    let shutdown = context.shutdown.clone();
    let manager = served.name;
    let (backoff, told) = (Backoff::default(), Mutex::default());
    let reconciler = served.reconciler;
    let serving = Serving { context, reconciler, manager, caches, resources, settings, backoff, told };
    workers::serve(&Arc::new(serving), &shutdown, workers).await;
    Ok(())
}

/// All that a reconciler does.
pub(crate) fn rights<R: Reconciler>(reconciler: &R) -> Vec<Right> {
    reconciler.rights().of_reconciler::<R::Resource>(reconciler.finalizer().is_some())
}

/// The watched kinds that the rights do not cover.
fn undeclared<'k>(kinds: &'k [(String, String)], rights: &'k [Right]) -> impl Iterator<Item = String> + 'k {
    let is_missing =
        |(group, plural): &&(String, String)| !rights.iter().any(|right| right.covers_watch(group, plural));
    kinds.iter().filter(is_missing).map(|(group, plural)| format!("{plural}.{group}").trim_end_matches('.').to_owned())
}

type Filter<R> = Box<dyn Fn(&R) -> bool + Send + Sync>;

/// How a reconciler runs.
pub(super) struct Settings<R> {
    pub(super) queue: Arc<Queue<ResourceKey>>,
    pub(super) known: Arc<Known>,
    pub(super) labels: String,
    pub(super) filters: Vec<Filter<R>>,
    pub(super) ignore_status: bool,
    pub(super) workers: usize,
    metrics: Metrics,
}

impl<R: Namespaced> Settings<R> {
    pub(super) fn new(context: &Context) -> Settings<R> {
        Settings {
            queue: Arc::new(Queue::new()),
            known: Arc::default(),
            labels: String::new(),
            filters: Vec::new(),
            ignore_status: false,
            workers: context.config.max_concurrent_reconciles,
            metrics: context.metrics.clone(),
        }
    }

    fn serves(&self, resource: &R) -> bool {
        self.filters.iter().all(|serves| serves(resource))
    }

    /// Counts a resource's change, and queues the resource if it matters.
    pub(super) fn wakes(&self) -> impl Fn(ResourceKey, Option<&R>, Option<&R>) + Send + Sync + 'static {
        let (queue, known) = (self.queue.clone(), self.known.clone());
        let (metrics, ignore_status) = (self.metrics.clone(), self.ignore_status);
        let gvk = GroupVersionKind::gvk(&R::group(&()), &R::version(&()), &R::kind(&()));
        move |key, before, now| {
            match now {
                Some(resource) => {
                    known.add(&key);
                    let created = resource.creation_timestamp().map_or(0.0, |time| time.0.as_second() as f64);
                    metrics.resource_created(&gvk, &key.namespace, &key.name, created);
                }
                None => metrics.resource_deleted(&gvk, &key.namespace, &key.name),
            }
            let only_status = matches!((before, now), (Some(before), Some(now)) if is_alike(before, now));
            if !(ignore_status && only_status) {
                queue.push(key);
            }
        }
    }
}

/// Whether two states of a resource differ in nothing but the status and managed fields.
fn is_alike<R: Namespaced>(a: &R, b: &R) -> bool {
    let (a, b) = (a.meta(), b.meta());
    (&a.uid, a.generation, &a.deletion_timestamp, &a.labels, &a.annotations, &a.finalizers)
        == (&b.uid, b.generation, &b.deletion_timestamp, &b.labels, &b.annotations, &b.finalizers)
}

/// A reconciler at work.
struct Serving<R: Reconciler> {
    context: Context,
    reconciler: R,
    /// The field manager of its writes.
    manager: String,
    caches: R::Caches,
    resources: Cache<R::Resource>,
    settings: Settings<R::Resource>,
    backoff: Backoff<ResourceKey>,
    /// The last failure of each failing resource, told once.
    told: Mutex<HashMap<ResourceKey, String>>,
}

/// Why a reconcile failed.
enum Failure<E> {
    Reconciler(E),
    Finalizer(kube::Error),
}

impl<R: Reconciler> Serving<R> {
    async fn work(&self, resource: &Arc<R::Resource>) -> Result<Next, Failure<R::Error>> {
        let scope = Scope::new(&self.context, resource, &self.manager);
        let finalizer = self.reconciler.finalizer();
        let has_finalizer = finalizer.is_some_and(|name| resource.finalizers().iter().any(|f| f == name));
        match (resource.meta().deletion_timestamp.is_some(), finalizer) {
            (false, Some(name)) if !has_finalizer => {
                let finalizers = resource.finalizers().iter().cloned().chain([name.to_owned()]).collect();
                self.set_finalizers(resource, finalizers).await
            }
            (false, _) => self.reconciler.reconcile(&scope, &self.caches).await.map_err(Failure::Reconciler),
            (true, Some(name)) if has_finalizer => {
                match self.reconciler.cleanup(&scope, &self.caches).await.map_err(Failure::Reconciler)? {
                    Next::Wait => {
                        let others = resource.finalizers().iter().filter(|f| *f != name).cloned().collect();
                        self.set_finalizers(resource, others).await
                    }
                    later => Ok(later),
                }
            }
            (true, _) => Ok(Next::Wait),
        }
    }

    /// Writes the finalizers; the resource's event continues the work. A resource that has changed meanwhile gets its own event.
    async fn set_finalizers(&self, resource: &R::Resource, finalizers: Vec<String>) -> Result<Next, Failure<R::Error>> {
        let namespace = resource.namespace().unwrap_or_default();
        let resources: Api<R::Resource> = Api::namespaced(self.context.client.clone(), &namespace);
        let (uid, version) = (resource.uid(), resource.resource_version());
        let patch = json!({"metadata": {"uid": uid, "resourceVersion": version, "finalizers": finalizers}});
        let params = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        match resources.patch_metadata(&resource.name_any(), &params, &Patch::Merge(patch)).await {
            Ok(_) => Ok(Next::Wait),
            Err(error) if is_gone(&error) => Ok(Next::Wait),
            Err(error) => Err(Failure::Finalizer(error)),
        }
    }

    fn failed(&self, key: &ResourceKey, resource: &R::Resource, failure: &Failure<R::Error>) -> Duration {
        let (reason, message) = match failure {
            Failure::Reconciler(error) => (error.reason(), chain(error)),
            Failure::Finalizer(error) => ("FinalizerFailed", format!("cannot write the finalizer: {}", chain(error))),
        };
        let wait = self.backoff.failed(key.clone());
        let controller = &self.context.controller;
        self.context.metrics.outcome(controller, reason);
        tracing::error!(%controller, resource = %key, reason, retry_in = ?wait, error = message, "Reconciler error");
        let last = lock(&self.told).insert(key.clone(), message.clone());
        if last.as_ref() != Some(&message) {
            let outcome = Outcome::warning(reason, "Reconcile", report::shorten(&message, MESSAGE));
            self.context.events.publish(reference(resource), outcome);
        }
        wait
    }

    fn succeeded(&self, key: &ResourceKey) {
        self.backoff.forget(key);
        lock(&self.told).remove(key);
    }
}

/// The longest message of an event, in bytes: the server's limit.
const MESSAGE: usize = 1024;

impl<R: Reconciler> Work for Serving<R> {
    fn queue(&self) -> &Queue<ResourceKey> {
        &self.settings.queue
    }

    fn metrics(&self) -> &Metrics {
        &self.context.metrics
    }

    fn controller(&self) -> &Arc<str> {
        &self.context.controller
    }

    fn kind(&self) -> Cow<'_, str> {
        R::Resource::kind(&())
    }

    async fn reconcile(&self, key: &ResourceKey, _turn: &Turn) -> ReconcileResult {
        let Some(resource) = self.resources.get(key) else {
            self.succeeded(key);
            if self.settings.known.remove(key, || self.resources.get(key).is_some()) {
                let kind = R::Resource::kind(&());
                tracing::info!(resource = %key, "{kind} resource not found. Ignoring since object must be deleted");
            }
            return ReconcileResult::Success;
        };
        if !self.settings.serves(&resource) {
            return ReconcileResult::Success;
        }
        match self.work(&resource).await {
            Ok(next) => {
                self.succeeded(key);
                match next {
                    Next::Wait => {
                        self.settings.queue.cancel(key);
                        ReconcileResult::Success
                    }
                    Next::After(time) => {
                        self.settings.queue.push_after(key.clone(), time);
                        ReconcileResult::RequeueAfter
                    }
                }
            }
            Err(failure) => {
                let wait = self.failed(key, &resource, &failure);
                self.settings.queue.push_after(key.clone(), wait);
                ReconcileResult::Error
            }
        }
    }

    async fn panicked(&self, _key: &ResourceKey) -> ReconcileResult {
        ReconcileResult::Error
    }
}
