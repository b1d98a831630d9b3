//! Decides whether charts cannot see the kind of a release's object because an API server does not answer. Pure.
//!
//! A process that starts meanwhile has never seen that server's kinds. A chart that asks for one would drop its
//! objects, and the upgrade would delete them as soon as the server answers.

use std::sync::Arc;

use helm_release::storage::MarkedObject;
use outside::group_of;

/// Returns the first of these objects of a silent group version, with that version. An object in another version of the
/// group counts only if no version of its kind is known.
pub(crate) fn hidden<'a>(
    silent: &'a [Arc<str>],
    live: impl IntoIterator<Item = &'a MarkedObject>,
    is_known: impl Fn(&MarkedObject) -> bool,
) -> Option<(&'a str, &'a MarkedObject)> {
    live.into_iter().find_map(|object| {
        let own = silent.iter().find(|version| **version == object.api_version);
        let of_group = || silent.iter().find(|version| group_of(version) == &*object.key.group);
        let version = own.or_else(|| of_group().filter(|_| !is_known(object)))?;
        Some((&**version, object))
    })
}

#[cfg(test)]
mod tests {
    use helm_release::kube::ObjectKey;

    use super::*;

    fn object(api_version: &str, kind: &str) -> MarkedObject {
        MarkedObject::new(ObjectKey::new(group_of(api_version), kind, "ns", "web"), api_version.into())
    }

    #[test]
    fn only_an_object_whose_kind_a_silent_server_may_serve_is_hidden() {
        let live = |api_version: &str| vec![object("v1", "ConfigMap"), object(api_version, "Route")];
        for (behaviour, silent, live, is_known, expected) in [
            ("every server answers", vec![], live("x.y/v1"), false, None),
            ("its own version is silent", vec!["x.y/v1"], live("x.y/v1"), false, Some("x.y/v1")),
            ("another version is known", vec!["x.y/v1"], live("x.y/v1"), true, Some("x.y/v1")),
            ("a later version is silent", vec!["x.y/v2"], live("x.y/v1"), false, Some("x.y/v2")),
            ("a later version is silent, but its own is known", vec!["x.y/v2"], live("x.y/v1"), true, None),
            ("another group is silent", vec!["z.y/v1"], live("x.y/v1"), false, None),
            ("its own version after another", vec!["x.y/v2", "x.y/v1"], live("x.y/v1"), true, Some("x.y/v1")),
        ] {
            let silent: Vec<Arc<str>> = silent.into_iter().map(Arc::from).collect();
            let found = hidden(&silent, &live, |_| is_known);
            assert_eq!(found.map(|(version, _)| version), expected, "{behaviour}");
            assert!(found.is_none_or(|(_, object)| &*object.key.kind == "Route"), "{behaviour}");
        }
    }
}
