//! Turns entries of watches.yaml into controllers.

use super::Error;
use crate::native::{self, Controller};
use crate::reconciler::ChartController;
use crate::watches::Watch;

/// A controller for each watch. As upstream, charts are loaded here, so that a broken one stops the start.
pub(super) fn controllers(watches: Vec<Watch>) -> Result<Vec<Box<dyn Controller>>, Error> {
    watches.into_iter().map(controller).collect()
}

fn controller(watch: Watch) -> Result<Box<dyn Controller>, Error> {
    let (kind, chart) = (watch.kind.clone(), watch.chart.display().to_string());
    load(watch).map_err(|source| Error::Chart { kind, chart, source })
}

fn load(watch: Watch) -> Result<Box<dyn Controller>, native::Error> {
    Ok(Box::new(ChartController::load(watch)?))
}
