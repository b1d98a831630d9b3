//! The fields that an update keeps, those it must not change, and when it removes the object.

use serde_json::Value;

use super::{Write, strategy};
use crate::kinds::Kind;
use crate::status::Cause;
use crate::{Fidelity, Server};

/// Returns whether a replace creates a missing object of the kind.
pub(super) fn may_create_by_replace(kind: &Kind) -> bool {
    let kinds =
        ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Lease", "Service", "Endpoints", "LimitRange"];
    !kind.is_custom() && kinds.contains(&kind.kind.as_str())
}

/// Returns whether an update of the kind may omit the resource version.
pub(super) fn may_write_blindly(kind: &Kind) -> bool {
    let kinds =
        ["PodDisruptionBudget", "Lease", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "CSIDriver"];
    let others = ["CustomResourceDefinition", "APIService"];
    !kind.is_custom() && !kinds.contains(&kind.kind.as_str()) && !others.contains(&kind.kind.as_str())
}

/// Carries over the metadata that updates never change.
pub(super) fn carry_over(new: &mut Value, old: &Value) {
    let (before, after) = (&old["metadata"], &mut new["metadata"]);
    if after["uid"].as_str().unwrap_or_default().is_empty() {
        strategy::set(after, "uid", before["uid"].clone());
    }
    strategy::set(after, "selfLink", Value::Null);
    strategy::set(after, "creationTimestamp", before["creationTimestamp"].clone());
    if before["deletionTimestamp"].is_string() {
        strategy::set(after, "deletionTimestamp", before["deletionTimestamp"].clone());
    }
    if after["deletionGracePeriodSeconds"].is_null() {
        strategy::set(after, "deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"].clone());
    }
}

/// Returns the first rule that an update breaks.
pub(super) fn violated(server: &Server, write: &Write, new: &Value, old: &Value) -> Option<Cause> {
    let (before, after) = (&old["metadata"], &new["metadata"]);
    if before["uid"] != after["uid"] {
        return Some(Cause::invalid("metadata.uid", &after["uid"], "field is immutable"));
    }
    if server.fidelity == Fidelity::Cluster {
        if before["deletionTimestamp"] != after["deletionTimestamp"] {
            return Some(Cause::invalid(
                "metadata.deletionTimestamp",
                &after["deletionTimestamp"],
                "field is immutable",
            ));
        }
        let has = |list: &Value, item: &Value| list.as_array().is_some_and(|list| list.contains(item));
        let items = after["finalizers"].as_array().into_iter().flatten();
        let added: Vec<&Value> = items.filter(|item| !has(&before["finalizers"], item)).collect();
        if before["deletionTimestamp"].is_string() && !added.is_empty() {
            let added: Vec<String> = added.iter().map(|item| item.to_string()).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            return Some(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    let of = |whose: &str| {
        let name = |field: &str| after[field].as_str().unwrap_or_default();
        whose == write.kind.plural || whose == format!("{}/{}/{}", write.kind.plural, name("namespace"), name("name"))
    };
    let changes = |(whose, pointer): &&(String, String)| of(whose) && old.pointer(pointer) != new.pointer(pointer);
    let (_, pointer) = server.immutable.iter().find(changes)?;
    let field = pointer.trim_start_matches('/').replace('/', ".");
    Some(Cause { reason: "FieldValueInvalid", field, message: "Invalid value: {}: field is immutable".into() })
}

/// Returns whether two states differ only in the times of managed fields. Both must have the same resource version.
pub(super) fn is_same(new: &Value, old: &Value) -> bool {
    let fields = |object: &Value| object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let (before, after) = (fields(old), fields(new));
    let same = |(a, b): (&Value, &Value)| {
        let keys = ["manager", "operation", "apiVersion", "subresource", "fieldsV1"];
        keys.iter().all(|key| a.get(*key) == b.get(*key))
    };
    if before.len() != after.len() || !before.iter().zip(&after).all(same) {
        return false;
    }
    let rest = |object: &Value| {
        let mut object = object.clone();
        strategy::set(&mut object["metadata"], "managedFields", Value::Null);
        object
    };
    rest(new) == rest(old)
}

/// Returns whether an update removes the last finalizer of an object that is being deleted.
pub(super) fn is_gone(kind: &Kind, new: &Value, old: &Value) -> bool {
    let none = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let grace = old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let is_namespace = kind.kind == "Namespace" && !kind.is_custom();
    none(&new["metadata"]["finalizers"])
        && old["metadata"]["deletionTimestamp"].is_string()
        && grace == 0
        && (!is_namespace || none(&new["spec"]["finalizers"]))
}
