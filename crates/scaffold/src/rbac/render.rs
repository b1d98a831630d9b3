//! Renders a chart with all relevant values, and collects the objects that appear.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use go_encoding::json::to_serde;
use go_encoding::yaml;
use go_template::{Map, Value};
use helm::chart::Chart;
use helm::engine::{Capabilities, Engine, Lookup, LookupError, ReleaseOptions, Rendered, Request};
use helm::values::merge_maps;
use helm::view::{Nulls, coalesce, resolve};
use serde_json::{Value as Json, json};

use super::branches::{self, Change, asked_apis};
use crate::documents::items;
use crate::watches::Watch;
use crate::yaml::{parse, to_map};

/// The release's name and namespace. Text that contains one of them differs between releases.
pub(super) const RELEASE: &str = "release-name";
pub(super) const NAMESPACE: &str = "release-namespace";

/// The origin of an object: the template, relative to the chart's folder, and the values that made it appear.
pub(super) type Origin = String;

/// The objects that a chart can render.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Each kind of objects, as (API version, kind), with the first place where it appeared.
    pub(super) kinds: BTreeMap<(String, String), Origin>,
    pub(super) hooks: BTreeMap<(String, String), HookKind>,
    /// Roles and bindings, each text once.
    pub(super) rights: Vec<(Json, Origin)>,
    /// Definitions in `crds/` and in templates.
    pub(super) definitions: Vec<Json>,
    /// Whether `crds/` contains definitions.
    pub(super) has_crds: bool,
    /// The lookups of templates: API version, kind, and whether they list.
    pub(super) lookups: BTreeSet<(String, String, bool)>,
    /// Notes on what could not be determined.
    pub(super) notes: Vec<String>,
    /// Whether the chart's tests also run.
    runs_tests: bool,
    rendered: BTreeSet<String>,
    /// The kinds that each template has printed: (template, kind).
    printed: BTreeSet<(String, String)>,
    known: BTreeSet<String>,
}

/// How hooks use a kind.
#[derive(Clone, Debug, Default)]
pub(super) struct HookKind {
    /// The first place where it appeared.
    pub(super) place: Origin,
    /// Whether the server generates an object's name, so that the object is found by its labels.
    pub(super) is_generated: bool,
    /// Whether an object may be applied over an existing one, because no policy deletes that one first.
    pub(super) is_overwritten: bool,
}

/// Records the lookups of templates, and finds nothing.
#[derive(Default)]
pub(crate) struct Asked(Mutex<BTreeSet<(String, String, bool)>>);

impl Asked {
    /// Returns the kinds that templates looked up.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kinds: BTreeSet<String> = asked.iter().map(|(_, kind, _)| kind.clone()).collect();
        kinds.into_iter().collect()
    }
}

impl Lookup for Asked {
    fn lookup(&self, api_version: &str, kind: &str, _: &str, name: &str) -> Result<Value, LookupError> {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.insert((api_version.to_owned(), kind.to_owned(), name.is_empty()));
        Ok(Value::Map(Map::default()))
    }
}

/// The number of pairs after which to check whether a kind is still missing.
const PAIRS_AT_ONCE: usize = 20;

/// The values to render with, the cluster, and the note for objects that appear.
type Attempt = (Json, Cluster, String);

/// Receives the number of rendered attempts, and of attempts planned so far.
type Report<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// A chart under exploration.
struct Explorer<'a> {
    report: Report<'a>,
    /// The number of rendered attempts, and of all planned so far.
    attempts: (usize, usize),
    engine: Engine,
    asked: Arc<Asked>,
    capabilities: Capabilities,
    with_all_apis: Capabilities,
    /// Values that override all others.
    overrides: Map,
    seen: Seen,
}

/// The facts about a cluster that a render sees.
#[derive(Clone)]
struct Cluster {
    capabilities: Capabilities,
    is_upgrade: bool,
}

/// Renders the chart of a watch with its defaults, the examples, and each value changed. The watch's override values
/// always apply.
pub(super) fn all(chart: Arc<Chart>, watch: &Watch, examples: &[(&str, &[u8])], report: Report<'_>) -> Seen {
    let overrides = watch.override_values();
    let texts = texts(&chart);
    let templates: Vec<&str> = texts.iter().map(String::as_str).collect();
    let with_all_apis = with_apis(&asked_apis(&templates));
    let conditions = conditions(&chart);
    let defaults = complete(&chart, &overrides);
    let mut explorer = Explorer {
        report,
        attempts: (0, 0),
        engine: Engine::new(chart),
        asked: Arc::default(),
        capabilities: Capabilities::default(),
        with_all_apis,
        overrides,
        seen: Seen { runs_tests: watch.runs_tests, ..Seen::default() },
    };
    let changes = branches::changes(&defaults, &templates, &conditions.iter().map(String::as_str).collect::<Vec<_>>());
    explorer.explore(&changes, examples);
    explorer.finish()
}

impl Explorer<'_> {
    fn explore(&mut self, changes: &[Change], examples: &[(&str, &[u8])]) {
        let failed = self.render_both(&json!({}), "").err();
        let required = failed.as_ref().and_then(|_| self.with_required(changes));
        let mut works = failed.is_none() || required.is_some();
        let defaults = required.unwrap_or_else(|| json!({}));
        for (name, text) in examples {
            if let Ok(values) = helm::values::read(text) {
                let _ = self.render_both(&to_serde(&Value::Map(values)), &format!(" with {name}"));
            }
        }
        // Change everything at once, as far as the chart accepts it: options often require others.
        let mut everything = defaults.clone();
        self.plan(changes.iter().filter(|change| change.switches_on()).count());
        for change in changes.iter().filter(|change| change.switches_on()) {
            let more = change.apply(&everything);
            if self.render(&more, &self.sparse(), &change.note()).is_ok() {
                everything = more;
            }
        }
        works |= self.render_both(&everything, " with all options").is_ok();
        let (switches, fillers): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|change| change.is_switch());
        let on_both = |change: &&Change| {
            let note = change.note();
            [(change.apply(&defaults), self.sparse(), note.clone()), (change.apply(&everything), self.full(), note)]
        };
        let attempts: Vec<Attempt> = switches.iter().flat_map(on_both).collect();
        let fillers: Vec<Attempt> = fillers.iter().flat_map(on_both).collect();
        works |= self.render_many(&attempts);
        // Charts may generate keys in each render, so pointless renders are avoided.
        if failed.is_some() || self.has_computed_kinds() || !self.silent().is_empty() {
            works |= self.render_many(&fillers);
        }
        self.render_pairs(changes, &defaults, &everything);
        if let Some(error) = failed {
            let hint = "put values that it needs into ci/NAME-values.yaml";
            self.seen.notes.push(match works {
                true => format!("does not render with its defaults; {hint}"),
                false => format!("renders with none of the values tried ({error}); {hint}"),
            });
        }
    }

    /// Returns values that a chart renders with although it does not with its defaults: every empty string filled, as
    /// charts require names that have no default. Returns `None` if it does not render with these either.
    fn with_required(&mut self, changes: &[Change]) -> Option<Json> {
        let fills = changes.iter().filter(|change| change.fills_text());
        let filled = fills.fold(json!({}), |values, change| change.apply(&values));
        self.render_both(&filled, " with all empty strings filled").is_ok().then_some(filled)
    }

    /// Tries pairs of changes, stopping once every template has printed each kind that it names.
    fn render_pairs(&mut self, changes: &[Change], defaults: &Json, everything: &Json) {
        let texts = object_templates(self.engine.chart(), "");
        let missing = self.unprinted(&texts);
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        for pairs in branches::pairs(changes, &missing).chunks(PAIRS_AT_ONCE) {
            if self.unprinted(&texts).is_empty() {
                return;
            }
            let on_both = |(first, second): &(&Change, &Change)| {
                let note = format!(" with {} and {}", first.text(), second.text());
                let apply = |base: &Json| second.apply(&first.apply(base));
                [(apply(defaults), self.sparse(), note.clone()), (apply(everything), self.full(), note)]
            };
            let attempts: Vec<Attempt> = pairs.iter().flat_map(on_both).collect();
            self.render_many(&attempts);
        }
    }

    /// Returns the texts of templates that name a kind which they have not printed.
    fn unprinted(&self, templates: &[(String, String)]) -> Vec<String> {
        let prints = |name: &str, kind: &str| self.seen.printed.contains(&(name.to_owned(), kind.to_owned()));
        let is_missing =
            |(name, text): &&(String, String)| branches::named_kinds(text).into_iter().any(|kind| !prints(name, kind));
        templates.iter().filter(is_missing).map(|(_, text)| text.clone()).collect()
    }

    /// Returns a cluster with only Kubernetes' own APIs, at a first install.
    fn sparse(&self) -> Cluster {
        Cluster { capabilities: self.capabilities.clone(), is_upgrade: false }
    }

    /// Returns a cluster with all APIs that templates query, at an upgrade.
    fn full(&self) -> Cluster {
        Cluster { capabilities: self.with_all_apis.clone(), is_upgrade: true }
    }

    /// Renders on all cores; the result does not depend on their number. Returns whether any attempt renders.
    fn render_many(&mut self, attempts: &[Attempt]) -> bool {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut works = false;
        self.plan(attempts.len());
        for batch in attempts.chunks(cores) {
            let this = &*self;
            let rendered: Vec<_> = std::thread::scope(|scope| {
                let start = |(values, cluster, _): &Attempt| {
                    let values = this.values(values);
                    let cluster = cluster.clone();
                    scope.spawn(move || this.once(&values, &cluster))
                };
                let running: Vec<_> = batch.iter().map(start).collect();
                running.into_iter().map(|thread| thread.join().ok()?.ok()).collect()
            });
            self.count(batch.len());
            for (rendered, (.., note)) in rendered.into_iter().zip(batch) {
                works |= rendered.is_some();
                rendered.into_iter().for_each(|rendered| self.seen.add(rendered, note));
            }
        }
        works
    }

    fn plan(&mut self, attempts: usize) {
        self.attempts.1 += attempts;
    }

    fn count(&mut self, rendered: usize) {
        self.attempts.0 += rendered;
        (self.report)(self.attempts.0, self.attempts.1.max(self.attempts.0));
    }

    fn values(&self, values: &Json) -> Map {
        merge_maps(&to_map(values), &self.overrides)
    }

    fn render_both(&mut self, values: &Json, note: &str) -> Result<(), String> {
        let sparse = self.render(values, &self.sparse(), note);
        sparse.and(self.render(values, &self.full(), note))
    }

    fn render(&mut self, values: &Json, cluster: &Cluster, note: &str) -> Result<(), String> {
        let rendered = self.once(&self.values(values), cluster);
        self.count(1);
        self.seen.add(rendered?, note);
        Ok(())
    }

    fn once(&self, values: &Map, cluster: &Cluster) -> Result<Rendered, String> {
        let release = ReleaseOptions {
            name: RELEASE.to_owned(),
            namespace: NAMESPACE.to_owned(),
            revision: 1 + i64::from(cluster.is_upgrade),
            is_upgrade: cluster.is_upgrade,
        };
        let lookup: Arc<dyn Lookup> = Arc::clone(&self.asked) as Arc<dyn Lookup>;
        let capabilities = &cluster.capabilities;
        let request = Request { values, release: &release, capabilities, lookup: Some(lookup), skip_schema: true };
        self.engine.render(&request).map_err(|error| error.without_values())
    }

    /// Returns the templates that have printed nothing.
    fn silent(&self) -> Vec<String> {
        let templates = object_templates(self.engine.chart(), "");
        let names = templates.into_iter().map(|(name, _)| name);
        names.filter(|template| !self.seen.rendered.contains(template)).collect()
    }

    /// Returns whether a template prints kinds that its text does not name.
    fn has_computed_kinds(&self) -> bool {
        texts(self.engine.chart()).iter().flat_map(|text| text.lines()).any(|line| {
            let kind = line.trim_start().strip_prefix("kind:").map(str::trim_start);
            kind.is_some_and(|kind| kind.trim_start_matches(['"', '\'']).starts_with("{{"))
        })
    }

    fn finish(mut self) -> Seen {
        let asked = std::mem::take(&mut *self.asked.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.seen.lookups = asked;
        let silent = self.silent();
        if !silent.is_empty() {
            let hint = "values in ci/NAME-values.yaml that enable them add their rights";
            self.seen
                .notes
                .push(format!("no value tried makes these templates print objects: {}; {hint}", silent.join(", ")));
        }
        self.seen
    }
}

impl Seen {
    fn add(&mut self, rendered: Rendered, note: &str) {
        for manifest in &rendered.manifests {
            self.object(&manifest.path, &manifest.content, note, false);
        }
        let runs = |event: &&str| *event != "test" || self.runs_tests;
        let hooks: Vec<_> = rendered.hooks.iter().filter(|hook| hook.events.iter().any(runs)).collect();
        for hook in hooks {
            self.object(&hook.path, &hook.manifest, note, true);
        }
        for hook in &rendered.hooks {
            self.rendered.insert(below_chart(&hook.path).to_owned());
            self.printed.insert((below_chart(&hook.path).to_owned(), hook.kind.clone()));
        }
        for crd in rendered.crds.iter().filter(|_| !self.has_crds) {
            let documents = yaml::parse_documents(&crd.data).unwrap_or_default();
            self.definitions.extend(documents.into_iter().map(|document| to_serde(&Value::Map(document))));
        }
        self.has_crds |= !rendered.crds.is_empty();
    }

    fn object(&mut self, path: &str, text: &str, note: &str, is_hook: bool) {
        let template = below_chart(path);
        // The same text in the same place adds nothing; most renders repeat most objects.
        if !self.known.insert(format!("{template}\n{text}")) {
            return;
        }
        self.rendered.insert(template.to_owned());
        let Ok(object) = parse(text) else { return };
        let place = format!("{template}{note}");
        if let Some(kind) = object["kind"].as_str() {
            self.printed.insert((template.to_owned(), kind.to_owned()));
        }
        for object in items(&object).unwrap_or(std::slice::from_ref(&object)) {
            self.single(object, &place, is_hook);
        }
    }

    fn single(&mut self, object: &Json, place: &str, is_hook: bool) {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if !is_kind(&api_version, &kind) {
            return;
        }
        if api_version.starts_with("rbac.authorization.k8s.io/") {
            self.rights.push((object.clone(), place.to_owned()));
        }
        if kind == "CustomResourceDefinition" {
            self.definitions.push(object.clone());
        }
        if is_hook {
            let is_overwritten = kind == "CustomResourceDefinition" || outlives_its_run(object);
            let hook = self.hooks.entry((api_version, kind)).or_default();
            hook.is_generated |= object["metadata"]["name"].is_null();
            hook.is_overwritten |= is_overwritten;
            if hook.place.is_empty() {
                place.clone_into(&mut hook.place);
            }
        } else {
            self.kinds.entry((api_version, kind)).or_insert_with(|| place.to_owned());
        }
    }
}

/// Returns whether a hook's object may still exist when the hook runs again. Without the annotation, Helm deletes it
/// first.
fn outlives_its_run(hook: &Json) -> bool {
    let policies = hook["metadata"]["annotations"]["helm.sh/hook-delete-policy"].as_str();
    policies.is_some_and(|policies| !policies.contains("before-hook-creation"))
}

/// Returns whether this is a kind: documents may contain only comments, and tried values may end up as a kind.
fn is_kind(api_version: &str, kind: &str) -> bool {
    let mut parts = api_version.split('/').chain([kind]);
    parts.all(|part| !part.is_empty() && part != branches::FILLER)
}

/// Returns the path without the root chart's name.
fn below_chart(path: &str) -> &str {
    path.split_once('/').map_or(path, |(_, rest)| rest)
}

/// Returns the templates that may print objects, with their names below the chart's folder and their texts. Partials
/// are excluded.
fn object_templates(chart: &Chart, prefix: &str) -> Vec<(String, String)> {
    let prints = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        !file.starts_with('_')
            && file != "NOTES.txt"
            && (file.ends_with(".yaml") || file.ends_with(".yml") || file.ends_with(".hbs"))
    };
    let own =
        chart.templates.iter().filter(|file| prints(&file.name) && file.data.windows(5).any(|text| text == b"kind:"));
    let text = |file: &helm::chart::File| String::from_utf8_lossy(&file.data).into_owned();
    let mut found: Vec<_> = own.map(|file| (format!("{prefix}{}", file.name), text(file))).collect();
    for dependency in &chart.dependencies {
        if dependency.metadata.kind != "library" {
            found.extend(object_templates(dependency, &format!("{prefix}charts/{}/", dependency.metadata.name)));
        }
    }
    found
}

/// Returns the sources of all templates, including subcharts'.
fn texts(chart: &Chart) -> Vec<String> {
    let own = chart.templates.iter().map(|file| String::from_utf8_lossy(&file.data).into_owned());
    own.chain(chart.dependencies.iter().flat_map(|dependency| texts(dependency))).collect()
}

/// Returns the paths of values that enable subcharts.
fn conditions(chart: &Chart) -> Vec<String> {
    let own = chart.metadata.dependencies.iter().flat_map(|wanted| wanted.condition.split(',').map(str::trim));
    let mut found: Vec<String> = own.filter(|path| !path.is_empty()).map(str::to_owned).collect();
    let tags = chart.metadata.dependencies.iter().flat_map(|wanted| wanted.tags.iter());
    found.extend(tags.map(|tag| format!("tags.{tag}")));
    for dependency in &chart.dependencies {
        found.extend(conditions(dependency).into_iter().map(|path| format!("{}.{path}", dependency.metadata.name)));
    }
    found
}

/// Returns all values, with the defaults of the chart and its subcharts.
fn complete(chart: &Arc<Chart>, overrides: &Map) -> Json {
    let mut warnings = Vec::new();
    let view = resolve(chart, overrides, &mut warnings);
    let values = view.and_then(|view| Ok(coalesce(&view, overrides, Nulls::Keep, &mut warnings)?));
    to_serde(&Value::Map(values.unwrap_or_else(|_| chart.values.clone())))
}

/// Returns a cluster with all APIs that a chart's templates query.
pub(crate) fn asked_by(chart: &Chart) -> Capabilities {
    let texts = texts(chart);
    with_apis(&asked_apis(&texts.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn with_apis(more: &BTreeSet<String>) -> Capabilities {
    let mut capabilities = Capabilities::default();
    Arc::make_mut(&mut capabilities.api_versions).extend(more.iter().map(|version| version.as_str().into()));
    capabilities
}

impl Change {
    fn note(&self) -> String {
        format!(" with {}", self.text())
    }
}
