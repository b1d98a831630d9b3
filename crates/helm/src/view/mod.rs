//! A chart as one render sees it: which subcharts are enabled, under which names, and with which values.
//!
//! Helm modifies the chart itself. Here charts are immutable, and renders that enable the same subcharts share a view.
//!
//! Counterparts: Helm's `pkg/chart/v2/util/dependencies.go` and `pkg/chart/common/util/{coalesce,jsonschema}.go`.

mod choose;
mod coalesce;
mod import;
mod resolve;
#[cfg(test)]
mod tests;
mod validate;

pub(crate) use choose::in_range;
pub use choose::{MAX_SUBCHARTS, ResolveError};
pub use coalesce::{Nulls, TypeMismatch, coalesce};
pub use resolve::resolve;
pub(crate) use resolve::{Resolver, everything};
pub use validate::{SchemaError, Unusable, validate};

use std::sync::Arc;

use go_template::{Map, Str};

use crate::chart::{Chart, Crd, Metadata};
use crate::values;

/// A chart as one render sees it.
#[derive(Clone, Debug)]
pub struct ChartView {
    pub(crate) chart: Arc<Chart>,
    /// Its metadata, with the alias as its name, and with enabled dependencies only.
    pub(crate) metadata: Metadata,
    /// Its default values, including those imported from subcharts. Renders share them: copy them before changing them.
    pub(crate) values: Map,
    /// The enabled subcharts.
    pub(crate) dependencies: Vec<ChartView>,
    /// The prefix of its templates' names: `parent/charts/name`.
    pub(crate) path: String,
    /// The default values without nulls, if they contain any.
    without_nulls: Option<Map>,
    /// A digest of the chart and the enabled subcharts. Views with equal digests are equal.
    pub(crate) identity: [u8; 32],
}

impl ChartView {
    /// Returns the templates of the chart and its enabled subcharts, including partials, by name: `parent/charts/name/templates/a.yaml`.
    pub fn templates(&self) -> Vec<(String, &Str)> {
        let own = self.chart.templates.iter().map(|file| (format!("{}/{}", self.path, file.name), &file.data));
        own.chain(self.dependencies.iter().flat_map(ChartView::templates)).collect()
    }

    /// Returns the view with all subcharts, before values enable or disable any.
    fn whole(chart: &Arc<Chart>) -> ChartView {
        let mut view = ChartView {
            chart: Arc::clone(chart),
            metadata: chart.metadata.clone(),
            values: Map::default(),
            dependencies: chart.dependencies.iter().map(ChartView::whole).collect(),
            path: String::new(),
            without_nulls: None,
            identity: [0; 32],
        };
        view.set_values(&chart.values);
        view
    }

    fn set_values(&mut self, values: &Map) {
        // The view owns its copy, so that the copy stays frozen.
        self.values = values.frozen().deep_copy();
        self.without_nulls = (!self.values.is_known_without_nil()).then(|| {
            let values = self.values.deep_copy();
            values::remove_nulls(&values);
            values.frozen()
        });
    }

    /// Returns the default values without nulls, which are removed from tables at any depth. Shared like `values`.
    pub(crate) fn values_without_nulls(&self) -> &Map {
        self.without_nulls.as_ref().unwrap_or(&self.values)
    }

    /// Returns the chart's alias, or its name if it has no alias.
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    fn set_paths(&mut self, parent: Option<&str>) {
        self.path = match parent {
            Some(parent) => format!("{parent}/charts/{}", self.metadata.name),
            None => self.metadata.name.clone(),
        };
        for dependency in &mut self.dependencies {
            dependency.set_paths(Some(&self.path));
        }
    }

    /// Returns the files below `crds/`: the chart's own, then those of its subcharts.
    pub(crate) fn crds(&self) -> Vec<Crd> {
        let is_manifest = |name: &str| {
            let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
            extension.is_some_and(|extension| matches!(extension.as_str(), "yaml" | "yml" | "json"))
        };
        let own = self.chart.files.iter().filter(|file| file.name.starts_with("crds/") && is_manifest(&file.name));
        let mut crds: Vec<Crd> =
            own.map(|file| Crd { path: format!("{}/{}", self.path, file.name), data: file.data.clone() }).collect();
        crds.extend(self.dependencies.iter().flat_map(ChartView::crds));
        crds
    }
}
