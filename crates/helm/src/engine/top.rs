//! The top-level object of each chart: the initial dot of its templates. Counterpart: `recAllTpls` in Helm's `pkg/engine/engine.go`.

use go_template::{Map, MapType, Str, Value};

use super::{Capabilities, Files, ReleaseOptions};
use crate::chart::{Dependency, Metadata};
use crate::view::ChartView;

/// The parts of the top-level objects that are the same in every render.
#[derive(Debug)]
pub(super) struct ChartObject {
    name: Str,
    /// `.Chart`, frozen.
    chart: Map,
    files: Value,
    subcharts: Vec<ChartObject>,
}

impl ChartObject {
    /// Returns the parts for a root chart and its subcharts.
    pub(super) fn of(view: &ChartView) -> ChartObject {
        ChartObject::below(view, true)
    }

    fn below(view: &ChartView, is_root: bool) -> ChartObject {
        let chart = chart_fields(&view.metadata, is_root);
        let files = view.chart.files.iter().map(|file| (Str::from(file.name.as_str()), file.data.clone()));
        ChartObject {
            name: view.name().into(),
            chart: chart.frozen(),
            files: Files::new(files).to_value(),
            subcharts: view.dependencies.iter().map(|subchart| ChartObject::below(subchart, false)).collect(),
        }
    }
}

/// The top-level objects of a render, by chart number.
pub(super) struct Tops(Vec<Map>);

impl Tops {
    /// Builds the objects from the coalesced values.
    pub(super) fn new(root: &ChartObject, values: &Map, release: &ReleaseOptions, capabilities: &Capabilities) -> Tops {
        let mut tops = Tops(Vec::new());
        let shared = [("Release", Value::Map(release.to_map())), ("Capabilities", capabilities.to_value())];
        tops.add(root, values, &shared);
        tops
    }

    /// Adds the chart and its subcharts; returns the chart's object.
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

    /// Returns the object of the chart with this number.
    pub(super) fn of(&self, chart: usize) -> &Map {
        &self.0[chart]
    }
}

/// Returns `.Chart`, with Go's field names.
fn chart_fields(of: &Metadata, is_root: bool) -> Map {
    let strings = |items: &[String]| Value::list(items.iter().map(|item| item.as_str().into()).collect());
    let maintainers = of.maintainers.iter().map(|m| {
        let fields: Map = [("Name", m.name.as_str()), ("Email", &m.email), ("URL", &m.url)].into_iter().collect();
        Value::Map(fields)
    });
    let annotations = match of.annotations.as_slice() {
        [] => Map::nil(MapType::String),
        some => Map::new(
            MapType::String,
            some.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        ),
    };
    let text = |text: &str| Value::from(text);
    [
        ("Name", text(&of.name)),
        ("Home", text(&of.home)),
        ("Sources", strings(&of.sources)),
        ("Version", text(&of.version)),
        ("Description", text(&of.description)),
        ("Keywords", strings(&of.keywords)),
        ("Maintainers", Value::list(maintainers.collect())),
        ("Icon", text(&of.icon)),
        ("APIVersion", text(&of.api_version)),
        ("Condition", text(&of.condition)),
        ("Tags", text(&of.tags)),
        ("AppVersion", text(&of.app_version)),
        ("Deprecated", Value::Bool(of.deprecated)),
        ("Annotations", annotations.into()),
        ("KubeVersion", text(&of.kube_version)),
        ("Dependencies", Value::list(of.dependencies.iter().map(|d| dependency_fields(d).into()).collect())),
        ("Type", text(&of.kind)),
        ("IsRoot", is_root.into()),
    ]
    .into_iter()
    .collect()
}

fn dependency_fields(of: &Dependency) -> Map {
    let text = |text: &str| Value::from(text);
    [
        ("Name", text(&of.name)),
        ("Version", text(&of.version)),
        ("Repository", text(&of.repository)),
        ("Condition", text(&of.condition)),
        ("Tags", Value::list(of.tags.iter().map(|tag| tag.as_str().into()).collect())),
        ("Enabled", Value::Bool(of.enabled)),
        ("ImportValues", Value::list(of.import_values.clone())),
        ("Alias", text(&of.alias)),
    ]
    .into_iter()
    .collect()
}
