//! Whether anything remains of a release whose records may have outlived it.

use super::{Current, Environment, Error};
use crate::kube::{Decoration, Live, ObjectKey, Ownership};
use crate::storage::{MarkedObject, Marks};

/// Returns the marks of a release that an earlier resource had, and of which nothing remains, with a note that these Jobs have
/// not finished: they ran for that resource, and went with it. `None` if something remains, as after an orphan deletion: the
/// release goes on then. Reads object after object, up to the first that remains.
///
/// # Errors
/// An object cannot be read. Repeat it then.
pub async fn expect_jobs_of_former(
    env: &Environment<'_>,
    known: &Marks,
    jobs: &[ObjectKey],
) -> Result<Option<Marks>, Error> {
    let Some(noted) = known.with_deleted(jobs) else { return Ok(None) };
    let remains = something_remains(env, known).await?;
    Ok(Some(noted).filter(|_| remains != Some(true)))
}

/// Returns the release as an action for another resource than the one that had it sees it; `None` if it is as it is.
pub(super) async fn renewed(env: &Environment<'_>, current: Option<&Current>) -> Result<Option<Current>, Error> {
    let Some(current) = current.filter(|current| !current.finished_for_former.is_empty()) else { return Ok(None) };
    let inventory = expect_jobs_of_former(env, &current.inventory, &current.finished_for_former).await?;
    Ok(inventory.map(|inventory| Current { inventory, ..current.clone() }))
}

/// Returns whether something remains of what goes with a release; `None` if nothing of it does. Reads the objects, because a
/// watch reports none that names no owner.
///
/// # Errors
/// An object cannot be read.
pub(super) async fn something_remains(env: &Environment<'_>, known: &Marks) -> Result<Option<bool>, Error> {
    let mut remains = None;
    for object in known.objects.iter().filter(|object| goes_with_release(object, &env.decoration)) {
        let live = env.applier.find_live(&object.key, &object.api_version).await?;
        if live.is_some_and(|live| stays(&live, &env.decoration)) {
            return Ok(Some(true));
        }
        remains = Some(false);
    }
    Ok(remains)
}

/// Returns whether an object's absence shows that its release is gone. One that is kept or was only adopted outlives it, one
/// that expires may be missing before, and one that cannot name its owner is not collected with it.
fn goes_with_release(object: &MarkedObject, decoration: &Decoration) -> bool {
    let is_namespaced = decoration.owner.as_ref().is_some_and(|owner| !owner.namespace.is_empty());
    let names_owner = !is_namespaced || *object.key.namespace == *decoration.namespace;
    !object.kept && object.adopted.is_none() && !object.expires && names_owner
}

/// Returns whether a live object is the release's, and neither goes with a former resource nor outlives the release anyway.
fn stays(live: &Live, decoration: &Decoration) -> bool {
    decoration.ownership(live) == Ownership::Ours && !decoration.is_of_former(live) && !live.deleting && !live.kept
}
