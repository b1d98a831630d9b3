//! Charts and their values, from corpora (directories with `cases.jsonl`) or this repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// A chart and its cases in order: the first is an install, the others are upgrades.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// Short name for reports.
    pub name: String,
    /// The chart's directory.
    pub folder: PathBuf,
    /// Never empty.
    pub cases: Vec<Case>,
}

/// Values for one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name of the case in the corpus.
    pub name: String,
    /// A values file; the chart's defaults if absent.
    pub values: Option<PathBuf>,
}

/// Part `index` of `count`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

/// The relevant fields of a line in `cases.jsonl`.
#[derive(Deserialize)]
struct Line {
    repo: String,
    chart: String,
    case: String,
    status: String,
    dir: PathBuf,
    values: Option<PathBuf>,
    args: Vec<String>,
    bytes: u64,
}

/// Reads a corpus: up to `max_cases` cases per chart, the default one first, then those with the most output.
///
/// # Errors
/// If `cases.jsonl` cannot be read or parsed.
pub fn read(folder: &Path, max_cases: usize) -> anyhow::Result<Vec<Chart>> {
    let folder = folder.canonicalize().with_context(|| format!("cannot open corpus {}", folder.display()))?;
    let file = folder.join("cases.jsonl");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read corpus {}", file.display()))?;
    let mut charts: BTreeMap<PathBuf, Vec<Line>> = BTreeMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line)
            .with_context(|| format!("cannot read line {} of corpus {}", number + 1, file.display()))?;
        charts.entry(line.dir.clone()).or_default().push(line);
    }
    Ok(charts.into_values().filter_map(|lines| chart(&folder, lines, max_cases)).collect())
}

/// Selects a chart's cases. Skips cases with `helm template` flags, which have no counterpart on a cluster. A chart
/// that Helm never renders keeps one failing case.
fn chart(folder: &Path, lines: Vec<Line>, max_cases: usize) -> Option<Chart> {
    let (mut lines, failing): (Vec<Line>, Vec<Line>) =
        lines.into_iter().filter(|line| line.args.is_empty()).partition(|line| line.status != "error");
    lines.sort_by_key(|line| (line.values.is_some(), std::cmp::Reverse(line.bytes)));
    lines.truncate(max_cases);
    if lines.is_empty() {
        lines.extend(failing.into_iter().next());
    }
    let first = lines.first()?;
    let (name, dir) = (format!("{}/{}", first.repo, first.chart), folder.join(&first.dir));
    let case = |line: Line| Case { name: line.case, values: line.values.map(|values| folder.join(values)) };
    Some(Chart { name, folder: dir, cases: lines.into_iter().map(case).collect() })
}

/// Reads this repository's own charts. Each directory has a `chart` and values files, which are the cases in order of
/// their names.
///
/// # Errors
/// If a directory cannot be read.
pub fn own(folder: &Path) -> anyhow::Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for entry in sorted(folder)? {
        let mut cases = Vec::new();
        for file in sorted(&entry)?.into_iter().filter(|file| file.extension().is_some_and(|ext| ext == "yaml")) {
            cases.push(Case { name: name(&file), values: Some(file) });
        }
        if cases.is_empty() {
            cases.push(Case { name: "default".into(), values: None });
        }
        charts.push(Chart { name: name(&entry), folder: entry.join("chart"), cases });
    }
    Ok(charts)
}

fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

impl Shard {
    /// All charts.
    pub const ALL: Shard = Shard { index: 1, count: 1 };

    /// Returns every `count`th chart, so that each shard has charts of every repository.
    pub fn of<T>(self, all: Vec<T>) -> Vec<T> {
        all.into_iter().skip(self.index - 1).step_by(self.count).collect()
    }
}

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Shard> {
        let (index, count) = text.split_once('/').context("expected a shard like 2/8")?;
        let shard = Shard { index: index.parse()?, count: count.parse()? };
        if shard.index == 0 || shard.index > shard.count {
            bail!("shard {text} is not between 1/n and n/n");
        }
        Ok(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(case: &str, status: &str, args: &[&str], bytes: u64) -> Line {
        Line {
            repo: "r/c".into(),
            chart: "x".into(),
            case: case.into(),
            status: status.into(),
            dir: "d".into(),
            values: (case != "default").then(|| case.into()),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            bytes,
        }
    }

    fn cases(lines: Vec<Line>) -> Vec<String> {
        let chart = chart(Path::new("/f"), lines, 2);
        chart.into_iter().flat_map(|chart| chart.cases).map(|case| case.name).collect()
    }

    #[test]
    fn the_default_case_comes_first_then_the_largest() {
        let lines = vec![
            line("small", "ok", &[], 5),
            line("large", "random", &[], 9),
            line("default", "ok", &[], 1),
            line("caps", "ok", &["--is-upgrade"], 99),
            line("broken", "error", &[], 50),
        ];
        assert_eq!(cases(lines), ["default", "large"]);
        assert_eq!(cases(vec![line("a", "error", &[], 1), line("b", "error", &[], 1)]), ["a"]);
        assert_eq!(cases(vec![line("caps", "ok", &["--is-upgrade"], 99)]), [""; 0]);
    }

    #[test]
    fn shards_partition_the_charts() {
        let of = |shard: &str| shard.parse::<Shard>().ok().map(|shard| shard.of(vec![1, 2, 3, 4, 5]));
        assert_eq!(of("1/2"), Some(vec![1, 3, 5]));
        assert_eq!(of("2/2"), Some(vec![2, 4]));
        assert_eq!(Shard::ALL.of(vec![1, 2]), [1, 2]);
        for bad in ["0/2", "3/2", "1", "a/b", "1/0"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn own_charts_have_one_case_per_values_file() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["b/chart/Chart.yaml", "a/chart/Chart.yaml", "b/2.yaml", "b/1.yaml"] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let charts = own(folder.path()).unwrap();
        let shown: Vec<(String, Vec<&str>)> =
            charts.iter().map(|c| (c.name.clone(), c.cases.iter().map(|c| c.name.as_str()).collect())).collect();
        assert_eq!(shown, [("a".to_owned(), vec!["default"]), ("b".to_owned(), vec!["1", "2"])]);
        assert_eq!(charts[1].folder, folder.path().join("b/chart"));
    }
}
