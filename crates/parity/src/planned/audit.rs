//! Reads the operator's writes from the audit log, with their bodies.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::Value;

use super::agree::Sent;

/// Bodies of the operator's writes, and nothing else.
pub(super) const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Request, users: [operator]}
- {level: None}
";

/// Writes that belong to no release: the process's own objects, and events.
const OTHERS: [&str; 2] = ["events", "leases"];

/// The audit log, read as it grows.
pub(super) struct Log {
    path: PathBuf,
    at: u64,
}

impl Log {
    /// Opens the log behind what it already contains.
    pub(super) fn open(path: PathBuf) -> anyhow::Result<Log> {
        let mut log = Log { path, at: 0 };
        log.read()?;
        Ok(log)
    }

    /// Returns the operator's writes since the last call, in the order in which they ended; dry runs included.
    pub(super) fn read(&mut self) -> anyhow::Result<Vec<Sent>> {
        let mut text = Vec::new();
        let mut file = File::open(&self.path).with_context(|| format!("cannot open {}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.at))?;
        file.read_to_end(&mut text)?;
        // The last line may be incomplete.
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.at += end as u64;
        let events = text[..end].split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        Ok(events.filter_map(|event| sent(&event)).collect())
    }
}

/// Returns a write as a plan names it; `None` for what belongs to no release.
fn sent(event: &Value) -> Option<Sent> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let method = match text("/verb") {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        _ => return None,
    };
    let body = event["requestObject"].clone();
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let resource = text("/objectRef/resource");
    if OTHERS.contains(&resource) || resource.ends_with("reviews") || is_key(name) || is_key(text("/objectRef/name")) {
        return None;
    }
    let (path, query) = text("/requestURI").split_once('?').unwrap_or((text("/requestURI"), ""));
    let path = match method {
        "POST" if !name.is_empty() => format!("{path}/{name}"),
        _ => path.to_owned(),
    };
    let is_dry_run = query.contains("dryRun=All") || body["dryRun"] == serde_json::json!(["All"]);
    Some(Sent { method: method.to_owned(), path, is_dry_run, body })
}

fn is_key(name: &str) -> bool {
    name == "helm-operator-record-key"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_becomes_the_write_that_a_plan_would_name() {
        let event =
            |verb: &str, uri: &str, body: Value| json!({"verb": verb, "requestURI": uri, "requestObject": body});
        let line = |event: &Value| {
            sent(event)
                .map(|sent| format!("{} {} {}", sent.method, sent.path, if sent.is_dry_run { "dry" } else { "" }))
        };
        let maps = "/api/v1/namespaces/ns/configmaps";
        let created = event("create", &format!("{maps}?fieldManager=f"), json!({"metadata": {"name": "a"}}));
        assert_eq!(line(&created).unwrap(), format!("POST {maps}/a "));
        let deleted = event("delete", &format!("{maps}/a"), json!({"dryRun": ["All"]}));
        assert_eq!(line(&deleted).unwrap(), format!("DELETE {maps}/a dry"));
        let applied = event("patch", &format!("{maps}/a?force=true&dryRun=All"), json!({}));
        assert_eq!(line(&applied).unwrap(), format!("PATCH {maps}/a dry"));
        let mut told = event("create", "/apis/events.k8s.io/v1/namespaces/ns/events", json!({}));
        told["objectRef"]["resource"] = "events".into();
        assert_eq!(line(&told), None);
    }
}
