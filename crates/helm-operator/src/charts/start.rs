//! Runs a controller: waits until its kind is served, starts its watches, and starts the workers once everything is
//! listed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use controller::context::Context;
use controller::reconciler;
use controller::reconciler::Stores;
use controller::report::chain;
use controller::rights::Collection;
use controller::runtime::queue::Queue;
use controller::runtime::readiness::{self, LISTING, Requirement};
use controller::runtime::reflector::{self, EventHandler, First, Stream, WatchScope};
use controller::runtime::served_kinds::ServedKinds;
use controller::runtime::workers::serve;
use futures::future::{BoxFuture, join_all};
use helm::engine::spelled_out;
use helm_release::kube::{Reach, Resource};
use helm_release::storage::{Keyring, Storage};
use kube::core::Selector;
use kube::discovery::Scope;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::capabilities;
use super::chart_controller::{ChartController, Source};
use super::cluster::Cluster;
use super::config::ChartConfig;
use super::handlers::Primaries;
use super::object_watches::ObjectWatches;
use super::previews::Previews;
use super::rehearsals::Rehearsals;
use super::running::Running;
use super::{handlers, served_instead, watches};
use crate::chart_metrics::ChartMetrics;
use crate::dependencies::Dependency;
use crate::hooks::extensions::Extensions;
use crate::preflight::{self, ObjectUse};
use crate::reconcile::accept::Acceptance;
use crate::reconcile::controller_context::{ControllerContext, Settings, WatchRequest};
use crate::reconcile::decide::arrivals::Arrivals;
use crate::reconcile::decide::memory::Memory;
use crate::reconcile::decide::schedule::Started;
use crate::reconcile::decide::turns::Turns;
use crate::reconcile::decide::unseen::Unseen;
use crate::reconcile::restore;
use crate::reconcile::versions::Versions;
use crate::rendering::renderer::EngineRenderer;
use crate::rendering::request::Renderer;
use crate::status::declared_fields::Undeclared;
use crate::view::cache::Cache;
use crate::view::chart_names::SelectedCharts;
use crate::view::coverage::Loss;
use crate::view::dependencies::registry::api_version;
use crate::view::primary::Received;
use crate::watches::Watch;
use outside::group_of;

/// How often to look for unserved kinds of recorded releases.
const SEARCH: Duration = Duration::from_secs(30);

/// Runs the controller until the process ends. The startup future is dropped before the controller serves, because it
/// is larger than the rest, and a process may have hundreds of controllers.
pub(crate) fn run(controller: ChartController, context: Context) -> BoxFuture<'static, Result<(), reconciler::Error>> {
    let starting = Box::pin(start(controller, context));
    Box::pin(async move {
        let serving = starting.await?;
        if let Some(serving) = serving {
            serving.await;
        }
        Ok(())
    })
}

/// Prepares a controller, and returns its work from then on; `None` if the process ends before.
pub(super) async fn start(
    controller: ChartController,
    context: Context,
) -> Result<Option<BoxFuture<'static, ()>>, reconciler::Error> {
    let ChartController { watch, source, extensions, versions, .. } = controller;
    let (cluster, config) = (Cluster::of(&context), ChartConfig::of(&context));
    let requirement = served(&context, &watch);
    // A server that does not answer must not hold up the end of the process.
    let found = tokio::select! {
        biased;
        found = find(&context, &watch, source, &requirement) => found?,
        () = context.shutdown.cancelled() => None,
    };
    let Some(Found { resource, reach, renderer, keys }) = found else { return Ok(None) };
    cluster.informers.announce(renderer.chart_name());
    let acceptance = acceptance(&watch, &extensions, versions, &resource, &context)?;
    let settings = settings(&watch, &context, (&config, reach));
    let (watch_requests, requested) = mpsc::unbounded_channel();
    let own = Own { settings, acceptance, renderer, extensions, resource };
    let shared = Arc::new(shared_context(&context, own, &keys, watch_requests));
    connect(&shared, &context);
    let api_version = watch.api_resource().api_version;
    tracing::info!(kind = watch.kind, api_version, chart = shared.renderer.chart_name(), "Watching resource");
    let primaries = watches::primaries(&context, &shared.resource, &watch.selector);
    let scopes = || primaries.iter().map(|stream| stream.scope.clone());
    cluster.dependencies.require_lists(&context.controller, scopes());
    if shared.rollout.is_limited() && !shared.settings.rehearses {
        shared.unseen.require(scopes());
    }
    // From here on, each list is a requirement itself.
    requirement.meet();
    Ok(Some(serving(shared, context, (primaries, keys), requested)))
}

/// What a controller learns from the server before it can begin.
struct Found {
    resource: Arc<Resource>,
    reach: Reach,
    renderer: Arc<dyn Renderer>,
    keys: Keyring,
}

/// Waits until the controller's kind is served, and reads what else it needs; `None` if the process ends before.
async fn find(
    context: &Context,
    watch: &Watch,
    source: Source,
    requirement: &Requirement,
) -> Result<Option<Found>, reconciler::Error> {
    let (cluster, config) = (Cluster::of(context), ChartConfig::of(context));
    let Some(resource) = served_instead::wait(context, watch, requirement).await else { return Ok(None) };
    check_all_rights(context, watch, &source, &resource).await;
    let reach = match &source {
        Source::Engine(engine, _) => watch.objects.reach(&spelled_out(engine.chart())),
        Source::Own(_) => watch.objects.reach_of_code(),
    };
    let renderer = renderer(source, watch, &cluster, &context.served).await?;
    let keys = cluster.keys(&config).await;
    Ok(Some(Found { resource, reach, renderer, keys }))
}

/// The parts of a controller that it does not share with the process's other controllers.
struct Own {
    settings: Settings,
    acceptance: Acceptance,
    renderer: Arc<dyn Renderer>,
    extensions: Extensions,
    resource: Arc<Resource>,
}

fn shared_context(
    context: &Context,
    own: Own,
    keys: &Keyring,
    watch_requests: mpsc::UnboundedSender<WatchRequest>,
) -> ControllerContext {
    let Own { settings, acceptance, renderer, extensions, resource } = own;
    let cluster = Cluster::of(context);
    let applier = cluster.applier.clone();
    let api = applier.api().clone();
    let storage = Storage::new(api.clone(), keys.clone()).at(settings.home.clone());
    ControllerContext {
        storage: storage.written_by(cluster.releases.writer()),
        cache: cache(&cluster, &settings),
        rollout: settings.slots(),
        // A plan shows what will happen, whenever that is.
        turns: Turns::new(settings.rollout.clone().filter(|_| !settings.rehearses)),
        unseen: Unseen::default(),
        settings,
        acceptance,
        shard: context.shard(resource.group(), &resource.kind),
        metrics: context.metrics.clone(),
        counts: ChartMetrics::of(context),
        events: context.events.clone(),
        process: context.process.clone(),
        renderer,
        sources: cluster.sources.clone(),
        dependencies: cluster.dependencies.clone(),
        started: Started { at: tokio::time::Instant::now(), today: outside::now() },
        stopping: context.shutdown.clone(),
        extensions,
        client: context.client.clone(),
        contact: context.contact.clone(),
        memory: Memory::default(),
        arrivals: Arrivals::default(),
        queue: Queue::new(),
        api,
        applier,
        resource,
        charts: SelectedCharts::default(),
        watch_requests,
        action_room: cluster.action_room.clone(),
        diagnoses: cluster.diagnoses.clone(),
        undeclared: Undeclared::default(),
    }
}

fn cache(cluster: &Cluster, settings: &Settings) -> Cache {
    Cache::over(cluster.releases.clone())
        .judging(settings.expressions.clone())
        .sequenced(settings.sequencing)
        .recording_at(settings.home.clone())
        .within(cluster.room.clone(), cluster.objects_room.clone())
}

/// Adds a controller to those that the process shows and counts, and connects it to what wakes its resources.
fn connect(shared: &Arc<ControllerContext>, context: &Context) {
    Previews::of(context).add(&shared.settings.watch, context, shared);
    Running::of(context).add(shared);
    let reader: Weak<ControllerContext> = Arc::downgrade(shared);
    let census = reader.clone();
    shared.counts.resources(&shared.settings.controller, census);
    shared.cache.report_releases_to(reader);
    handlers::connect_sources(shared);
    handlers::connect_dependencies(shared);
    handlers::follow(shared, &Stores::of(context));
}

/// Returns what a prepared controller does until the process ends.
fn serving(
    shared: Arc<ControllerContext>,
    context: Context,
    (primaries, keys): (Vec<Stream<Received>>, Keyring),
    requested: mpsc::UnboundedReceiver<WatchRequest>,
) -> BoxFuture<'static, ()> {
    let workers = shared.settings.max_concurrent_reconciles.unwrap_or(context.config.max_concurrent_reconciles);
    let permits = context.concurrency.for_controller(workers);
    Box::pin(async move {
        tokio::select! {
            biased;
            // Dropping the watches stops them.
            () = start_watches(&shared, &context, (primaries, keys), requested) => {}
            () = serve(&shared, &context.shutdown, permits) => {}
            () = capabilities::follow(&shared) => {}
            () = look_outside(&context, &shared.resource, &shared.settings.selector) => {}
        }
    })
}

/// Warns about resources in namespaces that are not watched, for as long as there are any. Never returns.
async fn look_outside(context: &Context, resource: &Resource, selector: &Selector) {
    match resource.collection("") {
        Ok(path) if resource.namespaced && !context.config.namespaces.is_all() => {
            let kind = Collection { group: resource.group(), kind: &resource.kind, plural: &resource.plural, path };
            Box::pin(context.rights.look_outside(&kind, selector)).await;
        }
        _ => std::future::pending().await,
    }
}

/// Reports the permissions that the operator lacks for a watch: for its resources and their releases, for the objects
/// that its chart names, and for what its resources depend on.
async fn check_all_rights(context: &Context, watch: &Watch, source: &Source, resource: &Resource) {
    let (config, status) = (ChartConfig::of(context), format!("{}/status", resource.plural));
    let why = format!("the resources and releases of {}", watch.kind);
    let needs = preflight::of_watch(watch, config.own_namespace(&context.client), &resource.plural, &status);
    context.rights.check(&needs, &why).await;
    if let Source::Engine(engine, _) = source {
        let kinds = preflight::named(engine);
        check_rights(context, watch, kinds.iter().map(|one| (&*one.api_version, &*one.kind, one.is_hook))).await;
    }
    check_dependencies(context, watch).await;
}

/// Reports the permissions that the operator lacks for a chart's objects of these kinds, if they are served. Each item
/// is an API version, a kind, and whether its objects are hooks.
async fn check_rights<'k>(context: &Context, watch: &Watch, kinds: impl Iterator<Item = (&'k str, &'k str, bool)>) {
    let cluster = Cluster::of(context);
    let mapper = &cluster.applier.mapper;
    let known: Vec<(Arc<Resource>, bool)> =
        kinds.filter_map(|(version, kind, is_hook)| Some((mapper.known(version, kind)?, is_hook))).collect();
    let used = |is_hook| match &watch.service_account {
        Some(_) => ObjectUse::Read,
        None if is_hook => ObjectUse::Run,
        None => ObjectUse::Manage,
    };
    let needs: Vec<_> = known.iter().map(|(kind, is_hook)| preflight::of_objects(kind, used(*is_hook))).collect();
    context.rights.check(&needs, &format!("the objects of chart {}", watch.chart.display())).await;
}

/// Reports the permissions that the operator lacks for what the watch's resources depend on, if it is served.
async fn check_dependencies(context: &Context, watch: &Watch) {
    let cluster = Cluster::of(context);
    let known = |one: &Dependency| cluster.applier.mapper.known(&api_version(&one.group), &one.kind);
    let known: Vec<Arc<Resource>> = watch.depends_on.iter().filter_map(known).collect();
    let needs: Vec<_> = known.iter().map(|kind| preflight::of_dependencies(kind)).collect();
    if !needs.is_empty() {
        context.rights.check(&needs, &format!("what {} depends on", watch.kind)).await;
    }
}

/// Returns the chart's renderer, in this process or in workers.
///
/// # Errors
/// The cluster does not report its version, or no record can hold the chart.
pub(crate) async fn renderer(
    source: Source,
    watch: &Watch,
    cluster: &Cluster,
    served: &Arc<ServedKinds>,
) -> Result<Arc<dyn Renderer>, reconciler::Error> {
    let (engine, path) = match source {
        Source::Own(renderer) => return Ok(renderer),
        Source::Engine(engine, path) => (engine, path),
    };
    let (overrides, discovered) = (watch.overrides.clone(), cluster.discovered().await?);
    let renderer = EngineRenderer::new(engine, overrides, discovered)?;
    let renderer = renderer.reaching(&watch.lookup).serving(served.clone()).validating(watch.schema.absolute()?);
    let renderer = renderer.acting_as(watch.service_account.as_ref()).sequencing(watch.sequencing);
    let renderer = renderer.rendering_on(watch.render_on);
    Ok(Arc::new(match &cluster.workers {
        Some(workers) => renderer.in_workers(workers.clone(), path),
        None => renderer,
    }))
}

/// Returns the requirement that is met once the kind is served and its watches have started. Their lists are separate
/// requirements.
pub(crate) fn served(context: &Context, watch: &Watch) -> Requirement {
    context.readiness.require_to_reconcile(&readiness::kind(&watch.kind, &watch.api_resource().api_version), LISTING)
}

fn settings(watch: &Watch, context: &Context, (config, reach): (&ChartConfig, Reach)) -> Settings {
    Settings {
        watch: watch.clone(),
        controller: context.controller.clone(),
        period: watch.reconcile_period.unwrap_or(context.config.reconcile_period),
        hook_timeout: watch.hook_timeout.unwrap_or(config.hook_timeout),
        max_history: watch.max_history.unwrap_or(config.max_history),
        suppress_overrides: config.suppress_override_values,
        progress_timeout: watch.progress_timeout.unwrap_or(config.progress_timeout),
        max_parallel_upgrades: watch.max_parallel_upgrades.unwrap_or(config.max_parallel_upgrades),
        full_resync: watch.full_resync_period.unwrap_or(config.full_resync_period),
        reach: Arc::new(reach),
        rehearses: Rehearsals::of(context).is_on,
        expressions: Arc::new(watch.expressions.clone()),
        home: watch.home(config.own_namespace(&context.client)),
    }
}

/// Returns how the controller reads its resources.
///
/// # Errors
/// The resources are cluster-scoped, and the namespace of their releases is not watched; or a ring cannot serve them.
fn acceptance(
    watch: &Watch,
    extensions: &Extensions,
    versions: Option<Arc<Versions>>,
    resource: &Resource,
    context: &Context,
) -> Result<Acceptance, reconciler::Error> {
    if let Some(ring) = &context.config.ring {
        let scope = if resource.namespaced { Scope::Namespaced } else { Scope::Cluster };
        ring.serves(&watch.kind, &scope)?;
    }
    let release_namespace = match resource.namespaced {
        true => None,
        false => Some(release_namespace(watch, context)?),
    };
    let version = versions.map(|versions| (watch.version.clone(), versions));
    Ok(Acceptance {
        selector: watch.selector.clone(),
        release_namespace,
        annotations: watch.annotations.clone(),
        version,
        filters: extensions.filters.clone(),
        pauses: extensions.pauses.clone(),
        keep_metadata: extensions.need_metadata(),
        share: context.config.share(),
        canary: watch.rollout.as_ref().and_then(|rollout| rollout.canary.clone()),
    })
}

/// Returns the namespace for the releases of cluster-scoped resources: the configured one, or the operator's own.
fn release_namespace(watch: &Watch, context: &Context) -> Result<Arc<str>, reconciler::Error> {
    let own = || context.client.default_namespace().to_owned();
    let namespace = watch.release_namespace.clone().unwrap_or_else(own);
    let watched = &context.config.namespaces;
    if watched.is_all() || watched.0.contains(&namespace) {
        return Ok(namespace.into());
    }
    let kind = &watch.kind;
    let why = format!(
        "{kind} is cluster-scoped, and the namespace of its releases, {namespace:?}, is not in WATCH_NAMESPACE"
    );
    Err(format!("{why}: set releaseNamespace in watches.yaml").into())
}

/// Runs every watch: first resources and records, then the kinds in recorded releases, then those requested later. Work
/// starts once everything is listed.
async fn start_watches(
    shared: &Arc<ControllerContext>,
    context: &Context,
    (primaries, keys): (Vec<Stream<Received>>, Keyring),
    mut requests: mpsc::UnboundedReceiver<WatchRequest>,
) {
    let mut tasks = JoinSet::new();
    // Dropped once everything is listed, like what starts the controller.
    Box::pin(first_lists(shared, context, (primaries, keys), &mut tasks)).await;
    let mut objects = ObjectWatches::new(shared, Cluster::of(context).informers.clone());
    // Each resource waits only for the kinds in its own release.
    while let Ok(request) = requests.try_recv() {
        if let WatchRequest::Kind(kind) = &request {
            shared.cache.await_kind(kind);
        }
        objects.cover(request, &mut tasks);
    }
    let rehearsals = Rehearsals::of(context);
    if rehearsals.is_on {
        rehearsals.add(shared.clone());
    } else {
        restore::begin(shared);
        restore::open(shared);
    }
    loop {
        tokio::select! {
            // A task keeps its memory until it is joined.
            Some(_) = tasks.join_next() => {}
            request = requests.recv() => match request {
                Some(request) => objects.cover(request, &mut tasks),
                None => return,
            }
        }
    }
}

/// Lists resources, records, and the kinds of recorded releases.
async fn first_lists(
    shared: &Arc<ControllerContext>,
    context: &Context,
    (primaries, keys): (Vec<Stream<Received>>, Keyring),
    tasks: &mut JoinSet<()>,
) {
    let mut lists = Vec::new();
    for stream in primaries {
        lists.push(start_reflector(Primaries(shared.clone()), stream, tasks));
    }
    let cluster = Cluster::of(context);
    tokio::join!(join_all(lists), cluster.records_listed(keys));
    let known = known_kinds(shared, tasks).await;
    let used = if shared.settings.service_account.is_some() { ObjectUse::Read } else { ObjectUse::Manage };
    let needs: Vec<_> = known.iter().map(|kind| preflight::of_objects(kind, used)).collect();
    context.rights.check(&needs, "the objects of recorded releases").await;
    shared.watch_kinds(known);
}

/// Returns the kinds in recorded releases. Unserved kinds are watched as soon as they are served.
async fn known_kinds(shared: &Arc<ControllerContext>, tasks: &mut JoinSet<()>) -> Vec<Arc<Resource>> {
    let (mut resources, mut missing) = (Vec::new(), Vec::new());
    for (api_version, kind) in shared.cache.kinds_of_releases() {
        match shared.applier.mapper.any_version(&api_version, &kind).await {
            Ok(resource) => resources.push(resource),
            Err(error) => {
                tracing::warn!(
                    api_version = &*api_version,
                    kind = &*kind,
                    error = chain(&error),
                    "Cannot watch the objects of a kind"
                );
                let group = group_of(&api_version);
                if shared.applier.mapper.is_unserved(group, &kind) {
                    shared.cache.kind_lost(&(group.into(), kind.clone()), &WatchScope::ALL, Loss::Unserved);
                }
                missing.push((api_version, kind));
            }
        }
    }
    if !missing.is_empty() {
        tasks.spawn(watch_when_served(shared.clone(), missing));
    }
    resources
}

/// Watches kinds as soon as discovery finds them.
async fn watch_when_served(shared: Arc<ControllerContext>, mut missing: Vec<(Arc<str>, Arc<str>)>) {
    let mapper = &shared.applier.mapper;
    while !missing.is_empty() {
        tokio::time::sleep(SEARCH).await;
        if let Err(error) = mapper.refresh_if_older(SEARCH / 2).await {
            tracing::debug!(error = chain(&error), "Cannot find out which kinds are served");
        }
        missing.retain(|(api_version, kind)| {
            let served = mapper.known(api_version, kind);
            let is_missing = served.is_none();
            shared.watch_kinds(served);
            is_missing
        });
    }
}

/// Runs a reflector in a task. The future resolves when the first list is complete, refused, or can no longer arrive.
fn start_reflector<T: Send + 'static>(
    handler: impl EventHandler<T> + 'static,
    stream: Stream<T>,
    tasks: &mut JoinSet<()>,
) -> BoxFuture<'static, First> {
    let (first, listed) = oneshot::channel();
    tasks.spawn(reflector::run(handler, stream, first));
    Box::pin(async { listed.await.unwrap_or(First::Refused) })
}
