//! Finds the watch of a resource.

use std::path::Path;

use crate::spelling::nearest;
use crate::watches::{self, Watch};

/// The reason why no watch matches.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum Error {
    #[error("watches.yaml has no entry")]
    None,
    #[error("no chart serves kind {kind}{}", .near.as_deref().map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
    Unknown { kind: String, near: Option<String> },
    #[error("several charts are served; put the kind before the name, one of {}", .0.join(", "))]
    Several(Vec<String>),
}

/// Returns the watches of the file and of the program. The file may be missing if the program has its own.
pub(super) fn all(file: &Path, own: Vec<Watch>) -> Result<Vec<Watch>, watches::Error> {
    if !own.is_empty() && !file.exists() {
        return Ok(own);
    }
    let mut all = watches::load(file)?;
    all.extend(own);
    Ok(all)
}

/// Returns the watch that serves a kind, or the only one. If there are several versions of a kind, the last one counts.
pub(in crate::cli) fn named<'w>(watches: &'w [Watch], kind: Option<&str>) -> Result<&'w Watch, Error> {
    let is_meant = |watch: &&Watch| kind.is_none_or(|kind| watch.is_meant_by(kind));
    let mut found: Vec<&Watch> = watches.iter().filter(is_meant).collect();
    let mut names: Vec<String> = found.iter().map(|watch| watch.full_name()).collect();
    names.dedup();
    match (found.pop(), kind) {
        (Some(_), _) if names.len() > 1 => Err(Error::Several(names)),
        (Some(watch), _) => Ok(watch),
        (None, None) => Err(Error::None),
        (None, Some(kind)) => {
            let near = nearest(kind, watches.iter().map(|watch| watch.kind.as_str())).map(str::to_owned);
            Err(Error::Unknown { kind: kind.to_owned(), near })
        }
    }
}

/// Returns the watch that serves resources of this type.
pub(super) fn serving<'w>(watches: &'w [Watch], api_version: &str, kind: &str) -> Option<&'w Watch> {
    let is_served = |watch: &&Watch| watch.kind == kind && watch.api_resource().api_version == api_version;
    watches.iter().find(is_served)
}
