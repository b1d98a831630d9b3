//! Describes what an uninstall waits for: the objects that still exist, and the finalizers that keep them.

use helm_release::action::{self, Cached, Environment};
use helm_release::kube::{ObjectKey, Ownership};
use helm_release::storage::MarkedObject;

use crate::reconcile::step_context::StepContext;
use crate::status::MAX_NAMED;

/// An object that still exists.
struct Held {
    key: ObjectKey,
    finalizers: Vec<String>,
}

/// Names those of these objects of the uninstall that still exist; returns `None` once all are deleted.
pub(crate) async fn awaited(
    context: &StepContext<'_>,
    env: &Environment<'_>,
    objects: &[&MarkedObject],
) -> Result<Option<String>, action::Error> {
    let deleted: Vec<&MarkedObject> =
        objects.iter().copied().filter(|object| !object.kept && object.adopted.is_none()).collect();
    // For kinds without a watch, the cache holds only our own writes, and nothing reports deletions.
    let is_seen = |object: &&&MarkedObject| {
        context.shared.cache.is_synced(&object.key)
            && matches!(env.live.cached(&object.key, &env.decoration), Cached::Ours(live) if !live.kept)
    };
    let seen: Vec<&MarkedObject> = deleted.iter().filter(is_seen).copied().collect();
    // An object in a watched kind's cache exists until the watch reports otherwise. Its finalizers need a request, and
    // are left out if that fails.
    let mut held = Vec::new();
    for object in seen.iter().take(MAX_NAMED) {
        let finalizers = look(context, env, object).await.ok().flatten().unwrap_or_default();
        held.push(Held { key: object.key.clone(), finalizers });
    }
    if !seen.is_empty() {
        return Ok(Some(describe(&held, seen.len() - held.len())));
    }
    // An object that no watch has seen may exist nevertheless.
    for object in deleted {
        if let Some(finalizers) = look(context, env, object).await? {
            return Ok(Some(describe(&[Held { key: object.key.clone(), finalizers }], 0)));
        }
    }
    Ok(None)
}

/// Returns the finalizers of an object of this release; `None` if it is deleted, or is to be kept.
async fn look(
    context: &StepContext<'_>,
    env: &Environment<'_>,
    object: &MarkedObject,
) -> Result<Option<Vec<String>>, action::Error> {
    let live = context.applier.find_live(&object.key, &object.api_version).await?;
    let ours = live.filter(|live| env.decoration.ownership(live) == Ownership::Ours && !live.kept);
    Ok(ours.map(|live| live.metadata.finalizers.unwrap_or_default()))
}

/// Formats the objects: `ConfigMap ns/a (finalizers: x/y), Pod ns/b and 4 more`.
fn describe(held: &[Held], more: usize) -> String {
    let one = |held: &Held| {
        let key = &held.key;
        let namespace = if key.namespace.is_empty() { String::new() } else { format!("{}/", key.namespace) };
        let by = match held.finalizers.is_empty() {
            true => String::new(),
            false => format!(" (finalizers: {})", held.finalizers.join(", ")),
        };
        format!("{} {namespace}{}{by}", key.kind, key.name)
    };
    let named = held.iter().map(one).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_with_what_holds_them() {
        let held = |namespace: &str, name: &str, finalizers: &[&str]| Held {
            key: ObjectKey { group: "".into(), kind: "Thing".into(), namespace: namespace.into(), name: name.into() },
            finalizers: finalizers.iter().map(|text| (*text).to_owned()).collect(),
        };
        assert_eq!(describe(&[held("ns", "a", &[])], 0), "Thing ns/a");
        let two = [held("", "a", &["x/y", "z"]), held("ns", "b", &[])];
        assert_eq!(describe(&two, 4), "Thing a (finalizers: x/y, z), Thing ns/b and 4 more");
    }
}
