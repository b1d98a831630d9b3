//! Turns entries of watches.yaml into controllers.

use std::sync::Arc;

use super::Error;
use crate::native::{self, Controller};
use crate::reconciler::{ChartController, Versions};
use crate::watches::Watch;

/// A controller for each watch. As upstream, charts are loaded here, so that a broken one stops the start.
pub(super) fn controllers(watches: Vec<Watch>) -> Result<Vec<Box<dyn Controller>>, Error> {
    let versions = Versions::of(&watches);
    watches.into_iter().zip(versions).map(|(watch, versions)| controller(watch, versions)).collect()
}

fn controller(watch: Watch, versions: Option<Arc<Versions>>) -> Result<Box<dyn Controller>, Error> {
    let (kind, chart) = (watch.kind.clone(), watch.chart.display().to_string());
    load(watch, versions).map_err(|source| Error::Chart { kind, chart, source })
}

fn load(watch: Watch, versions: Option<Arc<Versions>>) -> Result<Box<dyn Controller>, native::Error> {
    Ok(Box::new(ChartController::load(watch)?.among(versions)))
}
