//! Decodes objects one by one: an object that cannot be decoded does not end its list or watch.
//!
//! kube's `DeserializeGuard` neither names the wrong field nor allows objects to be written again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::kind::Kind;
use super::untyped::Untyped;
use crate::ResourceKey;

/// An object of a list or watch.
#[derive(Clone, Debug)]
pub(super) enum Decoded<K> {
    /// It fits the type.
    Valid(K),
    /// It does not fit the type.
    Invalid(Box<Invalid>),
}

/// An object that its Rust type cannot decode.
#[derive(Clone, Debug)]
pub(super) struct Invalid {
    pub(super) metadata: ObjectMeta,
    /// The wrong field, and what is wrong with it.
    pub(super) cause: String,
}

impl<K: Kind> Decoded<K> {
    pub(super) fn meta(&self) -> &ObjectMeta {
        match self {
            Decoded::Valid(object) => object.meta(),
            Decoded::Invalid(invalid) => &invalid.metadata,
        }
    }

    pub(super) fn key(&self) -> ResourceKey {
        match self {
            Decoded::Valid(object) => ResourceKey::of(object),
            Decoded::Invalid(invalid) => {
                let (namespace, name) = (invalid.metadata.namespace.as_deref(), invalid.metadata.name.as_deref());
                ResourceKey::new(namespace.unwrap_or_default(), name.unwrap_or_default())
            }
        }
    }

    pub(super) fn of(untyped: Untyped) -> Decoded<K> {
        match serde_path_to_error::deserialize(&untyped.value) {
            Ok(object) => Decoded::Valid(object),
            Err(error) => Decoded::Invalid(Box::new(Invalid { metadata: untyped.metadata, cause: error.to_string() })),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_does_not_decode_keeps_its_metadata_and_names_the_field() {
        let decoded = |object| Decoded::<ConfigMap>::of(serde_json::from_value(object).unwrap());
        let good = json!({"metadata": {"name": "a"}, "data": {"key": "value"}});
        assert!(matches!(decoded(good), Decoded::Valid(_)));
        let bad = json!({"metadata": {"name": "a", "namespace": "ns"}, "data": {"key": 7}});
        let Decoded::Invalid(invalid) = decoded(bad) else { unreachable!() };
        assert_eq!(invalid.metadata.name.as_deref(), Some("a"));
        assert_eq!(invalid.cause, "data.key: invalid type: integer `7`, expected a string");
    }

    #[test]
    fn what_has_no_metadata_is_no_object() {
        assert!(serde_json::from_value::<Untyped>(json!({"metadata": 7})).is_err());
    }
}
