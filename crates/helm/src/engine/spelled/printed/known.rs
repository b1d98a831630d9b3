//! A value that the chart's own text decides.

use std::collections::BTreeSet;
use std::rc::Rc;

use go_template::{Expression, Value};

use super::{MAX_TEXTS, Scope};
use crate::engine::lookups::Defaults;

/// The release's own namespace, which no other text can be.
pub(super) const OWN: &str = "\u{0}";

/// Something that an expression may be.
#[derive(Clone)]
pub(super) enum Known<'a> {
    /// The chart's context, with `.Values` and `.Release`.
    Context,
    /// `.Release`.
    Release,
    /// A text.
    Text(String),
    /// What values.yaml has at a path; users may set something else.
    Values(Vec<String>),
    /// A part of what values.yaml has.
    Data(Value),
    /// The keys and values of a `dict`, and where they stand.
    Dict(&'a [Expression], Rc<Scope<'a>>),
    /// The elements of a `list`, and where they stand.
    List(&'a [Expression], Rc<Scope<'a>>),
}

impl PartialEq for Known<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Known::Context, Known::Context) | (Known::Release, Known::Release) => true,
            (Known::Text(a), Known::Text(b)) => a == b,
            (Known::Values(a), Known::Values(b)) => a == b,
            // Expressions are compared by their place: the same one in another scope is close enough to tell apart.
            (Known::Dict(a, s), Known::Dict(b, t)) | (Known::List(a, s), Known::List(b, t)) => {
                std::ptr::eq(*a, *b) && Rc::ptr_eq(s, t)
            }
            (Known::Data(Value::String(a)), Known::Data(Value::String(b))) => a == b,
            _ => false,
        }
    }
}

impl<'a> Known<'a> {
    /// Returns the texts that it prints. A value that values.yaml leaves empty prints none.
    pub(super) fn texts(&self, defaults: &Defaults<'_>) -> Option<String> {
        match self {
            Known::Text(text) => Some(text.clone()),
            Known::Values(path) => text(&at(path, defaults)?),
            Known::Data(value) => text(value),
            Known::Context | Known::Release | Known::Dict(..) | Known::List(..) => None,
        }
    }

    /// Returns the elements of a list, and the values of a table.
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

    /// Returns a field.
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

/// Returns what values.yaml has at a path, of the outermost chart that has it.
fn at(path: &[String], defaults: &Defaults<'_>) -> Option<Value> {
    defaults.iter().find_map(|(values, below)| {
        below.iter().chain(path).try_fold(Value::Map((*values).clone()), |value, field| match value {
            Value::Map(map) => map.get(field.as_str()),
            _ => None,
        })
    })
}

/// Returns the text of a value; of a template in it only that of the release's namespace.
fn text(value: &Value) -> Option<String> {
    let Value::String(text) = value else { return None };
    let text = text.to_text().into_owned();
    let inside = text.trim().strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
    match inside.map(|inside| inside.trim_matches('-').trim()) {
        Some(".Release.Namespace" | "$.Release.Namespace") => Some(OWN.to_owned()),
        _ => Some(text).filter(|text| !text.is_empty() && !text.contains("{{")),
    }
}

/// What an expression prints, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Texts(pub(super) BTreeSet<String>);

impl Texts {
    /// Returns the texts; `None` stands for the release's own namespace.
    pub(in super::super) fn each(&self) -> impl Iterator<Item = Option<&str>> {
        self.0.iter().map(|text| if text.trim() == OWN { None } else { Some(text.trim()) })
    }
}
