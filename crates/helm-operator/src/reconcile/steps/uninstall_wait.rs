//! Describes what an uninstall waits for: the objects that still exist, and the finalizers that keep them.

use helm_release::action::{self, Cached, Environment};
use helm_release::kube::{Live, ObjectKey};
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
    // Finalizers need a request, and are left out if it fails. An object that was created and deleted during the first
    // list of its kind may stay in the cache, because no event follows.
    let (mut held, mut more) = (Vec::new(), 0);
    for object in seen {
        if held.len() == MAX_NAMED {
            more += 1;
            continue;
        }
        let finalizers = match find(context, object).await {
            Ok(None) => {
                context.shared.cache.drop_dependent(&object.key);
                continue;
            }
            Ok(Some(live)) => match holding(env, object, live) {
                Some(finalizers) => finalizers,
                // The object belongs to another owner now, and the watch may have missed that.
                None => continue,
            },
            Err(_) => Vec::new(),
        };
        held.push(Held { key: object.key.clone(), finalizers });
    }
    if !held.is_empty() {
        return Ok(Some(describe(&held, more)));
    }
    // An object that no watch has seen may exist nevertheless.
    for object in deleted {
        let live = find(context, object).await?;
        if let Some(finalizers) = live.and_then(|live| holding(env, object, live)) {
            return Ok(Some(describe(&[Held { key: object.key.clone(), finalizers }], 0)));
        }
    }
    Ok(None)
}

async fn find(context: &StepContext<'_>, object: &MarkedObject) -> Result<Option<Live>, action::Error> {
    Ok(context.applier.find_live(&object.key, &object.api_version).await?)
}

/// Returns the finalizers of an object that the uninstall deletes; `None` if nothing proves that it is the release's, if it
/// is kept, or if somebody else made it during an attempt that failed.
fn holding(env: &Environment<'_>, object: &MarkedObject, live: Live) -> Option<Vec<String>> {
    let appeared = object.attempted && env.decoration.made_by_others(&live).is_some();
    let is_held = env.decoration.prove(&live, &object.key.namespace).is_ok() && !live.kept && !appeared;
    is_held.then(|| live.metadata.finalizers.unwrap_or_default())
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
