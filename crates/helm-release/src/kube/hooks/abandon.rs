//! Ends the hooks of an action that nothing continues, as an interruption does.

use futures::future::BoxFuture;

use super::decide::Left;
use super::{CLEAN_UP, HookError, HookRun, Patience, decide, log_cleanup};
use crate::kube::waiting::slot::without_slot;
use crate::kube::writes::apply::Applier;
use crate::release::Release;

impl Applier {
    /// Marks hooks that began but did not end as failed, records that, and then deletes by policy the objects of all
    /// hooks that began. What the server refuses to delete is only logged. Repeating it is safe.
    ///
    /// # Errors
    /// The release cannot be recorded; then nothing is deleted. Or a deletion was not answered: repeat the call, or what
    /// runs is not ended.
    pub(crate) fn abandon_hooks<'a>(
        &'a self,
        release: &'a mut Release,
        run: &'a HookRun<'a>,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            let left = decide::abandon(&mut release.hooks, outside::now());
            let Some((first, _)) = left.first() else { return Ok(()) };
            // Recorded before the deletion: otherwise a missing Job with a TTL would count as succeeded.
            let path = &release.hooks[*first].path;
            let recorded = run.journal.record(release).await;
            recorded.map_err(|source| HookError::Record { path: path.clone(), source })?;
            self.delete_left(release, &left, run).await
        })
    }

    /// Deletes by policy the objects of hooks that succeeded. Nothing continues their action, and the process that ran
    /// them may have died before it deleted the objects. What cannot be deleted is only logged. Repeating it is safe.
    pub(crate) fn delete_succeeded<'a>(&'a self, release: &'a Release, run: &'a HookRun<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let left = decide::left_by_succeeded(&release.hooks);
            if !left.is_empty() {
                log_cleanup(self.delete_left(release, &left, run).await);
            }
        })
    }

    /// Deletes by policy the objects of hooks that ended, whether they succeeded or were abandoned: the process that
    /// ended them may have died before it deleted the objects. What the server refuses to delete is only logged. Repeating
    /// it is safe.
    ///
    /// # Errors
    /// A deletion was not answered: repeat the call.
    pub(crate) fn delete_ended<'a>(
        &'a self,
        release: &'a Release,
        run: &'a HookRun<'a>,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            let left = decide::left_by_ended(&release.hooks);
            if left.is_empty() { Ok(()) } else { self.delete_left(release, &left, run).await }
        })
    }

    async fn delete_left(&self, release: &Release, left: &[Left], run: &HookRun<'_>) -> Result<(), HookError> {
        let run = HookRun { timeout: Some(CLEAN_UP), patience: Patience::Full, ..*run };
        let delete = async {
            let mut answered = Ok(());
            for (at, policies) in left {
                match self.delete_run(release, *at, policies, &run).await {
                    Err(error) if error.is_unanswered() => answered = Err(error),
                    deleted => log_cleanup(deleted),
                }
            }
            answered
        };
        without_slot(run.slot, delete).await
    }
}
