//! Ends the hooks of an action that nothing continues, as an interruption does.

use futures::future::BoxFuture;

use super::clock::Clock;
use super::decide::Left;
use super::objects::{Stamp, called};
use super::{HookError, HookRun, INTERRUPTED, MadeBy, decide, deleted_by, log_cleanup, objects, one};
use crate::kube::waiting::slot::without_slot;
use crate::kube::writes::apply::{Applier, describe};
use crate::release::{Hook, HookPhase, Release};

impl Applier {
    /// Marks hooks that began but did not end as failed, records that, and then deletes by policy the objects of all
    /// hooks that began. What cannot be deleted is only logged, unless it may run: that is reported. Repeating it is safe.
    ///
    /// # Errors
    /// The release cannot be recorded; then nothing is deleted. Or the deletion of what may run was not answered: repeat the
    /// call.
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
            log_cleanup(self.delete_left(release, &left, run).await);
        })
    }

    /// Deletes by policy the objects of hooks that ended, whether they succeeded or were abandoned: the process that
    /// ended them may have died before it deleted the objects. What cannot be deleted is only logged, unless it may run.
    /// Repeating it is safe.
    ///
    /// # Errors
    /// The deletion of what may run was not answered: repeat the call.
    pub(crate) fn delete_ended<'a>(
        &'a self,
        release: &'a Release,
        run: &'a HookRun<'a>,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            let left = decide::left_by_ended(&release.hooks);
            self.delete_left(release, &left, run).await
        })
    }

    /// Deletes by policy the Jobs and Pods of failed hooks that still run: they were to be ended, and that was not answered.
    /// Those that have failed by themselves stay. What cannot be deleted is only logged. Repeating it is safe.
    ///
    /// # Errors
    /// A read or a deletion was not answered: repeat the call.
    pub(crate) fn end_failed<'a>(
        &'a self,
        release: &'a Release,
        run: &'a HookRun<'a>,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            let mut left = decide::left_by_ended(&release.hooks);
            left.retain(|(at, _)| may_run(&release.hooks[*at]));
            if left.is_empty() {
                return Ok(());
            }
            let brief = run.brief();
            let look = async {
                let mut running = Vec::new();
                for (at, policies) in left {
                    match self.runs(release, at, &brief).await {
                        Ok(true) => running.push((at, policies)),
                        Err(error) if error.is_outage() => return Err(error.of_end(&release.hooks[at])),
                        found => log_cleanup(found.map(|_| ())),
                    }
                }
                Ok(running)
            };
            let running = without_slot(run.slot, look).await?;
            self.delete_left(release, &running, run).await
        })
    }

    /// Returns whether a hook's recorded run has a Job or Pod that is neither finished nor being deleted.
    async fn runs(&self, release: &Release, at: usize, run: &HookRun<'_>) -> Result<bool, HookError> {
        let (hook, stamp) = (&release.hooks[at], Stamp::of(release, at));
        let clock = Clock::start(hook, run);
        for object in objects::of(hook)?.iter().filter(|object| decide::runs_to_an_end(&object.kind)) {
            let what = format!("{} to be found", describe(object));
            let found = clock.retry(&what, || self.find(object, &stamp, run)).await?;
            if found.is_some_and(|made| !made.is_over) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends what still runs of a hook that is a list and has failed, by the policies for what is interrupted: another Job of
    /// it failed, or another object was not created. What has ended stays for its owner to inspect. Records the failure
    /// before the first deletion. What the server refuses to delete is reported.
    ///
    /// # Errors
    /// The release cannot be recorded; then nothing is deleted. Or a read or a deletion was not answered.
    pub(super) async fn end_rest(&self, release: &Release, at: usize, run: &HookRun<'_>) -> Result<(), HookError> {
        let run = run.brief();
        let (hook, stamp) = (&release.hooks[at], Stamp::of(release, at));
        let clock = Clock::start(hook, &run);
        let mut running = Vec::new();
        for object in decide::may_run_beside(deleted_by(hook, INTERRUPTED)?) {
            let what = format!("{} to be found", describe(&object));
            let found = clock.retry(&what, || self.find(&object, &stamp, &run)).await;
            match found {
                Ok(Some(made)) if !made.is_over => running.push(object),
                Err(error) if error.is_outage() => return Err(error),
                found => log_cleanup(found.map(|_| ())),
            }
        }
        if running.is_empty() {
            return Ok(());
        }
        one::record_end(release, at, &run).await?;
        let mut answered = Ok(());
        for object in running {
            match self.delete_hook(&object, (MadeBy::RecordedRun, &stamp), &clock).await {
                Ok(()) => {}
                Err(error) if error.is_outage() => answered = Err(error),
                Err(error) => note_undeleted(hook, &called(&object, &stamp, run.decoration), error, &run),
            }
        }
        answered
    }

    async fn delete_left(&self, release: &Release, left: &[Left], run: &HookRun<'_>) -> Result<(), HookError> {
        if left.is_empty() {
            return Ok(());
        }
        let run = run.brief();
        let delete = async {
            let mut answered = Ok(());
            for (at, policies) in left {
                match self.delete_run(release, *at, policies, &run).await {
                    Err(error) if error.is_outage() && may_run(&release.hooks[*at]) => {
                        answered = Err(error.of_end(&release.hooks[*at]));
                    }
                    Err(error) if may_run(&release.hooks[*at]) => {
                        note_unended(release, (*at, *policies), error, &run);
                    }
                    deleted => log_cleanup(deleted),
                }
            }
            answered
        };
        without_slot(run.slot, delete).await
    }
}

/// Reports what a hook made that may still run, because the server refuses to delete it: nothing tries that again. Any other
/// error is only logged.
pub(super) fn note_unended(release: &Release, (at, policies): Left, error: HookError, run: &HookRun<'_>) {
    let stamp = Stamp::of(release, at);
    let objects = deleted_by(&release.hooks[at], policies).unwrap_or_default();
    let named: Vec<String> = objects.iter().map(|object| called(object, &stamp, run.decoration)).collect();
    note_undeleted(&release.hooks[at], &named.join(" or "), error, run);
}

/// Does so for these objects alone.
fn note_undeleted(hook: &Hook, named: &str, error: HookError, run: &HookRun<'_>) {
    if !outside::reached_server(&error) {
        return log_cleanup(Err(error));
    }
    let (path, answer) = (&hook.path, outside::named(&error).unwrap_or_default());
    run.report_left(&format!("hook {path} may still run, because {named} cannot be deleted ({answer})"));
}

/// Returns whether what a hook that has ended made may still run: it was ended from outside.
fn may_run(hook: &Hook) -> bool {
    hook.last_run.phase == HookPhase::Failed && decide::has_an_end(hook)
}
