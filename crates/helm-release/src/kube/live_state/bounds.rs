//! Bounds how much of a live object's metadata is kept in memory. Anyone who may create objects can label them as a
//! chart's, and these are kept as long as they exist.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Length in bytes of the longest name: namespace and name of a resource, or its kind and group.
const MAX_NAME: usize = 317;

/// Maximum number of finalizers that are kept.
const MAX_FINALIZERS: usize = 32;

/// Replaces a text that is too long to be a name. Nothing has this name, so the object counts as someone else's.
const TOO_LONG: &str = "…";

/// Returns the text, or [`TOO_LONG`] if it exceeds the longest name.
pub(super) fn name(text: String) -> String {
    if text.len() <= MAX_NAME { text } else { TOO_LONG.to_owned() }
}

/// Returns the controller. If one of its texts is too long, its name and uid become [`TOO_LONG`], which matches no
/// resource.
pub(super) fn controller(of: OwnerReference) -> OwnerReference {
    if [&of.api_version, &of.kind, &of.name, &of.uid].iter().all(|text| text.len() <= MAX_NAME) {
        return of;
    }
    OwnerReference {
        api_version: name(of.api_version),
        kind: name(of.kind),
        name: TOO_LONG.to_owned(),
        uid: TOO_LONG.to_owned(),
        ..OwnerReference::default()
    }
}

/// Returns the first finalizers. If there are more, adds one that states their number. It counts as someone else's, so
/// it holds the object, as the omitted ones may.
pub(super) fn finalizers(mut all: Vec<String>) -> Vec<String> {
    let more = all.len().saturating_sub(MAX_FINALIZERS);
    if more > 0 {
        all.truncate(MAX_FINALIZERS);
        all.shrink_to_fit();
        all.push(format!("and {more} more"));
    }
    all.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::kube::live_state::live::Live;
    use crate::kube::live_state::ownership::Ownership;
    use crate::sample::decoration;

    fn read(metadata: &Value) -> Live {
        serde_json::from_str(&json!({"metadata": metadata}).to_string()).unwrap()
    }

    /// Returns what marks an object as that of the release.
    fn ours() -> Value {
        json!({
            "annotations": {
                "meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "ns",
                "operator-sdk/primary-resource": "ns/web",
                "operator-sdk/primary-resource-type": "Memcached.cache.my.domain",
            },
            "ownerReferences": [{
                "apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": "web", "uid": "u1", "controller": true,
            }],
        })
    }

    fn longer(text: &Value) -> Value {
        format!("{}{}", text.as_str().unwrap(), "x".repeat(250 << 10)).into()
    }

    #[test]
    fn an_object_is_kept_without_what_is_too_long_to_be_a_name() {
        let mut metadata = ours();
        for key in ["annotations", "ownerReferences"] {
            let part = if key == "annotations" { &mut metadata[key] } else { &mut metadata[key][0] };
            let texts = part.as_object_mut().unwrap().values_mut().filter(|value| value.is_string());
            texts.for_each(|text| *text = longer(text));
        }
        metadata["labels"] = json!({"app.kubernetes.io/managed-by": longer(&json!("Helm"))});
        metadata["finalizers"] = (0..20_000).map(|n| format!("a.b/{n:060}")).collect();
        let live = read(&metadata);
        assert!(format!("{live:?}").len() < 20_000);
        let finalizers = live.metadata.finalizers.unwrap();
        assert_eq!((finalizers.len(), &*finalizers[0]), (33, &*format!("a.b/{:060}", 0)));
        assert_eq!(finalizers[32], "and 19968 more");
        assert!(live.controller.is_some() && live.primary.is_some() && live.release_name.is_some());
    }

    #[test]
    fn an_owner_with_a_text_that_is_too_long_is_somebody_else() {
        assert_eq!(decoration().ownership(&read(&ours())), Ownership::Ours);
        for field in ["apiVersion", "kind", "name", "uid"] {
            let mut metadata = ours();
            metadata["ownerReferences"][0][field] = longer(&metadata["ownerReferences"][0][field]);
            let owner = decoration().ownership(&read(&metadata));
            assert!(matches!(&owner, Ownership::Foreign(who) if who.len() < 100), "{field}: {owner:?}");
        }
        for key in ours()["annotations"].as_object().unwrap().keys() {
            let mut metadata = ours();
            metadata["ownerReferences"] = json!([]);
            metadata["annotations"][key] = longer(&metadata["annotations"][key]);
            let owner = decoration().ownership(&read(&metadata));
            assert!(matches!(&owner, Ownership::Foreign(who) if who.len() < 100), "{key}: {owner:?}");
        }
        // No other metadata names an owner.
        let alone = json!({"annotations": {"operator-sdk/primary-resource": longer(&json!("ns/web"))}});
        assert!(matches!(decoration().ownership(&read(&alone)), Ownership::Foreign(_)));
    }

    #[test]
    fn the_longest_names_are_kept() {
        let longest = format!("{}/{}", "n".repeat(63), "m".repeat(253));
        let live = read(&json!({"annotations": {"operator-sdk/primary-resource": longest}, "finalizers": ["a.b/c"]}));
        assert_eq!(live.primary, Some(longest));
        assert_eq!(live.metadata.finalizers, Some(vec!["a.b/c".to_owned()]));
    }
}
