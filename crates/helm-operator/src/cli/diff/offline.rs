//! Compares the renders of two charts, without a cluster.

use std::path::Path;
use std::sync::Arc;

use controller::report::chain;
use go_encoding::json;
use go_template::Value;
use helm::chart::Chart;
use helm::engine::Engine;
use serde_json::Value as Json;

use super::session::{Failure, gvk, of_document, skipped};
use super::{Diff, inputs};
use crate::charts::rehearsals::Rehearsed;
use crate::cli::rendered;
use crate::manager::operator::Operator;
use crate::plan::{Name, compare, revisions};
use crate::pull;
use crate::watches::Watch;

/// Returns what a new chart changes in the render of each resource.
pub(super) fn plans(diff: &Diff, operator: Operator) -> Result<Vec<Rehearsed>, Failure> {
    let Some(chart) = &diff.chart else {
        return Err(Failure::Usage("--offline compares with the chart that --chart names".to_owned()));
    };
    let documents = inputs::read(&diff.filename)?;
    if documents.is_empty() {
        return Err(Failure::Usage("--offline needs resources in files: -f".to_owned()));
    }
    let operator = operator.watches(&diff.watches_file)?;
    let mut plans = Vec::new();
    for document in &documents {
        match operator.entries().iter().find(|watch| gvk(watch) == of_document(document)) {
            Some(watch) => plans.push(one(diff, watch, chart, document)?),
            None => skipped(document),
        }
    }
    Ok(plans)
}

fn one(diff: &Diff, watch: &Watch, chart: &Path, document: &Json) -> Result<Rehearsed, Failure> {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = of_document(document);
    let of_file = Some(text(&document["metadata"]["namespace"])).filter(|namespace| !namespace.is_empty());
    let namespace = of_file.or_else(|| diff.namespace.clone()).unwrap_or_else(|| "default".to_owned());
    let resource = Name { api_version, kind, namespace, name: text(&document["metadata"]["name"]) };
    let mut next = watch.clone();
    next.replace_chart(chart).map_err(Failure::Usage)?;
    let render = |watch: &Watch| {
        let pulled = pull::local(watch).map_err(|error| Failure::Render {
            chart: watch.chart.clone(),
            what: resource.to_string(),
            why: chain(&error),
        })?;
        objects(watch, &pulled, &resource, &document["spec"])
    };
    let (before, after) = (render(watch)?, render(&next)?);
    let mask = rendered::mask(watch, before.iter().chain(&after));
    Ok(Rehearsed { plan: compare(resource.clone(), &before, &after), mask })
}

fn objects(watch: &Watch, chart: &Path, resource: &Name, spec: &Json) -> Result<Vec<Json>, Failure> {
    let failed = |why: String| Failure::Render { chart: chart.to_owned(), what: resource.to_string(), why };
    let loaded: Arc<Chart> = Chart::load_with(chart, &watch.schema.copies).map_err(|error| failed(chain(&error)))?;
    let values = match json::from_serde(spec) {
        Value::Map(values) => values,
        _ => go_template::Map::default(),
    };
    let engine = Engine::new(loaded);
    let documents = rendered::documents(watch, &engine, &resource.name, &resource.namespace, values).map_err(failed)?;
    Ok(revisions::objects(documents.iter().map(String::as_str)))
}
