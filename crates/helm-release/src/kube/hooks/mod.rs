//! Runs a release's hooks by weight and name, waits for each, and deletes their objects by policy. Helm's
//! `pkg/action/hooks.go`.
//!
//! `one` runs a single hook, within the time of its `clock`. `objects` creates, finds and deletes its objects, and
//! `overwrite` applies them over existing ones. `clean_up` deletes those of hooks that succeeded, and `abandon` ends hooks
//! that nothing continues. `decide` interprets their state, and `error` their failures.

mod abandon;
mod clean_up;
mod clock;
mod decide;
mod error;
mod objects;
mod one;
mod overwrite;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures::future::{BoxFuture, ready};

use crate::kube::live_state::ownership::Adopt;
use crate::kube::objects::decorate::{Decoration, HOOK_RUN_ANNOTATION};
use crate::kube::objects::object::Object;
use crate::kube::waiting::slot::{Slot, without_slot};
use crate::kube::writes::apply::{Applier, describe};
use crate::kube::writes::reach::Reach;
use crate::release::{DeletePolicy, Hook, HookEvent, LastRun, Release};
use clock::Clock;
pub use error::HookError;
use objects::Stamp;

const SUCCEEDED: &[DeletePolicy] = &[DeletePolicy::HookSucceeded];
const INTERRUPTED: &[DeletePolicy] = &[DeletePolicy::HookFailed, DeletePolicy::BeforeHookCreation];

/// Which objects of a hook to delete. If the chart leaves a name open, only those of the recorded run are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MadeBy {
    /// The objects of any run, also of Helm's.
    AnyRun,
    /// The objects of any run of this operator, not of Helm's.
    Operator,
    /// The objects of any hook of this action, because hooks may share one.
    ThisAction,
    /// The objects of the run that the record names.
    RecordedRun,
}

/// The events that may end the wait for a hook before its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// An interruption that the slot reports.
    UntilInterrupted,
    /// None.
    Full,
}

/// Timeout for deleting the objects of an interrupted hook. The action that interrupts it must not wait for a
/// finalizer; but pods may take 30 s to end, as they do by default if they ignore the signal.
const CLEAN_UP: Duration = Duration::from_secs(60);

/// The settings for running hooks.
#[derive(Clone, Copy)]
pub(crate) struct HookRun<'a> {
    /// The release's identity, and the metadata added to the hooks' objects.
    pub decoration: &'a Decoration,
    /// The namespaces and kinds that the hooks' objects may have.
    pub reach: &'a Reach,
    /// How long one hook may take since its recorded start, restarts included; `None` sets no limit.
    pub timeout: Option<Duration>,
    /// Which hook objects without an owner count as this release's, because Helm's name none.
    pub unclaimed: Adopt,
    /// The caller's worker slot, released while hooks run.
    pub slot: &'a dyn Slot,
    /// The record of runs.
    pub journal: &'a dyn Journal,
    /// The events that end the wait.
    pub patience: Patience,
    /// Whether the action goes on beside an object of a hook that succeeded, if the server answers its deletion with an
    /// error.
    pub leaves_succeeded: bool,
}

impl HookRun<'_> {
    /// Returns the settings for cleaning up after this error.
    fn after(&self, error: &HookError) -> Self {
        // What an earlier run left is not what the hook's own time is for, nor is what has used it up.
        let is_of_earlier = matches!(error, HookError::Left { .. } | HookError::Undeleted { .. });
        let is_brief = error.leaves_it_running() || is_of_earlier;
        if is_brief { self.brief() } else { HookRun { patience: Patience::Full, ..*self } }
    }

    /// Reports what may still run while the action goes on.
    pub(crate) fn report_left(&self, what: &str) {
        tracing::warn!(release = self.decoration.release, what, "leaving a hook that may still run");
        self.slot.hook_left(what);
    }

    /// Returns the settings for a clean-up that must not delay what follows for long.
    fn brief(&self) -> Self {
        HookRun { timeout: Some(CLEAN_UP), patience: Patience::Full, ..*self }
    }
}

/// Records hook phases in the release record.
pub(crate) trait Journal: Send + Sync {
    /// Records the release's current state.
    ///
    /// # Errors
    /// A run retries errors whose chain contains a transient [`outside::Error`]; any other fails the hook.
    fn record<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Returns whether nobody continues the release after this error: its record is gone, or somebody has replaced it.
    fn is_gone(&self, _: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
        false
    }
}

/// Why a release was not recorded.
pub(crate) type JournalError = Box<dyn std::error::Error + Send + Sync>;

/// A journal that records nothing.
impl Journal for () {
    fn record<'a>(&'a self, _: &'a Release) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(ready(Ok(())))
    }
}

impl Applier {
    /// Runs the hooks of an event, by weight and name, and sets their phases in `release`. Returns the hooks that a
    /// deletion skipped.
    ///
    /// # Flow
    /// Skips hooks that succeeded, unless a later one failed and their objects were deleted with it, or may have been.
    /// Each other hook runs in these steps: delete the objects of an earlier run, by its policy; record the run as started; create its
    /// objects, annotated with [`HOOK_RUN_ANNOTATION`], or apply them over objects of the release with the same names;
    /// wait until its Jobs and Pods finish. Other kinds are done once they exist. When a hook fails, its own delete
    /// policies and those of the hooks before it are applied, and the rest is not run. The failure is recorded
    /// before objects of the hook that failed are deleted. A hook whose end is unknown keeps its phase and all objects: the
    /// next call finds them and continues to wait. A hook that the slot interrupts, or that does not finish in time, has
    /// failed; then its objects with the policy `before-hook-creation` are also deleted immediately, because they may still
    /// run. So are the Jobs and Pods of a list that still run when something else of it fails. Once all have succeeded, the
    /// caller records `release` and then calls [`Applier::clean_up_hooks`]: after a restart, the record must show what
    /// succeeded before its objects are deleted.
    ///
    /// # Retries
    /// Transient errors are retried until the hook's timeout, each request after 30 s without a response. A create that
    /// the server keeps answering with transient errors fails after 2 minutes, and so does the deletion of what is in the
    /// place of an object to create.
    ///
    /// # Cancellation
    /// Dropping the future stops waiting and leaves the objects running. A later call finds them by their annotation
    /// and continues to wait; the timeout counts from the recorded start. A run without any object begins again, with
    /// all its time. A Job with `ttlSecondsAfterFinished` that was created and no longer exists counts as succeeded, unless it
    /// was seen unfinished so recently that its TTL cannot be over.
    ///
    /// # Errors
    /// The first hook that failed, timed out or cannot be recorded, or the deletion that was not answered of one that may
    /// still run. Pre-delete and post-delete hooks whose namespace is being deleted cannot be created; they are skipped and
    /// returned instead.
    pub(crate) fn run_hooks<'a>(
        &'a self,
        release: &'a mut Release,
        event: HookEvent,
        run: &'a HookRun<'a>,
    ) -> BoxFuture<'a, Result<Vec<HookError>, HookError>> {
        Box::pin(async move {
            let order = decide::order(&release.hooks, event);
            if order.is_empty() {
                return Ok(Vec::new());
            }
            without_slot(run.slot, self.run_in_order(release, &order, event, run)).await
        })
    }

    async fn run_in_order(
        &self,
        release: &mut Release,
        order: &[usize],
        event: HookEvent,
        run: &HookRun<'_>,
    ) -> Result<Vec<HookError>, HookError> {
        decide::expect_again(&mut release.hooks, order);
        self.expect_missing_again(release, order, run).await?;
        let deletes = matches!(event, HookEvent::PreDelete | HookEvent::PostDelete);
        let mut skipped = Vec::new();
        for (done, at) in order.iter().enumerate() {
            let mut judged = None;
            let ran = self.run_hook(release, *at, event, run, &mut judged).await;
            if let Err(error) = ran {
                if deletes && error.is_terminating() {
                    skipped.push(error);
                    continue;
                }
                if error.is_unanswered() {
                    return Err(error);
                }
                // The hook's error matters more than a failing clean-up, which is only logged.
                if let Some(object) = judged.filter(|_| error.is_verdict()) {
                    run.slot.hook_failed(&object).await;
                }
                let run = run.after(&error);
                let error = self.clear_failed(release, *at, error, &run).await;
                for earlier in &order[..done] {
                    let deleted = self.delete_by_policy((&*release, *earlier), MadeBy::ThisAction, SUCCEEDED, &run);
                    log_cleanup(deleted.await);
                }
                return Err(error);
            }
        }
        Ok(skipped)
    }

    /// Deletes by policy what a failed hook made, and ends what still runs of it. Returns the hook's error, or the one that
    /// leaves the end open.
    async fn clear_failed(&self, release: &Release, at: usize, error: HookError, run: &HookRun<'_>) -> HookError {
        let policies = error.policies(&release.hooks[at]);
        let mut cleaned = self.delete_failed((release, at), error.whose(), policies, run).await;
        if !error.leaves_it_running() {
            log_cleanup(cleaned);
            cleaned = self.end_rest(release, at, run).await;
        }
        match cleaned {
            // Once the revision has failed, nothing ends what still runs.
            Err(source) if source.leaves_end_open() => {
                HookError::Unended { why: Box::new(error), source: Box::new(source) }
            }
            Err(refused) if error.leaves_it_running() => {
                abandon::note_unended(release, (at, policies), refused, run);
                error
            }
            cleaned => {
                log_cleanup(cleaned);
                error
            }
        }
    }

    /// Resets hooks whose objects a process deleted because a later hook failed, if it died before it recorded the
    /// failure. They run again.
    async fn expect_missing_again(
        &self,
        release: &mut Release,
        order: &[usize],
        run: &HookRun<'_>,
    ) -> Result<(), HookError> {
        for at in decide::needed_by_begun(&release.hooks, order) {
            if self.is_missing(release, at, run).await? {
                release.hooks[at].last_run = LastRun::default();
            }
        }
        Ok(())
    }

    /// Returns whether an object that a hook's run created does not exist any more. A later hook of the action may have
    /// made it anew, because hooks may share one.
    async fn is_missing(&self, release: &Release, at: usize, run: &HookRun<'_>) -> Result<bool, HookError> {
        let (hook, stamp) = (&release.hooks[at], Stamp::of(release, at));
        let clock = Clock::start(hook, run);
        for object in &objects::of(hook)? {
            let what = format!("{} to be found", describe(object));
            let made_by = (MadeBy::ThisAction, &stamp);
            if clock.retry(&what, || self.find_made_by(object, made_by, run)).await?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the objects of a hook that failed, if it has one of these policies. It may have failed because Helm's Job took
    /// the place of its own. Records the failure first: otherwise, a continued action would create the missing Job again,
    /// or count a missing Job with a TTL as succeeded.
    async fn delete_failed(
        &self,
        (release, at): (&Release, usize),
        made_by: MadeBy,
        policies: &[DeletePolicy],
        run: &HookRun<'_>,
    ) -> Result<(), HookError> {
        if !deleted_by(&release.hooks[at], policies)?.is_empty() {
            one::record_end(release, at, run).await?;
        }
        self.delete_by_policy((release, at), made_by, policies, run).await
    }

    /// Deletes a hook's objects if it has one of these policies, and waits until they are gone. One that stays does not keep
    /// the others of a list, which may run.
    async fn delete_by_policy(
        &self,
        (release, at): (&Release, usize),
        made_by: MadeBy,
        policies: &[DeletePolicy],
        run: &HookRun<'_>,
    ) -> Result<(), HookError> {
        let (hook, recorded) = (&release.hooks[at], Stamp::of(release, at));
        let clock = Clock::start(hook, run);
        let mut ended = Ok(());
        for object in &deleted_by(hook, policies)? {
            keep_error(&mut ended, self.delete_hook(object, (made_by, &recorded), &clock).await);
        }
        ended
    }

    /// Deletes the objects of a hook's recorded run if it has one of these policies, and waits until they are gone.
    async fn delete_run(
        &self,
        release: &Release,
        at: usize,
        policies: &[DeletePolicy],
        run: &HookRun<'_>,
    ) -> Result<(), HookError> {
        self.delete_by_policy((release, at), MadeBy::RecordedRun, policies, run).await
    }
}

/// Returns the objects of a hook that are deleted if it has one of these policies.
fn deleted_by(hook: &Hook, policies: &[DeletePolicy]) -> Result<Vec<Object>, HookError> {
    let applies = hook.delete_policies.iter().any(|policy| policies.contains(policy));
    if hook.kind == "CustomResourceDefinition" || !applies {
        return Ok(Vec::new());
    }
    let mut objects = objects::of(hook)?;
    // A run that never began has made no objects.
    objects.retain(|object| !object.name.is_empty() || hook.last_run.started_at.is_some());
    Ok(objects)
}

/// Adds the result of one deletion to that of the previous ones. An outage counts rather than a refusal, because the
/// deletion is tried again then; other errors after the first are only logged.
fn keep_error(ended: &mut Result<(), HookError>, deleted: Result<(), HookError>) {
    match deleted {
        Err(error) if ended.is_ok() || error.is_outage() => *ended = Err(error),
        deleted => log_cleanup(deleted),
    }
}

fn log_cleanup(result: Result<(), HookError>) {
    if let Err(error) = result {
        let cause = outside::named(&error);
        tracing::warn!(%error, cause, "cannot delete a hook's object");
    }
}
