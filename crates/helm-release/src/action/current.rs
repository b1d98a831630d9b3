//! An existing release, as an action finds it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::kube::ObjectKey;
use crate::release::Packed;
use crate::storage::{self, Known, Marks, Stored};

/// An existing release, as its records describe it.
#[derive(Clone, Debug)]
pub struct Current {
    /// The newest revision.
    pub version: u32,
    /// Whether the newest revision is pending.
    pub pending: bool,
    /// Earlier revisions that are still pending, because another writer's revision followed. Their hooks may still run.
    pub abandoned: Vec<u32>,
    /// The record of every revision, oldest first.
    pub records: Vec<Known>,
    /// The revision with status `deployed`, if any: older than `version` after a failure.
    pub deployed: Option<u32>,
    /// Older revisions with status `deployed`, which an interrupted action did not mark superseded.
    pub outdated: Vec<u32>,
    /// The deployed revision, or else the one that was deployed last: the closest to the running objects.
    pub last_good: Option<u32>,
    /// Whether the records prove that no revision was ever deployed.
    pub never_deployed: bool,
    /// Every object that may exist: those of the newest and of the deployed revision.
    pub inventory: Marks,
    /// The Jobs that finished and were deleted for an earlier resource of the release's name, as far as is known. If nothing
    /// else is left of its release, they run again.
    pub finished_for_former: Vec<ObjectKey>,
    /// The deployed revision's record, if it is in memory; read from storage otherwise.
    pub packed: Option<Stored<Packed>>,
    /// The deployed revision's own marks, if this operator recorded it.
    pub marks: Option<Arc<Marks>>,
    /// When revision 1 was deployed, if known.
    pub first_deployed: Option<Timestamp>,
    /// The inputs digest of the newest revision's interrupted action, if it is pending. Its record says how far it got.
    pub interrupted: Option<String>,
    /// Whether Helm itself made one of the revisions.
    pub taken_over: bool,
    /// Whether the release's override values are strings ([`Marks::string_overrides`]).
    pub string_overrides: bool,
}

impl Current {
    /// Returns the number of the next revision with these inputs: the interrupted revision's if the action continues
    /// it.
    pub fn next_version(&self, inputs: &str) -> u32 {
        if self.is_continued_with(inputs) { self.version } else { self.version + 1 }
    }

    /// Returns the number of the revision that a rollback makes: the pending revision's, because the rollback may continue
    /// it.
    pub fn version_of_rollback(&self) -> u32 {
        if self.pending { self.version } else { self.version + 1 }
    }

    /// Returns whether a revision since the last good one has been trimmed from the history, although it may have
    /// applied what is live.
    pub(super) fn lacks_revisions(&self) -> bool {
        let is_known = |version: u32| self.records.iter().any(|known| known.version == version);
        !(self.last_good.unwrap_or(1)..=self.version).all(is_known)
    }

    /// Returns whether an object is the release's own, whoever made it: the deployed revision has it. If the record of that
    /// one is Helm's, any object that is listed may be its. The record may also list what only later attempts have had, if
    /// an uninstall was called off.
    pub(super) fn has_settled(&self, key: &ObjectKey) -> bool {
        match &self.marks {
            Some(deployed) => deployed.find(key).is_some_and(|known| known.digest.is_some() && !known.attempted),
            None => self.taken_over,
        }
    }

    /// Returns whether the tests of the deployed revision are due, as far as is known.
    pub(super) fn has_tests_due(&self) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.tests == Some(storage::Tests::Due))
    }

    /// Returns the release as seen by an action that does not continue the interrupted one.
    pub(super) fn giving_up(&self) -> Current {
        Current { interrupted: None, ..self.clone() }
    }

    /// Returns whether an action with these inputs continues the interrupted one.
    pub(super) fn is_continued_with(&self, inputs: &str) -> bool {
        self.pending && self.interrupted.as_deref() == Some(inputs)
    }
}
