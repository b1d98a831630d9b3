//! Determines where a hybrid project gets the library from, and whether it is there.

use std::path::Path;

use scaffold::{Library, disk};

use super::Error;

/// Whether the registry has the library. Then projects depend on this program's version of it instead of a copy.
const PUBLISHED: bool = false;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The crate that this program was built from: `crates/helm-operator` of a checkout or of a project's copy.
const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the library for a project: a checkout in place, or a copy of the sources that this program was built from.
pub(super) fn find(checkout: Option<&str>) -> Result<Library, Error> {
    match checkout {
        Some(path) => Ok(disk::find_checkout(path)?),
        None if PUBLISHED => Ok(Library::Version(VERSION.to_owned())),
        None => copy(Path::new(CRATE)),
    }
}

/// Returns a copy of the sources around a crate's directory.
fn copy(crate_folder: &Path) -> Result<Library, Error> {
    let root = crate_folder.ancestors().nth(2).unwrap_or(crate_folder);
    let missing = || Error::NoSources { version: VERSION, root: root.display().to_string() };
    disk::read_sources(root)?.map(Library::Copy).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_are_gone_are_named_with_both_ways_out() {
        assert!(matches!(find(None), Ok(Library::Copy(_))));
        let folder = tempfile::tempdir().unwrap();
        let error = copy(&folder.path().join("crates/helm-operator")).unwrap_err().to_string();
        assert!(error.contains(&*folder.path().to_string_lossy()) && error.contains("--library-path"), "{error}");
    }
}
