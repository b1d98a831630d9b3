//! The chart controller: keeps each custom resource's release in line with its chart and values.
//!
//! `observe` reads what is true, `state` decides, `work` loops; `deploy`, `correct_drift` and `uninstall` act; `settle` records the outcome once.
//! Counterpart: operator-sdk's `internal/helm/controller` and helm-operator-plugins' `pkg/reconciler`.

mod awaited;
mod cache;
mod candidate;
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
mod observe;
mod outcome;
mod primary;
mod progress;
mod queue;
mod recorded;
mod release;
mod render;
mod run;
mod schedule;
mod settle;
mod shared;
mod stamp;
mod state;
#[cfg(test)]
mod tests;
mod undo;
mod uninstall;
mod watch;
mod work;
mod workers;

use std::sync::Arc;

use futures::future::BoxFuture;
use helm::chart::Chart;
use helm::engine::Engine;

use crate::context::Context;
use crate::hooks::{PostHook, PreHook};
use crate::native::{self, Controller};
use crate::watches::Watch;

pub use render::{RenderError, Renderer, Request};

/// Keeps the releases of one kind of custom resource.
pub struct ChartController {
    name: String,
    watch: Watch,
    source: Source,
    hooks: Hooks,
    max_history: usize,
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

    /// A controller with its own renderer.
    pub fn with_renderer(watch: Watch, renderer: Arc<dyn Renderer>) -> ChartController {
        ChartController::from(watch, Source::Own(renderer))
    }

    fn from(watch: Watch, source: Source) -> ChartController {
        ChartController { name: watch.controller_name(), watch, source, hooks: Hooks::default(), max_history: 10 }
    }

    /// Adds a hook that runs before each install and upgrade.
    #[must_use]
    pub fn pre_hook(mut self, hook: impl PreHook + 'static) -> ChartController {
        self.hooks.before.push(Arc::new(hook));
        self
    }

    /// Adds a hook that runs after each install and upgrade.
    #[must_use]
    pub fn post_hook(mut self, hook: impl PostHook + 'static) -> ChartController {
        self.hooks.after.push(Arc::new(hook));
        self
    }

    /// Sets how many revisions are kept; 0 keeps all. Default: 10.
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
        Box::pin(run::run(*self, context))
    }
}
