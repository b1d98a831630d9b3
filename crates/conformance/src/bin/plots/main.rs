//! Draws the figures of `docs/performance.md`, `docs/scaling.md` and `docs/scoreboard.md`: reads `measured.jsonl` and, if
//! it exists, `scoreboard.jsonl` in a folder and writes SVG files into the same folder.
//!
//! Each line of `measured.jsonl` is the last line that one run of a harness printed: an operator's life cycle
//! (`converge.py`), the floor of that (`limit.py`), many kinds (`kinds.py`) or many resources (`hack/bench-scale`).
//! `scoreboard.jsonl` has a line for each run of `hack/scoreboard`. Other lines are ignored. The last of several runs of one size counts, so output can simply be appended.

mod draw;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Parser;
use serde::Deserialize;

use draw::{Figure, draw};

/// Draws measurements.
#[derive(Parser)]
struct Args {
    /// The folder with measured.jsonl and scoreboard.jsonl
    #[arg(default_value = "docs/figures")]
    folder: PathBuf,
}

/// What one run of a harness printed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Run {
    Converge { operator: String, crs: u32, install: Phase, upgrade: Phase, drift: Phase, rss_steady_mib: f64 },
    Floor { crs: u32, ready_s: f64 },
    Kinds { kinds: u32, resources: u32, mib: f64, cpu_until_idle_s: f64, idle_s: f64, idle_cpu_s: f64 },
    Resources { n: u32, rss_start: f64, rss_idle: f64, rss_restarted: f64 },
    Scored { operator: Contender, n: u32, install: Phase, upgrade: Phase, repair: Phase, mib_steady: f64 },
}

/// An operator on the scoreboard.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Contender {
    Here,
    OperatorSdk,
    HelmOperatorPlugins,
}

impl Contender {
    fn name(self) -> &'static str {
        match self {
            Contender::Here => "here",
            Contender::OperatorSdk => "operator-sdk",
            Contender::HelmOperatorPlugins => "helm-operator-plugins",
        }
    }
}

/// A phase of an operator's life cycle; has no time if it did not end.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
struct Phase {
    s: Option<f64>,
}

/// Points by series name.
#[derive(Default)]
struct Series(BTreeMap<&'static str, BTreeMap<u32, f64>>);

impl Series {
    /// Adds a point or replaces the earlier one. Skips values that are not above 0, which a logarithmic axis cannot
    /// show.
    fn add(&mut self, name: &'static str, x: u32, y: impl Into<Option<f64>>) {
        if let Some(y) = y.into().filter(|y| *y > 0.0 && x > 0) {
            self.0.entry(name).or_default().insert(x, y);
        }
    }

    fn figure(self, texts: [&'static str; 3]) -> Figure {
        let series = self.0.into_iter().map(|(name, points)| draw::Series {
            name,
            points: points.into_iter().map(|(x, y)| (x.into(), y)).collect(),
        });
        Figure { texts, series: series.collect() }
    }
}

fn main() -> anyhow::Result<()> {
    let folder = Args::parse().folder;
    let measured = folder.join("measured.jsonl");
    let mut text = std::fs::read_to_string(&measured).with_context(|| format!("cannot read {}", measured.display()))?;
    // The file exists from the first `make scoreboard` on.
    text += &std::fs::read_to_string(folder.join("scoreboard.jsonl")).unwrap_or_default();
    let runs = runs(&text);
    if runs.is_empty() {
        bail!("{} has no line that a harness printed", measured.display());
    }
    for (name, figure) in figures(&runs) {
        let file = folder.join(name).with_extension("svg");
        let svg = draw(&figure).with_context(|| format!("cannot draw {}", file.display()))?;
        std::fs::write(&file, svg).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn runs(text: &str) -> Vec<Run> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the figures that have points, by file name.
fn figures(runs: &[Run]) -> Vec<(&'static str, Figure)> {
    let (mut converge, mut resources) = (Series::default(), Series::default());
    let (mut memory, mut cpu) = (Series::default(), Series::default());
    let [mut installs, mut upgrades, mut repairs, mut sizes] = <[Series; 4]>::default();
    for run in runs {
        match run {
            Run::Converge { crs, install, upgrade, drift, rss_steady_mib, .. } => {
                converge.add("install", *crs, install.s);
                converge.add("upgrade", *crs, upgrade.s);
                converge.add("repair", *crs, drift.s);
                resources.add("with pods", *crs, *rss_steady_mib);
            }
            Run::Floor { crs, ready_s } => converge.add("raw requests", *crs, *ready_s),
            Run::Kinds { kinds, resources, mib, cpu_until_idle_s, idle_s, idle_cpu_s } => {
                let has_resources = *resources > 0;
                memory.add(if has_resources { "a resource each" } else { "no resources" }, *kinds, *mib);
                cpu.add(if has_resources { "until settled" } else { "start" }, *kinds, *cpu_until_idle_s);
                let minute = idle_cpu_s * 60.0 / idle_s;
                cpu.add(if has_resources { "idle minute" } else { "idle minute, no resources" }, *kinds, minute);
            }
            Run::Resources { n, rss_idle, rss_restarted, .. } => {
                resources.add("installed", *n, *rss_idle);
                resources.add("after a restart", *n, *rss_restarted);
            }
            Run::Scored { operator, n, install, upgrade, repair, mib_steady } => {
                installs.add(operator.name(), *n, install.s);
                upgrades.add(operator.name(), *n, upgrade.s);
                repairs.add(operator.name(), *n, repair.s);
                sizes.add(operator.name(), *n, *mib_steady);
            }
        }
    }
    let all = [
        ("converge", converge, ["Seconds until all resources have converged", "resources", "seconds"]),
        ("memory-by-resources", resources, ["Memory by resources of the helm create chart", "resources", "MiB"]),
        ("memory-by-kinds", memory, ["Memory by kinds", "kinds", "MiB"]),
        ("cpu-by-kinds", cpu, ["CPU by kinds", "kinds", "CPU seconds"]),
        ("scoreboard-install", installs, ["Seconds until all resources are ready", "resources", "seconds"]),
        ("scoreboard-upgrade", upgrades, ["Seconds until all resources are upgraded", "resources", "seconds"]),
        ("scoreboard-repair", repairs, ["Seconds until all Deployments are back", "resources", "seconds"]),
        ("scoreboard-memory", sizes, ["Memory with all resources installed", "resources", "MiB"]),
    ];
    all.into_iter().filter(|(_, s, _)| !s.0.is_empty()).map(|(name, s, texts)| (name, s.figure(texts))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: &str = r#"up /somewhere/admin.kubeconfig
{"operator": "ours", "crs": 50, "install": {"s": 4.7, "cpu_s": 0.5}, "upgrade": {"s": 3.2}, "drift": {"s": null}, "rss_steady_mib": 19.5}
{"crs": 50, "writes_s": 2.0, "ready_s": 2.9, "bad": []}
{"kinds": 240, "resources": 0, "deployed": 0, "cpu_until_idle_s": 0.5, "idle_s": 30, "idle_cpu_s": 0.02, "mib": 34}
{"kinds": 240, "resources": 240, "deployed": 194, "cpu_until_idle_s": 11.0, "idle_s": 60, "idle_cpu_s": 0.0, "mib": 200}
{"n": 1000, "rss_start": 16.0, "rss_idle": 30.0, "rss_restarted": 31.0}
{"n": 1000, "rss_start": 16.0, "rss_idle": 24.0, "rss_restarted": 25.0}
{"operator": "operator-sdk", "n": 50, "install": {"s": 7.5, "cpu_s": 8.0}, "upgrade": {"s": null}, "repair": {"s": 9.0}, "mib_steady": 100.0}
"#;

    fn points(name: &str) -> BTreeMap<&'static str, Vec<(f64, f64)>> {
        let figures = figures(&runs(MEASURED));
        let (_, figure) = figures.into_iter().find(|(at, _)| *at == name).unwrap();
        figure.series.into_iter().map(|series| (series.name, series.points)).collect()
    }

    fn check(name: &str, expected: &[(&'static str, (f64, f64))]) {
        assert_eq!(points(name), expected.iter().map(|(name, point)| (*name, vec![*point])).collect(), "{name}");
    }

    #[test]
    fn each_harness_has_its_series() {
        // A phase that did not end has no point.
        check("converge", &[("install", (50.0, 4.7)), ("upgrade", (50.0, 3.2)), ("raw requests", (50.0, 2.9))]);
        check("memory-by-kinds", &[("no resources", (240.0, 34.0)), ("a resource each", (240.0, 200.0))]);
        check("scoreboard-install", &[("operator-sdk", (50.0, 7.5))]);
    }

    #[test]
    fn of_two_runs_of_one_size_the_last_counts() {
        let expected =
            [("installed", (1000.0, 24.0)), ("after a restart", (1000.0, 25.0)), ("with pods", (50.0, 19.5))];
        check("memory-by-resources", &expected);
    }

    #[test]
    fn idle_cpu_is_that_of_a_minute_and_nothing_has_no_place() {
        let idle = ("idle minute, no resources", (240.0, 0.04));
        check("cpu-by-kinds", &[("start", (240.0, 0.5)), idle, ("until settled", (240.0, 11.0))]);
    }
}
