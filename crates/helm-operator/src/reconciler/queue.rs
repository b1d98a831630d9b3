//! Which resource is worked on next: each at most once at a time, again if something happened meanwhile, later if asked to.
//!
//! Counterpart: client-go's work queue and controller-runtime's `RequeueAfter`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// A queue of keys.
pub(super) struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    /// Nothing is given out before the queue is opened.
    open: bool,
    ready: VecDeque<K>,
    queued: HashSet<K>,
    running: HashSet<K>,
    /// Keys that were queued while they ran.
    again: HashSet<K>,
    /// The one time at which a key is due; other entries in the heap are stale.
    due: HashMap<K, Instant>,
    timers: BinaryHeap<Reverse<(Instant, K)>>,
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    pub(super) fn new() -> Queue<K> {
        let state = State {
            open: false,
            ready: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            due: HashMap::new(),
            timers: BinaryHeap::new(),
        };
        Queue { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Starts to give keys out.
    pub(super) fn open(&self) {
        self.state().open = true;
        self.changed.notify_one();
    }

    /// Queues a key now.
    pub(super) fn push(&self, key: K) {
        self.state().push(key);
        self.changed.notify_one();
    }

    /// Queues a key after a time; replaces the time that it had.
    pub(super) fn push_after(&self, key: K, after: Duration) {
        let at = Instant::now() + after;
        let mut state = self.state();
        state.due.insert(key.clone(), at);
        state.timers.push(Reverse((at, key)));
        drop(state);
        self.changed.notify_one();
    }

    /// Forgets when a key is due.
    pub(super) fn cancel(&self, key: &K) {
        self.state().due.remove(key);
    }

    /// The next key; it runs until [`Queue::done`].
    pub(super) async fn next(&self) -> K {
        loop {
            let wake = {
                let mut state = self.state();
                state.take_due(Instant::now());
                if state.open
                    && let Some(key) = state.ready.pop_front()
                {
                    state.queued.remove(&key);
                    state.running.insert(key.clone());
                    return key;
                }
                state.timers.peek().filter(|_| state.open).map(|Reverse((at, _))| *at)
            };
            match wake {
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Ends the work on a key.
    pub(super) fn done(&self, key: &K) {
        let mut state = self.state();
        state.running.remove(key);
        if state.again.remove(key) {
            state.push(key.clone());
        }
        drop(state);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    fn push(&mut self, key: K) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn take_due(&mut self, now: Instant) {
        while let Some(Reverse((at, _))) = self.timers.peek()
            && *at <= now
        {
            let Some(Reverse((at, key))) = self.timers.pop() else { return };
            if self.due.get(&key) == Some(&at) {
                self.due.remove(&key);
                self.push(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_that_runs_is_not_given_out_again_until_it_is_done() {
        let queue = Queue::new();
        queue.open();
        queue.push("a");
        queue.push("a");
        queue.push("b");
        assert_eq!(queue.next().await, "a");
        queue.push("a");
        assert_eq!(queue.next().await, "b");
        assert!(tokio::time::timeout(Duration::from_secs(1), queue.next()).await.is_err());
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_time_replaces_an_earlier_one() {
        let queue = Queue::new();
        queue.open();
        queue.push_after("a", Duration::from_secs(1));
        queue.push_after("a", Duration::from_secs(60));
        let start = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 60);
        queue.done(&"a");
        queue.push_after("a", Duration::from_secs(1));
        queue.cancel(&"a");
        assert!(tokio::time::timeout(Duration::from_secs(9), queue.next()).await.is_err());
    }
}
