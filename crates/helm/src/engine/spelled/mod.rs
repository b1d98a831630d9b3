//! What a chart's own templates spell out about their objects: kinds and namespaces. Values, and templates in them, say nothing here.
//!
//! The text is read line by line, as it will be printed: a template need not be YAML. What values decide is only placed.

mod line;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use go_template::{Expression, parse};

use super::calls;
use super::lookups::{LookupNamespace, Reading, Template, collect};
use crate::chart::Chart;
use line::{Lines, Piece, pieces};

/// The kinds and namespaces that a chart's templates, and those of its subcharts, spell out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpelledOut {
    /// Kinds of objects.
    pub kinds: BTreeSet<String>,
    /// Namespaces of objects, those that values.yaml names included.
    pub namespaces: BTreeSet<String>,
    /// Where only a render can tell, by template and line.
    pub computed: Vec<Computed>,
}

/// A place where a template computes something about its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Computed {
    /// The template's name, as in errors: `web/templates/secret.yaml`.
    pub template: String,
    /// The line, from 1.
    pub line: usize,
    /// What is computed.
    pub what: Key,
}

/// What an object's template says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Its kind.
    Kind,
    /// Its namespace.
    Namespace,
}

impl SpelledOut {
    /// Returns what a watch must open for the computed places that `counts`, whatever the values are: a value for `objects` in watches.yaml.
    pub fn grant(&self, counts: impl Fn(Key) -> bool) -> String {
        let has = |key: Key| self.computed.iter().any(|computed| computed.what == key && counts(key));
        let keys = [(Key::Namespace, "namespaces: any"), (Key::Kind, "clusterScoped: any")];
        let open: Vec<&str> = keys.into_iter().filter(|(key, _)| has(*key)).map(|(_, open)| open).collect();
        format!("{{{}}}", open.join(", "))
    }
}

/// The place and the key, such as `web/templates/a.yaml:3 computes the namespace of an object`.
impl fmt::Display for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Key::Kind => "kind",
            Key::Namespace => "namespace",
        };
        write!(f, "{}:{} computes the {what} of an object", self.template, self.line)
    }
}

/// Returns what the chart's templates spell out.
pub fn spelled_out(chart: &Chart) -> SpelledOut {
    let mut templates = Vec::new();
    collect(chart, &chart.metadata.name, &[], &mut templates);
    let reading = Reading::of(&templates);
    let mut spelled = SpelledOut::default();
    add(chart, &chart.metadata.name, &reading, &mut spelled);
    spelled.computed.sort();
    spelled.computed.dedup();
    spelled
}

fn add(chart: &Chart, path: &str, reading: &Reading<'_>, spelled: &mut SpelledOut) {
    if chart.files.iter().any(|file| file.name.starts_with("crds/")) {
        spelled.kinds.insert("CustomResourceDefinition".to_owned());
    }
    for file in &chart.templates {
        let name = format!("{path}/{}", file.name);
        let text = file.data.to_text();
        spelled.kinds.extend(kinds_of_dicts(&text));
        let source = Source { templates: reading.of_file(&name).collect(), reading };
        for found in Lines::of(&text) {
            let pieces = pieces(found.value);
            let is_known = match found.key {
                Key::Kind => source.kinds(&pieces, &mut spelled.kinds),
                Key::Namespace => source.namespaces(&pieces, &mut spelled.namespaces),
            };
            if !is_known {
                spelled.computed.push(Computed { template: name.clone(), line: found.line, what: found.key });
            }
        }
    }
    for dependency in &chart.dependencies {
        add(dependency, &format!("{path}/charts/{}", dependency.metadata.name), reading, spelled);
    }
}

/// A file's templates, in the chart that they belong to.
struct Source<'a, 'r> {
    templates: Vec<&'a Template<'a>>,
    reading: &'r Reading<'a>,
}

impl Source<'_, '_> {
    /// Adds the kinds that a value spells out; returns whether it spells out any.
    fn kinds(&self, pieces: &[Piece<'_>], kinds: &mut BTreeSet<String>) -> bool {
        // `{{ if .x }}Cluster{{ end }}Role` has two words, and a third when they are joined.
        let texts = pieces.iter().filter_map(|piece| if let Piece::Text(text) = piece { Some(*text) } else { None });
        let mut found: Vec<String> = texts.clone().map(str::to_owned).chain([texts.collect()]).collect();
        for piece in pieces {
            if let Piece::Action(action) = piece {
                let followed = self.follow(action).unwrap_or_default();
                found.extend(followed.constants.into_iter().chain(text(followed.printed)));
            }
        }
        found.retain(|kind| is_kind(kind));
        let is_known = !found.is_empty();
        kinds.extend(found);
        is_known
    }

    /// Adds the namespaces that a value spells out; returns whether there is no other.
    fn namespaces(&self, pieces: &[Piece<'_>], namespaces: &mut BTreeSet<String>) -> bool {
        let has_control = pieces.contains(&Piece::Control);
        let mut is_known = true;
        let mut found = Vec::new();
        for piece in pieces {
            match piece {
                // A part of a name is no name.
                Piece::Text(_) if pieces.len() > 1 && !has_control => is_known = false,
                Piece::Text(text) => found.push((*text).to_owned()),
                Piece::Action(action) => {
                    let followed = self.follow(action).unwrap_or_default();
                    is_known &= followed.printed != LookupNamespace::Computed;
                    found.extend(followed.constants.into_iter().chain(text(followed.printed)));
                }
                Piece::Control => {}
            }
        }
        namespaces.extend(found.into_iter().filter(|name| is_label(name)));
        is_known
    }

    /// Follows an action to what it prints; `None` if it cannot be parsed on its own.
    fn follow(&self, action: &str) -> Option<Followed> {
        // Variables must exist before a template parses.
        let variables: BTreeSet<&str> = line::variables(action).collect();
        let declared: String = variables.iter().map(|name| format!("{{{{ {name} := 0 }}}}")).collect();
        let parsed = parse("", format!("{declared}{{{{ {action} }}}}").as_str(), calls::all()).ok()?;
        let pipelines: Vec<_> = parsed.all().flat_map(|tree| tree.pipelines()).collect();
        let expression = &pipelines.iter().find(|pipeline| pipeline.sets.is_empty())?.expression;
        let possible = self.templates.iter().map(|template| self.reading.namespace_in(expression, template));
        let printed = possible.min_by_key(|found| *found == LookupNamespace::Computed)?;
        Some(Followed { printed, constants: constants(expression) })
    }
}

/// What an action prints.
struct Followed {
    printed: LookupNamespace,
    /// What it may print besides.
    constants: Vec<String>,
}

impl Default for Followed {
    fn default() -> Followed {
        Followed { printed: LookupNamespace::Computed, constants: Vec::new() }
    }
}

/// Returns the text that is known to be printed, but for the release's own namespace.
fn text(found: LookupNamespace) -> Option<String> {
    match found {
        LookupNamespace::Constant(text) | LookupNamespace::Default { namespace: text, .. } => Some(text),
        LookupNamespace::Own | LookupNamespace::Computed => None,
    }
}

/// Returns the constants of an expression, but for the names of included templates.
fn constants(expression: &Expression) -> Vec<String> {
    let (mut constants, mut names) = (Vec::new(), Vec::new());
    expression.visit(&mut |part| match part {
        Expression::Constant(text) => constants.push(text.clone()),
        Expression::Call { function, arguments, .. } if function == "include" => {
            names.extend(
                arguments
                    .first()
                    .and_then(|name| if let Expression::Constant(name) = name { Some(name.clone()) } else { None }),
            );
        }
        _ => {}
    });
    constants.retain(|text| !names.contains(text));
    constants
}

/// Returns the kinds of objects that a template makes of maps: `dict "kind" "ClusterRole"`.
fn kinds_of_dicts(text: &str) -> impl Iterator<Item = String> {
    let after = text.split("\"kind\" \"").skip(1).filter_map(|rest| rest.split_once('"'));
    after.map(|(kind, _)| kind.to_owned()).filter(|kind| is_kind(kind))
}

/// Whether the text can be a kind.
fn is_kind(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Whether the text can be a namespace.
fn is_label(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}
