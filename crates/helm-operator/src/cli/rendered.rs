//! Renders a chart without a cluster, as a first install.

use controller::report::chain;
use go_template::Map;
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
