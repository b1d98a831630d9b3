//! Renders a chart without a cluster, as a first install, and reads the objects of what was rendered.

use controller::report::chain;
use go_encoding::{json, yaml};
use go_template::{Map, Value};
use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};

use crate::watches::Watch;

/// Returns the documents of a chart's manifest and hooks, with the watch's overrides over the values.
///
/// # Errors
/// The chart does not render; the message has no values.
pub(super) fn documents(
    watch: &Watch,
    engine: &Engine,
    name: &str,
    namespace: &str,
    values: Map,
) -> Result<Vec<String>, String> {
    let values = watch.overrides.over(values).map_err(|error| chain(&error))?;
    let release =
        ReleaseOptions { name: name.to_owned(), namespace: namespace.to_owned(), revision: 1, is_upgrade: false };
    let (capabilities, skip_schema) = (&Capabilities::default(), watch.schema.skip);
    let request = Request { values: &values, release: &release, capabilities, lookup: None, skip_schema };
    let rendered = engine.render(&request).map_err(|error| error.without_values())?;
    let manifests = rendered.manifests.into_iter().map(|manifest| manifest.content);
    Ok(manifests.chain(rendered.hooks.into_iter().map(|hook| hook.manifest)).collect())
}

/// Returns the objects in these texts, in order. A text that is no YAML has none.
pub(super) fn objects<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<serde_json::Value> {
    let documents = texts.flat_map(|text| yaml::parse_documents(text.as_bytes()).unwrap_or_default());
    documents.map(|document| json::to_serde(&Value::Map(document))).collect()
}
