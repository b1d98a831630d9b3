//! Which subcharts take part in one render, under which names, with which default values.
//!
//! Helm changes the chart itself for that; here renders have views, one for each choice of subcharts. Counterpart: Helm's
//! `pkg/chart/v2/util/dependencies.go`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use go_template::{Map, Value};
use sha2::{Digest as _, Sha256};

use golibs::semver::{Constraint, Version};

use super::coalesce::{Nulls, TypeMismatch, coalesce, merge_tables};
use crate::chart::{Chart, Crd, Dependency, Metadata};
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

/// Decides, for these values, which subcharts are on (versions, conditions, tags), renames them to their aliases and imports their values.
///
/// To do so more than once, keep a [`Resolver`].
///
/// # Errors
/// A value that stands where a subchart's table must be.
pub fn resolve(chart: &Arc<Chart>, values: &Map, warnings: &mut Vec<String>) -> Result<Arc<ChartView>, TypeMismatch> {
    Resolver::new(Arc::clone(chart)).resolve(values, warnings)
}

/// How many views a resolver keeps: more than the choices of subcharts that one chart's releases make.
const MAX_VIEWS: usize = 64;

/// What [`resolve`] does, for one chart and many values: the same choice of subcharts gives the same view.
#[derive(Debug)]
pub struct Resolver {
    chart: Arc<Chart>,
    undecided: OnceLock<Undecided>,
    views: Mutex<HashMap<Choice, Resolved>>,
}

/// For each dependency that was asked for, depth first, whether it is on.
type Choice = Vec<bool>;

#[derive(Clone, Debug)]
struct Resolved {
    view: Arc<ChartView>,
    warnings: Vec<String>,
}

impl Resolver {
    /// A resolver for the chart, which has decided nothing.
    pub fn new(chart: Arc<Chart>) -> Resolver {
        Resolver { chart, undecided: OnceLock::new(), views: Mutex::default() }
    }

    /// The chart.
    pub fn chart(&self) -> &Arc<Chart> {
        &self.chart
    }

    /// The chart's view for these values: see [`resolve`].
    ///
    /// # Errors
    /// A value that stands where a subchart's table must be.
    pub fn resolve(&self, values: &Map, warnings: &mut Vec<String>) -> Result<Arc<ChartView>, TypeMismatch> {
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

    fn decide(&self, undecided: &Undecided, choice: Choice) -> Result<Resolved, TypeMismatch> {
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

/// A chart before values decide, with the subcharts that it wants under their aliases. Counterpart: `processDependencyEnabled`.
#[derive(Debug)]
struct Undecided {
    /// All wanted subcharts are on, and what lies below them is as it is in `charts/`.
    view: ChartView,
    /// The wanted subcharts; made when they are first asked.
    subcharts: Vec<OnceLock<Undecided>>,
}

impl Undecided {
    fn new(mut view: ChartView) -> Undecided {
        if !view.metadata.dependencies.is_empty() {
            view.dependencies = wanted(&view);
        }
        for dependency in &mut view.metadata.dependencies {
            if !dependency.alias.is_empty() {
                dependency.name.clone_from(&dependency.alias);
            }
            dependency.enabled = true;
        }
        let subcharts = view.dependencies.iter().map(|_| OnceLock::new()).collect();
        Undecided { view, subcharts }
    }

    /// Appends what the values choose.
    fn choose(
        &self,
        values: &Map,
        path: &str,
        choice: &mut Choice,
        warnings: &mut Vec<String>,
    ) -> Result<(), TypeMismatch> {
        if self.view.metadata.dependencies.is_empty() {
            return Ok(());
        }
        let merged = coalesce(&self.view, values, Nulls::Remove, warnings)?;
        let on: Vec<bool> = self.enabled(&merged, path, warnings);
        choice.extend(&on);
        for subchart in self.chosen(&on) {
            let inner = format!("{path}{}.", subchart.view.metadata.name);
            subchart.choose(&merged, &inner, choice, warnings)?;
        }
        Ok(())
    }

    /// Whether each dependency is on. A condition speaks louder than tags.
    fn enabled(&self, values: &Map, path: &str, warnings: &mut Vec<String>) -> Vec<bool> {
        let tags = match values.get("tags") {
            Some(Value::Map(tags)) => tags,
            _ => Map::default(),
        };
        let dependencies = &self.view.metadata.dependencies;
        let by_tags: Vec<bool> = dependencies.iter().map(|d| tags_allow(d, &tags, warnings)).collect();
        let by_condition = dependencies.iter().map(|d| condition(d, values, path, warnings));
        by_tags.into_iter().zip(by_condition).map(|(by_tags, on)| on.unwrap_or(by_tags)).collect()
    }

    /// The subcharts that are on, for what each dependency is.
    fn chosen<'a>(&'a self, on: &'a [bool]) -> impl Iterator<Item = &'a Undecided> {
        let off = self.view.metadata.dependencies.iter().zip(on).filter(|(_, on)| !**on);
        let off: Vec<&str> = off.map(|(dependency, _)| dependency.name.as_str()).collect();
        let subcharts = self.view.dependencies.iter().zip(&self.subcharts);
        subcharts
            .filter(move |(view, _)| !off.contains(&view.metadata.name.as_str()))
            .map(|(view, subchart)| subchart.get_or_init(|| Undecided::new(view.clone())))
    }

    /// The view that the choice makes.
    fn decided(&self, choice: &mut impl Iterator<Item = bool>) -> ChartView {
        let mut view = self.view.clone();
        if view.metadata.dependencies.is_empty() {
            return view;
        }
        let on: Vec<bool> = choice.by_ref().take(view.metadata.dependencies.len()).collect();
        let off = |name: &str| {
            let mut entries = self.view.metadata.dependencies.iter().zip(&on);
            entries.any(|(dependency, on)| !on && dependency.name == name)
        };
        view.metadata.dependencies.retain(|dependency| !off(&dependency.name));
        view.dependencies = self.chosen(&on).map(|subchart| subchart.decided(choice)).collect();
        view
    }
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

/// Whether the dependency is on by its tags: unless some are off and none is on.
fn tags_allow(dependency: &Dependency, tags: &Map, warnings: &mut Vec<String>) -> bool {
    let (mut on, mut off) = (false, false);
    for tag in &dependency.tags {
        match tags.get(tag) {
            Some(Value::Bool(true)) => on = true,
            Some(Value::Bool(false)) => off = true,
            None => {}
            Some(_) => warnings.push(format!("tag {tag:?} of subchart {:?} is not a boolean", dependency.name)),
        }
    }
    on || !off
}

/// What the first of the dependency's conditions says that says something.
fn condition(dependency: &Dependency, values: &Map, path: &str, warnings: &mut Vec<String>) -> Option<bool> {
    for condition in dependency.condition.trim().split(',').filter(|c| !c.is_empty()) {
        match values::scalar_at(values, &format!("{path}{condition}")) {
            Some(Value::Bool(on)) => return Some(on),
            None => {}
            Some(_) => {
                warnings.push(format!("condition {condition:?} of subchart {:?} is not a boolean", dependency.name));
            }
        }
    }
    None
}

/// Counterpart: `processDependencyImportValues`, with nulls kept.
fn import(view: &mut ChartView, warnings: &mut Vec<String>) -> Result<(), TypeMismatch> {
    for dependency in &mut view.dependencies {
        import(dependency, warnings)?;
    }
    if view.metadata.dependencies.is_empty() {
        return Ok(());
    }
    let merged = coalesce(view, &Map::default(), Nulls::Keep, warnings)?;
    let imported = Map::default();
    for dependency in &mut view.metadata.dependencies {
        let mut done = Vec::new();
        for wanted in &dependency.import_values {
            let Some((child, parent)) = import_paths(wanted) else { continue };
            let pair: Map = [("child", child.as_str()), ("parent", parent.as_str())].into_iter().collect();
            done.push(Value::Map(pair));
            match values::table_at(&merged, &format!("{}.{child}", dependency.name)) {
                Some(table) => merge_tables(&imported, &nested(&parent, table), warnings),
                None => warnings.push(format!("subchart {:?} has no table {child:?} to import", dependency.name)),
            }
        }
        dependency.import_values = done;
    }
    let values = merged.deep_copy();
    merge_tables(&values, &imported, warnings);
    view.set_values(&values);
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
