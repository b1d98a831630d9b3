//! Moves what a reconciler applied under its former names to its present one: an apply removes only what the same field
//! manager applied before, so fields that the code drops would stay forever.
//!
//! Only what was applied moves. Finalizers stay, because an apply without them would remove them. Counterpart:
//! client-go's `util/csaupgrade`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::api::PatchParams;
use serde_json::{Map, Value, json};

use super::kind::{self, Kind};
use super::scope::Scope;
use super::untyped::{Contents, Untyped};

/// The field managers of a reconciler's writes for one resource, now and formerly.
pub(super) struct Names<'a> {
    pub(super) present: &'a str,
    pub(super) former: &'a [&'a str],
    /// The uid of the resource.
    pub(super) uid: &'a str,
}

/// Returns the field manager of the owner reference to a resource with this uid, see
/// [`Ownership::Owner`](super::Ownership::Owner). It is at most 128 characters long.
pub(super) fn owner_manager(manager: &str, uid: &str) -> String {
    format!("{manager:.91}-{uid}")
}

impl Names<'_> {
    /// Returns the present name of a field manager that had a former one.
    fn renamed(&self, manager: &str) -> Option<String> {
        if self.former.contains(&manager) {
            return Some(self.present.to_owned());
        }
        let is_owner = self.former.iter().any(|former| manager == owner_manager(former, self.uid));
        is_owner.then(|| owner_manager(self.present, self.uid))
    }

    /// Returns whether the resource may become one of the owners of an object with this metadata: the object has owners, or
    /// the reconciler has applied it. The garbage collector would delete a stranger's object with its last owner.
    pub(super) fn may_join(&self, metadata: &ObjectMeta) -> bool {
        metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()) || self.applied(metadata)
    }

    /// Returns whether the managed fields show an apply under one of the names. Applies of the status do not count: a
    /// reconciler writes the status of resources that others create.
    fn applied(&self, metadata: &ObjectMeta) -> bool {
        let is_ours = |entry: &ManagedFieldsEntry| {
            let manager = entry.manager.as_deref().unwrap_or_default();
            let is_whole = entry.subresource.as_deref().unwrap_or_default().is_empty();
            let is_applied = is_whole && entry.operation.as_deref() == Some("Apply");
            is_applied && (manager == self.present || self.former.contains(&manager))
        };
        metadata.managed_fields.iter().flatten().any(is_ours)
    }

    /// Returns whether something moves in an object with this metadata.
    pub(super) fn move_in(&self, metadata: &ObjectMeta) -> bool {
        let has_former =
            |entry: &ManagedFieldsEntry| self.renamed(entry.manager.as_deref().unwrap_or_default()).is_some();
        metadata.managed_fields.iter().flatten().any(has_former)
            && self.moved(&json!(metadata.managed_fields)).is_some()
    }

    /// Returns the managed fields with those of former names moved to the present one; `None` if none moves.
    fn moved(&self, managed_fields: &Value) -> Option<Value> {
        let (mut managers, mut moving) = (Vec::new(), Vec::new());
        for entry in managed_fields.as_array()? {
            let (moves, stays) = self.split(entry);
            moving.extend(moves);
            managers.extend(stays);
        }
        if moving.is_empty() {
            return None;
        }
        moving.into_iter().for_each(|entry| join(&mut managers, entry));
        Some(Value::Array(managers))
    }

    /// Splits an entry into what moves, under its new manager, and what stays.
    fn split(&self, entry: &Value) -> (Option<Value>, Option<Value>) {
        let manager = entry["manager"].as_str().filter(|_| entry["operation"] == "Apply");
        let Some(to) = manager.and_then(|manager| self.renamed(manager)) else { return (None, Some(entry.clone())) };
        let (mut moves, mut stays) = (entry.clone(), entry.clone());
        moves["manager"] = to.into();
        let finalizers = without_finalizers(&mut moves["fieldsV1"]);
        let is_empty = moves["fieldsV1"].as_object().is_none_or(Map::is_empty);
        stays["fieldsV1"] = json!({"f:metadata": {"f:finalizers": finalizers}});
        (Some(moves).filter(|_| !is_empty), finalizers.map(|_| stays))
    }
}

/// Removes the finalizers from a set of fields, and returns them.
fn without_finalizers(fields: &mut Value) -> Option<Value> {
    let metadata = fields.get_mut("f:metadata")?.as_object_mut()?;
    let finalizers = metadata.remove("f:finalizers")?;
    // An empty set would mean that the metadata is owned as a whole.
    if metadata.is_empty() {
        fields.as_object_mut()?.remove("f:metadata");
    }
    Some(finalizers)
}

/// Adds an entry to those of an object. An object has one entry for each manager that applies, in whichever version.
fn join(managers: &mut Vec<Value>, entry: Value) {
    let is_same =
        |known: &&mut Value| ["manager", "operation", "subresource"].iter().all(|key| known[*key] == entry[*key]);
    match managers.iter_mut().find(is_same) {
        Some(known) => unite(&mut known["fieldsV1"], &entry["fieldsV1"]),
        None => managers.push(entry),
    }
}

/// Adds the fields of one set to another.
fn unite(into: &mut Value, from: &Value) {
    let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) else { return };
    for (key, fields) in from {
        unite(into.entry(key.clone()).or_insert_with(|| json!({})), fields);
    }
}

impl<R: Kind> Scope<'_, R> {
    /// Moves what was applied to an object under former names to the present one, if `may_write` accepts its present
    /// state. Returns that state's metadata; `None` if the judged state is to be written as it is. If the object changes
    /// meanwhile, that is a conflict, and the next attempt moves it.
    ///
    /// The next apply removes what is no longer wanted. If the process ends before it, the fields are no longer as
    /// wanted, so the apply follows.
    pub(super) async fn rename<K: Kind>(
        &self,
        judged: &ObjectMeta,
        may_write: impl FnOnce(&ObjectMeta) -> bool,
    ) -> kube::Result<Option<ObjectMeta>> {
        let names = self.names();
        if !names.move_in(judged) {
            return Ok(None);
        }
        let (namespace, name) =
            (judged.namespace.as_deref().unwrap_or_default(), judged.name.as_deref().unwrap_or_default());
        let api = self.api_in::<K>(namespace);
        // What the cache has of other managers' fields is not complete. Neither is what can only be read in part.
        let Some(Untyped { metadata, contents: Contents::Values(live) }) = kind::read(api.clone(), name).await? else {
            return Ok(None);
        };
        if metadata.uid != judged.uid || !may_write(&metadata) {
            return Ok(None);
        }
        let Some(managers) = names.moved(&live["metadata"]["managedFields"]) else { return Ok(Some(metadata)) };
        let (uid, version) = (&metadata.uid, &metadata.resource_version);
        let patch = json!({"metadata": {"uid": uid, "resourceVersion": version, "managedFields": managers}});
        let params = PatchParams { field_manager: Some(names.present.to_owned()), ..PatchParams::default() };
        kind::merge(api, name, &params, &patch).await.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'_> = Names { present: "new", former: &["old", "older"], uid: "u" };

    fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "v1", "time": manager,
            "fieldsV1": fields,
        })
    }

    fn applied(manager: &str, fields: Value) -> Value {
        entry(manager, "Apply", "", fields)
    }

    #[test]
    fn an_apply_of_the_object_under_one_of_the_names_counts_and_nothing_else() {
        for (manager, operation, subresource, expected) in [
            ("new", "Apply", "", true),
            ("older", "Apply", "", true),
            ("other", "Apply", "", false),
            ("new", "Update", "", false),
            ("new", "Apply", "status", false),
        ] {
            let entry = json!({"manager": manager, "operation": operation, "subresource": subresource});
            let metadata: ObjectMeta = serde_json::from_value(json!({"managedFields": [entry]})).unwrap();
            assert_eq!(NAMES.applied(&metadata), expected, "{entry}");
        }
    }

    #[test]
    fn what_was_applied_under_a_former_name_moves_and_nothing_else() {
        let data = |keys: &[&str]| {
            let keys: Map<String, Value> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
            json!({"f:data": keys})
        };
        let renamed = |from: &str, to: &str, fields: Value| {
            let mut entry = applied(from, fields);
            entry["manager"] = to.into();
            entry
        };
        let ours = applied("new", data(&["a"]));
        let status = |manager: &str| entry(manager, "Apply", "status", data(&["s"]));
        let mut own_status = status("old");
        own_status["manager"] = "new".into();
        let finalizers = json!({"f:metadata": {"f:finalizers": {"v:\"x/y\"": {}}}});
        let mut with_finalizers = data(&["b"]);
        unite(&mut with_finalizers, &finalizers);
        for (behaviour, before, after) in [
            ("nothing", json!([]), None),
            ("a foreign manager", json!([ours, applied("other", data(&["b"]))]), None),
            ("an update", json!([entry("old", "Update", "", data(&["b"]))]), None),
            ("finalizers alone", json!([applied("old", finalizers.clone())]), None),
            ("another resource's reference", json!([applied("old-v", data(&["b"]))]), None),
            (
                "a first apply",
                json!([applied("old", data(&["b"]))]),
                Some(json!([renamed("old", "new", data(&["b"]))])),
            ),
            (
                "several names, whatever their order",
                json!([applied("old", data(&["b"])), ours, applied("older", data(&["c"]))]),
                Some(json!([applied("new", data(&["a", "b", "c"]))])),
            ),
            ("a status", json!([ours, status("old")]), Some(json!([ours, own_status]))),
            (
                "an owner reference",
                json!([applied("old-u", data(&["b"]))]),
                Some(json!([renamed("old-u", "new-u", data(&["b"]))])),
            ),
            (
                "fields beside finalizers",
                json!([applied("old", with_finalizers)]),
                Some(json!([applied("old", finalizers.clone()), renamed("old", "new", data(&["b"]))])),
            ),
        ] {
            assert_eq!(NAMES.moved(&before), after, "{behaviour}");
            assert_eq!(after.as_ref().and_then(|after| NAMES.moved(after)), None, "{behaviour}: once");
        }
    }
}
