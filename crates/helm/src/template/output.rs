//! Prints rendered documents: all of them, some, or each to a file.

use std::collections::HashSet;
use std::path::Path;

use super::{Error, Options};
use crate::disk::{self, Existing};
use crate::engine::Rendered;
use crate::manifest;
use golibs::path_match::Pattern;

/// Paths and contents, in the order in which they are printed.
pub(super) struct Documents {
    manifests: Vec<(String, String)>,
    hooks: Vec<(String, String)>,
}

impl Documents {
    pub(super) fn of(rendered: &Rendered, options: &Options) -> Documents {
        let crds = rendered.crds.iter().filter(|_| options.include_crds);
        let crds = crds.map(|crd| (crd.path.clone(), crd.data.to_text().into_owned()));
        let manifests = rendered.manifests.iter().map(|m| (m.path.clone(), m.content.clone()));
        let unwanted = |hook: &manifest::Hook| options.no_hooks || (options.skip_tests && hook.is_test());
        let hooks =
            rendered.hooks.iter().filter(|hook| !unwanted(hook)).map(|hook| (hook.path.clone(), hook.manifest.clone()));
        Documents { manifests: crds.chain(manifests).collect(), hooks: hooks.collect() }
    }

    /// Returns all documents, each preceded by a comment with its template's name.
    pub(super) fn whole(&self) -> String {
        let manifests: String = self.manifests.iter().map(document).collect();
        let hooks: String = self.hooks.iter().map(document).collect();
        format!("{}\n{hooks}", manifests.trim())
    }

    /// Writes each document to its template's file below the folder; returns a line for each.
    pub(super) fn write(&self, folder: &Path) -> Result<Vec<u8>, Error> {
        let mut said = Vec::new();
        let mut begun = HashSet::new();
        let manifests = self.manifests.iter().map(|document| (document, false));
        // Helm appends hooks even to files that an earlier run wrote.
        for (written, is_hook) in manifests.chain(self.hooks.iter().map(|document| (document, true))) {
            let (path, _) = written;
            let file = folder.join(path);
            let failed = |cause| Error::Write { path: file.display().to_string(), cause };
            let keeps = !begun.insert(path) || (is_hook && disk::exists(&file));
            let existing = if keeps { Existing::Keep } else { Existing::Replace };
            disk::write(folder, path, &document(written), existing).map_err(failed)?;
            said.extend_from_slice(format!("wrote {}\n", file.display()).as_bytes());
        }
        Ok(said)
    }
}

/// Returns the documents of the named templates. A name is a path relative to the chart's folder, or a pattern.
pub(super) fn only(whole: &str, names: &[String]) -> Result<String, Error> {
    let documents = manifest::split(whole);
    let mut text = String::new();
    for name in names {
        let pattern = Pattern::new(name);
        let matches = |path| pattern.as_ref().is_some_and(|pattern| pattern.matches(path));
        let matching: Vec<&&str> = documents.iter().filter(|document| source(document).is_some_and(matches)).collect();
        if matching.is_empty() {
            return Err(Error::NoTemplate(name.clone()));
        }
        for document in matching {
            text.push_str(&format!("---\n{document}\n"));
        }
    }
    Ok(text)
}

fn document((path, content): &(String, String)) -> String {
    format!("---\n# Source: {path}\n{content}\n")
}

/// Returns the path in the document's first `# Source:` line, relative to the chart's folder.
fn source(document: &str) -> Option<&str> {
    let (_, path) = document.lines().find_map(|line| line.split_once("# Source: "))?;
    path.split_once('/').map(|(_, below)| below)
}

/// Returns all files as rendered, whether valid or not.
pub(super) fn raw(files: &[(String, String)]) -> String {
    let with_text = files.iter().filter(|(_, text)| !text.trim().is_empty());
    let text: String = with_text.map(document).collect();
    format!("{}\n", text.trim())
}
