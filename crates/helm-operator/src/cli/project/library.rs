//! Determines where a hybrid project gets the library from, and whether it is there.

use std::path::Path;

use scaffold::{Library, disk};

use super::Error;

/// Whether the registry has the library. Then projects depend on this program's version of it instead of a copy.
const PUBLISHED: bool = false;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The crate that this program was built from: `crates/helm-operator` of a checkout or of a project's copy. A released
/// program (`make release`) is far from its sources, and its bytes must not depend on where they were.
const CRATE: Option<&str> = match option_env!("RELEASE_BUILD") {
    Some(_) => None,
    None => Some(env!("CARGO_MANIFEST_DIR")),
};

/// Returns the library for a project: a checkout in place, or a copy of the sources that this program was built from.
pub(super) fn find(checkout: Option<&str>) -> Result<Library, Error> {
    match checkout {
        Some(path) => Ok(disk::find_checkout(path)?),
        None if PUBLISHED => Ok(Library::Version(VERSION.to_owned())),
        None => copy(CRATE),
    }
}

/// Returns a copy of the sources around a crate's directory, if the program has one.
fn copy(crate_folder: Option<&str>) -> Result<Library, Error> {
    let crate_folder = Path::new(crate_folder.ok_or(Error::Released { version: VERSION })?);
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
        let gone = folder.path().join("crates/helm-operator");
        let error = copy(gone.to_str()).unwrap_err().to_string();
        assert!(error.contains(&*folder.path().to_string_lossy()) && error.contains("--library-path"), "{error}");
    }

    #[test]
    fn a_released_program_says_which_sources_to_clone() {
        let error = copy(None).unwrap_err().to_string();
        assert!(error.contains(&format!("tag v{VERSION}")) && error.contains("--library-path"), "{error}");
    }
}
