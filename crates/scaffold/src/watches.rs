//! The parts of watches.yaml that generators need. The operator itself reads the file in `helm-operator`.

use go_template::Map;
use helm::engine::{Key, LookupGrant};
use serde_json::Value as Json;

use crate::gvk::Gvk;
use crate::lint::undecided;
use crate::{Error, Project, chart, policies, yaml};

pub(crate) const PATH: &str = "watches.yaml";

#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) gvk: Gvk,
    /// The chart's folder or archive in the project, or its URL.
    pub(crate) chart: String,
    /// The path of the chart in the project. For a fetched chart, it includes the version or digest.
    pub(crate) place: String,
    /// Dotted paths and values that always apply.
    pub(crate) overrides: Vec<(String, String)>,
    /// Whether the entry says how its overrides are typed.
    pub(crate) has_overrides_type: bool,
    /// Whether values also come from ConfigMaps, or from anything that a resource's annotation names.
    pub(crate) reads_config_maps: bool,
    /// The group and kind of objects that resources depend on, and the key that says so.
    pub(crate) depends_on: Vec<(String, String, &'static str)>,
    /// Whether any values come from other sources than the resource.
    pub(crate) has_other_values: bool,
    /// Whether expressions read the resource.
    pub(crate) reads_resource: bool,
    /// Whether the entry leaves installing the chart's definitions to others.
    pub(crate) skips_crds: bool,
    pub(crate) runs_tests: bool,
    /// Whether events quote the logs of failed hooks.
    pub(crate) reads_logs: bool,
    /// The annotations that a resource must not set.
    pub(crate) refused_annotations: Vec<String>,
    /// The objects that a release may contain.
    pub(crate) objects: Json,
    /// Whether the entry declares the namespaces that objects may be in.
    pub(crate) has_namespaces: bool,
    /// Whether the entry declares the cluster-scoped kinds that objects may have.
    pub(crate) has_cluster_scoped: bool,
    /// The ServiceAccount that writes the chart's objects, without its namespace.
    pub(crate) account: Option<String>,
    /// The keys about permissions and records that the entry does not set.
    pub(crate) undecided: Vec<&'static str>,
    /// The lookups that templates may make beyond their release.
    pub(crate) grant: LookupGrant,
}

/// Reads the project's watches file.
pub(crate) fn read(project: &Project) -> Result<Vec<Watch>, Error> {
    let Some(text) = project.text(PATH) else { return Ok(Vec::new()) };
    match yaml::parse(text).map_err(|error| Error::read(PATH, error))? {
        Json::Null => Ok(Vec::new()),
        Json::Array(entries) => Ok(entries.iter().map(|entry| watch(project, entry)).collect()),
        _ => Err(Error::read(PATH, "the file is not a list")),
    }
}

fn watch(project: &Project, entry: &Json) -> Watch {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let sources = entry["valuesFrom"].as_array().map(Vec::as_slice).unwrap_or_default();
    let annotation = entry["valuesFromAnnotation"].as_bool().unwrap_or(entry["valuesFromAnnotation"].is_object());
    let overrides = entry["overrideValues"].as_object();
    let chart = chart::path(project, &text("chart"));
    Watch {
        gvk: Gvk { group: text("group"), version: text("version"), kind: text("kind") },
        place: place(&chart, &entry["pull"]),
        chart,
        overrides: overrides.map(flat).unwrap_or_default(),
        has_overrides_type: !entry["overrideValuesType"].is_null(),
        reads_config_maps: annotation || sources.iter().any(|source| source["kind"] == "ConfigMap"),
        depends_on: depends_on(entry),
        has_other_values: annotation || !sources.is_empty() || overrides.is_some(),
        reads_resource: entry["status"].to_string().contains("self"),
        skips_crds: text("crds") == "skip",
        reads_logs: entry["hookLogs"] == true,
        runs_tests: entry["test"]["enable"] == true,
        refused_annotations: policies::refused_annotations(entry),
        objects: entry["objects"].clone(),
        has_namespaces: !entry["objects"]["namespaces"].is_null(),
        has_cluster_scoped: !entry["objects"]["clusterScoped"].is_null(),
        account: entry["serviceAccountName"]
            .as_str()
            .filter(|name| *name != "$(operator)")
            .map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()),
        undecided: undecided(|key| !entry[key].is_null()),
        grant: grant(&entry["lookup"]),
    }
}

/// Returns where the project has an entry's chart.
fn place(chart: &str, pull: &Json) -> String {
    let wanted = pull["digest"].as_str().or_else(|| pull["version"].as_str());
    if chart::is_fetched(chart) { chart::fetched_place(chart, wanted) } else { chart.to_owned() }
}

/// Returns the group and kind of objects that an entry's resources, or their annotations, may depend on.
fn depends_on(entry: &Json) -> Vec<(String, String, &'static str)> {
    let list = |of: &Json| of.as_array().cloned().unwrap_or_default();
    let text = |of: &Json| of.as_str().unwrap_or_default().to_owned();
    let own = list(&entry["dependsOn"]).into_iter().map(|one| (text(&one["group"]), text(&one["kind"]), "dependsOn"));
    let named = list(&entry["dependsOnAnnotation"]["kinds"]).into_iter().map(|named| {
        let named = text(&named);
        let (kind, group) = named.split_once('.').unwrap_or((&named, ""));
        (group.to_owned(), kind.to_owned(), "dependsOnAnnotation")
    });
    own.chain(named).filter(|(_, kind, _)| !kind.is_empty()).collect()
}

fn grant(lookup: &Json) -> LookupGrant {
    let namespaces = lookup["namespaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    LookupGrant {
        namespaces: namespaces.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        all: lookup["all"].as_bool().unwrap_or_default(),
    }
}

/// Returns override values in the form of `--set`: `a.b`, `value`. Nested maps are flattened.
fn flat(table: &serde_json::Map<String, Json>) -> Vec<(String, String)> {
    let entry = |(key, value): (&String, &Json)| match value {
        Json::Object(inner) => {
            flat(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)).collect::<Vec<_>>()
        }
        Json::String(text) => vec![(key.clone(), text.clone())],
        other => vec![(key.clone(), other.to_string())],
    };
    table.iter().flat_map(entry).collect()
}

impl Watch {
    /// Returns whether the chart's own text decides this property of objects, because the entry does not.
    pub(crate) fn leaves_open(&self, what: Key) -> bool {
        match what {
            Key::Namespace => !self.has_namespaces,
            Key::Kind => !self.has_cluster_scoped,
        }
    }

    /// Returns the override values as a map, except those that do not parse, such as ones with unexpanded variables.
    pub(crate) fn override_values(&self) -> Map {
        let mut values = Map::default();
        for (path, value) in &self.overrides {
            let attempt = values.deep_copy();
            if helm::strvals::parse_into(&format!("{path}={value}"), &attempt).is_ok() {
                values = attempt;
            }
        }
        values
    }
}

/// The keys about permissions and records with their defaults, written out so that users see what they can change.
pub(crate) const DECIDED: [(&str, &str); 2] =
    [("serviceAccountName", "$(operator)"), ("storageNamespace", "$(release)")];

/// Adds an entry unless the kind has one.
pub(crate) fn add(project: &mut Project, gvk: &Gvk, chart: &str) -> Result<(), Error> {
    if read(project)?.iter().any(|watch| watch.gvk == *gvk) {
        return Ok(());
    }
    project.create(PATH, "");
    let named = [("group", gvk.group.as_str()), ("version", &gvk.version), ("kind", &gvk.kind), ("chart", chart)];
    let fields: Vec<_> = named.into_iter().chain(DECIDED).collect();
    project
        .edit(PATH, |text| yaml::push_table(text, &fields).map_err(|source| Error::Edit { path: PATH.into(), source }))
}
