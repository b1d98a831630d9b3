//! Decides whether the API server may reject unknown fields of `spec`.

use helm::reads::Reads;
use serde_json::{Value as Json, json};

use std::collections::BTreeSet;
use std::sync::Arc;

use helm::chart::Chart;

/// Returns all fields that resources may have at the top of `spec`; `None` if others could have an effect.
///
/// Either the chart's own schema rejects others, or no template can read them.
pub(super) fn top_level(chart: &Arc<Chart>, spec: &Json) -> Option<BTreeSet<String>> {
    let described = spec["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone());
    let known: BTreeSet<String> = described.chain(["global".to_owned()]).collect();
    match is_closed_by_schema(chart) {
        true => Some(known),
        false => Some(Reads::of(chart).top_level()?.into_iter().chain(known).collect()),
    }
}

/// Returns whether the schema lists all fields.
fn is_closed_by_schema(chart: &Chart) -> bool {
    let schema = chart.schema.as_ref().and_then(|text| serde_json::from_slice::<Json>(text).ok()).unwrap_or_default();
    let others = ["patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"];
    schema["additionalProperties"] == false && others.iter().all(|key| schema.get(key).is_none())
}

/// Lets the server drop all other fields, or reject them for clients that request field validation, as kubectl does.
pub(super) fn close(spec: &mut Json, fields: &BTreeSet<String>) {
    for field in fields {
        let known = &mut spec["properties"][field.as_str()];
        if known.is_null() {
            *known = json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true});
        }
    }
    spec.as_object_mut().map(|spec| spec.remove("x-kubernetes-preserve-unknown-fields"));
}
