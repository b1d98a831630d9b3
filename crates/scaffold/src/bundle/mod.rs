//! `generate bundle`: writes the bundle from which the Operator Lifecycle Manager (OLM) installs the operator.
//! Counterpart: operator-sdk's `generate bundle`.
//!
//! ```text
//! kubectl kustomize config/default ─▶ parts ─▶ csv ─▶ bundle/manifests, bundle/metadata, bundle.Dockerfile
//! the base CSV, CRDs, samples, charts ──────────┘
//! ```
//!
//! The base CSV belongs to the user: its statements about the operator and its kinds take precedence over generated
//! ones. No date is written, so a second run changes nothing. Only files with its own first line are removed.

mod csv;
mod descriptors;
mod metadata;
mod parts;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use heck::ToTitleCase as _;
use serde_json::{Value as Json, json};

use crate::crd::HEADER;
use crate::project_file::{self, ProjectFile};
use crate::templates::{BUNDLE_BASE, BUNDLE_ICON, fill};
use crate::{Error, Existing, Project, kustomize, rbac, watches, yaml};
use parts::Parts;

/// The folder of the bundle.
pub const FOLDER: &str = "bundle";

/// The icon, which belongs to the user.
const ICON: &str = "config/manifests/icon.svg";

/// Facts about the bundle that the manifests do not contain.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The operator's version, such as `0.0.1`.
    pub version: String,
    /// The channels that offer this version.
    pub channels: Vec<String>,
    /// The channel for users who choose none; OLM requires it if there are several channels.
    pub default_channel: Option<String>,
    /// The package's name; by default the project's.
    pub package: Option<String>,
    /// What to do with metadata and a Dockerfile that exist.
    pub metadata: Existing,
}

/// Writes the bundle from `manifests`, the output that `make deploy` applies. Removes the files that an earlier run wrote
/// and this one does not. Returns notes.
///
/// # Errors
/// Fails if the manifests are not valid YAML or lack a Deployment, a chart does not load, or a name is not known.
pub fn generate(project: &mut Project, manifests: &str, options: &Options) -> Result<Vec<String>, Error> {
    let parts = Parts::of(documents("the standard input", manifests)?)?;
    let name = package(project, &parts, options)?;
    let mut notes = Vec::new();
    let base = base(project, &name, &parts, &mut notes)?;
    let examples = examples(project, &parts)?;
    let charts = charts(project)?;
    let mut version = csv::assemble(&base, &parts, &examples, &charts);
    csv::name(&mut version, &name, &options.version);
    icon(project, &mut version);
    let mut files = parts.files();
    files.push((format!("{name}.clusterserviceversion.yaml"), version));
    notes.extend(write(project, files));
    metadata::write(project, &name, options)?;
    notes.extend(parts.notes());
    Ok(notes)
}

/// Writes the manifests, and removes those of an earlier run. Returns notes on the files of others.
fn write(project: &mut Project, files: Vec<(String, Json)>) -> Vec<String> {
    let folder = format!("{FOLDER}/manifests");
    let is_other = |(file, _): &(&str, &[u8])| files.iter().all(|(own, _)| own != file);
    let others = project.below(&folder).filter(is_other);
    let (old, foreign): (Vec<_>, Vec<_>) = others
        .map(|(file, content)| (format!("{folder}/{file}"), content.starts_with(start().as_bytes())))
        .partition(|(_, is_ours)| *is_ours);
    old.iter().for_each(|(path, _)| project.remove(path));
    for (file, document) in files {
        let text = format!("{} from the manifests; do not edit.\n{}", start(), yaml::print(&document));
        project.write(format!("{folder}/{file}"), text);
    }
    let note = |(path, _): (String, bool)| {
        format!(
            "{path} is kept: its first line does not say that it was generated; delete it unless it belongs to the bundle"
        )
    };
    foreign.into_iter().map(note).collect()
}

/// Returns the start of a manifest that an earlier run wrote. Other generators have another, and users may copy their files.
fn start() -> String {
    format!("{HEADER} bundle'")
}

/// Returns the maps among the documents of a stream.
fn documents(name: &str, text: &str) -> Result<Vec<Json>, Error> {
    let parts = text.split("\n---").map(|part| part.trim_start_matches("---"));
    let documents = parts.map(yaml::parse).collect::<Result<Vec<_>, _>>().map_err(|error| Error::read(name, error))?;
    Ok(documents.into_iter().filter(Json::is_object).collect())
}

fn package(project: &Project, parts: &Parts, options: &Options) -> Result<String, Error> {
    let file = project.text(project_file::PATH).map(ProjectFile::parse).transpose()?;
    let own = file.map(|file| file.name().to_owned()).filter(|name| !name.is_empty());
    let deployed = || parts.deployments[0]["metadata"]["name"].as_str()?.strip_suffix("-controller-manager");
    options.package.clone().or(own).or_else(|| deployed().map(str::to_owned)).ok_or(Error::Missing("package"))
}

/// Returns the user's base CSV, from the manifests or from a file, which is created if it is missing.
fn base(project: &mut Project, name: &str, parts: &Parts, notes: &mut Vec<String>) -> Result<Json, Error> {
    if let Some(base) = &parts.base {
        return check_base("the ClusterServiceVersion in the standard input", base.clone());
    }
    let path = format!("config/manifests/bases/{name}.clusterserviceversion.yaml");
    if !project.contains(&path) {
        let words = [("name", name), ("title", &name.to_title_case())];
        project.create(path.as_str(), fill(BUNDLE_BASE, &words));
        project.create(ICON, BUNDLE_ICON);
        notes.push(format!("describe the operator in {path}, and draw its icon in {ICON}"));
    }
    let base = yaml::parse(project.text(&path).unwrap_or_default()).map_err(|error| Error::read(&path, error))?;
    check_base(&path, base)
}

/// Rejects a base in which a map that the bundle fills has another type.
fn check_base(name: &str, base: Json) -> Result<Json, Error> {
    let tables = ["", "/metadata", "/metadata/annotations", "/spec", "/spec/customresourcedefinitions"];
    let is_other = |table: &&str| base.pointer(table).is_some_and(|value| !value.is_object() && !value.is_null());
    match tables.into_iter().find(is_other) {
        Some(table) => Err(Error::read(name, format!("{:?} is not a table", table.trim_start_matches('/')))),
        None => Ok(base),
    }
}

/// Sets the icon from the project's file, unless the base has one.
fn icon(project: &Project, version: &mut Json) {
    let is_set = version["spec"]["icon"][0]["base64data"].as_str().is_some_and(|data| !data.is_empty());
    if let (false, Some(icon)) = (is_set, project.bytes(ICON)) {
        version["spec"]["icon"] = json!([{"base64data": STANDARD.encode(icon), "mediatype": "image/svg+xml"}]);
    }
}

/// Returns the samples of the bundle's kinds.
fn examples(project: &Project, parts: &Parts) -> Result<Vec<Json>, Error> {
    let mut found = parts.examples.clone();
    for path in kustomize::files(project, "config/samples")? {
        found.extend(documents(&path, project.text(&path).unwrap_or_default())?);
    }
    found.retain(|sample| parts.defines(sample));
    Ok(found)
}

/// Returns the kinds that charts serve, and the objects that each chart creates.
fn charts(project: &Project) -> Result<Vec<csv::Chart>, Error> {
    let chart = |watch: &watches::Watch| {
        let kinds = rbac::kinds(project, watch)?;
        Ok(csv::Chart { gvk: watch.gvk.clone(), kinds })
    };
    watches::read(project)?.iter().map(chart).collect()
}
