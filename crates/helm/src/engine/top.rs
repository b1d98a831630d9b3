//! The top-level object of each chart: what its templates see as `.`. Counterpart: `recAllTpls` in Helm's `pkg/engine/engine.go`.

use go_template::{Map, MapType, Str, Value};

use super::{Capabilities, Files, ReleaseOptions};
use crate::view::ChartView;

/// What a chart and its subcharts put into their objects in every render.
#[derive(Debug)]
pub(super) struct ChartObject {
    name: Str,
    /// `.Chart`, frozen.
    chart: Map,
    /// `.Files`.
    files: Value,
    subcharts: Vec<ChartObject>,
}

impl ChartObject {
    /// The objects of a root chart and its subcharts.
    pub(super) fn of(view: &ChartView) -> ChartObject {
        ChartObject::below(view, true)
    }

    fn below(view: &ChartView, is_root: bool) -> ChartObject {
        let chart = view.metadata.to_map();
        chart.insert("IsRoot", is_root);
        let files = view.chart.files.iter().map(|file| (Str::from(file.name.as_str()), file.data.clone()));
        ChartObject {
            name: view.name().into(),
            chart: chart.frozen(),
            files: Files::new(files).to_value(),
            subcharts: view.dependencies.iter().map(|subchart| ChartObject::below(subchart, false)).collect(),
        }
    }
}

/// The objects of one render, in the order in which the program numbers charts.
pub(super) struct Tops(Vec<Map>);

impl Tops {
    /// The objects for the coalesced values.
    pub(super) fn new(root: &ChartObject, values: &Map, release: &ReleaseOptions, capabilities: &Capabilities) -> Tops {
        let mut tops = Tops(Vec::new());
        let shared = [("Release", Value::Map(release.to_map())), ("Capabilities", capabilities.to_value())];
        tops.add(root, values, &shared);
        tops
    }

    /// Adds the chart and then its subcharts; gives the chart's object.
    fn add(&mut self, chart: &ChartObject, values: &Map, shared: &[(&'static str, Value); 2]) -> Map {
        let subcharts = Map::default();
        let own = [
            ("Chart", chart.chart.deep_copy().into()),
            ("Files", chart.files.clone()),
            ("Values", values.with_type(MapType::Values).into()),
            ("Subcharts", subcharts.clone().into()),
        ];
        let top: Map = shared.iter().cloned().chain(own).collect();
        let top = top.with_type(MapType::Values);
        self.0.push(top.clone());
        for subchart in &chart.subcharts {
            let own = match values.get(&subchart.name) {
                Some(Value::Map(own)) => own,
                _ => Map::default(),
            };
            let inner = self.add(subchart, &own, shared);
            subcharts.insert(subchart.name.clone(), inner.with_type(MapType::Interface));
        }
        top
    }

    /// The object of the chart with the number.
    pub(super) fn of(&self, chart: usize) -> &Map {
        &self.0[chart]
    }
}
