//! Determines the view of a chart for given values, and caches views.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use go_template::Map;
use sha2::{Digest as _, Sha256};

use super::ChartView;
use super::choose::{Choice, ResolveError, Undecided};
use super::import::import;
use crate::chart::Chart;

/// Returns the chart's view for the user's values: enables subcharts by version, condition and tags, renames them to their aliases, and imports their
/// values.
///
/// For many sets of values, use [`Engine::resolve`](crate::engine::Engine::resolve). Appends warnings, which contain keys but never values.
///
/// # Errors
/// A subchart's values are not a table, or there are too many subcharts.
pub fn resolve(chart: &Arc<Chart>, values: &Map, warnings: &mut Vec<String>) -> Result<Arc<ChartView>, ResolveError> {
    Resolver::new(Arc::clone(chart)).resolve(values, warnings)
}

/// Returns the chart's view with all subcharts, regardless of conditions and tags.
///
/// # Errors
/// A subchart's default values are not a table, or there are too many subcharts.
pub(crate) fn everything(chart: &Arc<Chart>) -> Result<ChartView, ResolveError> {
    let mut view = Undecided::new(ChartView::whole(chart)).everything(&mut 0)?;
    import(&mut view, &mut Vec::new())?;
    view.set_paths(None);
    Ok(view)
}

/// Maximum number of views that a resolver caches: more than the combinations of subcharts that releases of one chart use.
const MAX_VIEWS: usize = 64;

/// Resolves one chart for many sets of values. Values that enable the same subcharts share a view.
#[derive(Debug)]
pub(crate) struct Resolver {
    chart: Arc<Chart>,
    undecided: OnceLock<Undecided>,
    views: Mutex<HashMap<Choice, Resolved>>,
}

#[derive(Clone, Debug)]
struct Resolved {
    view: Arc<ChartView>,
    warnings: Vec<String>,
}

impl Resolver {
    /// Creates a resolver for the chart, with an empty cache.
    pub(crate) fn new(chart: Arc<Chart>) -> Resolver {
        Resolver { chart, undecided: OnceLock::new(), views: Mutex::default() }
    }

    pub(crate) fn chart(&self) -> &Arc<Chart> {
        &self.chart
    }

    /// Returns the chart's view for the user's values; see [`resolve`].
    ///
    /// # Errors
    /// A subchart's values are not a table, or there are too many subcharts.
    pub(crate) fn resolve(&self, values: &Map, warnings: &mut Vec<String>) -> Result<Arc<ChartView>, ResolveError> {
        let undecided = self.undecided.get_or_init(|| Undecided::new(ChartView::whole(&self.chart)));
        let mut choice = Vec::new();
        undecided.choose(values, "", &mut choice, warnings)?;
        let known = self.views().get(&choice).cloned();
        let resolved = match known {
            Some(resolved) => resolved,
            None => self.decide(undecided, choice)?,
        };
        warnings.extend(resolved.warnings);
        Ok(resolved.view)
    }

    fn decide(&self, undecided: &Undecided, choice: Choice) -> Result<Resolved, ResolveError> {
        let mut view = undecided.decided(&mut choice.iter().copied());
        let mut warnings = Vec::new();
        import(&mut view, &mut warnings)?;
        view.set_paths(None);
        view.identity = identity(&self.chart, &choice);
        let resolved = Resolved { view: Arc::new(view), warnings };
        let mut views = self.views();
        if views.len() >= MAX_VIEWS {
            views.clear();
        }
        views.insert(choice, resolved.clone());
        Ok(resolved)
    }

    fn views(&self) -> MutexGuard<'_, HashMap<Choice, Resolved>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(chart: &Chart, choice: &Choice) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(chart.digest());
    choice.iter().for_each(|on| hash.update([u8::from(*on)]));
    hash.finalize().into()
}
