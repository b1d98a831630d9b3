//! The `resources` lists of the project's kustomizations.

use serde_json::Value as Json;

use crate::templates::fill;
use crate::{Error, Project, yaml};

/// The file names that kustomize reads.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The path of a folder's kustomization, if it has one.
pub(crate) fn path(project: &Project, folder: &str) -> Option<String> {
    NAMES.iter().map(|name| format!("{folder}/{name}")).find(|path| project.contains(path))
}

/// The files that a folder's kustomization lists.
pub(crate) fn files(project: &Project, folder: &str) -> Result<Vec<String>, Error> {
    let Some(path) = path(project, folder) else { return Ok(Vec::new()) };
    let list = yaml::parse(project.text(&path).unwrap_or_default()).map_err(|error| Error::read(&path, error))?;
    let entries = list["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let files = entries.iter().filter_map(Json::as_str).filter(|entry| entry.ends_with(".yaml"));
    Ok(files.map(|file| format!("{folder}/{file}")).collect())
}

/// Adds an entry to the list of a folder. A folder without a kustomization gets `new`: a file name, and a text with the placeholder `__entry__`.
pub(crate) fn add(project: &mut Project, folder: &str, new: (&str, &str), entry: &str) -> Result<(), Error> {
    match path(project, folder) {
        Some(path) => {
            let edit = |text: &str| yaml::push_entry(text, "resources", entry);
            project.edit(&path, |text| edit(text).map_err(|source| Error::Edit { path: path.clone(), source }))
        }
        None => {
            project.create(format!("{folder}/{}", new.0), fill(new.1, &[("entry", entry)]));
            Ok(())
        }
    }
}
