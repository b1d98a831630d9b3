//! The chart controller: keeps the release of each custom resource of one kind as its chart and values want it.
//!
//! `state` decides, `work` loops, `install`, `upgrade`, `uninstall` and `correct_drift` act, `settle` records the outcome once.
//! Counterpart: operator-sdk's `internal/helm/controller` and helm-operator-plugins' `pkg/reconciler`.

mod cache;
mod correct_drift;
mod engine;
mod install;
mod primary;
mod queue;
mod render;
mod settle;
mod state;
#[cfg(test)]
mod tests;
mod undo;
mod uninstall;
mod upgrade;
mod watch;
mod work;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use helm::chart::Chart;
use helm::engine::Engine;
use helm::kube::{Api, Applier, Live, Policy, Resource, Slot};
use helm::storage::{RecordMeta, Storage};
use kube::core::{GroupVersionKind, Selector};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch as channel};
use tokio::task::JoinSet;

use crate::context::Context;
use crate::events::Events;
use crate::hooks::{PostHook, PreHook};
use crate::metrics::Metrics;
use crate::native::{self, Controller};
use crate::values;
use crate::watches::Watch;
use cache::Cache;
use engine::EngineRenderer;
use primary::{Primary, ResourceKey};
use queue::Queue;

pub use render::{RenderError, Renderer, Request};

/// How long the first lists of dependents may take before work starts without them.
const FIRST_LISTS: Duration = Duration::from_secs(30);

/// Keeps the releases of one kind of custom resource.
pub struct ChartController {
    name: String,
    watch: Watch,
    source: Source,
    hooks: Hooks,
    max_history: usize,
}

/// What renders.
enum Source {
    Engine(Arc<Engine>),
    Own(Arc<dyn Renderer>),
}

/// What the operator's author runs around actions.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    before: Vec<Arc<dyn PreHook>>,
    after: Vec<Arc<dyn PostHook>>,
}

impl ChartController {
    /// A controller for one entry of watches.yaml, whose chart is loaded here.
    ///
    /// # Errors
    /// The chart cannot be loaded, is a library, or lacks dependencies; or an override value is none.
    pub fn load(watch: Watch) -> Result<ChartController, native::Error> {
        let chart = Chart::load(&watch.chart)?;
        if let Some(why) = chart.not_installable() {
            return Err(why.into());
        }
        if let [first, ..] = chart.missing_dependencies()[..] {
            return Err(format!("found in Chart.yaml, but missing in charts/ directory: {first}").into());
        }
        values::of_spec("null", &watch.override_values, watch.override_values_type)?;
        Ok(ChartController::from(watch, Source::Engine(Arc::new(Engine::new(chart)))))
    }

    /// A controller that renders by means of its own.
    pub fn with_renderer(watch: Watch, renderer: Arc<dyn Renderer>) -> ChartController {
        ChartController::from(watch, Source::Own(renderer))
    }

    fn from(watch: Watch, source: Source) -> ChartController {
        ChartController { name: watch.controller_name(), watch, source, hooks: Hooks::default(), max_history: 10 }
    }

    /// Runs before each install and upgrade.
    #[must_use]
    pub fn pre_hook(mut self, hook: impl PreHook + 'static) -> ChartController {
        self.hooks.before.push(Arc::new(hook));
        self
    }

    /// Runs after each install and upgrade.
    #[must_use]
    pub fn post_hook(mut self, hook: impl PostHook + 'static) -> ChartController {
        self.hooks.after.push(Arc::new(hook));
        self
    }

    /// How many revisions are kept; 0: all. Default 10.
    #[must_use]
    pub fn max_history(mut self, revisions: usize) -> ChartController {
        self.max_history = revisions;
        self
    }
}

impl Controller for ChartController {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), native::Error>> {
        Box::pin(run(*self, context))
    }
}

/// What every reconcile of a controller shares.
pub(crate) struct Shared {
    api: Arc<dyn Api>,
    applier: Applier,
    storage: Storage,
    cache: Cache,
    queue: Queue<ResourceKey>,
    renderer: Arc<dyn Renderer>,
    hooks: Hooks,
    events: Events,
    metrics: Metrics,
    settings: Settings,
    /// The custom resource's own resource.
    resource: Arc<Resource>,
    /// Kinds whose objects are to be watched.
    new_kinds: mpsc::UnboundedSender<Arc<Resource>>,
}

/// What the watch and the flags say.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    controller: Arc<str>,
    period: Duration,
    watch_dependents: bool,
    max_history: usize,
    one_namespace: bool,
    suppress_overrides: bool,
    apply: Policy,
}

impl Shared {
    fn wake(&self, key: ResourceKey) {
        self.queue.push(key);
    }

    fn see_primary(&self, primary: Primary) {
        let key = primary.key();
        self.metrics.resource_created(&self.gvk(), &key.namespace, &key.name, primary.created);
        if self.cache.put_primary(primary) {
            self.wake(key);
        }
    }

    fn gvk(&self) -> GroupVersionKind {
        let (_, version) = self.resource.api_version.rsplit_once('/').unwrap_or(("", &self.resource.api_version));
        GroupVersionKind::gvk(self.resource.group(), version, &self.resource.kind)
    }

    fn lose_primary(&self, key: &ResourceKey) {
        self.metrics.resource_deleted(&self.gvk(), &key.namespace, &key.name);
        self.cache.remove_primary(key);
        self.cache.forget(key);
        self.queue.cancel(key);
    }

    fn see_record(&self, meta: RecordMeta) {
        let key = ResourceKey::new(&meta.namespace, &meta.name);
        if self.cache.put_record(meta) {
            self.wake(key);
        }
    }

    fn lose_record(&self, meta: &RecordMeta) {
        if self.cache.remove_record(meta) {
            self.wake(ResourceKey::new(&meta.namespace, &meta.name));
        }
    }

    fn see_dependent(&self, resource: &Resource, live: &Live) {
        let key = watch::key_of(resource, live);
        let owner = self.owner_of(live).or_else(|| self.cache.dependent(&key).and_then(|known| known.owner));
        // Another controller's, of a chart with the same name.
        if owner.is_none() {
            return;
        }
        if let Some(owner) = self.cache.put_dependent(key, live, owner) {
            self.wake(owner);
        }
    }

    fn lose_dependent(&self, resource: &Resource, live: &Live) {
        if let Some(owner) = self.cache.remove_dependent(&watch::key_of(resource, live), live.resource_version()) {
            self.wake(owner);
        }
    }

    /// The custom resource of ours that an object belongs to, by owner reference or by annotation.
    fn owner_of(&self, live: &Live) -> Option<ResourceKey> {
        if let Some(owner) = &live.controller {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let ours = owner.kind == *self.resource.kind && group == self.resource.group();
            let namespace =
                if self.resource.namespaced { live.metadata.namespace.as_deref().unwrap_or_default() } else { "" };
            return ours.then(|| ResourceKey::new(namespace, &owner.name));
        }
        let wanted = format!("{}.{}", self.resource.kind, self.resource.group());
        let ours = live.primary_type.as_deref() == Some(wanted.trim_end_matches('.'));
        let primary = live.primary.as_deref().filter(|_| ours)?;
        let (namespace, name) = primary.split_once('/').unwrap_or(("", primary));
        Some(ResourceKey::new(namespace, name))
    }

    fn watches_one_namespace(&self) -> bool {
        self.settings.one_namespace
    }

    /// Asks for a watch of each kind; kinds that are watched already are left out.
    fn watch_kinds(&self, kinds: impl IntoIterator<Item = Arc<Resource>>) {
        if self.settings.watch_dependents {
            for kind in kinds {
                if self.cache.start_kind(&kind) {
                    // The receiver is gone only when the process ends.
                    _ = self.new_kinds.send(kind);
                }
            }
        }
    }
}

async fn run(controller: ChartController, context: Context) -> Result<(), native::Error> {
    let api: Arc<dyn Api> = Arc::new(context.client.clone());
    let applier = Applier::new(api.clone());
    let watched = controller.watch.gvk();
    let api_version = controller.watch.api_resource().api_version;
    let Some(resource) = wait_until_served(&applier, &api_version, &watched.kind, &context).await else {
        return Ok(());
    };
    let renderer: Arc<dyn Renderer> = match &controller.source {
        Source::Own(renderer) => renderer.clone(),
        Source::Engine(engine) => {
            Arc::new(EngineRenderer::new(engine.clone(), controller.watch.clone(), applier.clone()).await?)
        }
    };
    let (new_kinds, kinds) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        storage: Storage::new(api.clone()),
        settings: settings(&controller, &context),
        metrics: context.metrics.clone(),
        events: Events::new(context.recorder.clone()),
        renderer,
        hooks: controller.hooks,
        cache: Cache::default(),
        queue: Queue::new(),
        api,
        applier,
        resource,
        new_kinds,
    });
    tracing::info!(kind = watched.kind, api_version, chart = shared.renderer.chart_name(), "Watching resource");
    let watches = start_watches(&shared, &context, &controller.watch.selector, kinds);
    let workers = controller.watch.max_concurrent_reconciles.unwrap_or(context.config.max_concurrent_reconciles);
    let served = tokio::select! {
        // Dropping the watches ends them.
        () = watches => Ok(()),
        result = serve(&shared, &context, workers) => result,
    };
    served
}

/// The custom resource's definition may come after the operator.
async fn wait_until_served(
    applier: &Applier,
    api_version: &str,
    kind: &str,
    context: &Context,
) -> Option<Arc<Resource>> {
    let mut pause = Duration::from_millis(200);
    loop {
        match applier.mapper.resource(api_version, kind).await {
            Ok(resource) => return Some(resource),
            Err(error) => tracing::warn!(api_version, kind, %error, "the custom resource is not served yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(10)),
            () = context.shutdown.cancelled() => return None,
        }
    }
}

fn settings(controller: &ChartController, context: &Context) -> Settings {
    Settings {
        controller: context.controller.clone(),
        period: controller.watch.reconcile_period.unwrap_or(context.config.reconcile_period),
        watch_dependents: controller.watch.watch_dependent_resources,
        max_history: controller.max_history,
        one_namespace: !context.namespaces.is_all(),
        suppress_overrides: context.config.suppress_override_values,
        apply: controller.watch.apply,
    }
}

/// Runs every watch: resources and records first, then the kinds that the recorded releases have, then those that are asked for.
/// Work starts once all that is listed.
async fn start_watches(
    shared: &Arc<Shared>,
    context: &Context,
    selector: &Selector,
    mut kinds: mpsc::UnboundedReceiver<Arc<Resource>>,
) {
    let mut tasks = JoinSet::new();
    let (synced, mut lists) = channel::channel(0);
    let primaries = watch::primaries(context, &shared.resource, selector);
    let records = watch::records(context);
    let expected = primaries.len() + records.len();
    for stream in primaries {
        tasks.spawn(watch::feed_primaries(shared.clone(), stream, synced.clone()));
    }
    for stream in records {
        tasks.spawn(watch::feed_records(shared.clone(), stream, synced.clone()));
    }
    // Neither can fail: `synced` lives as long as this function.
    _ = lists.wait_for(|n| *n >= expected).await;
    shared.watch_kinds(known_kinds(shared).await);
    let mut first = Vec::new();
    while let Ok(kind) = kinds.try_recv() {
        first.push(watch_kind(shared, context, kind, &mut tasks));
    }
    _ = tokio::time::timeout(FIRST_LISTS, futures::future::join_all(first)).await;
    shared.queue.open();
    while let Some(kind) = kinds.recv().await {
        let listed = watch_kind(shared, context, kind, &mut tasks);
        tasks.spawn(listed);
    }
}

async fn known_kinds(shared: &Shared) -> Vec<Arc<Resource>> {
    let mut resources = Vec::new();
    for (api_version, kind) in shared.cache.kinds_of_releases() {
        match shared.applier.mapper.resource(&api_version, &kind).await {
            Ok(resource) => resources.push(resource),
            Err(error) => tracing::warn!(api_version = &*api_version, kind = &*kind, %error, "cannot watch dependents"),
        }
    }
    resources
}

/// Watches one kind; the future ends when its first lists are in.
fn watch_kind(
    shared: &Arc<Shared>,
    context: &Context,
    kind: Arc<Resource>,
    tasks: &mut JoinSet<()>,
) -> BoxFuture<'static, ()> {
    tracing::info!(kind = &*kind.kind, api_version = &*kind.api_version, "Watching dependent resource");
    let (synced, mut lists) = channel::channel(0);
    let streams = watch::dependents(context, &kind, shared.renderer.chart_name());
    let expected = streams.len();
    for stream in streams {
        tasks.spawn(watch::feed_dependents(shared.clone(), kind.clone(), stream, synced.clone()));
    }
    let shared = shared.clone();
    Box::pin(async move {
        if lists.wait_for(|n| *n >= expected).await.is_ok() {
            shared.cache.kind_synced(&kind);
            // What drifted before the first list is known only now.
            shared.cache.primaries().into_iter().for_each(|key| shared.wake(key));
        }
    })
}

/// Works on what is queued until the process ends, then lets what runs finish.
async fn serve(shared: &Arc<Shared>, context: &Context, workers: usize) -> Result<(), native::Error> {
    let places = Arc::new(Semaphore::new(workers.max(1)));
    context.metrics.controller(&shared.settings.controller, workers);
    let mut running = JoinSet::new();
    loop {
        while running.try_join_next().is_some() {}
        let next = async {
            // The key first: a place that is held while there is nothing to do would be missing to a hook that comes back for its own.
            let key = shared.queue.next().await;
            // Closed only by dropping it.
            (places.clone().acquire_owned().await, key)
        };
        let (place, key) = tokio::select! {
            () = context.shutdown.cancelled() => break,
            next = next => next,
        };
        let place = Place { all: places.clone(), held: Mutex::new(place.ok()) };
        running.spawn(work_on(shared.clone(), context.clone(), key, place));
    }
    while running.join_next().await.is_some() {}
    Ok(())
}

async fn work_on(shared: Arc<Shared>, context: Context, key: ResourceKey, place: Place) {
    let timer = context.metrics.reconcile(&shared.settings.controller);
    let result = work::reconcile(&shared, &key, &place).await;
    timer.finish(result);
    drop(place);
    shared.queue.done(&key);
}

/// A place among the workers.
struct Place {
    all: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Place {
    fn put(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = permit;
    }
}

impl Slot for Place {
    fn leave(&self) {
        self.put(None);
    }

    fn enter(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let permit = self.all.clone().acquire_owned().await.ok();
            self.put(permit);
        })
    }
}
