//! The result that the page shows for a chart and values. Reads no file and reaches no network.

use go_encoding::json;
use go_template::Limits;
use helm::chart::{Chart, File, LoadError};
use helm::engine::{Capabilities, Engine, KubeVersion, ReleaseOptions, Rendered, Request};
use helm::origins::{Layer, Leaf, Origin, Traced, dotted, trace};
use helm::template::Options;
use helm::values;
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// What to render a chart with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Question {
    /// The text of a values file.
    #[serde(default)]
    pub values: String,
    /// The release's name.
    pub release: String,
    /// The release's namespace.
    pub namespace: String,
    /// The version of Kubernetes, or empty for the default of `helm template`.
    #[serde(default)]
    pub kube_version: String,
    /// Whether it is an upgrade.
    #[serde(default)]
    pub is_upgrade: bool,
}

/// Why there is nothing to show, and where.
struct Failure {
    text: String,
    places: Vec<Json>,
}

impl Failure {
    fn of(error: impl ToString) -> Failure {
        Failure { text: error.to_string(), places: Vec::new() }
    }
}

/// Renders, and traces the values. Failures are part of the result: values are traced even if a template fails.
pub fn answer(engine: &Engine, question: &Question) -> Json {
    let given = match values::read(question.values.as_bytes()) {
        Ok(given) => given,
        Err(error) => return json!({"error": {"text": error.to_string(), "places": []}}),
    };
    let layer = Layer { own: Some(given.clone()), merged: Some(given.clone()) };
    let mut shown = match trace(engine.chart(), &[layer]) {
        Ok(traced) => traced_values(&traced),
        Err(_) => json!({}),
    };
    match rendered(engine, question, &given) {
        Ok((rendered, text)) => {
            shown["objects"] = objects(&rendered);
            shown["notes"] = rendered.notes.clone().into();
            shown["warnings"] = rendered.warnings.clone().into();
            shown["text"] = text.into();
        }
        Err(failure) => shown["error"] = json!({"text": failure.text, "places": failure.places}),
    }
    shown
}

/// Returns what was rendered, and the text that `helm template` prints.
fn rendered(engine: &Engine, question: &Question, given: &go_template::Map) -> Result<(Rendered, String), Failure> {
    let missing = engine.chart().missing_dependencies();
    if !missing.is_empty() {
        return Err(Failure::of(format!(
            "found in Chart.yaml, but missing in charts/ directory: {}",
            missing.join(", ")
        )));
    }
    let mut capabilities = Capabilities::default();
    if !question.kube_version.is_empty() {
        capabilities.kube_version = KubeVersion::parse(&question.kube_version).map_err(Failure::of)?;
    }
    let release = ReleaseOptions {
        name: question.release.clone(),
        namespace: question.namespace.clone(),
        revision: 1,
        is_upgrade: question.is_upgrade,
    };
    let request =
        Request { values: given, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false };
    let rendered = engine.render(&request).map_err(|error| failure(&error))?;
    let printed = Options::default().output(Ok(rendered.clone()), Vec::new()).map_err(Failure::of)?;
    Ok((rendered, String::from_utf8_lossy(&printed.text).into_owned()))
}

fn failure(error: &helm::engine::Error) -> Failure {
    let places = match error {
        helm::engine::Error::Template(error) => error.places(),
        _ => &[],
    };
    let place = |place: &helm::engine::Position| json!({"template": place.template, "line": place.line, "column": place.column});
    Failure { text: error.to_string(), places: places.iter().map(place).collect() }
}

fn objects(rendered: &Rendered) -> Json {
    let manifests = rendered.manifests.iter().map(|one| {
        json!({"source": one.path, "kind": one.head.kind, "name": one.head.name, "text": one.content, "isHook": false})
    });
    let hooks = rendered.hooks.iter().map(
        |one| json!({"source": one.path, "kind": one.kind, "name": one.name, "text": one.manifest, "isHook": true}),
    );
    manifests.chain(hooks).collect()
}

fn traced_values(traced: &Traced) -> Json {
    let unread: Vec<Json> =
        traced.unread.iter().map(|key| json!({"path": key.path.join("."), "nearest": key.nearest})).collect();
    json!({"values": traced.leaves.iter().map(leaf).collect::<Vec<_>>(), "unread": unread})
}

fn leaf(leaf: &Leaf) -> Json {
    let replaced =
        leaf.replaced.iter().map(|(origin, value)| json!({"origin": describe(origin), "value": json::to_serde(value)}));
    json!({
        "path": dotted(&leaf.path),
        "value": json::to_serde(&leaf.value),
        "origin": describe(&leaf.origin),
        "isGiven": matches!(leaf.origin, Origin::Given(_)),
        "isRemoved": leaf.is_removed,
        "replaced": replaced.collect::<Vec<_>>(),
    })
}

/// Describes an origin as `helm-operator values` does: `shop/values.yaml:12`.
fn describe(origin: &Origin) -> String {
    match origin {
        Origin::Given(_) => "values".to_owned(),
        Origin::Helm => "Helm".to_owned(),
        Origin::Default(default) => default.to_string(),
    }
}

/// Maximum nesting of `include`, which the stack of a browser's thread holds. Public charts stay below 20.
const MAX_EXECUTIONS: usize = 100;

/// Opens a chart from its files, with lines of its values, and with a limit that a browser's stack holds.
///
/// # Errors
/// The files are not a chart, or exceed a limit.
pub fn open(files: Vec<File>) -> Result<Engine, LoadError> {
    let limits = Limits { executions: MAX_EXECUTIONS, ..Limits::default() };
    Ok(Engine::new(Chart::from_files_with_lines(files)?).with_limits(limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 3] = [
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("values.yaml", "# How many.\nreplicas: 1\nname: a\n"),
        (
            "templates/map.yaml",
            "kind: ConfigMap\nmetadata: {name: {{ .Values.name }}}\ndata:\n  size: {{ required \"say how many\" .Values.replicas | quote }}\n",
        ),
    ];

    fn asked(values: &str) -> Json {
        let engine = open(FILES.map(Into::into).to_vec()).unwrap();
        let question = json!({"values": values, "release": "rel", "namespace": "ns"});
        answer(&engine, &serde_json::from_value(question).unwrap())
    }

    #[test]
    fn objects_come_with_their_template_and_values_with_their_origin() {
        let shown = asked("replicas: 3\n");
        assert_eq!(shown["objects"][0]["source"], "web/templates/map.yaml");
        assert_eq!((&shown["objects"][0]["kind"], &shown["objects"][0]["name"]), (&json!("ConfigMap"), &json!("a")));
        assert!(shown["text"].as_str().unwrap().starts_with("---\n# Source: web/templates/map.yaml\n"));
        let [name, replicas] = [&shown["values"][0], &shown["values"][1]];
        assert_eq!((&name["path"], &name["origin"]), (&json!("name"), &json!("web/values.yaml:3")));
        assert_eq!((&replicas["value"], &replicas["isGiven"]), (&json!(3), &json!(true)));
        assert_eq!(replicas["replaced"], json!([{"origin": "web/values.yaml:2", "value": 1}]));
    }

    #[test]
    fn a_failing_template_is_named_with_its_line_and_values_are_shown_all_the_same() {
        let shown = asked("replicas: null\nreplica: 2\n");
        assert!(shown["error"]["text"].as_str().unwrap().contains("say how many"), "{shown}");
        assert_eq!(shown["error"]["places"][0], json!({"template": "web/templates/map.yaml", "line": 4, "column": 11}));
        assert_eq!(shown["unread"][0], json!({"path": "replica", "nearest": "replicas"}));
    }

    #[test]
    fn values_that_are_not_yaml_are_an_error() {
        assert!(asked("a: b: c").get("error").is_some());
    }
}
