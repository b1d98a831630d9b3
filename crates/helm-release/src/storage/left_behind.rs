//! Which revisions may have left objects behind: unsuccessful ones before one that this operator did not make. Helm deletes
//! objects of the deployed revision that the new one lacks, but not those that only a failed revision made.

use crate::release::Status;

/// Who made a revision, as its record shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// This operator.
    Operator,
    /// Helm or an upstream operator, while a resource had the release.
    HelmForResource,
    /// Helm before a resource had the release, or anyone: the record looks like ours, but its seal is invalid.
    Other,
}

/// Returns the revisions before a base that may have left objects that no later revision lists: the unsuccessful ones
/// since this operator last deployed a revision, which pruned the objects of earlier ones. We must not delete what Helm
/// left before a resource owned the release. `of` returns a revision's status and maker.
pub fn left_behind<T>(before: impl DoubleEndedIterator<Item = T>, of: impl Fn(&T) -> (Status, Maker)) -> Vec<T> {
    let has_pruned = |one: &T| matches!(of(one), (status, Maker::Operator) if !status.is_unsuccessful());
    let may_have_left =
        |one: &T| matches!(of(one), (status, maker) if status.is_unsuccessful() && maker != Maker::Other);
    let since = before.rev().take_while(|one| !has_pruned(one));
    let mut left: Vec<T> = since.filter(may_have_left).collect();
    left.reverse();
    left
}
