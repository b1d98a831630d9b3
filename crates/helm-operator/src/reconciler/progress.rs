//! Shows in the status what a long step waits for: seldom, and only if it changed. Publishes what it deletes to create anew.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, pending, select};
use helm_release::kube::{ObjectKey, Slot};
use helm_release::release::{Hook, HookEvent};
use tokio::sync::watch;

use super::changes::{RanHook, RanHooks};
use super::primary::ResourceKey;
use super::settle;
use super::shared::Shared;
use crate::report::Outcome;

/// A shorter wait is not worth a write.
const SHORT: Duration = Duration::from_secs(2);
/// The time between two writes.
const INTERVAL: Duration = Duration::from_secs(10);

/// The slot of a running step, which also receives what the step waits for.
pub(super) struct Progress<'a> {
    shared: &'a Shared,
    key: &'a ResourceKey,
    slot: &'a dyn Slot,
    /// Empty while the step does not wait.
    waits: watch::Sender<String>,
    ran: Arc<RanHooks>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(shared: &'a Shared, key: &'a ResourceKey, slot: &'a dyn Slot) -> Progress<'a> {
        Progress { shared, key, slot, waits: watch::Sender::default(), ran: Arc::default() }
    }

    /// The hooks that ended during the step.
    pub(super) fn ran(&self) -> Arc<RanHooks> {
        self.ran.clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<String> {
        self.waits.subscribe()
    }

    fn set(&self, what: &str) {
        self.waits.send_if_modified(|waits| {
            let news = waits != what;
            if news {
                what.clone_into(waits);
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
        self.set("");
        self.slot.enter()
    }

    fn waiting_for(&self, what: &str) {
        self.set(what);
    }

    fn hook_ended(&self, hook: &Hook, _event: HookEvent) {
        let last = &hook.last_run;
        let took = last.started_at.zip(last.completed_at).map(|(from, to)| to.duration_since(from));
        let took = took.and_then(|took| Duration::try_from(took).ok()).unwrap_or_default();
        self.ran.add(RanHook { object: format!("{} {:?}", hook.kind, hook.name), took });
    }

    fn recreating(&self, object: &ObjectKey, why: &str) {
        tracing::info!(resource = %self.key, %object, why, "Recreating an object");
        if let Some(primary) = self.shared.cache.primary(self.key) {
            let note = format!("deleted {object} to create it anew: {why}");
            self.shared.publish(&primary, Outcome::normal("Recreated", "Recreate", note));
        }
    }
}

/// Runs the steps of a resource and publishes what they wait for.
pub(super) async fn publish_progress<T>(
    shared: &Shared,
    key: &ResourceKey,
    mut waits: watch::Receiver<String>,
    mut steps: BoxFuture<'_, T>,
) -> T {
    let mut pause = SHORT;
    loop {
        let text = match select(steps, pin!(next_text(&mut waits, pause))).await {
            Either::Left((result, _)) => return result,
            Either::Right((text, running)) => {
                steps = running;
                text
            }
        };
        let write = pin!(settle::write_progress(shared, key, &text));
        match select(steps, write).await {
            // A status write in flight must not arrive after that of the outcome.
            Either::Left((result, write)) => {
                write.await;
                return result;
            }
            Either::Right(((), running)) => steps = running,
        }
        pause = INTERVAL;
    }
}

/// What the step waits for after this time, once it changed.
async fn next_text(waits: &mut watch::Receiver<String>, pause: Duration) -> String {
    tokio::time::sleep(pause.saturating_sub(SHORT)).await;
    loop {
        if waits.changed().await.is_err() {
            // The sender lives as long as the steps.
            return pending().await;
        }
        tokio::time::sleep(SHORT).await;
        let text = waits.borrow_and_update().clone();
        if !text.is_empty() {
            return text;
        }
    }
}
