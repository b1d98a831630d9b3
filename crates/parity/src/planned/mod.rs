//! Checks that a plan (`diff`) names every write of the reconcile that follows it, and no other: object by object
//! against the API server's audit log, field by field against the objects before and after.
//!
//! Each chart is copied. An additional template provides the objects for changes that not every chart supports: one to
//! prune, one with an immutable field, hooks, and one that someone else owns. Then the chart goes through all
//! [changes](Change), each planned first.
//!
//! ```text
//! chart ─▶ copy ─▶ for each change: plan ─▶ change ─▶ the operator reconciles ─▶ audit log, objects ─▶ agree
//! ```

pub mod agree;

mod audit;
mod controllers;
mod copy;
mod report;
mod serving;
mod walk;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::corpus::Chart;
use crate::kinds;
use crate::operator;
use crate::plane::Plane;
pub use report::Report;

/// What to plan, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The charts to choose from.
    pub charts: Vec<Chart>,
    /// The maximum number of charts to take through all changes. Charts that cannot be installed do not count.
    pub wanted: usize,
    /// The operator binary; called with `run` and `diff`.
    pub operator: PathBuf,
    /// Time after which no further chart starts.
    pub limit: Duration,
}

/// A change that is planned, and then made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The install, with objects of the release that exist already and are to be adopted.
    Adopted,
    /// Other values.
    Values,
    /// The former values, and fewer objects.
    Prune,
    /// Values that add hooks.
    Hook,
    /// Values that add an object that someone else has.
    Conflict,
    /// Fields that someone else changed, and objects that someone else deleted.
    Drift,
    /// An immutable field of objects that must not be recreated.
    Refused,
    /// An immutable field of objects that may be recreated, including the chart's own workloads.
    Immutable,
    /// Another version of the chart.
    Version,
}

impl Change {
    /// All changes, in the order in which a chart goes through them.
    pub const ALL: [Change; 9] = [
        Change::Adopted,
        Change::Values,
        Change::Prune,
        Change::Hook,
        Change::Conflict,
        Change::Drift,
        Change::Refused,
        Change::Immutable,
        Change::Version,
    ];
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Change::Adopted => "install with adopted objects",
            Change::Values => "values",
            Change::Prune => "prune",
            Change::Hook => "hook",
            Change::Conflict => "conflict over an object",
            Change::Drift => "conflict over fields",
            Change::Refused => "immutable field, refused",
            Change::Immutable => "immutable field, recreated",
            Change::Version => "chart version",
        })
    }
}

/// Takes charts through all changes.
///
/// # Errors
/// If the API server or the operator cannot run. Differences are not errors; the report has them.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let (began, mut report) = (Instant::now(), Report::default());
    let mut plane = Plane::start_audited(audit::POLICY).await?;
    let prerequisites = kinds::prerequisites(&options.charts, &plane.groups().await?);
    plane.add_namespaces(&prerequisites.namespaces).await?;
    plane.add_crds(&prerequisites.shared).await?;
    plane.add_crds(&operator::crds(1)).await?;
    plane.mark_baseline().await?;
    for (chart, crds) in options.charts.iter().zip(&prerequisites.of_chart) {
        if report.whole() >= options.wanted || began.elapsed() > options.limit {
            break;
        }
        let started = Instant::now();
        let mut rows = Vec::new();
        if let Err(error) = walk::walk(&plane, &options.operator, chart, crds, &mut rows).await {
            report.broken(&chart.name, &format!("after {} changes: {error:#}", rows.len()));
        }
        // A definition with many resources may need longer on a busy machine.
        if plane.clear().await.is_err() {
            plane.clear().await?;
        }
        report.add(&chart.name, rows, started.elapsed());
    }
    Ok(report)
}
