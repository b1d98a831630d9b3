//! Takes one installer through all charts: install, upgrade to each further case, uninstall, with a snapshot after each
//! step.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::compare::{Action, Snapshot};
use crate::corpus::{Case, Chart};
use crate::live::Objects;
use crate::outcome::Outcome;
use crate::plane::Plane;

pub(crate) const RELEASE: &str = "rel";

/// Installs releases: Helm in one of its modes, or the operator.
pub(crate) trait Installer {
    /// Returns the name for progress output.
    fn name(&self) -> &'static str;
    /// Returns the API server that it installs to.
    fn plane(&self) -> &Plane;
    async fn install(&self, chart: &Chart, case: &Case) -> anyhow::Result<Outcome>;
    async fn upgrade(&self, chart: &Chart, case: &Case) -> anyhow::Result<Outcome>;
    async fn uninstall(&self, chart: &Chart) -> anyhow::Result<Outcome>;
}

/// The charts to walk through.
pub(crate) struct Route<'a> {
    pub(crate) charts: Vec<&'a Chart>,
    /// CRDs that each chart needs, by index.
    pub(crate) crds: Vec<&'a [Value]>,
    /// Time after which no chart starts.
    pub(crate) until: Instant,
    pub(crate) progress: Progress,
}

/// Prints a line for each chart that all installers have finished.
pub(crate) struct Progress {
    installers: usize,
    done: Mutex<Vec<Vec<(&'static str, Duration)>>>,
}

/// Walks through the charts; returns the snapshots of each. Stops early at the time limit.
pub(crate) async fn walk(installer: &impl Installer, route: &Route<'_>) -> anyhow::Result<Vec<Vec<Snapshot>>> {
    let mut all = Vec::new();
    for (index, (chart, crds)) in route.charts.iter().zip(&route.crds).enumerate() {
        let began = Instant::now();
        if began > route.until {
            break;
        }
        let seen = chart_steps(installer, chart, crds).await;
        all.push(seen.with_context(|| format!("{} by {}", chart.name, installer.name()))?);
        route.progress.done(index, route.charts.len(), &chart.name, installer.name(), began.elapsed());
    }
    Ok(all)
}

async fn chart_steps(installer: &impl Installer, chart: &Chart, crds: &[Value]) -> anyhow::Result<Vec<Snapshot>> {
    installer.plane().add_crds(crds).await?;
    let mut all: Vec<Snapshot> = Vec::new();
    for case in &chart.cases {
        let upgrade = all.last().is_some_and(|last| last.outcome.is_done());
        let (action, outcome) = match upgrade {
            true => (Action::Upgrade, installer.upgrade(chart, case).await?),
            false => (Action::Install, installer.install(chart, case).await?),
        };
        let refused = !outcome.is_done();
        all.push(snapshot(installer, action, &case.name, outcome).await?);
        if refused {
            installer.uninstall(chart).await?;
            installer.plane().clear().await?;
            installer.plane().add_crds(crds).await?;
        }
    }
    if let Some(case) = chart.cases.last()
        && all.last().is_some_and(|last| last.outcome.is_done())
    {
        let outcome = installer.uninstall(chart).await?;
        all.push(snapshot(installer, Action::Uninstall, &case.name, outcome).await?);
    }
    installer.plane().clear().await?;
    Ok(all)
}

/// Takes a snapshot. It is empty after a refusal: the operator and operator-sdk clean up, but Helm does not.
async fn snapshot(
    installer: &impl Installer,
    action: Action,
    case: &str,
    outcome: Outcome,
) -> anyhow::Result<Snapshot> {
    let (objects, record) = match outcome.is_done() {
        true => installer.plane().state().await.map(|left| (left.objects, left.record))?,
        false => (Objects::new(), String::new()),
    };
    Ok(Snapshot { action, case: case.to_owned(), outcome, objects, record })
}

impl Progress {
    pub(crate) fn of(installers: usize) -> Progress {
        Progress { installers, done: Mutex::default() }
    }

    fn done(&self, index: usize, count: usize, chart: &str, installer: &'static str, took: Duration) {
        let mut done = self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if done.len() <= index {
            done.resize(index + 1, Vec::new());
        }
        done[index].push((installer, took));
        if done[index].len() == self.installers {
            let times: Vec<String> = done[index]
                .iter()
                .map(|(installer, took)| format!("{installer} {:.1} s", took.as_secs_f64()))
                .collect();
            eprintln!("{:>4} of {count}  {chart:<48} {}", index + 1, times.join(", "));
        }
    }
}
