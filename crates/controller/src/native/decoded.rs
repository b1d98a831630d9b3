//! Objects that may not be what their Rust type expects: one that cannot be decoded stops no list and no watch.
//!
//! Counterpart: kube's `DeserializeGuard`, which says neither which field is wrong nor allows objects that are written again.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::kind::Kind;

/// An object of a list or watch.
#[derive(Clone, Debug)]
pub(super) enum Decoded<K> {
    /// It is what the type expects.
    Valid(K),
    /// It is not.
    Invalid(Box<Invalid>),
}

/// An object that its Rust type cannot hold.
#[derive(Clone, Debug)]
pub(super) struct Invalid {
    pub(super) metadata: ObjectMeta,
    /// The field, and what is wrong with it.
    pub(super) cause: String,
}

impl<K: Kind> Resource for Decoded<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Decoded::Valid(object) => object.meta(),
            Decoded::Invalid(invalid) => &invalid.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Decoded::Valid(object) => object.meta_mut(),
            Decoded::Invalid(invalid) => &mut invalid.metadata,
        }
    }
}

impl<'de, K: Kind> Deserialize<'de> for Decoded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        serde_path_to_error::deserialize(&value).map(Decoded::Valid).or_else(|error| {
            let metadata = ObjectMeta::deserialize(&value["metadata"]).map_err(serde::de::Error::custom)?;
            Ok(Decoded::Invalid(Box::new(Invalid { metadata, cause: error.to_string() })))
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_does_not_decode_keeps_its_metadata_and_names_the_field() {
        let good = json!({"metadata": {"name": "a"}, "data": {"key": "value"}});
        assert!(matches!(serde_json::from_value(good).unwrap(), Decoded::<ConfigMap>::Valid(_)));
        let bad = json!({"metadata": {"name": "a", "namespace": "ns"}, "data": {"key": 7}});
        let decoded: Decoded<ConfigMap> = serde_json::from_value(bad).unwrap();
        let Decoded::Invalid(invalid) = decoded else { unreachable!() };
        assert_eq!(invalid.metadata.name.as_deref(), Some("a"));
        assert_eq!(invalid.cause, "data.key: invalid type: integer `7`, expected a string");
    }

    #[test]
    fn what_has_no_metadata_is_no_object() {
        assert!(serde_json::from_value::<Decoded<ConfigMap>>(json!({"metadata": 7})).is_err());
    }
}
