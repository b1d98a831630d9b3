//! Orders a chart's own objects and its subcharts, each with everything below it.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Waits, sorted};
use super::{DEPENDS_ON_SUBCHARTS, Part, Problem, Sequence, SequenceError, annotations, groups, readiness};
use crate::chart::{Chart, DependsOn};

/// What a chart and those below it declare about the order of subcharts, without their templates and values.
#[derive(Clone, Debug)]
pub struct Subcharts {
    /// The chart's name: an alias, or else its own.
    name: String,
    /// The subcharts by name or alias, each after those that it waits for.
    sorted: Vec<String>,
    waits: Waits,
    /// The subcharts that the chart's own objects wait for.
    own: BTreeSet<String>,
    /// The subcharts' own declarations; subcharts that are only listed are missing.
    below: BTreeMap<String, Subcharts>,
    /// What the author probably did not mean.
    problems: Vec<Problem>,
}

impl Subcharts {
    /// Reads what a chart declares.
    ///
    /// # Errors
    /// Subcharts wait for each other, or a list is malformed.
    pub fn of(chart: &Chart) -> Result<Subcharts, SequenceError> {
        let name = &chart.metadata.name;
        Subcharts::at(chart, name, name)
    }

    /// Returns what a chart without subcharts declares.
    pub fn none(chart: &str) -> Subcharts {
        Subcharts {
            name: chart.to_owned(),
            sorted: Vec::new(),
            waits: Waits::new(),
            own: BTreeSet::new(),
            below: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    fn at(chart: &Chart, path: &str, name: &str) -> Result<Subcharts, SequenceError> {
        let mut problems = Vec::new();
        let mut waits: Waits = names(chart).into_iter().map(|name| (name, BTreeSet::new())).collect();
        let malformed = |key| SequenceError::List { place: format!("Chart.yaml of {path}"), key };
        for DependsOn { subchart, names } in &chart.depends_on {
            let on = names.as_ref().ok_or_else(|| malformed("depends-on"))?;
            let known = known(path, &format!("subchart {subchart:?}"), on, &waits, &mut problems);
            waits.entry(subchart.clone()).or_default().extend(known);
        }
        let annotation = chart.metadata.annotations.iter().find(|(key, _)| key == DEPENDS_ON_SUBCHARTS);
        let on = annotation.map_or(Ok(Vec::new()), |(_, text)| {
            annotations::names(text).ok_or_else(|| malformed(DEPENDS_ON_SUBCHARTS))
        })?;
        let own = known(path, "its own objects", &on, &waits, &mut problems).into_iter().collect();
        let cycle = |members| SequenceError::SubchartCycle { chart: path.to_owned(), members };
        let sorted = sorted(&waits).map_err(cycle)?;
        let mut below = BTreeMap::new();
        for name in &sorted {
            if let Some(subchart) = subchart(chart, name) {
                below.insert(name.clone(), Subcharts::at(subchart, &format!("{path}/{name}"), name)?);
            }
        }
        Ok(Subcharts { name: name.to_owned(), sorted, waits, own, below, problems })
    }

    /// Determines the order of the chart's objects. One whose template belongs to no known chart counts as the chart's own.
    ///
    /// # Errors
    /// Groups wait for each other, or a list is malformed.
    pub fn sequence(&self, parts: &[Part<'_>]) -> Result<Sequence, SequenceError> {
        let place = |part: &Part<'_>| {
            Some(chart_of(part.template)).filter(|path| self.has(path)).unwrap_or_else(|| self.name.clone())
        };
        let rendered = Rendered { parts, charts: parts.iter().map(place).collect() };
        let mut sequence = Sequence::default();
        self.add(&mut sequence, &self.name, &rendered, &[])?;
        sequence.problems.extend(parts.iter().flat_map(readiness::problems));
        Ok(sequence)
    }

    /// Returns whether a path such as `foo/bar` is this chart or one below it.
    fn has(&self, path: &str) -> bool {
        let mut names = path.split('/');
        let is_root = names.next() == Some(&self.name);
        is_root && names.try_fold(self, |chart, name| chart.below.get(name)).is_some()
    }

    /// Adds the stages of the chart with its subcharts. The first ones wait for the stages in `after`. Returns those that must be ready for the chart
    /// to be ready: its last ones, or without any objects those that it waits for itself.
    fn add(
        &self,
        sequence: &mut Sequence,
        path: &str,
        rendered: &Rendered<'_>,
        after: &[usize],
    ) -> Result<Vec<usize>, SequenceError> {
        sequence.problems.extend(self.problems.iter().cloned());
        let mut ready: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut last = BTreeSet::new();
        let before = |on: &BTreeSet<String>, ready: &BTreeMap<String, Vec<usize>>| {
            let stages: BTreeSet<usize> = on.iter().filter_map(|name| ready.get(name)).flatten().copied().collect();
            if stages.is_empty() { after.to_vec() } else { stages.into_iter().collect::<Vec<_>>() }
        };
        for name in &self.sorted {
            let waits = before(&self.waits[name], &ready);
            let done = match self.below.get(name) {
                Some(subchart) => subchart.add(sequence, &format!("{path}/{name}"), rendered, &waits)?,
                None => waits,
            };
            last.extend(done.iter().copied());
            ready.insert(name.clone(), done);
        }
        let own: Vec<usize> = (0..rendered.parts.len()).filter(|at| rendered.charts[*at] == path).collect();
        let waits = before(&self.own, &ready);
        if own.is_empty() {
            last.extend(waits);
        } else {
            last.extend(groups::add(sequence, path, rendered.parts, &own, &waits)?);
        }
        // Only what nothing else here waits for is last.
        let awaited: BTreeSet<usize> = sequence.stages.iter().flat_map(|stage| stage.after.iter().copied()).collect();
        let open: Vec<usize> = last.iter().copied().filter(|at| !awaited.contains(at)).collect();
        Ok(if open.is_empty() { last.into_iter().collect() } else { open })
    }
}

/// The objects of a render, with the path of each one's chart.
struct Rendered<'a> {
    parts: &'a [Part<'a>],
    charts: Vec<String>,
}

/// Returns the names that the chart has, and reports the others.
fn known(path: &str, waiting: &str, on: &[String], all: &Waits, problems: &mut Vec<Problem>) -> Vec<String> {
    let (known, missing): (Vec<String>, Vec<String>) = on.iter().cloned().partition(|name| all.contains_key(name));
    let problem = |missing| Problem::UnknownSubchart { chart: path.to_owned(), waiting: waiting.to_owned(), missing };
    problems.extend(missing.into_iter().map(problem));
    known
}

/// Returns the names of a chart's subcharts in paths: an alias, or else the name.
fn names(chart: &Chart) -> BTreeSet<String> {
    let listed = &chart.metadata.dependencies;
    let named = listed.iter().map(|one| if one.alias.is_empty() { one.name.clone() } else { one.alias.clone() });
    let is_listed = |name: &str| listed.iter().any(|one| one.name == name);
    let others = chart.dependencies.iter().map(|one| one.metadata.name.clone()).filter(|name| !is_listed(name));
    named.chain(others).collect()
}

fn subchart<'c>(chart: &'c Chart, name: &str) -> Option<&'c Chart> {
    let aliased = chart.metadata.dependencies.iter().find(|one| one.alias == name);
    let name = aliased.map_or(name, |one| &one.name);
    chart.dependencies.iter().find(|one| one.metadata.name == name).map(|one| &**one)
}

/// Returns the chart of a template: `foo/bar` for `foo/charts/bar/templates/a.yaml`.
pub fn chart_of(template: &str) -> String {
    let folder = template.split_once("/templates/").map_or(template, |(folder, _)| folder);
    folder.replace("/charts/", "/")
}
