//! Asks an author's webhook one question.

use kube::Client;
use serde_json::Value;

use super::admission::{Admission, Mutate, Rejection, Request, Validate};
use super::merge::carry_over;
use super::review::{Answer, Question};
use crate::reconciler::Kind;
use crate::webhooks::Operation;

/// Asks a validating webhook.
pub(super) async fn validate<V: Validate>(hook: &V, question: Question, client: &Client) -> Answer {
    if question.lets_go() {
        return Answer::allowed(Vec::new());
    }
    let (object, old) = match question.operation {
        Operation::Delete => (decode(&question.old_object), None),
        // An object that is wrong in the store must be mendable.
        _ => (decode(&question.object), decode(&question.old_object).ok()),
    };
    let admission = match object {
        Ok(object) => Admission { object, old, request: request(question, client) },
        Err(rejection) => return Answer::Denied(rejection),
    };
    hook.validate(&admission).await.map_or_else(Answer::Denied, Answer::allowed)
}

/// Asks a mutating webhook. Its answer is a patch of what differs.
pub(super) async fn mutate<M: Mutate>(hook: &M, mut question: Question, client: &Client) -> Answer {
    if question.lets_go() || question.operation == Operation::Delete {
        return Answer::allowed(Vec::new());
    }
    let original = std::mem::take(&mut question.object);
    let mut object: M::Resource = match decode(&original) {
        Ok(object) => object,
        Err(rejection) => return Answer::Denied(rejection),
    };
    let before = serde_json::to_value(&object);
    let warnings = match hook.mutate(&mut object, &request(question, client)).await {
        Ok(warnings) => warnings,
        Err(rejection) => return Answer::Denied(rejection),
    };
    match (before, serde_json::to_value(&object)) {
        (Ok(before), Ok(after)) => {
            let mut carried = original.clone();
            carry_over(&mut carried, &before, &after);
            Answer::Allowed { warnings, patch: Some(json_patch::diff(&original, &carried)) }
        }
        (Err(error), _) | (_, Err(error)) => Answer::Denied(Rejection::failed(&error)),
    }
}

fn request(question: Question, client: &Client) -> Request<'_> {
    Request {
        operation: question.operation,
        name: question.name,
        namespace: question.namespace,
        user: question.user_info,
        is_dry_run: question.dry_run,
        client,
    }
}

/// Decodes an object, or names the field that does not fit.
pub(super) fn decode<K: Kind>(object: &Value) -> Result<K, Rejection> {
    serde_path_to_error::deserialize(object)
        .map_err(|error| Rejection::field(error.path().to_string(), error.inner().to_string()))
}
