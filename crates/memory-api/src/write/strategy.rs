//! The fields that a kind's endpoints write, and the fields that the server sets: status, generation, finalizers of
//! namespaces.
//!
//! Counterpart: `strategy.go` in k8s.io/kubernetes `pkg/registry`.

use serde_json::{Value, json};

use crate::fields::Set;
use crate::kinds::Kind;

/// Returns the fields that an endpoint ignores.
pub(super) fn reset_fields(kind: &Kind, subresource: &str) -> Set {
    let paths: &[&[&str]] = match subresource {
        "status" if kind.is_custom() => &[&["metadata"], &["spec"]],
        "status" => match kind.kind.as_str() {
            "Deployment" => &[&["spec"], &["metadata", "labels"]],
            "Pod" => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
            _ => &[&["spec"]],
        },
        "" | "finalize" if kind.has_status => &[&["status"]],
        _ => &[],
    };
    let mut set = Set::default();
    for path in paths {
        set.insert(&path.iter().map(|name| format!("f:{name}")).collect::<Vec<_>>());
    }
    set
}

/// Returns whether the server maintains `generation` for a kind.
fn has_generation(kind: &Kind) -> bool {
    kind.is_custom()
        || matches!(
            kind.kind.as_str(),
            "Deployment"
                | "StatefulSet"
                | "DaemonSet"
                | "ReplicaSet"
                | "ReplicationController"
                | "Job"
                | "CronJob"
                | "Ingress"
                | "IngressClass"
                | "NetworkPolicy"
                | "PodDisruptionBudget"
                | "Pod"
                | "PriorityClass"
                | "EndpointSlice"
                | "MutatingWebhookConfiguration"
                | "ValidatingWebhookConfiguration"
                | "CustomResourceDefinition"
        )
}

pub(super) fn prepare_create(kind: &Kind, object: &mut Value) {
    if kind.has_status
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
    if let Some(status) = first_status(kind) {
        object["status"] = status;
    }
    if kind.kind == "Namespace" && !kind.is_custom() {
        object["spec"]["finalizers"] = json!(["kubernetes"]);
    }
    if has_generation(kind) {
        object["metadata"]["generation"] = 1.into();
    }
}

fn first_status(kind: &Kind) -> Option<Value> {
    match kind.kind.as_str() {
        _ if kind.is_custom() => None,
        "Namespace" => Some(json!({"phase": "Active"})),
        "PersistentVolumeClaim" => Some(json!({"phase": "Pending"})),
        "Pod" => Some(json!({"phase": "Pending"})),
        _ => None,
    }
}

/// Prepares the next state of an object.
pub(super) fn prepare_update(kind: &Kind, subresource: &str, new: &mut Value, old: &Value) {
    match subresource {
        "status" => keep_all_but_status(kind, new, old),
        _ => {
            if kind.has_status {
                keep(new, old, "status");
            }
            if kind.kind == "Namespace" && subresource.is_empty() && !kind.is_custom() {
                keep(new, old, "spec");
            }
        }
    }
    let before = &old["metadata"]["generation"];
    let after = if subresource != "status" && has_generation(kind) && is_generation(kind, new, old) {
        (before.as_i64().unwrap_or(0) + 1).into()
    } else {
        before.clone()
    };
    set(&mut new["metadata"], "generation", after);
}

fn keep_all_but_status(kind: &Kind, new: &mut Value, old: &Value) {
    if kind.is_custom() {
        let mut kept = old.clone();
        set(&mut kept, "status", new.get("status").cloned().unwrap_or_default());
        set(&mut kept["metadata"], "managedFields", new["metadata"]["managedFields"].clone());
        set(&mut kept["metadata"], "resourceVersion", new["metadata"]["resourceVersion"].clone());
        *new = kept;
        return;
    }
    keep(new, old, "spec");
    if kind.kind == "Deployment" {
        let labels = old["metadata"]["labels"].clone();
        set(&mut new["metadata"], "labels", labels);
    }
}

/// Returns whether a change increments the generation.
fn is_generation(kind: &Kind, new: &Value, old: &Value) -> bool {
    let differs = |field: &str| new.get(field) != old.get(field);
    match kind.kind.as_str() {
        _ if kind.is_custom() => {
            let fields = |object: &Value| -> Vec<(String, Value)> {
                let map = object.as_object().cloned().unwrap_or_default();
                let is_counted = |key: &str| key != "metadata" && !(key == "status" && kind.has_status);
                map.into_iter().filter(|(key, _)| is_counted(key)).collect()
            };
            fields(new) != fields(old)
        }
        "Deployment" => differs("spec") || new["metadata"]["annotations"] != old["metadata"]["annotations"],
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => differs("webhooks"),
        "PriorityClass" => false,
        "EndpointSlice" => differs("endpoints") || differs("ports"),
        _ => differs("spec"),
    }
}

fn keep(new: &mut Value, old: &Value, field: &str) {
    set(new, field, old.get(field).cloned().unwrap_or_default());
}

/// Sets a field; null removes it.
pub(super) fn set(object: &mut Value, field: &str, value: Value) {
    let Some(map) = object.as_object_mut() else { return };
    if value.is_null() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), value);
    }
}
