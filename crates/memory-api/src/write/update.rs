//! Writes to an existing object: replace, patches, apply.

use serde_json::Value;

use super::{Write, rules, strategy};
use crate::kinds::Kind;
use crate::managed::{apply, update};
use crate::patch::{json_patch, merge_patch, strategic_patch};
use crate::read::as_version;
use crate::status::{Cause, Status};
use crate::{Fidelity, Server};

/// The message of a conflict with a newer version.
const STALE: &str = "the object has been modified; please apply your changes to the latest version and try again";

/// Returns the object's key in etcd, as error messages show it.
fn storage_key(write: &Write) -> String {
    let group = if write.kind.is_custom() { format!("{}/", write.kind.group()) } else { String::new() };
    format!("/registry/{group}{}/{}/{}", write.kind.plural, write.target.namespace, write.target.name)
}

/// Refuses a replacement whose uid differs from that of the existing object.
fn check_uid(write: &Write, new: &Value, old: &Value) -> Result<(), Status> {
    let [asked, uid] = [new, old].map(|object| object["metadata"]["uid"].as_str().unwrap_or_default());
    if asked.is_empty() || uid == asked {
        return Ok(());
    }
    let at = storage_key(write);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {at}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID \
         in precondition: {asked}, UID in object meta: {uid}"
    );
    Err(write.kind.about(write.target.name).conflict(&why))
}

/// Returns an applied object's name in errors: `NAMESPACE/NAME; GROUP/VERSION, Kind=KIND`.
fn typed_of(write: &Write, config: &Value) -> String {
    let text = |key: &str| config["metadata"][key].as_str().unwrap_or_default();
    format!("{}/{}; {}, Kind={}", text("namespace"), text("name"), write.kind.api_version, write.kind.kind)
}

impl Server {
    /// Returns the object that a write addresses.
    fn existing(&self, write: &Write) -> Result<Value, Status> {
        let stored = self.store.get(&write.key(write.target.name));
        let stored = stored.ok_or_else(|| write.kind.about(write.target.name).not_found())?;
        Ok(as_version(&write.kind, &stored.object))
    }

    pub(super) fn replace(&mut self, write: &Write, body: Value) -> Result<Value, Status> {
        let mut new = body;
        self.check_named(write, &new)?;
        self.address(write, &mut new)?;
        let old = match self.existing(write) {
            Err(missing) if missing.code == 404 && rules::may_create_by_replace(&write.kind) => {
                if self.fidelity == Fidelity::Cluster && write.target.subresource.is_empty() {
                    check_uid(write, &new, &Value::Null)?;
                    return self.create(write, new);
                }
                return Err(missing);
            }
            found => found?,
        };
        check_uid(write, &new, &old)?;
        self.normalise(&write.kind, &mut new);
        update(&write.kind.of(), &old, &mut new, &write.by());
        self.store_next(write, &old, new)
    }

    fn check_named(&self, write: &Write, new: &Value) -> Result<(), Status> {
        let is_named = new["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty());
        if is_named || self.fidelity == Fidelity::Sketch {
            return Ok(());
        }
        let name = write.target.name;
        let why = "was undeterminable: name must be provided";
        Err(Status::bad_request(format!("the name of the object ({name} based on URL) {why}")))
    }

    /// Applies a merge, strategic or JSON patch.
    pub(super) fn patch(&mut self, write: &Write, content_type: &str, patch: &Value) -> Result<Value, Status> {
        if content_type == "application/strategic-merge-patch+json" && write.kind.is_custom() {
            let message = "the body of the request was in an unknown format - accepted media types include: \
                           application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            return Err(Status::new(415, "UnsupportedMediaType", message));
        }
        let old = self.existing(write)?;
        let mut new = old.clone();
        match content_type {
            "application/json-patch+json" => {
                json_patch(&mut new, patch).map_err(|message| Status::new(422, "Invalid", message))?;
            }
            "application/strategic-merge-patch+json" => strategic_patch(&write.kind.of(), &mut new, patch),
            _ => merge_patch(&mut new, patch),
        }
        self.check_named(write, &new)?;
        self.address(write, &mut new)?;
        self.normalise(&write.kind, &mut new);
        update(&write.kind.of(), &old, &mut new, &write.by());
        self.store_next(write, &old, new)
    }

    /// Applies an object by server-side apply.
    pub(super) fn apply(&mut self, write: &Write, body: Value) -> Result<Value, Status> {
        let mut config = body;
        self.check_apply(write, &config)?;
        let old = match self.existing(write) {
            Ok(old) => Some(old),
            Err(missing) if !write.target.subresource.is_empty() => return Err(missing),
            Err(_) => None,
        };
        if let (None, Some(uid)) = (&old, config["metadata"]["uid"].as_str()) {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(write.kind.about(write.target.name).conflict(&why));
        }
        self.address(write, &mut config)?;
        if old.is_none() {
            self.check_namespace(write, write.target.name)?;
        }
        let live = old.clone().unwrap_or_else(|| write.nothing());
        let applied = apply(&write.kind.of(), &live, &config, &write.by(), write.conflicts);
        let mut object = applied.map_err(|refusal| refusal.status(&typed_of(write, &config)))?.object;
        self.check_nulls(write, &object)?;
        self.normalise(&write.kind, &mut object);
        match old {
            None => self.store_new(write, object),
            Some(old) => self.store_next(write, &old, object),
        }
    }

    /// Returns a kind's name in messages about invalid objects: `Deployment.apps`.
    pub(super) fn kind_in_errors(&self, kind: &Kind) -> String {
        match kind.group() {
            group if !group.is_empty() && self.fidelity == Fidelity::Cluster => format!("{}.{group}", kind.kind),
            _ => kind.kind.clone(),
        }
    }

    /// Rejects a custom resource whose `spec` or `status` became null when its last field was removed: the server
    /// validates that null.
    fn check_nulls(&self, write: &Write, object: &Value) -> Result<(), Status> {
        if self.fidelity == Fidelity::Sketch || !write.kind.is_custom() {
            return Ok(());
        }
        let is_null = |field: &&str| object.get(*field).is_some_and(Value::is_null);
        let Some(field) = ["spec", "status"].into_iter().find(is_null) else { return Ok(()) };
        let why = format!("{field} in body must be of type object: \"null\"");
        let cause = Cause::invalid(field, &"null".into(), &why);
        let kind = self.kind_in_errors(&write.kind);
        Err(Status::invalid(&kind, write.target.name, &Cause { reason: "FieldValueTypeInvalid", ..cause }))
    }

    fn check_apply(&self, write: &Write, config: &Value) -> Result<(), Status> {
        if self.fidelity == Fidelity::Sketch {
            return Ok(());
        }
        if config["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let (found, expected) = (config["apiVersion"].as_str().unwrap_or_default(), &write.kind.api_version);
        if found != expected.as_str() {
            let message = format!(
                "Incorrect version specified in apply patch. Specified patch version: {found}, expected: {expected}"
            );
            return Err(Status::bad_request(message));
        }
        Ok(())
    }

    /// Stores the next state of an object whose managed fields are complete.
    pub(super) fn store_next(&mut self, write: &Write, old: &Value, mut new: Value) -> Result<Value, Status> {
        self.check_version(write, old, &mut new)?;
        self.admit(write, &mut new);
        strategy::prepare_update(&write.kind, write.target.subresource, &mut new, old);
        rules::carry_over(&mut new, old);
        self.normalise(&write.kind, &mut new);
        if let Some(cause) = rules::violated(self, write, &new, old) {
            return Err(Status::invalid(&self.kind_in_errors(&write.kind), write.target.name, &cause));
        }
        if rules::is_same(&new, old) {
            return Ok(old.clone());
        }
        let key = write.key(write.target.name);
        if rules::is_gone(&write.kind, &new, old) {
            if !write.is_dry_run {
                self.take(&key);
            }
            return Ok(new);
        }
        Ok(self.commit(write, key, new))
    }

    fn check_version(&self, write: &Write, old: &Value, new: &mut Value) -> Result<(), Status> {
        let current = &old["metadata"]["resourceVersion"];
        let asked = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if asked.is_empty() {
            if self.fidelity == Fidelity::Cluster && !rules::may_write_blindly(&write.kind) {
                let zero = Value::from("0x0");
                let cause = Cause::invalid("metadata.resourceVersion", &zero, "must be specified for an update");
                let cause = Cause { message: cause.message.replace("\"0x0\"", "0x0"), ..cause };
                let about = write.kind.about("");
                let dot = if about.group.is_empty() { "" } else { "." };
                let kind = format!("{}{dot}{}", about.plural, about.group);
                return Err(Status::invalid(&kind, write.target.name, &cause));
            }
            new["metadata"]["resourceVersion"] = current.clone();
        } else if *current != asked {
            return Err(write.kind.about(write.target.name).conflict(STALE));
        }
        Ok(())
    }
}
