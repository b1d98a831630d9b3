//! A value that the chart's own text determines.

use std::collections::BTreeSet;
use std::rc::Rc;

use go_template::{Expression, Value};

use super::{MAX_TEXTS, Scope};
use crate::engine::lookups::Defaults;

/// A mark for the release's own namespace, which differs from every other text.
pub(super) const OWN: &str = "\u{0}";

/// A possible value of an expression.
#[derive(Clone)]
pub(super) enum Known<'a> {
    /// The chart's context, with `.Values` and `.Release`.
    Context,
    /// `.Release`.
    Release,
    Text(String),
    /// The value at a path in values.yaml, which users may override.
    Values(Vec<String>),
    /// A part of the value in values.yaml.
    Data(Value),
    /// The keys and values of a `dict`, and their scope.
    Dict(&'a [Expression], Rc<Scope<'a>>),
    /// The elements of a `list`, and their scope.
    List(&'a [Expression], Rc<Scope<'a>>),
}

impl PartialEq for Known<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Known::Context, Known::Context) | (Known::Release, Known::Release) => true,
            (Known::Text(a), Known::Text(b)) => a == b,
            (Known::Values(a), Known::Values(b)) => a == b,
            // Compares expressions by address and scopes by identity: the same expression in another scope counts as a different value.
            (Known::Dict(a, s), Known::Dict(b, t)) | (Known::List(a, s), Known::List(b, t)) => {
                std::ptr::eq(*a, *b) && Rc::ptr_eq(s, t)
            }
            (Known::Data(Value::String(a)), Known::Data(Value::String(b))) => a == b,
            _ => false,
        }
    }
}

impl<'a> Known<'a> {
    /// Returns the text that it prints, or `None` for a value that is empty in values.yaml.
    pub(super) fn texts(&self, defaults: &Defaults<'_>) -> Option<String> {
        match self {
            Known::Text(text) => Some(text.clone()),
            Known::Values(path) => text(&at(path, defaults)?),
            Known::Data(value) => text(value),
            Known::Context | Known::Release | Known::Dict(..) | Known::List(..) => None,
        }
    }

    /// Returns the elements of a list, or the values of a table.
    pub(super) fn elements(&self, defaults: &Defaults<'_>) -> Vec<Known<'a>> {
        let value = match self {
            Known::Values(path) => at(path, defaults),
            Known::Data(value) => Some(value.clone()),
            _ => None,
        };
        let elements: Vec<Value> = match value {
            Some(Value::List(list)) => list.iter().take(MAX_TEXTS).cloned().collect(),
            Some(Value::Map(map)) => map.snapshot().into_iter().take(MAX_TEXTS).map(|(_, value)| value).collect(),
            _ => Vec::new(),
        };
        elements.into_iter().map(Known::Data).collect()
    }

    pub(super) fn field(&self, name: &str) -> Option<Known<'a>> {
        match (self, name) {
            (Known::Context, "Release") => Some(Known::Release),
            (Known::Context, "Values") => Some(Known::Values(Vec::new())),
            (Known::Release, "Namespace") => Some(Known::Text(OWN.to_owned())),
            (Known::Values(path), _) => Some(Known::Values([&path[..], &[name.to_owned()]].concat())),
            (Known::Data(Value::Map(map)), _) => map.get(name).map(Known::Data),
            _ => None,
        }
    }
}

/// Returns the value at a path in values.yaml, of the outermost chart that has one.
fn at(path: &[String], defaults: &Defaults<'_>) -> Option<Value> {
    defaults.iter().find_map(|(values, below)| {
        below.iter().chain(path).try_fold(Value::Map((*values).clone()), |value, field| match value {
            Value::Map(map) => map.get(field.as_str()),
            _ => None,
        })
    })
}

/// Returns the text of a value. If it contains a template, only the one that prints the release's namespace is known.
fn text(value: &Value) -> Option<String> {
    let Value::String(text) = value else { return None };
    let text = text.to_text().into_owned();
    let inside = text.trim().strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
    match inside.map(|inside| inside.trim_matches('-').trim()) {
        Some(".Release.Namespace" | "$.Release.Namespace") => Some(OWN.to_owned()),
        _ => Some(text).filter(|text| !text.is_empty() && !text.contains("{{")),
    }
}

/// The possible outputs of an expression, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Texts(pub(super) BTreeSet<String>);

impl Texts {
    /// Returns the texts, where `None` stands for the release's own namespace.
    pub(in super::super) fn each(&self) -> impl Iterator<Item = Option<&str>> {
        self.0.iter().map(|text| if text.trim() == OWN { None } else { Some(text.trim()) })
    }
}
