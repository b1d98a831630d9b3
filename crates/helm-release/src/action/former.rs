//! What an earlier resource of the same name has left of its release.

use super::{Current, Environment, Error};
use crate::kube::ObjectKey;
use crate::storage::{MarkedObject, Marks};

/// Returns the marks of a release that an earlier resource had, of which nothing is left, with a note that these Jobs have not
/// finished: they ran for that resource, and went with it. `None` if something is left, as after an orphan deletion: the
/// release goes on then. Reads object after object, up to the first that is left.
///
/// # Errors
/// An object cannot be read. Repeat it then.
pub async fn expect_jobs_of_former(
    env: &Environment<'_>,
    known: &Marks,
    jobs: &[ObjectKey],
) -> Result<Option<Marks>, Error> {
    let Some(noted) = known.with_deleted(jobs) else { return Ok(None) };
    for object in known.objects.iter().filter(|object| goes_with_release(object)) {
        if is_left(env, object, &known.owner).await? {
            return Ok(None);
        }
    }
    Ok(Some(noted))
}

/// Returns the release as an action for another resource than the one that had it sees it; `None` if it is as it is.
pub(super) async fn renewed(env: &Environment<'_>, current: Option<&Current>) -> Result<Option<Current>, Error> {
    let Some(current) = current.filter(|current| !current.finished_for_former.is_empty()) else { return Ok(None) };
    let inventory = expect_jobs_of_former(env, &current.inventory, &current.finished_for_former).await?;
    Ok(inventory.map(|inventory| Current { inventory, ..current.clone() }))
}

/// Returns whether an object's absence shows that the release is gone. One that is kept or was only adopted outlives it, and
/// one that expires may be missing before.
fn goes_with_release(object: &MarkedObject) -> bool {
    !object.kept && object.adopted.is_none() && !object.expires
}

/// Returns whether an object exists and stays: the garbage collector deletes what still names the former owner. Reads it,
/// because a watch reports no object that names no owner.
async fn is_left(env: &Environment<'_>, object: &MarkedObject, former: &str) -> Result<bool, Error> {
    let live = env.applier.find_live(&object.key, &object.api_version).await?;
    Ok(live.is_some_and(|live| {
        let names_former = live.controller.as_ref().is_some_and(|controller| controller.uid == *former);
        !live.deleting && !live.kept && !names_former
    }))
}
