//! Finds where a chart's templates call `lookup`, and in which namespace, as far as their source determines it.

mod follow;
mod grant;
#[cfg(test)]
mod tests;

use go_template::{Expression, Map, Parsed, Part, Pipeline, parse};

use super::calls;
use crate::chart::{Chart, File};
pub(super) use follow::Reading;
pub use grant::LookupGrant;

/// A call of `lookup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupCall {
    /// The template's name, as in errors: `web/templates/secret.yaml`.
    pub template: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The `apiVersion`, if the template gives it as a constant.
    pub api_version: Option<String>,
    /// The kind, if the template gives it as a constant.
    pub kind: Option<String>,
    /// The object's name, if the template gives it as a constant; empty for a list.
    pub name: Option<String>,
    /// The namespace.
    pub namespace: LookupNamespace,
}

/// The namespace of a `lookup`. If several are possible, the one that needs the widest grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LookupNamespace {
    /// The release's own namespace, unless its values override it.
    Own,
    /// A constant in the template. Empty for all namespaces, and for objects without a namespace.
    Constant(String),
    /// The namespace that the chart's values set, which a resource may change.
    Default {
        /// The value's path, such as `operator.namespace`.
        path: String,
        /// The namespace in values.yaml.
        namespace: String,
    },
    /// Only a render determines the namespace.
    Computed,
}

/// Returns the calls of `lookup` in the chart and its subcharts, by template and line. Ignores templates that do not parse.
pub fn lookups(chart: &Chart) -> Vec<LookupCall> {
    if !mentions_lookup(chart) {
        return Vec::new();
    }
    let mut templates = Vec::new();
    collect(chart, &chart.metadata.name, &[], &mut templates);
    let mut calls = Reading::of(&templates).calls();
    calls.sort_by(|a, b| (&a.template, a.line).cmp(&(&b.template, b.line)));
    calls.dedup();
    calls
}

fn mentions_lookup(chart: &Chart) -> bool {
    let mentions = |file: &File| memchr::memmem::find(&file.data, b"lookup").is_some();
    chart.templates.iter().any(mentions) || chart.dependencies.iter().any(|dependency| mentions_lookup(dependency))
}

/// A template: the text of a file itself, or a `define` in it.
pub(super) struct Template<'a> {
    /// The name by which it is included.
    name: String,
    file: String,
    pub(super) pipelines: Vec<Pipeline>,
    pub(super) parts: Vec<Part>,
    pub(super) defaults: Defaults<'a>,
}

impl Template<'_> {
    /// Returns the name by which it is included.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether this is the text of the file itself.
    pub(super) fn is_main(&self) -> bool {
        self.name == self.file
    }
}

/// The default values that a chart's templates see: those of the outermost chart first, each with the path to this chart's part.
pub(super) type Defaults<'a> = Vec<(&'a Map, Vec<String>)>;

/// Parses the templates of a chart and its subcharts. `outer` holds the values of the charts around it.
pub(super) fn collect<'a>(
    chart: &'a Chart,
    path: &str,
    outer: &[(&'a Map, Vec<String>)],
    templates: &mut Vec<Template<'a>>,
) {
    let defaults: Defaults<'a> = outer.iter().cloned().chain([(&chart.values, Vec::new())]).collect();
    for file in &chart.templates {
        let name = format!("{path}/{}", file.name);
        if let Ok(parsed) = parse(name.as_str(), file.data.clone(), calls::all()) {
            add(&name, &parsed, &defaults, templates);
        }
    }
    for dependency in &chart.dependencies {
        let name = &dependency.metadata.name;
        let inside =
            |(values, below): &(&'a Map, Vec<String>)| (*values, [&below[..], std::slice::from_ref(name)].concat());
        let outer: Defaults<'a> = defaults.iter().map(inside).collect();
        collect(dependency, &format!("{path}/charts/{name}"), &outer, templates);
    }
}

fn add<'a>(file: &str, parsed: &Parsed, defaults: &Defaults<'a>, templates: &mut Vec<Template<'a>>) {
    for tree in parsed.all() {
        templates.push(Template {
            name: tree.name().to_text().into_owned(),
            file: file.to_owned(),
            pipelines: tree.pipelines(),
            parts: tree.parts(),
            defaults: defaults.clone(),
        });
    }
}

/// Returns the text of a constant argument.
fn constant(expression: Option<&Expression>) -> Option<String> {
    match expression {
        Some(Expression::Constant(text)) => Some(text.clone()),
        _ => None,
    }
}
