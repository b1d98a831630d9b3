//! Refusals with the server's wording.

use std::fmt;

use serde_json::{Value, json};

/// Why a request is refused: the server's `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP status.
    pub code: u16,
    /// The stable reason: `NotFound`. Empty if the answer is plain text.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The object that the request addressed, and the causes of the refusal.
    pub details: Value,
}

/// The object that a refusal names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) name: &'a str,
}

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{} \"{}\"", self.plural, self.group, self.name)
    }
}

impl About<'_> {
    fn details(self) -> Value {
        let mut details = json!({"kind": self.plural});
        [("name", self.name), ("group", self.group)]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .for_each(|(key, value)| details[key] = value.into());
        details
    }

    pub(crate) fn not_found(self) -> Status {
        Status { details: self.details(), ..Status::new(404, "NotFound", format!("{self} not found")) }
    }

    pub(crate) fn exists(self) -> Status {
        Status { details: self.details(), ..Status::new(409, "AlreadyExists", format!("{self} already exists")) }
    }

    pub(crate) fn conflict(self, why: &str) -> Status {
        let message = format!("Operation cannot be fulfilled on {self}: {why}");
        Status { details: self.details(), ..Status::new(409, "Conflict", message) }
    }

    pub(crate) fn forbidden(self, why: &str, cause: Value) -> Status {
        let mut details = self.details();
        details["causes"] = json!([cause]);
        Status { details, ..Status::new(403, "Forbidden", format!("{self} is forbidden: {why}")) }
    }
}

impl Status {
    /// Creates a refusal without details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Status {
        Status { code, reason: reason.to_owned(), message: message.into(), details: Value::Null }
    }

    /// Creates the refusal of an invalid object, because of one field.
    pub(crate) fn invalid(kind: &str, name: &str, cause: &Cause) -> Status {
        let message = format!("{kind} \"{name}\" is invalid: {}: {}", cause.field, cause.message);
        let causes = json!([{"reason": cause.reason, "field": cause.field, "message": cause.message}]);
        Status {
            details: json!({"kind": kind, "name": name, "causes": causes}),
            ..Status::new(422, "Invalid", message)
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, "BadRequest", message)
    }

    /// Returns the response body.
    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_str().into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

/// The fault of one field.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn invalid(field: &str, value: &Value, why: &str) -> Cause {
        Cause {
            reason: "FieldValueInvalid",
            field: field.to_owned(),
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    pub(crate) fn forbidden(field: &str, why: &str) -> Cause {
        Cause { reason: "FieldValueForbidden", field: field.to_owned(), message: format!("Forbidden: {why}") }
    }
}
