//! Decides whether an object may be deleted and recreated to change its immutable fields. Pure functions.

use outside::Error;
use serde_json::{Map, Value};

use crate::kube::live_state::live::{Live, Proven};
use crate::kube::live_state::ownership::{NotOurs, Ownership};
use crate::kube::objects::decorate::{Decoration, is_kept};
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::objects::rules::{ObjectRule, RECREATE_ANNOTATION};
use crate::kube::writes::delete::{Removal, check_deletable};
use crate::kube::writes::write::metadata_patch;

/// Why an object must not be recreated. The text names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Guard {
    /// It is not a Job, and neither its annotation nor a rule requests it.
    #[error(
        "nothing asks for it: to have it deleted and created anew, set its annotation {RECREATE_ANNOTATION} to \"true\", \
         or list it under recreate in watches.yaml"
    )]
    NotAsked,
    /// Data that depends on it would be lost.
    #[error("{0}: save what you need, and delete it yourself")]
    HoldsData(&'static str),
    /// It outlives its release.
    #[error("its annotation helm.sh/resource-policy keeps it: delete it yourself")]
    Kept,
    /// The release has only adopted it.
    #[error("it was there before the release: delete it yourself")]
    Adopted,
    /// It does not belong to the release.
    #[error("{0}: delete it yourself")]
    NotOurs(NotOurs),
    /// Its finalizers belong to controllers that act on its deletion.
    #[error("it has the finalizers {}, whose owners act on a deletion: delete it yourself", .0.join(", "))]
    Finalizers(Vec<String>),
    /// The release applied the same object before, and this live object accepted it.
    #[error(
        "the release has applied the same object before, so something else decides these fields: delete it yourself"
    )]
    Unchanged,
    /// The server also rejects the new object, with this message.
    #[error("the API server would reject the new one: {0}")]
    Rejected(String),
    /// The server rejects the deletion, with this message.
    #[error("the API server refuses to delete it: {0}; grant the permission, lift the policy, or delete it yourself")]
    Undeletable(String),
}

/// Checks the chart's object against the user's rules.
///
/// # Errors
/// It must not be recreated, whatever the state of the live object.
pub(super) fn check_chart(object: &Object, key: &ObjectKey, rules: &[ObjectRule]) -> Result<(), Guard> {
    if let Some(why) = holds_data(key, &object.body) {
        return Err(Guard::HoldsData(why));
    }
    if is_kept(object) {
        return Err(Guard::Kept);
    }
    let is_job = &*key.group == "batch" && &*key.kind == "Job";
    let asked = object.wants_recreation().ok().flatten();
    let asked = asked.unwrap_or_else(|| is_job || rules.iter().any(|rule| rule.selects(key)));
    if asked { Ok(()) } else { Err(Guard::NotAsked) }
}

/// How the chart's object compares with the one that the release applied before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Desired {
    Changed,
    Unchanged,
    /// Unchanged, but an earlier writer such as Helm applied it for the release.
    TakenOver,
}

/// Returns whether the live object was applied for the release from the same object of the chart. Its immutable fields
/// cannot have changed since then: something else sets the fields that differ, and would set them again.
pub(super) fn is_as_applied(live: &Live, key: &ObjectKey, desired: Desired, decoration: &Decoration) -> bool {
    match desired {
        Desired::Changed => false,
        Desired::Unchanged => live.mark.is_some() && decoration.prove(live, &key.namespace).is_ok(),
        // The rule admits it, and objects that Helm applied name no owner.
        Desired::TakenOver => decoration.ownership(live) == Ownership::Ours,
    }
}

/// Returns the merge patch that adds the metadata of a release, as it is sent, to that of a live object; `None` if
/// nothing is missing.
pub(super) fn tying(sent: &Value, live: &Value) -> Option<Value> {
    let mut patch = Map::new();
    for field in ["labels", "annotations"] {
        let wanted = sent[field].as_object().into_iter().flatten();
        let missing = wanted.filter(|(key, value)| live[field][key.as_str()] != **value);
        let missing: Map<String, Value> = missing.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !missing.is_empty() {
            patch.insert(field.into(), missing.into());
        }
    }
    let owners = |of: &Value| of["ownerReferences"].as_array().cloned().unwrap_or_default();
    let mut all = owners(live);
    let missing: Vec<Value> =
        owners(sent).into_iter().filter(|owner| all.iter().all(|known| known["uid"] != owner["uid"])).collect();
    if !missing.is_empty() {
        all.extend(missing);
        patch.insert("ownerReferences".into(), all.into());
    }
    metadata_patch(patch, live)
}

/// Checks the live object.
///
/// # Errors
/// The live object must not be deleted.
pub(super) fn check_live(
    live: &Live,
    whole: &Value,
    key: &ObjectKey,
    desired: Desired,
    decoration: &Decoration,
) -> Result<Proven, Guard> {
    if let Some(why) = holds_data(key, whole) {
        return Err(Guard::HoldsData(why));
    }
    let proven = check_deletable(decoration, live, &key.namespace).map_err(|left| match left {
        Removal::NotOurs(why) => Guard::NotOurs(why),
        Removal::Sent(_) | Removal::Absent | Removal::Kept => Guard::Kept,
    })?;
    let finalizers = live.metadata.finalizers.iter().flatten();
    let foreign: Vec<String> = finalizers.filter(|name| !is_of_kubernetes(name)).cloned().collect();
    if !foreign.is_empty() {
        return Err(Guard::Finalizers(foreign));
    }
    // Replacing the object would change nothing.
    if is_as_applied(live, key, desired, decoration) {
        return Err(Guard::Unchanged);
    }
    Ok(proven)
}

/// Returns what would be lost with an object of this kind.
fn holds_data(key: &ObjectKey, body: &Value) -> Option<&'static str> {
    let claims = || body.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).is_some_and(|c| !c.is_empty());
    match (&*key.group, &*key.kind) {
        ("", "PersistentVolumeClaim") => Some("a PersistentVolumeClaim holds data"),
        ("", "PersistentVolume") => Some("a PersistentVolume holds data"),
        ("", "Namespace") => Some("everything in a Namespace goes with it"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Some("every object of its kind goes with a definition"),
        ("apps", "StatefulSet") if claims() => Some("a StatefulSet with volumeClaimTemplates holds data"),
        _ => None,
    }
}

/// Returns whether a finalizer is Kubernetes' own, so that Kubernetes removes it.
pub(super) fn is_of_kubernetes(finalizer: &str) -> bool {
    let domain = finalizer.split_once('/').map_or("", |(domain, _)| domain);
    domain == "kubernetes.io"
        || domain.ends_with(".kubernetes.io")
        || matches!(
            finalizer,
            "foregroundDeletion" | "orphan" | "kubernetes" | "customresourcecleanup.apiextensions.k8s.io"
        )
}

/// Returns why the server would reject a new object, from the response to a dry run under another name, or a deletion. A
/// response that may be due to the name, to the old object or to the dry run itself proves nothing.
pub(super) fn rejection(answer: &Error) -> Option<String> {
    let text = answer.to_string();
    let unrelated = ["exceeded quota", "already allocated", "does not support dry run"];
    let is_rejected = matches!(answer.code(), Some(400 | 403 | 422)) && !unrelated.iter().any(|why| text.contains(why));
    is_rejected.then_some(text)
}
