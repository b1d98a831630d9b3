//! Recognises an object that the server serves in two API groups. If a chart moves it from one group to the other, the
//! release still contains it.

use super::{Environment, Error};
use crate::kube::{ApplyError, ObjectKey};
use crate::storage::MarkedObject;

/// Returns whether the server stores a dropped object and one of these as one, each with its `apiVersion`: OpenShift serves
/// role bindings in `authorization.openshift.io` as well. Deleting one would delete the other. Reads only objects whose
/// keys differ from the dropped one's only in the API group.
///
/// # Errors
/// An object cannot be read, although it may be.
pub(super) async fn is_one_of(
    env: &Environment<'_>,
    staying: impl Iterator<Item = (&ObjectKey, &str)>,
    dropped: &MarkedObject,
) -> Result<bool, Error> {
    for (key, api_version) in staying.filter(|(key, _)| key.is_in_other_group(&dropped.key)) {
        let now = uid_of(env, key, api_version).await?;
        if now.is_some() && now == uid_of(env, &dropped.key, &dropped.api_version).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn uid_of(env: &Environment<'_>, key: &ObjectKey, api_version: &str) -> Result<Option<String>, Error> {
    match env.applier.find_live(key, api_version).await {
        // Without the right to read an object, nothing shows that another one is the same.
        Err(ApplyError::Failed { source, .. }) if source.is_forbidden() => Ok(None),
        found => Ok(found?.and_then(|live| live.metadata.uid)),
    }
}
