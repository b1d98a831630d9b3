//! Checks whether a chart renders with its resources, and how it uses their keys.

use std::sync::Arc;

use go_template::Map;
use helm::chart::Chart;
use helm::engine::{
    Capabilities, Engine, Error as Failure, Lookup, Problem, ReleaseOptions, Request, problems, spelled_out,
};
use helm::manifest::Manifest;
use helm::reads::Reads;
use helm::sequence::sequence;
use helm::values::merge_maps;
use serde_json::json;

use super::{Document, Finding, Level, objects, samples};
use crate::rbac::Asked;
use crate::watches::{self, Watch};
use crate::yaml::to_map;
use crate::{Error, Project, chart, lookups, rbac};

/// Renders the chart with each sample, and with its defaults. `line` is that of `chart` in watches.yaml.
pub(super) fn check(
    project: &Project,
    watch: &Watch,
    all: &[Document],
    line: Option<usize>,
) -> Result<Vec<Finding>, Error> {
    let chart = chart::of(project, &watch.place)?;
    let missing = chart.missing_dependencies();
    if !missing.is_empty() {
        let message = format!("subcharts of {} are missing: {}", watch.chart, missing.join(", "));
        return Ok(vec![Finding::error(watches::PATH, line, message)]);
    }
    let broken: Vec<Finding> =
        problems(&chart).into_iter().filter(is_always_used).map(|found| broken_file(project, watch, found)).collect();
    if !broken.is_empty() {
        // Rendering would reveal nothing more.
        return Ok(broken);
    }
    let mut found = objects::hooks(project, &watch.chart);
    found.extend(out_of_reach(watch, &chart, line));
    let api_version = watch.gvk.api_version();
    let is_own =
        |sample: &&Document| sample.text("/apiVersion") == api_version && sample.text("/kind") == watch.gvk.kind;
    let samples: Vec<&Document> = all.iter().filter(is_own).collect();
    let reads = Reads::of(&chart);
    found.extend(samples.iter().flat_map(|sample| unread(&reads, sample)));
    let closed = lookups::closed(watch, &chart).map(|message| Finding::warning(watches::PATH, line, message));
    found.extend(closed);
    let apis = rbac::asked_by(&chart);
    let engine = Engine::new(chart);
    let chart = Checked { project, folder: &watch.chart, engine, overrides: watch.override_values(), apis };
    found.extend(chart.check(&samples));
    Ok(found)
}

/// Names the objects whose namespace or kind depends on values, with the key that allows them.
fn out_of_reach(watch: &Watch, chart: &Chart, line: Option<usize>) -> Option<Finding> {
    let spelled = spelled_out(chart);
    let closed = spelled.computed.iter().find(|computed| watch.leaves_open(computed.what))?;
    let grant = spelled.grant(|what| watch.leaves_open(what));
    let message = format!(
        "{closed}: the release's namespace and what the chart's own text names is allowed; objects: {grant} here allows any"
    );
    Some(Finding::warning(watches::PATH, line, message))
}

/// Names keys that no template reads. A key that the chart documents is the chart's mistake, not the sample's.
fn unread(reads: &Reads, sample: &Document) -> Vec<Finding> {
    let unread = reads.unread(&spec(sample));
    let unread = unread.into_iter().filter(|key| !key.is_documented);
    let finding = |key: helm::reads::Unread| {
        let path: Vec<&str> = ["spec"].into_iter().chain(key.path.iter().map(String::as_str)).collect();
        let meant = key.nearest.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let message = format!("no template of the chart reads {}{meant}", path.join("."));
        Finding::warning(&sample.path, sample.line(&path), message)
    };
    unread.map(finding).collect()
}

fn spec(sample: &Document) -> Map {
    to_map(sample.content.get("spec").unwrap_or(&json!({})))
}

/// Returns whether the broken file is always used; a subchart may be disabled.
fn is_always_used(problem: &Problem) -> bool {
    !problem.path.starts_with("charts/")
}

/// Returns a finding in a file of the chart, which may be in an archive.
fn broken_file(project: &Project, watch: &Watch, problem: Problem) -> Finding {
    let path = format!("{}/{}", watch.chart, problem.path);
    let what = problem.what.replace('\n', "\n    ");
    match project.contains(&path) {
        true => Finding::error(&path, problem.line, what),
        false => Finding::error(&watch.chart, None, format!("{}: {what}", problem.path)),
    }
}

struct Checked<'a> {
    project: &'a Project,
    folder: &'a str,
    engine: Engine,
    overrides: Map,
    /// A cluster with all APIs that the templates query.
    apis: Capabilities,
}

/// Why a chart does not render, and whether a cluster could change that.
struct Refused {
    failure: Failure,
    /// Facts that only a cluster knows.
    in_cluster: Option<String>,
}

impl Checked<'_> {
    /// Returns the findings about the samples and the chart's defaults.
    fn check(&self, samples: &[&Document]) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut renders = false;
        for sample in samples {
            match self.render(&spec(sample)) {
                Ok(more) => {
                    renders = true;
                    found.extend(more);
                }
                Err(refused) => found.extend(self.explain(&refused, Some(sample))),
            }
        }
        match self.render(&Map::default()) {
            Ok(more) => found.extend(more),
            Err(refused) if is_broken(&refused.failure) && samples.is_empty() => {
                found.extend(self.explain(&refused, None));
            }
            // Failures that also occur with samples have been reported.
            Err(_) if !renders && !samples.is_empty() => {}
            Err(refused) => {
                let hint = "resources must set values that have no default";
                let message = format!("does not render with its defaults, so {hint}: {}", first_line(&refused.failure));
                found.push(Finding::warning(self.folder, None, message));
            }
        }
        found
    }

    /// Returns the findings about the objects that these values produce.
    fn render(&self, values: &Map) -> Result<Vec<Finding>, Box<Refused>> {
        let asked = Arc::new(Asked::default());
        let failure = match self.render_in(values, &Capabilities::default(), &asked) {
            Ok(found) => return Ok(found),
            Err(failure) => failure,
        };
        let served = self.render_in(values, &self.apis, &asked);
        let in_cluster = match (&failure, served.is_ok(), asked.kinds()) {
            (Failure::Template(_), true, _) => {
                Some("the cluster may serve the APIs that the chart asks for".to_owned())
            }
            (Failure::Template(_), false, kinds) if !kinds.is_empty() => {
                Some(format!("the chart looks up {} in the cluster, which is not asked here", kinds.join(", ")))
            }
            _ => None,
        };
        Err(Box::new(Refused { failure, in_cluster }))
    }

    fn render_in(
        &self,
        values: &Map,
        capabilities: &Capabilities,
        asked: &Arc<Asked>,
    ) -> Result<Vec<Finding>, Failure> {
        let values = merge_maps(values, &self.overrides);
        let release =
            ReleaseOptions { name: "name".into(), namespace: "namespace".into(), revision: 1, is_upgrade: false };
        let lookup = Some(Arc::clone(asked) as Arc<dyn Lookup>);
        let request = Request { values: &values, release: &release, capabilities, lookup, skip_schema: false };
        let rendered = self.engine.render(&request)?;
        let mut found = objects::check(self.project, self.folder, &rendered);
        found.extend(self.order(&rendered.manifests));
        Ok(found)
    }

    /// Names what is wrong with the order that the chart asks for.
    fn order(&self, manifests: &[Manifest]) -> Vec<Finding> {
        let finding = |message: String| Finding::error(self.folder, None, message);
        match sequence(self.engine.chart(), manifests) {
            Ok(order) => {
                let late = order.late(manifests).into_iter();
                let late = late.map(|late| Finding::warning(self.folder, None, late.to_string()));
                order.problems.iter().map(|problem| finding(problem.to_string())).chain(late).collect()
            }
            Err(error) => vec![finding(error.to_string())],
        }
    }

    fn explain(&self, refused: &Refused, sample: Option<&Document>) -> Vec<Finding> {
        let text = refused.failure.without_values();
        let mut found = match (&refused.failure, sample) {
            (Failure::Schema(_), Some(sample)) => {
                let all: Vec<Finding> =
                    samples::complaints(&text).map(|complaint| samples::at(sample, "spec", complaint)).collect();
                if all.is_empty() { vec![Finding::error(&sample.path, None, text.trim_end())] } else { all }
            }
            (Failure::Template(error), _) => {
                let known = |place: &&helm::engine::Position| place.line > 0 && self.file(&place.template).is_some();
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
        };
        if let Some(why) = &refused.in_cluster {
            for finding in &mut found {
                finding.level = Level::Warning;
                finding.message += &format!(" ({why})");
            }
        }
        found
    }

    fn file(&self, template: &str) -> Option<String> {
        objects::file(self.project, self.folder, template)
    }
}

/// Returns whether the chart fails with any values.
fn is_broken(failure: &Failure) -> bool {
    match failure {
        Failure::Template(error) => error.to_string().starts_with("parse error"),
        Failure::Manifest { .. } | Failure::KubeVersion { .. } => true,
        Failure::Dependencies(_) | Failure::Values(_) | Failure::Schema(_) => false,
    }
}

/// Returns the message with the file whose values cause it.
fn with_sample(text: &str, sample: Option<&Document>) -> String {
    let values = sample.map_or("its defaults", |sample| sample.path.as_str());
    format!("does not render with {values}: {}", text.trim_end().replace('\n', "\n    "))
}

fn first_line(failure: &Failure) -> String {
    failure.without_values().lines().next().unwrap_or_default().to_owned()
}
