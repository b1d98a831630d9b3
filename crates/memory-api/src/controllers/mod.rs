//! Controllers that act only when a test steps them: the garbage collector, the namespace controller, Jobs' time to
//! live, a kubelet, an autoscaler, another operator.
//!
//! A step makes at most one write, so the test decides how the writes of controllers and others are interleaved.
//! `choice` selects among the pending actions.

mod autoscaler;
mod collector;
mod kubelet;
mod namespaces;
mod operator;
#[cfg(test)]
mod tests;
mod ttl;

use std::sync::Arc;

use serde_json::Value;

use crate::kinds::Kind;
use crate::request::Request;
use crate::status::Status;
use crate::store::{Key, Stored};
use crate::{Server, read};

pub use autoscaler::Autoscaler;
pub use collector::Collector;
pub use kubelet::{Fate, Kubelet};
pub use namespaces::Namespaces;
pub use operator::OtherOperator;
pub use ttl::TimeToLive;

/// A controller that reads the server's objects and writes them.
pub trait Controller {
    /// Performs one pending action; returns whether there was one.
    fn step(&mut self, server: &mut Server, choice: u64) -> bool;
}

/// Steps controllers until no action is pending.
pub fn settle(server: &mut Server, controllers: &mut [&mut dyn Controller]) {
    // Each step makes progress, so only controllers that undo each other's writes reach the limit.
    for _ in 0..10_000 {
        let mut acted = false;
        controllers.iter_mut().for_each(|controller| acted |= controller.step(server, 0));
        if !acted {
            return;
        }
    }
}

/// Picks one of the pending actions.
fn pick<T>(mut things: Vec<T>, choice: u64) -> Option<T> {
    if things.is_empty() {
        return None;
    }
    let at = usize::try_from(choice % things.len() as u64).unwrap_or(0);
    Some(things.swap_remove(at))
}

/// A controller's write.
struct Write<'a> {
    method: &'a str,
    content_type: &'a str,
    manager: &'a str,
    body: Value,
}

impl Server {
    /// Sends a controller's write; a later step retries a refused one.
    fn send(&mut self, path: &str, write: &Write) -> Result<Value, Status> {
        let path = format!("{path}?fieldManager={}", write.manager);
        let body = write.body.to_string();
        let (method, content_type) = (write.method, write.content_type);
        self.serve(&Request { method, path: &path, content_type, accept: "", body: body.as_bytes() })
    }

    fn merge(&mut self, path: &str, manager: &str, body: Value) -> bool {
        let content_type = "application/merge-patch+json";
        self.send(path, &Write { method: "PATCH", content_type, manager, body }).is_ok()
    }

    fn erase(&mut self, path: &str, options: Value) -> bool {
        let content_type = "application/json";
        self.send(path, &Write { method: "DELETE", content_type, manager: "controller", body: options }).is_ok()
    }

    /// Returns the objects of a kind, with their paths.
    fn objects_of(&self, api_version: &str, plural: &str) -> Vec<(String, Arc<Value>)> {
        let Some(kind) = self.kinds.find(api_version, plural) else { return Vec::new() };
        let resource = kind.resource();
        let object = |(key, stored): (&Key, &Stored)| {
            (kind.path(&key.namespace, &key.name), read::shared_as_version(kind, &stored.object))
        };
        self.store.of_resource(&resource).map(object).collect()
    }
}

/// Returns the path of a stored object.
fn path_of(key: &Key, kind: &Kind) -> String {
    kind.path(&key.namespace, &key.name)
}

/// Returns the preconditions of a deletion that must hit only this object.
fn only(object: &Value) -> Value {
    serde_json::json!({"uid": object["metadata"]["uid"]})
}

fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn has_finalizer(object: &Value, name: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
}

/// Returns the patch that removes a finalizer unless another client writes first.
fn without_finalizer(object: &Value, name: &str) -> Value {
    let all = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    let left: Vec<&Value> = all.filter(|one| *one != name).collect();
    let version = &object["metadata"]["resourceVersion"];
    serde_json::json!({"metadata": {"finalizers": left, "resourceVersion": version}})
}
