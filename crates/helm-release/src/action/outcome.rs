//! The outcome of an action: the revision that it made, or its failure and the revision that records it.

use jiff::Timestamp;

use super::Error;
use crate::kube::{Applied, ObjectKey};
use crate::release::Status;
use crate::storage::{Known, Marks, Written};

/// The result of a successful action.
#[derive(Clone, Debug)]
pub struct Completed {
    /// The new revision.
    pub version: u32,
    /// The record as written.
    pub written: Written,
    /// The marks as written: inputs digest, owner, inventory.
    pub marks: Marks,
    /// The objects that were applied; skipped ones are missing.
    pub applied: Vec<Applied>,
    /// The objects that were deleted because the revision no longer contains them.
    pub pruned: Vec<ObjectKey>,
    /// Revisions that were deployed and are now marked superseded, with their records' resource versions.
    pub superseded: Vec<(u32, u64)>,
    /// Revisions that were deleted from the history.
    pub dropped: Vec<Known>,
    /// When revision 1 was deployed.
    pub first_deployed: Option<Timestamp>,
    /// The rendered NOTES.txt.
    pub notes: String,
}

/// A failed action, with the revision that records the failure.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct Failure {
    /// The cause.
    #[source]
    pub cause: Error,
    /// The recorded revision; `None` if the action failed before its record was written.
    pub recorded: Option<RecordedFailure>,
    /// The revision whose record someone deleted during the action. There is nothing to continue, so the next attempt
    /// starts over.
    pub lost: Option<u32>,
}

/// The trace of a failed action in the history.
#[derive(Clone, Debug)]
pub struct RecordedFailure {
    /// The revision.
    pub version: u32,
    /// `failed`, or pending if the next attempt continues it or gives it up.
    pub status: Status,
    /// The record's resource version; 0 if the write failed or the response to it was lost.
    pub resource_version: u64,
    /// Marks with every object that may exist now.
    pub marks: Marks,
    /// Revisions that were deleted from the history.
    pub dropped: Vec<Known>,
}

impl From<Error> for Failure {
    fn from(cause: Error) -> Failure {
        Failure { cause, recorded: None, lost: None }
    }
}
