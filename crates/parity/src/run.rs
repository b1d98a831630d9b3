//! The whole comparison: three API servers, three installers, and a second run of Helm for charts that differ, to find
//! random places.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compare::{Difference, Sides, Snapshot, Verdict, compare};
use crate::corpus::Chart;
use crate::helm_cli::Helm;
use crate::kinds;
use crate::known;
use crate::operator::{self, Operator};
use crate::plane::Plane;
use crate::random::Random;
use crate::report::{ChartReport, Report, Step};
use crate::restart::restart;
use crate::walk::{Progress, Route, walk};

/// What to compare, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The charts.
    pub charts: Vec<Chart>,
    /// The operator binary; called with `run`.
    pub operator: PathBuf,
    /// The list of known differences, in YAML.
    pub known: String,
    /// Time after which no further chart starts.
    pub limit: Duration,
}

/// The three API servers.
struct Planes {
    client: Plane,
    server: Plane,
    ours: Plane,
}

/// Each installer's snapshots by chart.
struct Walked {
    client: Vec<Vec<Snapshot>>,
    server: Vec<Vec<Snapshot>>,
    ours: Vec<Vec<Snapshot>>,
}

/// Compares the charts.
///
/// # Errors
/// If an API server, Helm or the operator cannot run. Differences are not errors; the report has them.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let began = Instant::now();
    let mut known = known::List::read(&options.known)?;
    let (planes, crds) = start(&options.charts).await?;
    let operator = Operator::start(&planes.ours, &options.operator, &options.charts)?;
    let route = Route {
        charts: options.charts.iter().collect(),
        crds: crds.iter().map(Vec::as_slice).collect(),
        until: began + options.limit,
        progress: Progress::of(3),
    };
    let walked = walk_all(&planes, &operator, &route).await?;
    let random = random_places(&planes.client, &walked, &route).await?;
    let restarted = restart(&operator, &installed_charts(&route, &walked)).await?;
    let charts = reports(&options.charts, &walked, &random);
    Ok(Report::new(charts, restarted, options.charts.len(), &mut known))
}

async fn start(charts: &[Chart]) -> anyhow::Result<(Planes, Vec<Vec<Value>>)> {
    let (client, server, ours) = tokio::try_join!(Plane::start(), Plane::start(), Plane::start())?;
    let mut planes = Planes { client, server, ours };
    let prerequisites = kinds::prerequisites(charts, &planes.client.groups().await?);
    for plane in [&mut planes.client, &mut planes.server, &mut planes.ours] {
        plane.add_namespaces(&prerequisites.namespaces).await?;
        plane.add_crds(&prerequisites.shared).await?;
        plane.add_crds(&operator::crds(charts.len())).await?;
        plane.mark_baseline().await?;
    }
    Ok((planes, prerequisites.of_chart))
}

async fn walk_all(planes: &Planes, operator: &Operator<'_>, route: &Route<'_>) -> anyhow::Result<Walked> {
    let client = Helm { plane: &planes.client, server_side: false };
    let server = Helm { plane: &planes.server, server_side: true };
    let (client, server, ours) = tokio::try_join!(walk(&client, route), walk(&server, route), walk(operator, route))?;
    Ok(Walked { client, server, ours })
}

impl Walked {
    /// Returns the steps of a chart that all installers reached.
    fn steps(&self, chart: usize) -> impl Iterator<Item = Sides<'_>> {
        let sides = self.client[chart].iter().zip(&self.server[chart]).zip(&self.ours[chart]);
        sides.map(|((client, server), ours)| Sides { client, server, ours })
    }

    fn charts(&self) -> usize {
        self.client.len().min(self.server.len()).min(self.ours.len())
    }

    /// Returns whether objects differ. Ignores outcomes, which random values do not affect.
    fn differs(&self, chart: usize) -> bool {
        self.steps(chart)
            .any(|sides| compare(&sides, &Random::default()).differences.iter().any(Difference::is_in_object))
    }
}

/// Returns the random places of each chart after each step; empty for charts without differences.
async fn random_places(plane: &Plane, walked: &Walked, route: &Route<'_>) -> anyhow::Result<Vec<Vec<Random>>> {
    let differing: BTreeSet<usize> = (0..walked.charts()).filter(|chart| walked.differs(*chart)).collect();
    let second = Route {
        charts: differing.iter().map(|chart| route.charts[*chart]).collect(),
        crds: differing.iter().map(|chart| route.crds[*chart]).collect(),
        until: route.until + Duration::from_secs(3600),
        progress: Progress::of(1),
    };
    let mut runs = walk(&Helm { plane, server_side: false }, &second).await?.into_iter();
    let mut random = Vec::new();
    for chart in 0..walked.charts() {
        let run = if differing.contains(&chart) { runs.next().unwrap_or_default() } else { Vec::new() };
        let between = |(one, other): (&Snapshot, &Snapshot)| Random::between(&one.objects, &other.objects);
        random.push(walked.client[chart].iter().zip(&run).map(between).collect());
    }
    Ok(random)
}

fn reports(charts: &[Chart], walked: &Walked, random: &[Vec<Random>]) -> Vec<ChartReport> {
    let report = |(index, chart): (usize, &Chart)| {
        let nothing = Random::default();
        let step = |(step, sides): (usize, Sides<'_>)| {
            let random = random[index].get(step).unwrap_or(&nothing);
            Step { case: sides.ours.case.clone(), verdict: verdict(&sides, random), ..Step::of(&sides) }
        };
        ChartReport { chart: chart.name.clone(), steps: walked.steps(index).enumerate().map(step).collect() }
    };
    charts.iter().take(walked.charts()).enumerate().map(report).collect()
}

fn verdict(sides: &Sides<'_>, random: &Random) -> Verdict {
    let renamed = |seen: &Snapshot| Snapshot { objects: random.rename(&seen.objects), ..seen.clone() };
    let (client, server, ours) = (renamed(sides.client), renamed(sides.server), renamed(sides.ours));
    compare(&Sides { client: &client, server: &server, ours: &ours }, random)
}

fn installed_charts<'a>(route: &Route<'a>, walked: &Walked) -> Vec<&'a Chart> {
    let installed = |(chart, seen): (&&'a Chart, &Vec<Snapshot>)| {
        seen.first().is_some_and(|first| first.outcome.is_done()).then_some(*chart)
    };
    route.charts.iter().zip(&walked.ours).filter_map(installed).collect()
}
