//! The namespace controller: empties a namespace that is being deleted, then removes its finalizer. Counterpart:
//! k8s.io/kubernetes `pkg/controller/namespace`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Controller, Write, is_going, path_of, pick};
use crate::Server;

/// The namespace controller.
#[derive(Debug, Default)]
pub struct Namespaces;

impl Controller for Namespaces {
    fn step(&mut self, server: &mut Server, choice: u64) -> bool {
        let going: Vec<(String, Arc<Value>)> =
            server.objects_of("v1", "namespaces").into_iter().filter(|(_, object)| is_going(object)).collect();
        let names: Vec<&str> = going.iter().filter_map(|(_, object)| object["metadata"]["name"].as_str()).collect();
        let within = |namespace: &str| names.contains(&namespace);
        let left: Vec<String> = server
            .store
            .iter()
            .filter(|(key, stored)| within(&key.namespace) && !is_going(&stored.object))
            .map(|(key, stored)| path_of(key, &stored.kind))
            .collect();
        if let Some(path) = pick(left, choice) {
            return server.erase(&path, json!({"propagationPolicy": "Background"}));
        }
        let is_empty = |name: &Value| !server.store.iter().any(|(key, _)| *name == *key.namespace);
        let done = going.into_iter().filter(|(_, object)| is_empty(&object["metadata"]["name"])).collect();
        let Some((path, object)) = pick(done, choice) else { return false };
        let is_free = object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if is_free {
            return false;
        }
        let mut object = Arc::unwrap_or_clone(object);
        object["spec"]["finalizers"] = json!([]);
        let manager = "kube-controller-manager";
        let write = Write { method: "PUT", content_type: "application/json", manager, body: object };
        server.send(&format!("{path}/finalize"), &write).is_ok()
    }
}
