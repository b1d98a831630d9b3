//! The order of a chart's objects that HIP-0025 describes: resource groups within a chart, and subcharts within a
//! parent. A pure function of the rendered objects and the charts' metadata.
//!
//! Counterpart: helm/community's `hips/hip-0025.md`, a draft. Helm 4.3 does not implement it yet.

mod annotations;
mod charts;
mod conditions;
mod graph;
mod groups;
mod late;
mod path;
mod problem;
mod readiness;
#[cfg(test)]
mod tests;
mod turn;

use std::borrow::Cow;

use crate::chart::Chart;
use crate::manifest::Manifest;

pub use charts::{Subcharts, chart_of};
pub use late::Late;
pub use problem::{Problem, SequenceError};
pub use readiness::{FAILURE, SUCCESS, Verdict, judge};
pub use turn::Turn;

/// The annotation that puts an object into a group.
pub const GROUP: &str = "helm.sh/resource-group";
/// The annotation with the groups that an object's group waits for. As a key it is invalid for Kubernetes, because it
/// has two slashes.
pub const DEPENDS_ON_GROUPS: &str = "helm.sh/depends-on/resource-groups";
/// The annotation in `Chart.yaml` with the subcharts that the chart's own objects wait for.
pub const DEPENDS_ON_SUBCHARTS: &str = "helm.sh/depends-on/subcharts";

/// The order of a chart's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The stages. Each comes after those that it waits for.
    pub stages: Vec<Stage>,
    /// Parts of the order that its author probably did not intend.
    pub problems: Vec<Problem>,
}

/// Objects that are applied together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The chart: `foo`, or `foo/bar` for its subchart `bar`.
    pub chart: String,
    /// The group; `None` for the chart's other objects.
    pub group: Option<String>,
    /// The positions of the objects among those that the order is of.
    pub objects: Vec<usize>,
    /// The positions of the stages whose objects must be ready before.
    pub after: Vec<usize>,
}

/// An object's annotations about its place in the order.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    template: &'a str,
    kind: &'a str,
    name: &'a str,
    group: Option<&'a str>,
    depends_on: Option<&'a str>,
    success: Option<&'a str>,
    failure: Option<&'a str>,
}

impl<'a> Part<'a> {
    /// Creates the part of an object with these annotations, which a template such as `foo/templates/a.yaml` rendered.
    pub fn new(
        template: &'a str,
        (kind, name): (&'a str, &'a str),
        find: impl Fn(&str) -> Option<&'a str>,
    ) -> Part<'a> {
        Part {
            template,
            kind,
            name,
            group: find(GROUP).filter(|group| !group.is_empty()),
            depends_on: find(DEPENDS_ON_GROUPS),
            success: find(SUCCESS),
            failure: find(FAILURE),
        }
    }
}

impl<'a> From<&'a Manifest> for Part<'a> {
    fn from(of: &'a Manifest) -> Part<'a> {
        let head = &of.head;
        Part::new(&of.path, (&head.kind, &head.name), |key| head.annotation(key))
    }
}

/// Determines the order of the objects that a chart rendered.
///
/// # Errors
/// Groups or subcharts wait for each other, or a list is malformed.
pub fn sequence(chart: &Chart, manifests: &[Manifest]) -> Result<Sequence, SequenceError> {
    let parts: Vec<Part<'_>> = manifests.iter().map(Part::from).collect();
    Subcharts::of(chart)?.sequence(&parts)
}

impl Sequence {
    /// Returns the stages by the longest chain of stages that each waits for: those of one item can be applied at the
    /// same time.
    pub fn rounds(&self) -> Vec<Vec<&Stage>> {
        let depths = self.depths();
        let count = depths.iter().max().map_or(0, |depth| depth + 1);
        let mut rounds = vec![Vec::new(); count];
        for (stage, depth) in self.stages.iter().zip(depths) {
            rounds[depth].push(stage);
        }
        rounds
    }

    /// Returns the turn of each of this many objects.
    pub fn turns(&self, objects: usize) -> Vec<Turn> {
        let mut turns = vec![Turn::default(); objects];
        for (at, (stage, depth)) in self.stages.iter().zip(self.depths()).enumerate() {
            let is_awaited = self.stages.iter().any(|other| other.after.contains(&at));
            let turn = Turn::of_round(depth + 1);
            let turn = if is_awaited { turn.awaited() } else { turn };
            for object in &stage.objects {
                if let Some(its) = turns.get_mut(*object) {
                    *its = turn;
                }
            }
        }
        turns
    }

    /// Returns for each stage how long the longest chain of stages is that it waits for.
    fn depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            let before = stage.after.iter().filter_map(|at| depths.get(*at)).max();
            depths.push(before.map_or(0, |depth| depth + 1));
        }
        depths
    }
}

impl Stage {
    /// Returns the stage's name for people: `foo/bar database`, or `foo/bar` for the chart's other objects.
    pub fn name(&self) -> String {
        name(&self.chart, self.group.as_deref()).into_owned()
    }
}

/// Returns the name of a chart's group for people, or of the chart's other objects.
pub fn name<'a>(chart: &'a str, group: Option<&str>) -> Cow<'a, str> {
    group.map_or(Cow::Borrowed(chart), |group| format!("{chart} {group}").into())
}
