//! The process itself: who leads, what it waits for, its queues, and its watches.

use controller::lease::Holder;
use controller::runtime::queue::Sizes;
use controller::runtime::readiness::Readiness;
use serde::Serialize;

use crate::charts::running::Running;
use crate::reconcile::controller_context::ControllerContext;
use crate::view::coverage::Watching;

/// The path whose right a caller needs, as for the metrics, which say the same.
pub(crate) const RIGHT: &str = "/metrics";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    pub(crate) version: &'static str,
    /// The name of its pod or host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replica: Option<String>,
    /// Who holds the lease; absent without leader election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leader: Option<String>,
    /// What it waits for before it is ready.
    pub(crate) waits_for: Vec<String>,
    /// Its chart controllers; none in a replica that does not lead.
    pub(crate) controllers: Vec<Controller>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Controller {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) chart: String,
    pub(crate) resources: usize,
    pub(crate) queue: Sizes,
    /// The kinds of its releases' objects.
    pub(crate) watches: Vec<WatchedKind>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchedKind {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) state: Watching,
}

pub(crate) fn process(replica: Option<String>, holder: &Holder, readiness: &Readiness, running: &Running) -> Process {
    let mut controllers: Vec<Controller> = running.all().iter().map(|one| controller(one)).collect();
    controllers.sort_by(|a, b| (&a.kind, &a.group).cmp(&(&b.kind, &b.group)));
    Process {
        version: env!("CARGO_PKG_VERSION"),
        replica,
        leader: holder.identity(),
        waits_for: readiness.unmet(),
        controllers,
    }
}

fn controller(of: &ControllerContext) -> Controller {
    let watched = of.cache.watched().into_iter();
    Controller {
        group: of.resource.group().to_owned(),
        kind: of.resource.kind.to_string(),
        chart: format!("{} {}", of.renderer.chart_name(), of.renderer.chart_version()).trim_end().to_owned(),
        resources: of.cache.primaries().len(),
        queue: of.queue.sizes(),
        watches: watched
            .map(|((group, kind), state)| WatchedKind { group: group.to_string(), kind: kind.to_string(), state })
            .collect(),
    }
}
