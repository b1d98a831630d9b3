//! The API server's questions and the answers, as JSON.
//!
//! kube's types for admission decode the object before anyone could name its wrong field, so the parts that are read are
//! here.

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::admission::{Operation, Rejection, Warnings};

/// A question about an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Question {
    pub(super) uid: String,
    pub(super) kind: GroupVersionKind,
    pub(super) operation: Operation,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    pub(super) user_info: UserInfo,
    #[serde(default)]
    pub(super) dry_run: bool,
    #[serde(default)]
    pub(super) object: Value,
    #[serde(default)]
    pub(super) old_object: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct GroupVersionKind {
    #[serde(default)]
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

#[derive(Deserialize)]
struct Review {
    request: Question,
}

#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Allowed { warnings: Warnings, patch: Option<json_patch::Patch> },
    Denied(Rejection),
}

/// The answer's form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Warnings,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

impl Question {
    pub(super) fn read(body: &[u8]) -> Result<Question, serde_json::Error> {
        Ok(serde_json::from_slice::<Review>(body)?.request)
    }

    /// Returns whether the object is being deleted and only its metadata or its status changes: a rejection would keep
    /// it from going.
    pub(super) fn lets_go(&self) -> bool {
        let is_going = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        self.operation == Operation::Update
            && is_going(&self.old_object)
            && is_going(&self.object)
            && has_same_content(&self.object, &self.old_object)
    }
}

/// Returns whether two states of an object differ in metadata and status at most. Many built-in kinds have no `spec`.
fn has_same_content(one: &Value, other: &Value) -> bool {
    let fields = [one, other].into_iter().filter_map(Value::as_object).flat_map(Map::keys);
    let mut contents = fields.filter(|field| !matches!(field.as_str(), "metadata" | "status"));
    contents.all(|field| one.get(field) == other.get(field))
}

impl Answer {
    pub(super) fn allowed(warnings: Warnings) -> Answer {
        Answer::Allowed { warnings, patch: None }
    }

    /// Writes the answer to a question with this uid, about an object of this kind and name.
    pub(super) fn write(self, uid: &str, kind: &GroupVersionKind, name: &str) -> Value {
        let response = match self {
            Answer::Allowed { warnings, patch } => {
                let patch = patch.filter(|patch| !patch.is_empty());
                Response {
                    uid,
                    allowed: true,
                    warnings,
                    patch_type: patch.as_ref().map(|_| "JSONPatch"),
                    patch: patch.map(|patch| ByteString(patch.to_string().into_bytes())),
                    status: None,
                }
            }
            Answer::Denied(rejection) => Response {
                uid,
                allowed: false,
                warnings: Vec::new(),
                patch_type: None,
                patch: None,
                status: Some(status(&rejection, kind, name)),
            },
        };
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }
}

/// Returns the status that the API server passes on to the user. kubectl shows the kind and name of one with fields.
fn status(rejection: &Rejection, kind: &GroupVersionKind, name: &str) -> Value {
    let cause = |(field, message): &(String, String)| json!({"reason": "FieldValueInvalid", "field": field, "message": message});
    let causes: Vec<Value> = rejection.fields.iter().map(cause).collect();
    let (code, reason) = if causes.is_empty() { (403, "Forbidden") } else { (422, "Invalid") };
    let mut status = json!({"status": "Failure", "code": code, "reason": reason, "message": rejection.text()});
    if !causes.is_empty() {
        status["details"] = json!({"group": kind.group, "kind": kind.kind, "name": name, "causes": causes});
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether an update of an object that is going is let go. Both states have these fields.
    fn lets_go(object: Value, old: Value) -> bool {
        let going = |mut object: Value| {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            object
        };
        let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
        let request = json!({"uid": "u", "kind": kind, "operation": "UPDATE", "userInfo": {"username": "ada"},
            "object": going(object), "oldObject": going(old)});
        Question::read(json!({"request": request}).to_string().as_bytes()).unwrap().lets_go()
    }

    #[test]
    fn an_object_that_is_going_may_change_metadata_and_status_and_nothing_else_unasked() {
        let old = json!({"metadata": {"finalizers": ["f"]}, "data": {"size": "3"}, "status": {"ready": true}});
        let changed = |field: &str, value: Value| {
            let mut object = old.clone();
            object[field] = value;
            lets_go(object, old.clone())
        };
        assert!(changed("metadata", json!({})), "its finalizer goes");
        assert!(changed("status", json!({"ready": false})));
        assert!(!changed("data", json!({"size": "10"})));
        assert!(!changed("binaryData", json!({"size": "MTA="})), "a new field");
        assert!(!changed("spec", json!({})));
        let without = json!({"metadata": {}});
        assert!(!lets_go(without, old), "a field less");
    }
}
