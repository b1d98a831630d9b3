//! Ends the hooks of an action that nothing continues, as an interruption does.

use futures::future::BoxFuture;

use super::decide::Left;
use super::{CLEAN_UP, HookError, HookRun, Patience, decide, log_cleanup};
use crate::kube::waiting::slot::without_slot;
use crate::kube::writes::apply::Applier;
use crate::release::Release;

impl Applier {
    /// Marks the hooks failed that began and did not end, records that, and then deletes by policy what all hooks
    /// that began made. What cannot be deleted is only logged. Repeating it is safe.
    ///
    /// # Errors
    /// The release cannot be recorded; then nothing is deleted.
    pub(crate) fn abandon_hooks<'a>(
        &'a self,
        release: &'a mut Release,
        run: &'a HookRun<'a>,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            let left = decide::abandon(&mut release.hooks, outside::now());
            let Some((first, _)) = left.first() else { return Ok(()) };
            // Before the deletion, or a Job with a TTL that is gone would count as succeeded.
            let path = &release.hooks[*first].path;
            let recorded = run.journal.record(release).await;
            recorded.map_err(|source| HookError::Record { path: path.clone(), source })?;
            self.delete_left(release, &left, run).await;
            Ok(())
        })
    }

    /// Deletes by policy what hooks that succeeded made, if nothing continues their action and the process that ran them
    /// died before it did. What cannot be deleted is only logged. Repeating it is safe.
    pub(crate) fn delete_succeeded<'a>(&'a self, release: &'a Release, run: &'a HookRun<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let left = decide::left_by_succeeded(&release.hooks);
            if !left.is_empty() {
                self.delete_left(release, &left, run).await;
            }
        })
    }

    /// Deletes by policy what hooks that ended made, whether they succeeded or were abandoned, if the process that ended
    /// them died before it did. What cannot be deleted is only logged. Repeating it is safe.
    pub(crate) fn delete_ended<'a>(&'a self, release: &'a Release, run: &'a HookRun<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let left = decide::left_by_ended(&release.hooks);
            if !left.is_empty() {
                self.delete_left(release, &left, run).await;
            }
        })
    }

    async fn delete_left(&self, release: &Release, left: &[Left], run: &HookRun<'_>) {
        let run = HookRun { timeout: Some(CLEAN_UP), patience: Patience::Full, ..*run };
        let delete = async {
            for (at, policies) in left {
                log_cleanup(self.delete_run(release, *at, policies, &run).await);
            }
        };
        without_slot(run.slot, delete).await;
    }
}
