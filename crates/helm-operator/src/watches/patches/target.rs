//! Which objects a patch changes: kustomize's `target`.

use std::fmt;
use std::sync::Arc;

use golibs::regex::Regex;
use serde_json::Value;

use crate::watches::node::{Entry, Node};
use crate::watches::rules::{string, unknown};

const KEYS: [&str; 7] = ["group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector"];

/// Which objects a patch changes: those that match every given field.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    /// The expressions for group, version, kind, name and namespace.
    parts: [Option<Pattern>; 5],
    labels: Vec<Requirement>,
    annotations: Vec<Requirement>,
}

/// An expression that a whole text matches.
#[derive(Clone)]
struct Pattern {
    source: String,
    regex: Arc<Regex>,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// The requirement on a label or annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Missing(String),
    In(String, Vec<String>),
    /// It is missing, or has another value.
    NotIn(String, Vec<String>),
}

impl Target {
    /// Returns whether the target means an object. An object without a namespace is in `namespace`.
    pub(crate) fn matches(&self, object: &Value, namespace: &str) -> bool {
        let (group, version) = group_version(object);
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let own = text(&metadata["namespace"]);
        let parts = [
            group.to_owned(),
            version.to_owned(),
            text(&object["kind"]),
            text(&metadata["name"]),
            if own.is_empty() { namespace.to_owned() } else { own },
        ];
        let fits = |(pattern, part): (&Option<Pattern>, &String)| {
            pattern.as_ref().is_none_or(|pattern| pattern.regex.is_match(part.as_bytes()))
        };
        self.parts.iter().zip(&parts).all(fits)
            && self.labels.iter().all(|one| one.is_met(&metadata["labels"]))
            && self.annotations.iter().all(|one| one.is_met(&metadata["annotations"]))
    }
}

pub(crate) fn group_version(object: &Value) -> (&str, &str) {
    let text = object["apiVersion"].as_str().unwrap_or_default();
    text.split_once('/').unwrap_or(("", text))
}

impl Requirement {
    fn is_met(&self, all: &Value) -> bool {
        let found = |key: &str| all[key].as_str();
        match self {
            Requirement::Exists(key) => found(key).is_some(),
            Requirement::Missing(key) => found(key).is_none(),
            Requirement::In(key, values) => found(key).is_some_and(|value| values.iter().any(|one| one == value)),
            Requirement::NotIn(key, values) => found(key).is_none_or(|value| values.iter().all(|one| one != value)),
        }
    }
}

/// Decodes `{kind: Deployment, name: web.*}`.
pub(super) fn target(value: &Node) -> Result<Target, String> {
    let mut target = Target::default();
    for Entry { key, value, .. } in value.map()? {
        let Some(place) = KEYS.iter().position(|known| known == key) else { return Err(unknown(key, &KEYS)) };
        if *value == Node::Null {
            continue;
        }
        let text = &string(key, value)?;
        let bad = |what: String| format!("{key}: {what}");
        match place {
            5 => target.labels = requirements(text).map_err(bad)?,
            6 => target.annotations = requirements(text).map_err(bad)?,
            _ => target.parts[place] = pattern(text).map_err(bad)?,
        }
    }
    Ok(target)
}

/// Anchors an expression. An empty one means any text.
fn pattern(source: &str) -> Result<Option<Pattern>, String> {
    if source.is_empty() {
        return Ok(None);
    }
    let regex = Regex::new(format!("^(?:{source})$").as_bytes()).map_err(|error| error.to_string())?;
    Ok(Some(Pattern { source: source.to_owned(), regex: Arc::new(regex) }))
}

/// Parses a selector as `kubectl -l` reads it: `a=b, c!=d, e in (f, g), h notin (i), j, !k`.
fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut depth = 0_usize;
    let parts = text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).map(requirement).collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let wrong =
        || format!("{text:?} is no requirement: expected one such as a=b, a!=b, a in (b, c), a notin (b), a or !a");
    let key = |key: &str| {
        let key = key.trim();
        let is_key = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
        is_key.then(|| key.to_owned()).ok_or_else(wrong)
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((left, value)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(key(left)?, one(value)));
    }
    if let Some((left, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(key(left)?, one(value)));
    }
    if let Some(set) = text.strip_suffix(')') {
        let (left, values) = set.split_once('(').ok_or_else(wrong)?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        return match left.trim().rsplit_once(char::is_whitespace) {
            Some((left, "in")) => Ok(Requirement::In(key(left)?, values)),
            Some((left, "notin")) => Ok(Requirement::NotIn(key(left)?, values)),
            _ => Err(wrong()),
        };
    }
    match text.strip_prefix('!') {
        Some(rest) => Ok(Requirement::Missing(key(rest)?)),
        None => Ok(Requirement::Exists(key(text)?)),
    }
}
