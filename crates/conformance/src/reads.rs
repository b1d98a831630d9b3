//! Checks on real charts that values which no template reads, according to `Reads`, change nothing.
//!
//! Adds a key to each map of the values, and changes each default that counts as unread: the output must stay the
//! same.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use conformance::cases::Case;
use go_template::{Map, Value};
use helm::chart::Chart;
use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};
use helm::reads::Reads;
use helm::values::{self, merge_maps};
use helm::view::{Nulls, coalesce};

use crate::report::{Outcome, Report};

/// A key that no chart uses.
const FOREIGN: &str = "aForeignKey";

/// The analysed charts, by folder.
#[derive(Default)]
pub(crate) struct Analysed(HashMap<PathBuf, Arc<(Engine, Reads)>>);

impl Analysed {
    /// Checks one case: its chart with its values.
    pub(crate) fn check(&mut self, folder: &Path, case: &Case, report: &mut Report) -> anyhow::Result<()> {
        let dir = folder.join(&case.dir);
        let chart = match self.0.get(&dir) {
            Some(known) => Arc::clone(known),
            None => {
                // Helm rejects some charts as well.
                let Ok(chart) = Chart::load(&dir) else { return Ok(()) };
                let new = Arc::new((Engine::new(Arc::clone(&chart)), Reads::of(&chart)));
                self.0.insert(dir, Arc::clone(&new));
                new
            }
        };
        let given = match &case.values {
            Some(file) => values::read(&fs::read(folder.join(file)).context("cannot read values")?)?,
            None => Map::default(),
        };
        let id = format!("{} {} unread values", case.chart, case.case);
        report.add(&case.repo, &id, &outcome(&chart.0, &chart.1, &given));
        Ok(())
    }
}

fn outcome(engine: &Engine, reads: &Reads, given: &Map) -> Outcome {
    let before = render(engine, given);
    let Ok(text) = &before else { return Outcome::Exact };
    if before != render(engine, given) {
        return Outcome::Alike("random output, nothing compared");
    }
    let complete = complete(engine, given);
    let unread = reads.unread(&with_foreign_keys(&complete));
    let all = format!("{} keys", unread.len());
    let over = Value::Map(complete.deep_copy());
    unread.iter().for_each(|key| set(&over, &key.path));
    let over = over.as_map().cloned().unwrap_or_default();
    match render(engine, &over) {
        Ok(after) if after == *text => Outcome::Exact,
        Ok(after) => Outcome::Wrong(format!("{all}\n{text}"), format!("{all}\n{after}")),
        Err(error) => Outcome::Wrong(all, error),
    }
}

fn render(engine: &Engine, values: &Map) -> Result<String, String> {
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let capabilities = &Capabilities::default();
    let request = Request { values, release: &release, capabilities, lookup: None, skip_schema: true };
    let rendered = engine.render(&request).map_err(|error| error.to_string())?;
    let mut texts: Vec<String> = rendered.manifests.iter().map(|one| one.content.clone()).collect();
    texts.extend(rendered.hooks.iter().map(|hook| hook.manifest.clone()));
    texts.push(rendered.notes);
    Ok(texts.join("\n---\n"))
}

/// Returns the given values with the defaults of the chart and its subcharts, lists included.
fn complete(engine: &Engine, given: &Map) -> Map {
    let defaults = engine
        .resolve(given, &mut Vec::new())
        .ok()
        .and_then(|view| coalesce(&view, given, Nulls::Remove, &mut Vec::new()).ok());
    merge_maps(&defaults.unwrap_or_default(), given)
}

fn with_foreign_keys(table: &Map) -> Map {
    let all: Map = table.snapshot().into_iter().map(|(key, value)| (key, foreign_below(&value))).collect();
    all.insert(FOREIGN, "foreign");
    all
}

fn foreign_below(value: &Value) -> Value {
    match value {
        Value::Map(table) => Value::Map(with_foreign_keys(table)),
        Value::List(list) => Value::list(list.iter().map(foreign_below).collect()),
        other => other.clone(),
    }
}

/// Sets a key to another value.
fn set(value: &Value, path: &[String]) {
    let Some((key, rest)) = path.split_first() else { return };
    match value {
        Value::Map(table) if rest.is_empty() => _ = table.insert(key.as_str(), "another value"),
        Value::Map(table) => set(&table.get(key).unwrap_or_default(), rest),
        Value::List(list) => {
            let item = key.parse().ok().and_then(|at: usize| list.get(at));
            item.iter().for_each(|item| set(item, rest));
        }
        _ => {}
    }
}
