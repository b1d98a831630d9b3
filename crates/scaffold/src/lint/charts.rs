//! Whether a chart renders what its resources ask for.

use go_template::Map;
use helm::engine::{Capabilities, Engine, Error as Failure, ReleaseOptions, Request};
use helm::values::merge_maps;
use serde_json::json;

use super::{Document, Finding, objects, samples};
use crate::watches::{self, Watch};
use crate::yaml::to_map;
use crate::{Error, Project, chart};

/// Renders the chart with each sample, and with its defaults. `line` is that of `chart` in watches.yaml.
///
/// # Errors
/// The chart does not load.
pub(super) fn check(
    project: &Project,
    watch: &Watch,
    all: &[Document],
    line: Option<usize>,
) -> Result<Vec<Finding>, Error> {
    let chart = chart::of(project, &watch.chart)?;
    let missing = chart.missing_dependencies();
    if !missing.is_empty() {
        let message = format!("subcharts of {} are missing: {}", watch.chart, missing.join(", "));
        return Ok(vec![Finding::error(watches::PATH, line, message)]);
    }
    let chart =
        Checked { project, folder: &watch.chart, engine: Engine::new(chart), overrides: watch.override_values() };
    let mut found = objects::hooks(project, &watch.chart);
    let api_version = watch.gvk.api_version();
    let own =
        |sample: &&Document| sample.content["apiVersion"] == api_version && sample.content["kind"] == watch.gvk.kind;
    let samples: Vec<&Document> = all.iter().filter(own).collect();
    let mut renders = false;
    for sample in &samples {
        let values = to_map(sample.content.get("spec").unwrap_or(&json!({})));
        match chart.render(&values) {
            Ok(more) => {
                renders = true;
                found.extend(more);
            }
            Err(failure) => found.extend(chart.explain(&failure, Some(sample))),
        }
    }
    match chart.render(&Map::default()) {
        Ok(more) => found.extend(more),
        Err(failure) if samples.is_empty() => found.extend(chart.explain(&failure, None)),
        // What fails with samples as well has been said.
        Err(_) if !renders => {}
        Err(failure) => {
            let hint = "resources must set values that have no default";
            let message = format!("does not render with its defaults, so {hint}: {}", first_line(&failure));
            found.push(Finding::warning(&watch.chart, None, message));
        }
    }
    Ok(found)
}

struct Checked<'a> {
    project: &'a Project,
    folder: &'a str,
    engine: Engine,
    overrides: Map,
}

impl Checked<'_> {
    /// What is wrong with the objects that these values make.
    fn render(&self, values: &Map) -> Result<Vec<Finding>, Failure> {
        let values = merge_maps(values, &self.overrides);
        let release =
            ReleaseOptions { name: "name".into(), namespace: "namespace".into(), revision: 1, is_upgrade: false };
        let capabilities = &Capabilities::default();
        let request = Request { values: &values, release: &release, capabilities, lookup: None, skip_schema: false };
        let rendered = self.engine.render(&request)?;
        Ok(objects::check(self.project, self.folder, &rendered))
    }

    fn explain(&self, failure: &Failure, sample: Option<&Document>) -> Vec<Finding> {
        let text = failure.without_values();
        match (failure, sample) {
            (Failure::Schema(_), Some(sample)) => {
                let all: Vec<Finding> =
                    samples::complaints(&text).map(|complaint| samples::at(sample, "spec", complaint)).collect();
                if all.is_empty() { vec![Finding::error(&sample.path, None, text.trim_end())] } else { all }
            }
            (Failure::Template(error), _) => {
                let known = |place: &&helm::engine::Place| place.line > 0 && self.file(&place.template).is_some();
                let place = error.places().iter().rev().find(known);
                let path = place.and_then(|place| self.file(&place.template));
                let path = path.unwrap_or_else(|| self.folder.to_owned());
                vec![Finding::error(&path, place.map(|place| place.line), with_sample(&text, sample))]
            }
            (Failure::Manifest { error, .. }, _) => {
                let path = self.file(&error.path).unwrap_or_else(|| self.folder.to_owned());
                vec![Finding::error(&path, None, with_sample(&text, sample))]
            }
            _ => vec![Finding::error(self.folder, None, with_sample(&text, sample))],
        }
    }

    fn file(&self, template: &str) -> Option<String> {
        objects::file(self.project, self.folder, template)
    }
}

/// The message, with the file whose values it belongs to.
fn with_sample(text: &str, sample: Option<&Document>) -> String {
    let values = sample.map_or("its defaults", |sample| sample.path.as_str());
    format!("does not render with {values}: {}", text.trim_end().replace('\n', "\n    "))
}

fn first_line(failure: &Failure) -> String {
    failure.without_values().lines().next().unwrap_or_default().to_owned()
}
