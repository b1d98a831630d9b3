//! Deletes a release's objects, by what is recorded alone: the chart may be gone. Helm's `pkg/action/uninstall.go`.

use futures::future::try_join_all;

use super::{Environment, Error, read_release};
use crate::kube::{HookRun, Removal, is_kept, recorded_objects, uninstall_order};
use crate::release::{HookEvent, Packed};
use crate::storage::{MarkedObject, Marks};

/// Runs the hooks of an uninstall. The record is read only if it has any.
pub async fn run_delete_hooks(
    env: &Environment<'_>,
    event: HookEvent,
    version: u32,
    packed: Option<&Packed>,
) -> Result<(), Error> {
    if env.options.disable_hooks {
        return Ok(());
    }
    let mut release = read_release(env, version, packed).await?;
    let run = HookRun { decoration: env.decoration, timeout: env.options.hook_timeout, slot: env.slot };
    Ok(env.applier.run_hooks(&mut release.hooks, event, &run).await?)
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
    let mut marks = Marks { delete_hooks: !release.hooks.is_empty(), ..Marks::default() };
    for object in &objects {
        // A kind that is served no more has no objects.
        let Ok(key) = env.applier.key(object, env.decoration).await else { continue };
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
