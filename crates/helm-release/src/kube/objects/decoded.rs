//! Decodes objects of built-in kinds before they are applied, as the server would: an apply would own fields that the
//! decoder drops.
//!
//! Measured on Kubernetes 1.36: a create and a first apply of the same body leave the same object. But a manager that
//! applies `replicas: null` owns the field, loses it to an autoscaler and takes it back; and one that applies
//! `stringData` never notices a changed key of `data`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outside::group_of;
use serde_json::{Map, Value};

/// The API groups compiled into the server. It decodes other groups without its own schema.
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
    "lifecycle.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Fields of built-in kinds with arbitrary keys or arbitrary JSON, in which null is data. If another kind has a struct
/// field with the same name, its nulls are also kept, and owning them is harmless.
pub const OPEN_FIELDS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allocatable",
    "annotations",
    "attestations",
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
    "nodeAllocatableResources",
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
    "unverifiedUserAnnotations",
    "userAnnotations",
    "volumeAttributes",
];

/// Drops nulls that the server's decoder drops, and moves a Secret's `stringData` to `data`. Leaves other kinds
/// unchanged.
pub(in crate::kube) fn decode(body: &mut Value) {
    let api_version = body["apiVersion"].as_str().unwrap_or_default();
    let group = group_of(api_version);
    if !is_built_in(group) {
        return;
    }
    let is_secret = group.is_empty() && body["kind"] == "Secret";
    drop_nulls(body);
    if is_secret {
        decode_secret(body);
    }
}

/// Returns whether an API group is compiled into the server.
pub(in crate::kube) fn is_built_in(group: &str) -> bool {
    BUILT_IN.contains(&group)
}

/// Drops the nulls in a value, except in lists, where they are items.
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

/// Moves a Secret's `stringData`, which overrides `data`, to `data`. Keeps invalid content, for the server to reject.
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
    fn built_in_kinds_lose_nulls_that_the_decoder_drops() {
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
    fn crd_schemas_keep_their_nulls() {
        let schema = json!({"properties": {"a": {"default": {"b": null}, "nullable": true}}, "enum": [{"x": null}]});
        let body =
            json!({"spec": {"scope": null, "versions": [{"schema": {"openAPIV3Schema": schema}, "deprecated": null}]}});
        let decoded = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
        check("apiextensions.k8s.io/v1", "CustomResourceDefinition", body, decoded);
    }

    #[test]
    fn string_data_becomes_data_and_overrides_it() {
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
    fn invalid_secrets_are_left_to_the_server() {
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
