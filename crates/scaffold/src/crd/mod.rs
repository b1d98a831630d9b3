//! Definitions of custom resources, from charts and from the types of native kinds.
//!
//! The chart decides which values it takes, so a definition never rejects what the chart could accept: unknown fields
//! stay unless no template can read them (`closed`), every field may be null (which removes a default), resources get
//! no defaults, and no field is required that has a default in the chart.
//!
//! Each kind has one definition, wherever the project keeps it. Everything that a chart does not decide is preserved
//! (`existing`).

mod closed;
mod comments;
mod existing;
mod infer;
mod printed;
mod schema;
#[cfg(test)]
mod tests;
mod union;
mod values;

use serde_json::{Value as Json, json};

use crate::create_api::add_crd;
use crate::definitions::{Definition, Definitions, FOLDER};
use crate::documents;
use crate::gvk::Gvk;
use crate::project_file::{self, ProjectFile};
use crate::watches::{self, Watch};
use crate::{Error, Existing, Project, chart};
use values::{Extent, MAX_DEPTH};

pub use printed::{HEADER, is_generated};

/// Maximum length of a release's name, which is the resource's name.
const MAX_NAME: usize = 53;

/// Maximum size of a definition in bytes: `kubectl apply` keeps a copy in an annotation, and annotations may have 256
/// KiB in total.
const MAX_BYTES: usize = 200_000;

/// Writes the definitions of all kinds in watches.yaml, and of `natives`, which are complete definitions. Returns
/// notes.
///
/// A file that does not start with [`HEADER`] belongs to the user and is left alone, unless `existing` says otherwise.
///
/// # Errors
/// Fails if a chart does not load, or a list in `config` cannot be edited.
pub fn generate(project: &mut Project, natives: &[Json], existing: Existing) -> Result<Vec<String>, Error> {
    let definitions = Definitions::of(project)?;
    let watches = watches::read(project)?;
    let mut notes = Vec::new();
    let mut done: Vec<(String, String)> = Vec::new();
    for Watch { gvk, .. } in &watches {
        let name = (gvk.group.clone(), gvk.kind.clone());
        if !done.contains(&name) {
            notes.extend(write_chart_kind(project, gvk, (&watches, &definitions), existing)?);
            done.push(name);
        }
    }
    for native in natives {
        let known = definitions.find(&text(native, "/spec/group"), &text(native, "/spec/names/kind"));
        notes.extend(put(project, native, known, "src/api", existing)?);
    }
    Ok(notes)
}

/// Writes the definition of one kind that a chart serves, as [`generate`] does.
pub(crate) fn generate_kind(project: &mut Project, gvk: &Gvk) -> Result<Vec<String>, Error> {
    let (watches, definitions) = (watches::read(project)?, Definitions::of(project)?);
    write_chart_kind(project, gvk, (&watches, &definitions), Existing::Keep)
}

fn text(value: &Json, pointer: &str) -> String {
    value.pointer(pointer).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn write_chart_kind(
    project: &mut Project,
    gvk: &Gvk,
    (watches, definitions): (&[Watch], &Definitions),
    existing: Existing,
) -> Result<Vec<String>, Error> {
    let known = definitions.find(&gvk.group, &gvk.kind);
    let plural = definitions.plural(&gvk.group, &gvk.kind);
    let path = path(known, &gvk.group, &plural);
    if let Some(kept) = kept(project, &path, existing) {
        list(project, &path)?;
        return Ok(vec![kept]);
    }
    let old = known.map(|known| existing::upgraded(&known.document.content));
    let versions: Vec<&Watch> =
        watches.iter().filter(|watch| watch.gvk.group == gvk.group && watch.gvk.kind == gvk.kind).collect();
    let may_close = may_close(project, &versions, old.as_ref())?;
    let charts: Vec<&str> = versions.iter().map(|watch| watch.chart.as_str()).collect();
    let mut notes = Vec::new();
    let mut crd = Json::Null;
    for depth in [MAX_DEPTH, 0] {
        let versions = versions.iter().map(|watch| version(project, watch, depth, may_close));
        let new = definition(gvk, &plural, versions.collect::<Result<Vec<_>, _>>()?);
        crd = old.as_ref().map_or_else(|| new.clone(), |old| existing::keep(new.clone(), old));
        if printed::print(&crd, "").len() <= MAX_BYTES {
            break;
        }
        if depth > 0 {
            notes.push(format!(
                "{} is described without its subcharts: kubectl apply refuses larger definitions",
                gvk.kind
            ));
        }
    }
    notes.extend(put(project, &crd, known, &charts.join(", "), existing)?);
    Ok(notes)
}

/// Returns whether only the chart reads unknown fields of `spec`. Code and expressions may also read them, and versions
/// of a kind share the stored object.
fn may_close(project: &Project, versions: &[&Watch], old: Option<&Json>) -> Result<bool, Error> {
    let is_hybrid = match project.text(project_file::PATH) {
        Some(text) => ProjectFile::parse(text)?.is_hybrid(),
        None => false,
    };
    let has_code = ["Cargo.toml", "main.go", "cmd/main.go"].iter().any(|path| project.contains(path));
    let [only] = versions else { return Ok(false) };
    let others = old.and_then(|old| old["spec"]["versions"].as_array()).into_iter().flatten();
    let is_single = others.into_iter().all(|version| version["name"] == only.gvk.version);
    Ok(is_single && !is_hybrid && !has_code && !only.reads_resource)
}

fn version(project: &Project, watch: &Watch, depth: usize, may_close: bool) -> Result<Json, Error> {
    let loaded = chart::of(project, &watch.place)?;
    let texts = chart::text(project, &watch.place);
    let mut spec = values::describe(&loaded, &texts, Extent { has_others: watch.has_other_values, depth });
    spec["description"] = format!("The chart's values; {}/values.yaml has the defaults.", watch.chart).into();
    spec.as_object_mut().map(|spec| spec.remove("nullable"));
    spec["type"] = "object".into();
    spec["x-kubernetes-preserve-unknown-fields"] = true.into();
    if let Some(fields) = closed::top_level(&loaded, &spec).filter(|_| may_close) {
        closed::close(&mut spec, &fields);
    }
    let about = loaded.metadata.description.trim();
    let description = if about.is_empty() { format!("Served by the chart {}.", watch.chart) } else { about.to_owned() };
    Ok(json!({
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
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": MAX_NAME}}},
                "spec": spec,
                "status": {
                    "description": "The state that the operator last observed.",
                    "type": "object",
                    // Until the operator has seen the resource, tools that follow kstatus must not report it as ready.
                    "default": {"observedGeneration": -1},
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
        }},
    }))
}

/// Returns the columns of `kubectl get`; those with a priority appear only with `-o wide`.
fn columns() -> Json {
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
    json!([
        {"name": "Ready", "type": "string", "jsonPath": condition("Ready", "status")},
        {"name": "Objects", "type": "string", "jsonPath": ".status.readyObjects"},
        {"name": "Chart", "type": "string", "jsonPath": ".status.deployedRelease.chart"},
        {"name": "Revision", "type": "integer", "jsonPath": ".status.deployedRelease.revision"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Suspended", "type": "string", "priority": 1, "jsonPath": condition("Suspended", "status")},
        {"name": "Reason", "type": "string", "priority": 1, "jsonPath": condition("Ready", "reason")},
        {"name": "Message", "type": "string", "priority": 1, "jsonPath": condition("Ready", "message")},
    ])
}

/// Returns the definition of a kind. Its last version in watches.yaml is stored.
fn definition(gvk: &Gvk, plural: &str, mut versions: Vec<Json>) -> Json {
    if let Some(last) = versions.last_mut() {
        last["storage"] = true.into();
    }
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

/// Returns a note if the file belongs to the user.
pub(crate) fn kept(project: &Project, path: &str, existing: Existing) -> Option<String> {
    let is_own =
        existing == Existing::Keep && project.bytes(path).is_some() && !project.text(path).is_some_and(is_generated);
    is_own.then(|| format!("{path} is kept: it was not generated; --force replaces it"))
}

/// Returns the path of a definition, existing or new. Copies are never rewritten.
fn path(known: Option<&Definition>, group: &str, plural: &str) -> String {
    match known.filter(|known| !known.is_copy) {
        Some(known) => known.document.path.clone(),
        None => format!("{FOLDER}/bases/{group}_{plural}.yaml"),
    }
}

/// Writes a generated definition into its file, and lists the file.
fn put(
    project: &mut Project,
    crd: &Json,
    known: Option<&Definition>,
    source: &str,
    existing: Existing,
) -> Result<Vec<String>, Error> {
    let path = path(known, &text(crd, "/spec/group"), &text(crd, "/spec/names/plural"));
    let notes: Vec<String> = kept(project, &path, existing).into_iter().collect();
    if notes.is_empty() {
        let others = known.filter(|known| project.text(&path).is_some_and(|text| !known.document.is_alone(text)));
        let text = match others.zip(project.text(&path)) {
            Some((known, text)) => documents::replaced(text, &known.document, crd),
            None => printed::print(crd, source),
        };
        project.write(&path, text);
    }
    list(project, &path)?;
    Ok(notes)
}

/// Lists a definition in `config/crd`'s kustomization if it is in that folder; others are deployed in another way.
fn list(project: &mut Project, path: &str) -> Result<(), Error> {
    if path.starts_with(FOLDER) { add_crd(project, path) } else { Ok(()) }
}
