//! Finds the managers that took over fields of ours, by the managed fields of a live object. Reports fields and
//! managers, but never values.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::kube::fields::migrate::union;
use crate::kube::fields::unapplied::is_unapplied;
use crate::kube::objects::decorate::FIELD_MANAGER;
use crate::kube::objects::object::ObjectKey;

/// Maximum number of fields that one message names.
const MAX_FIELDS: usize = 5;

/// The key of a list item that a field set does not contain.
pub(in crate::kube) const ABSENT: &str = "[]";

/// A manager that competes for an object, and the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnershipLoss {
    /// Whether the object does not exist.
    pub gone: bool,
    /// Whether fields of others became ours, and no apply has set their values yet.
    pub unapplied: bool,
    /// The manager that last took over one of the fields; `None` if no entry has them.
    pub manager: Option<String>,
    /// Fields that we apply and no longer own, such as `.spec.replicas`.
    pub fields: Vec<String>,
}

impl OwnershipLoss {
    /// Formats it for a message about a drift loop: `x keeps changing .spec.replicas of Deployment "web"`.
    pub fn describe(&self, object: &ObjectKey) -> String {
        if self.gone { format!("someone keeps deleting {object}") } else { self.sentence("keeps changing", object) }
    }

    /// Formats it for a message about drift: `x changed .spec.replicas of Deployment "web"`.
    pub fn describe_once(&self, object: &ObjectKey) -> String {
        if self.gone { format!("{object} is gone") } else { self.sentence("changed", object) }
    }

    /// Formats it for a message that already names the object: `x changed .spec.replicas`; `None` if no field was taken
    /// over.
    pub fn describe_change(&self) -> Option<String> {
        match self.gone {
            true => Some("it was gone".to_owned()),
            false if self.fields.is_empty() => None,
            false => Some(format!("{} changed {}", self.who(), self.named_fields())),
        }
    }

    fn sentence(&self, verb: &str, object: &ObjectKey) -> String {
        let fields = self.named_fields();
        let of = if fields.is_empty() { "" } else { " of " };
        format!("{} {verb} {fields}{of}{object}", self.who())
    }

    fn who(&self) -> &str {
        self.manager.as_deref().unwrap_or("someone")
    }

    fn named_fields(&self) -> String {
        match &self.fields[..] {
            fields if fields.len() <= MAX_FIELDS => fields.join(", "),
            fields => {
                let (named, more) = (fields[..MAX_FIELDS].join(", "), fields.len() - MAX_FIELDS);
                format!("{named} and {more} more fields")
            }
        }
    }

    /// Returns whether the object has all fields that the release applies.
    pub fn is_none(&self) -> bool {
        !self.gone && !self.unapplied && self.fields.is_empty()
    }
}

/// Compares the fields that we apply with those that the live object records as ours.
pub(in crate::kube) fn ownership_loss(live: &Value, applied: &Value) -> OwnershipLoss {
    let entries = || live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let whole = |entry: &&Value| entry["subresource"].as_str().unwrap_or_default().is_empty();
    let is_ours = |entry: &&Value| entry["manager"] == FIELD_MANAGER;
    let mut ours = json!({});
    entries().filter(whole).filter(is_ours).for_each(|entry| union(&mut ours, &entry["fieldsV1"], 0));
    let mut lost = Vec::new();
    collect_lost(applied, &ours, &mut Vec::new(), &mut lost);
    // The manager that owns a lost field now wrote it; of several, the latest counts.
    let has = |entry: &&Value| lost.iter().any(|path| contains(&entry["fieldsV1"], path));
    // Autoscalers write through `scale`, so only `status` is skipped.
    let others = entries().filter(|entry| entry["subresource"] != "status").filter(|entry| !is_ours(entry)).filter(has);
    let other = others.max_by_key(|entry| entry["time"].as_str().unwrap_or_default());
    OwnershipLoss {
        gone: false,
        unapplied: is_unapplied(&live["metadata"]["managedFields"]),
        manager: other.and_then(|entry| entry["manager"].as_str()).map(str::to_owned),
        fields: lost.iter().map(|path| display_path(path)).collect(),
    }
}

/// Collects the applied fields that are not in the set, as paths of `fieldsV1` keys.
fn collect_lost(applied: &Value, set: &Value, path: &mut Vec<String>, lost: &mut Vec<Vec<String>>) {
    match applied {
        // A manager that owns a leaf owns it as a whole.
        _ if !path.is_empty() && set.as_object().is_some_and(Map::is_empty) => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                if !is_identity(path, name) && !value.is_null() {
                    step(format!("f:{name}"), value, set, path, lost);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                step(key_of_item(item, set), item, set, path, lost);
            }
        }
        _ => {}
    }
}

fn step(key: String, value: &Value, set: &Value, path: &mut Vec<String>, lost: &mut Vec<Vec<String>>) {
    let (found, has_name) = (set.get(&key), key != ABSENT);
    path.push(key);
    match (found, value) {
        (Some(inner), value) => collect_lost(value, inner, path, lost),
        // Compare field by field, because another manager may own only some of them.
        (None, Value::Object(fields)) if has_name && !fields.is_empty() => {
            collect_lost(value, &Value::Null, path, lost)
        }
        _ if lost.contains(path) => {}
        _ => lost.push(path.clone()),
    }
    path.pop();
}

/// Returns whether a field identifies the object; such fields have no manager.
fn is_identity(path: &[String], name: &str) -> bool {
    match path {
        [] => ["apiVersion", "kind"].contains(&name),
        [parent] => parent == "f:metadata" && ["name", "namespace", "uid", "resourceVersion"].contains(&name),
        _ => false,
    }
}

/// Returns a list item's key in the set, `k:{"name":"web"}` or `v:"x"`; [`ABSENT`] if it has none.
pub(in crate::kube) fn key_of_item(item: &Value, set: &Value) -> String {
    let keys = set.as_object().into_iter().flat_map(Map::keys);
    let is_item = |key: &&String| match (key.split_once(':'), item) {
        (Some(("k", fields)), Value::Object(item)) => {
            let fields: Map<String, Value> = serde_json::from_str(fields).unwrap_or_default();
            // A key may contain a field that the server defaults.
            !fields.is_empty() && fields.iter().all(|(name, value)| item.get(name).is_none_or(|v| v == value))
        }
        (Some(("v", value)), item) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item),
        _ => false,
    };
    keys.into_iter().find(is_item).cloned().unwrap_or_else(|| ABSENT.to_owned())
}

/// Returns whether a set contains the field, or a leaf above it.
fn contains(set: &Value, path: &[String]) -> bool {
    let Some((key, rest)) = path.split_first() else { return set.is_object() };
    if key == ABSENT {
        return set.is_object();
    }
    set.get(key).is_some_and(|inner| inner.as_object().is_some_and(Map::is_empty) || contains(inner, rest))
}

/// Formats a path: `.spec.template.spec.containers[name=web].image`.
fn display_path(path: &[String]) -> String {
    let mut text = String::new();
    for key in path {
        match key.split_once(':') {
            Some(("f", name)) if name.contains(['.', '/']) => _ = write!(text, "[{name}]"),
            Some(("f", name)) => _ = write!(text, ".{name}"),
            Some(("k", fields)) => {
                let fields: Map<String, Value> = serde_json::from_str(fields).unwrap_or_default();
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| {
                        format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                    })
                    .collect();
                _ = write!(text, "[{}]", fields.join(","));
            }
            // An item's value must not be shown.
            _ => text.push_str("[]"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, time: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields})
    }

    fn check(applied: Value, entries: Vec<Value>, manager: Option<&str>, fields: &[&str]) {
        let found = ownership_loss(&json!({"metadata": {"managedFields": entries}}), &applied);
        assert_eq!(
            (found.manager.as_deref(), &found.fields[..]),
            (manager, &fields.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>()[..])
        );
    }

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "ns", "labels": {"a/b": "x"}},
            "spec": {"replicas": 1, "paused": null, "template": {"spec": {"containers": [
                {"name": "web", "image": "i", "ports": [{"containerPort": 80}]}, {"name": "side", "image": "j"},
            ]}}},
        })
    }

    fn template(fields: Value) -> Value {
        json!({"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": fields}}}})
    }

    #[test]
    fn lost_fields_are_named_with_their_new_manager() {
        let ports = json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}});
        let mut ours = template(json!({".": {}, "f:name": {}, "f:ports": ports}));
        ours["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"side\"}"] =
            json!({".": {}, "f:name": {}, "f:image": {}});
        let ours = json!({"f:metadata": {"f:labels": {"f:a/b": {}}}, "f:spec": ours});
        let entries = vec![
            entry(FIELD_MANAGER, "9", ours),
            entry("kubectl", "1", json!({"f:spec": template(json!({"f:image": {}}))})),
            entry("scaler", "2", json!({"f:spec": {"f:replicas": {}}})),
            entry("bystander", "3", json!({"f:status": {"f:replicas": {}}})),
        ];
        let fields = [".spec.replicas", ".spec.template.spec.containers[name=web].image"];
        check(deployment(), entries, Some("scaler"), &fields);
    }

    #[test]
    fn our_entries_are_merged_without_subresources() {
        let mut status = entry(FIELD_MANAGER, "1", json!({"f:data": {"f:c": {}}}));
        status["subresource"] = "status".into();
        let mut other_status = entry("other", "5", json!({"f:data": {"f:c": {}}}));
        other_status["subresource"] = "status".into();
        let entries = vec![
            entry(FIELD_MANAGER, "1", json!({"f:data": {"f:a": {}}})),
            entry(FIELD_MANAGER, "2", json!({"f:data": {"f:b": {}}})),
            status,
            other_status,
        ];
        check(json!({"data": {"a": 1, "b": 2, "c": 3}}), entries, None, &[".data.c"]);
    }

    #[test]
    fn autoscalers_that_write_through_scale_are_named() {
        let mut scale = entry("autoscaler", "2", json!({"f:spec": {"f:replicas": {}}}));
        scale["subresource"] = "scale".into();
        let ours = entry(FIELD_MANAGER, "1", json!({"f:spec": {"f:paused": {}}}));
        let applied = json!({"spec": {"paused": true, "replicas": 1}});
        check(applied, vec![ours, scale], Some("autoscaler"), &[".spec.replicas"]);
    }

    #[test]
    fn owning_a_leaf_means_owning_everything_below() {
        check(
            json!({"spec": {"list": [1, {"a": 2}], "map": {"a": 1}}}),
            vec![entry(FIELD_MANAGER, "1", json!({"f:spec": {"f:list": {}, "f:map": {}}}))],
            None,
            &[],
        );
    }

    #[test]
    fn lost_set_items_are_reported_once_without_values() {
        let ours = json!({"f:spec": {"f:set": {"v:\"a\"": {}}}});
        let theirs = json!({"f:spec": {"f:set": {}}});
        let entries = vec![entry(FIELD_MANAGER, "1", ours), entry("them", "2", theirs)];
        check(json!({"spec": {"set": ["a", "secret", "hidden"]}}), entries, Some("them"), &[".spec.set[]"]);
    }

    #[test]
    fn our_set_items_are_not_lost() {
        let ours = json!({"f:spec": {"f:set": {"v:\"a\"": {}}}});
        check(json!({"spec": {"set": ["a"]}}), vec![entry(FIELD_MANAGER, "1", ours)], None, &[]);
    }

    #[test]
    fn lost_structures_without_named_fields_are_reported_whole() {
        let ours = json!({"f:spec": {"f:list": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}});
        let applied = json!({"spec": {"empty": {}, "list": [{"name": "a"}, {"name": "b", "image": "i"}]}});
        check(applied, vec![entry(FIELD_MANAGER, "1", ours)], None, &[".spec.empty", ".spec.list[]"]);
    }

    #[test]
    fn the_last_writer_of_a_whole_field_is_named() {
        let whole = |manager, time| entry(manager, time, json!({"f:spec": {"f:map": {}}}));
        let entries = vec![whole("a", "1"), whole("b", "3"), whole("c", "2")];
        check(
            json!({"spec": {"map": {"x": 1, "y": {"z": []}}}}),
            entries,
            Some("b"),
            &[".spec.map.x", ".spec.map.y.z"],
        );
    }

    #[test]
    fn keys_with_dots_or_slashes_are_bracketed() {
        let entries = vec![entry("them", "2", json!({"f:metadata": {"f:labels": {"f:a/b": {}}}}))];
        check(
            json!({"metadata": {"name": "web", "labels": {"a/b": "x"}}}),
            entries,
            Some("them"),
            &[".metadata.labels[a/b]"],
        );
        let entries = vec![entry(FIELD_MANAGER, "1", json!({"f:metadata": {"f:labels": {"f:c": {}}}}))];
        check(json!({"metadata": {"name": "web", "labels": {"a/b": "x"}}}), entries, None, &[".metadata.labels[a/b]"]);
    }

    #[test]
    fn messages_name_the_manager_and_at_most_five_fields() {
        let key = ObjectKey { group: "".into(), kind: "ConfigMap".into(), namespace: "ns".into(), name: "b".into() };
        let describe = |gone, manager: Option<&str>, fields: usize| {
            let fields = (0..fields).map(|n| format!(".f{n}")).collect();
            let manager = manager.map(str::to_owned);
            OwnershipLoss { gone, manager, fields, ..OwnershipLoss::default() }.describe(&key)
        };
        assert_eq!(describe(true, None, 0), "someone keeps deleting ConfigMap \"b\"");
        assert_eq!(describe(false, None, 0), "someone keeps changing ConfigMap \"b\"");
        assert_eq!(describe(false, Some("x"), 5), "x keeps changing .f0, .f1, .f2, .f3, .f4 of ConfigMap \"b\"");
        assert_eq!(
            describe(false, Some("x"), 7),
            "x keeps changing .f0, .f1, .f2, .f3, .f4 and 2 more fields of ConfigMap \"b\""
        );
    }

    #[test]
    fn drift_is_described_as_one_event() {
        let key = ObjectKey { group: "".into(), kind: "ConfigMap".into(), namespace: "ns".into(), name: "b".into() };
        let loss =
            OwnershipLoss { manager: Some("x".into()), fields: vec![".data.a".into()], ..OwnershipLoss::default() };
        assert_eq!(loss.describe_once(&key), "x changed .data.a of ConfigMap \"b\"");
        assert_eq!(loss.describe_change().as_deref(), Some("x changed .data.a"));
        assert!(
            !loss.is_none()
                && OwnershipLoss::default().is_none()
                && OwnershipLoss::default().describe_change().is_none()
        );
        let gone = OwnershipLoss { gone: true, ..OwnershipLoss::default() };
        assert_eq!((gone.describe_once(&key), gone.is_none()), ("ConfigMap \"b\" is gone".to_owned(), false));
        let unapplied = OwnershipLoss { unapplied: true, ..OwnershipLoss::default() };
        let expected = ("someone changed ConfigMap \"b\"".to_owned(), None, false);
        assert_eq!((unapplied.describe_once(&key), unapplied.describe_change(), unapplied.is_none()), expected);
    }
}
