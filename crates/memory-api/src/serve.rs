//! Routes requests.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::request::{Query, Request, Target};
use crate::status::Status;
use crate::store::Stored;
use crate::{Fidelity, Scope, Server};

impl Server {
    /// Serves a request and returns the body of its response.
    ///
    /// # Errors
    /// Fails with the server's refusal.
    pub fn serve(&mut self, request: &Request) -> Result<Value, Status> {
        let (path, query) = Query::split(request.path);
        if let ("GET", Some(answer)) = (request.method, self.root(path, request.accept)) {
            return Ok(answer);
        }
        let target = Target::of(path).ok_or_else(not_served)?;
        if request.method == "POST" && target.plural.ends_with("reviews") && self.fidelity == Fidelity::Cluster {
            return Ok(reviewed(request.body));
        }
        let kind = self.kind_of(&target)?;
        match (request.method, target.name, target.subresource) {
            ("GET", "", _) => {
                self.check_collection(&target)?;
                self.list(&kind, &target, query, request.accept)
            }
            ("GET", _, "scale") => self.scale(&kind, &target),
            ("GET", ..) => self.get(&kind, &target, request.accept),
            _ => self.write(kind, target, query, request),
        }
    }

    /// Answers requests whose path is not a collection or object.
    fn root(&self, path: &str, accept: &str) -> Option<Value> {
        match path {
            // Without the `Accept` header for aggregated discovery, a server sends the older format.
            "/api" | "/apis" if !accept.contains("APIGroupDiscoveryList") => {
                Some(json!({"kind": "APIVersions", "versions": ["v1"]}))
            }
            "/api" | "/apis" => Some(self.kinds.discovery(path)),
            path if self.documents.contains_key(path) => self.documents.get(path).cloned(),
            path if path.starts_with("/openapi/v3/") => Some(json!({"components": {"schemas": {}}})),
            "/version" => Some(json!({"major": "1", "minor": "37", "gitVersion": "v1.37.0"})),
            _ => None,
        }
    }

    fn kind_of(&self, target: &Target) -> Result<Arc<Kind>, Status> {
        match self.kinds.find(target.api_version, target.plural) {
            Some(kind) => Ok(kind.clone()),
            None if self.fidelity == Fidelity::Sketch => Ok(Arc::new(Kind::of_path(target))),
            None => Err(not_served()),
        }
    }

    fn check_collection(&self, target: &Target) -> Result<(), Status> {
        let is_served = self.kinds.iter().any(|kind| kind.plural == target.plural);
        if is_served { Ok(()) } else { Err(Status::new(404, "NotFound", format!("{}: NotFound", target.plural))) }
    }

    pub(crate) fn collection<'a>(&self, path: &'a str) -> Result<(Arc<Kind>, Target<'a>), Status> {
        let target = Target::of(path).ok_or_else(not_served)?;
        self.check_collection(&target)?;
        Ok((self.kind_of(&target)?, target))
    }

    /// Serves the kinds of a definition before it is stored.
    pub(crate) fn before_store(&mut self, kind: &Kind, object: &Value) {
        if kind.kind == "CustomResourceDefinition" && self.fidelity == Fidelity::Cluster {
            defined(object).into_iter().for_each(|kind| self.kinds.add(kind));
        }
    }

    /// Stops serving the kinds of a removed definition, and removes their objects.
    pub(crate) fn after_removal(&mut self, removed: &Stored) {
        if removed.kind.kind != "CustomResourceDefinition" || self.fidelity == Fidelity::Sketch {
            return;
        }
        for kind in defined(&removed.object) {
            self.kinds.remove(&kind.api_version, &kind.kind);
            let resource = kind.resource();
            let keys: Vec<_> = self.store.of_resource(&resource).map(|(key, _)| key.clone()).collect();
            keys.iter().for_each(|key| _ = self.store.remove(key));
        }
    }
}

fn defined(definition: &Value) -> Vec<Kind> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    let kind = |version: &Value| Kind {
        api_version: format!("{}/{}", text(&spec["group"]), text(&version["name"])),
        kind: text(&spec["names"]["kind"]),
        plural: text(&spec["names"]["plural"]),
        scope: Scope::of(spec["scope"].as_str().unwrap_or_default()),
        has_status: version["subresources"]["status"].is_object(),
        structure: crate::schema::CUSTOM,
    };
    versions.map(kind).collect()
}

fn not_served() -> Status {
    Status::new(404, "", "404 page not found")
}

/// Returns an access review that allows everything.
fn reviewed(body: &[u8]) -> Value {
    let mut review: Value = serde_json::from_slice(body).unwrap_or_default();
    review["status"] = json!({"allowed": true, "authenticated": true});
    review
}
