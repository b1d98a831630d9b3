//! Deletes a release's objects, by what is recorded alone: the chart may be gone. Helm's `pkg/action/uninstall.go`.

use futures::future::try_join_all;
use jiff::Timestamp;

use super::resume::{await_next, has, not_run};
use super::{Environment, Error, Records, read_release};
use crate::kube::{HookError, Removal, is_kept, recorded_objects, uninstall_order};
use crate::release::{HookEvent, Packed, Release, Status};
use crate::storage::{MarkedObject, Marks, Written};

/// How often the hooks after an uninstall may fail before the release is given up without them.
pub const POST_DELETE_TRIES: u32 = 5;

/// The revision whose hooks an uninstall runs: what is recorded of it, kept up to date.
#[derive(Clone, Debug)]
pub struct Uninstalling {
    /// The revision.
    pub version: u32,
    /// Its marks; they say how far the uninstall came.
    pub marks: Marks,
    /// Its record, if it is at hand.
    pub packed: Option<Packed>,
    /// Its resource version, once it was written here.
    pub resource_version: Option<u64>,
}

/// How the hooks after an uninstall went.
#[derive(Debug)]
pub enum Farewell {
    /// They succeeded, or there are none; but for these, which cannot be made because the namespace is being deleted.
    Done(Vec<HookError>),
    /// They failed for the last time: the release goes without them.
    GivenUp(Error),
}

/// Runs the hooks before an uninstall, once: a repetition runs only what has not succeeded. The record becomes `uninstalling`, as with Helm.
/// Returns those that were left out, because nothing can be made in a namespace that is being deleted.
///
/// # Errors
/// A hook failed: nothing may be deleted. The record says which.
pub async fn run_pre_delete(env: &Environment<'_>, at: &mut Uninstalling) -> Result<Vec<HookError>, Error> {
    if env.options.disable_hooks || at.marks.hooks_done {
        return Ok(Vec::new());
    }
    let mut release = read_release(env, at.version, at.packed.as_ref()).await?;
    if !has(&release.hooks, HookEvent::PreDelete) && !has(&release.hooks, HookEvent::PostDelete) {
        return Ok(Vec::new());
    }
    begin(&mut release);
    let records = Records { storage: env.storage };
    let run = env.hook_run(&records);
    let ran = env.applier.run_hooks(&mut release, HookEvent::PreDelete, &run).await;
    if ran.is_ok() {
        await_next(&mut release.hooks, HookEvent::PostDelete);
        at.marks.hooks_done = true;
    }
    let written = env.storage.update(&release, Some(&at.marks)).await;
    let left_out = ran?;
    at.take(written?);
    env.applier.clean_up_hooks(&release, HookEvent::PreDelete, &run).await?;
    Ok(left_out)
}

/// Marks the release as being uninstalled, once.
fn begin(release: &mut Release) {
    if release.info.status != Status::Uninstalling {
        release.hooks = not_run(&release.hooks);
        release.info.deleted = Some(Timestamp::now());
        release.set_status(Status::Uninstalling, "Deletion in progress (or silently failed)");
    }
}

/// Runs the hooks after an uninstall. The objects are gone, so hooks that fail again and again are given up.
///
/// # Errors
/// A hook failed, and there are tries left.
pub async fn run_post_delete(env: &Environment<'_>, at: &mut Uninstalling) -> Result<Farewell, Error> {
    if env.options.disable_hooks || at.marks.failed_farewells >= POST_DELETE_TRIES {
        return Ok(Farewell::Done(Vec::new()));
    }
    let mut release = read_release(env, at.version, at.packed.as_ref()).await?;
    if !has(&release.hooks, HookEvent::PostDelete) {
        return Ok(Farewell::Done(Vec::new()));
    }
    let records = Records { storage: env.storage };
    let run = env.hook_run(&records);
    let ran = env.applier.run_hooks(&mut release, HookEvent::PostDelete, &run).await;
    let error = match ran {
        Ok(left_out) => {
            env.storage.update(&release, None).await.map(|written| at.take(written))?;
            env.applier.clean_up_hooks(&release, HookEvent::PostDelete, &run).await?;
            return Ok(Farewell::Done(left_out));
        }
        Err(error) => error,
    };
    at.marks.failed_farewells += 1;
    match env.storage.update(&release, Some(&at.marks)).await {
        Ok(written) => at.take(written),
        Err(error) => tracing::warn!(release = release.name, %error, "cannot record a failed hook"),
    }
    let last = at.marks.failed_farewells >= POST_DELETE_TRIES;
    if last { Ok(Farewell::GivenUp(error.into())) } else { Err(error.into()) }
}

impl Uninstalling {
    fn take(&mut self, written: Written) {
        (self.packed, self.resource_version) = (Some(written.packed), Some(written.resource_version));
    }
}

/// Deletes the objects in uninstall order. Left alone are objects that the manifest or their own annotation keeps, and whatever is not
/// proven to be this release's. Repeating it is fine.
pub async fn delete_objects(env: &Environment<'_>, inventory: &Marks) -> Result<(), Error> {
    let mut objects: Vec<&MarkedObject> = inventory.objects.iter().filter(|o| !o.kept).collect();
    uninstall_order(&mut objects, |o| &o.key.kind);
    for group in objects.chunk_by(|a, b| a.key.kind == b.key.kind) {
        try_join_all(group.iter().map(|object| delete(env, object))).await?;
    }
    Ok(())
}

/// Deletes one object if it is this release's.
pub(super) async fn delete(env: &Environment<'_>, object: &MarkedObject) -> Result<(), Error> {
    let proven = env.live.look(&object.key, env.decoration).deletable();
    let removal = env.applier.delete(&object.key, &object.api_version, proven, env.decoration).await?;
    if let Removal::NotOurs(why) = removal {
        tracing::warn!(release = env.decoration.release, object = %object.key, why, "left an object alone");
    }
    Ok(())
}

/// The objects of a revision that has no marks of ours, from its stored manifest.
pub async fn inventory_of(env: &Environment<'_>, version: u32) -> Result<(Marks, Packed), Error> {
    let release = read_release(env, version, None).await?;
    let objects = recorded_objects(&release.manifest, &env.decoration.namespace)?;
    let mut marks = Marks {
        delete_hooks: has(&release.hooks, HookEvent::PreDelete) || has(&release.hooks, HookEvent::PostDelete),
        first_deployed: release.info.first_deployed,
        taken_over: true,
        ..Marks::default()
    };
    for object in &objects {
        let Some(key) = env.applier.recorded_key(object, env.decoration).await? else { continue };
        marks.objects.push(MarkedObject {
            key,
            api_version: object.api_version.as_str().into(),
            digest: object.digest(&env.decoration.namespace),
            mark: None,
            kept: is_kept(object),
            client: false,
        });
    }
    Ok((marks, Packed::pack(&release)?))
}

/// Gives up an action of somebody else's that did not end: its record says `failed`. Returns the record's resource version.
pub async fn abandon(env: &Environment<'_>, packed: &Packed) -> Result<u64, Error> {
    let mut release = packed.unpack()?;
    let was = release.info.status.as_str();
    release.set_status(Status::Failed, format!("Abandoned: it was {was} and nothing happened for ten minutes"));
    Ok(env.storage.update(&release, None).await?.resource_version)
}
