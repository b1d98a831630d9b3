//! Turns entries of watches.yaml into controllers.

use std::sync::Arc;

use controller::reconciler::{self, Controller};

use super::operator::Customise;
use crate::charts::chart_controller::ChartController;
use crate::manager::Error;
use crate::reconcile::versions::Versions;
use crate::watches::{Watch, agree};

/// Returns a controller for each watch, whether a file or the program adds it, unless watches contradict each other. As
/// in upstream, charts are loaded here, so that a broken one prevents startup.
pub(crate) fn controllers(watches: Vec<(Watch, Vec<Customise>)>) -> Result<Vec<Box<dyn Controller>>, Error> {
    agree(watches.iter().map(|(watch, _)| watch)).map_err(Error::Contradiction)?;
    let versions = Versions::of(watches.iter().map(|(watch, _)| watch));
    watches.into_iter().zip(versions).map(|((watch, own), versions)| controller(watch, versions, own)).collect()
}

fn controller(
    watch: Watch,
    versions: Option<Arc<Versions>>,
    customisers: Vec<Customise>,
) -> Result<Box<dyn Controller>, Error> {
    let (line, kind, chart) = (watch.line, watch.kind.clone(), watch.chart.display().to_string());
    let loaded = load(watch, versions).map_err(|source| Error::Chart { line, kind, chart, source })?;
    Ok(Box::new(customisers.into_iter().fold(loaded, |chart, customise| customise(chart))))
}

fn load(watch: Watch, versions: Option<Arc<Versions>>) -> Result<ChartController, reconciler::Error> {
    Ok(ChartController::load(watch)?.among(versions))
}
