//! `lint`: finds faults in the project's files that would cause failures in the cluster.
//!
//! | file | check |
//! |---|---|
//! | watches.yaml | each kind has a chart, and a definition that serves its version |
//! | charts | they render with each sample, else with their defaults; names, hooks and duplicates (`objects`) |
//! | config/samples | each fits its definition (`samples`) and the chart's schema |
//! | config/rbac | the operator may do what the charts need (`rights`) |
//!
//! Writes nothing, and queries no cluster.

mod charts;
mod decided;
mod grants;
mod objects;
mod rights;
mod samples;
#[cfg(test)]
mod tests;

use std::fmt;

pub use decided::{left_open, undecided};

use crate::definitions::{self, Definitions};
use crate::documents::{self, Document};
use crate::lines::Lines;
use crate::rbac::Native;
use crate::watches::{self, Watch};
use crate::{Error, Project, kustomize};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something fails in the cluster.
    Error,
    /// Something fails there with certain values, or is probably a mistake.
    Warning,
}

/// A fault and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The file or folder, relative to the project.
    pub path: String,
    /// The line, from 1, if known.
    pub line: Option<usize>,
    /// The fault. Never quotes values.
    pub message: String,
}

/// Formats as `path:line: error: message`, which editors understand.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.place(), self.level, self.message)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Error => "error",
            Level::Warning => "warning",
        })
    }
}

impl Finding {
    fn error(path: &str, line: Option<usize>, message: impl Into<String>) -> Finding {
        Finding { level: Level::Error, path: path.to_owned(), line, message: message.into() }
    }

    fn warning(path: &str, line: Option<usize>, message: impl Into<String>) -> Finding {
        Finding { level: Level::Warning, ..Finding::error(path, line, message) }
    }

    /// Returns the position as `path:line: `.
    #[must_use]
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}: ", self.path),
            None => format!("{}: ", self.path),
        }
    }
}

/// Returns all findings, each once, errors first. `natives` are the kinds that the program itself serves; those without
/// a definition in the project belong to another project.
///
/// # Errors
/// Fails if watches.yaml or a list of `config` is not valid YAML.
pub fn check(project: &Project, natives: &[Native]) -> Result<Vec<Finding>, Error> {
    let mut read = Found::default();
    let definitions = Definitions::of(project)?;
    // Only deployed files can break the cluster; the others are drafts and copies.
    for path in kustomize::files(project, definitions::FOLDER)? {
        read.documents(project, &path);
    }
    let samples = kustomize::files(project, "config/samples")?;
    let samples: Vec<Document> = samples.iter().flat_map(|path| read.documents(project, path)).collect();
    let mut found = read.0;
    let watches = watches::read(project)?;
    let lines = Lines::of(project.text(watches::PATH).unwrap_or_default(), 0);
    for (at, watch) in watches.iter().enumerate() {
        let line = |key: &str| lines.line(&[&at.to_string(), key]);
        found.extend(undefined(watch, &definitions, line("kind")));
        found.extend(unknown_dependencies(watch, &definitions, line));
        found.extend(left_open(&watch.undecided).map(|open| Finding::warning(watches::PATH, line("kind"), open)));
        match charts::check(project, watch, &samples, line("chart")) {
            Ok(more) => found.extend(more),
            Err(error) => found.push(Finding::error(watches::PATH, line("chart"), error.to_string())),
        }
    }
    found.extend(samples.iter().flat_map(|sample| samples::check(sample, &definitions)));
    let is_defined = |native: &&Native| definitions.find(&native.group, &native.kind).is_some();
    let natives: Vec<Native> = natives.iter().filter(is_defined).cloned().collect();
    found.extend(rights::check(project, &watches, &definitions, &natives)?);
    found.sort_by_key(|finding| finding.level);
    let mut seen = Vec::new();
    found.retain(|finding| {
        let is_new = !seen.contains(finding);
        if is_new {
            seen.push(finding.clone());
        }
        is_new
    });
    Ok(found)
}

/// Returns a finding for each kind to wait for that is missing in a group that the project defines.
fn unknown_dependencies(
    watch: &Watch,
    definitions: &Definitions,
    line: impl Fn(&str) -> Option<usize>,
) -> Vec<Finding> {
    let unknown = watch.depends_on.iter().filter(|(group, kind, _)| definitions.find(group, kind).is_none());
    let finding = |(group, kind, key): &(String, String, &'static str)| {
        let known = definitions.kinds(group);
        let message = format!("{key} names {kind} in group {group}, of which the project defines {}", known.join(", "));
        (!known.is_empty()).then(|| Finding::warning(watches::PATH, line(key), message))
    };
    unknown.filter_map(finding).collect()
}

/// Returns a finding for a watched kind whose version no definition serves.
fn undefined(watch: &Watch, definitions: &Definitions, line: Option<usize>) -> Option<Finding> {
    let (gvk, missing) = (&watch.gvk, |what: String| Some(Finding::error(watches::PATH, line, what)));
    let Some(crd) = definitions.find(&gvk.group, &gvk.kind) else {
        return missing(format!("the project has no definition of {} in group {}", gvk.kind, gvk.group));
    };
    let (path, crd) = (&crd.document.path, &crd.document.content);
    if crd["apiVersion"] == "apiextensions.k8s.io/v1beta1" {
        let what =
            format!("{path} defines {} with apiextensions.k8s.io/v1beta1, which no supported cluster serves", gvk.kind);
        return missing(format!("{what}; 'generate crds --force' writes it anew"));
    }
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let serves = versions.iter().any(|version| version["name"] == gvk.version && version["served"] == true);
    if serves { None } else { missing(format!("{path} does not serve {} in version {}", gvk.kind, gvk.version)) }
}

/// Findings about files, collected while reading them.
#[derive(Default)]
struct Found(Vec<Finding>);

impl Found {
    /// Returns a file's objects, and records its broken documents.
    fn documents(&mut self, project: &Project, path: &str) -> Vec<Document> {
        let mut documents = Vec::new();
        for one in documents::read(project, path) {
            match one {
                Ok(document) => documents.push(document),
                Err(broken) => {
                    let listed = "a kustomization lists this file: ";
                    let message =
                        if broken.line.is_none() { format!("{listed}{}", broken.reason) } else { broken.reason };
                    self.0.push(Finding::error(&broken.path, broken.line, message));
                }
            }
        }
        documents
    }
}
