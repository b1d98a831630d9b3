//! Takes a release away with its custom resource, by what is recorded alone; and the finalizer that gives us the time.

use helm::action;
use helm::kube::{Call, FIELD_MANAGER};
use helm::release::HookEvent;
use serde_json::json;

use super::primary::{FINALIZER, Primary};
use super::work::{Next, Work, chain, reference};
use crate::status::{Fault, condition};

/// Puts our finalizer on, before anything is made that it has to take away.
pub(super) async fn add_finalizer(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Fault> {
    let mut finalizers = primary.finalizers.clone();
    finalizers.push(FINALIZER.to_owned());
    set_finalizers(work, primary, &finalizers, "add").await
}

/// Takes our finalizer off, and the upstreams'.
pub(super) async fn remove_finalizer(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Fault> {
    tracing::info!(resource = %work.key, "Removing finalizer");
    let others: Vec<String> = primary.other_finalizers().into_iter().cloned().collect();
    set_finalizers(work, primary, &others, "remove").await
}

async fn set_finalizers(work: &Work<'_>, primary: &Primary, finalizers: &[String], verb: &str) -> Result<Next, Fault> {
    let failed = |e: helm::kube::Error| {
        let message = format!("failed to {verb} uninstall finalizer: {}", chain(&e));
        Fault { condition: condition::IRRECONCILABLE, reason: "ReconcileError", message }
    };
    let path = work.shared.resource.path(primary.namespace(), primary.name()).map_err(failed)?;
    // Another's finalizer that came meanwhile must not be lost, nor a resource of another uid be touched.
    let patch = json!({"metadata": {
        "finalizers": finalizers, "uid": primary.uid(), "resourceVersion": primary.resource_version(),
    }});
    let path = format!("{path}?fieldManager={FIELD_MANAGER}");
    match work.shared.api.send(Call::merge(path, patch.to_string().into_bytes())).await {
        Ok(answer) => {
            let answer: Primary = answer.parse().map_err(failed)?;
            let gone = answer.deleting && answer.finalizers.is_empty();
            if gone {
                work.shared.lose_primary(work.key)
            } else {
                _ = work.shared.cache.put_primary(answer)
            }
            Ok(if gone { Next::Done } else { Next::Look })
        }
        // Gone, or changed a moment ago: the watch will tell.
        Err(error) if error.is_not_found() => Ok(Next::Done),
        Err(error) => Err(failed(error)),
    }
}

/// Deletes hooks, objects and records; with `uninstall-wait` the records stay until the objects are gone.
pub(super) async fn uninstall(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Fault> {
    match delete(work, primary).await {
        Ok(true) => {
            tracing::info!(resource = %work.key, "Uninstalled release");
            work.shared.events.normal(
                reference(primary),
                "Uninstalled",
                "Uninstall",
                format!("uninstalled release {:?}", primary.name()),
            );
            work.shared.cache.change_release(work.key, |release| release.revisions.clear());
            work.succeed();
            Ok(Next::Look)
        }
        Ok(false) => {
            tracing::info!(resource = %work.key, "Uninstall wait: Waiting until all resources are deleted");
            work.uninstalled = true;
            work.succeed();
            Ok(Next::Done)
        }
        Err(error) => {
            Err(Fault { condition: condition::RELEASE_FAILED, reason: "UninstallError", message: chain(&error) })
        }
    }
}

/// Says whether everything is gone that has to be.
async fn delete(work: &Work<'_>, primary: &Primary) -> Result<bool, action::Error> {
    let Some(current) = work.current() else { return Ok(true) };
    let decoration = work.decoration(primary);
    let env = work.environment(&decoration, primary, "uninstall");
    let (inventory, packed) = match (&current.inventory.objects[..], current.inventory.complete) {
        ([], false) => {
            action::inventory_of(&env, current.version).await.map(|(marks, packed)| (marks, Some(packed)))?
        }
        _ => (current.inventory.clone(), current.packed.clone()),
    };
    let version = current.deployed.unwrap_or(current.version);
    if inventory.delete_hooks {
        action::run_delete_hooks(&env, HookEvent::PreDelete, version, packed.as_ref()).await?;
    }
    action::delete_objects(&env, &inventory).await?;
    if primary.annotations.uninstall_wait() && !is_gone(work, &inventory).await? {
        return Ok(false);
    }
    if inventory.delete_hooks {
        action::run_delete_hooks(&env, HookEvent::PostDelete, version, packed.as_ref()).await?;
    }
    env.storage.delete_all(&decoration.namespace, &decoration.release, &current.versions).await?;
    Ok(true)
}

/// Whether every object that is not kept is gone: by the watches where there are, else by asking.
async fn is_gone(work: &Work<'_>, inventory: &helm::storage::Marks) -> Result<bool, action::Error> {
    for object in inventory.objects.iter().filter(|o| !o.kept) {
        let gone = if work.shared.cache.is_synced(&object.key) {
            work.shared.cache.dependent(&object.key).is_none()
        } else {
            let exists = work.shared.applier.exists(&object.key, &object.api_version).await;
            !exists.map_err(|source| helm::kube::ApplyError::Failed {
                verb: "delete",
                object: object.key.to_string(),
                source,
            })?
        };
        if !gone {
            return Ok(false);
        }
    }
    Ok(true)
}
