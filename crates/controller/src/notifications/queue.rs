//! The events that wait for the sink, oldest first, within bounds of number and age.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lru::LruCache;
use outside::sync;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::send::{Sender, Sent};
use crate::events::{EventKey, Notice, SERIES};
use crate::metrics::{Metrics, Notified};
use crate::runtime::backoff::Backoff;

/// The maximum number of waiting events, of at most about 2 KiB each. Further ones are dropped and counted.
pub(super) const MOST: usize = 1024;
/// How long an event waits for the sink. An older event is dropped, so that an event that the sink cannot accept does
/// not block the others forever.
pub(super) const MAX_AGE: Duration = Duration::from_secs(3600);
/// How many events to remember, so that a repeated one is not sent again. The least recently seen is forgotten first.
const MAX_SEEN: NonZeroUsize = NonZeroUsize::new(1024).expect("1024 is not zero");
/// The waits between attempts.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(super) struct Queue {
    sender: Sender,
    metrics: Metrics,
    waiting: Mutex<Waiting>,
    /// Cancelled on shutdown, which ends the waits between attempts.
    hurry: CancellationToken,
    tasks: TaskTracker,
}

struct Waiting {
    notices: VecDeque<(Notice, Instant)>,
    seen: LruCache<EventKey, Instant>,
    /// The task that sends; it ends when nothing waits.
    task: Option<JoinHandle<()>>,
    /// Whether the last event was dropped.
    is_full: bool,
}

impl Queue {
    pub(super) fn new(sender: Sender, metrics: &Metrics) -> Arc<Queue> {
        metrics.show_notifications();
        Arc::new(Queue {
            sender,
            metrics: metrics.clone(),
            waiting: Mutex::new(Waiting {
                notices: VecDeque::new(),
                seen: LruCache::new(MAX_SEEN),
                task: None,
                is_full: false,
            }),
            hurry: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Queues an event, unless it repeats one of the last minutes.
    pub(super) fn put(self: &Arc<Self>, notice: Notice) {
        let mut waiting = self.waiting();
        let now = Instant::now();
        if waiting.is_repeated(&notice.key, now) {
            return;
        }
        let is_full = waiting.notices.len() >= MOST;
        let was_full = std::mem::replace(&mut waiting.is_full, is_full);
        if is_full {
            // Forget it, so that it is queued if it happens again when there is room.
            waiting.seen.pop(&notice.key);
            self.metrics.notified(Notified::Dropped);
            if !was_full {
                tracing::warn!(waiting = MOST, "Too many CloudEvents wait for their sink; new ones are dropped");
            }
            return;
        }
        waiting.notices.push_back((notice, now));
        if waiting.task.as_ref().is_none_or(JoinHandle::is_finished) {
            let queue = self.clone();
            waiting.task = Some(self.tasks.spawn(async move { queue.send_all().await }));
        }
    }

    /// Gives each waiting event one more chance, until the sink fails.
    pub(super) async fn flush(&self) {
        self.hurry.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let left = self.waiting().notices.len();
        if left > 0 {
            tracing::warn!(events = left, "CloudEvents were not sent before the process ended");
        }
    }

    async fn send_all(&self) {
        let backoff = Backoff::between(FIRST_WAIT, LONGEST_WAIT);
        while let Some((notice, since)) = self.oldest() {
            let sent = match since.elapsed() > MAX_AGE {
                true => None,
                false => Some(self.sender.send(&notice).await),
            };
            self.count(sent.as_ref());
            if let Some(Sent::Failed(why)) = sent {
                let wait = backoff.failed(());
                if wait == FIRST_WAIT {
                    tracing::warn!(error = why, "The sink of CloudEvents does not take events; trying again");
                }
                if !self.waits(wait).await {
                    return;
                }
                continue;
            }
            backoff.forget(&());
            self.waiting().notices.pop_front();
        }
    }

    /// Waits, and returns whether there may be another attempt.
    async fn waits(&self, wait: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.hurry.cancelled() => false,
            () = tokio::time::sleep(wait) => true,
        }
    }

    fn count(&self, sent: Option<&Sent>) {
        self.metrics.notified(match sent {
            Some(Sent::Delivered) => Notified::Delivered,
            Some(Sent::Failed(_)) => Notified::Retried,
            Some(Sent::Refused(_)) => Notified::Refused,
            None => Notified::Dropped,
        });
        if let Some(Sent::Refused(status)) = sent {
            tracing::warn!(%status, "The sink of CloudEvents refused an event, which is not sent again");
        }
    }

    /// Returns the oldest event; `None` ends the task.
    fn oldest(&self) -> Option<(Notice, Instant)> {
        let mut waiting = self.waiting();
        let oldest = waiting.notices.front().cloned();
        if oldest.is_none() {
            waiting.task = None;
            waiting.notices = VecDeque::new();
        }
        oldest
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        sync::lock(&self.waiting)
    }
}

impl Waiting {
    /// Returns whether an event was seen within the time of a series, and remembers it.
    fn is_repeated(&mut self, key: &EventKey, now: Instant) -> bool {
        let before = self.seen.put(*key, now);
        before.is_some_and(|before| now.saturating_duration_since(before) < SERIES)
    }
}
