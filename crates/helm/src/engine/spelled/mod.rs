//! Determines the kinds and namespaces of a chart's objects from the text of its templates, without values.
//!
//! Reads the text line by line, as it will be printed, because a template need not be valid YAML. For whatever values determine, records only the
//! location.

mod blocks;
mod line;
mod printed;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use super::lookups::{Reading, collect};
use crate::chart::{Chart, File};
use crate::dns::is_label;
use line::{Lines, Piece, pieces};
use printed::Printed;

/// Maximum number of ways to join the parts of a value.
const MAX_JOINED: usize = 64;

/// The kinds and namespaces that are written in the templates of a chart and of its subcharts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpelledOut {
    /// Kinds of objects: with the group where the text determines it, as in `Role.rbac.authorization.k8s.io`, or in
    /// `Node.` for the core group; elsewhere without, for any group.
    pub kinds: BTreeSet<String>,
    /// Namespaces of objects, including those that values.yaml names.
    pub namespaces: BTreeSet<String>,
    /// The locations at which only a render determines them, by template and line.
    pub computed: Vec<Computed>,
}

/// A location at which a template computes a property of its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Computed {
    /// The template's name, as in errors: `web/templates/secret.yaml`.
    pub template: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The property that is computed.
    pub what: Key,
}

/// A property of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The object's kind.
    Kind,
    /// The object's namespace.
    Namespace,
}

impl SpelledOut {
    /// Returns the grant that a watch needs for the computed properties that `counts` accepts, whatever the values are: a value for `objects` in
    /// watches.yaml.
    pub fn grant(&self, counts: impl Fn(Key) -> bool) -> String {
        let has = |key: Key| self.computed.iter().any(|computed| computed.what == key && counts(key));
        let keys = [(Key::Namespace, "namespaces: any"), (Key::Kind, "clusterScoped: any")];
        let open: Vec<&str> = keys.into_iter().filter(|(key, _)| has(*key)).map(|(_, open)| open).collect();
        format!("{{{}}}", open.join(", "))
    }
}

/// Shows the location and the key, such as `web/templates/a.yaml:3 computes the namespace of an object`.
impl fmt::Display for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Key::Kind => "kind",
            Key::Namespace => "namespace",
        };
        write!(f, "{}:{} computes the {what} of an object", self.template, self.line)
    }
}

/// Returns the kinds and namespaces that are written in the chart's templates.
pub fn spelled_out(chart: &Chart) -> SpelledOut {
    let mut templates = Vec::new();
    collect(chart, &chart.metadata.name, &[], &mut templates);
    let reading = Reading::of(&templates);
    let mut spelled = SpelledOut::default();
    add(chart, &chart.metadata.name, &Printed::new(&reading), &mut spelled);
    if computes_groups(chart) {
        spelled.kinds = spelled.kinds.iter().map(|name| name.split('.').next().unwrap_or(name).to_owned()).collect();
    }
    spelled.computed.sort();
    spelled.computed.dedup();
    spelled
}

/// Returns whether expressions name the field `apiVersion`, and so may set it: `set $object "apiVersion" "a/v1"`.
fn computes_groups(chart: &Chart) -> bool {
    let is_argument = |rest: &str| rest.starts_with(char::is_whitespace) && !rest.trim_start().starts_with(':');
    let names = |file: &File| file.data.to_text().split("\"apiVersion\"").skip(1).any(is_argument);
    chart.templates.iter().any(names) || chart.dependencies.iter().any(|dependency| computes_groups(dependency))
}

fn add(chart: &Chart, path: &str, printed: &Printed<'_>, spelled: &mut SpelledOut) {
    if chart.files.iter().any(|file| file.name.starts_with("crds/")) {
        spelled.kinds.insert("CustomResourceDefinition.apiextensions.k8s.io".to_owned());
    }
    if chart.templates.iter().any(|file| memchr::memmem::find(&file.data, b".Files").is_some()) {
        chart.files.iter().for_each(|file| add_file(file, spelled));
    }
    for file in &chart.templates {
        let name = format!("{path}/{}", file.name);
        let text = file.data.to_text();
        spelled.kinds.extend(kinds_of_dicts(&text));
        let source = Source { name: &name, text: &text, printed };
        for found in Lines::of(&text) {
            let pieces = pieces(found.value);
            let is_known = match found.key {
                Key::Kind => source.kinds(&pieces, &found.groups, &mut spelled.kinds),
                Key::Namespace => source.namespaces(&pieces, &mut spelled.namespaces),
            };
            if !is_known {
                spelled.computed.push(Computed { template: name.clone(), line: found.line, what: found.key });
            }
        }
    }
    for dependency in &chart.dependencies {
        add(dependency, &format!("{path}/charts/{}", dependency.metadata.name), printed, spelled);
    }
}

/// Adds the kinds and namespaces in a file that templates may print unchanged.
fn add_file(file: &File, spelled: &mut SpelledOut) {
    if ![".yaml", ".yml", ".tpl"].iter().any(|ending| file.name.ends_with(ending)) {
        return;
    }
    let text = file.data.to_text();
    for found in Lines::of(&text) {
        match (found.key, &pieces(found.value)[..]) {
            (Key::Kind, [Piece::Text(kind)]) if is_kind(kind) => spelled.kinds.extend(names(kind, &found.groups)),
            (Key::Namespace, [Piece::Text(name)]) if is_label(name) => {
                spelled.namespaces.insert((*name).to_owned());
            }
            _ => {}
        }
    }
}

/// The text of a file, in the chart that it belongs to.
struct Source<'t, 'r, 'a> {
    name: &'t str,
    text: &'t str,
    printed: &'r Printed<'a>,
}

impl Source<'_, '_, '_> {
    /// Adds the kinds that a value contains, of these groups; returns whether there are any.
    fn kinds(&self, pieces: &[Piece<'_>], groups: &BTreeSet<&str>, kinds: &mut BTreeSet<String>) -> bool {
        let mut found: Vec<String> = self.possible(pieces).into_iter().flatten().collect();
        found.retain(|kind| is_kind(kind));
        // `kind:` without a value starts a property of a schema.
        let is_known = pieces.is_empty() || !found.is_empty();
        kinds.extend(found.iter().flat_map(|kind| names(kind, groups)));
        is_known
    }

    /// Adds the namespaces that a value contains; returns whether there are any, or the release's own.
    fn namespaces(&self, pieces: &[Piece<'_>], namespaces: &mut BTreeSet<String>) -> bool {
        let mut is_known = pieces.is_empty();
        for text in self.possible(pieces) {
            match text {
                None => is_known = true,
                Some(name) if is_label(&name) => {
                    is_known = true;
                    namespaces.insert(name);
                }
                Some(_) => {}
            }
        }
        is_known
    }

    /// Returns the possible values, where `None` stands for the release's own namespace. Between blocks, each piece alone is possible: `{{ if .x
    /// }}Cluster{{ end }}Role` contains two words, and a third when they are joined.
    fn possible(&self, pieces: &[Piece<'_>]) -> BTreeSet<Option<String>> {
        let texts = |piece: &Piece<'_>| match piece {
            Piece::Text(text) => vec![Some((*text).to_owned())],
            Piece::Action(action) => self.action(action),
            Piece::Control => Vec::new(),
        };
        let parts: Vec<Vec<Option<String>>> =
            pieces.iter().filter(|piece| **piece != Piece::Control).map(texts).collect();
        let mut all: BTreeSet<Option<String>> = joined(&parts).into_iter().collect();
        if parts.len() < pieces.len() {
            all.extend(parts.into_iter().flatten());
        }
        all
    }

    /// Returns the texts that an action may print.
    fn action(&self, action: &str) -> Vec<Option<String>> {
        // The action is a slice of the file's text.
        let start = action.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let texts = self.printed.at(self.name, &(start..start + action.len())).unwrap_or_default();
        texts.each().map(|text| text.map(str::to_owned)).collect()
    }
}

/// Returns each way to join one text of each part. The release's namespace can only be a whole text.
fn joined(parts: &[Vec<Option<String>>]) -> Vec<Option<String>> {
    match parts {
        [only] => only.clone(),
        _ => {
            let mut all = vec![String::new()];
            for part in parts {
                let next =
                    |first: &String| part.iter().flatten().map(|text| format!("{first}{text}")).collect::<Vec<_>>();
                all = all.iter().flat_map(next).take(MAX_JOINED).collect();
            }
            all.into_iter().map(Some).collect()
        }
    }
}

/// Returns the names of a kind: with each of its groups, or alone if they are unknown.
fn names(kind: &str, groups: &BTreeSet<&str>) -> Vec<String> {
    match groups.is_empty() {
        true => vec![kind.to_owned()],
        false => groups.iter().map(|group| format!("{kind}.{group}")).collect(),
    }
}

/// Returns the kinds of objects that a template builds from maps: `dict "kind" "ClusterRole"`.
fn kinds_of_dicts(text: &str) -> impl Iterator<Item = String> {
    let after = text.split("\"kind\" \"").skip(1).filter_map(|rest| rest.split_once('"'));
    after.map(|(kind, _)| kind.to_owned()).filter(|kind| is_kind(kind))
}

fn is_kind(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric())
}
