//! What an action did to objects, kept beside the record of its revision for people to read.

use super::deploy::Attempt;
use crate::release::Release;
use crate::storage::{MarkedObject, Marks};

/// Records an action's effects on objects, in the caller's own format.
///
/// No decision depends on it: the record does not need it, and its seal does not cover it.
pub trait Account: Send + Sync {
    /// Returns what was done, to be kept with the record of the revision; `None` keeps nothing. Called once, right before
    /// the last write of the record, whether the action succeeded or not.
    fn plan(&self, made: &Made<'_>) -> Option<Vec<u8>>;
}

/// Keeps nothing.
impl Account for () {
    fn plan(&self, _: &Made<'_>) -> Option<Vec<u8>> {
        None
    }
}

/// A revision that an action made.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// The release as it is about to be recorded.
    pub release: &'a Release,
    /// The revision that it replaces, if the caller may compare with it: `None` for the first revision, for a rollback,
    /// which replaces the objects of a failed revision, and if the record is not in memory.
    pub before: Option<&'a Release>,
    /// The objects of the revision.
    pub objects: &'a [MarkedObject],
    /// The objects that leave the release.
    pub former: &'a [MarkedObject],
    /// Whether an earlier attempt at the same revision was interrupted.
    pub is_continued: bool,
}

impl Attempt<'_> {
    /// Asks the caller what the action did. `ahead` lists the revision's objects first, then the objects that leave the
    /// release.
    pub(super) fn account(&self, release: &Release, before: Option<&Release>, ahead: &Marks) -> Option<Vec<u8>> {
        let (objects, former) = ahead.objects.split_at_checked(self.keys.len()).unwrap_or((&ahead.objects, &[]));
        let is_continued = self.current.is_some_and(|current| current.is_continued_with(&self.candidate.inputs));
        let before = before.filter(|_| !self.is_rollback());
        self.env.account.plan(&Made { release, before, objects, former, is_continued })
    }
}
