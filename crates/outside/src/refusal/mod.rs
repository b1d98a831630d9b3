//! Interprets error responses: whether a retry can help, and which parts of the message may be shown.
//!
//! The server's message is kept except for values: those in schema errors ([`schema_error`]), and those after `Invalid
//! value:` and similar phrases.

mod rejected;
mod schema_error;
#[cfg(test)]
mod tests;

use serde::Deserialize;

use super::api::{Error, Purpose};

pub use rejected::value_at;

impl Error {
    /// Returns whether the same request may succeed later, because the server, a webhook or the network failed. Any
    /// other error is permanent: the request is invalid or forbidden, and fails again until something is changed.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Transport(_) | Error::TimedOut { .. } | Error::TooLarge { .. } | Error::Json(_) => true,
            Error::Unanswered { .. } => true,
            // Among responses with 409, only a lost race is worth a retry; `AlreadyExists` is not.
            Error::Refused { code: 409, reason, .. } => reason == "Conflict",
            Error::Refused { code: 403, message, .. } => is_unresolved(message),
            Error::Refused { code, .. } => matches!(code, 401 | 408 | 425 | 429 | 500..),
            _ => false,
        }
    }

    /// Returns whether contact with the server is the cause: the error is transient, or nothing was sent.
    pub fn is_outage(&self) -> bool {
        self.is_transient() || matches!(self, Error::Outdated | Error::Moved)
    }

    /// Returns whether something other than the sent object caused the error: an outage, or a rejected read.
    pub fn is_unanswered(&self) -> bool {
        self.is_outage() || matches!(self, Error::Refused { purpose: Purpose::Read, .. })
    }

    /// Returns whether a conversion webhook failed. Counterpart: `webhookConverter.Convert` in
    /// `k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`.
    pub fn is_of_conversion(&self) -> bool {
        matches!(self, Error::Refused { code: 500, message, .. } if message.contains("conversion webhook for "))
    }

    /// Builds the error of a response with this HTTP status, reason and message.
    pub fn from_status(code: u16, reason: &str, message: &str) -> Error {
        let body = serde_json::json!({"reason": reason, "message": message});
        refusal(code, body.to_string().as_bytes())
    }

    /// Reads the body of a response with a status of 400 or more.
    pub fn response(code: u16, body: &[u8]) -> Error {
        refusal(code, body)
    }

    /// Returns the status and body of the response that refused a request; `None` if the server did not refuse it.
    pub fn to_response(&self) -> Option<(u16, Vec<u8>)> {
        let Error::Refused { code, reason, message, fields, .. } = self else { return None };
        let why = if self.is_immutable() { "field is immutable" } else { "" };
        let cause = |field| serde_json::json!({"reason": "FieldValueInvalid", "field": field, "message": why});
        let causes: Vec<_> = fields.iter().map(cause).collect();
        let status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code,
            "details": {"causes": causes},
        });
        Some((*code, status.to_string().into_bytes()))
    }

    /// Returns whether the server may reject only server-side apply, but accept a client-side create or patch.
    pub fn may_succeed_client_side(&self) -> bool {
        // 405 and 415: an aggregated server without server-side apply.
        matches!(self.code(), Some(400 | 405 | 415 | 422))
    }

    /// Returns whether the namespace is being deleted, so that nothing can be created in it.
    pub fn is_terminating(&self) -> bool {
        matches!(self, Error::Refused { code: 403, reason, .. } if reason == TERMINATING)
    }

    /// Returns whether the server rejects only immutable fields, so that it may accept the same object as a new one.
    pub fn is_immutable(&self) -> bool {
        matches!(self, Error::Refused { code: 422, reason, .. } if reason == IMMUTABLE)
    }

    /// Returns whether another object has taken the place of the one whose uid the request names.
    pub fn is_replaced(&self) -> bool {
        self.is_conflict() && self.fields().iter().any(|field| field == UID)
    }

    /// Returns whether the object has fields that its schema does not declare.
    pub fn has_undeclared_field(&self) -> bool {
        matches!(self, Error::Refused { code: 422, message, .. } if message.contains(schema_error::UNDECLARED))
    }

    /// Returns the paths of the fields that the schema does not declare, such as
    /// `.status.conditions[type="Ready"].observedGeneration`.
    pub fn undeclared_fields(&self) -> Vec<&str> {
        match self {
            Error::Refused { message, .. } => schema_error::undeclared(message),
            _ => Vec::new(),
        }
    }

    /// Returns the path of an undeclared field if that is the first fault that the server names. A later one may be part of
    /// a value or a key that the server quoted.
    pub fn first_undeclared_field(&self) -> Option<&str> {
        match self {
            Error::Refused { message, .. } => schema_error::first_undeclared(message),
            _ => None,
        }
    }

    /// Returns the fields that the server rejects, in its notation: `spec.strategy.rollingUpdate`.
    pub fn fields(&self) -> &[String] {
        match self {
            Error::Refused { fields, .. } => fields,
            _ => &[],
        }
    }
}

impl Error {
    /// Names the failure without the server's message, which may quote values: `HTTP 500 InternalError`. For texts that
    /// nothing redacts: progress and logs.
    pub fn named(&self) -> String {
        match self {
            // A webhook or a proxy may send any text.
            Error::Refused { code, reason, .. } if is_word(reason) => format!("HTTP {code} {reason}"),
            Error::Refused { code, .. } => format!("HTTP {code}"),
            Error::InvalidName(_) => "invalid name".to_owned(),
            error => error.to_string(),
        }
    }
}

fn is_word(reason: &str) -> bool {
    !reason.is_empty() && reason.chars().all(|c| c.is_ascii_alphabetic())
}

/// Names the first API server error in the chain of causes, as [`Error::named`] does; `None` without one.
pub fn named(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    request_of(error).map(Error::named)
}

/// The field that holds an object's identity.
const UID: &str = "metadata.uid";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
    reason: String,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    kind: String,
    causes: Vec<Cause>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    field: String,
    reason: String,
    message: String,
}

impl Cause {
    /// Returns whether it rejects a uid that differs from the object's.
    fn is_uid(&self) -> bool {
        self.field == UID && self.is_immutable()
    }

    /// Returns whether it rejects the change of an immutable field. Kubernetes has no separate reason for that, so its
    /// messages decide.
    fn is_immutable(&self) -> bool {
        let is_rule = matches!(self.reason.as_str(), "FieldValueInvalid" | "FieldValueForbidden");
        is_rule && IMMUTABLE_TEXTS.iter().any(|text| self.message.contains(text))
    }
}

/// Returns whether the first API server error in the chain of causes is transient; `false` without one.
pub fn is_transient(error: &(dyn std::error::Error + 'static)) -> bool {
    request_of(error).is_some_and(Error::is_transient)
}

/// Returns whether the first API server error in the chain of causes is an outage; `false` without one.
pub fn is_outage(error: &(dyn std::error::Error + 'static)) -> bool {
    request_of(error).is_some_and(Error::is_outage)
}

/// Returns whether the first API server error in the chain of causes is the failure of a conversion webhook; `false`
/// without one.
pub fn is_of_conversion(error: &(dyn std::error::Error + 'static)) -> bool {
    request_of(error).is_some_and(Error::is_of_conversion)
}

/// Returns whether something other than the sent object caused the first API server error in the chain of causes;
/// `false` without one.
pub fn is_unanswered(error: &(dyn std::error::Error + 'static)) -> bool {
    request_of(error).is_some_and(Error::is_unanswered)
}

/// Returns whether the server answered the first request in the chain of causes that failed; `false` without one.
pub fn reached_server(error: &(dyn std::error::Error + 'static)) -> bool {
    request_of(error).is_some_and(|error| error.code().is_some())
}

fn request_of<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

/// Returns whether a refusal is due to roles that the server cannot find: just after its start, it forbids what roles
/// grant until it has read them. Counterpart: `RBACAuthorizer.Authorize` in k8s.io/kubernetes
/// `plugin/pkg/auth/authorizer/rbac/rbac.go`.
fn is_unresolved(message: &str) -> bool {
    message
        .split_once(": RBAC: ")
        .is_some_and(|(_, why)| why.contains("role.rbac.authorization.k8s.io") && why.contains("not found"))
}

/// The reason and cause of rejecting a create in a namespace that is being deleted.
const TERMINATING: &str = "NamespaceTerminating";

/// Our reason for rejections only because of changed immutable fields.
const IMMUTABLE: &str = "FieldImmutable";

/// Kubernetes' messages about immutable fields: `k8s.io/kubernetes/pkg/apis/*/validation` and
/// `k8s.io/apimachinery/pkg/api/validate`, 1.33 to 1.36.
const IMMUTABLE_TEXTS: &[&str] = &[
    // Most fields, among them a Job's template and selectors; immutable ConfigMaps and Secrets; by convention CEL rules
    // of custom resources.
    "immutable",
    "Immutable",
    // A Service's addresses, IP families and load balancer class.
    "may not change once set",
    "cannot change roleRef",
    // All but a few fields of a StatefulSet's spec, a StorageClass's parameters.
    "updates to ",
    "pod updates may not",
    "may not be changed in an update",
    // Generated validation.
    "field cannot be set once created",
    "field cannot be cleared once set",
    "field cannot be modified once set",
];

/// Parses a response with a status of 400 or more.
///
/// Server-side apply responds with 500 to an object that does not fit its schema. That becomes 422, as for other
/// invalid objects.
pub(super) fn refusal(code: u16, body: &[u8]) -> Error {
    let status: Status = serde_json::from_slice(body).unwrap_or_default();
    let message =
        if status.message.is_empty() { String::from_utf8_lossy(body).trim().to_owned() } else { status.message };
    if let Some(message) = schema_error::explain(&message) {
        return Error::Refused {
            code: 422,
            reason: "Invalid".into(),
            message,
            fields: Vec::new(),
            purpose: Purpose::default(),
        };
    }
    let details = status.details.unwrap_or_default();
    let of_secret = matches!(details.kind.as_str(), "Secret" | "secrets") || message.contains("Secret \"");
    let terminating = details.causes.iter().any(|cause| cause.reason == TERMINATING);
    // A write that names the uid of a replaced object is a lost race, although the server calls the uid immutable.
    let replaced = code == 422 && !details.causes.is_empty() && details.causes.iter().all(Cause::is_uid);
    let immutable = code == 422 && !details.causes.is_empty() && details.causes.iter().all(Cause::is_immutable);
    let (code, reason) = match (terminating, replaced, immutable) {
        (true, ..) => (code, TERMINATING.to_owned()),
        (_, true, _) => (409, "Conflict".to_owned()),
        (_, _, true) => (code, IMMUTABLE.to_owned()),
        _ => (code, status.reason),
    };
    // All values of Secrets, and structures of any kind, since they contain other fields' values. Scalars of other
    // kinds stay, as in Helm.
    let message = without_values(&message, |value| of_secret || is_structure(value));
    let fields = details.causes.into_iter().map(|cause| cause.field).filter(|field| !field.is_empty()).collect();
    Error::Refused { code, reason, message, fields, purpose: Purpose::default() }
}

const HIDDEN: &str = "<hidden>";

/// Hides the quoted values that `hide` selects.
fn without_values(message: &str, hide: impl Fn(&str) -> bool) -> String {
    let mut safe = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = split_at_value(rest) {
        let (value, after) = after.split_at(value_end(after));
        safe.push_str(before);
        safe.push_str(if hide(value) { HIDDEN } else { value });
        rest = after;
    }
    safe + rest
}

fn split_at_value(text: &str) -> Option<(&str, &str)> {
    let markers = ["Invalid value: ", "Unsupported value: ", "Duplicate value: "];
    let ends = markers.iter().filter_map(|marker| Some(text.find(marker)? + marker.len()));
    ends.min().map(|end| text.split_at(end))
}

/// Returns the end of a value in Go's or JSON's notation: the next `: ` or `, ` outside quotes and brackets.
fn value_end(text: &str) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => depth += 1,
            '}' | ']' if depth > 0 => depth -= 1,
            ']' => return at,
            ':' | ',' if depth == 0 && text[at + 1..].starts_with(' ') => return at,
            _ => {}
        }
    }
    text.len()
}

fn is_structure(value: &str) -> bool {
    let quoted_structure = value.starts_with("\"map[") || value.starts_with("\"{") || value.starts_with("\"[");
    quoted_structure || (!value.starts_with('"') && value.contains(['{', '[']))
}
