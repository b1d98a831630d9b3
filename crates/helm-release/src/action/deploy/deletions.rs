//! Notes in the pending record which unfinished objects the action deletes. Later, a Job that the action deleted looks
//! the same as one that its TTL removed, but only the latter has finished.

use std::sync::Mutex;

use futures::future::BoxFuture;
use outside::sync::lock;

use super::Attempt;
use crate::action::Error;
use crate::kube::{ApplyError, DeletionError, Deletions, ObjectKey};
use crate::release::Release;
use crate::storage::{MarkedObject, Marks, Storage};

/// The deletions of objects that the action recreates, which are recorded before they are sent.
pub(super) struct AttemptDeletions<'a> {
    storage: &'a Storage,
    release: &'a Release,
    /// The release's marks before the action.
    before: Option<&'a Marks>,
    ahead: &'a Marks,
    /// The marks as written; `None` if nothing was noted.
    noted: Mutex<Option<Marks>>,
}

impl<'a> AttemptDeletions<'a> {
    /// Creates an empty list. `ahead` are the marks in the record.
    pub(super) fn new(attempt: &'a Attempt<'_>, release: &'a Release, ahead: &'a Marks) -> AttemptDeletions<'a> {
        let before = attempt.current.map(|current| &current.inventory);
        AttemptDeletions { storage: attempt.env.storage, release, before, ahead, noted: Mutex::default() }
    }

    /// Returns the marks with the deletions, as they were recorded; `None` if there are none.
    pub(super) fn into_marks(self) -> Option<Marks> {
        lock(&self.noted).take()
    }

    /// Returns the marks to record before these objects are deleted; `None` if their absence proves nothing anyway, because
    /// neither an earlier revision nor this one counts them as finished.
    fn with(&self, objects: &[ObjectKey]) -> Option<Marks> {
        let mut expiring = self.before.map(|before| before.expiring(objects)).unwrap_or_default();
        expiring.extend(self.ahead.expiring(objects));
        lock(&self.noted).as_ref().unwrap_or(self.ahead).with_deleted(&expiring)
    }
}

impl Deletions for AttemptDeletions<'_> {
    fn record<'a>(&'a self, objects: &'a [ObjectKey]) -> BoxFuture<'a, Result<(), DeletionError>> {
        Box::pin(async move {
            let Some(marks) = self.with(objects) else { return Ok(()) };
            self.storage.update(self.release, &marks).await?;
            *lock(&self.noted) = Some(marks);
            Ok(())
        })
    }
}

impl Attempt<'_> {
    /// Records which of the objects to prune have not finished, so that a rollback creates them again.
    pub(super) async fn note_pruned(
        &self,
        dropped: &[MarkedObject],
        release: &Release,
        ahead: &mut Marks,
    ) -> Result<(), Error> {
        let Some(current) = self.current else { return Ok(()) };
        let mut unfinished = Vec::new();
        for object in dropped.iter().filter(|object| object.adopted.is_none()) {
            let counts = current.inventory.find(&object.key).is_some_and(|known| known.expires);
            if counts && self.is_unfinished(object).await? {
                unfinished.push(object.key.clone());
            }
        }
        if let Some(noted) = ahead.with_deleted(&unfinished) {
            self.env.storage.update(release, &noted).await?;
            *ahead = noted;
        }
        Ok(())
    }

    /// Returns whether an object exists and is unfinished. One that this process has no right to read counts as unfinished.
    /// Always asks the server: a late watch does not show a Job that has begun since.
    async fn is_unfinished(&self, object: &MarkedObject) -> Result<bool, Error> {
        let (env, key) = (self.env, &object.key);
        match env.applier.find_whole(key, &object.api_version).await {
            Ok(live) => Ok(live.is_some_and(|live| !live.deleting && !live.has_finished(&key.group, &key.kind))),
            // An object counts as unfinished unless it is known to have finished: a Job may run twice, as it may anyway
            // if its node is lost, but nothing would make up for a lost run. Without the right to read, a rollback
            // cannot recreate an object that no watch covers, because it reads the object first.
            Err(error) if error.is_forbidden() => Ok(true),
            Err(source) => Err(ApplyError::Failed { verb: "read", object: key.to_string(), source }.into()),
        }
    }
}
