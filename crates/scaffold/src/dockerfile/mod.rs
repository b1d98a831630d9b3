//! Parses Dockerfiles as far as moving a project requires: instructions with their lines, images, and copied files.
//!
//! Follows BuildKit's rules: continued lines, comments between them, here-documents, and `ARG` before the first `FROM`.
//! No maintained crate keeps lines.

mod images;
mod parse;
mod rebase;
#[cfg(test)]
mod tests;

use crate::Project;
use crate::kustomize::joined;

use parse::Dockerfile;
pub(crate) use rebase::rebase;

/// The directory of charts in operator-sdk's images: the value of `HOME`, and the working directory.
const HOME: &str = "/opt/helm";

/// Returns the paths of the project's Dockerfiles, except those inside charts.
pub(crate) fn paths(project: &Project) -> Vec<String> {
    let is_one = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let is_named = name == "dockerfile" || name == "containerfile";
        is_named
            || name.starts_with("dockerfile.")
            || name.ends_with(".dockerfile")
            || name.starts_with("containerfile.")
    };
    project.files().map(|(path, _)| path).filter(|path| is_one(path)).map(str::to_owned).collect()
}

/// Returns the project's path of a file in the operator's image, according to the Dockerfiles. `path` may be relative
/// to the working directory.
pub(crate) fn source(project: &Project, path: &str) -> Option<String> {
    let wanted = if path.starts_with('/') { joined("", path) } else { joined(&HOME[1..], path) };
    paths(project).iter().find_map(|file| {
        let parsed = Dockerfile::parse(project.text(file)?);
        parsed.copies().iter().find_map(|copy| copy.source_of(project, &wanted))
    })
}

fn exists(project: &Project, path: &str) -> bool {
    project.contains(path) || project.below(path).next().is_some()
}

/// A `COPY` or `ADD` from the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) sources: Vec<String>,
    /// An absolute path without the leading slash.
    target: String,
}

impl Copy {
    /// Returns the project's path of a path in the image. Copying a folder copies its content; files keep their names.
    fn source_of(&self, project: &Project, wanted: &str) -> Option<String> {
        let rest = match self.target.as_str() {
            "" => wanted,
            target => wanted.strip_prefix(target).filter(|rest| rest.is_empty() || rest.starts_with('/'))?,
        };
        let rest = rest.trim_start_matches('/');
        let as_file = |source: &&String| project.contains(source) && source.rsplit('/').next() == Some(rest);
        let file = self.sources.iter().find(as_file).cloned();
        file.or_else(|| self.sources.iter().map(|source| joined(source, rest)).find(|path| exists(project, path)))
    }
}
