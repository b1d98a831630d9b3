//! The chart controller: keeps the release of each custom resource of one kind as its chart and values want it.
//!
//! `state` decides, `work` loops, `install`, `upgrade`, `uninstall` and `correct_drift` act, `settle` records the outcome once.
//! Counterpart: operator-sdk's `internal/helm/controller` and helm-operator-plugins' `pkg/reconciler`.

mod awaited;
mod cache;
mod compare;
mod correct_drift;
mod deploy;
mod engine;
mod feed;
#[cfg(test)]
mod helm_tests;
mod history;
#[cfg(test)]
mod hook_tests;
mod primary;
mod progress;
mod queue;
mod recorded;
mod release;
mod render;
mod schedule;
mod settle;
mod stamp;
mod state;
#[cfg(test)]
mod tests;
mod undo;
mod uninstall;
mod watch;
mod work;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use helm::chart::Chart;
use helm::engine::Engine;
use helm_release::kube::{Api, Applier, Decoration, Live, ObjectKey, Ownership, Policy, Resource, Slot};
use helm_release::storage::{RecordMeta, Storage};
use kube::core::{GroupVersionKind, Selector};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backoff;
use crate::context::Context;
use crate::events::Events;
use crate::hooks::{PostHook, PreHook};
use crate::metrics::{Metrics, ReconcileResult};
use crate::native::{self, Controller};
use crate::report::Outcome;
use crate::watches::Watch;
use cache::{Cache, Dependent, Whose};
use engine::EngineRenderer;
use feed::{First, Sink, Stream};
use history::History;
use primary::{Primary, ResourceKey};
use queue::Queue;
use stamp::Epoch;

pub use render::{RenderError, Renderer, Request};

/// How long a resource waits for the first list of a kind that its release has.
const FIRST_LISTS: Duration = Duration::from_secs(30);

/// The longest wait between two tries to find a kind that is not served yet.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

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
    /// The chart cannot be loaded, is a library, or lacks dependencies.
    pub fn load(watch: Watch) -> Result<ChartController, native::Error> {
        let chart = Chart::load(&watch.chart)?;
        if let Some(why) = chart.not_installable() {
            return Err(why.into());
        }
        if let [first, ..] = chart.missing_dependencies()[..] {
            return Err(format!("found in Chart.yaml, but missing in charts/ directory: {first}").into());
        }
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
    hook_timeout: Duration,
    watch_dependents: bool,
    max_history: usize,
    suppress_overrides: bool,
    apply: Policy,
}

impl Shared {
    fn wake(&self, key: ResourceKey) {
        self.queue.push(key);
    }

    fn see_primary(&self, primary: Primary, epoch: Epoch) {
        let key = primary.key();
        self.metrics.resource_created(&self.gvk(), &key.namespace, &key.name, primary.created);
        if self.cache.see_primary(primary, epoch) {
            self.wake(key);
        }
    }

    /// Remembers what the status of each resource says of the time before this process.
    fn recall(&self) {
        let (now, today) = (tokio::time::Instant::now(), jiff::Timestamp::now());
        for primary in self.cache.primaries() {
            if let Some(history) = History::recall(&primary, now, today) {
                self.cache.change_history(&primary.key(), |known| *known = history);
            }
        }
    }

    fn gvk(&self) -> GroupVersionKind {
        let (_, version) = self.resource.api_version.rsplit_once('/').unwrap_or(("", &self.resource.api_version));
        GroupVersionKind::gvk(self.resource.group(), version, &self.resource.kind)
    }

    /// Forgets a resource that is gone, unless one of another uid has taken its place.
    fn lose_primary(&self, key: &ResourceKey, uid: &str) {
        if self.cache.remove_primary(key, uid) {
            self.metrics.resource_deleted(&self.gvk(), &key.namespace, &key.name);
            self.cache.forget(key);
            self.queue.cancel(key);
        }
    }

    fn see_record(&self, meta: RecordMeta, epoch: Epoch) {
        let key = ResourceKey::new(&meta.namespace, &meta.name);
        let foreign = meta.marks.is_none();
        if self.cache.see_record(meta, epoch) {
            self.wake_for_record(key, foreign);
        }
    }

    fn lose_record(&self, meta: &RecordMeta) {
        if self.cache.remove_record(meta) {
            self.wake_for_record(ResourceKey::new(&meta.namespace, &meta.name), meta.marks.is_none());
        }
    }

    /// A record of someone else's is a change of the resource's inputs; our own records are the outcome of what may have failed.
    fn wake_for_record(&self, key: ResourceKey, foreign: bool) {
        if foreign {
            self.cache.change_history(&key, |history| history.lift(tokio::time::Instant::now()));
        }
        self.wake(key);
    }

    fn see_dependent(&self, resource: &Resource, live: &Live, epoch: Epoch) {
        let key = watch::key_of(resource, live);
        let owner = match self.whose(&key, live) {
            // Another controller's, of a chart with the same name: whatever of ours had this key is gone.
            Whose { owner: None, .. } => self.cache.displace_dependent(&key),
            whose => self.cache.see_dependent(key.clone(), live, whose, epoch),
        };
        owner.into_iter().filter(|owner| self.cache.concerns(owner, &key)).for_each(|owner| self.wake(owner));
    }

    fn lose_dependent(&self, resource: &Resource, live: &Live) {
        let key = watch::key_of(resource, live);
        let owner = self.cache.remove_dependent(&key, live);
        owner.into_iter().filter(|owner| self.cache.concerns(owner, &key)).for_each(|owner| self.wake(owner));
    }

    /// Whose a live object is. One that lost what named its owner still wakes the owner that it had, but proves nothing.
    fn whose(&self, key: &ObjectKey, live: &Live) -> Whose {
        let same_object = |known: &Dependent| live.metadata.uid.as_deref() == Some(&*known.uid);
        let known = || self.cache.dependent(key).filter(same_object)?.owner;
        let owner = self.owner_of(live).or_else(known);
        let primary = owner.as_ref().and_then(|owner| self.cache.primary(owner));
        let ours = primary.is_some_and(|primary| self.decoration(&primary).ownership(live) == Ownership::Ours);
        Whose { owner, ours }
    }

    /// Counts and publishes an outcome of a resource, in the background.
    fn publish(&self, primary: &Primary, outcome: Outcome) {
        self.metrics.outcome(&self.settings.controller, outcome.reason);
        self.events.publish(primary.reference(), outcome);
    }

    /// What a resource's release adds to its objects.
    fn decoration(&self, primary: &Primary) -> Decoration {
        Decoration {
            release: primary.name().to_owned(),
            namespace: primary.namespace().to_owned(),
            chart: self.renderer.chart_name().to_owned(),
            owner: Some(primary.owner()),
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
            Arc::new(EngineRenderer::new(engine.clone(), controller.watch.overrides.clone(), applier.clone()).await?)
        }
    };
    let (new_kinds, kinds) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        storage: Storage::new(api.clone()),
        settings: settings(&controller, &context),
        metrics: context.metrics.clone(),
        events: context.events.clone(),
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
        result = serve(&shared, &context.shutdown, workers) => result,
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
    for attempt in 1.. {
        match applier.mapper.resource(api_version, kind).await {
            Ok(resource) => return Some(resource),
            Err(error) => tracing::warn!(api_version, kind, %error, "the custom resource is not served yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(backoff::wait(attempt).min(LONGEST_WAIT)) => {}
            () = context.shutdown.cancelled() => return None,
        }
    }
    None
}

fn settings(controller: &ChartController, context: &Context) -> Settings {
    Settings {
        controller: context.controller.clone(),
        period: controller.watch.reconcile_period.unwrap_or(context.config.reconcile_period),
        hook_timeout: controller.watch.hook_timeout.unwrap_or(context.config.hook_timeout),
        watch_dependents: controller.watch.watch_dependent_resources,
        max_history: controller.max_history,
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
    let mut lists = Vec::new();
    for stream in watch::primaries(context, &shared.resource, selector) {
        lists.push(start_feed(watch::Primaries(shared.clone()), stream, &mut tasks));
    }
    for stream in watch::records(context) {
        lists.push(start_feed(watch::Records(shared.clone()), stream, &mut tasks));
    }
    join_all(lists).await;
    shared.watch_kinds(known_kinds(shared).await);
    // Each resource waits for the kinds that its own release has.
    while let Ok(kind) = kinds.try_recv() {
        shared.cache.await_kind(&kind);
        let listed = watch_kind(shared, context, kind, &mut tasks);
        tasks.spawn(listed);
    }
    shared.recall();
    shared.queue.open();
    while let Some(kind) = kinds.recv().await {
        let listed = watch_kind(shared, context, kind, &mut tasks);
        tasks.spawn(listed);
    }
}

async fn known_kinds(shared: &Shared) -> Vec<Arc<Resource>> {
    let mut resources = Vec::new();
    for (api_version, kind) in shared.cache.kinds_of_releases() {
        match shared.applier.mapper.any_version(&api_version, &kind).await {
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
    let streams = watch::dependents(context, &kind, shared.renderer.chart_name());
    let start = |stream| start_feed(watch::Dependents(shared.clone(), kind.clone()), stream, tasks);
    let lists: Vec<_> = streams.into_iter().map(start).collect();
    let shared = shared.clone();
    Box::pin(async move {
        let lists = tokio::time::timeout(FIRST_LISTS, join_all(lists)).await;
        let refused = lists.unwrap_or_default().contains(&First::Refused);
        shared.cache.kind_listed(&kind, refused);
        // What drifted before the first list is known only now.
        shared.cache.resources_with(&kind).into_iter().for_each(|key| shared.wake(key));
    })
}

/// Feeds a sink in a task; the future ends when the first list is in, or the server refused it, or it never will be.
fn start_feed<T: Send + 'static>(
    sink: impl Sink<T> + 'static,
    stream: Stream<T>,
    tasks: &mut JoinSet<()>,
) -> BoxFuture<'static, First> {
    let (first, listed) = oneshot::channel();
    tasks.spawn(feed::feed(sink, stream, first));
    Box::pin(async { listed.await.unwrap_or(First::Refused) })
}

/// Works on what is queued until the process ends, then lets what runs finish.
async fn serve(shared: &Arc<Shared>, shutdown: &CancellationToken, workers: usize) -> Result<(), native::Error> {
    let places = Arc::new(Semaphore::new(workers.max(1)));
    shared.metrics.controller(&shared.settings.controller, workers);
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
            () = shutdown.cancelled() => break,
            next = next => next,
        };
        let place = Place { all: places.clone(), held: Mutex::new(place.ok()) };
        running.spawn(work_on(Running { shared: shared.clone(), key }, place));
    }
    while running.join_next().await.is_some() {}
    Ok(())
}

/// A key that is worked on, however that ends.
struct Running {
    shared: Arc<Shared>,
    key: ResourceKey,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.queue.done(&self.key);
    }
}

async fn work_on(running: Running, place: Place) {
    let Running { shared, key } = &running;
    let timer = shared.metrics.reconcile(&shared.settings.controller);
    let result = match caught(Box::pin(work::reconcile(shared, key, &place))).await {
        Some(result) => result,
        None => panicked(shared, key).await,
    };
    timer.finish(result);
    // Before the key is free again: whoever takes it next needs a place.
    drop(place);
}

/// What a future comes to; nothing if it panicked. Locks are taken as they were left, and no change is left half done.
async fn caught<T>(work: BoxFuture<'_, T>) -> Option<T> {
    AssertUnwindSafe(work).catch_unwind().await.ok()
}

/// A bug must cost one resource some time, and the others nothing.
async fn panicked(shared: &Shared, key: &ResourceKey) -> ReconcileResult {
    shared.metrics.reconcile_panicked(&shared.settings.controller);
    tracing::error!(resource = %key, "A reconcile panicked: this is a bug; the resource is tried again later");
    shared.queue.push_after(key.clone(), backoff::LONGEST);
    caught(Box::pin(work::after_panic(shared, key))).await.unwrap_or(ReconcileResult::Error)
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
