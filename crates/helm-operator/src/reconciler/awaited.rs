//! What an uninstall that waits still waits for: which objects are there, and the finalizers that hold them.

use helm_release::action::{self, Environment, Look};
use helm_release::kube::{ObjectKey, Ownership};
use helm_release::storage::{MarkedObject, Marks};

use super::work::Work;

/// No more objects are named in one message.
const MAX_NAMED: usize = 3;

/// An object that is not gone yet.
struct Held {
    key: ObjectKey,
    finalizers: Vec<String>,
}

/// What is not gone yet of what the uninstall deletes, in words; nothing if all of it is.
pub(super) async fn awaited(
    work: &Work<'_>,
    env: &Environment<'_>,
    inventory: &Marks,
) -> Result<Option<String>, action::Error> {
    let deleted: Vec<&MarkedObject> = inventory.objects.iter().filter(|object| !object.kept).collect();
    // Of kinds that no stream brings, the cache has our own writes, and nobody tells when they are gone.
    let is_seen = |object: &&&MarkedObject| {
        work.shared.cache.is_synced(&object.key)
            && matches!(env.live.look(&object.key, env.decoration), Look::Ours(live) if !live.kept)
    };
    let seen: Vec<&MarkedObject> = deleted.iter().filter(is_seen).copied().collect();
    // What the watches have is there for now, whatever the server says. What holds it is asked for, and left out if there is no answer.
    let mut held = Vec::new();
    for object in seen.iter().take(MAX_NAMED) {
        let finalizers = look(work, env, object).await.ok().flatten().unwrap_or_default();
        held.push(Held { key: object.key.clone(), finalizers });
    }
    if !seen.is_empty() {
        return Ok(Some(told(&held, seen.len() - held.len())));
    }
    // What they lack may exist all the same.
    for object in deleted {
        if let Some(finalizers) = look(work, env, object).await? {
            return Ok(Some(told(&[Held { key: object.key.clone(), finalizers }], 0)));
        }
    }
    Ok(None)
}

/// The finalizers of an object of this release; nothing if it is gone, or stays.
async fn look(
    work: &Work<'_>,
    env: &Environment<'_>,
    object: &MarkedObject,
) -> Result<Option<Vec<String>>, action::Error> {
    let live = work.shared.applier.look_up(&object.key, &object.api_version).await?;
    let ours = live.filter(|live| env.decoration.ownership(live) == Ownership::Ours && !live.kept);
    Ok(ours.map(|live| live.metadata.finalizers.unwrap_or_default()))
}

/// `ConfigMap ns/a (finalizers: x/y), Pod ns/b and 4 more`.
fn told(held: &[Held], more: usize) -> String {
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
        assert_eq!(told(&[held("ns", "a", &[])], 0), "Thing ns/a");
        let two = [held("", "a", &["x/y", "z"]), held("ns", "b", &[])];
        assert_eq!(told(&two, 4), "Thing a (finalizers: x/y, z), Thing ns/b and 4 more");
    }
}
