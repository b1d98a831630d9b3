//! The scale subresource.

use serde_json::{Value, json};

use super::Write;
use crate::Server;
use crate::kinds::Kind;
use crate::managed::{By, update};
use crate::patch::merge_patch;
use crate::request::Target;
use crate::status::Status;

impl Server {
    pub(crate) fn scale(&self, kind: &Kind, target: &Target) -> Result<Value, Status> {
        let object = self.get(kind, target, "")?;
        Ok(scale_of(&object))
    }

    /// Writes an object's replicas by a replace or merge patch of its scale.
    pub(super) fn write_scale(&mut self, write: &Write, content_type: &str, body: &Value) -> Result<Value, Status> {
        let old = self.get(&write.kind, &write.target, "")?;
        let mut scale = scale_of(&old);
        match content_type {
            "application/json" | "" => scale["spec"] = body["spec"].clone(),
            _ => merge_patch(&mut scale, body),
        }
        let mut new = old.clone();
        new["spec"]["replicas"] = scale["spec"]["replicas"].clone();
        let version = body["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !version.is_empty() {
            new["metadata"]["resourceVersion"] = version.into();
        }
        update(&write.kind.of(), &old, &mut new, &By { now: "", ..write.by() });
        let stored = self.store_next(write, &old, new)?;
        Ok(scale_of(&stored))
    }
}

fn scale_of(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let selector =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let selector = selector.collect::<Vec<_>>().join(",");
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or(0)},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or(0), "selector": selector},
    })
}
