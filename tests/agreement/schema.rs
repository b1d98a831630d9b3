//! Checks that the types of built-in kinds in `memory-api` equal those of the server's OpenAPI documents.
//!
//! `UPDATE_TYPES=1` rewrites `crates/memory-api/types.txt`, whose format `schema/mod.rs` describes.

use std::collections::{BTreeMap, BTreeSet};

use helm_release::kube::{Api, Call};
use serde_json::{Map, Value};

/// The group versions whose kinds the server in memory serves.
const GROUPS: [&str; 15] = [
    "api/v1",
    "apis/apps/v1",
    "apis/batch/v1",
    "apis/autoscaling/v2",
    "apis/networking.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/storage.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/coordination.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apiregistration.k8s.io/v1",
];

/// Kinds that no chart renders.
const LEFT_OUT: [&str; 14] = [
    "bindings",
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "ipaddresses",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "podtemplates",
    "servicecidrs",
    "tokenreviews",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "volumeattachments",
    "volumeattributesclasses",
];

/// A server's documents, and the structures that its kinds need.
#[derive(Default)]
struct Types {
    schemas: Map<String, Value>,
    kinds: BTreeSet<String>,
    needed: Vec<String>,
    seen: BTreeSet<String>,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Shortens `io.k8s.api.core.v1.Pod` to `core.v1.Pod`.
fn short(name: &str) -> &str {
    let prefixes = [
        "io.k8s.api.",
        "io.k8s.apimachinery.pkg.apis.",
        "io.k8s.apiextensions-apiserver.pkg.apis.",
        "io.k8s.kube-aggregator.pkg.apis.",
    ];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

impl Types {
    async fn read(api: &dyn Api) -> Types {
        let mut types = Types::default();
        for group in GROUPS {
            let document: Value = api.send(Call::get(format!("/openapi/v3/{group}"))).await.unwrap().parse().unwrap();
            types.schemas.extend(document["components"]["schemas"].as_object().unwrap().clone());
            types.add_kinds(document["paths"].as_object().unwrap());
        }
        types.need("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        types
    }

    fn add_kinds(&mut self, paths: &Map<String, Value>) {
        for (path, item) in paths {
            let kind = &item["post"]["x-kubernetes-group-version-kind"];
            let plural = path.rsplit('/').next().unwrap_or_default();
            let one = format!("{path}/{{name}}");
            let is_collection = kind.is_object()
                && !path.contains("{name}")
                && paths.get(&one).is_some_and(|one| one["get"].is_object());
            if !is_collection || LEFT_OUT.contains(&plural) {
                continue;
            }
            let group = text(kind, "group");
            let slash = if group.is_empty() { "" } else { "/" };
            let scope = if path.contains("{namespace}") { "Namespaced" } else { "Cluster" };
            let is_it = |schema: &Value| {
                let kinds = schema["x-kubernetes-group-version-kind"].as_array();
                kinds.is_some_and(|kinds| kinds.contains(kind))
            };
            let found = self.schemas.iter().find(|(name, schema)| name.starts_with("io.k8s") && is_it(schema));
            let structure = found.unwrap().0.clone();
            let subresources =
                ["status", "scale"].into_iter().filter(|sub| paths.contains_key(&format!("{one}/{sub}")));
            let subresources: String = subresources.map(|sub| format!(" {sub}")).collect();
            self.kinds.insert(format!(
                "kind {group}{slash}{} {} {plural} {scope} {}{subresources}",
                text(kind, "version"),
                text(kind, "kind"),
                short(&structure)
            ));
            self.need(&structure);
        }
    }

    fn need(&mut self, name: &str) {
        if self.seen.insert(name.to_owned()) {
            self.needed.push(name.to_owned());
        }
    }

    fn lines(mut self) -> String {
        let mut structures = BTreeMap::new();
        while let Some(name) = self.needed.pop() {
            let schema = self.schemas[&name].clone();
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let mut line = short(&name).to_owned();
            for (field, value) in schema["properties"].as_object().into_iter().flatten() {
                let is_required = required.iter().any(|name| name == field);
                line = format!("{line} {field}:{}", self.field(&name, (field, value), is_required));
            }
            let atomic = if is_atomic(&schema) { "!" } else { "" };
            structures.insert(short(&name).to_owned(), format!("{atomic}{line}"));
        }
        self.kinds.into_iter().chain(structures.into_values()).map(|line| line + "\n").collect()
    }

    fn field(&mut self, structure: &str, (name, value): (&str, &Value), is_required: bool) -> String {
        let mut of = self.of(value);
        let default = &value["default"];
        let is_composite = of.starts_with(['[', '{', '!']);
        // Not a pointer in Go, and without `omitempty`: always written.
        let is_time = structure.ends_with("Condition") && name.starts_with("last") && name.ends_with("Time");
        let is_rules = name == "rules" && of.starts_with("[@rbac");
        if default.as_object().is_some_and(Map::is_empty) {
            of.push('^');
        } else if is_time || is_rules || is_required && is_composite {
            of.push('*');
        }
        if let Some(default) = default.as_str().filter(|text| !text.is_empty()) {
            of = format!("{of}={default}");
        }
        let strategy = text(value, "x-kubernetes-patch-strategy").replace(',', "+");
        if strategy.is_empty() {
            return of;
        }
        match value["x-kubernetes-patch-merge-key"].as_str() {
            Some(key) => format!("{of}~{strategy}:{key}"),
            None => format!("{of}~{strategy}"),
        }
    }

    fn of(&mut self, value: &Value) -> String {
        let reference = value["$ref"].as_str().or_else(|| value["allOf"][0]["$ref"].as_str());
        if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
            return self.structure(name, is_atomic(value));
        }
        match text(value, "type") {
            "array" => {
                let inner = self.of(&value["items"]);
                let keys = value["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                match text(value, "x-kubernetes-list-type") {
                    "set" => format!("[{inner}]set"),
                    "map" => format!("[{inner}]{}", keys.filter_map(Value::as_str).collect::<Vec<_>>().join(",")),
                    _ => format!("[{inner}]"),
                }
            }
            "object" => {
                let inner = &value["additionalProperties"];
                let has_type = inner.as_object().is_some_and(|inner| !inner.is_empty());
                let inner = if has_type { self.of(inner) } else { "?".into() };
                format!("{}{{{inner}}}", if is_atomic(value) { "!" } else { "" })
            }
            "string" if text(value, "format") == "int-or-string" => "q".into(),
            "" if value["oneOf"].is_array() => "q".into(),
            scalar => scalar_of(scalar).into(),
        }
    }

    fn structure(&mut self, name: &str, atomic: bool) -> String {
        let last = name.rsplit('.').next().unwrap_or_default();
        match last {
            "Quantity" | "IntOrString" => return "q".into(),
            "JSON" | "RawExtension" | "FieldsV1" => return "?".into(),
            _ if last.starts_with("JSONSchemaPropsOr") => return "?".into(),
            _ => {}
        }
        let schema = &self.schemas[name];
        if !schema["properties"].is_object() {
            return scalar_of(text(schema, "type")).into();
        }
        self.need(name);
        format!("{}@{}", if atomic { "!" } else { "" }, short(name))
    }
}

fn is_atomic(value: &Value) -> bool {
    value["x-kubernetes-map-type"] == "atomic"
}

fn scalar_of(kind: &str) -> &'static str {
    match kind {
        "string" => "s",
        "integer" => "i",
        "number" => "n",
        "boolean" => "b",
        _ => "?",
    }
}

/// Compares the types with those of a server.
pub(super) async fn check(api: &dyn Api) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/memory-api/types.txt");
    let (known, found) = (std::fs::read_to_string(path).unwrap(), Types::read(api).await.lines());
    if std::env::var_os("UPDATE_TYPES").is_some() {
        return std::fs::write(path, found).unwrap();
    }
    let lines = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
    let differences: Vec<String> = lines(&known).symmetric_difference(&lines(&found)).cloned().collect();
    assert!(differences.is_empty(), "UPDATE_TYPES=1 rewrites types.txt, which differs in\n{}", differences.join("\n"));
}
