//! Finds the user's value that a rejected field comes from, and where the template uses it: `spec.service.port, used in
//! shop/templates/service.yaml:9`.
//!
//! This is a guess, made only if there is little room for error: the field's content equals the value, or the
//! template's line for the field names it. Never quotes a value.

use helm_release::action::{self, Candidate};
use helm_release::kube::{Object, objects_of, value_at};
use serde_json::Value;

use crate::rendering::request::Renderer;
use crate::view::primary::Primary;
use crate::watches::Overrides;

/// The prefix by which templates refer to values.
const VALUES: &str = ".Values.";

/// Returns an addition to the message of a rejected object; empty if nothing is known.
pub(crate) fn blame(
    error: &action::Error,
    candidate: &Candidate,
    primary: &Primary,
    renderer: &dyn Renderer,
) -> String {
    let Some((what, fields)) = error.rejected() else { return String::new() };
    let Some(object) = rejected(candidate, what) else { return String::new() };
    let Some(template) = Some(&*object.template).filter(|template| !template.is_empty()) else { return String::new() };
    let source = candidate.chart.template(template).or_else(|| renderer.template(template)).unwrap_or_default();
    let source = Source { text: &source, chart: subchart(template) };
    let values = Values {
        spec: primary.spec.json().ok().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default(),
        config: &candidate.config,
        defaults: candidate.chart.defaults(),
        overrides: renderer.overrides(),
    };
    let found = fields.iter().find_map(|field| origin(field, value_at(&object.body, field)?, &source, &values));
    match found {
        Some((path, Some(line))) => format!(" ({}, used in {template}:{line})", values.name(&path)),
        Some((path, None)) => format!(" ({}, rendered by {template})", values.name(&path)),
        None => format!(" (rendered by {template})"),
    }
}

/// Returns the rejected object. `what` is `Kind "name"`, or the path of a hook's template.
fn rejected(candidate: &Candidate, what: &str) -> Option<Object> {
    let is_it = |object: &&Object| format!("{} {:?}", object.kind, object.name) == what;
    candidate.objects.iter().find(is_it).cloned().or_else(|| {
        let hook = candidate.hooks.iter().find(|hook| hook.path == what)?;
        let object = objects_of(&hook.manifest).ok()?.into_iter().next()?;
        Some(Object { template: what.into(), ..object })
    })
}

/// The origins of values, from highest to lowest precedence.
struct Values<'a> {
    spec: Value,
    config: &'a Value,
    defaults: Value,
    overrides: Option<&'a Overrides>,
}

impl Values<'_> {
    /// Returns the value at a path, as templates see it.
    fn at(&self, path: &str) -> Option<&Value> {
        value_at(self.config, path).or_else(|| value_at(&self.defaults, path))
    }

    /// Names a value by the place where it is set.
    fn name(&self, path: &str) -> String {
        let is_overridden = |overrides: &&Overrides| overrides.texts().keys().any(|key| key == path);
        if self.overrides.as_ref().is_some_and(is_overridden) {
            return format!("{path} in overrideValues of watches.yaml");
        }
        match (value_at(&self.spec, path), value_at(self.config, path)) {
            (Some(_), _) => format!("spec.{path}"),
            (None, Some(_)) => format!("{path} in a source of values"),
            (None, None) => format!("{path} in the chart's values.yaml"),
        }
    }
}

/// A template.
struct Source<'s> {
    text: &'s str,
    /// The path of the chart's values: empty, or `cache` for a subchart.
    chart: String,
}

/// Returns the path of a subchart's values, given a template's name: `cache` for `shop/charts/cache/templates/a.yaml`.
/// Empty for the root chart.
fn subchart(template: &str) -> String {
    let mut parts = template.split('/').skip(1);
    let mut path = Vec::new();
    while let (Some("charts"), Some(name)) = (parts.next(), parts.next()) {
        path.push(name);
    }
    path.join(".")
}

/// A use of a value in a template.
struct Use<'s> {
    line: usize,
    /// The key that the line sets, if it starts with one.
    key: &'s str,
    /// The path in the root chart's values.
    path: String,
}

fn uses<'s>(source: &'s Source<'_>) -> impl Iterator<Item = Use<'s>> {
    let of_all = |path: &str| match &*source.chart {
        "" => path.to_owned(),
        _ if path == "global" || path.starts_with("global.") => path.to_owned(),
        chart => format!("{chart}.{path}"),
    };
    source.text.lines().enumerate().flat_map(move |(at, text)| {
        let key = text.trim_start_matches([' ', '-']).split_once(':').map_or("", |(key, _)| key.trim_matches('"'));
        let paths = text.match_indices(VALUES).map(move |(from, _)| {
            let rest = &text[from + VALUES.len()..];
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
            of_all(rest[..end].trim_end_matches('.'))
        });
        paths.map(move |path| Use { line: at + 1, key, path })
    })
}

/// Returns the path of the value that a field comes from, with the template's line that uses it.
fn origin(field: &str, content: &Value, source: &Source<'_>, values: &Values<'_>) -> Option<(String, Option<usize>)> {
    let key = field.rsplit(['.', ']']).next().unwrap_or_default();
    let is_content = |one: &Use<'_>| values.at(&one.path).is_some_and(|value| is_same(value, content));
    let of_key = || uses(source).filter(|one| one.key == key && !key.is_empty());
    let named = |one: Use<'_>| (one.path, Some(one.line));
    if let Some(found) = of_key().find(is_content).or_else(|| uses(source).find(is_content)) {
        return Some(named(found));
    }
    let mut others = of_key();
    if let (Some(only), None) = (others.next(), others.next()) {
        return Some(named(only));
    }
    let mut equal = Vec::new();
    paths_of(&values.spec, content, String::new(), &mut equal);
    (equal.len() == 1 && is_telling(content)).then(|| (equal.swap_remove(0), None))
}

/// Returns whether a field's content equals a value, which a template may or may not have quoted.
fn is_same(value: &Value, content: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    value == content || (!value.is_null() && text(value) == text(content))
}

/// Returns whether another value is unlikely to have the same content by chance.
fn is_telling(content: &Value) -> bool {
    content.as_str().is_some_and(|text| text.len() > 2) || content.as_i64().is_some_and(|number| number.abs() > 9)
}

/// Collects the paths of `content` in values.
fn paths_of(values: &Value, content: &Value, at: String, found: &mut Vec<String>) {
    let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    match values {
        Value::Object(table) => {
            table.iter().for_each(|(key, value)| paths_of(value, content, below(key), found));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, value)| paths_of(value, content, format!("{at}[{index}]"), found));
        }
        value if is_same(value, content) => found.push(at),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SERVICE: &str = "apiVersion: v1\nspec:\n  type: {{ .Values.service.type }}\n  ports:\n    - port: {{ .Values.service.port }}\n      \
        targetPort: {{ .Values.target.port | default .Values.service.port }}\n  {{- with .Values.extra }}\n  {{ . }}\n";

    fn found(field: &str, content: Value, spec: Value) -> Option<String> {
        found_in("shop/templates/service.yaml", field, content, spec)
    }

    fn found_in(template: &str, field: &str, content: Value, spec: Value) -> Option<String> {
        let defaults = json!({"service": {"port": 80, "type": "ClusterIP"}, "target": {"port": "http"}});
        let values = Values { config: &spec, spec: spec.clone(), defaults, overrides: None };
        let source = Source { text: SERVICE, chart: subchart(template) };
        let (path, line) = origin(field, &content, &source, &values)?;
        Some(format!("{} {line:?}", values.name(&path)))
    }

    #[test]
    fn a_field_leads_to_its_value_and_the_line_that_uses_it() {
        let check = |field, content, spec, expected: Option<&str>| {
            assert_eq!(found(field, content, spec).as_deref(), expected, "{field}");
        };
        let port = ".spec.ports[port=\"eighty\",protocol=\"TCP\"].port";
        check(port, json!("eighty"), json!({"service": {"port": "eighty"}}), Some("spec.service.port Some(5)"));
        check(
            "spec.ports[0].port",
            json!(99999),
            json!({"service": {"port": 99999}}),
            Some("spec.service.port Some(5)"),
        );
        // The template changed the value, but the field's line names only one.
        check("spec.type", json!("x-y"), json!({"service": {"type": "y"}}), Some("spec.service.type Some(3)"));
        check("spec.ports[0].targetPort", json!("x"), json!({}), None);
        check("spec.type", json!("ClusterIP"), json!({}), Some("service.type in the chart's values.yaml Some(3)"));
        // No line names it, but only one value has the same content.
        let deep = json!({"a": {"b": [{"c": "a long text"}]}});
        check("spec.x", json!("a long text"), deep, Some("spec.a.b[0].c None"));
        check("spec.x", json!("same"), json!({"a": "same", "b": "same"}), None);
        check("spec.x", json!(1), json!({"a": 1}), None);
    }

    #[test]
    fn a_template_of_a_subchart_reads_values_below_its_name() {
        let cache = "shop/charts/cache/templates/service.yaml";
        let spec = json!({"service": {"port": 1}, "cache": {"service": {"port": "eighty"}}});
        let found = |template, spec| found_in(template, "spec.ports[0].port", json!("eighty"), spec);
        assert_eq!(found(cache, spec).as_deref(), Some("spec.cache.service.port Some(5)"));
        let deep = json!({"a": {"b": {"service": {"port": "eighty"}}}});
        assert_eq!(
            found("shop/charts/a/charts/b/templates/x.yaml", deep).as_deref(),
            Some("spec.a.b.service.port Some(5)")
        );
        let global = Source { text: "port: {{ .Values.global.port }}\n", chart: subchart(cache) };
        let spec = json!({"global": {"port": "eighty"}});
        let values = Values { config: &spec, spec: spec.clone(), defaults: Value::Null, overrides: None };
        assert_eq!(origin("spec.port", &json!("eighty"), &global, &values), Some(("global.port".into(), Some(1))));
    }
}
