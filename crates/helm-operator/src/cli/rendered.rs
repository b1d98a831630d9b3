//! Renders a chart without a cluster, as a first install, with what its watch adds to the objects.

use controller::report::chain;
use go_template::Map;
use helm::engine::{Capabilities, Engine, ReleaseOptions, Rendered, Request};
use helm::manifest;
use serde_json::Value as Json;

use crate::mask::Mask;
use crate::rendering::metadata::{self, Added};
use crate::rendering::patches;
use crate::watches::Watch;

/// Returns the documents of a chart's manifest and hooks, with the watch's overrides over the values, its patches, its
/// labels and its annotations.
///
/// # Errors
/// The chart does not render, or a patch cannot be applied; the message has no values.
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
    let rendered = decorated(watch, rendered, namespace)?;
    let manifests = rendered.manifests.into_iter().map(|manifest| manifest.content);
    Ok(manifests.chain(rendered.hooks.into_iter().map(|hook| hook.manifest)).collect())
}

/// Returns a mask that redacts the watch's override values, and the contents of Secrets among a chart's objects. It
/// keeps the objects' names, because an override value may be part of them.
pub(super) fn mask<'o>(watch: &Watch, objects: impl Iterator<Item = &'o Json>) -> Mask {
    let mut mask = Mask::default();
    watch.overrides.add_to(&mut mask);
    for object in objects {
        let (kind, metadata) = (&object["kind"], &object["metadata"]);
        mask.keep([kind, &metadata["name"], &metadata["namespace"]].into_iter().filter_map(Json::as_str));
        if kind == "Secret" {
            mask.add_data(object);
        }
    }
    mask
}

/// Applies the watch's patches, and adds its labels and annotations, to a render, in the order in which the operator
/// does. Without any, the render stays unchanged.
pub(super) fn decorated(watch: &Watch, rendered: Rendered, namespace: &str) -> Result<Rendered, String> {
    let changes = &watch.patches;
    let added = Added { labels: &watch.common_labels, annotations: &watch.common_annotations };
    if changes.0.is_empty() && added.is_empty() {
        return Ok(rendered);
    }
    let hooks = rendered.hooks.iter().map(|hook| (hook.path.as_str(), hook.manifest.as_str()));
    let mut stream = manifest::join(&rendered.manifest(), hooks);
    if !changes.0.is_empty() {
        stream = patches::apply_to_text(&stream, changes, namespace)
            .map_err(|error| format!("cannot apply patches: {}", chain(&error)))?;
    }
    if !added.is_empty() {
        stream = metadata::add_to_text(&stream, added)
            .map_err(|error| format!("cannot add commonLabels or commonAnnotations: {error}"))?;
    }
    let (manifests, hooks) = manifest::documents(&stream).map_err(|error| chain(&error))?;
    Ok(Rendered { manifests, hooks, ..rendered })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mask_hides_override_values_and_keeps_the_names_of_objects() {
        let text = "- {group: g, version: v1, kind: K, chart: a, overrideValues: {name: memcached, token: t0ken-9}}";
        let watch = crate::watches::parse(text, |_| None).unwrap().watches.remove(0);
        let object = json!({"kind": "Deployment", "metadata": {"name": "memcached-sample"}});
        let mask = mask(&watch, [&object].into_iter());
        let shown = mask.hide("--- Deployment memcached-sample\n+  token: t0ken-9\n".to_owned());
        assert_eq!(shown, "--- Deployment memcached-sample\n+  token: ****\n");
    }
}
