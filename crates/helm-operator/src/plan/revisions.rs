//! Compares the manifests and hooks of two recorded revisions.

use go_encoding::{json, yaml};
use go_template::Value;
use helm_release::kube::objects_of;
use helm_release::release::Release;

use super::{Name, Plan, compare};
use crate::mask::Mask;

/// Returns what the later revision of a resource's release has instead of the earlier one, which may be none, and a
/// mask of the contents of Secrets in both. The plan is in the release's namespace.
pub(crate) fn between(resource: Name, from: Option<&Release>, to: Option<&Release>) -> (Plan, Mask) {
    let namespace = to.or(from).map_or(String::new(), |release| release.namespace.clone());
    let mut mask = Mask::default();
    for text in [from, to].into_iter().flatten().flat_map(texts) {
        if let Ok(objects) = objects_of(text) {
            mask.add_objects(&objects);
        }
    }
    let objects = |release: Option<&Release>| objects(release.into_iter().flat_map(texts));
    (compare(Name { namespace, ..resource }, &objects(from), &objects(to)), mask)
}

/// Returns the objects in these texts, in order. A text that is not valid YAML has none.
pub(crate) fn objects<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<serde_json::Value> {
    let documents = texts.flat_map(|text| yaml::parse_documents(text.as_bytes()).unwrap_or_default());
    documents.map(|document| json::to_serde(&Value::Map(document))).collect()
}

fn texts(release: &Release) -> impl Iterator<Item = &str> {
    std::iter::once(release.manifest.as_str()).chain(release.hooks.iter().map(|hook| hook.manifest.as_str()))
}
