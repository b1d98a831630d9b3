//! What a long step waits for, on its resource's status while it waits: seldom, and only if it is something new.

use std::pin::pin;
use std::time::Duration;

use futures::future::{BoxFuture, Either, pending, select};
use helm_release::kube::Slot;
use tokio::sync::watch;

use super::primary::ResourceKey;
use super::settle;
use super::shared::Shared;

/// A wait that is over so soon is not worth a write.
const SHORT: Duration = Duration::from_secs(2);
/// The time between two writes.
const INTERVAL: Duration = Duration::from_secs(10);

/// The slot of a running step, which also hears what the step waits for.
pub(super) struct Progress<'a> {
    slot: &'a dyn Slot,
    /// Empty while nothing is waited for.
    said: watch::Sender<String>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(slot: &'a dyn Slot) -> Progress<'a> {
        Progress { slot, said: watch::Sender::default() }
    }

    pub(super) fn said(&self) -> watch::Receiver<String> {
        self.said.subscribe()
    }

    fn say(&self, what: &str) {
        self.said.send_if_modified(|said| {
            let news = said != what;
            if news {
                what.clone_into(said);
            }
            news
        });
    }
}

impl Slot for Progress<'_> {
    fn leave(&self) {
        self.slot.leave();
    }

    fn enter(&self) -> BoxFuture<'_, ()> {
        self.say("");
        self.slot.enter()
    }

    fn waits_for(&self, what: &str) {
        self.say(what);
    }
}

/// Runs the steps of a resource and publishes what they wait for.
pub(super) async fn publishing<T>(
    shared: &Shared,
    key: &ResourceKey,
    mut said: watch::Receiver<String>,
    mut steps: BoxFuture<'_, T>,
) -> T {
    let mut pause = SHORT;
    loop {
        let text = match select(steps, pin!(next_text(&mut said, pause))).await {
            Either::Left((result, _)) => return result,
            Either::Right((text, running)) => {
                steps = running;
                text
            }
        };
        let write = pin!(settle::write_progress(shared, key, &text));
        match select(steps, write).await {
            // A write that is under way must not arrive after the outcome's.
            Either::Left((result, write)) => {
                write.await;
                return result;
            }
            Either::Right(((), running)) => steps = running,
        }
        pause = INTERVAL;
    }
}

/// What is waited for after this time, once that is something new.
async fn next_text(said: &mut watch::Receiver<String>, pause: Duration) -> String {
    tokio::time::sleep(pause.saturating_sub(SHORT)).await;
    loop {
        if said.changed().await.is_err() {
            // The sender lives as long as the steps.
            return pending().await;
        }
        tokio::time::sleep(SHORT).await;
        let text = said.borrow_and_update().clone();
        if !text.is_empty() {
            return text;
        }
    }
}
