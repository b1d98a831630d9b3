//! Decodes objects one by one: an object that cannot be decoded does not end its list or watch.
//!
//! kube's `DeserializeGuard` neither names the wrong field nor allows objects to be written again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::guarded::guarded;
use super::kind::Kind;
use super::untyped::Untyped;
use crate::ResourceKey;

/// Why an object does not decode if its type panics.
const PANICKED: &str = "its Rust type panicked, which is a bug; the log has the message and place";

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
            Decoded::Invalid(invalid) => key_of(&invalid.metadata),
        }
    }

    pub(super) fn of(untyped: Untyped) -> Decoded<K> {
        let Untyped { metadata, value } = untyped;
        let decode = || serde_path_to_error::deserialize(&value).map_err(|error| error.to_string());
        match guarded::<K, _>(&key_of(&metadata), decode).unwrap_or_else(|| Err(PANICKED.to_owned())) {
            Ok(object) => Decoded::Valid(object),
            Err(cause) => Decoded::Invalid(Box::new(Invalid { metadata, cause })),
        }
    }
}

fn key_of(metadata: &ObjectMeta) -> ResourceKey {
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    ResourceKey::new(namespace.unwrap_or_default(), name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize};
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

    #[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Port", namespaced)]
    struct PortSpec {
        #[serde(deserialize_with = "number")]
        number: u16,
    }

    fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
        Ok(String::deserialize(from)?.parse().expect("a bug"))
    }

    #[test]
    fn an_object_whose_type_panics_does_not_decode() {
        let port = |number: &str| {
            let port = json!({"apiVersion": "example.com/v1", "kind": "Port",
                "metadata": {"name": "a"}, "spec": {"number": number}});
            Decoded::<Port>::of(serde_json::from_value(port).unwrap())
        };
        assert!(matches!(port("80"), Decoded::Valid(_)));
        let Decoded::Invalid(invalid) = port("http") else { unreachable!() };
        assert_eq!((invalid.metadata.name.as_deref(), &*invalid.cause), (Some("a"), PANICKED));
    }

    #[test]
    fn what_has_no_metadata_is_no_object() {
        assert!(serde_json::from_value::<Untyped>(json!({"metadata": 7})).is_err());
    }
}
