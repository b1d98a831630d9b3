//! Creates, by `POST` or by an apply to a missing object.

use serde_json::{Value, json};

use super::{Write, strategy};
use crate::managed::update;
use crate::status::{Cause, Status};
use crate::{Fidelity, Server};

impl Server {
    /// Creates the object of a `POST`.
    pub(super) fn create(&mut self, write: &Write, body: Value) -> Result<Value, Status> {
        let mut object = body;
        self.address(write, &mut object)?;
        self.normalise(&write.kind, &mut object);
        self.name(write, &mut object)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.check_namespace(write, &name)?;
        let is_versioned = object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty());
        if is_versioned && self.fidelity == Fidelity::Cluster && write.target.name.is_empty() {
            return Err(Status::new(
                500,
                "InternalError",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let live = write.nothing();
        update(&write.kind.of(), &live, &mut object, &write.by());
        self.store_new(write, object)
    }

    /// Stores an object whose managed fields are complete.
    pub(super) fn store_new(&mut self, write: &Write, mut object: Value) -> Result<Value, Status> {
        self.admit(write, &mut object);
        self.set_system_fields(&mut object);
        strategy::prepare_create(&write.kind, &mut object);
        self.normalise(&write.kind, &mut object);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = write.key(&name);
        if let Some(existing) = self.store.get(&key) {
            let refusal = write.kind.about(&name).exists();
            let is_going = existing.object["metadata"]["deletionTimestamp"].is_string();
            let message = if is_going {
                format!("object is being deleted: {refusal}", refusal = refusal.message)
            } else {
                refusal.message
            };
            return Err(Status { message, ..refusal });
        }
        Ok(self.commit(write, key, object))
    }

    fn name(&mut self, write: &Write, object: &mut Value) -> Result<(), Status> {
        let metadata = &mut object["metadata"];
        if metadata["name"].as_str().is_some_and(|name| !name.is_empty()) {
            return Ok(());
        }
        if let Some(prefix) = metadata["generateName"].as_str().filter(|prefix| !prefix.is_empty()) {
            metadata["name"] = format!("{prefix}{}", self.store.version).into();
        } else if self.fidelity == Fidelity::Cluster {
            let cause = Cause {
                reason: "FieldValueRequired",
                field: "metadata.name".into(),
                message: "Required value: name or generateName is required".into(),
            };
            return Err(Status::invalid(&self.kind_in_errors(&write.kind), "", &cause));
        }
        Ok(())
    }

    fn set_system_fields(&mut self, object: &mut Value) {
        let uid = self.store.next_uid();
        let now: &str = &self.now;
        let metadata = &mut object["metadata"];
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"] {
            strategy::set(metadata, field, Value::Null);
        }
        metadata["uid"] = uid.into();
        metadata["creationTimestamp"] = now.into();
    }

    /// Rejects new objects in namespaces that do not exist or are being deleted. Counterpart: the admission plugin
    /// `NamespaceLifecycle`.
    pub(super) fn check_namespace(&self, write: &Write, name: &str) -> Result<(), Status> {
        let namespace = write.target.namespace;
        if namespace.is_empty() || self.fidelity == Fidelity::Sketch {
            return Ok(());
        }
        let Some(namespaces) = self.kinds.find("v1", "namespaces") else { return Ok(()) };
        let Some(found) = self.store.get(&namespaces.key("", namespace)) else {
            return Err(namespaces.about(namespace).not_found());
        };
        if found.object["metadata"]["deletionTimestamp"].is_string() {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let message = format!("namespace {namespace} is being terminated");
            let cause = json!({"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": message});
            return Err(write.kind.about(name).forbidden(&why, cause));
        }
        Ok(())
    }
}
