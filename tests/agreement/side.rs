//! One of the two servers, and its responses.

use std::collections::BTreeMap;

use helm_release::kube::{Api, Call, Error};
use http::Method;
use serde_json::{Value, json};

use super::steps::{Of, Step};

/// A response without the parts that differ between servers: uids, versions and times.
pub(super) type Answer = Result<Value, Refusal>;

/// A refusal: its code and reason, and its message if both servers should give the same one.
pub(super) type Refusal = (u16, String, String);

/// A server.
pub(super) struct Side<'a> {
    api: &'a dyn Api,
    /// Uids by order of appearance.
    uids: BTreeMap<String, String>,
    /// The current and the previous objects by path.
    now: BTreeMap<String, Value>,
    before: BTreeMap<String, Value>,
}

impl<'a> Side<'a> {
    pub(super) fn new(api: &'a dyn Api) -> Side<'a> {
        Side { api, uids: BTreeMap::new(), now: BTreeMap::new(), before: BTreeMap::new() }
    }

    /// Sends a request, with versions and uids of this server. Reads all pages of a list with a limit.
    pub(super) async fn send(&mut self, step: &Step) -> Answer {
        if step.path.contains("limit=") {
            return self.pages(step).await;
        }
        if step.path.contains("resourceVersion=0") {
            // A real server's cache may lag behind writes; it catches up before it answers a read without a version.
            let list = step.path.split('?').next().unwrap_or_default();
            _ = self.api.send(Call::get(list)).await;
        }
        let body = self.body(step);
        let method = Method::from_bytes(step.method.as_bytes()).unwrap();
        let body = (step.method != "GET").then(|| (step.content_type, body.to_string().into_bytes()));
        let answer = self.api.send(Call { body, accept: step.accept, ..Call::new(method, step.path.clone()) }).await;
        self.answer(answer.and_then(|response| response.parse()))
    }

    async fn pages(&mut self, step: &Step) -> Answer {
        let (mut pages, mut token) = (Vec::new(), String::new());
        loop {
            let call = Call { accept: step.accept, ..Call::get(format!("{}{token}", step.path)) };
            let page = self.api.send(call).await;
            let page = page.and_then(|response| response.parse::<Value>());
            let next = page.as_ref().ok().and_then(|page| page["metadata"]["continue"].as_str());
            let next = next.filter(|token| !token.is_empty()).map(|token| format!("&continue={token}"));
            pages.push(self.answer(page)?);
            match next {
                Some(next) => token = next,
                None => return Ok(pages.into()),
            }
        }
    }

    /// Reads objects. Each result includes whether its version changed since the last call.
    pub(super) async fn look(&mut self, paths: &[String]) -> Vec<Answer> {
        let mut seen = Vec::new();
        for path in paths {
            let found = self.api.send(Call::get(path.clone())).await.and_then(|response| response.parse::<Value>());
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            let changed = self.now.get(path).map(version) != found.as_ref().ok().map(version);
            if changed {
                self.now.remove(path).into_iter().for_each(|old| _ = self.before.insert(path.clone(), old));
                found.iter().for_each(|new| _ = self.now.insert(path.clone(), new.clone()));
            }
            let answer = self.answer(found);
            seen.push(answer.map(|mut object| {
                object["changed"] = changed.into();
                object
            }));
        }
        seen
    }

    /// Returns events without the parts that differ between servers.
    pub(super) fn events(&mut self, mut events: Vec<Value>) -> Vec<Value> {
        events.iter_mut().for_each(|event| self.tidy(event));
        without_rewrites(events)
    }

    fn of(&self, path: &str, of: Of) -> Option<&Value> {
        match of {
            Of::Now => self.now.get(path),
            Of::Before => self.before.get(path).or(self.now.get(path)),
            Of::Nothing => None,
        }
    }

    fn body(&self, step: &Step) -> Value {
        let path = step.path.split('?').next().unwrap_or_default();
        let path = path.trim_end_matches("/status").trim_end_matches("/scale");
        let mut body = step.body.clone();
        if let Some(live) = self.now.get(path).filter(|_| step.is_replace) {
            body = replaced(live, &body);
        }
        let at = if step.method == "DELETE" { "preconditions" } else { "metadata" };
        for (field, of) in [("resourceVersion", step.version), ("uid", step.uid)] {
            if let Some(object) = self.of(path, of) {
                body[at][field] = object["metadata"][field].clone();
            } else if let Some(map) = body.get_mut(at).and_then(Value::as_object_mut) {
                map.remove(field);
            }
        }
        body
    }

    fn answer(&mut self, answer: Result<Value, Error>) -> Answer {
        match answer {
            Ok(mut value) => {
                self.tidy(&mut value);
                Ok(value)
            }
            Err(Error::Refused { code, reason, message, .. }) => Err((code, reason, self.message(code, &message))),
            Err(other) => panic!("{other}"),
        }
    }

    /// Returns the message if both servers should give the same one. Messages of other refusals come from parsers, and
    /// quote the request.
    fn message(&self, code: u16, message: &str) -> String {
        let varies =
            |word: &&str| word.contains('-') || word.contains('/') || word.contains(|c: char| c.is_ascii_digit());
        if ![404, 409].contains(&code) {
            return String::new();
        }
        message.split(' ').filter(|word| !varies(word)).collect::<Vec<_>>().join(" ")
    }

    fn tidy(&mut self, value: &mut Value) {
        let Value::Object(map) = value else {
            value.as_array_mut().into_iter().flatten().for_each(|inner| self.tidy(inner));
            return;
        };
        let is_set = |value: &&mut Value| value.as_str().is_some_and(|text| !text.is_empty());
        for (key, shown) in [
            ("resourceVersion", "VERSION"),
            ("continue", "TOKEN"),
            ("creationTimestamp", "TIME"),
            ("deletionTimestamp", "TIME"),
            ("time", "TIME"),
        ] {
            map.get_mut(key).filter(is_set).into_iter().for_each(|value| *value = shown.into());
        }
        if let Some(uid) = map.get("uid").and_then(Value::as_str).filter(|uid| uid.len() > 2) {
            let next = format!("U{}", self.uids.len());
            let shown = self.uids.entry(uid.to_owned()).or_insert(next).clone();
            map.insert("uid".into(), shown.into());
        }
        // The name is this prefix and whatever the server appended.
        if let Some(prefix) = map.get("generateName").and_then(Value::as_str) {
            let shown = format!("{prefix}*");
            map.insert("name".into(), shown.into());
        }
        // Entries of the same second may have any order.
        if let Some(Value::Array(entries)) = map.get_mut("managedFields") {
            entries.sort_by_key(|entry| {
                [&entry["operation"], &entry["manager"], &entry["subresource"]].map(Value::to_string)
            });
        }
        // A custom resource that lost its last label shows null once.
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|_, value| !value.is_null());
        }
        map.values_mut().for_each(|inner| self.tidy(inner));
    }
}

/// Drops events of custom resources that a real server wrote again only to remove nulls.
fn without_rewrites(mut events: Vec<Value>) -> Vec<Value> {
    let mut last: BTreeMap<String, Value> = BTreeMap::new();
    events.retain(|event| {
        let object = &event["object"];
        let before = last.insert(object["metadata"]["uid"].to_string(), object.clone());
        let may_repeat = object["kind"] == "Thing" || object["kind"] == "PartialObjectMetadata";
        event["type"] != "MODIFIED" || !may_repeat || before.as_ref() != Some(object)
    });
    events
}

/// Returns the live object with the fields that a step sets.
fn replaced(live: &Value, body: &Value) -> Value {
    let mut whole = live.clone();
    for (key, value) in body.as_object().into_iter().flatten() {
        if key == "metadata" {
            let metadata = value.as_object().into_iter().flatten();
            metadata.for_each(|(key, value)| whole["metadata"][key] = value.clone());
        } else {
            whole[key] = value.clone();
        }
    }
    whole
}

/// Returns the differences of two responses, for people.
pub(super) fn difference(path: &str, memory: &Value, real: &Value) -> Vec<String> {
    let absent = json!("(absent)");
    match (memory, real) {
        _ if memory == real => Vec::new(),
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let of = |map: &serde_json::Map<String, Value>, key: &str| map.get(key).unwrap_or(&absent).clone();
            keys.into_iter().flat_map(|key| difference(&format!("{path}/{key}"), &of(a, key), &of(b, key))).collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.flat_map(|(at, (a, b))| difference(&format!("{path}/{at}"), a, b)).collect()
        }
        _ => vec![format!("{path}\n    in memory: {memory}\n    real:      {real}")],
    }
}
