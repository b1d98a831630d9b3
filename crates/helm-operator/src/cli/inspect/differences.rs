//! Compares the manifests and hooks of two recorded revisions.

use helm_release::kube::objects_of;
use helm_release::release::Release;

use crate::cli::rendered;
use crate::mask::Mask;
use crate::plan::{Name, Plan, compare};
use crate::view::primary::Primary;

/// Returns what the later revision has in place of the earlier one, which may be none, and a mask of the contents of
/// Secrets in both.
pub(super) fn between(resource: &Primary, from: Option<&Release>, to: Option<&Release>) -> (Plan, Mask) {
    let name = Name {
        api_version: resource.api_version.to_string(),
        kind: resource.kind.to_string(),
        namespace: to.or(from).map_or(String::new(), |release| release.namespace.clone()),
        name: resource.name().to_owned(),
    };
    let mut mask = Mask::default();
    for text in [from, to].into_iter().flatten().flat_map(texts) {
        if let Ok(objects) = objects_of(text) {
            mask.add_objects(&objects);
        }
    }
    let objects = |release: Option<&Release>| rendered::objects(release.into_iter().flat_map(texts));
    (compare(name, &objects(from), &objects(to)), mask)
}

fn texts(release: &Release) -> impl Iterator<Item = &str> {
    std::iter::once(release.manifest.as_str()).chain(release.hooks.iter().map(|hook| hook.manifest.as_str()))
}
