//! Runs a release's hooks: by weight and name, each waited for, deleted by its policy. Helm's `pkg/action/hooks.go`.
//!
//! Each run is written down before its objects are made, so that a restart finds a hook that runs and does not run one again that
//! succeeded. `one` runs a single hook, `objects` makes, finds and deletes its objects, `decide` judges what was seen.

mod decide;
mod objects;
mod one;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures::future::{BoxFuture, ready};

use super::api::Error;
use super::apply::Applier;
use super::{Decoration, ObjectError};
use crate::release::{DeletePolicy, Hook, HookEvent, Release};
use one::Clock;

/// The annotation of a hook's object that names the run it was made for: revision and start, as the release record has them.
pub const HOOK_RUN_ANNOTATION: &str = "helm.sdk.operatorframework.io/hook-run";

/// How hooks are run.
pub struct HookRun<'a> {
    /// What the hooks' objects are given.
    pub decoration: &'a Decoration,
    /// How long one hook may take, from its start, restarts included; absent: as long as it takes.
    pub timeout: Option<Duration>,
    /// Whether Helm itself made a revision of this release. Helm's hooks name no owner, so one that nobody claims counts as this release's.
    pub unclaimed: bool,
    /// Told while a hook is only being waited for, and what is waited for.
    pub slot: &'a dyn Slot,
    /// Where runs are written down.
    pub journal: &'a dyn Journal,
}

/// The place among the workers that a run takes up; given to others while it waits.
pub trait Slot: Send + Sync {
    /// Gives the place away.
    fn leave(&self);
    /// Takes a place again, when one is free.
    fn enter(&self) -> BoxFuture<'_, ()>;
    /// Takes what the run waits for now, in words for people: `hook templates/x.yaml: waiting for Job "y" to end (2m0s of 1h0m0s)`. Called
    /// at every look, at first every 50 ms, later every 2 s; must return at once.
    fn waiting_for(&self, _what: &str) {}
}

/// No limit on workers.
impl Slot for () {
    fn leave(&self) {}

    fn enter(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Where the phases of hooks are written down: the release record.
pub trait Journal: Send + Sync {
    /// Writes the release down as it stands.
    fn record<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<(), JournalError>>;
}

/// Why a release was not written down.
pub type JournalError = Box<dyn std::error::Error + Send + Sync>;

/// Writes nothing down.
impl Journal for () {
    fn record<'a>(&'a self, _: &'a Release) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(ready(Ok(())))
    }
}

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// Its object could not be made or deleted.
    #[error("cannot run hook {path}")]
    Api {
        /// Its template.
        path: String,
        /// Why.
        #[source]
        source: Error,
    },
    /// Its YAML is no object.
    #[error("cannot build an object for hook {path}")]
    Object {
        /// Its template.
        path: String,
        /// Why.
        #[source]
        source: ObjectError,
    },
    /// The release could not be written down before or after it.
    #[error("cannot record hook {path}")]
    Record {
        /// Its template.
        path: String,
        /// Why.
        #[source]
        source: JournalError,
    },
    /// An object of its name is someone else's.
    #[error("hook {path} cannot replace {object}: {why}")]
    Foreign {
        /// Its template.
        path: String,
        /// Kind and name.
        object: String,
        /// Whose it is.
        why: String,
    },
    /// Its Job or Pod failed.
    #[error("hook {path} failed: {why}")]
    Failed {
        /// Its template.
        path: String,
        /// Which of its objects, and what its status says.
        why: String,
    },
    /// It took too long.
    #[error("hook {path} did not end within {limit}: waited for {what}")]
    TimedOut {
        /// Its template.
        path: String,
        /// The limit, as Go writes durations.
        limit: String,
        /// What was waited for, and why the last look failed if it did.
        what: String,
    },
}

impl HookError {
    /// Whether its object cannot be made because the namespace is being deleted.
    fn is_terminating(&self) -> bool {
        matches!(self, HookError::Api { source, .. } if source.is_terminating())
    }
}

impl Applier {
    /// Runs the hooks of an event that have not succeeded yet, and notes in the release how each went. One that was running is found
    /// again and waited for. Stops at the first that fails. A deletion does not stop at hooks that cannot be made because their namespace
    /// is being deleted: it leaves them out, and they are returned.
    ///
    /// Once this succeeded, and the release is written down, [`Applier::clean_up_hooks`] deletes what succeeded.
    pub fn run_hooks<'a>(
        &'a self,
        release: &'a mut Release,
        event: HookEvent,
        run: &'a HookRun<'a>,
    ) -> BoxFuture<'a, Result<Vec<HookError>, HookError>> {
        Box::pin(async move {
            let order = decide::order(&release.hooks, event);
            let deletes = matches!(event, HookEvent::PreDelete | HookEvent::PostDelete);
            without_slot(run, !order.is_empty(), self.run_in_order(release, &order, deletes, run)).await
        })
    }

    async fn run_in_order(
        &self,
        release: &mut Release,
        order: &[usize],
        deletes: bool,
        run: &HookRun<'_>,
    ) -> Result<Vec<HookError>, HookError> {
        let mut skipped = Vec::new();
        for (done, at) in order.iter().enumerate() {
            let ran = self.run_hook(release, *at, run).await;
            if let Err(error) = ran {
                if deletes && error.is_terminating() {
                    skipped.push(error);
                    continue;
                }
                // The hook's own error is what matters; a failing clean-up is only logged.
                log_cleanup(self.delete_by_policy(&release.hooks[*at], DeletePolicy::HookFailed, run).await);
                for earlier in &order[..done] {
                    let deleted = self.delete_by_policy(&release.hooks[*earlier], DeletePolicy::HookSucceeded, run);
                    log_cleanup(deleted.await);
                }
                return Err(error);
            }
        }
        Ok(skipped)
    }

    /// Deletes the objects of an event's hooks whose policy is `hook-succeeded`. Repeating it is fine.
    pub fn clean_up_hooks<'a>(
        &'a self,
        release: &'a Release,
        event: HookEvent,
        run: &'a HookRun<'a>,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            let mut order = decide::order(&release.hooks, event);
            order.retain(|at| release.hooks[*at].delete_policies.contains(&DeletePolicy::HookSucceeded));
            let delete = async {
                for at in order.iter().rev() {
                    self.delete_by_policy(&release.hooks[*at], DeletePolicy::HookSucceeded, run).await?;
                }
                Ok(())
            };
            without_slot(run, !order.is_empty(), delete).await
        })
    }

    async fn delete_by_policy(&self, hook: &Hook, policy: DeletePolicy, run: &HookRun<'_>) -> Result<(), HookError> {
        if hook.kind == "CustomResourceDefinition" || !hook.delete_policies.contains(&policy) {
            return Ok(());
        }
        let clock = Clock::start(hook, run);
        for object in objects::of(hook)?.iter().filter(|object| !object.name.is_empty()) {
            self.delete_hook(object, &clock).await?;
        }
        Ok(())
    }
}

/// Gives the place among the workers away for the time of some work.
async fn without_slot<T>(run: &HookRun<'_>, leaves: bool, work: impl Future<Output = T>) -> T {
    if !leaves {
        return work.await;
    }
    run.slot.leave();
    let done = work.await;
    run.slot.enter().await;
    done
}

fn log_cleanup(result: Result<(), HookError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "cannot delete a hook's object");
    }
}
