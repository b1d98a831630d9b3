//! Finds live objects that two API groups serve: a chart that names such an object in the other group has not dropped it.

use super::Attempt;
use crate::action::Error;
use crate::kube::{ApplyError, ObjectKey};
use crate::storage::MarkedObject;

impl Attempt<'_> {
    /// Returns whether the candidate has a dropped object in another API group, and the server stores both as one:
    /// OpenShift serves role bindings in `authorization.openshift.io` as well. Deleting one would delete the other.
    pub(super) async fn has_moved(&self, dropped: &MarkedObject) -> Result<bool, Error> {
        for (object, key) in self.candidate.objects.iter().zip(&self.keys) {
            if !is_namesake(key, &dropped.key) {
                continue;
            }
            let now = self.uid_of(key, &object.api_version).await?;
            if now.is_some() && now == self.uid_of(&dropped.key, &dropped.api_version).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn uid_of(&self, key: &ObjectKey, api_version: &str) -> Result<Option<String>, Error> {
        match self.env.applier.find_live(key, api_version).await {
            // Without the right to read an object, nothing shows that another one is the same.
            Err(ApplyError::Failed { source, .. }) if source.is_forbidden() => Ok(None),
            found => Ok(found?.and_then(|live| live.metadata.uid)),
        }
    }
}

/// Returns whether two keys differ only in their API groups.
fn is_namesake(one: &ObjectKey, other: &ObjectKey) -> bool {
    let is_same = (&one.kind, &one.namespace, &one.name) == (&other.kind, &other.namespace, &other.name);
    is_same && one.group != other.group
}
