//! Deletes or leaves the objects of a release: by their marks and their own metadata, in uninstall order.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures::future::try_join_all;

use super::keys::is_outscoped;
use super::moved::is_one_of;
use super::order::order;
use super::{Environment, Error};
use crate::kube::{Grounds, Left, NotOurs, Removal, WriteLimit, uninstall_order};
use crate::storage::{MarkedObject, Marks};

/// Deletes a release's objects in uninstall order: one kind after the other, up to 16 objects of one kind concurrently.
/// The objects of later rounds go first.
///
/// Leaves what the manifest or the object's own annotation keeps, what does not provably belong to this release, and what
/// only revisions that were never deployed have had, if they adopted it or if somebody else made it while they were
/// pending. Returns once the server accepted the deletions: finalizers may still hold objects. Repeating it is safe.
///
/// # Errors
/// The server rejects a deletion or is unreachable. Objects of earlier kinds may already be deleted.
pub async fn delete_objects(env: &Environment<'_>, inventory: &Marks) -> Result<(), Error> {
    let objects: Vec<&MarkedObject> = inventory.objects.iter().filter(|o| !o.kept).collect();
    delete_each(env, inventory, &objects).await
}

/// Deletes these objects of the inventory as [`delete_objects`] does.
///
/// # Errors
/// As [`delete_objects`].
pub async fn delete_each(env: &Environment<'_>, inventory: &Marks, all: &[&MarkedObject]) -> Result<(), Error> {
    let mut objects = Vec::with_capacity(all.len());
    for object in all {
        if !is_outscoped(env, &inventory.objects, object).await {
            objects.push(*object);
        }
    }
    uninstall_order(&mut objects, |o| &o.key.kind);
    objects.sort_by_key(|object| Reverse(order(object.turn)));
    for group in objects.chunk_by(|a, b| a.key.kind == b.key.kind && a.turn.round() == b.turn.round()) {
        let limit = WriteLimit::new();
        try_join_all(group.iter().map(|object| limit.within(delete(env, object)))).await?;
    }
    Ok(())
}

/// Deletes these objects of the inventory as [`delete_objects`] does, except those that the server also serves in another
/// API group as one of the objects that stay.
///
/// # Errors
/// As [`delete_objects`], or an object cannot be read.
pub async fn delete_left_behind(
    env: &Environment<'_>,
    inventory: &Marks,
    all: &[&MarkedObject],
    staying: &Marks,
) -> Result<(), Error> {
    let staying = || staying.objects.iter().map(|object| (&object.key, &*object.api_version));
    let mut left = Vec::with_capacity(all.len());
    for object in all {
        if !is_one_of(env, staying(), object).await? {
            left.push(*object);
        }
    }
    delete_each(env, inventory, &left).await
}

/// Returns the objects of an ordered release in the reverse order of their rounds, except those of the first one.
/// Delete each round once the rounds before it in the list are gone.
pub fn later_rounds(inventory: &Marks) -> Vec<Vec<&MarkedObject>> {
    let mut rounds: BTreeMap<Reverse<u16>, Vec<&MarkedObject>> = BTreeMap::new();
    for object in inventory.objects.iter().filter(|object| !object.kept) {
        rounds.entry(Reverse(order(object.turn))).or_default().push(object);
    }
    rounds.pop_last();
    rounds.into_values().collect()
}

/// Deletes one object if it belongs to this release, otherwise leaves it. An object that is only adopted counts as kept.
pub(super) async fn delete(env: &Environment<'_>, object: &MarkedObject) -> Result<Removal, Error> {
    if let Some(adopted) = object.adopted {
        leave(env, object, Left::Before(adopted)).await?;
        return Ok(Removal::Kept);
    }
    let removal = env.applier.delete(&object.key, &object.api_version, grounds(env, object), &env.decoration).await?;
    match &removal {
        Removal::Kept => leave(env, object, Left::Kept).await?,
        Removal::NotOurs(why) => {
            tracing::warn!(release = env.decoration.release, object = %object.key, %why, "skipped an object that this release does not own");
            if *why == NotOurs::Unnamed {
                env.live.left_unnamed(&object.key);
            }
        }
        Removal::Sent(uid) => env.live.deleted(&object.key, uid),
        Removal::Absent => {}
    }
    Ok(removal)
}

/// Returns what the deletion of an object relies on. The cached state does not show who made the object.
fn grounds(env: &Environment<'_>, object: &MarkedObject) -> Grounds {
    if object.attempted {
        return Grounds::Attempt;
    }
    env.live.cached(&object.key, &env.decoration).deletable().map_or(Grounds::Metadata, Grounds::Seen)
}

pub(super) async fn leave(env: &Environment<'_>, object: &MarkedObject, left: Left) -> Result<(), Error> {
    env.applier.leave(&object.key, &object.api_version, left, &env.decoration).await?;
    Ok(())
}
