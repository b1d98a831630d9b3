//! Definitions of custom resources: from charts, and from the types of native kinds.
//!
//! The chart decides which values it takes, so a definition never rejects what the chart could accept: unknown fields stay, every field may be null
//! (which removes a default), no default is written into resources, and nothing is required that the chart has a default for.

mod comments;
mod infer;
mod printed;
mod schema;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use crate::create_api::add_crd;
use crate::gvk::Gvk;
use crate::watches::{self, Watch};
use crate::{Error, Project, chart, yaml};

pub use printed::{HEADER, is_generated};

/// Writes the definitions of all kinds in watches.yaml, and of `natives`, which are complete definitions. Returns notes.
///
/// A file that does not start with [`HEADER`] belongs to the user and is left alone, unless `force` is set.
///
/// # Errors
/// A chart does not load, or a list of `config` cannot be edited.
pub fn generate(project: &mut Project, natives: &[Json], force: bool) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    let mut done: Vec<String> = Vec::new();
    for watch in watches::read(project)? {
        let path = watch.gvk.crd_file();
        if !done.contains(&path) {
            notes.extend(write_chart_kind(project, &watch.gvk, force)?);
            done.push(path);
        }
    }
    for native in natives {
        let gvk = of_native(native);
        let text = printed::print(native, "src/api");
        notes.extend(put(project, &gvk.crd_file(), text, force)?);
    }
    Ok(notes)
}

/// As [`generate`], for one kind that a chart serves.
pub(crate) fn generate_kind(project: &mut Project, gvk: &Gvk) -> Result<Vec<String>, Error> {
    write_chart_kind(project, gvk, false)
}

/// Names of a complete definition.
fn of_native(crd: &Json) -> Gvk {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let spec = &crd["spec"];
    Gvk { group: text(&spec["group"]), version: text(&spec["versions"][0]["name"]), kind: text(&spec["names"]["kind"]) }
}

fn write_chart_kind(project: &mut Project, gvk: &Gvk, force: bool) -> Result<Vec<String>, Error> {
    let versions: Vec<Watch> = watches::read(project)?
        .into_iter()
        .filter(|watch| watch.gvk.group == gvk.group && watch.gvk.kind == gvk.kind)
        .collect();
    let versions = versions.iter().map(|watch| version(project, watch)).collect::<Result<Vec<_>, _>>()?;
    let sources: Vec<&str> = versions.iter().map(|(_, chart)| chart.as_str()).collect();
    let text = printed::print(&definition(gvk, &versions), &sources.join(", "));
    put(project, &gvk.crd_file(), text, force)
}

/// One version of a kind, and its chart.
fn version(project: &Project, watch: &Watch) -> Result<(Json, String), Error> {
    let loaded = chart::of(project, &watch.chart)?;
    let text = project.text(&format!("{}/values.yaml", watch.chart)).unwrap_or_default();
    let values = yaml::parse(text).unwrap_or(Json::Null);
    let comments = comments::read(text);
    let mut spec = match loaded.schema.as_ref().and_then(|text| serde_json::from_slice(text).ok()) {
        Some(schema) => {
            let mut spec = schema::convert(&schema, &schema::Defaults::of(&values, watch));
            comments::describe_fields(&mut spec, "", &comments);
            spec
        }
        None => infer::table(&values, &comments),
    };
    spec["description"] = format!("The chart's values; {}/values.yaml has the defaults.", watch.chart).into();
    spec.as_object_mut().map(|spec| spec.remove("nullable"));
    spec["type"] = "object".into();
    spec["x-kubernetes-preserve-unknown-fields"] = true.into();
    let about = loaded.metadata.description.trim();
    let description = if about.is_empty() { format!("Served by the chart {}.", watch.chart) } else { about.to_owned() };
    let version = json!({
        "name": watch.gvk.version,
        "served": true,
        "storage": false,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns(),
        "schema": {"openAPIV3Schema": {
            "description": description,
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": spec,
                "status": {
                    "description": "The state that the operator last observed.",
                    "type": "object",
                    // Until the operator has seen the resource, tools that follow kstatus must not take it for ready.
                    "default": {"observedGeneration": -1},
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
        }},
    });
    Ok((version, watch.chart.clone()))
}

fn columns() -> Json {
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
    json!([
        {"name": "Ready", "type": "string", "jsonPath": condition("Ready", "status")},
        {"name": "Reason", "type": "string", "jsonPath": condition("Ready", "reason")},
        {"name": "Suspended", "type": "string", "jsonPath": condition("Suspended", "status")},
        {"name": "Revision", "type": "integer", "jsonPath": ".status.deployedRelease.revision"},
        {"name": "Message", "type": "string", "priority": 1, "jsonPath": condition("Ready", "message")},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

/// The definition of a kind. Its last version in watches.yaml is stored.
fn definition(gvk: &Gvk, versions: &[(Json, String)]) -> Json {
    let mut versions: Vec<Json> = versions.iter().map(|(version, _)| version.clone()).collect();
    if let Some(last) = versions.last_mut() {
        last["storage"] = true.into();
    }
    let plural = gvk.plural();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", gvk.group)},
        "spec": {
            "group": gvk.group,
            "names": {
                "kind": gvk.kind,
                "listKind": format!("{}List", gvk.kind),
                "plural": plural,
                "singular": gvk.lower(),
            },
            "scope": "Namespaced",
            "versions": versions,
        },
    })
}

/// Writes a generated file and lists it.
fn put(project: &mut Project, path: &str, text: String, force: bool) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    if force || project.text(path).is_none_or(is_generated) {
        project.write(path, text);
    } else {
        notes.push(format!("{path} is kept: it was not generated; --force replaces it"));
    }
    add_crd(project, path)?;
    Ok(notes)
}
