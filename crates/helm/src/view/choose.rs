//! Determines which subcharts are enabled, by version, condition and tags. Counterpart: `processDependencyEnabled` in Helm's
//! `pkg/chart/v2/util/dependencies.go`.

use std::sync::OnceLock;

use go_template::{Map, Value};
use golibs::semver::{Constraint, Version};

use super::ChartView;
use super::coalesce::{Nulls, TypeMismatch, coalesce};
use crate::chart::Dependency;
use crate::values;

/// Maximum number of subcharts and dependencies in a view: an alias repeats a subchart and all its dependencies. Helm has no such limit.
pub const MAX_SUBCHARTS: usize = 10_000;

/// The reason why it is undetermined which subcharts are enabled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A subchart's values are not a table.
    #[error(transparent)]
    Values(#[from] TypeMismatch),
    /// There are more than [`MAX_SUBCHARTS`].
    #[error("more than {MAX_SUBCHARTS} subcharts are enabled (limit MAX_SUBCHARTS)")]
    TooManySubcharts,
}

impl ResolveError {
    /// Returns the text without values, which may be secret.
    pub(crate) fn without_value(&self) -> String {
        match self {
            ResolveError::Values(mismatch) => mismatch.without_value(),
            ResolveError::TooManySubcharts => self.to_string(),
        }
    }
}

/// Whether each evaluated dependency is enabled, in depth-first order.
pub(super) type Choice = Vec<bool>;

/// A chart before values enable or disable subcharts, with its dependencies under their aliases.
#[derive(Debug)]
pub(super) struct Undecided {
    /// The view in which all dependencies are enabled; the dependencies' own subcharts are as in `charts/`.
    view: ChartView,
    /// The dependencies, created on first use.
    subcharts: Vec<OnceLock<Undecided>>,
}

impl Undecided {
    pub(super) fn new(mut view: ChartView) -> Undecided {
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

    /// Appends the choice that the values determine.
    pub(super) fn choose(
        &self,
        values: &Map,
        path: &str,
        choice: &mut Choice,
        warnings: &mut Vec<String>,
    ) -> Result<(), ResolveError> {
        if self.view.metadata.dependencies.is_empty() {
            return Ok(());
        }
        if choice.len() + self.view.metadata.dependencies.len() > MAX_SUBCHARTS {
            return Err(ResolveError::TooManySubcharts);
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

    /// Returns whether each dependency is enabled. A condition overrides tags.
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

    /// Returns the enabled subcharts. `on` has an item for each dependency.
    fn chosen<'a>(&'a self, on: &'a [bool]) -> impl Iterator<Item = &'a Undecided> {
        let off = self.view.metadata.dependencies.iter().zip(on).filter(|(_, on)| !**on);
        let off: Vec<&str> = off.map(|(dependency, _)| dependency.name.as_str()).collect();
        let subcharts = self.view.dependencies.iter().zip(&self.subcharts);
        subcharts
            .filter(move |(view, _)| !off.contains(&view.metadata.name.as_str()))
            .map(|(view, subchart)| subchart.get_or_init(|| Undecided::new(view.clone())))
    }

    /// Returns the view with all subcharts. `count` is the number of dependencies so far.
    pub(super) fn everything(&self, count: &mut usize) -> Result<ChartView, ResolveError> {
        let mut view = self.view.clone();
        *count += view.metadata.dependencies.len();
        if *count > MAX_SUBCHARTS {
            return Err(ResolveError::TooManySubcharts);
        }
        if !view.metadata.dependencies.is_empty() {
            let on = vec![true; view.metadata.dependencies.len()];
            view.dependencies =
                self.chosen(&on).map(|subchart| subchart.everything(count)).collect::<Result<_, _>>()?;
        }
        Ok(view)
    }

    pub(super) fn decided(&self, choice: &mut impl Iterator<Item = bool>) -> ChartView {
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

/// Returns the subcharts that `Chart.yaml` does not list, followed by one for each entry, under its alias.
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

/// Returns whether the version is in the range, or `false` if one of them is malformed. Counterpart: `IsCompatibleRange`.
pub(crate) fn in_range(range: &str, version: &str) -> bool {
    match (Version::parse(version), Constraint::parse(range)) {
        (Ok(version), Ok(range)) => range.check(&version),
        _ => false,
    }
}

/// Returns whether tags enable the dependency: a tag enables it, or no tag disables it.
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

/// Returns the first of the dependency's conditions that is set, if any is.
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
