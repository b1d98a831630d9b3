//! The metadata that a registry reads: annotations of the bundle, and the same as labels of its image.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use super::{FOLDER, Options};
use crate::{Error, Existing, Project, yaml};

const PREFIX: &str = "operators.operatorframework.io.bundle";

/// Writes `metadata/annotations.yaml`, keeping its other annotations, and `bundle.Dockerfile`; only the missing ones if
/// `options` say so.
pub(super) fn write(project: &mut Project, package: &str, options: &Options) -> Result<(), Error> {
    let path = format!("{FOLDER}/metadata/annotations.yaml");
    let known = yaml::parse(project.text(&path).unwrap_or_default()).map_err(|error| Error::read(&path, error))?;
    let mut all: Map<String, Json> = known["annotations"].as_object().cloned().unwrap_or_default();
    all.remove(&format!("{PREFIX}.channel.default.v1"));
    for (name, value) in core(package, options) {
        all.insert(format!("{PREFIX}.{name}.v1"), value.into());
    }
    let mut image = "# The image of the bundle: no program, only files and labels.\nFROM scratch\n\n".to_owned();
    for (name, value) in &all {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = writeln!(image, "LABEL {name}={value:?}");
    }
    let _ = write!(image, "\nCOPY {FOLDER}/manifests /manifests/\nCOPY {FOLDER}/metadata /metadata/\n");
    let annotations = yaml::print(&serde_json::json!({"annotations": all}));
    for (path, text) in [(path, annotations), ("bundle.Dockerfile".to_owned(), image)] {
        match options.metadata {
            Existing::Keep => _ = project.create(path, text),
            Existing::Replace => project.write(path, text),
        }
    }
    Ok(())
}

fn core(package: &str, options: &Options) -> Vec<(&'static str, String)> {
    let mut core = vec![
        ("mediatype", "registry+v1".to_owned()),
        ("manifests", "manifests/".to_owned()),
        ("metadata", "metadata/".to_owned()),
        ("package", package.to_owned()),
        ("channels", options.channels.join(",")),
    ];
    core.extend(options.default_channel.clone().map(|channel| ("channel.default", channel)));
    core
}
