//! Deletes by policy the objects of hooks that succeeded, once the record says that they did.

use std::time::Duration;

use futures::future::BoxFuture;

use super::clock::{Clock, REFUSED_LIMIT};
use super::objects::{Stamp, called};
use super::{HookError, HookRun, MadeBy, SUCCEEDED, decide, deleted_by, log_cleanup};
use crate::kube::waiting::slot::without_slot;
use crate::kube::writes::apply::Applier;
use crate::release::{HookEvent, Release};

/// How long the server may keep rejecting a deletion with transient errors once the action goes on beside what it cannot
/// delete. It has waited long enough, but perhaps for another object: one answer decides nothing.
const LEAVING_LIMIT: Duration = Duration::from_secs(15);

impl Applier {
    /// Deletes what the recorded runs of an event's hooks with the policy `hook-succeeded` made, in reverse order, and
    /// waits until it is gone. Leaves out hooks that have begun again at `next`, the action's next event: they are
    /// cleaned up after that event. Repeating it is safe, also while the hooks of `next` run. An object that is not gone
    /// within the hook's timeout is only logged: its hook has ended. One whose deletion the server answers with an error is
    /// reported and left, if the run says so.
    ///
    /// # Errors
    /// An object belongs to someone else, or cannot be deleted ([`HookError::Uncleaned`]). Transient errors with which the
    /// server answers a deletion are retried for 2 minutes, or for 15 seconds if the run leaves the object, and what is not
    /// answered until the hook's timeout.
    pub(crate) fn clean_up_hooks<'a>(
        &'a self,
        release: &'a Release,
        event: HookEvent,
        next: Option<HookEvent>,
        run: &'a HookRun<'a>,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            let order = decide::to_clean_up(&release.hooks, event, next);
            if order.is_empty() {
                return Ok(());
            }
            let delete = async {
                for at in order.iter().rev() {
                    self.clean_up_hook(release, *at, run).await?;
                }
                Ok(())
            };
            without_slot(run.slot, delete).await
        })
    }

    async fn clean_up_hook(&self, release: &Release, at: usize, run: &HookRun<'_>) -> Result<(), HookError> {
        let (hook, stamp) = (&release.hooks[at], Stamp::of(release, at));
        let limit = if run.leaves_succeeded { LEAVING_LIMIT } else { REFUSED_LIMIT };
        let clock = Clock::start(hook, run).refused_for(limit);
        for object in &deleted_by(hook, SUCCEEDED)? {
            match self.delete_hook(object, (MadeBy::RecordedRun, &stamp), &clock).await {
                Err(error) if error.is_slow_deletion() => log_cleanup(Err(error)),
                deleted => deleted
                    .map_err(|error| error.of_clean_up(called(object, &stamp, run.decoration)))
                    .or_else(|error| leave(error, run))?,
            }
        }
        Ok(())
    }
}

/// Reports an object that the action leaves.
///
/// # Errors
/// The action must not go on after this error.
fn leave(error: HookError, run: &HookRun<'_>) -> Result<(), HookError> {
    if !(run.leaves_succeeded && error.is_refused_end()) {
        return Err(error);
    }
    let what = error.with_object();
    tracing::warn!(release = run.decoration.release, what, "leaving an object of a hook that has succeeded");
    run.slot.succeeded_hook_left(&what);
    Ok(())
}
