//! Runs one hook: records the run, creates or finds its objects, and waits until they finish or time out.

use outside::{Call, Error, Response, intern, is_transient};
use serde_json::Value;
use tokio::time::Instant;

use super::clock::{Clock, REFUSED_LIMIT};
use super::decide::{
    Absence, Expiry, HookResult, Look, absence, created, evidence, expiry, outcome, recorded_expiry, runs_to_an_end,
};
use super::objects::{self, Made, Stamp, called};
use super::{HookError, HookRun, MadeBy, deleted_by, keep_error};
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::waiting::pause::Pause;
use crate::kube::waiting::slot::HookObject;
use crate::kube::writes::apply::{Applier, describe, key_of};
use crate::release::{DeletePolicy, HookEvent, HookPhase, LastRun, Release};

impl Applier {
    /// Runs a hook. Sets `judged` to the object that decided how the hook ended, if there is one.
    pub(super) async fn run_hook(
        &self,
        release: &mut Release,
        at: usize,
        event: HookEvent,
        run: &HookRun<'_>,
        judged: &mut Option<HookObject>,
    ) -> Result<(), HookError> {
        let hook = &mut release.hooks[at];
        if hook.last_run.phase == HookPhase::Succeeded {
            return Ok(());
        }
        if hook.delete_policies.is_empty() {
            hook.delete_policies = vec![DeletePolicy::BeforeHookCreation];
        }
        let ended = self.start_and_wait(release, at, event, run, judged).await;
        if ended.as_ref().is_err_and(HookError::is_unanswered) {
            return ended;
        }
        let last_run = &mut release.hooks[at].last_run;
        last_run.phase = if ended.is_ok() { HookPhase::Succeeded } else { HookPhase::Failed };
        last_run.completed_at = Some(outside::now());
        run.slot.hook_ended(&release.hooks[at], event);
        ended
    }

    async fn start_and_wait(
        &self,
        release: &mut Release,
        at: usize,
        event: HookEvent,
        run: &HookRun<'_>,
        judged: &mut Option<HookObject>,
    ) -> Result<(), HookError> {
        let objects = objects::of(&release.hooks[at])?;
        for object in &objects {
            self.check_hook_reach(object, &Clock::start(&release.hooks[at], run)).await?;
        }
        let phase = release.hooks[at].last_run.phase;
        let found = self.find_all_resumed(release, at, &objects, run).await?;
        let is_resumed = found.iter().any(Option::is_some);
        if !is_resumed {
            if matches!(phase, HookPhase::Running | HookPhase::Unknown) {
                // Its time may be up, although nothing of it has run.
                release.hooks[at].last_run = LastRun::default();
            }
            self.delete_leftovers(release, at, run).await?;
            let expiring = objects.iter().any(|object| expiry(&object.kind, &object.body) == Expiry::AfterFinish);
            let phase = if expiring { HookPhase::Unknown } else { HookPhase::Running };
            release.hooks[at].last_run = LastRun { started_at: Some(outside::now()), phase, ..LastRun::default() };
            record(release, at, run).await?;
        }
        let stamp = Stamp::during(release, at, event);
        let hook = release.hooks[at].clone();
        let clock = Clock::start(&hook, run);
        let mut awaited = Vec::new();
        for (object, found) in objects.iter().zip(found) {
            match found {
                Some(Found::Ended) => {}
                Some(Found::Made(made)) => awaited.push((object, made)),
                None => {
                    if is_resumed {
                        self.delete_before_creation(object, &stamp, &clock).await?;
                    }
                    awaited.push((object, self.create_or_overwrite(object, &stamp, &clock).await?));
                }
            }
        }
        let both = |(object, made): &(&Object, Made)| (expiry(&object.kind, &object.body), made.look.expiry);
        let expiries: Vec<_> = awaited.iter().map(both).collect();
        if let Some(created) = created(&release.hooks[at].last_run, &expiries) {
            release.hooks[at].last_run = created;
            record(release, at, run).await?;
        }
        for (object, made) in awaited {
            self.wait_for(object, &made, &stamp, &clock, judged).await?;
        }
        Ok(())
    }

    /// Checks that the release may contain an object, before anything of its run is written.
    async fn check_hook_reach(&self, object: &Object, clock: &Clock<'_>) -> Result<(), HookError> {
        let (path, run) = (|| clock.hook.path.clone(), clock.run);
        let what = format!("{} to be found", describe(object));
        let resource = clock.retry(&what, || self.mapper.resource(&object.api_version, &object.kind)).await?;
        let key = key_of(object, run.decoration, &resource);
        run.reach
            .admits(&key, &run.decoration.namespace)
            .map_err(|refused| HookError::OutOfReach { path: path(), refused })
    }

    /// Finds each object of a run that was started before; `None` for those to create, which are all in a new run.
    async fn find_all_resumed(
        &self,
        release: &Release,
        at: usize,
        objects: &[Object],
        run: &HookRun<'_>,
    ) -> Result<Vec<Option<Found>>, HookError> {
        let hook = &release.hooks[at];
        let phase = hook.last_run.phase;
        if !matches!(phase, HookPhase::Running | HookPhase::Unknown) {
            return Ok(objects.iter().map(|_| None).collect());
        }
        let (stamp, clock) = (Stamp::of(release, at), Clock::start(hook, run));
        let mut found = Vec::new();
        for object in objects {
            found.push(self.find_resumed(object, &stamp, phase, &clock).await?);
        }
        Ok(found)
    }

    /// Finds the object of a run that was started before; `None` if it must be created.
    async fn find_resumed(
        &self,
        object: &Object,
        stamp: &Stamp,
        phase: HookPhase,
        clock: &Clock<'_>,
    ) -> Result<Option<Found>, HookError> {
        let what = format!("{} to be found", describe(object));
        if let Some(made) = clock.retry(&what, || self.find(object, stamp, clock.run)).await? {
            return Ok(Some(Found::Made(made)));
        }
        let expiry = recorded_expiry(object, &clock.hook.last_run);
        match absence(evidence(phase, expiry), expiry) {
            Absence::Ended(HookResult::Succeeded) => Ok(Some(Found::Ended)),
            Absence::Ended(HookResult::Failed(why)) => Err(clock.failed(object, &why)),
            Absence::Create if runs_to_an_end(&object.kind) => {
                clock.check(&format!("{} to be created", describe(object))).map(|()| None)
            }
            Absence::Create => Ok(None),
        }
    }

    /// Deletes by policy the objects of earlier runs before a new one. Those of a failed run should have been deleted at its
    /// end, but that deletion may have failed.
    async fn delete_leftovers(&self, release: &Release, at: usize, run: &HookRun<'_>) -> Result<(), HookError> {
        if release.hooks[at].last_run.phase == HookPhase::Failed {
            self.make_room((release, at), MadeBy::RecordedRun, DeletePolicy::HookFailed, run).await?;
        }
        self.make_room((release, at), MadeBy::AnyRun, DeletePolicy::BeforeHookCreation, run).await
    }

    /// Deletes what these runs left of a hook with this policy. One object that stays does not keep the others of a list,
    /// which may run.
    async fn make_room(
        &self,
        (release, at): (&Release, usize),
        made_by: MadeBy,
        policy: DeletePolicy,
        run: &HookRun<'_>,
    ) -> Result<(), HookError> {
        let (hook, stamp) = (&release.hooks[at], Stamp::of(release, at));
        let clock = Clock::start(hook, run);
        let mut room = Ok(());
        for object in &deleted_by(hook, &[policy])? {
            keep_error(&mut room, self.clear_place(object, (made_by, &stamp), &clock).await);
        }
        room
    }

    /// Deletes what is in the place of an object, so that this run can create its own. Gives up after the server has
    /// rejected the deletion for [`REFUSED_LIMIT`]: it may never accept it. The hook has not begun, so nothing is undone.
    pub(super) async fn clear_place(
        &self,
        object: &Object,
        whose: (MadeBy, &Stamp),
        clock: &Clock<'_>,
    ) -> Result<(), HookError> {
        let name = called(object, whose.1, clock.run.decoration);
        let deleted = self.delete_hook(object, whose, &clock.refused_for(REFUSED_LIMIT)).await;
        let was_rejected =
            |error: &HookError| matches!(error, HookError::Api { .. }) && error.is_outage() && error.reached_server();
        if deleted.as_ref().is_err_and(was_rejected) {
            clock.check(&format!("{name} to be deleted"))?;
        }
        deleted.map_err(|error| error.of_obstacle(name))
    }

    /// Deletes an earlier run's object with this object's name, if the hook's policy says so.
    async fn delete_before_creation(&self, object: &Object, stamp: &Stamp, clock: &Clock<'_>) -> Result<(), HookError> {
        match clock.hook.delete_policies.contains(&DeletePolicy::BeforeHookCreation) && !object.name.is_empty() {
            true => self.clear_place(object, (MadeBy::AnyRun, stamp), clock).await,
            false => Ok(()),
        }
    }

    /// Creates an object, or overwrites the one that the release has in its place.
    async fn create_or_overwrite(&self, object: &Object, stamp: &Stamp, clock: &Clock<'_>) -> Result<Made, HookError> {
        match self.create_and_retry(object, stamp, clock).await {
            Err(HookError::Api { source, .. }) if source.is_conflict() && !object.name.is_empty() => {}
            made => return made,
        }
        match self.overwrite_hook(object, stamp, clock).await? {
            Some(made) => Ok(made),
            None => self.create_and_retry(object, stamp, clock).await,
        }
    }

    /// Creates an object, retrying while the server is unavailable.
    async fn create_and_retry(&self, object: &Object, stamp: &Stamp, clock: &Clock<'_>) -> Result<Made, HookError> {
        let what = format!("{} to be created", describe(object));
        clock.retry_until(&what, Some(REFUSED_LIMIT), || self.create_once(object, stamp, clock.run)).await
    }

    /// Waits until a Job or Pod finishes. If another run's stands in its place, possibly another release's, it is gone.
    ///
    /// # Errors
    /// It failed, or did not end in time. Or the hook is interrupted, which is also checked if its object is gone, because a
    /// rollback may have replaced the object.
    async fn wait_for(
        &self,
        object: &Object,
        made: &Made,
        stamp: &Stamp,
        clock: &Clock<'_>,
        judged: &mut Option<HookObject>,
    ) -> Result<(), HookError> {
        let own_name = made.path.rsplit('/').next().unwrap_or_default();
        let name = format!("{} {own_name:?}", object.kind);
        let what = format!("{name} to finish");
        let resource = clock.retry(&what, || self.mapper.resource(&object.api_version, &object.kind)).await?;
        // The server may have chosen its name.
        let key = ObjectKey { name: intern(own_name), ..key_of(object, clock.run.decoration, &resource) };
        *judged = None;
        let (mut last, mut asked, mut pause) = (made.look.clone(), Instant::now(), Pause::default());
        loop {
            let ask = || {
                asked = Instant::now();
                self.get(&made.path)
            };
            let live = clock.retry(&what, ask).await?;
            let ended = match live.filter(|live| stamp.is_on(live)) {
                Some(live) => {
                    let uid = live["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                    *judged = Some(HookObject { key: key.clone(), api_version: object.api_version.clone(), uid });
                    // The server may have given it a TTL.
                    last = Look::of(&object.kind, &live, asked);
                    outcome(&object.kind, &last.status)
                }
                None => {
                    clock.check(&what)?;
                    Some(last.gone(&object.kind, Instant::now()))
                }
            };
            match ended {
                Some(HookResult::Succeeded) => return Ok(()),
                Some(HookResult::Failed(why)) => {
                    return Err(HookError::Failed { path: clock.hook.path.clone(), why: format!("{name}: {why}") });
                }
                None => clock.wait_on(&what, None, judged.as_ref(), &mut pause).await?,
            }
        }
    }

    /// Reads an object; `None` if it does not exist.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        let answer: Result<Response, Error> = self.api().send(Call::get(path)).await;
        match answer {
            Err(error) if error.is_missing_object() => Ok(None),
            answer => answer?.parse().map(Some),
        }
    }
}

/// The object of a hook whose run started earlier.
enum Found {
    /// It exists.
    Made(Made),
    /// It finished, and the server deleted it.
    Ended,
}

/// Records that a hook has ended. A missing record is fine: then no process continues the release.
pub(super) async fn record_end(release: &Release, at: usize, run: &HookRun<'_>) -> Result<(), HookError> {
    match record(release, at, run).await {
        Err(HookError::Record { source, .. }) if run.journal.is_gone(&*source) => Ok(()),
        recorded => recorded,
    }
}

/// Records the run of a hook, retrying transient errors.
pub(super) async fn record(release: &Release, at: usize, run: &HookRun<'_>) -> Result<(), HookError> {
    let clock = Clock::start(&release.hooks[at], run);
    let mut pause = Pause::default();
    loop {
        match run.journal.record(release).await {
            Ok(()) => return Ok(()),
            Err(error) if is_transient(&*error) => {
                let trouble = outside::named(&*error).unwrap_or_default();
                clock.wait("the release to be recorded", Some(&trouble), &mut pause).await?;
            }
            Err(source) => return Err(HookError::Record { path: clock.hook.path.clone(), source }),
        }
    }
}
