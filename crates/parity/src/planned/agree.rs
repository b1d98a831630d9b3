//! Compares a plan with what was sent and what became of the objects: pure.

use std::collections::{BTreeMap, BTreeSet};

use go_encoding::{json, yaml};
use serde_json::Value;

use crate::live::Id;

/// The annotation that distinguishes the runs of a hook.
const HOOK_RUN: &str = "helm.sdk.operatorframework.io/hook-run";

/// What a plan shows for what only the write itself brings.
const ASSIGNED: &str = "(assigned)";

/// A write that was sent, with the path of its object as plans name it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The object's path, also for `POST`; ends with the subresource, if there is one.
    pub path: String,
    /// Whether nothing is stored.
    pub is_dry_run: bool,
    /// The body; `null` without one.
    pub body: Value,
}

/// Objects by path; `None` for those that do not exist.
pub type States = BTreeMap<String, Option<Value>>;

/// What no plan can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknowable {
    /// What only the write itself brings: uids, addresses, ports. The plan says so.
    Assigned,
    /// What the chart's templates choose at random, or take from the clock.
    Random,
}

/// How a plan compares with what followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// The writes in both.
    pub writes: usize,
    /// The objects whose fields were compared.
    pub objects: usize,
    /// The changed lines of their YAML that the plan shows and that became true.
    pub lines: usize,
    /// What differs, for people.
    pub differences: Vec<String>,
    /// Lines that no plan can know.
    pub unknowable: BTreeMap<Unknowable, usize>,
}

/// Returns the paths of the objects that a plan writes, without release records and the resource itself.
pub fn objects(plan: &Value, resource: &str) -> BTreeSet<String> {
    let writes = plan["writes"].as_array().into_iter().flatten();
    let paths = writes.filter_map(|write| write["path"].as_str()).map(|path| object_path(path).to_owned());
    paths.filter(|path| path != resource && !is_record(path)).collect()
}

/// Compares the writes of a plan with those that were sent, as lines. Writes of the resource's status follow events, so
/// that their number is not planned.
pub fn writes(plan: &Value, sent: &[Sent]) -> Agreement {
    let line = |method: &str, path: &str| (!path.ends_with("/status")).then(|| format!("{method} {path}"));
    let mut planned: Vec<String> = plan["writes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|write| line(write["method"].as_str()?, write["path"].as_str()?))
        .collect();
    let mut agreement = Agreement::default();
    for write in sent.iter().filter(|write| !write.is_dry_run) {
        let Some(line) = line(&write.method, &write.path) else { continue };
        match planned.iter().position(|planned| *planned == line) {
            Some(at) => {
                planned.remove(at);
                agreement.writes += 1;
            }
            None => agreement.differences.push(format!("sent, not planned: {line}")),
        }
    }
    agreement.differences.extend(planned.iter().map(|line| format!("planned, not sent: {line}")));
    agreement
}

/// Compares what was sent with the dry runs of the plan: the bodies of equal writes are equal. Returns differences.
/// Only the first write of a kind to an object is compared: the plan answers further ones from memory.
pub fn bodies(dry: &[Sent], sent: &[Sent]) -> Vec<String> {
    let (mut differences, mut seen) = (Vec::new(), BTreeSet::new());
    for write in sent.iter().filter(|write| !write.is_dry_run && !is_record(&write.path)) {
        if !seen.insert((&write.method, &write.path)) {
            continue;
        }
        let same: Vec<&Sent> = dry.iter().filter(|one| one.method == write.method && one.path == write.path).collect();
        let wanted = comparable(&write.body);
        if !same.is_empty() && !same.iter().any(|one| comparable(&one.body) == wanted) {
            let paths = changed(&comparable(&same[0].body), &wanted).join(", ");
            differences.push(format!("sent with another body: {} {}: {paths}", write.method, write.path));
        }
    }
    differences
}

/// Returns a body without what differs between a dry run and the write: preconditions, and the dry run itself.
fn comparable(body: &Value) -> Value {
    let mut body = body.clone();
    for pointer in ["", "/metadata", "/preconditions"] {
        if let Some(map) = body.pointer_mut(pointer).and_then(Value::as_object_mut) {
            ["resourceVersion", "uid", "dryRun", "managedFields"].iter().for_each(|key| _ = map.remove(*key));
        }
    }
    if let Some(annotations) = body.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(HOOK_RUN);
    }
    for owner in body.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
        owner["uid"] = Value::Null;
    }
    body
}

/// Returns the paths of the leaves that differ.
fn changed(old: &Value, new: &Value) -> Vec<String> {
    let (old, new) = (crate::compare::leaves(old), crate::compare::leaves(new));
    let all: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    all.into_iter().filter(|path| old.get(*path) != new.get(*path)).cloned().collect()
}

/// Compares the fields: each object that the plan writes changes as the plan shows, and in no other way. `again` is a
/// second plan of the same change: what differs between the two is random.
pub fn fields(plan: &Value, again: &Value, before: &States, after: &States) -> Agreement {
    let mut agreement = Agreement::default();
    for (path, new) in after {
        let old = before.get(path).and_then(Option::as_ref);
        let new = new.as_ref();
        let Some(shown) = new.or(old) else { continue };
        agreement.objects += 1;
        let (change, other) = (change_of(plan, path, shown), change_of(again, path, shown));
        let diff = |change: Option<&Value>| {
            change.map_or(String::new(), |one| one["diff"].as_str().unwrap_or_default().to_owned())
        };
        let (old_text, new_text) = (text(old, new, "before"), text(new, old, "after"));
        let id = id(path, shown);
        let planned = match apply(&diff(change), &old_text) {
            Ok(lines) => lines,
            Err(why) => {
                agreement.differences.push(format!("{id}: {why}"));
                continue;
            }
        };
        let again = apply(&diff(other), &old_text).unwrap_or_default();
        agreement.lines += diff(change).lines().skip(2).filter(|line| line.starts_with(['+', '-'])).count();
        agreement.compare(&id, &planned, &again, &new_text.lines().map(str::to_owned).collect::<Vec<_>>());
        let wanted: Vec<&str> =
            change.and_then(|one| one["losers"].as_array()).into_iter().flatten().filter_map(Value::as_str).collect();
        if let (Some(old), Some(new)) = (old, new)
            && losers(old, new) != wanted
        {
            agreement.differences.push(format!("{id}: {wanted:?} lose fields, really {:?}", losers(old, new)));
        }
    }
    agreement
}

impl Agreement {
    /// Adds another comparison of the same plan.
    pub fn add(&mut self, other: Agreement) {
        self.writes += other.writes;
        self.objects += other.objects;
        self.lines += other.lines;
        self.differences.extend(other.differences);
        for (why, count) in other.unknowable {
            *self.unknowable.entry(why).or_default() += count;
        }
    }

    /// Compares an object's lines after the plan with those that it really has.
    fn compare(&mut self, id: &Id, planned: &[String], again: &[String], real: &[String]) {
        if planned.len() != real.len() {
            if again.len() != planned.len() {
                *self.unknowable.entry(Unknowable::Random).or_default() += 1;
                return;
            }
            let at = planned.iter().zip(real).position(|(a, b)| a != b).unwrap_or(planned.len().min(real.len()));
            let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
            let why = format!(
                "{id}: {} lines planned, really {}; {:?} planned, really {:?}",
                planned.len(),
                real.len(),
                line(planned),
                line(real)
            );
            self.differences.push(why);
            return;
        }
        for (at, (planned, real)) in planned.iter().zip(real).enumerate() {
            if is_masked_equal(planned, real) {
                continue;
            }
            let is_random = again.get(at).is_none_or(|again| again != planned);
            let why = match is_masked_equal(&planned.replace(ASSIGNED, "****"), real) {
                true => Unknowable::Assigned,
                false if is_random => Unknowable::Random,
                false => {
                    self.differences.push(format!("{id}: {planned:?} planned, really {real:?}"));
                    continue;
                }
            };
            *self.unknowable.entry(why).or_default() += 1;
        }
    }
}

/// Returns whether a line of a plan, in which words are hidden, can stand for a real one.
fn is_masked_equal(planned: &str, real: &str) -> bool {
    let mut parts = planned.split("****");
    let Some(mut rest) = parts.next().and_then(|first| real.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

fn change_of<'p>(plan: &'p Value, path: &str, shown: &Value) -> Option<&'p Value> {
    let id = id(path, shown);
    let is_it = |change: &&Value| {
        let object = &change["object"];
        object["kind"] == id.kind.as_str()
            && object["name"] == id.name.as_str()
            && object["namespace"].as_str().unwrap_or_default() == id.namespace
            && object["apiVersion"].as_str().is_some_and(|version| group(version) == id.group)
    };
    plan["changes"].as_array()?.iter().find(is_it)
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn id(path: &str, object: &Value) -> Id {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let is_core = parts.first() == Some(&"api");
    let rest = parts.get(if is_core { 2 } else { 3 }..).unwrap_or_default();
    let namespace = if rest.first() == Some(&"namespaces") && rest.len() > 2 { rest[1] } else { "" };
    Id {
        group: if is_core { String::new() } else { parts.get(1).copied().unwrap_or_default().to_owned() },
        kind: object["kind"].as_str().unwrap_or_default().to_owned(),
        namespace: namespace.to_owned(),
        name: parts.last().copied().unwrap_or_default().to_owned(),
    }
}

/// Applies a unified diff to a text. Returns the lines of the result.
fn apply(diff: &str, before: &str) -> Result<Vec<String>, String> {
    let before: Vec<&str> = before.lines().collect();
    let (mut after, mut at) = (Vec::new(), 0);
    for line in diff.lines().skip(2) {
        if let Some(hunk) = line.strip_prefix("@@ -") {
            let start = hunk.split([',', ' ']).next().and_then(|start| start.parse::<usize>().ok()).unwrap_or(1);
            let start = start.saturating_sub(1).min(before.len());
            after.extend(before.get(at..start).unwrap_or_default().iter().map(|line| (*line).to_owned()));
            at = start;
            continue;
        }
        let (sign, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        if sign != "+" {
            let real = before.get(at).copied().unwrap_or_default();
            if !is_masked_equal(text, real) {
                return Err(format!("{text:?} before the change, really {real:?}"));
            }
            at += 1;
            if sign == " " {
                after.push(real.to_owned());
            }
        } else {
            after.push(text.to_owned());
        }
    }
    after.extend(before[at..].iter().map(|line| (*line).to_owned()));
    Ok(after)
}

/// Returns an object's text as plans compare it: without what the API server and controllers set, and without a
/// Secret's contents.
fn text(object: Option<&Value>, other: Option<&Value>, side: &str) -> String {
    const SERVERS: [&str; 6] =
        ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"];
    let Some(object) = object else { return String::new() };
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        SERVERS.iter().for_each(|field| _ = metadata.remove(*field));
    }
    if object["kind"] == "Secret" {
        for (key, value) in object.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten() {
            let is_same = other.is_none_or(|other| other["data"].get(key).is_none_or(|known| known == value));
            *value = if is_same { "****".into() } else { format!("**** ({side})").into() };
        }
    }
    yaml::emit(&json::from_serde(&object)).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
}

/// Returns the managers other than the operator that own fewer fields afterwards, sorted.
fn losers(before: &Value, after: &Value) -> Vec<String> {
    let owned = |object: &Value| -> BTreeMap<[String; 3], usize> {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let key = |entry: &Value| {
            ["manager", "operation", "subresource"].map(|key| entry[key].as_str().unwrap_or_default().to_owned())
        };
        entries.iter().map(|entry| (key(entry), owned_fields(&entry["fieldsV1"]))).collect()
    };
    let now = owned(after);
    let lost = owned(before).into_iter().filter(|(key, count)| now.get(key).copied().unwrap_or(0) < *count);
    let names: BTreeSet<String> =
        lost.map(|(key, _)| key[0].clone()).filter(|name| !name.starts_with("helm-operator")).collect();
    names.into_iter().collect()
}

fn owned_fields(fields: &Value) -> usize {
    match fields.as_object() {
        Some(inner) if !inner.is_empty() => inner.values().map(owned_fields).sum(),
        _ => 1,
    }
}

fn is_record(path: &str) -> bool {
    path.contains("/secrets/sh.helm.release.")
}

/// Returns a path without its subresource.
fn object_path(path: &str) -> &str {
    path.strip_suffix("/status").or_else(|| path.strip_suffix("/scale")).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MAP: &str = "/api/v1/namespaces/ns/configmaps/a";

    fn map(value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": value}, "metadata": {"name": "a", "uid": "u"}})
    }

    fn plan(diff: &str) -> Value {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "a"});
        let writes = json!([{"method": "PATCH", "path": MAP}]);
        json!({"writes": writes, "changes": [{"object": object, "action": "update", "diff": diff}]})
    }

    fn sent(method: &str, path: &str, body: Value) -> Sent {
        Sent { method: method.to_owned(), path: path.to_owned(), is_dry_run: false, body }
    }

    fn states(object: Option<Value>) -> States {
        [(MAP.to_owned(), object)].into()
    }

    fn compared(diff: &str, before: Option<Value>, after: Option<Value>) -> Vec<String> {
        fields(&plan(diff), &plan(diff), &states(before), &states(after)).differences
    }

    #[test]
    fn a_write_that_only_one_side_has_is_a_difference_and_so_is_a_second_one() {
        let write = |method| sent(method, MAP, Value::Null);
        let check = |sent: &[Sent]| writes(&plan(""), sent).differences;
        assert!(check(&[write("PATCH"), sent("PATCH", "/apis/x/v1/y/z/status", Value::Null)]).is_empty());
        assert_eq!(check(&[]), [format!("planned, not sent: PATCH {MAP}")]);
        assert_eq!(check(&[write("PATCH"), write("PATCH")]), [format!("sent, not planned: PATCH {MAP}")]);
        assert_eq!(check(&[write("PATCH"), write("DELETE")]), [format!("sent, not planned: DELETE {MAP}")]);
    }

    #[test]
    fn an_object_has_to_change_as_its_diff_shows() {
        let diff = |new: &str| {
            format!(
                "--- a\n+++ a\n@@ -1,6 +1,6 @@\n apiVersion: v1\n data:\n-  x: old\n+  x: {new}\n kind: ConfigMap\n metadata:\n   name: a\n"
            )
        };
        let (old, new) = (|| Some(map("old")), || Some(map("new")));
        assert!(compared(&diff("new"), old(), new()).is_empty());
        assert!(compared(&diff("'****'"), old(), new()).len() == 1, "only the hidden word may differ");
        assert!(compared(&diff("****"), old(), new()).is_empty());
        assert!(compared(&diff("(assigned)"), old(), new()).is_empty());
        let wrong = "ConfigMap ns/a: \"  x: other\" planned, really \"  x: new\"";
        assert_eq!(compared(&diff("other"), old(), new()), [wrong]);
        let unseen = "ConfigMap ns/a: \"  x: old\" planned, really \"  x: new\"";
        assert_eq!(compared("", old(), new()), [unseen], "a change that the plan does not show");
        assert!(compared("", old(), old()).is_empty());
        assert_eq!(compared(&diff("new"), new(), new()).len(), 1, "another state before");
    }

    #[test]
    fn an_object_that_comes_or_goes_is_shown_whole() {
        let whole = |sign: &str| {
            let lines = ["apiVersion: v1", "data:", "  x: new", "kind: ConfigMap", "metadata:", "  name: a"];
            lines.map(|line| format!("{sign}{line}\n")).concat()
        };
        assert!(
            compared(&format!("--- (none)\n+++ a\n@@ -1,0 +1,6 @@\n{}", whole("+")), None, Some(map("new"))).is_empty()
        );
        assert!(
            compared(&format!("--- a\n+++ (none)\n@@ -1,6 +1,0 @@\n{}", whole("-")), Some(map("new")), None).is_empty()
        );
        assert_eq!(compared("", Some(map("new")), None).len(), 1);
    }

    #[test]
    fn what_differs_between_two_plans_is_random() {
        let diff = |x: &str| {
            format!(
                "--- a\n+++ a\n@@ -1,6 +1,6 @@\n apiVersion: v1\n data:\n-  x: old\n+  x: {x}\n kind: ConfigMap\n metadata:\n   name: a\n"
            )
        };
        let agreement =
            fields(&plan(&diff("r1")), &plan(&diff("r2")), &states(Some(map("old"))), &states(Some(map("r3"))));
        assert_eq!((agreement.differences, agreement.unknowable), (Vec::new(), [(Unknowable::Random, 1)].into()));
    }

    #[test]
    fn bodies_are_those_of_the_dry_runs() {
        let body = |x: &str| json!({"metadata": {"uid": "u", "annotations": {HOOK_RUN: x}}, "data": {"x": "1"}});
        let other = json!({"metadata": {"annotations": {}}, "data": {"x": "2"}});
        assert!(bodies(&[sent("PATCH", MAP, body("1"))], &[sent("PATCH", MAP, body("2"))]).is_empty());
        let told = bodies(&[sent("PATCH", MAP, body("1"))], &[sent("PATCH", MAP, other)]);
        assert_eq!(told, [format!("sent with another body: PATCH {MAP}: /data/x")]);
        assert!(bodies(&[], &[sent("PATCH", MAP, body("1"))]).is_empty(), "not checked by a dry run");
    }

    #[test]
    fn a_manager_that_loses_fields_has_to_be_named() {
        let owned = |fields: Value| {
            let mut map = map("old");
            map["metadata"]["managedFields"] =
                json!([{"manager": "someone", "operation": "Update", "fieldsV1": fields}]);
            Some(map)
        };
        let (two, one) = (json!({"f:a": {}, "f:b": {}}), json!({"f:a": {}}));
        assert_eq!(
            compared("", owned(two.clone()), owned(one)),
            ["ConfigMap ns/a: [] lose fields, really [\"someone\"]"]
        );
        assert!(compared("", owned(two.clone()), owned(two)).is_empty());
    }
}
