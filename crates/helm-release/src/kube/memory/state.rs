//! The objects of an in-memory API server, and how it serves requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Disturbance;
use super::changes::{Log, is_member, shown, wants_metadata};
use super::fields::{drop_fields, fields, merge_patch, overlay, record_update};
use super::selector::Selector;
use crate::kube::api::{Call, Error};
use crate::kube::refusal::refusal;

/// A kind that discovery lists.
pub(super) struct Kind {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) plural: String,
    /// `Namespaced` or `Cluster`.
    pub(super) scope: &'static str,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) objects: BTreeMap<String, Arc<Value>>,
    pub(super) kinds: Vec<Kind>,
    /// Group versions whose server does not answer.
    pub(super) stale: Vec<String>,
    /// Plurals, and pointers to fields that cannot change.
    pub(super) immutable: Vec<(String, String)>,
    pub(super) version: u64,
    pub(super) changes: Log,
    /// The version of the last write, for whoever waits for the next one.
    pub(super) written: tokio::sync::watch::Sender<u64>,
    is_dry_run: bool,
    pub(super) log: Vec<String>,
    pub(super) writes: usize,
    pub(super) writes_left: Option<usize>,
    pub(super) disturbances: Vec<(String, usize, Disturbance)>,
    /// A fault after this many requests.
    pub(super) disturb_request: Option<(usize, Disturbance)>,
}

impl State {
    pub(super) fn disturbance(&mut self, call: &Call) -> Option<Disturbance> {
        match self.disturb_request.take() {
            Some((0, how)) => return Some(how),
            Some((left, how)) => self.disturb_request = Some((left - 1, how)),
            None => {}
        }
        let line = format!("{} {}", call.method, call.path);
        let at = self.disturbances.iter().position(|(text, left, _)| *left > 0 && line.contains(text))?;
        self.disturbances[at].1 -= 1;
        Some(self.disturbances[at].2)
    }

    pub(super) fn serve(&mut self, call: &Call, refused: Option<Error>) -> Result<Value, Error> {
        let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
        if self.writes_left == Some(0) {
            return Err(Error::Transport("the process died".into()));
        }
        if call.method != Method::GET {
            self.writes += 1;
            self.writes_left = self.writes_left.map(|left| left - 1);
        }
        self.log.push(format!("{} {path}", call.method));
        if let Some(refused) = refused {
            return Err(refused);
        }
        let manager = query.split('&').find_map(|part| part.strip_prefix("fieldManager=")).unwrap_or("unknown");
        let body = call.body.as_ref().map(|(_, json)| serde_json::from_slice(json)).transpose().map_err(Error::Json)?;
        let body = body.unwrap_or(Value::Null);
        let kind = call.body.as_ref().map_or("", |(content_type, _)| *content_type);
        match (call.method.as_str(), kind) {
            // Without the `Accept` header for aggregated discovery, a server sends the older format.
            ("GET", _) if ["/api", "/apis"].contains(&path) && !wants_aggregated(call) => {
                Ok(json!({"kind": "APIVersions", "versions": ["v1"]}))
            }
            ("GET", _) => self.get(path, query, call.accept),
            ("POST", _) if query.contains("dryRun=All") => self.dry_run(|state| state.post(path, body, manager)),
            ("POST", _) => self.post(path, body, manager),
            ("DELETE", _) => self.delete(path, &body),
            (_, "application/apply-patch+yaml") if query.contains("dryRun=All") => {
                self.dry_run(|state| state.apply(path, body, manager))
            }
            (_, "application/apply-patch+yaml") => self.apply(path, body, manager),
            (_, "application/merge-patch+json") => self.merge(path, body, manager),
            (_, "application/json-patch+json") => self.json_patch(path, body),
            _ => self.replace(path, body),
        }
    }

    /// Answers without storing anything.
    fn dry_run(&mut self, serve: impl FnOnce(&mut State) -> Result<Value, Error>) -> Result<Value, Error> {
        let (objects, version) = (self.objects.clone(), self.version);
        self.is_dry_run = true;
        let answer = serve(self);
        self.is_dry_run = false;
        (self.objects, self.version) = (objects, version);
        answer
    }

    /// Stores an object, or removes it.
    pub(super) fn write(&mut self, path: &str, object: Option<Value>) {
        let after = object.map(Arc::new);
        let before = match &after {
            Some(object) => self.objects.insert(path.into(), object.clone()),
            None => self.objects.remove(path),
        };
        if !self.is_dry_run {
            self.changes.record(path, self.version, before, after);
            self.written.send_replace(self.version);
        }
    }

    /// Returns whether the server serves a collection at the path.
    pub(super) fn check_collection(&self, path: &str) -> Result<(), Error> {
        let is_served = path.rsplit('/').next().is_some_and(|last| self.kinds.iter().any(|kind| kind.plural == last));
        if is_served { Ok(()) } else { Err(refused(404, "NotFound", path)) }
    }

    fn get(&self, path: &str, query: &str, accept: Option<&str>) -> Result<Value, Error> {
        if path == "/api" || path == "/apis" {
            return Ok(self.discovery(path));
        }
        if path == "/version" {
            return Ok(json!({"gitVersion": "v1.36.0"}));
        }
        if let Some(object) = self.objects.get(path) {
            return Ok(shown(object, accept));
        }
        self.check_collection(path)?;
        let selector = Selector::of_query(query);
        let selected = |(at, object): &(&String, &Arc<Value>)| is_member(at, path) && selector.selects(object);
        let items: Vec<Value> = self.objects.iter().filter(selected).map(|(_, object)| shown(object, accept)).collect();
        // Servers send `null` for an empty metadata list.
        let items = if items.is_empty() { Value::Null } else { json!(items) };
        let mut list = json!({"items": items, "metadata": {"resourceVersion": self.version.to_string()}});
        if wants_metadata(accept) {
            list["kind"] = "PartialObjectMetadataList".into();
            list["apiVersion"] = "meta.k8s.io/v1".into();
        }
        Ok(list)
    }

    /// The groups below `/api`, the core group only, or `/apis`.
    fn discovery(&self, root: &str) -> Value {
        let mut groups: BTreeMap<&str, BTreeMap<&str, Vec<Value>>> = BTreeMap::new();
        for Kind { api_version, kind, plural, scope } in &self.kinds {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let resource = json!({
                "resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": ["get", "list", "delete"],
            });
            groups.entry(group).or_default().entry(version).or_default().push(resource);
        }
        for api_version in &self.stale {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            groups.entry(group).or_default().entry(version).or_default();
        }
        let freshness = |group: &str, version: &str| {
            let is_stale = self.stale.iter().any(|stale| *stale == format!("{group}/{version}"));
            if is_stale { "Stale" } else { "Current" }
        };
        let items: Vec<Value> = groups
            .into_iter()
            .filter(|(group, _)| group.is_empty() == (root == "/api"))
            .map(|(group, versions)| {
                let version = |(version, resources)| {
                    json!({"version": version, "freshness": freshness(group, version), "resources": resources})
                };
                json!({"metadata": {"name": group}, "versions": versions.into_iter().map(version).collect::<Vec<_>>()})
            })
            .collect();
        json!({"items": items})
    }

    fn post(&mut self, path: &str, mut body: Value, manager: &str) -> Result<Value, Error> {
        if let (None, Some(prefix)) = (body["metadata"]["name"].as_str(), body["metadata"]["generateName"].as_str()) {
            body["metadata"]["name"] = format!("{prefix}{}", self.version).into();
        }
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let at = format!("{path}/{name}");
        if self.objects.contains_key(&at) {
            return Err(refused(409, "AlreadyExists", &at));
        }
        body["metadata"]["uid"] = format!("uid-{}", self.version + 1).into();
        record_update(&json!({}), &mut body, manager);
        self.store(&at, body)
    }

    fn store(&mut self, path: &str, mut object: Value) -> Result<Value, Error> {
        self.check_immutable(path, &object)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if let Some((namespace, _)) = path.split_once("/namespaces/").and_then(|(_, rest)| rest.split_once('/')) {
            object["metadata"]["namespace"] = namespace.into();
        }
        let no_finalizers = object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if object["metadata"]["deletionTimestamp"].is_string() && no_finalizers {
            self.write(path, None);
        } else {
            self.write(path, Some(object.clone()));
        }
        Ok(object)
    }

    /// Rejects changes of immutable fields, in the words of a server.
    fn check_immutable(&self, path: &str, new: &Value) -> Result<(), Error> {
        let Some(old) = self.objects.get(path) else { return Ok(()) };
        let changes = |field: &&(String, String)| {
            path.contains(&format!("/{}/", field.0)) && old.pointer(&field.1) != new.pointer(&field.1)
        };
        let Some((_, pointer)) = self.immutable.iter().find(changes) else { return Ok(()) };
        let (kind, name) = (new["kind"].as_str().unwrap_or_default(), path.rsplit('/').next().unwrap_or_default());
        let field = pointer.trim_start_matches('/').replace('/', ".");
        let why = "Invalid value: {}: field is immutable";
        let cause = json!({"reason": "FieldValueInvalid", "field": field, "message": why});
        let message = format!("{kind} {name:?} is invalid: {field}: {why}");
        let status = json!({"reason": "Invalid", "message": message, "details": {"causes": [cause]}});
        Err(refusal(422, status.to_string().as_bytes()))
    }

    fn apply(&mut self, path: &str, body: Value, manager: &str) -> Result<Value, Error> {
        let (path, subresource) = path.strip_suffix("/status").map_or((path, ""), |path| (path, "status"));
        let old = self.objects.get(path);
        let wanted = body["metadata"]["resourceVersion"].as_str();
        if let (Some(old), Some(wanted)) = (old, wanted)
            && old["metadata"]["resourceVersion"] != wanted
        {
            return Err(refused(409, "Conflict", path));
        }
        if old.is_none() && !subresource.is_empty() {
            return Err(refused(404, "NotFound", path));
        }
        let uid = &body["metadata"]["uid"];
        if uid.is_string() && old.is_none_or(|old| old["metadata"]["uid"] != *uid) {
            return Err(refused(409, "Conflict", path));
        }
        let mut object = old
            .map_or_else(|| json!({"metadata": {"uid": format!("uid-{}", self.version + 1)}}), |old| (**old).clone());
        let ours = |m: &Value| {
            m["manager"] == manager
                && m["operation"] == "Apply"
                && m["subresource"].as_str().unwrap_or("") == subresource
        };
        let managers = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let before = managers.iter().find(|m| ours(m)).map(|m| m["fieldsV1"].clone());
        if let Some(before) = before {
            drop_fields(&mut object, &before, &body);
        }
        let unchanged = object.clone();
        overlay(&mut object, &body);
        object["metadata"]["resourceVersion"] = unchanged["metadata"]["resourceVersion"].clone();
        let mut managers: Vec<Value> = managers.into_iter().filter(|m| !ours(m)).collect();
        managers.push(
            json!({"manager": manager, "operation": "Apply", "subresource": subresource, "fieldsV1": fields(&body)}),
        );
        object["metadata"]["managedFields"] = managers.into();
        if self.objects.get(path).is_some_and(|old| **old == object) {
            return Ok(object);
        }
        self.store(path, object)
    }

    fn merge(&mut self, path: &str, body: Value, manager: &str) -> Result<Value, Error> {
        let path = path.strip_suffix("/status").unwrap_or(path);
        let old = self.objects.get(path).cloned().ok_or_else(|| refused(404, "NotFound", path))?;
        let mut object = (*old).clone();
        let version = &body["metadata"]["resourceVersion"];
        if version.is_string() && *version != object["metadata"]["resourceVersion"] {
            return Err(refused(409, "Conflict", path));
        }
        let uid = &body["metadata"]["uid"];
        if uid.is_string() && *uid != object["metadata"]["uid"] {
            return Err(refused(409, "Conflict", path));
        }
        merge_patch(&mut object, &body);
        record_update(&old, &mut object, manager);
        self.store(path, object)
    }

    fn json_patch(&mut self, path: &str, body: Value) -> Result<Value, Error> {
        let mut object =
            self.objects.get(path).map(|old| (**old).clone()).ok_or_else(|| refused(404, "NotFound", path))?;
        for step in body.as_array().into_iter().flatten() {
            let pointer = step["path"].as_str().unwrap_or_default();
            if pointer == "/metadata/resourceVersion" && step["value"] != object["metadata"]["resourceVersion"] {
                return Err(refused(409, "Conflict", path));
            }
            let at = object.pointer_mut(pointer).ok_or_else(|| refused(422, "Invalid", path))?;
            *at = step["value"].clone();
        }
        self.store(path, object)
    }

    fn replace(&mut self, path: &str, body: Value) -> Result<Value, Error> {
        if !self.objects.contains_key(path) {
            return Err(refused(404, "NotFound", path));
        }
        self.store(path, body)
    }

    fn delete(&mut self, path: &str, options: &Value) -> Result<Value, Error> {
        let object = self.objects.get(path).cloned().ok_or_else(|| refused(404, "NotFound", path))?;
        for field in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][field];
            if wanted.is_string() && *wanted != object["metadata"][field] {
                return Err(refused(409, "Conflict", path));
            }
        }
        let mut object = (*object).clone();
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        self.store(path, object)
    }
}

fn wants_aggregated(discovery: &Call) -> bool {
    discovery.accept.is_some_and(|accept| accept.contains("APIGroupDiscoveryList"))
}

pub(super) fn refused(code: u16, reason: &str, path: &str) -> Error {
    Error::from_status(code, reason, &format!("{path}: {reason}"))
}
