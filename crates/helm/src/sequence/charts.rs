//! Orders a chart's own objects and its subcharts, each with everything below it.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Waits, sorted};
use super::{DEPENDS_ON_SUBCHARTS, Problem, Sequence, SequenceError, annotations, groups};
use crate::chart::{Chart, DependsOn};
use crate::manifest::Manifest;

/// Adds the stages of a chart with its subcharts. The first ones wait for the stages in `after`. Returns those that must be ready for the chart to be
/// ready: its last ones, or without any objects those that it waits for itself.
pub(super) fn add(
    sequence: &mut Sequence,
    chart: &Chart,
    path: &str,
    manifests: &[Manifest],
    after: &[usize],
) -> Result<Vec<usize>, SequenceError> {
    let order = Order::of(chart, path, &mut sequence.problems)?;
    let mut ready: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut last = BTreeSet::new();
    let before = |on: &BTreeSet<String>, ready: &BTreeMap<String, Vec<usize>>| {
        let stages: BTreeSet<usize> = on.iter().filter_map(|name| ready.get(name)).flatten().copied().collect();
        if stages.is_empty() { after.to_vec() } else { stages.into_iter().collect::<Vec<_>>() }
    };
    for name in &order.sorted {
        let waits = before(&order.waits[name], &ready);
        let below = format!("{path}/{name}");
        let done = match subchart(chart, name) {
            Some(subchart) => add(sequence, subchart, &below, manifests, &waits)?,
            None => waits,
        };
        last.extend(done.iter().copied());
        ready.insert(name.clone(), done);
    }
    let own: Vec<usize> = (0..manifests.len()).filter(|at| chart_of(&manifests[*at].path) == path).collect();
    let waits = before(&order.own, &ready);
    if own.is_empty() {
        last.extend(waits);
    } else {
        last.extend(groups::add(sequence, path, manifests, &own, &waits)?);
    }
    // Only what nothing else here waits for is last.
    let awaited: BTreeSet<usize> = sequence.stages.iter().flat_map(|stage| stage.after.iter().copied()).collect();
    let open: Vec<usize> = last.iter().copied().filter(|at| !awaited.contains(at)).collect();
    Ok(if open.is_empty() { last.into_iter().collect() } else { open })
}

/// What a chart declares about its subcharts.
struct Order {
    /// The subcharts by name or alias, each after those that it waits for.
    sorted: Vec<String>,
    waits: Waits,
    /// The subcharts that the chart's own objects wait for.
    own: BTreeSet<String>,
}

impl Order {
    fn of(chart: &Chart, path: &str, problems: &mut Vec<Problem>) -> Result<Order, SequenceError> {
        let mut waits: Waits = names(chart).into_iter().map(|name| (name, BTreeSet::new())).collect();
        let malformed = |key| SequenceError::List { place: format!("Chart.yaml of {path}"), key };
        for DependsOn { subchart, names } in &chart.depends_on {
            let on = names.as_ref().ok_or_else(|| malformed("depends-on"))?;
            let known = known(path, &format!("subchart {subchart:?}"), on, &waits, problems);
            waits.entry(subchart.clone()).or_default().extend(known);
        }
        let annotation = chart.metadata.annotations.iter().find(|(key, _)| key == DEPENDS_ON_SUBCHARTS);
        let on = annotation.map_or(Ok(Vec::new()), |(_, text)| {
            annotations::names(text).ok_or_else(|| malformed(DEPENDS_ON_SUBCHARTS))
        })?;
        let own = known(path, "its own objects", &on, &waits, problems).into_iter().collect();
        let cycle = |members| SequenceError::SubchartCycle { chart: path.to_owned(), members };
        Ok(Order { sorted: sorted(&waits).map_err(cycle)?, waits, own })
    }
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
fn chart_of(template: &str) -> String {
    let folder = template.split_once("/templates/").map_or(template, |(folder, _)| folder);
    folder.replace("/charts/", "/")
}
