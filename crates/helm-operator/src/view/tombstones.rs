//! Remembers objects that were deleted lately, and resources that departed, so that a late response or event does not
//! bring one back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use controller::runtime::freshness::Epoch;
use tokio::time::Instant;

/// How long a deletion is remembered. Longer than any write takes.
const REMEMBERED: Duration = Duration::from_secs(300);

/// What departed recently, with its version and the time: resources that were deleted or are served elsewhere, by uid, or
/// deleted records, by name. Lists, events and responses of an earlier version are outdated.
pub(crate) struct RecentDepartures<K>(HashMap<K, (u64, Instant)>);

impl<K> Default for RecentDepartures<K> {
    fn default() -> RecentDepartures<K> {
        RecentDepartures(HashMap::new())
    }
}

impl<K: Hash + Eq> RecentDepartures<K> {
    pub(crate) fn add(&mut self, what: K, version: u64) {
        let now = Instant::now();
        self.0.retain(|_, (_, at)| *at + REMEMBERED >= now);
        let (known, at) = self.0.entry(what).or_insert((version, now));
        (*known, *at) = ((*known).max(version), now);
    }

    /// Returns whether this version is from before the departure. A list that began later is the truth, even with a
    /// smaller version: the server was restored to a time before the departure, which is forgotten then.
    pub(crate) fn turns_away(&mut self, what: &K, version: u64, epoch: Option<Epoch>) -> bool {
        let Some((_, at)) = self.0.get(what).filter(|(left, _)| version <= *left) else { return false };
        let is_later_list = epoch.is_some_and(|epoch| epoch.is_list && epoch.began > *at);
        let is_over = is_later_list || *at + REMEMBERED < Instant::now();
        if is_over {
            self.0.remove(what);
        }
        !is_over
    }

    /// Forgets departures before a complete list that covers them: what is written now follows the list, even with a
    /// smaller version.
    pub(crate) fn forget_before(&mut self, list: Epoch, covers: impl Fn(&K) -> bool) {
        self.0.retain(|what, (_, at)| *at > list.began || !covers(what));
    }
}

/// The uids of recently deleted objects.
#[derive(Default)]
pub(crate) struct RecentDeletions {
    uids: HashSet<Box<str>>,
    order: VecDeque<(Instant, Box<str>)>,
}

impl RecentDeletions {
    pub(crate) fn add(&mut self, uid: &str) {
        let now = Instant::now();
        while self.order.front().is_some_and(|(at, _)| *at + REMEMBERED < now) {
            self.order.pop_front().map(|(_, uid)| self.uids.remove(&uid));
        }
        if self.uids.insert(uid.into()) {
            self.order.push_back((now, uid.into()));
        }
    }

    /// Forgets the deletion of an object that a list contains: the server was restored to a time before it. After a list
    /// that is merely older, the deletion is reported again.
    pub(crate) fn forget(&mut self, uid: &str) {
        if self.uids.remove(uid) {
            self.order.retain(|(_, known)| **known != *uid);
        }
    }

    pub(crate) fn has(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_went_comes_back_in_a_later_version_or_in_a_later_list() {
        let epoch = |is_list| Some(Epoch { number: 1, began: Instant::now(), is_list });
        let early = epoch(true);
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut departures = RecentDepartures::default();
        departures.add("a".to_owned(), 7);
        departures.add("a".to_owned(), 5);
        tokio::time::advance(Duration::from_secs(1)).await;
        for (what, version, epoch, is_old) in [
            ("an event from before", 6, epoch(false), true),
            ("the event of its leaving", 7, epoch(false), true),
            ("an event from after", 8, epoch(false), false),
            ("an answer to a write from before", 6, None, true),
            ("a list that began before", 6, early, true),
            ("a list that began after", 6, epoch(true), false),
            ("an event that follows that list", 6, epoch(false), false),
        ] {
            assert_eq!(departures.turns_away(&"a".to_owned(), version, epoch), is_old, "{what}");
        }
        assert!(!departures.turns_away(&"b".to_owned(), 1, None));
        departures.add("a".to_owned(), 7);
        tokio::time::advance(REMEMBERED + Duration::from_secs(1)).await;
        assert!(!departures.turns_away(&"a".to_owned(), 6, None), "it went long ago");
    }
}
