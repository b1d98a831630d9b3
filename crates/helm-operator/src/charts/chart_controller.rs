//! Defines a chart controller, with what the operator's author adds to its chart.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use controller::context::Context;
use controller::reconciler::{self, Controller, Kind, Selector, Stores};
use futures::future::BoxFuture;
use helm::chart::Chart;
use helm::engine::{Engine, Problem};
use kube::core::DynamicObject;

use super::cluster::Cluster;
use super::config::ChartConfig;
use super::{findings, pulled, start};
use crate::hooks::extensions::{Extensions, Wake, Wakes};
use crate::hooks::{PostHook, PostRenderer, PreHook, ValueMapper};
use crate::reconcile::versions::Versions;
use crate::rendering::request::Renderer;
use crate::rendering::unavailable::Unavailable;
use crate::view::dependencies::lists::MayHold;
use crate::watches::Watch;

/// Keeps a Helm release for each custom resource of one kind.
///
/// # Flow
/// The controller waits until its kind is served, then lists its resources, their release records and the objects of
/// those releases. From then on, watches keep its cache current. Each reconcile of a resource observes the cache, takes
/// one step, and repeats until nothing is left to do:
///
/// 1. add the finalizer, before the first object exists;
/// 2. render, if the resource's `spec`, the chart or the override values changed;
/// 3. install or upgrade: record the revision as pending, apply its objects, run its hooks, delete objects that it no
///    longer contains, and record it as deployed; or repair objects that drifted;
/// 4. on deletion, uninstall from the record and remove the finalizer.
///
/// The outcome is written to the status with one request, and only if it changed.
///
/// # Guarantees
/// - A resource is reconciled by one worker at a time, and the outcome of a step is visible to the next one.
/// - Only objects whose metadata proves that they belong to the release are changed or deleted. An object or a release
///   with another owner is a conflict, reported before the first write.
/// - While nothing changes, no request is made and nothing is rendered.
///
/// # Retries
/// After a failed step, the resource waits. The wait starts at half a second and doubles up to five minutes
/// ([`controller::backoff`]). A change of the resource, its chart or its override values ends the wait; other events do
/// not. A failed upgrade is rolled back and a failed first install is removed, unless the cause is an outage, after
/// which the same revision continues. A panic delays only its own resource.
///
/// # Cancellation
/// [`Context::shutdown`] lets running reconciles finish, except those that wait for hooks, groups or deletions: they end
/// at once. Dropping the future stops it at any `.await`: the record then shows what was started, and the next process
/// continues it as it was rendered, without running a hook twice.
pub struct ChartController {
    name: String,
    pub(crate) watch: Watch,
    pub(crate) source: Source,
    pub(crate) extensions: Extensions,
    pub(crate) versions: Option<Arc<Versions>>,
}

/// The renderer of a chart.
pub(crate) enum Source {
    /// A chart, and the absolute path that it was loaded from.
    Engine(Arc<Engine>, PathBuf),
    Own(Arc<dyn Renderer>),
}

impl ChartController {
    /// Creates a controller for one entry of watches.yaml, and loads its chart. A chart that is fetched is loaded while
    /// the controller runs.
    ///
    /// # Errors
    /// The chart cannot be loaded, is a library, or lacks dependencies.
    pub fn load(watch: Watch) -> Result<ChartController, reconciler::Error> {
        if let Some(pull) = &watch.pull {
            let waiting = Unavailable::new(pull.source.location.name(), watch.overrides.clone());
            let waiting = Source::Own(Arc::new(waiting));
            return Ok(ChartController::from(watch, waiting));
        }
        let path = std::path::absolute(&watch.chart)?;
        let engine = open(&watch, &path)?;
        Ok(ChartController::from(watch, Source::Engine(engine, path)))
    }

    /// Creates a controller with its own renderer instead of the chart in `watch`.
    pub fn with_renderer(watch: Watch, renderer: Arc<dyn Renderer>) -> ChartController {
        ChartController::from(Watch { pull: None, ..watch }, Source::Own(renderer))
    }

    /// Returns the same controller with another renderer of its chart.
    pub(crate) fn rendering_by(&self, source: Source) -> ChartController {
        ChartController {
            name: self.name.clone(),
            watch: self.watch.clone(),
            source,
            extensions: self.extensions.clone(),
            versions: self.versions.clone(),
        }
    }

    fn from(watch: Watch, source: Source) -> ChartController {
        ChartController {
            name: watch.controller_name(),
            watch,
            source,
            extensions: Extensions::default(),
            versions: None,
        }
    }

    /// Sets the watches of the same kind in other versions, exactly one of which serves each resource. Default: none.
    pub(crate) fn among(mut self, versions: Option<Arc<Versions>>) -> ChartController {
        self.versions = versions;
        self
    }

    /// Changes the settings of the watch, such as `|watch| watch.max_history = Some(3)`. A chart or kind set here has
    /// no effect, because the chart is already loaded.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Watch)) -> ChartController {
        change(&mut self.watch);
        self
    }

    /// Adds a mapper of the values that the chart is rendered with. Mappers run in the order in which they were added,
    /// each on the values of the one before; the first gets the resource's `spec`.
    #[must_use]
    pub fn map_values(mut self, mapper: impl ValueMapper + 'static) -> ChartController {
        self.extensions.mappers.push(Arc::new(mapper));
        self
    }

    /// Adds a post-renderer, which changes what the chart rendered. `version` identifies what the renderer does, such
    /// as `v1`: a new version renders every release again, as a new chart does. Post-renderers run in the order in
    /// which they were added.
    #[must_use]
    pub fn post_render(mut self, version: &str, renderer: impl PostRenderer + 'static) -> ChartController {
        self.extensions.post_renderers.push((version.to_owned(), Arc::new(renderer)));
        self
    }

    /// Adds a hook that runs before each install and upgrade. A failed hook is logged and ignored.
    #[must_use]
    pub fn before(mut self, hook: impl PreHook + 'static) -> ChartController {
        self.extensions.before.push(Arc::new(hook));
        self
    }

    /// Adds a hook that runs after each successful install and upgrade. A failed hook is logged and ignored.
    #[must_use]
    pub fn after(mut self, hook: impl PostHook + 'static) -> ChartController {
        self.extensions.after.push(Arc::new(hook));
        self
    }

    /// Serves only the resources that `serves` accepts. A resource that it rejects after a change keeps its release,
    /// and is still uninstalled when it is deleted, unless another operator has recorded the release since: that one removes
    /// the finalizer, which both have. If `serves` panics, the resource is paused; a deleted one counts as rejected.
    ///
    /// A `spec` that exceeds a limit of the operator is null here, like a missing one. If `serves` accepted the resource
    /// before, in this process, it is not asked: the condition `Irreconcilable` reports the `spec` instead.
    ///
    /// Default: all that the watch's `selector` selects.
    #[must_use]
    pub fn filter(mut self, serves: impl Fn(&DynamicObject) -> bool + Send + Sync + 'static) -> ChartController {
        self.extensions.filters.push(Arc::new(serves));
        self
    }

    /// Leaves a resource alone, deleted or not, while `pauses` returns true or panics, as the annotation `pause` does. A
    /// `spec` that exceeds a limit of the operator is null here, like a missing one; the condition `Irreconcilable`
    /// reports it only while the resource is not paused.
    #[must_use]
    pub fn pause_when(mut self, pauses: impl Fn(&DynamicObject) -> bool + Send + Sync + 'static) -> ChartController {
        self.extensions.pauses.push(Arc::new(pauses));
        self
    }

    /// Watches more objects, such as a ConfigMap that a mapper reads. Any change wakes the resources that `wakes`
    /// returns for the object before and after the change, and ends their waits after failures. `selector` narrows the
    /// watch, such as `app=settings`; empty selects every object of the kind.
    #[must_use]
    pub fn watch<K: Kind>(
        mut self,
        selector: impl Into<Selector>,
        wakes: impl Fn(&K) -> Wakes + Clone + Send + Sync + 'static,
    ) -> ChartController {
        let selector = selector.into();
        let follow = move |stores: &Stores, wake: Wake| {
            let wakes = wakes.clone();
            stores.follow(selector.clone(), move |object: &K| wake(wakes(object)));
        };
        self.extensions.follows.push(Arc::new(follow));
        self
    }
}

/// Loads the chart at a path for a watch.
///
/// # Errors
/// The chart cannot be loaded, is a library, or lacks dependencies.
pub(super) fn open(watch: &Watch, path: &Path) -> Result<Arc<Engine>, reconciler::Error> {
    let copies = watch.schema.absolute()?.copies;
    let chart = Chart::load_with(path, &copies)?;
    if let Some(why) = chart.not_installable() {
        return Err(why.into());
    }
    if let [first, ..] = chart.missing_dependencies()[..] {
        return Err(format!("found in Chart.yaml, but missing in charts/ directory: {first}").into());
    }
    report_problems(watch, &chart);
    Ok(Arc::new(Engine::new(chart)))
}

/// Logs problems of the chart that would fail every resource.
fn report_problems(watch: &Watch, chart: &Chart) {
    for Problem { path, line, what } in helm::engine::problems(chart) {
        let file = watch.chart.join(path);
        let place = line.map_or_else(|| file.display().to_string(), |line| format!("{}:{line}", file.display()));
        tracing::warn!(
            kind = watch.kind,
            place,
            error = what,
            "The chart is broken: its resources will fail until it is corrected"
        );
    }
}

/// Returns whether schemas of the chart or its dependencies refer to other files.
fn reads_documents(chart: &Chart) -> bool {
    chart.documents != Default::default() || chart.dependencies.iter().any(|dependency| reads_documents(dependency))
}

impl Controller for ChartController {
    fn name(&self) -> &str {
        &self.name
    }

    fn serves(&self) -> Option<String> {
        Some(format!("{}.{}", self.watch.kind, self.watch.group))
    }

    fn prepare(&self, context: &Context) {
        _ = start::served(context, &self.watch);
        context.served.add(&self.watch.group, &self.watch.kind);
        let cluster = Cluster::of(context);
        cluster.read_whole(&self.watch.expressions);
        // A process that serves a share of the resources refuses reverseDeletion.
        if context.config.share().is_none() {
            let may_hold = MayHold::of(&self.watch);
            cluster.dependencies.announce(context.controller.clone(), &self.watch.kind, may_hold);
        }
        cluster.record_in(self.watch.storage(ChartConfig::of(context).own_namespace(&context.client)));
        if let Source::Engine(engine, _) = &self.source {
            findings::report(&self.watch, engine.chart());
        }
        if self.watch.pull.is_some() {
            pulled::prepare(&self.watch, context);
        }
        if let (Source::Engine(engine, chart), Some(workers)) = (&self.source, &cluster.workers) {
            match reads_documents(engine.chart()) {
                true => workers.admit_beside(chart),
                false => workers.admit(chart),
            }
            // Startup has already failed if a path cannot be made absolute.
            let copies = self.watch.schema.absolute().unwrap_or_default().copies;
            copies.0.values().for_each(|copy| workers.admit_copy(copy));
        }
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), reconciler::Error>> {
        match self.watch.pull.clone() {
            Some(pull) => Box::pin(pulled::run(*self, pull, context)),
            None => start::run(*self, context),
        }
    }
}
