//! Decides whether the tests of a release's chart run next, and whether a revision is rolled back because its tests or
//! its rollout failed. Pure.
//!
//! The marks of the records decide, so that a restart changes nothing: a revision's own say that its tests are due or
//! failed, and those of a rollback name the revision that it undoes.

use std::borrow::Cow;

use helm_release::release::Status;
use helm_release::storage::{Marks, Rejected, RejectedBy, Tests};

use super::inputs;
use crate::view::release::{ReleaseRecords, Revision};

/// What the tests of the newest revision require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing holds the revision: it has no tests, they passed, or their failure is only reported.
    Open,
    /// They run next.
    Test,
    /// They failed, and the revision is rolled back.
    RollBack,
    /// They failed, the revision is rolled back, and its inputs are not tried again.
    Closed,
    /// A person pins the release to an older revision, to which it is rolled back.
    Pin,
    /// The release is at the revision to which a person pins it.
    Pinned,
}

/// The newest revision as far as this operator wrote its record.
struct Newest<'a> {
    version: u32,
    revision: &'a Revision,
    marks: &'a Marks,
}

fn newest(release: &ReleaseRecords) -> Option<Newest<'_>> {
    let (version, revision) = release.newest().filter(|(_, newest)| newest.is_sealed())?;
    Some(Newest { version, revision, marks: revision.marks.as_deref()? })
}

impl Newest<'_> {
    fn is_deployed(&self) -> bool {
        self.revision.status == Status::Deployed
    }
}

/// Returns the state of the deployed revision's tests; `None` if it has none.
pub(crate) fn tests(release: &ReleaseRecords) -> Option<Tests> {
    newest(release).filter(Newest::is_deployed)?.marks.tests
}

/// Returns the revision that the release does not return to, because it failed its tests or the rollout that made it
/// was taken back: in the first case the deployed one until it is rolled back, and then the one that the rollback names.
pub(crate) fn rejected(release: &ReleaseRecords) -> Option<Cow<'_, Rejected>> {
    let newest = newest(release)?;
    match newest.marks.tests {
        Some(Tests::Rejected) if newest.is_deployed() => {
            let (version, inputs) = (newest.version, newest.marks.inputs.clone());
            Some(Cow::Owned(Rejected { version, inputs, by: RejectedBy::Tests }))
        }
        _ => newest.marks.rejected.as_deref().map(Cow::Borrowed),
    }
}

/// Returns the inputs that failed their tests, as far as a person may want to run them again.
pub(crate) fn judged(release: &ReleaseRecords) -> Option<String> {
    let newest = newest(release)?;
    match newest.marks.tests {
        Some(Tests::Failed) if newest.is_deployed() => Some(newest.marks.inputs.clone()),
        _ => rejected(release).filter(|one| one.by == RejectedBy::Tests).map(|rejected| rejected.inputs.clone()),
    }
}

/// Returns the revision to roll back to: the last one before the newest that was deployed by this operator for this
/// resource, or the one that an interrupted rollback had chosen. A revision that the newest one repeats does not count,
/// if a rollout made both. If what was rejected is undone already, and a return to a pinned revision failed since, it
/// is the deployed one.
pub(crate) fn target(release: &ReleaseRecords, uid: &str) -> Option<u32> {
    let newest = newest(release)?;
    let rejected = newest.marks.rejected.as_deref().filter(|_| !newest.is_deployed());
    let begun = rejected.and(newest.marks.rolled_back_to);
    let deployed = release.deployed().map(|(version, _)| version);
    let undone = rejected.and_then(|rejected| deployed.filter(|version| *version != rejected.version));
    // A record before the newest one cannot be older than its status says, because the newest one is running.
    let is_own = |version: u32| release.is_vouched(version, uid, version);
    let by_rollout = Some(newest.marks).filter(|marks| marks.before.is_some() && !marks.inputs.is_empty());
    let is_repeated = |one: &Revision| {
        let inputs = one.marks.as_ref().map(|marks| marks.inputs.as_str());
        by_rollout.is_some_and(|marks| inputs.is_some_and(|inputs| inputs::is_equal(inputs, &marks.inputs)))
    };
    let was_deployed = |(version, revision): &(&u32, &Revision)| {
        let is_before = revision.status == Status::Superseded && **version < newest.version;
        is_before && is_own(**version) && !is_repeated(revision)
    };
    let last = || release.revisions.iter().rev().find(was_deployed).map(|(version, _)| *version);
    undone.or(begun).filter(|version| is_own(*version)).or_else(last)
}

/// Returns how far a release is that a person pins to revision `to`; `None` if no such revision can be returned to, or
/// if the newest record is older than `reported`, the revision in the resource's status: it does not show what runs. The
/// revision may be one that is being uninstalled because a later one failed.
pub(crate) fn pin(release: &ReleaseRecords, to: u32, uid: &str, reported: u32) -> Option<Gate> {
    let newest = newest(release);
    if newest.as_ref().is_some_and(|newest| release.is_put_back(newest.version, reported)) {
        return None;
    }
    let is_there = newest.is_some_and(|newest| {
        newest.is_deployed() && (newest.version == to || newest.marks.rolled_back_to == Some(to))
    });
    let was_deployed = |revision: &Revision| matches!(revision.status, Status::Deployed | Status::Superseded);
    let is_leaving = || release.begun_uninstall().is_some_and(|(version, _)| version == to);
    let is_good = || release.revisions.get(&to).is_some_and(was_deployed) || is_leaving();
    let may_return = || is_good() && release.is_vouched(to, uid, to);
    match is_there {
        true => Some(Gate::Pinned),
        false => may_return().then_some(Gate::Pin),
    }
}

/// Returns what the tests require. `desired` is the digest of the resource's inputs, `again` that of inputs whose tests
/// a person wants to run again.
pub(crate) fn gate(release: &ReleaseRecords, uid: &str, desired: &str, again: Option<&str>) -> Gate {
    let Some(newest) = newest(release) else { return Gate::Open };
    let is_asked = again.is_some() && again == judged(release).as_deref();
    match newest.marks.tests.filter(|_| newest.is_deployed()) {
        Some(Tests::Due) => return Gate::Test,
        Some(Tests::Failed) if is_asked => return Gate::Test,
        _ => {}
    }
    let Some(rejected) = rejected(release).filter(|rejected| inputs::is_equal(&rejected.inputs, desired)) else {
        return Gate::Open;
    };
    let is_undone = newest.is_deployed() && newest.version != rejected.version;
    match () {
        () if is_undone && is_asked => Gate::Open,
        () if is_undone => Gate::Closed,
        () if target(release, uid).is_some() => Gate::RollBack,
        () => Gate::Open,
    }
}

#[cfg(test)]
mod tests {
    use helm_release::storage::Before;

    use super::*;
    use Status::{Deployed, Failed, PendingRollback, Superseded, Uninstalling};

    const BAD: &str = "2:bad.own";

    fn marks(inputs: &str, tests: Option<Tests>) -> Marks {
        Marks { inputs: inputs.into(), owner: "u".into(), complete: true, tests, ..Marks::default() }
    }

    fn undoing(version: u32, to: u32) -> Marks {
        let rejected = Some(Box::new(Rejected { version, inputs: BAD.into(), by: RejectedBy::Tests }));
        Marks { rejected, rolled_back_to: Some(to), ..marks("2:good.own", None) }
    }

    #[test]
    fn the_marks_of_the_newest_revision_decide() {
        let good = || (Superseded, marks("2:good.own", Some(Tests::Passed)));
        let bad = |tests| (Deployed, marks(BAD, Some(tests)));
        for (behaviour, revisions, desired, again, expected) in [
            ("no tests", vec![(Deployed, marks(BAD, None))], BAD, None, Gate::Open),
            ("due", vec![bad(Tests::Due)], BAD, None, Gate::Test),
            ("passed", vec![bad(Tests::Passed)], BAD, None, Gate::Open),
            ("reported", vec![good(), bad(Tests::Failed)], BAD, None, Gate::Open),
            ("reported, and asked for again", vec![good(), bad(Tests::Failed)], BAD, Some(BAD), Gate::Test),
            ("rejected", vec![good(), bad(Tests::Rejected)], BAD, None, Gate::RollBack),
            ("rejected, with nothing before", vec![bad(Tests::Rejected)], BAD, None, Gate::Open),
            ("rejected, and corrected", vec![good(), bad(Tests::Rejected)], "2:new.own", None, Gate::Open),
            (
                "the rollback was interrupted",
                vec![good(), bad(Tests::Rejected), (PendingRollback, undoing(2, 1))],
                BAD,
                None,
                Gate::RollBack,
            ),
            (
                "the rollback failed",
                vec![good(), bad(Tests::Rejected), (Failed, undoing(2, 1))],
                BAD,
                None,
                Gate::RollBack,
            ),
            (
                "rolled back",
                vec![good(), (Superseded, marks(BAD, None)), (Deployed, undoing(2, 1))],
                BAD,
                None,
                Gate::Closed,
            ),
            (
                "rolled back, and asked for again",
                vec![good(), (Superseded, marks(BAD, None)), (Deployed, undoing(2, 1))],
                BAD,
                Some(BAD),
                Gate::Open,
            ),
            (
                "rolled back, and corrected",
                vec![good(), (Superseded, marks(BAD, None)), (Deployed, undoing(2, 1))],
                "2:new.own",
                None,
                Gate::Open,
            ),
        ] {
            assert_eq!(gate(&ReleaseRecords::written_by_us(&revisions), "u", desired, again), expected, "{behaviour}");
        }
    }

    #[test]
    fn a_release_is_pinned_to_a_revision_that_was_deployed() {
        let check = |revisions: &[(Status, Marks)], to, expected: Option<Gate>| {
            assert_eq!(pin(&ReleaseRecords::written_by_us(revisions), to, "u", 0), expected, "{revisions:?} {to}");
        };
        let good = || (Superseded, marks("2:good.own", None));
        let now = || (Deployed, marks("2:new.own", None));
        check(&[good(), now()], 1, Some(Gate::Pin));
        check(&[good(), now()], 2, Some(Gate::Pinned));
        check(&[good(), now()], 3, None);
        check(&[(Failed, marks("2:a.own", None)), now()], 1, None);
        let back = || Marks { rolled_back_to: Some(1), ..marks("2:good.own", None) };
        check(&[good(), now(), (Deployed, back())], 1, Some(Gate::Pinned));
        check(&[good(), now(), (PendingRollback, back())], 1, Some(Gate::Pin));
        let (leaving, failed) = ((Uninstalling, now().1), (Failed, marks("2:bad.own", None)));
        let half_deleted = [good(), leaving.clone(), failed.clone()];
        check(&half_deleted, 1, Some(Gate::Pin));
        check(&half_deleted, 2, Some(Gate::Pin));
        check(&half_deleted, 3, None);
        check(&[leaving.clone(), failed, (PendingRollback, back())], 1, Some(Gate::Pin));
        check(&[good(), leaving], 2, None);
        assert_eq!(pin(&ReleaseRecords::written_by_us(&[good(), now()]), 1, "another", 0), None);
    }

    #[test]
    fn a_rollback_goes_to_the_last_revision_that_was_deployed_for_this_resource() {
        let last = [
            (Superseded, marks("2:a.own", None)),
            (Superseded, marks("2:b.own", None)),
            (Failed, marks("2:c.own", None)),
            (Deployed, marks(BAD, Some(Tests::Rejected))),
        ];
        assert_eq!(target(&ReleaseRecords::written_by_us(&last), "u"), Some(2));
        assert_eq!(target(&ReleaseRecords::written_by_us(&last), "another"), None);
        let begun = [last[0].clone(), last[1].clone(), (PendingRollback, undoing(2, 1))];
        assert_eq!(target(&ReleaseRecords::written_by_us(&begun), "u"), Some(1), "as it began");
        assert_eq!(target(&ReleaseRecords::written_by_us(&last[3..]), "u"), None);
        let (bad, undone) = ((Superseded, marks(BAD, None)), (Deployed, undoing(3, 2)));
        let pinned = [last[0].clone(), last[1].clone(), bad, undone, (Failed, undoing(3, 1))];
        let pinned = ReleaseRecords::written_by_us(&pinned);
        assert_eq!(target(&pinned, "u"), Some(4), "not the one that was pinned");
        assert_eq!(gate(&pinned, "u", BAD, None), Gate::RollBack);
    }

    #[test]
    fn a_rollback_of_a_rollout_goes_to_no_revision_that_the_rollout_made() {
        let by_rollout = || Marks { before: Some(Before::Ready), ..marks(BAD, None) };
        let repeated = [
            (Superseded, marks("2:good.own", None)),
            (Superseded, by_rollout()),
            (Failed, Marks::default()),
            (Deployed, by_rollout()),
        ];
        let mut release = ReleaseRecords::written_by_us(&repeated);
        release.drop_old_objects();
        assert_eq!(target(&release, "u"), Some(1));
    }
}
