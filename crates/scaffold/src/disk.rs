//! The only module that touches the disk: reads projects, charts and the library's sources, writes what changed.

use std::fs;
use std::path::{Path, PathBuf};

use helm::chart::{Chart, MAX_CHART_BYTES};

use crate::chart::ChartFiles;
use crate::library::{Checkout, Library, Sources};
use crate::{Change, Error, Project};

/// Folders that are never part of a project.
const SKIPPED: [&str; 5] = [".git", "bin", "dist", "node_modules", "target"];

/// How deep folders may be nested. Ends cycles of links.
const MAX_DEPTH: usize = 32;

/// Reads a project's files. A folder that does not exist is an empty project.
///
/// # Errors
/// A file or folder cannot be read.
pub fn read(folder: &Path) -> Result<Project, Error> {
    let mut files = Vec::new();
    if folder.exists() {
        walk(folder, "", 0, &mut files)?;
    }
    Ok(Project::from_files(files))
}

/// Writes the files that changed, and deletes those that were removed.
///
/// # Errors
/// A file or folder cannot be written; earlier files are written then.
pub fn write(folder: &Path, project: &Project) -> Result<(), Error> {
    for (name, change) in project.changes() {
        let path = folder.join(name);
        let failed = |source| Error::Disk { what: "write", path: path.display().to_string(), source };
        if change == Change::Removed {
            fs::remove_file(&path).map_err(failed)?;
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, project.bytes(name).unwrap_or_default()).map_err(failed)?;
    }
    Ok(())
}

/// Reads a chart from a folder, with the files that `.helmignore` excludes, or from a `.tgz` archive.
///
/// # Errors
/// The path cannot be read, or is not a chart.
pub fn read_chart(path: &str) -> Result<ChartFiles, Error> {
    if !Path::new(path).exists() && is_remote(path) {
        return Err(Error::Remote(path.to_owned()));
    }
    let files = if Path::new(path).is_dir() { files_below(Path::new(path))? } else { archive(path)? };
    ChartFiles::new(path, files)
}

/// Reads what a project's copy of the library consists of. `None` if the folder is not a checkout of the library, or no longer.
///
/// # Errors
/// A file or folder cannot be read.
pub fn read_sources(checkout: &Path) -> Result<Option<Sources>, Error> {
    let below = |folder: &str| match checkout.join(folder) {
        folder if folder.is_dir() => files_below(&folder),
        _ => Ok(Vec::new()),
    };
    Sources::of(|name| fs::read(checkout.join(name)).ok(), below)
}

/// The library in place: `path` is a checkout, or the folder of the crate in one.
///
/// # Errors
/// The folder has no such crate.
pub fn find_checkout(path: &str) -> Result<Library, Error> {
    let is_crate = |folder: &Path| folder.join("src").is_dir() && folder.join("Cargo.toml").is_file();
    let given = Path::new(path);
    let inner = given.join("crates/helm-operator");
    let folder = match (is_crate(&inner), given.ends_with("helm-operator") && is_crate(given)) {
        (true, _) => inner,
        (_, true) => given.to_owned(),
        _ => return Err(Error::NoLibrary(path.to_owned())),
    };
    let lock = fs::read(folder.join("../../Cargo.lock")).ok();
    Ok(Library::Checkout(Checkout { folder: folder.display().to_string(), lock }))
}

/// URLs, and `repository/chart` names.
fn is_remote(path: &str) -> bool {
    let is_name = !path.starts_with(['.', '/']) && !path.ends_with(".tgz");
    path.contains("://") || (is_name && path.split('/').count() == 2)
}

fn files_below(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut files = Vec::new();
    walk(folder, "", 0, &mut files)?;
    Ok(files)
}

fn archive(path: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let failed = |source| Error::Disk { what: "read", path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > MAX_CHART_BYTES {
        return Err(Error::chart(path, "the archive is too large"));
    }
    let files = Chart::unpack(&fs::read(path).map_err(failed)?).map_err(|error| Error::chart(path, error))?;
    Ok(files.into_iter().map(|file| (file.name, file.data.to_vec())).collect())
}

fn walk(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<(String, Vec<u8>)>) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| Error::Disk { what: "read", path, source }
    };
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed(folder))?
        .iter()
        .map(fs::DirEntry::path)
        .collect();
    entries.sort();
    for path in entries {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let below = format!("{prefix}{name}");
        // Broken links and sockets are not part of a project.
        let Ok(about) = fs::metadata(&path) else { continue };
        if about.is_dir() {
            if depth < MAX_DEPTH && !(depth == 0 && SKIPPED.contains(&name)) {
                walk(&path, &format!("{below}/"), depth + 1, files)?;
            }
        } else if about.is_file() {
            files.push((below, fs::read(&path).map_err(failed(&path))?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_written_and_read_back_and_builds_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let mut project = read(&folder.path().join("missing")).unwrap();
        project.create("a/b/c.yaml", "x: 1\n");
        project.create("target/debug/big", "no");
        write(folder.path(), &project).unwrap();
        let read = read(folder.path()).unwrap();
        assert_eq!(read.text("a/b/c.yaml"), Some("x: 1\n"));
        assert!(!read.contains("target/debug/big"));
        assert_eq!(read.changes().count(), 0);
    }

    #[test]
    fn the_library_is_found_in_a_checkout_and_by_its_own_folder() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = read_sources(&root).unwrap();
        assert!(sources.is_some() && read_sources(&root.join("crates")).unwrap().is_none());
        for path in [root.clone(), root.join("crates/helm-operator")] {
            let Library::Checkout(found) = find_checkout(path.to_str().unwrap()).unwrap() else {
                panic!("no checkout")
            };
            assert!(found.folder.ends_with("crates/helm-operator") && found.lock.is_some(), "{found:?}");
        }
        let error = find_checkout(root.join("crates").to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("has no sources of the library"), "{error}");
    }

    #[test]
    fn charts_of_repositories_are_refused_with_the_command_that_fetches_them() {
        for path in ["oci://example.com/chart", "https://example.com/a.tgz", "bitnami/redis"] {
            assert!(matches!(read_chart(path), Err(Error::Remote(_))), "{path}");
        }
        assert!(matches!(read_chart("./no/such"), Err(Error::Disk { .. })));
    }
}
