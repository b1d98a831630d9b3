//! The order of a chart's objects that HIP-0025 describes: resource groups within a chart, and subcharts within a parent. A pure function of the
//! rendered manifests and the charts' metadata.
//!
//! Counterpart: helm/community's `hips/hip-0025.md`, a draft. Helm 4.3 does not implement it yet.

mod annotations;
mod charts;
mod graph;
mod groups;
mod problem;
mod readiness;
#[cfg(test)]
mod tests;

use crate::chart::Chart;
use crate::manifest::Manifest;

pub use problem::{Problem, SequenceError};

/// The annotation that puts an object into a group.
pub const GROUP: &str = "helm.sh/resource-group";
/// The annotation with the groups that an object's group waits for. As a key it is invalid for Kubernetes, because it has two slashes.
pub const DEPENDS_ON_GROUPS: &str = "helm.sh/depends-on/resource-groups";
/// The annotation in `Chart.yaml` with the subcharts that the chart's own objects wait for.
pub const DEPENDS_ON_SUBCHARTS: &str = "helm.sh/depends-on/subcharts";

/// The order of a chart's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The stages. Each comes after those that it waits for.
    pub stages: Vec<Stage>,
    /// What the author probably did not mean.
    pub problems: Vec<Problem>,
}

/// Objects that are applied together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The chart: `foo`, or `foo/bar` for its subchart `bar`.
    pub chart: String,
    /// The group; `None` for the chart's other objects.
    pub group: Option<String>,
    /// The positions of the objects among the manifests.
    pub objects: Vec<usize>,
    /// The positions of the stages whose objects must be ready before.
    pub after: Vec<usize>,
}

/// Determines the order of the objects that a chart rendered.
///
/// # Errors
/// Groups or subcharts wait for each other, or a list is malformed.
pub fn sequence(chart: &Chart, manifests: &[Manifest]) -> Result<Sequence, SequenceError> {
    let mut sequence = Sequence::default();
    charts::add(&mut sequence, chart, &chart.metadata.name, manifests, &[])?;
    sequence.problems.extend(manifests.iter().flat_map(readiness::problems));
    Ok(sequence)
}

impl Sequence {
    /// Returns the stages by the longest chain of stages that each waits for: those of one item can be applied at the same time.
    pub fn rounds(&self) -> Vec<Vec<&Stage>> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            let before = stage.after.iter().filter_map(|at| depths.get(*at)).max();
            depths.push(before.map_or(0, |depth| depth + 1));
        }
        let count = depths.iter().max().map_or(0, |depth| depth + 1);
        let mut rounds = vec![Vec::new(); count];
        for (stage, depth) in self.stages.iter().zip(depths) {
            rounds[depth].push(stage);
        }
        rounds
    }
}

impl Stage {
    /// Returns the stage's name for people: `foo/bar database`, or `foo/bar` for the chart's other objects.
    pub fn name(&self) -> String {
        match &self.group {
            Some(group) => format!("{} {group}", self.chart),
            None => self.chart.clone(),
        }
    }
}
