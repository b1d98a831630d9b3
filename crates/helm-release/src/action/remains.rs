//! Whether anything remains of a release whose records may have outlived it.

use super::{Current, Environment, Error};
use crate::kube::{Decoration, Live, ObjectKey};
use crate::storage::{MarkedObject, Marks};

/// Returns the marks of another resource's former release if nothing of it remains. The marks note that these Jobs have
/// not finished: the Jobs ran for that resource and were deleted with it. Returns `None` if something remains, as after
/// an orphan deletion: then the release continues. Reads one object after another, up to the first that remains.
///
/// # Errors
/// An object cannot be read: call it again.
pub async fn expect_jobs_of_former(
    env: &Environment<'_>,
    known: &Marks,
    jobs: &[ObjectKey],
) -> Result<Option<Marks>, Error> {
    let (Some(noted), decoration) = (known.with_deleted(jobs), &env.decoration) else { return Ok(None) };
    let is_takeover = decoration.owner.as_ref().is_some_and(|owner| *known.owner_type != *owner.annotated_type());
    let stays = |live: &Live| if is_takeover { !live.deleting && !live.kept } else { stays(live, decoration) };
    // An object that cannot name its owner is not garbage collected with it.
    let is_namespaced = decoration.owner.as_ref().is_some_and(|owner| !owner.namespace.is_empty());
    let goes_with_owner =
        |object: &&MarkedObject| is_takeover || !is_namespaced || *object.key.namespace == *decoration.namespace;
    let remains = any_remains(env, known.objects.iter().filter(goes_with_owner), stays).await?;
    let is_gone = if is_takeover { remains == Some(false) } else { remains != Some(true) };
    Ok(Some(noted).filter(|_| is_gone))
}

/// Returns the release as a new owner's action sees it, with the former owner's finished Jobs expected again; `None` if
/// nothing changes.
pub(super) async fn renewed(env: &Environment<'_>, current: Option<&Current>) -> Result<Option<Current>, Error> {
    let Some(current) = current.filter(|current| !current.finished_for_former.is_empty()) else { return Ok(None) };
    let inventory = expect_jobs_of_former(env, &current.inventory, &current.finished_for_former).await?;
    Ok(inventory.map(|inventory| Current { inventory, ..current.clone() }))
}

/// Returns whether anything remains of the objects that are deleted with a release of the same owner; `None` if it has
/// no such objects.
///
/// # Errors
/// An object cannot be read.
pub(super) async fn something_remains(env: &Environment<'_>, known: &Marks) -> Result<Option<bool>, Error> {
    any_remains(env, known.objects.iter(), |live| stays(live, &env.decoration)).await
}

/// Returns whether any of these objects remains; `None` if none of them is deleted with its release. Reads them,
/// because a watch does not report objects without an owner.
async fn any_remains(
    env: &Environment<'_>,
    objects: impl Iterator<Item = &MarkedObject>,
    stays: impl Fn(&Live) -> bool,
) -> Result<Option<bool>, Error> {
    let mut remains = None;
    for object in objects.filter(|object| goes_with_release(object)) {
        let live = env.applier.find_live(&object.key, &object.api_version).await?;
        if live.is_some_and(|live| stays(&live)) {
            return Ok(Some(true));
        }
        remains = Some(false);
    }
    Ok(remains)
}

/// Returns whether an object's absence shows that its release is gone. An object that is kept or was only adopted
/// outlives the release, and an object that expires may be missing earlier.
fn goes_with_release(object: &MarkedObject) -> bool {
    !object.kept && object.adopted.is_none() && !object.expires
}

/// Returns whether a live object belongs to the release, and is neither deleted with a former resource nor kept after
/// the release.
fn stays(live: &Live, decoration: &Decoration) -> bool {
    decoration.stays(live) && !live.kept
}
