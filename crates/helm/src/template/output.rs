//! Rendered documents as text: all of them, some of them, or each in a file.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Component, Path};

use super::{Error, Options};
use crate::engine::Rendered;
use crate::manifest;
use golibs::path_match::Pattern;

/// Documents in the order in which they are printed.
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

    /// Everything, each document under its template's name.
    pub(super) fn whole(&self) -> String {
        let manifests: String = self.manifests.iter().map(document).collect();
        let hooks: String = self.hooks.iter().map(document).collect();
        format!("{}\n{hooks}", manifests.trim())
    }

    /// Writes each document into its template's file below the folder; says which.
    pub(super) fn write(&self, folder: &Path) -> Result<Vec<u8>, Error> {
        let mut said = Vec::new();
        let mut begun = HashSet::new();
        let manifests = self.manifests.iter().map(|document| (document, false));
        // Helm adds hooks to whatever file is there.
        for ((path, content), is_hook) in manifests.chain(self.hooks.iter().map(|document| (document, true))) {
            let file = folder.join(path);
            let failed = |cause| Error::Write { path: file.display().to_string(), cause };
            let again = !begun.insert(path) || (is_hook && file.exists());
            append(folder, path, content, again).map_err(failed)?;
            said.extend_from_slice(format!("wrote {}\n", file.display()).as_bytes());
        }
        Ok(said)
    }
}

/// Only what the named templates rendered. A name is a path below the chart, or a pattern.
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

/// The path below the chart that the document's first line with a source names.
fn source(document: &str) -> Option<&str> {
    let (_, path) = document.lines().find_map(|line| line.split_once("# Source: "))?;
    path.split_once('/').map(|(_, below)| below)
}

/// Writes below the folder and nowhere else: a chart's name may hold anything.
fn append(folder: &Path, path: &str, content: &str, again: bool) -> io::Result<()> {
    if Path::new(path).components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the template's path leaves the folder"));
    }
    let file = folder.join(path);
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::OpenOptions::new().create(true).write(true).append(again).truncate(!again).open(file)?;
    writeln!(file, "---\n# Source: {path}\n{content}")
}

/// Every file as it was rendered, for people to look at.
pub(super) fn raw(files: &[(String, String)]) -> String {
    let with_text = files.iter().filter(|(_, text)| !text.trim().is_empty());
    let text: String = with_text.map(document).collect();
    format!("{}\n", text.trim())
}
