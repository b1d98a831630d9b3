//! A chart's JSON in release records: Helm's `pkg/chart/v2.Chart`, which omits subcharts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::codec::{ChartDocument, Error};
use super::sources::{FILES, SUBCHARTS};
use go_encoding::json::to_serde;
use helm::chart::{Chart, Dependency, File, Metadata};

impl ChartDocument {
    /// Builds the record's chart.
    ///
    /// # Errors
    /// The chart cannot be written as JSON.
    pub fn of(chart: &Chart) -> Result<ChartDocument, Error> {
        let files = |files: &[File]| files.iter().map(file).collect::<Vec<_>>();
        let mut document = json!({
            "metadata": metadata(&chart.metadata),
            "lock": chart.lock.as_ref().map(to_serde),
            "templates": files(&chart.templates),
            "values": to_serde(&go_template::Value::Map(chart.values.clone())),
            "schema": chart.schema.as_ref().map(|schema| STANDARD.encode(&**schema)),
            "files": files(&chart.files),
        });
        if !chart.dependencies.is_empty() {
            // Helm's records omit subcharts, and Helm ignores unknown fields.
            document[SUBCHARTS] = chart.dependencies_digest().into();
        }
        ChartDocument::from_json(&document.to_string())
    }

    /// Returns the chart's `crds` folder, as far as the record has it.
    pub(crate) fn crds_folder(&self) -> CrdsFolder {
        let Ok(chart) = self.to_json() else { return CrdsFolder { files: Vec::new(), is_partial: true } };
        let is_in_folder = |file: &&Value| file["name"].as_str().is_some_and(|name| name.starts_with("crds/"));
        let files = chart["files"].as_array().into_iter().flatten().filter(is_in_folder);
        let declares_subcharts = chart["metadata"]["dependencies"].as_array().is_some_and(|all| !all.is_empty());
        let omits_subcharts = declares_subcharts || !chart[SUBCHARTS].is_null();
        CrdsFolder { files: files.filter_map(text).collect(), is_partial: omits_subcharts || !chart[FILES].is_null() }
    }
}

/// The `crds` folder of a recorded chart.
pub(crate) struct CrdsFolder {
    /// The texts of its files.
    pub(crate) files: Vec<String>,
    /// Whether the record omits files or subcharts, which may have more definitions.
    pub(crate) is_partial: bool,
}

fn text(file: &Value) -> Option<String> {
    let data = STANDARD.decode(file["data"].as_str()?).ok()?;
    Some(String::from_utf8_lossy(&data).into_owned())
}

fn file(file: &File) -> Value {
    json!({"name": file.name, "data": STANDARD.encode(&*file.data)})
}

fn metadata(of: &Metadata) -> Value {
    let annotations: Map<String, Value> = of.annotations.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect();
    let maintainer = |m: &helm::chart::Maintainer| filled(json!({"name": m.name, "email": m.email, "url": m.url}));
    filled(json!({
        "name": of.name, "home": of.home, "sources": of.sources, "version": of.version, "description": of.description,
        "keywords": of.keywords, "maintainers": of.maintainers.iter().map(maintainer).collect::<Vec<_>>(), "icon": of.icon,
        "apiVersion": of.api_version, "condition": of.condition, "tags": of.tags, "appVersion": of.app_version,
        "deprecated": of.deprecated, "annotations": annotations, "kubeVersion": of.kube_version,
        "dependencies": of.dependencies.iter().map(dependency).collect::<Vec<_>>(), "type": of.kind,
    }))
}

fn dependency(of: &Dependency) -> Value {
    let mut all = filled(json!({
        "version": of.version, "condition": of.condition, "tags": of.tags, "enabled": of.enabled,
        "import-values": of.import_values.iter().map(to_serde).collect::<Vec<_>>(), "alias": of.alias,
    }));
    all["name"] = of.name.as_str().into();
    all["repository"] = of.repository.as_str().into();
    all
}

/// Drops empty fields, as Go's `omitempty` does.
fn filled(mut value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(yes) => !yes,
        Value::Null | Value::Number(_) => false,
    };
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, value| !is_empty(value));
    }
    value
}
