//! The work queue: each key runs at most once at a time, again if it was queued in the meantime, and later on request.
//!
//! Counterpart: client-go's work queue and controller-runtime's `RequeueAfter`. Unlike those, a key has at most one
//! timer, which a new one replaces, groups of keys (namespaces) take turns, and failed keys wait for their next attempt
//! in a separate queue ([`super::retries`]).

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use outside::sync;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::{self, Expired};

use super::fair_queue::{Groups, Since};
use super::retries::{Retries, RetryInputs};
use crate::metrics::QueueMetrics;

pub use super::fair_queue::Grouped;

/// The longest timer. The timer wheel panics beyond two years, and an annotation may ask for a thousand.
const LONGEST_TIMER: Duration = Duration::from_secs(365 * 24 * 3600);

/// A queue of keys. One task at a time may wait for the next key, and another for the next retry.
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: AtomicWaker,
    retries_changed: AtomicWaker,
}

/// How many keys a queue has, by what happens to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Keys that wait for a worker.
    pub waiting: usize,
    /// Keys whose reconcile failed, waiting for the worker of their retry.
    pub retrying: usize,
    /// Keys that a worker is processing.
    pub running: usize,
    /// Keys that a timer will queue.
    pub later: usize,
}

struct State<K> {
    /// Whether the queue is open. Before that, it hands out no keys.
    open: bool,
    ready: Groups<K>,
    queued: HashSet<K>,
    retries: Retries<K>,
    running: HashSet<K>,
    /// Keys that were queued while they were running.
    again: HashMap<K, Since>,
    /// The timers. A timer wheel takes 6 kB, and most of the kinds of a process may have no resource, so there is one
    /// only while a key has a timer.
    timers: Option<DelayQueue<K>>,
    /// The timer of each key that has one.
    due: HashMap<K, delay_queue::Key>,
    metrics: Option<QueueMetrics>,
}

/// Keys that still wait will never be handed out, so the metrics must not count them.
impl<K> Drop for State<K> {
    fn drop(&mut self) {
        let waiting = self.queued.len() + self.again.len() + self.retries.len();
        (0..waiting).for_each(|_| self.metrics.iter().for_each(QueueMetrics::left));
    }
}

impl<K: Clone + Eq + Hash + Grouped> Default for Queue<K> {
    fn default() -> Queue<K> {
        Queue::new()
    }
}

impl<K: Clone + Eq + Hash + Grouped> Queue<K> {
    /// Creates an empty queue that hands out nothing until it is opened.
    pub fn new() -> Queue<K> {
        let state = State {
            open: false,
            ready: Groups::default(),
            queued: HashSet::new(),
            retries: Retries::default(),
            running: HashSet::new(),
            again: HashMap::new(),
            timers: None,
            due: HashMap::new(),
            metrics: None,
        };
        Queue { state: Mutex::new(state), changed: AtomicWaker::new(), retries_changed: AtomicWaker::new() }
    }

    /// Starts handing out keys.
    pub fn open(&self) {
        self.state().open = true;
        self.wake();
    }

    /// Returns whether it hands out keys.
    pub fn is_open(&self) -> bool {
        self.state().open
    }

    /// Counts queued and handed-out keys from now on.
    pub fn count(&self, metrics: QueueMetrics) {
        let mut state = self.state();
        (0..state.queued.len() + state.again.len()).for_each(|_| metrics.added());
        state.metrics = Some(metrics);
    }

    /// Queues a key now.
    pub fn push(&self, key: K) {
        self.state().push(key);
        self.changed.wake();
    }

    /// Queues a key after a delay, which replaces the key's previous one.
    pub fn push_after(&self, key: K, after: Duration) {
        self.state().push_after(key, after.min(LONGEST_TIMER));
        self.changed.wake();
    }

    /// Cancels a key's timer.
    pub fn cancel(&self, key: &K) {
        self.state().cancel(key);
    }

    /// Cancels the timer and the retry of a deleted key.
    pub fn forget(&self, key: &K) {
        self.cancel(key);
        let mut state = self.state();
        if state.retries.leave(key) {
            state.metrics.iter().for_each(QueueMetrics::left);
        }
    }

    /// Enqueues a running key for its next attempt, or keeps its position. Corrected keys have a separate queue.
    pub fn retry(&self, key: &K, attempt: RetryInputs) {
        let mut state = self.state();
        if state.retries.ask(key, attempt) {
            state.metrics.iter().for_each(QueueMetrics::added);
        }
    }

    /// Waits until a retry may start: its key is neither running nor queued, because only one worker at a time works on
    /// a key.
    pub async fn retry_waits(&self) {
        poll_fn(|task| {
            self.retries_changed.register(task.waker());
            if self.state().has_retry() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Takes the next retry. Its key counts as running until [`Queue::done`].
    pub fn take_retry(&self) -> Option<K> {
        self.state().take_retry()
    }

    /// Waits for the next key. It counts as running until [`Queue::done`].
    pub async fn next(&self) -> K {
        poll_fn(|task| {
            // Registered first, because a key that arrives in between would otherwise wake no task.
            self.changed.register(task.waker());
            self.state().poll_next(task)
        })
        .await
    }

    /// Ends the work on a key.
    pub fn done(&self, key: &K) {
        let mut state = self.state();
        state.running.remove(key);
        if state.retries.ended(key) {
            state.metrics.iter().for_each(QueueMetrics::left);
        }
        if let Some(since) = state.again.remove(key) {
            state.wait(key.clone(), since);
        }
        drop(state);
        self.wake();
    }

    fn wake(&self) {
        self.changed.wake();
        self.retries_changed.wake();
    }

    /// Returns how many keys it has.
    pub fn sizes(&self) -> Sizes {
        let state = self.state();
        Sizes {
            waiting: state.queued.len() + state.again.len(),
            retrying: state.retries.len(),
            running: state.running.len(),
            later: state.due.len(),
        }
    }

    /// Returns how many keys have a timer.
    pub fn timers(&self) -> usize {
        let state = self.state();
        assert_eq!(state.timers.as_ref().map_or(0, DelayQueue::len), state.due.len());
        state.due.len()
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        sync::lock(&self.state)
    }
}

impl<K: Clone + Eq + Hash + Grouped> State<K> {
    fn push(&mut self, key: K) {
        if self.queued.contains(&key) || self.again.contains_key(&key) {
            return;
        }
        self.metrics.iter().for_each(QueueMetrics::added);
        let since = Instant::now();
        if self.running.contains(&key) {
            self.again.insert(key, since);
        } else {
            self.wait(key, since);
        }
    }

    fn wait(&mut self, key: K, since: Since) {
        self.queued.insert(key.clone());
        self.ready.push(key, since);
    }

    fn has_retry(&self) -> bool {
        self.open && self.retries.any(|key| !self.running.contains(key) && !self.queued.contains(key))
    }

    fn take_retry(&mut self) -> Option<K> {
        let State { running, queued, .. } = self;
        let (key, since) = self.retries.take(|key| !running.contains(key) && !queued.contains(key))?;
        self.metrics.iter().for_each(|metrics| metrics.taken(since.elapsed()));
        self.running.insert(key.clone());
        Some(key)
    }

    fn push_after(&mut self, key: K, after: Duration) {
        let timers = self.timers.get_or_insert_default();
        match self.due.get(&key) {
            Some(timer) => timers.reset(timer, after),
            None => _ = self.due.insert(key.clone(), timers.insert(key, after)),
        }
    }

    fn cancel(&mut self, key: &K) {
        if let (Some(timer), Some(timers)) = (self.due.remove(key), &mut self.timers) {
            timers.remove(&timer);
        }
        self.drop_timers_if_unused();
    }

    fn drop_timers_if_unused(&mut self) {
        if self.due.is_empty() {
            self.timers = None;
        }
    }

    /// Returns a key whose timer has run out.
    fn poll_timers(&mut self, task: &mut Context<'_>) -> Option<K> {
        match self.timers.as_mut()?.poll_expired(task) {
            Poll::Ready(due) => due.map(Expired::into_inner),
            Poll::Pending => None,
        }
    }

    fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<K> {
        while let Some(key) = self.poll_timers(task) {
            self.due.remove(&key);
            self.push(key);
        }
        self.drop_timers_if_unused();
        if !self.open {
            return Poll::Pending;
        }
        let Some((key, since)) = self.ready.pop() else { return Poll::Pending };
        self.metrics.iter().for_each(|metrics| metrics.taken(since.elapsed()));
        self.queued.remove(&key);
        self.running.insert(key.clone());
        Poll::Ready(key)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::metrics::{Format, Metrics};

    const NEVER: Duration = Duration::from_secs(9);

    /// The group is the part before the slash.
    impl Grouped for &'static str {
        fn group(&self) -> Arc<str> {
            self.split('/').next().unwrap_or_default().into()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn groups_take_turns_and_keys_of_one_group_keep_their_order() {
        let queue = open();
        ["a/1", "a/2", "a/3", "b/1", "a/4", "b/2"].into_iter().for_each(|key| queue.push(key));
        let mut order = Vec::new();
        for _ in 0..3 {
            order.push(queue.next().await);
        }
        queue.push("c/1");
        for _ in 3..7 {
            order.push(queue.next().await);
        }
        assert_eq!(order, ["a/1", "b/1", "a/2", "b/2", "a/3", "c/1", "a/4"]);
        assert!(is_quiet(&queue).await);
        queue.push("b/3");
        assert_eq!(queue.next().await, "b/3");
    }

    fn open() -> Queue<&'static str> {
        let queue = Queue::new();
        queue.open();
        queue
    }

    async fn is_quiet(queue: &Queue<&'static str>) -> bool {
        tokio::time::timeout(NEVER, queue.next()).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_key_is_not_handed_out_again_until_it_is_done() {
        let queue = open();
        queue.push("a");
        queue.push("a");
        queue.push("b");
        assert_eq!(queue.next().await, "a");
        queue.push("a");
        assert_eq!(queue.next().await, "b");
        assert!(is_quiet(&queue).await);
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
        queue.done(&"a");
        assert!(is_quiet(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_counts_where_it_is() {
        let queue = open();
        ["a", "b", "c"].into_iter().for_each(|key| queue.push(key));
        queue.push_after("d", Duration::from_secs(60));
        assert_eq!(queue.next().await, "a");
        queue.push("a");
        assert_eq!(queue.sizes(), Sizes { waiting: 3, retrying: 0, running: 1, later: 1 });
        queue.done(&"a");
        assert_eq!(queue.sizes(), Sizes { waiting: 3, retrying: 0, running: 0, later: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn no_key_is_handed_out_before_the_queue_opens() {
        let queue = Queue::new();
        queue.push("a");
        queue.push_after("b", Duration::from_secs(1));
        assert!(is_quiet(&queue).await);
        queue.open();
        assert_eq!((queue.next().await, queue.next().await), ("a", "b"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_a_timer_and_the_end_of_work_wake_the_waiter() {
        let queue = open();
        let push = async {
            tokio::task::yield_now().await;
            queue.push("a");
        };
        assert_eq!(tokio::join!(queue.next(), push).0, "a");
        let push = async {
            tokio::task::yield_now().await;
            queue.push_after("b", Duration::from_secs(1));
        };
        assert_eq!(tokio::join!(queue.next(), push).0, "b");
        queue.push("a");
        let done = async {
            tokio::task::yield_now().await;
            queue.done(&"a");
        };
        assert_eq!(tokio::join!(queue.next(), done).0, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_timer_replaces_the_old_one_whether_earlier_or_later() {
        for (times, expected) in [([1, 60], 60), ([60, 1], 1)] {
            let queue = open();
            times.iter().for_each(|time| queue.push_after("a", Duration::from_secs(*time)));
            let start = Instant::now();
            assert_eq!(queue.next().await, "a");
            assert_eq!(start.elapsed().as_secs(), expected);
            queue.done(&"a");
            assert!(is_quiet(&queue).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_timer_does_not_fire() {
        let queue = open();
        queue.push_after("a", Duration::from_secs(1));
        queue.cancel(&"a");
        queue.cancel(&"a");
        assert!(is_quiet(&queue).await);
        assert_eq!(queue.timers(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_without_timers_has_no_timer_wheel() {
        let queue = open();
        let has_wheel = || queue.state().timers.is_some();
        assert!(!has_wheel());
        queue.push_after("a", Duration::from_secs(1));
        queue.push_after("b", Duration::from_secs(2));
        queue.cancel(&"b");
        assert!(has_wheel(), "a key has a timer");
        assert_eq!(queue.next().await, "a");
        assert!(!has_wheel(), "its timer has run out");
        queue.push_after("b", Duration::from_secs(1));
        queue.cancel(&"b");
        assert!(!has_wheel(), "its timer is cancelled");
        queue.push_after("c", Duration::from_secs(1));
        assert_eq!(queue.next().await, "c", "a new wheel turns");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_postponed_a_million_times_uses_one_timer() {
        let queue = open();
        for _ in 0..1_000_000 {
            queue.push_after("a", Duration::from_secs(60));
        }
        assert_eq!(queue.timers(), 1);
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.timers(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_that_waits_is_counted_once() {
        let (queue, metrics) = (open(), Metrics::default());
        queue.push("early");
        queue.count(metrics.queue(&"c".into()));
        let depth = || {
            let text = metrics.encode(Format::Classic);
            let value = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.split(' ').nth(1)?.parse::<u32>().ok())
            };
            (value("workqueue_depth{"), value("workqueue_adds_total{"))
        };
        queue.push("a");
        queue.push("a");
        assert_eq!(depth(), (Some(2), Some(2)));
        assert_eq!((queue.next().await, queue.next().await), ("early", "a"));
        assert_eq!(depth(), (Some(0), Some(2)));
        queue.push("a");
        queue.push("a");
        assert_eq!(depth(), (Some(1), Some(3)));
        queue.done(&"a");
        assert_eq!(depth(), (Some(1), Some(3)));
        assert_eq!(queue.next().await, "a");
        assert_eq!(depth(), (Some(0), Some(3)));
        queue.retry(&"a", RetryInputs::Same);
        queue.retry(&"a", RetryInputs::Corrected);
        queue.done(&"a");
        assert_eq!(depth(), (Some(1), Some(4)), "a retry waits as well");
        assert_eq!(next_retry(&queue).await, Some("a"));
        assert_eq!(depth(), (Some(0), Some(4)));
        queue.retry(&"a", RetryInputs::Same);
        queue.done(&"a");
        queue.forget(&"a");
        assert_eq!(depth(), (Some(0), Some(5)));
        queue.push("b");
        assert_eq!(depth().0, Some(1));
        drop(queue);
        assert_eq!(depth().0, Some(0), "a queue that is gone has no keys");
    }

    /// Takes the next key, whose reconcile then asks for a retry.
    async fn fail(queue: &Queue<&'static str>, attempt: RetryInputs) -> &'static str {
        let key = queue.next().await;
        queue.retry(&key, attempt);
        queue.done(&key);
        key
    }

    async fn next_retry(queue: &Queue<&'static str>) -> Option<&'static str> {
        tokio::time::timeout(NEVER, queue.retry_waits()).await.ok()?;
        queue.take_retry()
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_no_keys_for_ordinary_workers() {
        let queue = open();
        ["a/1", "b/1"].into_iter().for_each(|key| queue.push(key));
        fail(&queue, RetryInputs::Same).await;
        fail(&queue, RetryInputs::Same).await;
        assert!(is_quiet(&queue).await);
        assert_eq!((next_retry(&queue).await, next_retry(&queue).await), (Some("a/1"), Some("b/1")));
        assert_eq!(next_retry(&queue).await, None);
        queue.done(&"a/1");
        assert_eq!(next_retry(&queue).await, None, "the attempt did not ask for another one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_a_key_in_line_is_seen_at_once_and_costs_no_place() {
        let queue = open();
        for key in ["a/1", "b/1"] {
            queue.push(key);
            fail(&queue, RetryInputs::Same).await;
        }
        queue.push("a/1");
        assert_eq!(next_retry(&queue).await, Some("b/1"), "the other one is queued");
        assert_eq!(queue.next().await, "a/1");
        assert_eq!(next_retry(&queue).await, None, "and running");
        queue.retry(&"a/1", RetryInputs::Same);
        queue.push("a/1");
        queue.done(&"a/1");
        assert_eq!(next_retry(&queue).await, None, "and queued again");
        fail(&queue, RetryInputs::Corrected).await;
        assert_eq!(next_retry(&queue).await, Some("a/1"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_succeeds_or_is_gone_leaves_the_line() {
        let queue = open();
        for key in ["a/1", "b/1"] {
            queue.push(key);
            fail(&queue, RetryInputs::Same).await;
        }
        queue.push("a/1");
        queue.done(&queue.next().await);
        queue.forget(&"b/1");
        assert_eq!(next_retry(&queue).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_work_and_the_opening_wake_who_waits_for_a_retry() {
        let queue = Queue::new();
        queue.push("a");
        let work = async {
            tokio::task::yield_now().await;
            queue.open();
            fail(&queue, RetryInputs::Same).await
        };
        tokio::join!(work, async { tokio::time::timeout(NEVER, queue.retry_waits()).await.unwrap() });
        assert_eq!(queue.take_retry(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_of_a_thousand_years_does_not_panic() {
        let queue = open();
        queue.push_after("a", Duration::MAX);
        assert!(is_quiet(&queue).await);
    }
}
