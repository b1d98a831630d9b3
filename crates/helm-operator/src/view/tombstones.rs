//! Remembers recently deleted objects, so that a late response to a write does not bring one back.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// How long a deletion is remembered. Longer than any write takes.
const REMEMBERED: Duration = Duration::from_secs(300);

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
