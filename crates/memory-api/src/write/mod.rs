//! Writes: create, replace, patch, apply, delete.

mod create;
mod delete;
mod rules;
mod scale;
mod strategy;
mod update;

use std::sync::Arc;

use serde_json::{Value, json};

pub(crate) use delete::{FOREGROUND, ORPHAN};

use crate::fields::Set;
use crate::kinds::Kind;
use crate::managed::{By, Conflicts};
use crate::request::{Query, Request, Target};
use crate::schema::normal::{normalise, zero};
use crate::schema::{METADATA, Type};
use crate::status::Status;
use crate::store::Key;
use crate::{Fidelity, Server, yaml};

/// The content type of an apply.
const APPLY: &str = "application/apply-patch+yaml";

/// A write, as its path, query and headers describe it.
pub(crate) struct Write<'a> {
    pub(crate) kind: Arc<Kind>,
    pub(crate) target: Target<'a>,
    pub(crate) manager: String,
    conflicts: Conflicts,
    pub(crate) is_dry_run: bool,
    is_sketch: bool,
    /// The time, as RFC 3339.
    pub(crate) now: Arc<str>,
    /// The fields that this endpoint ignores.
    pub(crate) reset: Set,
}

impl<'a> Write<'a> {
    fn new(server: &Server, kind: Arc<Kind>, target: Target<'a>, query: Query) -> Write<'a> {
        let manager = query.get("fieldManager").filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".into());
        Write {
            reset: strategy::reset_fields(&kind, target.subresource),
            manager,
            conflicts: if query.is_set("force") { Conflicts::TakeOver } else { Conflicts::Fail },
            is_dry_run: query.get("dryRun").is_some_and(|value| value == "All"),
            now: server.now.clone(),
            is_sketch: server.fidelity == Fidelity::Sketch,
            kind,
            target,
        }
    }

    fn by(&self) -> By<'_> {
        By {
            manager: &self.manager,
            api_version: &self.kind.api_version,
            subresource: self.target.subresource,
            now: &self.now,
            reset: &self.reset,
        }
    }

    fn key(&self, name: &str) -> Key {
        self.kind.key(self.target.namespace, name)
    }

    /// Returns an object of the kind without any field set.
    fn nothing(&self) -> Value {
        if self.is_sketch {
            return json!({});
        }
        let mut object = if self.kind.is_custom() { json!({}) } else { zero(self.kind.structure) };
        object["apiVersion"] = self.kind.api_version.as_str().into();
        object["kind"] = self.kind.kind.as_str().into();
        object
    }
}

impl Server {
    /// Serves a request that may write.
    pub(crate) fn write(
        &mut self,
        kind: Arc<Kind>,
        target: Target,
        query: Query,
        request: &Request,
    ) -> Result<Value, Status> {
        if request.method == "PATCH" && request.content_type == APPLY {
            yaml::check(request.body)?;
        }
        let body = match request.body {
            [] => Value::Null,
            body => serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?,
        };
        let mut write = Write::new(self, kind, target, query);
        // Options in the body of a deletion replace those in its query.
        if request.method == "DELETE" && !body.is_null() {
            write.is_dry_run = false;
        }
        let has_name = !write.target.name.is_empty();
        match (request.method, write.target.subresource) {
            ("POST", "") if !has_name => self.create(&write, body),
            ("DELETE", "") if has_name => self.delete(&write, &body),
            ("DELETE", "") => self.delete_collection(&write, query, &body),
            ("PUT" | "PATCH", "scale") => self.write_scale(&write, request.content_type, &body),
            ("PUT", _) if has_name => self.replace(&write, body),
            ("PATCH", _) if has_name => match request.content_type {
                APPLY => self.apply(&write, body),
                content_type => self.patch(&write, content_type, &body),
            },
            _ => Err(Status::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )),
        }
    }

    /// Fills in the fields that the path determines, and rejects contradictions.
    fn address(&self, write: &Write, object: &mut Value) -> Result<(), Status> {
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        let (kind, target) = (&write.kind, &write.target);
        if self.fidelity == Fidelity::Cluster {
            for (field, expected) in [("apiVersion", &kind.api_version), ("kind", &kind.kind)] {
                let found = object[field].as_str().unwrap_or_default();
                if found.is_empty() && kind.is_custom() {
                    let message = format!("the object provided is unrecognized (must be of type {})", kind.kind);
                    return Err(Status::bad_request(format!("{message}: Object '{field}' is missing")));
                }
                if !found.is_empty() && found != expected.as_str() {
                    return Err(Status::bad_request(format!(
                        "{} in the request ({found}) does not match the expected {field} ({expected})",
                        kind.plural
                    )));
                }
                object[field] = expected.as_str().into();
            }
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        if !namespace.is_empty() && namespace != target.namespace && self.fidelity == Fidelity::Cluster {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(message));
        }
        if !target.namespace.is_empty() {
            object["metadata"]["namespace"] = target.namespace.into();
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if !target.name.is_empty() && !name.is_empty() && name != target.name && self.fidelity == Fidelity::Cluster {
            let message =
                format!("the name of the object ({name}) does not match the name on the URL ({})", target.name);
            return Err(Status::bad_request(message));
        }
        if !target.name.is_empty() && (self.fidelity == Fidelity::Cluster || write.kind.is_custom()) {
            object["metadata"]["name"] = target.name.into();
        }
        Ok(())
    }

    /// Converts an object to its stored form.
    fn normalise(&self, kind: &Kind, object: &mut Value) {
        match self.fidelity {
            Fidelity::Sketch => {}
            Fidelity::Cluster if kind.is_custom() => normalise(&Type::object(METADATA), &mut object["metadata"]),
            Fidelity::Cluster => normalise(&kind.of(), object),
        }
    }

    /// Lets webhooks change an object before it is stored.
    fn admit(&mut self, write: &Write, object: &mut Value) {
        let hooks = std::mem::take(&mut self.webhooks);
        if write.target.subresource.is_empty() {
            hooks.iter().for_each(|hook| hook(&write.kind.plural, object));
        }
        self.webhooks = hooks;
    }

    /// Stores an object, unless the request is a dry run.
    fn commit(&mut self, write: &Write, key: Key, object: Value) -> Value {
        if write.is_dry_run {
            return object;
        }
        self.before_store(&write.kind, &object);
        (*self.store.write(key, write.kind.clone(), object)).clone()
    }
}
