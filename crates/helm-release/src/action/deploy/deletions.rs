//! Notes in the pending record which unfinished objects the action deletes. Later, a deleted Job is as absent as one that
//! its TTL has removed, but only the latter has finished.

use std::sync::Mutex;

use futures::future::BoxFuture;
use outside::sync::lock;

use super::Attempt;
use crate::kube::{DeletionError, Deletions, ObjectKey};
use crate::release::Release;
use crate::storage::{Marks, Storage};

/// The deletions of objects that the action recreates, which are recorded before they are sent.
pub(super) struct NotedDeletions<'a> {
    storage: &'a Storage,
    release: &'a Release,
    /// What the release had before the action.
    before: Option<&'a Marks>,
    ahead: &'a Marks,
    /// The marks as written; `None` if nothing was noted.
    noted: Mutex<Option<Marks>>,
}

impl<'a> NotedDeletions<'a> {
    /// Creates an empty list. `ahead` are the marks in the record.
    pub(super) fn new(attempt: &'a Attempt<'_>, release: &'a Release, ahead: &'a Marks) -> NotedDeletions<'a> {
        let before = attempt.current.map(|current| &current.inventory);
        NotedDeletions { storage: attempt.env.storage, release, before, ahead, noted: Mutex::default() }
    }

    /// Returns the marks with the deletions, as they were recorded; `None` if there are none.
    pub(super) fn into_marks(self) -> Option<Marks> {
        lock(&self.noted).take()
    }

    /// Returns the marks to record before these objects are deleted; `None` if their absence proves nothing anyway.
    fn with(&self, objects: &[ObjectKey]) -> Option<Marks> {
        let objects = self.before?.expiring(objects);
        lock(&self.noted).as_ref().unwrap_or(self.ahead).with_deleted(&objects)
    }
}

impl Deletions for NotedDeletions<'_> {
    fn record<'a>(&'a self, objects: &'a [ObjectKey]) -> BoxFuture<'a, Result<(), DeletionError>> {
        Box::pin(async move {
            let Some(marks) = self.with(objects) else { return Ok(()) };
            self.storage.update(self.release, &marks).await?;
            *lock(&self.noted) = Some(marks);
            Ok(())
        })
    }
}
