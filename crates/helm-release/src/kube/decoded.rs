//! What the server's decoder makes of an object of a built-in kind, made before the server sees it: an apply would own what the decoder drops.
//!
//! Measured on Kubernetes 1.36: a create and a first apply of the same body leave the same object. But who applied `replicas: null` owns the
//! field, loses it to an autoscaler, and takes it back; and who applied `stringData` never learns that a key of `data` changed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// The groups of the kinds that are compiled into the server. It reads any other kind without a decoder.
const BUILT_IN: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The fields of built-in kinds whose keys are their author's, or which hold any JSON: a null in there is an empty text, a zero or a null. Where
/// another kind has a struct of the same name its nulls stay, too, which costs nothing but to own them.
pub const OPEN_FIELDS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allocatable",
    "annotations",
    "attributes",
    "binaryData",
    "capacity",
    "counters",
    "data",
    "default",
    "defaultRequest",
    "definitions",
    "dependencies",
    "deprecatedTopology",
    "enum",
    "example",
    "extra",
    "hard",
    "items",
    "labels",
    "limits",
    "matchLabels",
    "max",
    "maxLimitRequestRatio",
    "min",
    "nodeAllocatableResourceMappings",
    "nodeSelector",
    "options",
    "overhead",
    "parameters",
    "patternProperties",
    "podFixed",
    "properties",
    "requests",
    "selector",
    "stringData",
    "userAnnotations",
    "volumeAttributes",
];

/// Drops the nulls that the server's decoder would drop, and moves a Secret's `stringData` to `data`. Other kinds stay as they are.
pub(super) fn decode(body: &mut Value) {
    let api_version = body["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if !BUILT_IN.contains(&group) {
        return;
    }
    let is_secret = group.is_empty() && body["kind"] == "Secret";
    drop_nulls(body);
    if is_secret {
        decode_secret(body);
    }
}

/// A null in a list stays: it is an item.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            let closed = fields.iter_mut().filter(|(name, _)| !OPEN_FIELDS.contains(&name.as_str()));
            closed.for_each(|(_, value)| drop_nulls(value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// `stringData` wins over `data`. What the server would refuse stays, for the server to refuse.
fn decode_secret(secret: &mut Value) {
    let Some(encoded) = secret["stringData"].as_object().and_then(encoded) else { return };
    let Some(fields) = secret.as_object_mut() else { return };
    if let Some(data) = fields.entry("data").or_insert_with(|| Map::new().into()).as_object_mut() {
        data.extend(encoded);
        fields.remove("stringData");
    }
}

fn encoded(texts: &Map<String, Value>) -> Option<Map<String, Value>> {
    let encode = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Some((key.clone(), STANDARD.encode(text).into())),
        Value::Null => Some((key.clone(), "".into())),
        _ => None,
    };
    texts.iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(api_version: &str, kind: &str, mut body: Value, expected: Value) {
        body["apiVersion"] = api_version.into();
        body["kind"] = kind.into();
        decode(&mut body);
        let fields = body.as_object_mut().unwrap();
        assert_eq!((fields.remove("apiVersion"), fields.remove("kind")), (Some(api_version.into()), Some(kind.into())));
        assert_eq!(body, expected);
    }

    #[test]
    fn nulls_of_a_built_in_kind_go_where_its_decoder_drops_them() {
        let body = json!({"spec": {
            "replicas": null,
            "strategy": {"rollingUpdate": null},
            "template": {"spec": {
                "nodeSelector": {"zone": null},
                "containers": [{"name": "c", "resources": {"limits": {"cpu": null}, "requests": null}, "args": ["a", null]}, null],
            }},
        }});
        let decoded = json!({"spec": {
            "strategy": {},
            "template": {"spec": {
                "nodeSelector": {"zone": null},
                "containers": [{"name": "c", "resources": {"limits": {"cpu": null}}, "args": ["a", null]}, null],
            }},
        }});
        check("apps/v1", "Deployment", body.clone(), decoded.clone());
        check("batch/v1", "Job", body.clone(), decoded.clone());
        check("v1", "Pod", body.clone(), decoded);
        check("example.com/v1", "Thing", body.clone(), body.clone());
        check("gateway.networking.k8s.io/v1", "Gateway", body.clone(), body);
        check("v1", "ConfigMap", json!({"data": {"a": null}, "immutable": null}), json!({"data": {"a": null}}));
        check("v1", "ConfigMap", json!({"data": null}), json!({}));
    }

    #[test]
    fn the_schema_of_a_definition_keeps_what_it_says_of_nulls() {
        let schema = json!({"properties": {"a": {"default": {"b": null}, "nullable": true}}, "enum": [{"x": null}]});
        let body =
            json!({"spec": {"scope": null, "versions": [{"schema": {"openAPIV3Schema": schema}, "deprecated": null}]}});
        let decoded = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
        check("apiextensions.k8s.io/v1", "CustomResourceDefinition", body, decoded);
    }

    #[test]
    fn string_data_becomes_data_and_wins() {
        let secret = |body, expected| check("v1", "Secret", body, expected);
        secret(
            json!({"stringData": {"a": "x", "b": "é", "c": ""}}),
            json!({"data": {"a": "eA==", "b": "w6k=", "c": ""}}),
        );
        secret(
            json!({"data": {"a": "eA==", "b": "eQ=="}, "stringData": {"a": "z"}}),
            json!({"data": {"a": "eg==", "b": "eQ=="}}),
        );
        secret(json!({"data": {"a": "eA=="}, "stringData": {"a": null}}), json!({"data": {"a": ""}}));
        secret(json!({"data": null, "stringData": {"a": "x"}}), json!({"data": {"a": "eA=="}}));
        secret(json!({"data": {"a": "eA=="}, "stringData": {}}), json!({"data": {"a": "eA=="}}));
        secret(json!({"data": {"a": "eA=="}, "stringData": null}), json!({"data": {"a": "eA=="}}));
        secret(json!({"type": "Opaque"}), json!({"type": "Opaque"}));
    }

    #[test]
    fn what_the_server_refuses_of_a_secret_stays() {
        for body in [
            json!({"stringData": {"a": "x", "b": 1}}),
            json!({"stringData": {"a": true}}),
            json!({"stringData": ["a"]}),
            json!({"data": "x", "stringData": {"a": "x"}}),
        ] {
            check("v1", "Secret", body.clone(), body);
        }
        let other = json!({"stringData": {"a": "x"}});
        check("v1", "ConfigMap", other.clone(), other.clone());
        check("example.com/v1", "Secret", other.clone(), other);
    }
}
