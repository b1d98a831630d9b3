//! Decodes objects one by one: an object that cannot be decoded does not end its list or watch.
//!
//! kube's `DeserializeGuard` neither names the wrong field nor allows objects to be written again.

use std::any::type_name;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::kind::Kind;
use super::untyped::{Contents, Untyped};
use crate::ResourceKey;
use crate::report::without_value;
use crate::runtime::guarded::guarded;

/// Why an object does not decode if its type panics.
const PANICKED: &str = "its Rust type panicked, which is a bug; the log has the message and place";

/// An object of a list or watch.
#[derive(Clone, Debug)]
pub(super) enum Decoded<K> {
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

impl Invalid {
    /// Returns whether the object's owners include the one with this uid.
    pub(super) fn is_owned_by(&self, uid: &str) -> bool {
        self.metadata.owner_references.iter().flatten().any(|owner| owner.uid == uid)
    }
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
        let Untyped { metadata, contents } = untyped;
        let decoded = guarded(type_name::<K>(), &key_of(&metadata), || decode(&metadata, &contents));
        match decoded.unwrap_or_else(|| Err(PANICKED.to_owned())) {
            Ok(object) => Decoded::Valid(object),
            Err(cause) => Decoded::Invalid(Box::new(Invalid { metadata, cause })),
        }
    }
}

/// Decodes an object, or names the field that does not fit. What its type does not read may nest to any depth.
fn decode<K: Kind>(metadata: &ObjectMeta, contents: &Contents) -> Result<K, String> {
    match contents {
        Contents::Values(value) => serde_path_to_error::deserialize(value).map_err(|error| cause_of(&error)),
        Contents::Text(text) => {
            let mut text = serde_json::Deserializer::from_str(text);
            let mut object: K = serde_path_to_error::deserialize(&mut text).map_err(|error| cause_of(&error))?;
            object.meta_mut().managed_fields.clone_from(&metadata.managed_fields);
            Ok(object)
        }
    }
}

/// Returns the field and what is wrong with it, without its value: more people may read events and logs than the object,
/// and a password may be where its type expects a reference to one.
pub(crate) fn cause_of(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (text, cause) = (error.to_string(), error.inner().to_string());
    let place = text.strip_suffix(&*cause).unwrap_or_default();
    format!("{place}{}", without_value(&cause))
}

fn key_of(metadata: &ObjectMeta) -> ResourceKey {
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    ResourceKey::new(namespace.unwrap_or_default(), name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::CustomResource;
    use kube::core::PartialObjectMeta;
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
        assert_eq!(invalid.cause, "data.key: invalid type: integer, expected a string");
    }

    /// What an older version took for a password may be a reference in the next.
    #[test]
    fn why_an_object_does_not_decode_quotes_no_value() {
        let secret = json!({"metadata": {"name": "a"}, "data": "hunter2"});
        let Decoded::Invalid(invalid) = Decoded::<ConfigMap>::of(serde_json::from_value(secret).unwrap()) else {
            unreachable!()
        };
        assert_eq!(invalid.cause, "data: invalid type: string, expected a map");
    }

    #[test]
    fn a_deeply_nested_object_decodes_unless_its_type_reads_what_is_deep() {
        let deep = format!("{}1{}", "{\"a\":".repeat(600), "}".repeat(600));
        let decoded = |value: &str| {
            let managed = format!(r#"[{{"manager":"x","fieldsV1":{deep}}},{{"manager":"y"}}]"#);
            let metadata = format!(r#"{{"name":"a","uid":"u","managedFields":{managed}}}"#);
            let object = format!(r#"{{"metadata":{metadata},"data":{{"key":{value}}},"unknown":{deep}}}"#);
            Decoded::<ConfigMap>::of(serde_json::from_str(&object).unwrap())
        };
        let Decoded::Valid(map) = decoded(r#""value""#) else { unreachable!() };
        assert_eq!((map.data.unwrap()["key"].as_str(), map.metadata.uid.as_deref()), ("value", Some("u")));
        let managers = map.metadata.managed_fields.unwrap();
        assert_eq!(managers.iter().map(|entry| entry.manager.as_deref()).collect::<Vec<_>>(), [Some("y")]);
        let Decoded::Invalid(invalid) = decoded(&deep) else { unreachable!() };
        assert_eq!(invalid.metadata.uid.as_deref(), Some("u"));
        let cause = "data.key: invalid type: map, expected a string at line 1 column ";
        assert!(invalid.cause.starts_with(cause), "{}", invalid.cause);
    }

    /// Go has times that Rust's type does not.
    #[test]
    fn an_object_decodes_whatever_times_its_managed_fields_have() {
        let managed = json!([{"manager": "x", "time": "9999-12-31T23:59:59Z"}, {"manager": "y"}]);
        let object = json!({"metadata": {"name": "a", "uid": "u", "managedFields": managed}, "data": {"key": "value"}});
        let object = object.to_string();
        let check = |metadata: &ObjectMeta| {
            let managers = metadata.managed_fields.iter().flatten().filter_map(|entry| entry.manager.as_deref());
            assert_eq!((metadata.uid.as_deref(), managers.collect::<Vec<_>>()), (Some("u"), vec!["y"]));
        };
        let Decoded::Valid(map) = Decoded::<ConfigMap>::of(serde_json::from_str(&object).unwrap()) else {
            unreachable!()
        };
        check(&map.metadata);
        assert_eq!(map.data.unwrap()["key"], "value");
        let partial = Decoded::<PartialObjectMeta<ConfigMap>>::of(serde_json::from_str(&object).unwrap());
        let Decoded::Valid(partial) = partial else { unreachable!() };
        check(&partial.metadata);
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
