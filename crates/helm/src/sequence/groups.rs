//! Orders the objects of one chart by their groups. A group that waits for no other, and for which no other waits, is
//! ignored.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Waits, sorted};
use super::{DEPENDS_ON_GROUPS, Part, Problem, Sequence, SequenceError, Stage, annotations};

/// Adds the stages of a chart's own objects, which are at these positions among the parts. The first ones wait for the stages in `after`. Returns
/// the last ones.
pub(super) fn add(
    sequence: &mut Sequence,
    chart: &str,
    parts: &[Part<'_>],
    own: &[usize],
    after: &[usize],
) -> Result<Vec<usize>, SequenceError> {
    let mut groups = Groups::read(parts, own)?;
    groups.drop_unknown(chart, &mut sequence.problems);
    groups.drop_isolated();
    let cycle = |members| SequenceError::GroupCycle { chart: chart.to_owned(), members };
    let order = sorted(&groups.waits).map_err(cycle)?;
    let mut placed: BTreeMap<&str, usize> = BTreeMap::new();
    let mut last: BTreeSet<usize> = BTreeSet::new();
    for name in &order {
        let on = &groups.waits[name];
        let before: Vec<usize> = on.iter().filter_map(|one| placed.get(one.as_str()).copied()).collect();
        before.iter().for_each(|at| _ = last.remove(at));
        let at = sequence.stages.len();
        let objects = groups.objects.get(name).cloned().unwrap_or_default();
        let waits = if before.is_empty() { after.to_vec() } else { before };
        sequence.stages.push(Stage { chart: chart.to_owned(), group: Some(name.clone()), objects, after: waits });
        placed.insert(name, at);
        last.insert(at);
    }
    let rest: Vec<usize> = own.iter().copied().filter(|at| !groups.has(*at)).collect();
    if rest.is_empty() {
        return Ok(last.into_iter().collect());
    }
    let waits = if last.is_empty() { after.to_vec() } else { last.into_iter().collect() };
    sequence.stages.push(Stage { chart: chart.to_owned(), group: None, objects: rest, after: waits });
    Ok(vec![sequence.stages.len() - 1])
}

#[derive(Default)]
struct Groups {
    /// The positions of each group's objects.
    objects: BTreeMap<String, Vec<usize>>,
    /// The groups that each group waits for.
    waits: Waits,
}

impl Groups {
    fn read(parts: &[Part<'_>], own: &[usize]) -> Result<Groups, SequenceError> {
        let mut groups = Groups::default();
        for at in own {
            let part = &parts[*at];
            let malformed = || SequenceError::List { place: part.template.to_owned(), key: DEPENDS_ON_GROUPS };
            let on = part.depends_on.map_or(Ok(Vec::new()), |text| annotations::names(text).ok_or_else(malformed))?;
            // An object without a group comes last, after everything that it could wait for.
            if let Some(group) = part.group {
                groups.objects.entry(group.to_owned()).or_default().push(*at);
                groups.waits.entry(group.to_owned()).or_default().extend(on);
            }
        }
        Ok(groups)
    }

    /// Drops the groups that wait for one that does not exist, and those that wait for them.
    fn drop_unknown(&mut self, chart: &str, problems: &mut Vec<Problem>) {
        let mut is_first = true;
        loop {
            let lacks = |(group, on): (&String, &BTreeSet<String>)| {
                let missing = on.iter().find(|one| !self.waits.contains_key(*one))?;
                Some((group.clone(), missing.clone()))
            };
            let found: Vec<(String, String)> = self.waits.iter().filter_map(lacks).collect();
            if found.is_empty() {
                return;
            }
            for (group, missing) in found {
                self.waits.remove(&group);
                if is_first {
                    problems.push(Problem::UnknownGroup { chart: chart.to_owned(), group, missing });
                }
            }
            is_first = false;
        }
    }

    fn drop_isolated(&mut self) {
        let awaited: BTreeSet<String> = self.waits.values().flatten().cloned().collect();
        self.waits.retain(|group, on| !on.is_empty() || awaited.contains(group));
    }

    /// Returns whether the object at this position is in a group that counts.
    fn has(&self, at: usize) -> bool {
        self.waits.keys().any(|group| self.objects.get(group).is_some_and(|objects| objects.contains(&at)))
    }
}
