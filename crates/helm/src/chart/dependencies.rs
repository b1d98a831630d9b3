//! Which subcharts take part in one render, under which names, with which default values.
//!
//! Helm changes the chart itself for that; here each render has a view of its own. Counterpart: Helm's
//! `pkg/chart/v2/util/dependencies.go`.

use std::sync::Arc;

use go_template::{Map, Value};

use super::{Chart, Crd, Metadata};
use crate::semver::{Constraint, Version};
use crate::values::{self, Nulls};

/// A chart as one render sees it.
#[derive(Clone, Debug)]
pub struct ChartView {
    /// The chart itself.
    pub chart: Arc<Chart>,
    /// Its metadata, under its alias, with only the dependencies that are on.
    pub metadata: Metadata,
    /// Its default values, with what it imports from its subcharts. Shared with the chart: copy before changing.
    pub values: Map,
    /// The subcharts that are on.
    pub dependencies: Vec<ChartView>,
    /// The path that its templates' names start with: `parent/charts/name`.
    pub path: String,
}

impl ChartView {
    /// The chart with all that lies below `charts/`, nothing decided yet.
    fn whole(chart: &Arc<Chart>) -> ChartView {
        ChartView {
            chart: Arc::clone(chart),
            metadata: chart.metadata.clone(),
            values: chart.values.clone(),
            dependencies: chart.dependencies.iter().map(ChartView::whole).collect(),
            path: String::new(),
        }
    }

    /// The chart's name in this render: its alias, if it has one.
    pub fn name(&self) -> &str {
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

/// Decides, for these values, which subcharts are on (versions, conditions, tags), renames them to their aliases and imports their values.
///
/// # Errors
/// A value that stands where a subchart's table must be.
pub fn resolve(chart: &Arc<Chart>, values: &Map, warnings: &mut Vec<String>) -> Result<ChartView, values::Error> {
    let mut view = ChartView::whole(chart);
    if !chart.dependencies.is_empty() || !chart.metadata.dependencies.is_empty() {
        enable(&mut view, values, "", warnings)?;
        import(&mut view, warnings)?;
    }
    view.set_paths(None);
    Ok(view)
}

/// Counterpart: `processDependencyEnabled`.
fn enable(view: &mut ChartView, values: &Map, path: &str, warnings: &mut Vec<String>) -> Result<(), values::Error> {
    if view.metadata.dependencies.is_empty() {
        return Ok(());
    }
    view.dependencies = wanted(view);
    for dependency in &mut view.metadata.dependencies {
        if !dependency.alias.is_empty() {
            dependency.name.clone_from(&dependency.alias);
        }
        dependency.enabled = true;
    }
    let merged = values::coalesce(view, values, Nulls::Remove, warnings)?;
    apply_tags(view, &merged, warnings);
    apply_conditions(view, &merged, path, warnings);
    let off: Vec<String> = view.metadata.dependencies.iter().filter(|d| !d.enabled).map(|d| d.name.clone()).collect();
    view.dependencies.retain(|dependency| !off.contains(&dependency.metadata.name));
    view.metadata.dependencies.retain(|dependency| !off.contains(&dependency.name));
    for dependency in &mut view.dependencies {
        let inner = format!("{path}{}.", dependency.metadata.name);
        enable(dependency, &merged, &inner, warnings)?;
    }
    Ok(())
}

/// The subcharts that no entry of `Chart.yaml` speaks of, then one for each entry, under its alias.
fn wanted(view: &ChartView) -> Vec<ChartView> {
    let entries = &view.metadata.dependencies;
    let fits = |chart: &ChartView, name: &str, version: &str| {
        chart.metadata.name == name && in_range(version, &chart.metadata.version)
    };
    let unnamed = view.dependencies.iter().filter(|chart| !entries.iter().any(|e| fits(chart, &e.name, &e.version)));
    let mut charts: Vec<ChartView> = unnamed.cloned().collect();
    for entry in entries {
        let Some(chart) = view.dependencies.iter().find(|chart| fits(chart, &entry.name, &entry.version)) else {
            continue;
        };
        let mut chart = chart.clone();
        if !entry.alias.is_empty() {
            chart.metadata.name.clone_from(&entry.alias);
        }
        charts.push(chart);
    }
    charts
}

/// Whether the version is in the range. Counterpart: `IsCompatibleRange`.
pub(crate) fn in_range(range: &str, version: &str) -> bool {
    match (Version::parse(version), Constraint::parse(range)) {
        (Ok(version), Ok(range)) => range.check(&version),
        _ => false,
    }
}

fn apply_tags(view: &mut ChartView, values: &Map, warnings: &mut Vec<String>) {
    let Some(Value::Map(tags)) = values.get("tags") else { return };
    for dependency in &mut view.metadata.dependencies {
        let (mut on, mut off) = (false, false);
        for tag in &dependency.tags {
            match tags.get(tag) {
                Some(Value::Bool(true)) => on = true,
                Some(Value::Bool(false)) => off = true,
                None => {}
                Some(_) => warnings.push(format!("tag {tag:?} of subchart {:?} is not a boolean", dependency.name)),
            }
        }
        dependency.enabled = on || !off;
    }
}

fn apply_conditions(view: &mut ChartView, values: &Map, path: &str, warnings: &mut Vec<String>) {
    for dependency in &mut view.metadata.dependencies {
        for condition in dependency.condition.trim().split(',').filter(|c| !c.is_empty()) {
            match values::scalar_at(values, &format!("{path}{condition}")) {
                Some(Value::Bool(on)) => {
                    dependency.enabled = on;
                    break;
                }
                None => {}
                Some(_) => {
                    warnings
                        .push(format!("condition {condition:?} of subchart {:?} is not a boolean", dependency.name));
                }
            }
        }
    }
}

/// Counterpart: `processDependencyImportValues`, with nulls kept.
fn import(view: &mut ChartView, warnings: &mut Vec<String>) -> Result<(), values::Error> {
    for dependency in &mut view.dependencies {
        import(dependency, warnings)?;
    }
    if view.metadata.dependencies.is_empty() {
        return Ok(());
    }
    let merged = values::coalesce(view, &Map::default(), Nulls::Keep, warnings)?;
    let imported = Map::default();
    for dependency in &mut view.metadata.dependencies {
        let mut done = Vec::new();
        for wanted in &dependency.import_values {
            let Some((child, parent)) = import_paths(wanted) else { continue };
            let pair: Map = [("child", child.as_str()), ("parent", parent.as_str())].into_iter().collect();
            done.push(Value::Map(pair));
            match values::table_at(&merged, &format!("{}.{child}", dependency.name)) {
                Some(table) => values::merge_tables(&imported, &nested(&parent, table), warnings),
                None => warnings.push(format!("subchart {:?} has no table {child:?} to import", dependency.name)),
            }
        }
        dependency.import_values = done;
    }
    view.values = merged.deep_copy();
    values::merge_tables(&view.values, &imported, warnings);
    Ok(())
}

/// Where an import comes from in the child, and where it goes in the parent.
fn import_paths(wanted: &Value) -> Option<(String, String)> {
    match wanted {
        Value::String(name) => Some((format!("exports.{name}"), ".".to_owned())),
        Value::Map(pair) => {
            let text = |key: &str| {
                let value = pair.get(key).unwrap_or_default();
                String::from_utf8_lossy(&go_template::fmt::sprint(&[value])).into_owned()
            };
            Some((text("child"), text("parent")))
        }
        _ => None,
    }
}

/// The table below the path: `a.b` gives `{a: {b: table}}`.
fn nested(path: &str, table: Map) -> Map {
    if path == "." {
        return table;
    }
    path.split('.').rev().fold(table, |inner, key| [(key, inner)].into_iter().collect())
}
