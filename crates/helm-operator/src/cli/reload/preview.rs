//! Renders a chart without a cluster: with the samples of its kind, or with its defaults if there are none.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use controller::report::chain;
use go_encoding::{json, yaml};
use go_template::{Map, Value};
use helm::chart::Chart;
use helm::engine::Engine;

use super::{AfterSave, diff};
use crate::cli::rendered;
use crate::mask::Mask;
use crate::plan::revisions;
use crate::watches::Watch;

/// The directory of a project's samples.
const SAMPLES: &str = "config/samples";

/// The objects of a render, by kind and name. Secrets are masked when they are shown.
pub(super) type Objects = BTreeMap<String, serde_json::Value>;

/// A chart as it is on disk.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Preview {
    /// The digest of the chart, or the reason why it does not load.
    chart: Result<String, String>,
    /// The chart's objects, or the reason why it does not render.
    objects: Result<Objects, String>,
    /// The digest of the last save, whether or not it is served.
    last: Option<Result<String, String>>,
}

impl Preview {
    /// Reads and renders the watch's chart.
    pub(super) fn of(watch: &Watch) -> Preview {
        match Chart::load_with(&watch.chart, &watch.schema.copies) {
            Ok(chart) => {
                let digest = chart.digest().to_string();
                Preview { chart: Ok(digest), objects: render(watch, chart), last: None }
            }
            Err(error) => {
                let error = chain(&error);
                Preview { chart: Err(error.clone()), objects: Err(error), last: None }
            }
        }
    }

    /// Returns what to do about a saved chart while this one is served.
    pub(super) fn next(&self, saved: &Preview) -> AfterSave {
        if self.last.as_ref().unwrap_or(&self.chart) == &saved.chart {
            return AfterSave::Nothing;
        }
        match (&saved.chart, &self.objects, &saved.objects) {
            (Err(error), ..) => AfterSave::Keep(error.clone()),
            // The running version was saved again, after a broken one.
            (same, ..) if *same == self.chart => AfterSave::Nothing,
            (_, Ok(before), Ok(after)) => AfterSave::Reload(diff::of(before, after)),
            (_, Ok(_), Err(error)) => AfterSave::Keep(error.clone()),
            (_, Err(_), Ok(after)) => AfterSave::Reload(diff::of(&Objects::default(), after)),
            // Only resources in the cluster have the values that it needs.
            (_, Err(_), Err(error)) => AfterSave::Reload(format!("cannot show what changes: {error}\n")),
        }
    }

    /// Returns a mask for what this chart and a saved one render for a watch.
    pub(super) fn mask(&self, saved: &Preview, watch: &Watch) -> Mask {
        let objects = [self, saved].into_iter().flat_map(|chart| chart.objects.iter());
        rendered::mask(watch, objects.flat_map(|objects| objects.values()))
    }

    /// Records what was saved, so that the same error is reported once.
    pub(super) fn seen(&mut self, saved: Preview) {
        self.last = Some(saved.chart);
    }
}

/// Renders the chart with each sample.
fn render(watch: &Watch, chart: Arc<Chart>) -> Result<Objects, String> {
    let engine = Engine::new(chart);
    let mut samples = samples(watch, Path::new(SAMPLES));
    if samples.is_empty() {
        samples.push(("release-name".to_owned(), Map::default()));
    }
    let mut objects = Objects::new();
    for (name, values) in samples {
        let rendered = rendered::documents(watch, &engine, &name, "default", values)?;
        objects.extend(objects_in(rendered.iter()));
    }
    Ok(objects)
}

pub(super) fn objects_in<'t>(texts: impl Iterator<Item = &'t String>) -> Objects {
    revisions::objects(texts.map(String::as_str)).into_iter().map(named).collect()
}

fn named(object: serde_json::Value) -> (String, serde_json::Value) {
    let text = |pointer: &str| object.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
    (format!("{} {}", text("/kind"), text("/metadata/name")), object)
}

/// The maximum size of a sample, in bytes, which is that of an object.
const MAX_SAMPLE_BYTES: u64 = 3 << 20;

/// Reads a file of samples; returns `None` for anything but a file, which may be endless.
fn sample_text(path: &Path) -> Option<Vec<u8>> {
    let about = std::fs::metadata(path).ok()?;
    let fits = about.is_file() && about.len() <= MAX_SAMPLE_BYTES;
    if fits { std::fs::read(path).ok() } else { None }
}

/// Returns the names and values of the samples of the watch's kind in a directory.
fn samples(watch: &Watch, folder: &Path) -> Vec<(String, Map)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let texts = paths.iter().filter(|path| path.extension().is_some_and(|is| is == "yaml"));
    let documents = texts.filter_map(|path| yaml::parse_documents(&sample_text(path)?).ok()).flatten();
    let sample = |document: Map| {
        let sample = json::to_serde(&Value::Map(document));
        let api_version = format!("{}/{}", watch.group, watch.version);
        let is_own = sample["kind"] == watch.kind && sample["apiVersion"] == api_version.trim_start_matches('/');
        let Value::Map(values) = json::from_serde(&sample["spec"]) else { return None };
        is_own.then(|| (sample["metadata"]["name"].as_str().unwrap_or("sample").to_owned(), values))
    };
    documents.filter_map(sample).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn watch(folder: &Path) -> Watch {
        let text = format!("- {{group: g, version: v1, kind: K, chart: {}}}", folder.display());
        crate::watches::parse(&text, |_| None).unwrap().watches.remove(0)
    }

    fn save(folder: &Path, template: &str) {
        fs::create_dir_all(folder.join("templates")).unwrap();
        fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: demo\nversion: 1.0.0\n").unwrap();
        fs::write(folder.join("templates/a.yaml"), template).unwrap();
    }

    fn map(data: &str) -> String {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{x: {data}}}\n")
    }

    #[test]
    fn a_broken_save_keeps_the_running_chart_and_is_reported_once_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &map("one"));
        let watch = watch(folder.path());
        let mut served = Preview::of(&watch);
        assert_eq!(served.next(&Preview::of(&watch)), AfterSave::Nothing);
        save(folder.path(), "a: 1\nb: {{ fail \"no\" }}\n");
        let broken = Preview::of(&watch);
        let AfterSave::Keep(error) = served.next(&broken) else { panic!("a broken chart is served") };
        assert!(error.contains("demo/templates/a.yaml:2:"), "{error}");
        served.seen(broken.clone());
        assert_eq!(served.next(&broken), AfterSave::Nothing);
        fs::write(folder.path().join("Chart.yaml"), "name: [").unwrap();
        let unreadable = Preview::of(&watch);
        assert!(matches!(served.next(&unreadable), AfterSave::Keep(_)));
        served.seen(unreadable);
        save(folder.path(), &map("one"));
        let back = Preview::of(&watch);
        assert_eq!(served.next(&back), AfterSave::Nothing);
        served.seen(back);
        save(folder.path(), &map("two"));
        let AfterSave::Reload(change) = served.next(&Preview::of(&watch)) else { panic!("a good chart is not served") };
        assert!(change.contains("-  x: one\n+  x: two\n"), "{change}");
    }

    #[test]
    fn a_chart_that_only_resources_can_complete_is_served_without_a_preview() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &map("'{{ required \"x\" .Values.x }}'"));
        let watch = watch(folder.path());
        let served = Preview::of(&watch);
        save(folder.path(), &map("'{{ required \"x\" .Values.x }}!'"));
        let AfterSave::Reload(change) = served.next(&Preview::of(&watch)) else { panic!("not served") };
        assert!(change.starts_with("cannot show what changes"), "{change}");
    }

    #[test]
    fn what_changes_shows_no_override_value_and_no_word_of_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter22}\n";
        let template = |data: &str| format!("{}{secret}", map(data));
        save(folder.path(), &template("one"));
        let text = format!(
            "- {{group: g, version: v1, kind: K, chart: {}, overrideValues: {{x: $TOKEN}}}}",
            folder.path().display()
        );
        let read = crate::watches::parse(&text, |name| (name == "TOKEN").then(|| "t0ken-9".to_owned()));
        let watch = read.unwrap().watches.remove(0);
        let served = Preview::of(&watch);
        save(folder.path(), &template("'{{ .Values.x }} hunter22'"));
        let saved = Preview::of(&watch);
        let AfterSave::Reload(change) = served.next(&saved) else { panic!("not served") };
        assert!(change.contains("t0ken-9") && change.contains("hunter22"), "{change}");
        let shown = served.mask(&saved, &watch).hide(change);
        assert!(shown.contains("-  x: one\n+  x: **** ****\n"), "{shown}");
    }

    #[test]
    fn samples_are_those_of_the_kind() {
        let folder = tempfile::tempdir().unwrap();
        let sample = |kind: &str| format!("apiVersion: g/v1\nkind: {kind}\nmetadata: {{name: s}}\nspec: {{x: 1}}\n");
        fs::write(folder.path().join("a.yaml"), format!("{}---\n{}", sample("Other"), sample("K"))).unwrap();
        fs::write(folder.path().join("kustomization.yaml"), "resources: [a.yaml]\n").unwrap();
        let found = samples(&watch(folder.path()), folder.path());
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["s"]);
    }
}
