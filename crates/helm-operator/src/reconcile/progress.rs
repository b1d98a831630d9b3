//! Writes what a long step is waiting for into the status, rate limited and only on change. Publishes an event for each
//! recreated object.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use controller::report::{Outcome, chain};
use controller::runtime::key::ResourceKey;
use futures::future::{BoxFuture, pending};
use helm_release::action::Candidate;
use helm_release::kube::{HookObject, ObjectKey, Slot};
use helm_release::release::{Hook, HookEvent};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::reconcile::changes::{RanHook, RanHooks};
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::interruption::Running;
use crate::reconcile::decide::quotations::Quotations;
use crate::reconcile::decide::uninstall_notes::UninstallNotes;
use crate::reconcile::report::{diagnose, hook_log, status_writer};
use crate::reconcile::reread;
use crate::reconcile::step_context::StepContext;
use crate::reconcile::steps::sources::have_changed;

/// The minimum wait that is worth a write.
const SHORT: Duration = Duration::from_secs(2);
/// The minimum time between two writes.
const INTERVAL: Duration = Duration::from_secs(10);

/// The slot of a running step, which also receives what the step waits for.
pub(crate) struct Progress<'a> {
    shared: &'a ControllerContext,
    key: &'a ResourceKey,
    slot: &'a dyn Slot,
    waits: watch::Sender<Wait>,
    /// The hooks that ended during the step.
    pub(crate) ran: Arc<RanHooks>,
    pub(crate) running: Arc<Running>,
    /// Cancelled during a wait, when the process stops or the resource moves to another process.
    abandoned: CancellationToken,
}

/// The state of a step's wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// What the step waits for; empty while it does not wait.
    text: String,
    /// The part of it that others wrote.
    quoted: String,
    /// The object of the hook that it waits for, if pods can explain why it does not end.
    hook: Option<HookObject>,
}

/// Follows the waits of a running step.
pub(crate) struct Waits {
    waits: watch::Receiver<Wait>,
    running: Arc<Running>,
    abandoned: CancellationToken,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(shared: &'a ControllerContext, key: &'a ResourceKey, slot: &'a dyn Slot) -> Progress<'a> {
        Progress {
            shared,
            key,
            slot,
            waits: watch::Sender::default(),
            ran: Arc::default(),
            running: Arc::default(),
            abandoned: CancellationToken::new(),
        }
    }

    /// Returns what the step waits for, and whether it must be abandoned.
    pub(crate) fn subscribe(&self) -> Waits {
        Waits { waits: self.waits.subscribe(), running: self.running.clone(), abandoned: self.abandoned.clone() }
    }

    fn set(&self, what: &str, quoted: &str, hook: Option<HookObject>) {
        self.waits.send_if_modified(|wait| {
            let news = wait.text != what;
            if news {
                *wait = Wait { text: what.to_owned(), quoted: quoted.to_owned(), hook };
            }
            news
        });
    }

    /// Returns whether the action's resource has left this controller, and still exists: another one continues the action
    /// then. A watch reports a resource as deleted also when it no longer has the labels that the watch selects.
    async fn has_moved(&self) -> bool {
        let Some(uid) = self.running.missing(self.shared.cache.primary(self.key).as_deref()) else { return false };
        match reread::live(self.shared, self.key).await {
            Ok(Some(live)) if live.primary.uid() == &*uid => return true,
            Ok(_) => self.running.resource_gone(),
            Err(error) => {
                tracing::debug!(resource = %self.key, error = chain(&error), "Cannot find out whether the resource is gone");
            }
        }
        false
    }

    /// Publishes what an action goes on beside. `leave` notes it, and returns whether that is news: a deletion that waits for
    /// objects leaves it again and again.
    fn publish_left(&self, what: &str, leave: fn(&mut UninstallNotes, &str) -> bool) {
        let Some(primary) = self.shared.cache.primary(self.key) else { return };
        let is_news = || self.shared.memory.change(self.key, |memory| leave(&mut memory.release.uninstall, what));
        if primary.deleting && !is_news() {
            return;
        }
        let note = format!("{what}; the action goes on beside it: look at the hook's object, and delete it by hand");
        self.shared.publish(&primary, Outcome::warning("HookLeft", "Hook", note));
    }
}

impl Slot for Progress<'_> {
    fn leave(&self) {
        self.slot.leave();
    }

    fn enter(&self) -> BoxFuture<'_, ()> {
        self.set("", "", None);
        self.slot.enter()
    }

    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let moves = async {
                sleep(time).await;
                self.has_moved().await
            };
            tokio::select! {
                biased;
                () = self.shared.stops_serving(self.key) => {}
                moved = moves => if !moved { return },
            }
            self.abandoned.cancel();
            pending::<()>().await;
        })
    }

    fn waiting_for(&self, what: &str, quoted: &str) {
        self.set(what, quoted, None);
    }

    fn hook_waits(&self, object: &HookObject, what: &str) {
        self.set(what, "", Some(object.clone()).filter(has_pods));
    }

    fn interruption(&self) -> Option<&'static str> {
        let replaced = self.running.replaced(|| self.shared.cache.release(self.key));
        replaced.or_else(|| self.running.outdated(self.shared.cache.primary(self.key).as_deref()))
    }

    fn hook_ended(&self, hook: &Hook, event: HookEvent) {
        let last = &hook.last_run;
        let took = last.started_at.zip(last.completed_at).map(|(from, to)| to.duration_since(from));
        let took = took.and_then(|took| Duration::try_from(took).ok()).unwrap_or_default();
        self.shared.counts.hook_ran(&self.shared.settings.controller, hook, event, took);
        self.ran.add(RanHook { object: format!("{} {:?}", hook.kind, hook.name), took });
    }

    fn hook_failed<'h>(&'h self, object: &'h HookObject) -> BoxFuture<'h, ()> {
        Box::pin(async move {
            if self.shared.settings.hook_logs
                && has_pods(object)
                && let Some(log) = hook_log::read(self.shared, object).await
            {
                self.ran.add_log(log);
            }
        })
    }

    fn hook_left(&self, what: &str) {
        self.publish_left(what, UninstallNotes::leave);
    }

    fn succeeded_hook_left(&self, what: &str) {
        self.publish_left(what, UninstallNotes::leave_succeeded);
    }

    fn recreating(&self, object: &ObjectKey, why: &str) {
        tracing::info!(resource = %self.key, %object, why, "Recreating an object");
        if let Some(primary) = self.shared.cache.primary(self.key) {
            let note = format!("deleted {object} to create it anew: {why}");
            self.shared.publish(&primary, Outcome::normal("Recreated", "Recreate", note));
        }
    }
}

/// Runs the steps of a resource and publishes what they wait for. Drops the steps and returns `None` if, while they wait,
/// the process stops or the resource moves to another process.
pub(crate) async fn publish_progress<T>(
    shared: &ControllerContext,
    key: &ResourceKey,
    Waits { mut waits, running, abandoned }: Waits,
    mut steps: BoxFuture<'_, T>,
) -> Option<T> {
    let (mut pause, mut published) = (SHORT, Published::default());
    loop {
        let wait = tokio::select! {
            biased;
            result = &mut steps => return Some(result),
            () = abandoned.cancelled() => return None,
            wait = next_wait(&mut waits, pause) => wait,
        };
        let mut write = pin!(async {
            if have_changed(shared, &running.used()).await {
                running.sources_changed();
            }
            write((shared, key), wait, running.candidate(), &mut published).await;
        });
        tokio::select! {
            biased;
            // A status write in flight must not arrive after the outcome's.
            result = &mut steps => {
                write.await;
                return Some(result);
            }
            () = &mut write => {}
        }
        pause = INTERVAL;
    }
}

/// Returns whether a hook's object is a Pod or has some: their state and logs show why the hook has not finished.
fn has_pods(object: &HookObject) -> bool {
    matches!((&*object.key.group, &*object.key.kind), ("batch", "Job") | ("", "Pod"))
}

/// The events that were published about the waits of a reconcile.
#[derive(Default)]
struct Published {
    /// Why a hook's pod does not run, as the last event says.
    cause: Option<String>,
    /// How much is shown of the texts that others wrote.
    quotations: Quotations,
}

/// Writes what a step waits for into the status. Also publishes, once, why a hook's pod does not run.
async fn write(
    (shared, key): (&ControllerContext, &ResourceKey),
    wait: Wait,
    candidate: Option<Arc<Candidate>>,
    published: &mut Published,
) {
    let cause = match &wait.hook {
        Some(object) => diagnose::at_hook(shared, object).await,
        None => None,
    };
    let Some(primary) = shared.cache.primary(key) else { return };
    let quoted = [Some(&wait.quoted), cause.as_ref().map(|cause| &cause.quoted)];
    let quoted = quoted.into_iter().flatten().filter(|text| !text.is_empty()).cloned().collect();
    let mut context = StepContext::new(shared, key, &());
    context.found.candidate = candidate;
    context.hide_quotations(&primary, &mut published.quotations, quoted).await;
    let text = published.quotations.show(&wait.text, &wait.quoted);
    let cause = cause.map(|cause| published.quotations.show(&cause.text, &cause.quoted));
    if let (Some(HookObject { key: object, .. }), Some(cause)) = (&wait.hook, &cause)
        && published.cause.as_ref() != Some(cause)
    {
        let note = format!("hook {object} waits: {cause}");
        shared.publish(&primary, Outcome::warning("HookWaiting", "Hook", note));
        published.cause = Some(cause.clone());
    }
    status_writer::write_progress(shared, key, &described(&text, cause.as_deref(), primary.deleting)).await;
}

/// Returns the status text of a wait.
fn described(wait: &str, cause: Option<&str>, is_deleting: bool) -> String {
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    let deletion = if is_deleting { "the deletion waits: " } else { "" };
    format!("{deletion}{wait}{cause}")
}

/// Returns what the step waits for after this time, once it has changed.
async fn next_wait(waits: &mut watch::Receiver<Wait>, pause: Duration) -> Wait {
    tokio::time::sleep(pause.saturating_sub(SHORT)).await;
    loop {
        if waits.changed().await.is_err() {
            // This is never reached: the sender lives as long as the steps.
            return pending().await;
        }
        tokio::time::sleep(SHORT).await;
        let wait = waits.borrow_and_update().clone();
        if !wait.text.is_empty() {
            return wait;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_names_its_cause_and_the_deletion_that_it_holds_up() {
        let check =
            |cause, is_deleting, expected: &str| assert_eq!(described("a Job (11s)", cause, is_deleting), expected);
        check(None, false, "a Job (11s)");
        check(Some("pod \"a\": Unschedulable"), false, "a Job (11s): pod \"a\": Unschedulable");
        check(None, true, "the deletion waits: a Job (11s)");
    }
}
