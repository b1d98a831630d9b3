//! Checks what a single entry of watches.yaml does not show: missing names, and entries that contradict each other.

use std::collections::HashMap;

use super::decode::near;
use super::node::Entry;
use super::{Error, Watch};

/// Rejects entries without version or kind, and those that [`agree`] rejects. The messages start with upstream's.
pub(super) fn check(entries: &[Vec<Entry>], watches: &[Watch]) -> Result<(), Error> {
    for (watch, entries) in watches.iter().zip(entries) {
        for (key, value) in [("version", &watch.version), ("kind", &watch.kind)] {
            if value.is_empty() {
                return Err(invalid(
                    watch,
                    format!("invalid GVK: {}: {key} must not be empty{}", gvk(watch), hint(key, entries)),
                ));
            }
        }
    }
    agree(watches.iter())
}

/// Rejects duplicate entries for a kind, versions of a kind whose records are in different namespaces, and common
/// annotations that control releases.
pub(crate) fn agree<'w>(watches: impl Iterator<Item = &'w Watch> + Clone) -> Result<(), Error> {
    let (mut seen, mut homes) = (HashMap::new(), HashMap::new());
    for watch in watches.clone() {
        if let Some(first) = seen.insert(gvk(watch), watch.line) {
            return Err(invalid(watch, format!("duplicate GVK: {}: {} has it already", gvk(watch), entry(first))));
        }
        let home = homes.entry((&watch.group, &watch.kind)).or_insert((&watch.storage_namespace, watch.line));
        if home.0 != &watch.storage_namespace {
            return Err(invalid(watch, disagreement(&watch.kind, home.1)));
        }
        uncontrolling(watch, watches.clone())?;
    }
    Ok(())
}

/// Rejects common annotations that an entry reads instead of a usual one: a chart may contain resources of that kind.
fn uncontrolling<'w>(watch: &Watch, watches: impl Iterator<Item = &'w Watch> + Clone) -> Result<(), Error> {
    for name in watch.common_annotations.0.keys() {
        let reader = watches.clone().find_map(|reader| Some((reader, reader.annotations.renamed(name)?)));
        if let Some((reader, key)) = reader {
            let place = if reader.line == 0 { String::new() } else { format!(" in line {}", reader.line) };
            let what = format!("the entry of {}{place} reads this annotation as {key}", reader.kind);
            return Err(invalid(watch, format!("commonAnnotations: {name}: {what}")));
        }
    }
    Ok(())
}

fn invalid(watch: &Watch, what: String) -> Error {
    Error::Value { line: watch.line, what }
}

/// Returns how a message names the entry in a line. What code adds has no line.
fn entry(line: u64) -> String {
    if line == 0 { "another entry".to_owned() } else { format!("line {line}") }
}

/// Formats a GVK as upstream does: `group/version, Kind=kind`.
fn gvk(watch: &Watch) -> String {
    format!("{}/{}, Kind={}", watch.group, watch.version, watch.kind)
}

/// Names the unknown key that was probably meant as a missing one.
fn hint(missing: &str, entries: &[Entry]) -> String {
    let is_meant = |entry: &&Entry| !entry.key.eq_ignore_ascii_case(missing) && near(&entry.key) == Some(missing);
    let found = entries.iter().find(is_meant);
    found.map_or_else(String::new, |entry| {
        format!("; line {} has {:?}: did you mean {missing:?}?", entry.line, entry.key)
    })
}

fn disagreement(kind: &str, first: u64) -> String {
    let first = if first == 0 { "the first one".to_owned() } else { format!("the one in line {first}") };
    format!(
        "the entries of {kind} must have the same storageNamespace as {first}: a resource's records stay when its version changes"
    )
}
