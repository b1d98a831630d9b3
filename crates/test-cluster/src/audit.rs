//! Reads requests from the API server's audit log, reduced to what tests need.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

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

/// The audit log of a cluster. Each line is parsed once, because tests ask again and again while they wait.
#[derive(Debug, Default)]
pub(crate) struct AuditLog {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The length of the lines that were parsed, in bytes.
    length: u64,
    requests: Vec<Request>,
}

impl AuditLog {
    /// Returns the requests in this file, oldest first; none if it does not exist yet.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<Request>, Error> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let added = match added(path, seen.length) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.attempt(|| format!("read {}", path.display()))?,
        };
        seen.add(&added);
        Ok(seen.requests.clone())
    }
}

impl Seen {
    /// Adds the complete lines of what was written since. The last line may be incomplete.
    fn add(&mut self, text: &[u8]) {
        for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            self.length += line.len() as u64;
            self.requests.extend(serde_json::from_slice(line).ok().as_ref().map(Request::from_event));
        }
    }
}

fn added(path: &Path, seen: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(seen))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text)
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

    #[test]
    fn a_line_counts_once_and_when_it_is_complete() {
        let mut seen = Seen::default();
        let verbs = |seen: &Seen| seen.requests.iter().map(|one| one.verb.clone()).collect::<Vec<_>>();
        let log = b"{\"verb\": \"get\"}\nno JSON\n{\"verb\": \"patch\"}\n";
        seen.add(&log[..30]);
        assert_eq!((verbs(&seen), seen.length), (vec!["get".to_owned()], 24));
        seen.add(&log[24..]);
        assert_eq!((verbs(&seen), seen.length), (vec!["get".to_owned(), "patch".into()], log.len() as u64));
    }
}
