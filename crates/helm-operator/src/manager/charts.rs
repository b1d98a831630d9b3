//! From entries of watches.yaml to controllers.

use super::{Config, Error};
use crate::native::{self, Controller};
use crate::watches::Watch;

/// A controller for each watch. Charts are loaded here, so that a broken one stops the start, as upstream.
pub(super) fn controllers(watches: Vec<Watch>, config: &Config) -> Result<Vec<Box<dyn Controller>>, Error> {
    watches.into_iter().map(|watch| controller(watch, config)).collect()
}

fn controller(watch: Watch, config: &Config) -> Result<Box<dyn Controller>, Error> {
    let (kind, chart) = (watch.kind.clone(), watch.chart.display().to_string());
    load(watch, config).map_err(|source| Error::Chart { kind, chart, source })
}

fn load(_: Watch, _: &Config) -> Result<Box<dyn Controller>, native::Error> {
    Err("chart controllers are not built in yet".into())
}
