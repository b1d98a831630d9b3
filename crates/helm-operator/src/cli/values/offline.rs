//! Reads a resource from a file. Its value sources are in a cluster, so they are only named.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use go_encoding::json::{EscapeHtml, Layout};
use go_encoding::{json, yaml};
use go_template::{Map, Value};

use super::{Args, Resource, watch};
use crate::view::primary::{Primary, Received};
use crate::view::sources::named;
use crate::watches::Watch;

/// The maximum size of a file, in bytes: far more than a resource may have.
const MAX_FILE: u64 = 16 << 20;

/// The reason why a file has no resource. The messages never quote it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} has more than {MAX_FILE} bytes", .0.display())]
    TooLarge(PathBuf),
    #[error("{}{line} is not valid YAML", path.display())]
    Yaml { path: PathBuf, line: String },
    #[error("{} has no resource that a chart of watches.yaml serves{what}", path.display())]
    None { path: PathBuf, what: String },
    #[error("{} has several resources, {}; name one", path.display(), names.join(", "))]
    Several { path: PathBuf, names: Vec<String> },
    #[error(transparent)]
    Sources(#[from] named::Unnamed),
}

/// Reads the resource that the arguments select.
pub(super) fn read<'w>(path: &Path, args: &Args, watches: &'w [Watch]) -> Result<Resource<'w>, Error> {
    let text = text(path)?;
    let mut found = Vec::new();
    let mut others = Vec::new();
    for document in documents(path, &text)? {
        let Some(received) = received(&document) else { continue };
        let primary = &received.primary;
        match watch::serving(watches, &primary.api_version, &primary.kind) {
            Some(watch) if is_meant(args, watch, primary) => found.push((watch, received)),
            _ => others.push(format!("{} {}", primary.kind, primary.name())),
        }
    }
    let names: Vec<String> =
        found.iter().map(|(watch, one)| format!("{} {}", watch.kind, one.primary.name())).collect();
    let what = if others.is_empty() { String::new() } else { format!(", only {}", others.join(", ")) };
    match found.pop() {
        None => Err(Error::None { path: path.to_owned(), what }),
        Some(_) if names.len() > 1 => Err(Error::Several { path: path.to_owned(), names }),
        Some((watch, received)) => resource(watch, received, args.namespace.as_deref()),
    }
}

fn is_meant(args: &Args, watch: &Watch, primary: &Primary) -> bool {
    let is_kind = args.kind().is_none_or(|kind| watch::named(std::slice::from_ref(watch), Some(kind)).is_ok());
    is_kind && args.name().is_none_or(|name| name == primary.name())
}

fn text(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().take(MAX_FILE + 1).read_to_end(&mut text),
        false => std::fs::File::open(path).map_err(failed)?.take(MAX_FILE + 1).read_to_end(&mut text),
    };
    read.map_err(failed)?;
    if text.len() as u64 > MAX_FILE { Err(Error::TooLarge(path.to_owned())) } else { Ok(text) }
}

fn documents(path: &Path, text: &[u8]) -> Result<Vec<Map>, Error> {
    let invalid = |line: Option<usize>| {
        let line = line.map(|line| format!(", line {line},")).unwrap_or_default();
        Error::Yaml { path: path.to_owned(), line }
    };
    let mut documents = Vec::new();
    for (at, document) in yaml::split(text).map_err(|_| invalid(None))?.iter().enumerate() {
        let table = yaml::parse_preserving_ints(document).map_err(|error| match error {
            // Lines of later documents are counted from their own start.
            yaml::Error::Syntax { line, .. } if at == 0 && line > 0 => invalid(Some(line)),
            _ => invalid(None),
        })?;
        documents.extend(table.as_map().cloned());
    }
    Ok(documents)
}

/// Returns the resource as the API server would send it.
fn received(document: &Map) -> Option<Received> {
    let text = json::encode(&Value::Map(document.clone()), EscapeHtml::No, Layout::Compact).ok()?;
    serde_json::from_slice(&text).ok()
}

fn resource<'w>(watch: &'w Watch, received: Received, namespace: Option<&str>) -> Result<Resource<'w>, Error> {
    let mut primary = received.primary;
    let raw = primary.raw.take().unwrap_or_default();
    primary.annotations.rename(&raw.annotations, &watch.annotations);
    // Only a cluster-scoped resource names the namespaces of its sources.
    let is_cluster_scoped = watch.values_from.iter().any(|source| source.namespace.is_some());
    let namespace = namespace.or_else(|| Some(primary.own_namespace()).filter(|own| !own.is_empty()));
    let namespace = namespace.unwrap_or("default").to_owned();
    if is_cluster_scoped {
        primary.set_release_namespace("");
    } else {
        primary.set_namespace(&namespace);
    }
    let sources = named::named(&primary, &watch.values_from, &watch.values_from_annotation)?;
    let note = |source| format!("{source} is not read without a cluster; what it sets is not shown");
    let notes = sources.iter().map(note).collect();
    Ok(Resource { watch, primary, sources: sources.into_iter().map(|source| (source, None)).collect(), notes })
}
