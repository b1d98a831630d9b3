//! Uninstalls a release by its record alone, because the chart may be missing. Helm's `pkg/action/uninstall.go`.

use std::sync::Arc;

use futures::future::try_join_all;

use super::deletion::leave;
use super::environment::leave_unended;
use super::keys::served;
use super::orphans::{claimed, names};
use super::resume::{await_next, has, has_delete_hooks, not_run};
use super::{Candidate, Environment, Error, Records};
use crate::kube::{Adopted, ApplyError, HookError, HookRun, Left, Live, Owner, WriteLimit, intern, recorded_objects};
use crate::release::{HookEvent, HookPhase, Packed, Release, Status};
use crate::storage::{self, MarkedObject, Marks, Record, Stored, Written, check_fits};

/// Number of failures of post-delete hooks, or of their clean-up, after which the release is removed without them.
/// Attempts that ended because the API server did not answer, or because they were interrupted, do not count.
pub const POST_DELETE_TRIES: u32 = 5;

/// The revision that is being uninstalled. The functions here keep it in step with its record.
#[derive(Clone, Debug)]
pub struct Uninstalling {
    /// The revision.
    pub version: u32,
    /// Its marks, which record the progress of the uninstall.
    pub marks: Marks,
    /// Its record, if it is in memory; read from storage otherwise.
    pub packed: Option<Stored<Packed>>,
    /// The record's resource version after our last write; `None` before the first.
    pub resource_version: Option<u64>,
}

/// When an uninstall that has deleted nothing yet is called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOff {
    /// If one of its hooks failed. Otherwise, it goes on.
    IfFailed,
    /// Even while its hooks run.
    Always,
}

/// The result of post-delete hooks.
#[derive(Debug)]
pub enum PostDelete {
    /// The hooks succeeded, or there are none. Lists hooks that were skipped because their namespace is being deleted.
    Done(Vec<HookError>),
    /// The hooks or their clean-up failed [`POST_DELETE_TRIES`] times: remove the release without them.
    GivenUp(Error),
}

/// Runs the pre-delete hooks and sets the record's status to `uninstalling`, as Helm does. Returns the hooks that were
/// skipped because their namespace is being deleted.
///
/// Call it before [`delete_objects`](super::delete_objects) and repeat it until it succeeds. The hooks' phases are recorded
/// as they run, so a call after an error, a cancellation or a crash runs only the hooks that have not succeeded yet. Once
/// all have succeeded, it only deletes what is left of the hooks that are deleted on success. If hooks are disabled, it ends
/// those that a dead process started.
///
/// # Errors
/// A hook failed, and the record names it: do not delete anything yet. Or the record cannot be read or written.
pub async fn run_pre_delete(env: &Environment<'_>, at: &mut Uninstalling) -> Result<Vec<HookError>, Error> {
    if env.options.disable_hooks {
        end_delete_hooks(env, at).await?;
        return Ok(Vec::new());
    }
    let mut release = at.read(env).await?;
    if !has_delete_hooks(&release.hooks) {
        return Ok(Vec::new());
    }
    begin(&mut release);
    let journalled = at.marks.clone();
    let records = Records { storage: env.storage, marks: &journalled };
    let run = env.hook_run(&records);
    if at.marks.hooks_done {
        clean_up_again(env, &release, &run).await?;
        return Ok(Vec::new());
    }
    let ran = env.applier.run_hooks(&mut release, HookEvent::PreDelete, &run).await;
    let mut marks = at.marks.clone();
    if ran.is_ok() {
        await_next(&mut release.hooks, HookEvent::PostDelete);
        (marks.hooks_done, marks.revocable) = (true, true);
    }
    let written = env.storage.update(&release, &marks).await;
    if written.is_ok() {
        at.marks = marks;
    }
    let written = at.take(written);
    let left_out = ran?;
    written?;
    env.applier.clean_up_hooks(&release, HookEvent::PreDelete, Some(HookEvent::PostDelete), &run).await?;
    Ok(left_out)
}

/// Ends the uninstall's hooks that are still running according to the record, and deletes what succeeded hooks left.
/// Objects of hooks that failed by themselves stay for their owner to inspect. If the record is lost or damaged, no
/// hook is ended, because disabling hooks is the remedy for that. The record still says that the uninstall has begun.
///
/// # Errors
/// The record cannot be read or written.
pub async fn end_delete_hooks(env: &Environment<'_>, at: &mut Uninstalling) -> Result<(), Error> {
    let Some(mut release) = at.read_own(env).await? else { return Ok(()) };
    if release.info.status != Status::Uninstalling {
        return Ok(());
    }
    // The hooks' end is recorded even if this fails after that.
    at.packed = None;
    if end_running(env, &mut release, &at.marks).await? {
        at.take(env.storage.update(&release, &at.marks).await)?;
    }
    Ok(())
}

/// Ends the hooks of an uninstall that nothing continues: the resource was made anew, or somebody else's revision followed.
/// Otherwise as [`end_delete_hooks`]. Returns the record as written, with its marks; `None` if no hook was running, if the
/// revision is not being uninstalled, if this operator did not write the record, or if that no longer exists.
///
/// # Errors
/// The record cannot be read or written.
pub async fn end_left_uninstall(env: &Environment<'_>, version: u32) -> Result<Option<(Written, Marks)>, Error> {
    let (namespace, name) = (&env.decoration.namespace, &env.decoration.release);
    let record = match env.storage.get(namespace, name, version).await {
        Err(error) if error.is_missing() || error.is_damage() => return Ok(None),
        record => record?,
    };
    let (Stored::Sealed(release), Some(marks)) = (record.release, record.marks) else { return Ok(None) };
    let mut release = release.into_inner();
    if release.info.status != Status::Uninstalling || !end_running(env, &mut release, &marks).await? {
        return Ok(None);
    }
    match env.storage.update(&release, &marks).await {
        // It has just been deleted, and says nothing any more.
        Err(error) if error.is_missing() => Ok(None),
        written => Ok(Some((written?, marks))),
    }
}

/// Ends the hooks that are still running according to the release's record. If none are, deletes what succeeded hooks
/// left, and what an earlier call did not end. Returns whether any hook was still running, in which case the release has
/// changed.
async fn end_running(env: &Environment<'_>, release: &mut Release, marks: &Marks) -> Result<bool, Error> {
    let records = Records { storage: env.storage, marks };
    let run = env.hook_run(&records);
    if !release.has_unfinished_hooks() {
        env.applier.delete_succeeded(release, &run).await;
        leave_unended(env, env.applier.end_failed(release, &run).await)?;
        return Ok(false);
    }
    leave_unended(env, env.applier.abandon_hooks(release, &run).await)?;
    Ok(true)
}

/// Records that a release whose resource stays is about to lose its objects. From then on, nothing of it is repaired or
/// upgraded, none of its Jobs counts as finished, and the uninstall continues to its end, even after a restart. Call it
/// between [`run_pre_delete`] and [`delete_objects`](super::delete_objects), whether or not the release has hooks or they
/// are disabled. A record that already says so stays, as does one that is lost or damaged, or that this operator did not
/// write.
///
/// Returns the marks before, for [`withdraw_deletion`]; `None` if the record stays.
///
/// # Errors
/// The record cannot be read or written: do not delete anything yet.
pub async fn begin_deletion(env: &Environment<'_>, at: &mut Uninstalling) -> Result<Option<Marks>, Error> {
    let Some(mut release) = at.read_own(env).await? else { return Ok(None) };
    let are_hooks_done = release.info.status == Status::Uninstalling && at.marks.hooks_done;
    let (is_announced, unfinished) = (are_hooks_done && !at.marks.revocable, at.marks.without_finished());
    if is_announced && unfinished.is_none() {
        return Ok(None);
    }
    begin(&mut release);
    if !are_hooks_done {
        await_next(&mut release.hooks, HookEvent::PostDelete);
    }
    let before = Marks { revocable: !is_announced, ..at.marks.clone() };
    let marks = Marks { hooks_done: true, revocable: false, ..unfinished.unwrap_or_else(|| at.marks.clone()) };
    at.take(env.storage.update(&release, &marks).await)?;
    at.marks = marks;
    Ok(Some(before))
}

/// Records that an uninstall stops before its first deletion, although [`begin_deletion`] has announced it. The
/// uninstall may be called off or go on later, and Jobs that had finished according to the marks `before` count as
/// finished again.
///
/// # Errors
/// The record cannot be read or written. The uninstall goes on then, or Jobs that have finished run again.
pub async fn withdraw_deletion(env: &Environment<'_>, at: &mut Uninstalling, before: &Marks) -> Result<(), Error> {
    let Some(release) = at.read_own(env).await? else { return Ok(()) };
    let marks = Marks { objects: before.objects.clone(), revocable: before.revocable, ..at.marks.clone() };
    at.take(env.storage.update(&release, &marks).await)?;
    at.marks = marks;
    Ok(())
}

/// Deletes the objects of pre-delete hooks that an interrupted attempt may have left. Objects that cannot be deleted,
/// because someone else owns or keeps them, do not stop the uninstall.
async fn clean_up_again(env: &Environment<'_>, release: &Release, run: &HookRun<'_>) -> Result<(), Error> {
    match env.applier.clean_up_hooks(release, HookEvent::PreDelete, Some(HookEvent::PostDelete), run).await {
        Err(error) if error.is_unanswered() => Err(error.into()),
        Err(error) => {
            tracing::warn!(release = release.name, %error, "cannot delete a hook's object");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Starts an uninstall with the chart's render (hooks, manifest and values) instead of a record that this operator did
/// not write: makes this next revision, whose record says how far the uninstall is. The other records stay as they are,
/// because the uninstall may still be stopped. Only where no new record can be made, because the namespace is being
/// deleted or a quota is used up, the render replaces the present one. Leaves out values with which the record could not
/// be read again: the hooks do not need them.
///
/// # Errors
/// The record cannot be written. [`Error::is_taken`] if another writer has just created this revision.
pub async fn begin_with_hooks(
    env: &Environment<'_>,
    at: &mut Uninstalling,
    candidate: &Candidate,
    next: u32,
) -> Result<(), Error> {
    let marks = begun_marks(env, &at.marks);
    let (version, written) = match env.storage.create(&begun_release(env, candidate, next), &marks).await {
        Err(error) if error.is_terminating() || error.is_forbidden() => {
            let written = env.storage.update(&begun_release(env, candidate, at.version), &marks).await?;
            (at.version, written)
        }
        created => (next, created?),
    };
    (at.version, at.marks) = (version, marks);
    Ok(at.take(Ok(written))?)
}

/// Returns the chart's render as a revision that is being uninstalled.
fn begun_release(env: &Environment<'_>, candidate: &Candidate, version: u32) -> Release {
    let mut release = candidate.as_release(&env.decoration, version);
    if check_fits(&release).is_err() {
        release.config = serde_json::Value::Null;
    }
    begin(&mut release);
    release
}

/// Returns the marks of an uninstall that begins, with this inventory. What its marks say about an earlier uninstall, which
/// had other hooks, or about how their revision was made, does not count.
fn begun_marks(env: &Environment<'_>, inventory: &Marks) -> Marks {
    let owner = env.decoration.owner.as_ref();
    Marks {
        owner: intern(owner.map_or("", |owner| &owner.uid)),
        owner_type: intern(&owner.map(Owner::annotated_type).unwrap_or_default()),
        hooks_done: false,
        revocable: false,
        failed_post_deletes: 0,
        rolled_back_to: None,
        cause: Arc::default(),
        ..inventory.clone()
    }
}

/// Sets the status to `uninstalling`, once.
fn begin(release: &mut Release) {
    if release.info.status != Status::Uninstalling {
        release.hooks = not_run(&release.hooks);
        release.info.deleted = Some(outside::now());
        release.set_status(Status::Uninstalling, "Deletion in progress (or silently failed)");
    }
}

/// Calls off the uninstall of a revision, which is deployed again. Ends its hooks that are still running according to
/// the record; objects of hooks that failed by themselves stay for their owner to inspect. Returns the record as
/// written, with its marks; `None` if the uninstall goes on, because the record says that its deletions have begun, or
/// if this operator did not write the record.
///
/// # Errors
/// The record cannot be read or written, or no longer says that the revision is being uninstalled.
pub async fn call_off(env: &Environment<'_>, version: u32, when: CallOff) -> Result<Option<(Written, Marks)>, Error> {
    let (namespace, name) = (&env.decoration.namespace, &env.decoration.release);
    let record = match env.storage.get(namespace, name, version).await {
        Err(error) if error.is_damage() => return Ok(None),
        record => record?,
    };
    let (Stored::Sealed(release), Some(marks)) = (record.release, record.marks) else { return Ok(None) };
    let mut release = release.into_inner();
    if release.info.status != Status::Uninstalling {
        return Err(Error::Ended { version });
    }
    let has_failed = release.hooks.iter().any(|hook| hook.last_run.phase == HookPhase::Failed);
    let deletes = marks.hooks_done && !marks.revocable;
    if deletes || (when == CallOff::IfFailed && !has_failed) {
        return Ok(None);
    }
    // Another uninstall runs its hooks again.
    let mut marks = Marks { hooks_done: false, revocable: false, ..marks };
    // The marks of the uninstall also list what only a later revision renders.
    let own = recorded_objects(&release.manifest, namespace)?;
    let is_anothers = |known: &&mut MarkedObject| !own.iter().any(|object| object.has_key(&known.key, namespace));
    marks.objects.iter_mut().filter(is_anothers).for_each(|known| known.digest = None);
    end_running(env, &mut release, &marks).await?;
    release.info.deleted = None;
    release.set_status(Status::Deployed, "Uninstall called off before it deleted anything");
    let written = env.storage.update(&release, &marks).await?;
    Ok(Some((written, marks)))
}

/// Runs the post-delete hooks. Call it once [`delete_objects`](super::delete_objects) succeeded and the objects no longer
/// exist.
///
/// The release's objects are already deleted, so hooks must not block the deletion forever if they fail, or if their
/// objects cannot be deleted: the record counts such failures, and the last one returns [`PostDelete::GivenUp`].
///
/// # Errors
/// A hook failed, or its object cannot be deleted, and tries are left. Or the record cannot be read or written.
pub async fn run_post_delete(env: &Environment<'_>, at: &mut Uninstalling) -> Result<PostDelete, Error> {
    if env.options.disable_hooks || at.has_given_up() {
        return Ok(PostDelete::Done(Vec::new()));
    }
    let mut release = at.read(env).await?;
    if at.has_given_up() || !has(&release.hooks, HookEvent::PostDelete) {
        return Ok(PostDelete::Done(Vec::new()));
    }
    let journalled = at.marks.clone();
    let records = Records { storage: env.storage, marks: &journalled };
    let run = env.hook_run(&records);
    let ran = env.applier.run_hooks(&mut release, HookEvent::PostDelete, &run).await;
    let ended = match ran {
        Ok(left_out) => {
            at.take(env.storage.update(&release, &at.marks).await)?;
            let cleaned_up = env.applier.clean_up_hooks(&release, HookEvent::PostDelete, None, &run).await;
            cleaned_up.map(|()| left_out)
        }
        Err(error) => Err(error),
    };
    let error = match ended {
        Ok(left_out) => return Ok(PostDelete::Done(left_out)),
        Err(error) => error,
    };
    let has_failed = !error.is_unanswered() || error.is_slow_deletion() || error.is_rejected_clean_up();
    if has_failed && !error.is_interruption() {
        at.marks.failed_post_deletes += 1;
    }
    if let Err(error) = at.take(env.storage.update(&release, &at.marks).await) {
        tracing::warn!(release = release.name, %error, "cannot record a failed hook");
    }
    if at.has_given_up() { Ok(PostDelete::GivenUp(error.into())) } else { Err(error.into()) }
}

impl Uninstalling {
    /// Returns the revision's release. If its record is read from storage, takes over how far the uninstall got: the
    /// last write may have succeeded although its response was lost, and the hooks' phases are those of that write.
    async fn read(&mut self, env: &Environment<'_>) -> Result<Release, Error> {
        let (namespace, name) = (&env.decoration.namespace, &env.decoration.release);
        let (stored, marks) = match &self.packed {
            Some(packed) => (packed.unpack()?, None),
            None => {
                let Record { release, marks, .. } = env.storage.get(namespace, name, self.version).await?;
                (release, marks)
            }
        };
        let release = stored.sealed().ok_or(Error::Unproven { version: self.version })?.into_inner();
        // The marks of an earlier action are about its own pre hooks.
        if let Some(marks) = marks.filter(|_| release.info.status == Status::Uninstalling) {
            (self.marks.hooks_done, self.marks.revocable) = (marks.hooks_done, marks.revocable);
            self.marks.failed_post_deletes = marks.failed_post_deletes;
        }
        Ok(release)
    }

    /// Returns the revision's release as [`Uninstalling::read`] does; `None` if its record is lost or damaged, or if
    /// this operator did not write it.
    async fn read_own(&mut self, env: &Environment<'_>) -> Result<Option<Release>, Error> {
        let is_not_ours = |error: &Error| match error {
            Error::Storage(error) => error.is_missing() || error.is_damage(),
            Error::Record(error) => error.is_damage(),
            error => matches!(error, Error::Unproven { .. }),
        };
        match self.read(env).await {
            Err(error) if is_not_ours(&error) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns whether the post-delete hooks have failed too often.
    fn has_given_up(&self) -> bool {
        self.marks.failed_post_deletes >= POST_DELETE_TRIES
    }

    /// Keeps the written record. If the write failed, the stored record must be read again: it lists the hooks that
    /// have begun, while the one in memory does not.
    fn take(&mut self, written: Result<Written, storage::Error>) -> Result<(), storage::Error> {
        self.packed = None;
        let written = written?;
        (self.packed, self.resource_version) = (Some(Stored::Sealed(written.packed)), Some(written.resource_version));
        Ok(())
    }
}

/// Takes the resource off a release's objects that its successor has not applied yet. Otherwise the garbage collector
/// would delete them with the resource.
///
/// # Errors
/// The server rejects a write or is unreachable. Some objects may already have changed.
pub async fn hand_over(env: &Environment<'_>, inventory: &Marks) -> Result<(), Error> {
    let limit = WriteLimit::new();
    try_join_all(inventory.objects.iter().map(|object| limit.within(leave(env, object, Left::HasSuccessor)))).await?;
    Ok(())
}

/// Removes the resource from the objects that it began to take over from this revision of another resource's release.
/// Otherwise the garbage collector would delete them with the resource. The revision lists the objects; only their
/// metadata shows which were taken, because the record is written last. If the record is lost or damaged, the cluster
/// is searched for them.
///
/// # Errors
/// As [`hand_over`], or the record or an object cannot be read. If they are searched for, as [`claimed`].
pub async fn give_back(env: &Environment<'_>, version: u32) -> Result<(), Error> {
    let inventory = match inventory_of(env, version).await {
        Ok((recorded, _)) => recorded,
        Err(error) if lists_no_objects(&error) => claimed(env).await?,
        Err(error) => return Err(error),
    };
    let limit = WriteLimit::new();
    try_join_all(inventory.objects.iter().map(|object| limit.within(give_back_one(env, object)))).await?;
    Ok(())
}

/// Returns whether the error says that a record is lost or damaged.
pub(super) fn lists_no_objects(error: &Error) -> bool {
    let is_missing = matches!(error, Error::Storage(error) if error.is_missing());
    is_missing || error.is_undecodable() || matches!(error, Error::Manifest(_))
}

async fn give_back_one(env: &Environment<'_>, object: &MarkedObject) -> Result<(), Error> {
    let is_named = |live: &Live| env.decoration.owner.as_ref().is_some_and(|owner| names(owner, live));
    // A kept object has named the resource since an earlier release, and nothing deletes it.
    let is_tied = |live: &Live| is_named(live) && !(live.kept && live.controller.is_none());
    match env.applier.find_live(&object.key, &object.api_version).await {
        Ok(Some(live)) if is_tied(&live) => leave(env, object, Left::Before(Adopted::Claimed)).await,
        // Without permission to read an object, we cannot have taken it.
        Err(ApplyError::Failed { source, .. }) if source.is_forbidden() => Ok(()),
        found => Ok(found.map(drop)?),
    }
}

/// Builds the inventory of a revision without our marks from its stored manifest.
///
/// # Errors
/// The record cannot be read or decoded, or discovery fails.
pub async fn inventory_of(env: &Environment<'_>, version: u32) -> Result<(Marks, Stored<Packed>), Error> {
    let (namespace, name) = (&env.decoration.namespace, &env.decoration.release);
    let Record { release, marks, .. } = env.storage.get(namespace, name, version).await?;
    Ok((marks_of(env, release.facts(), marks.as_ref()).await?, release.pack()?))
}

/// Builds the inventory of a release from its manifest. Only its own marks, if it has any, say when an object is applied.
pub(super) async fn marks_of(env: &Environment<'_>, release: &Release, own: Option<&Marks>) -> Result<Marks, Error> {
    let mut objects = recorded_objects(&release.manifest, &env.decoration.namespace)?;
    if let Some(own) = own {
        own.give_turns(&mut objects, &env.decoration.namespace);
    }
    let mut marks = Marks {
        delete_hooks: has_delete_hooks(&release.hooks),
        first_deployed: release.info.first_deployed,
        taken_over: true,
        rolled_back_to: release.info.rolled_back_to(),
        ..Marks::default()
    };
    let was_applied = matches!(release.info.status, Status::Deployed | Status::Superseded);
    for (key, object) in served(env, objects).await? {
        let unapplied = MarkedObject::unapplied(key, &object, &env.decoration.namespace);
        marks.objects.push(MarkedObject { expires: was_applied && object.expires(), ..unapplied });
    }
    Ok(marks)
}

/// Sets another writer's unfinished action to `failed`. Returns the record's resource version.
///
/// # Errors
/// The record cannot be decoded or written.
pub async fn abandon(env: &Environment<'_>, packed: &Stored<Packed>) -> Result<u64, Error> {
    let mut release = packed.facts().unpack()?;
    let was = release.info.status.as_str();
    release.info.description = format!("Abandoned: it was {was} and nothing happened for ten minutes");
    Ok(env.storage.rewrite(&release, Status::Failed).await?)
}
