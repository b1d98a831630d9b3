//! The schema of a chart's values, with subcharts' values below their names and the globals of all charts together.

use helm::chart::Chart;
use serde_json::{Value as Json, json};

use super::comments;
use super::infer;
use super::schema::{self, Defaults};
use super::union::{union, without_marks};
use crate::{chart, yaml};

/// The key whose map is passed to all subcharts.
const GLOBAL: &str = "global";

/// Maximum depth of described subcharts.
pub(super) const MAX_DEPTH: usize = 4;

#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Whether values also come from other sources than the resource, so that nothing can be required of it.
    pub(super) has_others: bool,
    /// The depth to which subcharts are described.
    pub(super) depth: usize,
}

/// Describes the values of a chart. `text` holds its `values.yaml` and its subcharts'.
pub(super) fn describe(chart: &Chart, text: &chart::Text, extent: Extent) -> Json {
    let mut spec = below(chart, text, extent);
    without_marks(&mut spec);
    spec
}

fn below(chart: &Chart, text: &chart::Text, extent: Extent) -> Json {
    let mut spec = own(chart, text, extent);
    if extent.depth == 0 {
        return spec;
    }
    for (name, subchart) in subcharts(chart) {
        let unknown = chart::Text::default();
        let text = text.below.iter().find(|text| text.name == subchart.metadata.name).unwrap_or(&unknown);
        let mut inner = below(subchart, text, Extent { depth: extent.depth - 1, ..extent });
        without_required(&mut inner);
        let globals = inner.get_mut("properties").and_then(Json::as_object_mut).and_then(|all| all.remove(GLOBAL));
        if let Some(globals) = globals {
            add(&mut spec, GLOBAL, globals);
        }
        describe_subchart(&mut inner, subchart);
        add(&mut spec, name, inner);
    }
    spec
}

/// Describes the chart's own values.
fn own(chart: &Chart, text: &chart::Text, extent: Extent) -> Json {
    let values = yaml::parse(&text.values).unwrap_or(Json::Null);
    let values = if values.is_object() { values } else { json!({}) };
    let comments = comments::read(&text.values);
    let inferred = infer::table(&values, &comments);
    let schema = chart.schema.as_ref().and_then(|text| serde_json::from_slice(text).ok());
    let Some(schema): Option<Json> = schema else { return inferred };
    let mut said = schema::convert(&schema, &Defaults { values: &values, others: extent.has_others });
    comments::describe_fields(&mut said, "", &comments);
    if said["type"] != "object" {
        said = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "nullable": true, schema::DECIDED: said[schema::DECIDED]});
    }
    union(said, inferred)
}

/// Returns the subcharts with their aliases. Library charts are skipped, because they take no values.
fn subcharts(chart: &Chart) -> Vec<(&str, &Chart)> {
    let by_name = |name: &str| chart.dependencies.iter().find(|one| one.metadata.name == name);
    let listed = &chart.metadata.dependencies;
    let wanted = listed.iter().filter_map(|one| {
        let name = if one.alias.is_empty() { &one.name } else { &one.alias };
        Some((name.as_str(), &**by_name(&one.name)?))
    });
    let is_listed = |name: &str| listed.iter().any(|one| one.name == name);
    let others = chart.dependencies.iter().filter(|one| !is_listed(&one.metadata.name));
    let all = wanted.chain(others.map(|one| (one.metadata.name.as_str(), &**one)));
    all.filter(|(_, one)| one.metadata.kind != "library").collect()
}

/// Adds a field, or completes an existing one: the parent chart's description takes precedence.
fn add(table: &mut Json, name: &str, schema: Json) {
    if !table["properties"].is_object() {
        table["properties"] = json!({});
    }
    let field = &mut table["properties"][name];
    let known = field.take();
    *field = if known.is_null() { schema } else { union(known, schema) };
}

/// Makes all values of a subchart optional, because it may be disabled.
fn without_required(schema: &mut Json) {
    match schema {
        Json::Object(fields) => {
            if fields.get("required").is_some_and(Json::is_array) {
                fields.remove("required");
            }
            fields.values_mut().for_each(without_required);
        }
        Json::Array(items) => items.iter_mut().for_each(without_required),
        _ => {}
    }
}

fn describe_subchart(schema: &mut Json, chart: &Chart) {
    let about = chart.metadata.description.trim();
    let about = if about.is_empty() { String::new() } else { format!(": {about}") };
    schema["description"] = format!("Values of the subchart {}{about}", chart.metadata.name).into();
}
