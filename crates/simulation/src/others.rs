//! The invariants of what others own: what they wrote on an object, the objects that they keep, and their releases.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::actors::{FINALIZER, KEEP, NOTE};
use crate::checks::{Checks, Objects, is_person, uid};
use crate::names::{self, NAMES, SOME};
use crate::quiet::is_beside;
use crate::world::Change;

/// What the other operator adds to the data of ConfigMaps and Secrets, as those do that inject certificates.
const BUNDLE: &str = "ca.crt";

/// Returns what the other operator adds inside a field that the chart also sets, as a strategic merge patch; `None` if
/// it adds nothing to objects of this kind.
pub(crate) fn addition(object: &str) -> Option<Value> {
    match object.split('/').next()? {
        "configmaps" | "secrets" => Some(json!({"data": {BUNDLE: "bWluZQ=="}})),
        // A field of an item in a list, as the CA bundle of a webhook.
        "services" => Some(json!({"spec": {"ports": [{"port": 80, "appProtocol": "kubernetes.io/h2c"}]}})),
        _ => None,
    }
}

/// The document with the merge rules of the kind whose list the other operator changes.
pub(crate) const RULES: &str = "/openapi/v3/api/v1";

/// Returns the merge rules of Services, as a real server publishes them.
pub(crate) fn merge_rules() -> Value {
    let ports = json!({"items": {}, "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "port"});
    let kinds = json!([{"group": "", "version": "v1", "kind": "Service"}]);
    let service =
        json!({"properties": {"spec": {"properties": {"ports": ports}}}, "x-kubernetes-group-version-kind": kinds});
    json!({"components": {"schemas": {"io.k8s.api.core.v1.Service": service}}})
}

/// Checks (c) at a write of the operator.
pub(crate) fn written(change: &Change) -> Option<String> {
    let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
    let note = |object: &Value| object["metadata"]["annotations"][NOTE].is_string();
    let hold = |object: &Value| {
        let finalizers = object["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|one| one == FINALIZER))
    };
    let keep = |object: &Value| object["metadata"]["annotations"][KEEP].is_string();
    let bundle = |object: &Value| object["data"][BUNDLE].is_string();
    let protocol = |object: &Value| object.pointer("/spec/ports/0/appProtocol").is_some();
    for (what, has) in [
        ("annotation", &note as &dyn Fn(&Value) -> bool),
        ("finalizer", &hold),
        ("keep policy", &keep),
        ("entry in data", &bundle),
        ("protocol of a port", &protocol),
    ] {
        if has(before) && !has(after) {
            return Some(format!("(c) {} removed another's {what} from {}", change.by, change.path));
        }
    }
    None
}

/// Where the operator keeps the key that seals records.
const KEY: &str = "/secrets/helm-operator-record-key";

/// Returns whether the operator writes objects at this path at all: resources, events, its key, and what belongs to the
/// releases of resources.
fn is_written(path: &str) -> bool {
    let is_record = || names::record(path).is_some_and(|(release, _)| NAMES.contains(&release));
    let is_own = ["/webs/", "/sites/", "/events/"].iter().any(|kind| path.contains(kind)) || path.ends_with(KEY);
    is_own || names::owner(path).is_some() || is_record()
}

/// Returns whether an object's annotation names another release: the action of this one has not adopted it.
pub(crate) fn is_of_another_release(objects: &Objects, path: &str, name: &str) -> bool {
    let release = objects.get(path).map(|object| &object["metadata"]["annotations"]["meta.helm.sh/release-name"]);
    release.and_then(|release| release.as_str()).is_some_and(|release| release != name)
}

impl Checks {
    pub(crate) fn note_kept(&mut self, change: &Change, objects: &Objects) {
        let keeps = |object: &Option<Arc<Value>>| {
            object.as_ref().is_some_and(|object| object["metadata"]["annotations"][KEEP] == "keep")
        };
        let Some(name) = names::owner(&change.path).filter(|_| keeps(&change.after) && !keeps(&change.before)) else {
            return;
        };
        let is_there = |path: String| objects.contains_key(&*path);
        if is_there(names::resource(name)) && !self.resources.get(name).is_some_and(|resource| resource.goes_last) {
            self.kept.extend(change.after.as_ref().and_then(|after| uid(after)));
        }
    }

    /// Checks (c) that no kept object, and no object that only resembles the release's, is deleted.
    pub(crate) fn keep(&self, change: &Change, objects: &Objects) -> Option<String> {
        let before = change.goes()?;
        let is_kept = uid(before).is_some_and(|uid| self.kept.contains(&uid)) || change.path.contains("/precious-");
        // In a foreground deletion the garbage collector deletes objects before the operator acts.
        let goes_last = || names::owner(&change.path).is_some_and(|name| self.resources[name].goes_last);
        // What only the values of the former resource contain stays that one's when another takes the release over.
        let is_formers = || {
            let name = names::owner(&change.path).filter(|name| self.resources[*name].is_claimed);
            // Nor do the checks know what belongs to an install that was interrupted before records moved.
            name.is_some_and(|name| *change.path == *names::path(SOME[0], name) || is_beside(name, objects))
        };
        // After `helm uninstall`, no record names what a person keeps, so it stays bound to its resource (COMPATIBILITY.md).
        let is_unrecorded = || names::owner(&change.path).is_some_and(|name| self.resources[name].is_unrecorded);
        let goes_with_owner = || goes_last() || is_formers() || is_unrecorded();
        let is_wrong = is_kept && !is_person(&change.by) && !(&*change.by == "gc" && goes_with_owner());
        is_wrong.then(|| format!("(c) {} deleted {}, which is kept", change.by, change.path))
    }

    /// Checks (c) that a person's release is adopted only by an existing resource that requests it and is allowed to,
    /// and that the release does not change before.
    pub(crate) fn taken_over(&mut self, change: &Change, objects: &Objects) -> Option<String> {
        let name = names::owner(&change.path).or_else(|| {
            let (name, _) = names::record(&change.path)?;
            NAMES.into_iter().find(|known| *known == name)
        })?;
        let is_its_own = self.has_own_elsewhere(name, objects);
        let resource = self.resources.get_mut(name)?;
        if !resource.is_foreign || resource.is_claimed || is_its_own {
            return None;
        }
        if resource.exists && resource.adopts {
            resource.is_foreign = false;
            return None;
        }
        Some(format!("(c) {} changed {}, and never took over the release of {name}", change.by, change.path))
    }

    /// Checks (c) that the operator writes only what it may, and no object that names another release, unless the
    /// resource adopts objects. Hooks name no release.
    pub(crate) fn foreign(&self, change: &Change) -> Option<String> {
        let (by, path) = (&change.by, &change.path);
        if !is_written(path) {
            return Some(format!("(c) {by} wrote {path}, which is not the operator's"));
        }
        let name = names::owner(path).filter(|_| !names::is_hook(path))?;
        let release = change.before.as_ref()?["metadata"]["annotations"]["meta.helm.sh/release-name"].as_str()?;
        let resource = &self.resources[name];
        let may_adopt = resource.adopts || resource.is_claimed;
        (release != name && !may_adopt).then(|| format!("(c) {by} wrote {path}, which is of release {release}"))
    }

    /// Checks (c) that the operator deletes only objects that it wrote.
    pub(crate) fn own(&mut self, change: &Change) -> Option<String> {
        self.touched.extend(change.after.as_ref().and_then(|after| uid(after)));
        let gone = change.goes().filter(|_| names::owner(&change.path).is_some())?;
        let is_wrong = change.after.is_none() && uid(gone).is_some_and(|uid| !self.touched.contains(&uid));
        is_wrong.then(|| format!("(c) {} deleted {}, which it never wrote", change.by, change.path))
    }
}
