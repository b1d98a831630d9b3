//! A chart as one render sees it: which subcharts are enabled, under which names, with which values.
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
pub use coalesce::{Nulls, TypeMismatch, coalesce};
pub use resolve::{Resolver, resolve};
pub use validate::{SchemaError, validate};

use std::sync::Arc;

use go_template::Map;

use crate::chart::{Chart, Crd, Metadata};
use crate::values;

/// A chart as one render sees it.
#[derive(Clone, Debug)]
pub struct ChartView {
    /// The chart itself.
    pub chart: Arc<Chart>,
    /// Its metadata, under its alias, with only the dependencies that are on.
    pub metadata: Metadata,
    /// Its default values, with what it imports from its subcharts. Shared by renders: copy before changing.
    pub values: Map,
    /// The subcharts that are on.
    pub dependencies: Vec<ChartView>,
    /// The path that its templates' names start with: `parent/charts/name`.
    pub path: String,
    /// The values without nulls, if they have some.
    without_nulls: Option<Map>,
    identity: [u8; 32],
}

impl ChartView {
    /// The chart with all that lies below `charts/`, nothing decided yet.
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
        // A handle of its own, which nobody touches.
        self.values = values.frozen().deep_copy();
        self.without_nulls = (!self.values.is_known_without_nil()).then(|| {
            let values = self.values.deep_copy();
            values::remove_nulls(&values);
            values.frozen()
        });
    }

    /// The default values without the nulls in them and in the tables below. Shared as the values are.
    pub(crate) fn values_without_nulls(&self) -> &Map {
        self.without_nulls.as_ref().unwrap_or(&self.values)
    }

    /// The chart's name in this render: its alias, if it has one.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// What tells the view that [`resolve`] gave from others: equal for equal charts and an equal choice of subcharts.
    pub(crate) fn identity(&self) -> [u8; 32] {
        self.identity
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

    /// The manifests below `crds/`, the chart's own before its subcharts'.
    pub fn crds(&self) -> Vec<Crd> {
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
