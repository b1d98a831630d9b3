//! The metrics of chart controllers, besides those of every controller: resources, releases, actions, hooks, repairs
//! and renders.
//!
//! Labels are bounded: there are few controllers, results and reasons, and only a limited number of charts and field
//! managers have separate series.

mod census;
mod releases;
mod renders;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use census::Censuses;
pub(crate) use census::{Census, Count, RolloutCount};
use controller::context::Context;
use controller::metrics::Metrics;
use releases::Releases;
pub(crate) use renders::RenderOutcome;
use renders::Renders;

/// The process's metrics of charts. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ChartMetrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    renders: Renders,
    releases: Releases,
    censuses: Censuses,
}

impl ChartMetrics {
    pub(crate) fn of(context: &Context) -> ChartMetrics {
        (*context.part(|context| ChartMetrics::new(&context.metrics))).clone()
    }

    /// Adds the families to a process's metrics.
    pub(crate) fn new(metrics: &Metrics) -> ChartMetrics {
        let families = Families { renders: Renders::new(), releases: Releases::new(), censuses: Censuses::default() };
        metrics.register(|registry| {
            families.releases.register(registry);
            families.renders.register(registry);
            registry.register_collector(Box::new(families.censuses.clone()));
        });
        ChartMetrics(Arc::new(families))
    }

    /// Exports the counts of a controller's resources, for as long as `census` lives.
    pub(crate) fn resources(&self, controller: &Arc<str>, census: Weak<dyn Census>) {
        self.0.censuses.add(controller, census);
    }

    /// Counts a render in a worker.
    pub(crate) fn render(&self, outcome: RenderOutcome) {
        self.0.renders.count(outcome);
    }
}
