//! Reads requests from the API server's audit log, reduced to what tests need.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::{Attempt, Error};

/// One finished request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The user: `operator`, or `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// The user whose permissions applied: the impersonated user if any, else `user`.
    pub acting_as: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The API group; empty for the core group and for discovery.
    pub group: String,
    /// The plural name, with the subresource if any: `pods`, `deployments/scale`. Empty for discovery.
    pub resource: String,
    /// Empty for cluster-scoped resources.
    pub namespace: String,
    /// Empty for lists and watches.
    pub name: String,
    /// HTTP status.
    pub code: u16,
    /// Whether the query says `dryRun=All`, so that a write stores nothing.
    pub is_dry_run: bool,
}

impl Request {
    /// Returns whether the request is a write.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    fn from_event(event: &Value) -> Request {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
        Request {
            user: text("/user/username"),
            acting_as: [text("/impersonatedUser/username"), text("/user/username")]
                .into_iter()
                .find(|user| !user.is_empty())
                .unwrap_or_default(),
            verb: text("/verb"),
            group: text("/objectRef/apiGroup"),
            resource: [text("/objectRef/resource"), text("/objectRef/subresource")]
                .join("/")
                .trim_matches('/')
                .to_owned(),
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: code.and_then(|code| u16::try_from(code).ok()).unwrap_or(0),
            is_dry_run: text("/requestURI").contains("dryRun=All"),
        }
    }
}

/// Returns the requests in the log, oldest first; empty if there is no log yet.
pub(crate) fn read(log: &Path) -> Result<Vec<Request>, Error> {
    let text = match fs::read_to_string(log) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.attempt(|| format!("read {}", log.display()))?,
    };
    // The last line may be incomplete.
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .map(|event| Request::from_event(&event))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_event_becomes_a_request() {
        let event = serde_json::json!({
            "verb": "patch",
            "requestURI": "/apis/cache.my.domain/v1/namespaces/default/memcacheds/one/status?fieldManager=f&dryRun=All",
            "user": {"username": "operator"},
            "objectRef": {"apiGroup": "cache.my.domain", "resource": "memcacheds", "subresource": "status", "namespace": "default", "name": "one"},
            "responseStatus": {"code": 200},
        });
        let request = Request::from_event(&event);
        assert_eq!(
            (request.user.as_str(), request.group.as_str(), request.resource.as_str(), request.code),
            ("operator", "cache.my.domain", "memcacheds/status", 200)
        );
        assert!(request.is_write() && request.is_dry_run && request.acting_as == "operator");
    }

    #[test]
    fn an_impersonated_user_counts() {
        let event = serde_json::json!({"user": {"username": "operator"}, "impersonatedUser": {"username": "other"}});
        let request = Request::from_event(&event);
        assert_eq!((request.user.as_str(), request.acting_as.as_str()), ("operator", "other"));
    }

    #[test]
    fn discovery_has_no_resource_and_writes_nothing() {
        let request = Request::from_event(&serde_json::json!({"verb": "get", "requestURI": "/apis"}));
        assert_eq!(request.resource, "");
        assert!(!request.is_write() && !request.is_dry_run);
    }
}
