//! Gets and lists: `limit` and `continue`, lists at a version, metadata only.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::changes::{Watched, shown, wants_metadata};
use crate::kinds::Kind;
use crate::request::{Query, Target};
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{Key, Stored};
use crate::{Fidelity, Server};

/// The position at which a list page ended.
struct Continued {
    version: u64,
    /// The namespace and name of the last object.
    after: (String, String),
}

impl Continued {
    fn parse(text: &str) -> Option<Continued> {
        let json: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        Some(Continued { version: json["rv"].as_u64()?, after: (text("namespace"), text("name")) })
    }

    fn token(version: u64, key: &Key) -> String {
        let json = json!({"rv": version, "namespace": key.namespace, "name": key.name});
        URL_SAFE_NO_PAD.encode(json.to_string())
    }
}

impl Server {
    /// Returns one object in the requested version of the kind.
    pub(crate) fn get(&self, kind: &Kind, target: &Target, accept: &str) -> Result<Value, Status> {
        let stored = self.store.get(&kind.key(target.namespace, target.name));
        let stored = stored.ok_or_else(|| kind.about(target.name).not_found())?;
        Ok(shown(&as_version(kind, &stored.object), accept))
    }

    /// Returns the objects that a list or watch selects.
    pub(crate) fn watched(&self, kind: &Kind, target: &Target, query: Query) -> Watched {
        Watched {
            resource: kind.resource(),
            namespace: target.namespace.to_owned(),
            selector: Selector::of_query(query.0),
        }
    }

    pub(crate) fn list(&self, kind: &Kind, target: &Target, query: Query, accept: &str) -> Result<Value, Status> {
        let watched = self.watched(kind, target, query);
        let continued = match query.get("continue").filter(|token| !token.is_empty()) {
            Some(token) => Some(Continued::parse(&token).ok_or_else(invalid_token)?),
            None => None,
        };
        let version = continued.as_ref().map_or_else(|| self.version_of_read(query), |from| Ok(from.version))?;
        let expired = |status: Status| if continued.is_some() { expired_token(&status) } else { status };
        let objects = self.objects_at(&watched.resource, version).map_err(expired)?;
        let after = continued.as_ref().map(|continued| &continued.after);
        let is_later = |key: &Key| after.is_none_or(|(ns, name)| (&key.namespace, &key.name) > (ns, name));
        let mut rest = objects.iter().filter(|(key, _)| watched.covers(key) && is_later(key));
        let limit = query.get("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
        let selected = rest.by_ref().filter(|(_, stored)| watched.selector.selects(&stored.object));
        let page: Vec<_> = selected.take(limit.unwrap_or(usize::MAX)).collect();
        // A full page continues if any object follows, even one that the selector does not select: the server stops
        // reading. So the last page can be empty.
        let left = rest.count();
        let items: Vec<Value> = page.iter().map(|(_, stored)| self.item(kind, &stored.object, accept)).collect();
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if kind.is_custom() && !wants_metadata(accept) && self.fidelity == Fidelity::Cluster {
            metadata["continue"] = "".into();
        }
        if let Some((last, _)) = page.last().filter(|_| left > 0) {
            metadata["continue"] = Continued::token(version, last).into();
            if watched.selector.is_empty() {
                metadata["remainingItemCount"] = left.into();
            }
        }
        Ok(self.listed(kind, items, metadata, accept))
    }

    fn objects_at(&self, resource: &Arc<str>, version: u64) -> Result<BTreeMap<Key, Stored>, Status> {
        let mut objects: BTreeMap<Key, Stored> =
            self.store.of_resource(resource).map(|(key, stored)| (key.clone(), stored.clone())).collect();
        if version < self.store.version {
            self.store.log.undo(resource, version, &mut objects)?;
        }
        Ok(objects)
    }

    /// Returns the version at which a list is served.
    fn version_of_read(&self, query: Query) -> Result<u64, Status> {
        let asked = query.get("resourceVersion").unwrap_or_default();
        let exact = query.get("resourceVersionMatch").is_some_and(|how| how == "Exact");
        let cached = self.store.version.saturating_sub(self.lag);
        match asked.parse::<u64>() {
            Err(_) if asked.is_empty() => Ok(self.store.version),
            Err(_) => Err(Status::bad_request(format!("resourceVersion: Invalid value: \"{asked}\""))),
            Ok(version) if version > self.store.version => Err(too_large(version, self.store.version)),
            Ok(version) if exact => Ok(version),
            Ok(version) => Ok(cached.max(version)),
        }
    }

    fn item(&self, kind: &Kind, object: &Value, accept: &str) -> Value {
        let mut item = shown(&as_version(kind, object), accept);
        // Items of built-in lists have no kind: the list has it.
        if self.fidelity == Fidelity::Cluster
            && !kind.is_custom()
            && !wants_metadata(accept)
            && let Some(map) = item.as_object_mut()
        {
            map.remove("apiVersion");
            map.remove("kind");
        }
        item
    }

    fn listed(&self, kind: &Kind, items: Vec<Value>, metadata: Value, accept: &str) -> Value {
        // Servers send `null` for an empty metadata list.
        let is_null = items.is_empty() && (wants_metadata(accept) || self.fidelity == Fidelity::Sketch);
        let items = if is_null { Value::Null } else { items.into() };
        let (api_version, kind) = match wants_metadata(accept) {
            true => ("meta.k8s.io/v1", "PartialObjectMetadataList".to_owned()),
            false => (kind.api_version.as_str(), format!("{}List", kind.kind)),
        };
        json!({"apiVersion": api_version, "kind": kind, "items": items, "metadata": metadata})
    }
}

pub(crate) fn as_version(kind: &Kind, object: &Value) -> Value {
    let mut object = object.clone();
    if is_of_other_version(kind, &object) {
        object["apiVersion"] = kind.api_version.as_str().into();
    }
    object
}

/// Returns an object in the version of a kind; copies it only if it is stored in another.
pub(crate) fn shared_as_version(kind: &Kind, object: &Arc<Value>) -> Arc<Value> {
    if is_of_other_version(kind, object) { Arc::new(as_version(kind, object)) } else { object.clone() }
}

fn is_of_other_version(kind: &Kind, object: &Value) -> bool {
    object.get("apiVersion").is_some_and(|version| *version != *kind.api_version)
}

fn invalid_token() -> Status {
    Status::bad_request("continue key is not valid: invalid encoded continue token")
}

fn expired_token(status: &Status) -> Status {
    let message = "The provided continue parameter is too old to display a consistent list result.";
    Status { message: message.into(), ..status.clone() }
}

/// Returns the response to a read at a future version.
pub(crate) fn too_large(asked: u64, current: u64) -> Status {
    let message = format!("Too large resource version: {asked}, current: {current}");
    let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    let details = json!({"causes": [cause], "retryAfterSeconds": 1});
    Status { details, ..Status::new(504, "Timeout", message) }
}
