//! Detects another process that writes the same release, from the release's records.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::release::ReleaseRecords;

/// How long another process's action is left alone after the last write to its record. Without leader election, the
/// process may have ended in the middle of the action.
const PATIENCE: Duration = Duration::from_secs(120);

/// After this time without a revision by another process, waits are short again. Longer than the longest wait.
const QUIET: Duration = Duration::from_secs(900);

/// Another process that writes a release's records while this one runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Competitor {
    pub(crate) writer: Arc<str>,
    /// Its newest revision that this process has not overwritten.
    revision: Option<u32>,
    /// When its last write was seen.
    seen: Timestamp,
    /// Number of revisions that it wrote without a quiet period.
    pub(crate) rounds: u32,
}

impl ReleaseRecords {
    /// Records that another process wrote a record while this one was watching.
    pub(crate) fn note_competitor(&mut self, writer: &str, version: u32, now: Timestamp) {
        let known = self.competitor.take().filter(|known| now < known.seen + QUIET);
        let last = known.as_ref().and_then(|known| known.revision);
        let is_new = last.is_none_or(|revision| revision < version);
        let rounds = known.map_or(0, |known| known.rounds).saturating_add(u32::from(is_new));
        self.competitor =
            Some(Box::new(Competitor { writer: writer.into(), revision: last.max(Some(version)), seen: now, rounds }));
    }

    /// Records that this process has written a revision.
    pub(crate) fn note_own(&mut self, version: u32) {
        if let Some(competitor) = &mut self.competitor {
            competitor.revision = competitor.revision.filter(|revision| *revision != version);
        }
    }

    /// Returns the other process, if it wrote the newest revision.
    pub(crate) fn winner(&self) -> Option<(u32, &Competitor)> {
        let (newest, _) = self.newest()?;
        let competitor = self.competitor.as_deref().filter(|competitor| competitor.revision == Some(newest))?;
        Some((newest, competitor))
    }

    /// Returns until when to leave the newest revision alone, if another process is working on it.
    pub(crate) fn left_to_competitor(&self) -> Option<Timestamp> {
        self.winner()?.1.seen.checked_add(PATIENCE).ok()
    }

    /// Returns the name of the other process, if it wrote the newest revision.
    pub(crate) fn written_by_competitor(&self) -> Option<&str> {
        self.winner().map(|(_, competitor)| &*competitor.writer)
    }
}

#[cfg(test)]
mod tests {
    use helm_release::release::Status;
    use helm_release::storage::Marks;

    use super::*;
    use crate::view::release::Trust;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns a release whose newest revision is this one.
    fn release(newest: u32) -> ReleaseRecords {
        let mut release = ReleaseRecords::default();
        release.put(newest, (Status::Deployed, Trust::Written(None)), 1, Marks::default());
        release
    }

    fn rounds(release: &ReleaseRecords) -> u32 {
        release.competitor.as_ref().map_or(0, |competitor| competitor.rounds)
    }

    #[test]
    fn rounds_count_the_other_processs_revisions_until_it_is_quiet() {
        let mut release = release(9);
        for (version, second, expected) in [(1, 0, 1), (1, 1, 1), (2, 2, 2), (4, 800, 3), (5, 1699, 4), (6, 2599, 1)] {
            release.note_competitor("b", version, at(second));
            assert_eq!(rounds(&release), expected, "revision {version} at {second}");
        }
    }

    #[test]
    fn a_revision_is_the_other_processs_until_this_one_writes_it_or_a_newer_one() {
        let mut release = release(2);
        assert_eq!(release.written_by_competitor(), None);
        release.note_competitor("b", 1, at(0));
        assert_eq!(release.written_by_competitor(), None);
        release.note_competitor("b", 2, at(0));
        assert_eq!((release.written_by_competitor(), release.left_to_competitor()), (Some("b"), Some(at(120))));
        // The other process marks the previous revision superseded.
        release.note_competitor("b", 1, at(0));
        assert_eq!(release.written_by_competitor(), Some("b"));
        release.put(2, (Status::Deployed, Trust::Written(None)), 2, Marks::default());
        assert_eq!(release.written_by_competitor(), None);
        release.note_competitor("b", 2, at(0));
        release.put(3, (Status::Deployed, Trust::Written(None)), 3, Marks::default());
        assert_eq!(release.left_to_competitor(), None);
    }
}
