//! The queue of events to publish. Under load, publishing yields to reconciles. Like client-go, it retries what the
//! server cannot take now; later events of the same namespace wait meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use outside::{Error, sync};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::form::MAX_NOTE;
use crate::events::Named;
use crate::report::{Outcome, chain, shorten};
use crate::runtime::backoff;
use crate::runtime::throttle::{Cooldown, Throttle};

/// Events use at most a tenth of one connection's time, unless [`MANY`] are waiting, or one takes so long that its
/// cooldown would exceed a second.
const COOLDOWN: Cooldown = Cooldown { factor: 9, longest: Duration::from_secs(1) };
/// Queue length from which events are published without a cooldown.
const MANY: usize = 2048;
/// The maximum queue length. Further events are dropped. client-go keeps 1,000.
pub(super) const MOST: usize = 2 * MANY;
/// The longest pause after failures in a row.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long an event is retried. client-go gives up after 12 tries, 10 s apart.
const OLDEST: Duration = Duration::from_secs(120);

/// Publishes events one at a time, oldest first.
pub(super) struct Outbox {
    throttle: Throttle,
    waiting: Mutex<Waiting>,
    /// Cancelled on shutdown, which ends the cooldowns.
    hurry: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Waiting {
    letters: VecDeque<Letter>,
    /// The task that publishes the events; it ends when none is left.
    sender: Option<JoinHandle<()>>,
    /// Whether the last event was dropped.
    is_full: bool,
}

/// A waiting event.
struct Letter {
    named: Named,
    on: ObjectReference,
    outcome: Outcome,
    at: Timestamp,
    /// The same on the monotonic clock: if the time of day is set back, no event must be retried for hours.
    queued: Instant,
    /// Whether it was sent before, and the server may have received it.
    is_repeated: bool,
}

impl Outbox {
    pub(super) fn new() -> Arc<Outbox> {
        Arc::new(Outbox {
            throttle: Throttle::new(COOLDOWN),
            waiting: Mutex::default(),
            hurry: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Queues an outcome to be published after those before it.
    pub(super) fn put(self: &Arc<Self>, named: Named, on: ObjectReference, mut outcome: Outcome) {
        outcome.message = shorten(&outcome.message, MAX_NOTE);
        let mut waiting = self.waiting();
        waiting.put(Letter { named, on, outcome, at: outside::now(), queued: Instant::now(), is_repeated: false });
        if waiting.sender.as_ref().is_none_or(JoinHandle::is_finished) {
            let outbox = self.clone();
            waiting.sender = Some(self.tasks.spawn(async move { outbox.send_all().await }));
        }
    }

    /// Publishes the waiting events without cooldowns, for at most `limit`. Each gets one more try.
    pub(super) async fn flush(&self, limit: Duration) {
        self.hurry.cancel();
        self.tasks.close();
        if timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!(events = self.waiting().letters.len(), "Events were not published before the process ended");
        }
    }

    async fn send_all(&self) {
        let mut failures = 0;
        loop {
            let is_crowded = self.waiting().letters.len() >= MANY;
            let task = tokio::select! {
                biased;
                task = self.throttle.begin() => Some(task),
                () = self.hurry.cancelled() => None,
                () = std::future::ready(()), if is_crowded => None,
            };
            let Some(letter) = self.waiting().next() else { return };
            let namespace = letter.on.namespace.clone();
            let answer = letter.send().await;
            drop(task);
            if answer.is_err_and(|error| self.failed(letter, &error)) {
                failures += 1;
                self.pause(failures, namespace.as_deref()).await;
            } else {
                failures = 0;
            }
        }
    }

    /// Puts an event back that the server may take later, or logs that it is lost. Returns whether the server is the
    /// cause.
    fn failed(&self, mut letter: Letter, error: &Error) -> bool {
        let is_transient = error.is_transient();
        if !is_transient || self.hurry.is_cancelled() || letter.queued.elapsed() >= OLDEST {
            letter.report(error);
            return is_transient;
        }
        tracing::debug!(error = chain(error), reason = letter.outcome.reason, "Cannot publish an event yet");
        letter.is_repeated = true;
        letter.uncount();
        self.waiting().letters.push_front(letter);
        true
    }

    /// Waits after this many failures in a row, the last of which was this namespace's, and then lets the events of
    /// other namespaces go first. Does neither once the process ends.
    async fn pause(&self, failures: u32, namespace: Option<&str>) {
        let pause = backoff::wait(failures).min(LONGEST_PAUSE);
        if timeout(pause, self.hurry.cancelled()).await.is_err() {
            self.waiting().postpone(namespace);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        sync::lock(&self.waiting)
    }
}

impl Waiting {
    fn put(&mut self, letter: Letter) {
        let was_full = std::mem::replace(&mut self.is_full, self.letters.len() >= MOST);
        if !self.is_full {
            return self.letters.push_back(letter);
        }
        if !was_full {
            tracing::warn!(waiting = MOST, "Too many events wait to be published; new ones are dropped");
        }
    }

    /// Takes the oldest event; `None` ends the task.
    fn next(&mut self) -> Option<Letter> {
        let next = self.letters.pop_front();
        if next.is_none() {
            *self = Waiting::default();
        }
        next
    }

    /// Moves the events of a namespace behind all others, in their order. A broken webhook may keep the server from
    /// taking only those.
    fn postpone(&mut self, namespace: Option<&str>) {
        self.letters.make_contiguous().sort_by_key(|letter| letter.on.namespace.as_deref() == namespace);
    }
}

impl Letter {
    async fn send(&self) -> Result<(), Error> {
        let event = self.named.event(&self.on, &self.outcome);
        match self.named.recorder.publish(&event, self.at).await {
            // An earlier request was served, and its response was lost.
            Err(error) if self.is_repeated && error.is_conflict() && !error.is_transient() => Ok(()),
            answer => answer,
        }
    }

    /// Takes back its occurrence before it is sent again.
    fn uncount(&self) {
        self.named.recorder.uncount(&self.named.event(&self.on, &self.outcome));
    }

    /// Logs that it is lost.
    fn report(&self, error: &Error) {
        tracing::warn!(error = chain(error), reason = self.outcome.reason, "Cannot publish an event");
    }
}
