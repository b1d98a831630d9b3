//! The project's kustomizations: reads the files that they deploy, and extends their lists.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::templates::fill;
use crate::{Error, Project, yaml};

/// The file names that kustomize reads.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The fields that list deployed files. `bases` is the old name for folders in `resources`.
const FIELDS: [&str; 3] = ["resources", "bases", "components"];

/// Returns the path of a folder's kustomization, if it has one.
pub(crate) fn path(project: &Project, folder: &str) -> Option<String> {
    NAMES.iter().map(|name| joined(folder, name)).find(|path| project.contains(path))
}

/// Returns the files that a folder's kustomization lists, including those of listed folders.
pub(crate) fn files(project: &Project, folder: &str) -> Result<Vec<String>, Error> {
    let mut found = Reached::default();
    found.folder(project, folder)?;
    Ok(found.files)
}

/// Returns a folder's kustomization, parsed; null if it has none.
pub(crate) fn content(project: &Project, folder: &str) -> Result<Json, Error> {
    let Some(path) = path(project, folder) else { return Ok(Json::Null) };
    yaml::parse(project.text(&path).unwrap_or_default()).map_err(|error| Error::read(&path, error))
}

/// The files and folders that kustomizations reach.
#[derive(Default)]
struct Reached {
    files: Vec<String>,
    folders: BTreeSet<String>,
}

impl Reached {
    fn folder(&mut self, project: &Project, folder: &str) -> Result<(), Error> {
        if !self.folders.insert(folder.to_owned()) {
            return Ok(());
        }
        let list = content(project, folder)?;
        for entry in entries(&list) {
            let target = joined(folder, entry);
            if path(project, &target).is_some() {
                self.folder(project, &target)?;
            } else if !is_remote(entry)
                && (project.contains(&target) || is_yaml(entry))
                && !self.files.contains(&target)
            {
                self.files.push(target);
            }
        }
        Ok(())
    }
}

/// Returns the entries of a kustomization, files and folders alike.
fn entries(list: &Json) -> impl Iterator<Item = &str> {
    FIELDS.iter().filter_map(|field| list[*field].as_array()).flatten().filter_map(Json::as_str)
}

fn is_yaml(entry: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|end| entry.ends_with(end))
}

fn is_remote(entry: &str) -> bool {
    entry.contains("://") || entry.starts_with("github.com/") || entry.starts_with("git@")
}

/// Returns a path relative to a folder, without `.` and `..`.
pub(crate) fn joined(folder: &str, entry: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in entry.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty() && *part != ".");
    parts.join("/")
}

/// The outcome of adding an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// A kustomization was created for the folder.
    List,
    /// The entry was added, or was listed already.
    Entry,
}

/// Adds an entry to the list of a folder, unless the list already reaches the same file. A folder without a
/// kustomization gets `new`: a file name, and a text with the placeholder `__entry__`.
///
/// # Errors
/// Fails if a kustomization is not valid YAML, or its `resources` are not a list.
pub(crate) fn add(project: &mut Project, folder: &str, new: (&str, &str), entry: &str) -> Result<Added, Error> {
    let Some(path) = path(project, folder) else {
        project.create(format!("{folder}/{}", new.0), fill(new.1, &[("entry", entry)]));
        return Ok(Added::List);
    };
    let list = content(project, folder)?;
    let target = joined(folder, entry);
    let is_listed = entries(&list).any(|known| joined(folder, known) == target);
    if !is_listed && !files(project, folder)?.contains(&target) {
        let edit = |text: &str| yaml::push_entry(text, "resources", entry);
        project.edit(&path, |text| edit(text).map_err(|source| Error::Edit { path: path.clone(), source }))?;
    }
    Ok(Added::Entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_each_form_are_followed_once() {
        let project = Project::from_files([
            (
                "config/default/kustomization.yaml",
                "bases:\n- ../crd\n- ../rbac/\nresources:\n- ./own.yaml\n- https://example.com/a.yaml\n- missing.yaml\n",
            ),
            ("config/default/own.yaml", ""),
            ("config/crd/Kustomization", "resources:\n- bases/a.yml\n- bases\n"),
            ("config/crd/bases/kustomization.yml", "resources: [b.json, ../../default]\ncomponents: [../more]\n"),
            ("config/crd/bases/a.yml", ""),
            ("config/crd/more/kustomization.yaml", "resources: [plain]\n"),
            ("config/crd/more/plain", ""),
        ]);
        let found = files(&project, "config/default").unwrap();
        let expected = [
            "config/default/own.yaml",
            "config/default/missing.yaml",
            "config/crd/bases/a.yml",
            "config/crd/bases/b.json",
            "config/crd/more/plain",
        ];
        assert_eq!(found, expected);
        assert_eq!(files(&project, "config/none").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_entry_that_is_reached_already_is_not_added() {
        let lists = [
            ("config/crd/kustomization.yaml", "resources:\n- ./bases\n"),
            ("config/crd/bases/kustomization.yaml", "resources: [a.yaml]\n"),
        ];
        let mut project = Project::from_files(lists);
        for entry in ["bases/a.yaml", "bases", "bases/../bases/a.yaml"] {
            assert_eq!(add(&mut project, "config/crd", ("", ""), entry).unwrap(), Added::Entry);
        }
        assert_eq!(project.changes().count(), 0);
        add(&mut project, "config/crd", ("", ""), "bases/b.yaml").unwrap();
        assert!(project.text("config/crd/kustomization.yaml").unwrap().contains("- bases/b.yaml"));
        let new = ("kustomization.yaml", "resources:\n- __entry__\n");
        assert_eq!(add(&mut project, "config/new", new, "a.yaml").unwrap(), Added::List);
    }
}
