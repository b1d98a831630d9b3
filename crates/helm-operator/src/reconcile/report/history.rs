//! Continues `status.history` and lists `status.inventory` from the records of a release. Pure.

use std::sync::Arc;

use helm_release::kube::intern;
use helm_release::release::Status as Outcome;
use jiff::Timestamp;

use crate::reconcile::decide::inputs;
use crate::status::history::{HistoryEntry, MAX_REVISIONS, RevisionAction};
use crate::status::inventory::Inventory;
use crate::view::release::{ReleaseRecords, Revision};

/// Returns the last revisions, newest first: those on record, and before them those that the status still names although
/// their records were pruned. `chart_of` names the chart of a revision that the status does not know.
pub(crate) fn history(
    old: &[HistoryEntry],
    release: &ReleaseRecords,
    chart_of: impl Fn(u32, &Revision) -> Option<Arc<str>>,
    now: Timestamp,
) -> Box<[HistoryEntry]> {
    let Some((oldest, _)) = release.revisions.first() else { return Box::default() };
    let known = |version: u32| old.iter().find(|entry| entry.revision == version);
    let deployed = release.deployed().map(|(version, _)| version);
    let recorded = release.revisions.iter().rev().map(|(version, revision)| {
        let chart = || chart_of(*version, revision).or_else(|| repeated(revision, old)).unwrap_or_default();
        let outcome = match revision.status {
            // A crash came before the write that supersedes it.
            Outcome::Deployed if deployed != Some(*version) => Outcome::Superseded,
            status => status,
        };
        let entry = NewEntry { version: *version, revision, outcome };
        entry.of(known(*version), || action(*version, revision, release, old), chart, now)
    });
    let pruned = old.iter().filter(|entry| entry.revision < *oldest).cloned();
    recorded.chain(pruned).take(MAX_REVISIONS).collect()
}

/// A revision whose entry is written.
struct NewEntry<'a> {
    version: u32,
    revision: &'a Revision,
    outcome: Outcome,
}

impl NewEntry<'_> {
    /// Continues the entry that the status has, if any.
    fn of(
        &self,
        known: Option<&HistoryEntry>,
        action: impl Fn() -> RevisionAction,
        chart: impl Fn() -> Arc<str>,
        now: Timestamp,
    ) -> HistoryEntry {
        let NewEntry { version, revision, outcome } = *self;
        // Only the newest revisions keep their inputs in memory.
        let digest = revision.marks.as_ref().and_then(|marks| inputs::own_part(&marks.inputs)).map(Box::from);
        let cause = revision.marks.as_ref().map(|marks| marks.cause.clone()).filter(|cause| !cause.is_empty());
        let is_settled = |known: &&HistoryEntry| *known.outcome == *outcome.as_str() || outcome == Outcome::Superseded;
        HistoryEntry {
            revision: version,
            chart: known.map(|known| known.chart.clone()).filter(|chart| !chart.is_empty()).unwrap_or_else(chart),
            digest: digest.or_else(|| known.map(|known| known.digest.clone())).unwrap_or_default(),
            action: known.map_or_else(action, |known| known.action),
            cause: cause.or_else(|| known.map(|known| known.cause.clone())).unwrap_or_default(),
            outcome: intern(outcome.as_str()),
            updated: match known.filter(is_settled) {
                Some(known) => known.updated,
                None => revision.written.or(Some(now)).map(in_seconds),
            },
        }
    }
}

fn in_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Returns the chart of the revision that a rollback repeats.
fn repeated(revision: &Revision, old: &[HistoryEntry]) -> Option<Arc<str>> {
    let of = revision.marks.as_ref()?.rolled_back_to?;
    old.iter().find(|entry| entry.revision == of).map(|entry| entry.chart.clone())
}

fn action(version: u32, revision: &Revision, release: &ReleaseRecords, old: &[HistoryEntry]) -> RevisionAction {
    if revision.is_rollback() {
        return RevisionAction::Rollback;
    }
    let was_deployed = |status: Outcome| matches!(status, Outcome::Deployed | Outcome::Superseded);
    let before = release.revisions.iter().take_while(|(other, _)| **other < version);
    let is_later = before.into_iter().any(|(_, revision)| was_deployed(revision.status));
    let is_pruned = version > 1 && release.revisions.first().is_some_and(|(oldest, _)| *oldest > 1);
    let is_known = old.iter().any(|entry| entry.revision < version && was_deployed(Outcome::parse(&entry.outcome)));
    if is_later || is_pruned || is_known { RevisionAction::Upgrade } else { RevisionAction::Install }
}

/// Lists the objects that may be live. The release must be the resource's.
pub(crate) fn inventory(release: &ReleaseRecords) -> Option<Inventory> {
    release.newest().filter(|(_, newest)| newest.status != Outcome::Uninstalled)?;
    let marks = release.inventory();
    Some(Inventory::of(marks.objects.iter().map(|object| (&object.key, &*object.api_version))))
}

#[cfg(test)]
mod tests {
    use helm_release::storage::Marks;

    use super::*;
    use Outcome::{Deployed, Failed, PendingUpgrade, Superseded};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn revision(status: Outcome, rolled_back_to: Option<u32>) -> Revision {
        let marks = Marks { inputs: "2:all.own".into(), rolled_back_to, ..Marks::default() };
        Revision::written_by_us(status, marks)
    }

    fn release(revisions: &[(u32, Outcome, Option<u32>)]) -> ReleaseRecords {
        let revisions = revisions.iter().map(|(version, status, to)| (*version, revision(*status, *to))).collect();
        ReleaseRecords { revisions, ..ReleaseRecords::default() }
    }

    fn next(
        old: &[HistoryEntry],
        revisions: &[(u32, Outcome, Option<u32>)],
        chart: &str,
        second: i64,
    ) -> Vec<HistoryEntry> {
        history(old, &release(revisions), |_, _| Some(chart.into()), at(second)).into()
    }

    /// Returns `REVISION CHART ACTION OUTCOME SECOND`.
    fn lines(history: &[HistoryEntry]) -> Vec<String> {
        let action = |entry: &HistoryEntry| format!("{:?}", entry.action).to_lowercase();
        let second = |entry: &HistoryEntry| entry.updated.map_or(-1, Timestamp::as_second);
        let line = |e: &HistoryEntry| format!("{} {} {} {} {}", e.revision, e.chart, action(e), e.outcome, second(e));
        history.iter().map(line).collect()
    }

    #[test]
    fn the_history_of_a_release_is_listed_newest_first() {
        let first = next(&[], &[(1, Deployed, None)], "shop-1", 10);
        assert_eq!(lines(&first), ["1 shop-1 install deployed 10"]);
        assert_eq!(&*first[0].digest, "own", "of the resource's own part only");
        let failing = next(&first, &[(1, Deployed, None), (2, PendingUpgrade, None)], "shop-2", 20);
        assert_eq!(lines(&failing), ["2 shop-2 upgrade pending-upgrade 20", "1 shop-1 install deployed 10"]);
        let back = [(1, Superseded, None), (2, Failed, None), (3, Deployed, Some(1))];
        let back = history(&failing, &release(&back), |_, _| None, at(30));
        let expected =
            ["3 shop-1 rollback deployed 30", "2 shop-2 upgrade failed 30", "1 shop-1 install superseded 10"];
        assert_eq!(lines(&back), expected, "being superseded is nothing that the revision did");
        assert_eq!(next(&back, &[(1, Superseded, None), (2, Failed, None), (3, Deployed, Some(1))], "x", 99), *back);
    }

    #[test]
    fn five_revisions_stay_although_fewer_have_records() {
        let mut entries = Vec::new();
        for version in 1..=9 {
            entries = next(&entries, &[(version, Deployed, None)], "shop-1", i64::from(version));
        }
        let revisions: Vec<u32> = entries.iter().map(|entry| entry.revision).collect();
        assert_eq!(revisions, [9, 8, 7, 6, 5]);
        assert!(entries.iter().all(|entry| entry.action == RevisionAction::Upgrade));
        let anew = next(&entries, &[(1, Deployed, None)], "shop-1", 20);
        assert_eq!(lines(&anew), ["1 shop-1 install deployed 20"], "another release of the same name");
        assert!(next(&entries, &[], "shop-1", 20).is_empty());
    }

    #[test]
    fn a_first_install_that_is_tried_again_is_still_an_install() {
        let all = next(&[], &[(1, Failed, None), (2, Deployed, None)], "shop-1", 5);
        assert_eq!(lines(&all), ["2 shop-1 install deployed 5", "1 shop-1 install failed 5"]);
        let pruned = next(&[], &[(4, Superseded, None), (5, Deployed, None)], "", 5);
        assert_eq!(lines(&pruned), ["5  upgrade deployed 5", "4  upgrade superseded 5"]);
    }
}
