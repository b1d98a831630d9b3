//! The chart controller: keeps each custom resource's release in line with its chart and values.
//!
//! `observe` reads what is true, `state` decides, `work` loops; `deploy`, `correct_drift` and `uninstall` act; `settle` records the outcome once.
//! Counterpart: operator-sdk's `internal/helm/controller` and helm-operator-plugins' `pkg/reconciler`.

mod awaited;
mod cache;
mod candidate;
mod cluster;
mod compare;
mod correct_drift;
mod deploy;
mod detect;
mod engine;
mod feed;
mod fields;
mod health;
#[cfg(test)]
mod helm_tests;
mod history;
#[cfg(test)]
mod hook_tests;
mod intake;
mod kinds;
mod look;
mod observe;
mod outcome;
mod pages;
mod pods;
mod primary;
mod progress;
mod queue;
mod recorded;
mod release;
mod releases;
mod render;
mod requests;
mod resync;
mod rollout;
mod run;
mod schedule;
mod settle;
mod shared;
mod sources;
mod stamp;
mod state;
#[cfg(test)]
mod tests;
mod turns;
mod undo;
mod uninstall;
mod versions;
mod watch;
mod work;
mod workers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use helm::chart::Chart;
use helm::engine::Engine;

use crate::context::Context;
use crate::hooks::{PostHook, PreHook};
use crate::native::{self, Controller};
use crate::watches::Watch;

pub(crate) use cluster::Cluster;
pub(crate) use detect::DETECTED;

pub use crate::values::{Error as SpecError, Spec};
pub use render::{RenderError, Renderer, Request};

pub(crate) use versions::Versions;

/// Keeps a Helm release for each custom resource of one kind.
///
/// # Flow
/// The controller waits until its kind is served, then lists its resources, their release records and the objects of those releases. From then on
/// watches keep its cache current. Each reconcile of a resource observes the cache, takes one step, and repeats until nothing is left to do:
///
/// 1. add the finalizer, before the first object exists;
/// 2. render, if the resource's `spec`, the chart or the override values changed;
/// 3. install or upgrade: record the revision as pending, apply its objects, run its hooks, delete objects that it no longer contains, and record it
///    as deployed; or repair objects that drifted;
/// 4. on deletion, uninstall from the record and remove the finalizer.
///
/// The outcome goes into the status with one write, and only if it changed.
///
/// # Guarantees
/// - A resource is reconciled by one worker at a time, and the outcome of a step is visible to the next one.
/// - Only objects whose metadata proves that they belong to the release are changed or deleted. An object or a release of somebody else is a
///   conflict, reported before the first write.
/// - While nothing changes, no request is made and nothing is rendered.
///
/// # Retries
/// A failed step holds the resource, with a wait that starts at half a second and doubles up to five minutes ([`crate::backoff`]). A change of the
/// resource, its chart or its override values ends the hold; other events do not. A failed upgrade is rolled back and a failed first install is
/// removed, unless the cause is an outage, after which the same revision continues. A panic delays only its own resource.
///
/// # Cancellation
/// [`Context::shutdown`] lets running reconciles finish. Dropping the future stops at any `.await`: the record then says what was begun, and the next
/// process continues it as it was rendered, without running a hook twice.
pub struct ChartController {
    name: String,
    watch: Watch,
    source: Source,
    hooks: Hooks,
    max_history: Option<usize>,
    versions: Option<Arc<Versions>>,
}

/// What renders the chart.
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

    /// A controller with its own renderer in place of the chart in `watch`.
    pub fn with_renderer(watch: Watch, renderer: Arc<dyn Renderer>) -> ChartController {
        ChartController::from(watch, Source::Own(renderer))
    }

    fn from(watch: Watch, source: Source) -> ChartController {
        let (name, hooks) = (watch.controller_name(), Hooks::default());
        ChartController { name, watch, source, hooks, max_history: None, versions: None }
    }

    /// Sets the watches of the same kind in other versions, of which one serves each resource. Default: there are none.
    pub(crate) fn among(mut self, versions: Option<Arc<Versions>>) -> ChartController {
        self.versions = versions;
        self
    }

    /// Adds a hook that runs before each install and upgrade. Its failure is logged and stops nothing.
    #[must_use]
    pub fn pre_hook(mut self, hook: impl PreHook + 'static) -> ChartController {
        self.hooks.before.push(Arc::new(hook));
        self
    }

    /// Adds a hook that runs after each successful install and upgrade. Its failure is logged and stops nothing.
    #[must_use]
    pub fn post_hook(mut self, hook: impl PostHook + 'static) -> ChartController {
        self.hooks.after.push(Arc::new(hook));
        self
    }

    /// Sets how many revisions are kept; 0 keeps all. Default: the watch's `maxHistory`, else the flag `--max-history`.
    #[must_use]
    pub fn max_history(mut self, revisions: usize) -> ChartController {
        self.max_history = Some(revisions);
        self
    }
}

/// Locks; a panic elsewhere left no change half done.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Controller for ChartController {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&self, context: &Context) {
        context.cluster.read_whole(&self.watch.expressions);
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), native::Error>> {
        Box::pin(run::run(*self, context))
    }
}
