//! The work queue: each key runs at most once at a time, again if it was queued meanwhile, and later on request.
//!
//! Counterpart: client-go's work queue and controller-runtime's `RequeueAfter`. Unlike those, a key has at most one timer, which a new one
//! replaces, and the groups of keys (namespaces) take turns, so that a thousand keys of one group delay none of another.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue;

use crate::metrics::QueueMetrics;

/// The longest timer: the timer wheel panics beyond two years, and an annotation may ask for a thousand.
const LONGEST_TIMER: Duration = Duration::from_secs(365 * 24 * 3600);

/// A key's place among others that take turns.
pub(crate) trait Grouped {
    /// The group: a resource's namespace.
    fn group(&self) -> Arc<str>;
}

/// A queue of keys. One task at a time may wait for the next key.
pub(crate) struct Queue<K> {
    state: Mutex<State<K>>,
    changed: AtomicWaker,
}

/// When a key began to wait.
type Since = Instant;

struct State<K> {
    /// No key is handed out before the queue is opened.
    open: bool,
    /// The keys that are ready, by group.
    ready: HashMap<Arc<str>, VecDeque<(K, Since)>>,
    /// The groups with ready keys, each once: the first is next.
    turns: VecDeque<Arc<str>>,
    queued: HashSet<K>,
    running: HashSet<K>,
    /// Keys that were queued while they ran.
    again: HashMap<K, Since>,
    timers: DelayQueue<K>,
    /// The timer of each key that has one.
    due: HashMap<K, delay_queue::Key>,
    metrics: Option<QueueMetrics>,
}

impl<K: Clone + Eq + Hash + Grouped> Queue<K> {
    pub(crate) fn new() -> Queue<K> {
        let state = State {
            open: false,
            ready: HashMap::new(),
            turns: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            again: HashMap::new(),
            timers: DelayQueue::new(),
            due: HashMap::new(),
            metrics: None,
        };
        Queue { state: Mutex::new(state), changed: AtomicWaker::new() }
    }

    /// Starts handing out keys.
    pub(crate) fn open(&self) {
        self.state().open = true;
        self.changed.wake();
    }

    /// Counts what is queued and handed out from now on.
    pub(crate) fn count(&self, metrics: QueueMetrics) {
        let mut state = self.state();
        (0..state.queued.len() + state.again.len()).for_each(|_| metrics.added());
        state.metrics = Some(metrics);
    }

    /// Queues a key now.
    pub(crate) fn push(&self, key: K) {
        self.state().push(key);
        self.changed.wake();
    }

    /// Queues a key after a delay, which replaces the previous one.
    pub(crate) fn push_after(&self, key: K, after: Duration) {
        self.state().push_after(key, after.min(LONGEST_TIMER));
        self.changed.wake();
    }

    /// Cancels a key's timer.
    pub(crate) fn cancel(&self, key: &K) {
        let mut state = self.state();
        if let Some(timer) = state.due.remove(key) {
            state.timers.remove(&timer);
        }
    }

    /// Waits for the next key, which counts as running until [`Queue::done`].
    pub(crate) async fn next(&self) -> K {
        poll_fn(|task| {
            // Registered first, or a key that arrives in between would wake nobody.
            self.changed.register(task.waker());
            self.state().poll_next(task)
        })
        .await
    }

    /// Ends the work on a key.
    pub(crate) fn done(&self, key: &K) {
        let mut state = self.state();
        state.running.remove(key);
        if let Some(since) = state.again.remove(key) {
            state.wait(key.clone(), since);
        }
        drop(state);
        self.changed.wake();
    }

    /// How many keys have a timer.
    #[cfg(test)]
    pub(crate) fn timers(&self) -> usize {
        let state = self.state();
        assert_eq!(state.timers.len(), state.due.len());
        state.due.len()
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let group = key.group();
        let ready = self.ready.entry(group.clone()).or_default();
        if ready.is_empty() {
            self.turns.push_back(group);
        }
        ready.push_back((key, since));
    }

    /// The next key of the group whose turn it is.
    fn pop(&mut self) -> Option<(K, Since)> {
        let group = self.turns.pop_front()?;
        let ready = self.ready.get_mut(&group)?;
        let key = ready.pop_front();
        match ready.is_empty() {
            true => _ = self.ready.remove(&group),
            false => self.turns.push_back(group),
        }
        key
    }

    fn push_after(&mut self, key: K, after: Duration) {
        match self.due.get(&key) {
            Some(timer) => self.timers.reset(timer, after),
            None => _ = self.due.insert(key.clone(), self.timers.insert(key, after)),
        }
    }

    fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<K> {
        while let Poll::Ready(Some(due)) = self.timers.poll_expired(task) {
            let key = due.into_inner();
            self.due.remove(&key);
            self.push(key);
        }
        if !self.open {
            return Poll::Pending;
        }
        let Some((key, since)) = self.pop() else { return Poll::Pending };
        self.metrics.iter().for_each(|metrics| metrics.taken(since.elapsed()));
        self.queued.remove(&key);
        self.running.insert(key.clone());
        Poll::Ready(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Format, Metrics};

    const NEVER: Duration = Duration::from_secs(9);

    /// The part before the slash.
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
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_of_a_thousand_years_does_not_panic() {
        let queue = open();
        queue.push_after("a", Duration::MAX);
        assert!(is_quiet(&queue).await);
    }
}
