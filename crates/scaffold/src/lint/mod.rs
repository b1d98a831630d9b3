//! `lint`: what would fail in the cluster, found in the project's files.
//!
//! | file | what is checked |
//! |---|---|
//! | watches.yaml | each kind has a chart, and a definition that serves its version |
//! | charts | they render with each sample, else with their defaults; names, hooks and duplicates (`objects`) |
//! | config/samples | each fits its definition (`samples`) and the chart's schema |
//! | config/rbac | the operator may do what the charts need (`rights`) |
//!
//! Nothing is written, and no cluster is asked.

mod charts;
mod lines;
mod objects;
mod rights;
mod samples;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value as Json;

use crate::rbac::Native;
use crate::watches::{self, Watch};
use crate::{Error, Project, kustomize};
use lines::Lines;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something fails in the cluster.
    Error,
    /// Something fails there with certain values, or is likely a mistake.
    Warning,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The file or folder, relative to the project.
    pub path: String,
    /// The line, from 1, if known.
    pub line: Option<usize>,
    /// What is wrong. Never quotes values.
    pub message: String,
}

/// `path:line: error: message`, which editors understand.
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

    /// `path:line: `.
    #[must_use]
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}: ", self.path),
            None => format!("{}: ", self.path),
        }
    }
}

/// A document of a file.
pub(super) struct Document {
    path: String,
    lines: Lines,
    content: Json,
}

/// Returns all findings, errors first, each once. `natives` are the kinds that the program serves itself; those without a definition in the project
/// are another project's.
///
/// # Errors
/// watches.yaml or a list of `config` is not valid YAML.
pub fn check(project: &Project, natives: &[Native]) -> Result<Vec<Finding>, Error> {
    let mut found = Vec::new();
    let definitions = documents(project, &kustomize::files(project, "config/crd")?, &mut found);
    let samples = documents(project, &kustomize::files(project, "config/samples")?, &mut found);
    let watches = watches::read(project)?;
    let lines = Lines::of(project.text(watches::PATH).unwrap_or_default(), 0);
    for (at, watch) in watches.iter().enumerate() {
        let line = |key: &str| lines.line(&[&at.to_string(), key]);
        found.extend(undefined(watch, &definitions, line("kind")));
        match charts::check(project, watch, &samples, line("chart")) {
            Ok(more) => found.extend(more),
            Err(error) => found.push(Finding::error(watches::PATH, line("chart"), error.to_string())),
        }
    }
    found.extend(samples.iter().flat_map(|sample| samples::check(sample, &definitions)));
    let is_defined =
        |native: &&Native| definitions.iter().any(|crd| defines(&crd.content, &native.group, &native.kind));
    let natives: Vec<Native> = natives.iter().filter(is_defined).cloned().collect();
    found.extend(rights::check(project, &watches, &natives)?);
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

/// Says that no definition serves a watched kind.
fn undefined(watch: &Watch, definitions: &[Document], line: Option<usize>) -> Option<Finding> {
    let (gvk, missing) = (&watch.gvk, |what: String| Some(Finding::error(watches::PATH, line, what)));
    let crd = definitions.iter().find(|crd| defines(&crd.content, &gvk.group, &gvk.kind));
    let Some(crd) = crd else {
        return missing(format!("config/crd has no definition of {} in group {}", gvk.kind, gvk.group));
    };
    let versions = crd.content["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let serves = versions.iter().any(|version| version["name"] == gvk.version && version["served"] == true);
    if serves { None } else { missing(format!("{} does not serve {} in version {}", crd.path, gvk.kind, gvk.version)) }
}

fn defines(crd: &Json, group: &str, kind: &str) -> bool {
    crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == kind
}

/// The tables in these files.
fn documents(project: &Project, paths: &[String], found: &mut Vec<Finding>) -> Vec<Document> {
    paths.iter().flat_map(|path| documents_of(project, path, found)).collect()
}

fn documents_of(project: &Project, path: &str, found: &mut Vec<Finding>) -> Vec<Document> {
    let Some(text) = project.text(path) else {
        found.push(Finding::error(path, None, "the kustomization lists this file, but it does not exist"));
        return Vec::new();
    };
    let mut documents = Vec::new();
    let mut offset = 0;
    for part in text.split("\n---") {
        match crate::yaml::parse(part.trim_start_matches("---")) {
            Ok(content) if content.is_object() => {
                documents.push(Document { path: path.to_owned(), lines: Lines::of(part, offset), content });
            }
            Ok(_) => {}
            Err(error) => found.push(Finding::error(path, Some(offset + 1), error.to_string())),
        }
        offset += part.matches('\n').count() + 1;
    }
    documents
}
