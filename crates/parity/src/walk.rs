//! Takes one way through all charts: installs each, upgrades it to its next case, uninstalls it, and looks after each step.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::compare::{Action, Seen};
use crate::corpus::{Case, Chart};
use crate::live::Objects;
use crate::outcome::Outcome;
use crate::plane::Plane;

/// The name of every release.
pub(crate) const RELEASE: &str = "rel";

/// One way to make a release.
pub(crate) trait Way {
    /// For progress.
    fn name(&self) -> &'static str;
    /// Where it makes them.
    fn plane(&self) -> &Plane;
    async fn install(&self, chart: &Chart, case: &Case) -> anyhow::Result<Outcome>;
    async fn upgrade(&self, chart: &Chart, case: &Case) -> anyhow::Result<Outcome>;
    async fn uninstall(&self, chart: &Chart) -> anyhow::Result<Outcome>;
}

/// What to go through.
pub(crate) struct Route<'a> {
    pub(crate) charts: Vec<&'a Chart>,
    /// Definitions that one chart needs, by its place.
    pub(crate) crds: Vec<&'a [Value]>,
    /// No chart is begun after this.
    pub(crate) until: Instant,
    pub(crate) progress: Progress,
}

/// Prints a line for each chart that all ways are through with.
pub(crate) struct Progress {
    ways: usize,
    done: Mutex<Vec<Vec<(&'static str, Duration)>>>,
}

/// Goes through the charts; what was seen at each, fewer if time was up.
pub(crate) async fn walk(way: &impl Way, route: &Route<'_>) -> anyhow::Result<Vec<Vec<Seen>>> {
    let mut all = Vec::new();
    for (index, (chart, crds)) in route.charts.iter().zip(&route.crds).enumerate() {
        let began = Instant::now();
        if began > route.until {
            break;
        }
        let seen = chart_steps(way, chart, crds).await;
        all.push(seen.with_context(|| format!("{} by {}", chart.name, way.name()))?);
        route.progress.done(index, route.charts.len(), &chart.name, way.name(), began.elapsed());
    }
    Ok(all)
}

async fn chart_steps(way: &impl Way, chart: &Chart, crds: &[Value]) -> anyhow::Result<Vec<Seen>> {
    way.plane().add_crds(crds).await?;
    let mut all: Vec<Seen> = Vec::new();
    for case in &chart.cases {
        let upgrade = all.last().is_some_and(|last| last.outcome.is_done());
        let (action, outcome) = match upgrade {
            true => (Action::Upgrade, way.upgrade(chart, case).await?),
            false => (Action::Install, way.install(chart, case).await?),
        };
        let refused = !outcome.is_done();
        all.push(see(way, action, &case.name, outcome).await?);
        if refused {
            way.uninstall(chart).await?;
            way.plane().clear().await?;
            way.plane().add_crds(crds).await?;
        }
    }
    if let Some(case) = chart.cases.last()
        && all.last().is_some_and(|last| last.outcome.is_done())
    {
        let outcome = way.uninstall(chart).await?;
        all.push(see(way, Action::Uninstall, &case.name, outcome).await?);
    }
    way.plane().clear().await?;
    Ok(all)
}

/// What Helm leaves after a refusal is not compared: the operator takes it away, as operator-sdk's does.
async fn see(way: &impl Way, action: Action, case: &str, outcome: Outcome) -> anyhow::Result<Seen> {
    let (objects, record) = match outcome.is_done() {
        true => way.plane().left().await.map(|left| (left.objects, left.record))?,
        false => (Objects::new(), String::new()),
    };
    Ok(Seen { action, case: case.to_owned(), outcome, objects, record })
}

impl Progress {
    pub(crate) fn of(ways: usize) -> Progress {
        Progress { ways, done: Mutex::default() }
    }

    fn done(&self, index: usize, count: usize, chart: &str, way: &'static str, took: Duration) {
        let mut done = self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if done.len() <= index {
            done.resize(index + 1, Vec::new());
        }
        done[index].push((way, took));
        if done[index].len() == self.ways {
            let times: Vec<String> =
                done[index].iter().map(|(way, took)| format!("{way} {:.1} s", took.as_secs_f64())).collect();
            eprintln!("{:>4} of {count}  {chart:<48} {}", index + 1, times.join(", "));
        }
    }
}
