//! Finds the entry of a watches file whose additions a render of its chart gets.

use std::fs;
use std::path::Path;

use controller::report::chain;
use helm::template::Error;

use crate::watches::{self, Watch};

/// Returns the file's entry for a chart: the entry of this kind or, without a kind, the only one with this chart.
pub(super) fn entry(file: &Path, kind: Option<&str>, chart: &str) -> Result<Watch, Error> {
    let all = watches::load(file).map_err(|error| Error::Caller(chain(&error)))?;
    let is_chart = |watch: &Watch| match (fs::canonicalize(&watch.chart), fs::canonicalize(chart.trim())) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    let is_meant = |watch: &&Watch| kind.map_or_else(|| is_chart(watch), |kind| watch.is_meant_by(kind));
    let mut meant: Vec<&Watch> = all.iter().filter(is_meant).collect();
    match (meant.pop(), meant.is_empty()) {
        (Some(watch), true) => Ok(watch.clone()),
        (found, _) => {
            let names: Vec<String> = all.iter().map(Watch::full_name).collect();
            let how = if found.is_some() { "several entries" } else { "no entry" };
            let what = kind.map_or_else(|| format!("chart {chart}"), |kind| format!("kind {kind}"));
            let why =
                format!("{} has {how} for {what}: choose with --kind, one of {}", file.display(), names.join(", "));
            Err(Error::Caller(why))
        }
    }
}
