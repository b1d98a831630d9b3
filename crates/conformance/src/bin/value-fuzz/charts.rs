//! Finds charts and their values.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use conformance::cases;
use go_encoding::json::{EscapeHtml, Layout, encode};
use go_template::Value as GoValue;
use helm::chart::Chart;
use serde_json::{Value, json};

use crate::change::merge;

/// A chart to render, and the values that changes start from.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) chart: PathBuf,
    /// A file of values, and further arguments of `helm template`.
    pub(crate) arguments: Vec<String>,
    /// The chart's defaults, those of its subcharts, and the file's values.
    pub(crate) values: Value,
}

/// Finds the charts to render in charts, folders with charts at any depth, and corpora.
pub(crate) fn find(folders: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let mut found = Vec::new();
    for folder in folders {
        if cases::file(folder).is_file() {
            found.extend(of_corpus(folder)?);
        } else {
            let charts = charts_below(folder)?;
            found.extend(charts.iter().filter_map(|chart| source(chart, String::new(), Vec::new(), None)));
        }
    }
    Ok(found)
}

/// Returns the folder if it is a chart, else the charts below it, sorted by name.
fn charts_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if folder.join("Chart.yaml").is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir() && !path.is_symlink());
    folders.sort();
    let charts = folders.iter().map(|folder| charts_below(folder)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(charts.concat())
}

fn of_corpus(folder: &Path) -> anyhow::Result<Vec<Source>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for case in cases::read(folder)? {
        let values = case.values.as_ref().map(|file| folder.join(file));
        if seen.insert((case.dir.clone(), values.clone(), case.args.clone())) {
            found.extend(source(&folder.join(&case.dir), case.id(), case.args, values.as_deref()));
        }
    }
    Ok(found)
}

/// Describes a chart. Returns `None` if it does not load, because Helm's message then does not depend on values, or if
/// it has Handlebars templates, which Helm reads as Go templates.
fn source(chart: &Path, name: String, mut arguments: Vec<String>, file: Option<&Path>) -> Option<Source> {
    let loaded =
        Chart::load(chart).ok().filter(|chart| !chart.templates.iter().any(|file| file.name.ends_with(".hbs")))?;
    let mut values = defaults(&loaded);
    if let Some(file) = file {
        let table = helm::values::read(&fs::read(file).ok()?).ok()?;
        merge(&mut values, json_of(&GoValue::Map(table)));
        arguments.extend(["-f".to_owned(), file.display().to_string()]);
    }
    let name = if name.is_empty() { chart.display().to_string() } else { name };
    Some(Source { name, chart: chart.to_owned(), arguments, values })
}

/// Returns the values of a chart and, below their names, those of its subcharts.
fn defaults(chart: &Chart) -> Value {
    let mut values = json!({});
    for subchart in &chart.dependencies {
        merge(&mut values, json!({ subchart.metadata.name.as_str(): defaults(subchart) }));
    }
    merge(&mut values, json_of(&GoValue::Map(chart.values.clone())));
    values
}

fn json_of(value: &GoValue) -> Value {
    let text = encode(value, EscapeHtml::No, Layout::Compact).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_else(|_| json!({}))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // Tests may panic.
mod tests {
    use super::*;

    #[test]
    fn charts_folders_and_corpora_are_found_with_their_values() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("own");
        let chart = find(&[own.join("charts/shop")]).unwrap();
        let folder = find(&[own.join("charts")]).unwrap();
        assert_eq!((chart.len(), folder.len()), (1, 1));
        assert!(chart[0].values.as_object().is_some_and(|values| !values.is_empty()));
        let corpus = find(&[own]).unwrap();
        assert!(corpus.iter().any(|source| source.arguments.iter().any(|argument| argument == "-f")));
    }
}
