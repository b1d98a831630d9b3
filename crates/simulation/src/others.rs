//! The invariant that what others wrote on an object stays.

use serde_json::Value;

use crate::actors::{FINALIZER, KEEP, NOTE};
use crate::checks::Objects;
use crate::world::Change;

/// Checks (c) at a write of the operator.
pub(crate) fn written(change: &Change) -> Option<String> {
    let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
    let note = |object: &Value| object["metadata"]["annotations"][NOTE].is_string();
    let hold = |object: &Value| {
        let finalizers = object["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|one| one == FINALIZER))
    };
    let keep = |object: &Value| object["metadata"]["annotations"][KEEP].is_string();
    for (what, has) in [("annotation", &note as &dyn Fn(&Value) -> bool), ("finalizer", &hold), ("keep policy", &keep)]
    {
        if has(before) && !has(after) {
            return Some(format!("(c) {} removed another's {what} from {}", change.by, change.path));
        }
    }
    None
}

/// Returns whether an object's annotation names another release: the action of this one has not adopted it.
pub(crate) fn is_of_another_release(objects: &Objects, path: &str, name: &str) -> bool {
    let release = objects.get(path).map(|object| &object["metadata"]["annotations"]["meta.helm.sh/release-name"]);
    release.and_then(|release| release.as_str()).is_some_and(|release| release != name)
}
