//! Makes a release's first revision, or continues one that a crash interrupted. Helm's `pkg/action/install.go`.

use std::time::Duration;

use super::deploy::{ActionKind, check_size, deploy};
use super::{Candidate, Completed, Current, Environment, Error, Failure};
use crate::kube::{ApplyError, CrdPolicy, DefinitionOf, Object, Readiness};
use crate::release::{HookEvent, Status};
use crate::storage::Marks;

/// How long to wait until definitions from `crds` are served.
const CRD_TIMEOUT: Duration = Duration::from_secs(60);

/// Installs a release: creates the chart's `crds`, then runs the steps in the [module docs](super#flow) with the
/// install hooks.
///
/// `current` describes what records exist already: those of an interrupted install, whose revision is continued by
/// the same inputs, or those of an uninstalled release that kept its history.
///
/// Definitions from `crds` are created before the record is written and never belong to the release. The install waits
/// up to 60 s until they are served, then continues: objects of a kind that is still unknown fail with an error that
/// names this cause.
///
/// # Errors
/// [`Failure::recorded`] is `None` if nothing but definitions was written: an object belongs to someone else, or the
/// record cannot be written. Otherwise the revision is recorded as `failed`, or still as `pending-install` after an
/// outage.
pub async fn install(
    env: &Environment<'_>,
    candidate: &Candidate,
    current: Option<&Current>,
) -> Result<Completed, Failure> {
    let kind = ActionKind {
        pending: Status::PendingInstall,
        before: HookEvent::PreInstall,
        after: HookEvent::PostInstall,
        complete: "Install complete".into(),
        failed: "Release",
        rollback_revision: 0,
    };
    check_size(env, candidate, current, &kind)?;
    if env.options.crds != CrdPolicy::Skip {
        create_crds(env, &candidate.crds, current.map(|current| &current.inventory)).await?;
    }
    deploy(env, candidate, current, kind).await
}

/// Applies the definitions in the chart's `crds` folder, if the policy is to replace existing ones. Definitions in the
/// release's inventory remain part of the release for now, because the action may fail and be rolled back.
///
/// # Errors
/// A definition must not be replaced, or the server rejects it.
pub async fn replace_crds(env: &Environment<'_>, candidate: &Candidate, inventory: &Marks) -> Result<(), Error> {
    match env.options.crds {
        CrdPolicy::CreateOrReplace => create_crds(env, &candidate.crds, Some(inventory)).await,
        CrdPolicy::Skip | CrdPolicy::Create => Ok(()),
    }
}

/// Creates the definitions in `crds`. Existing ones are replaced only by policy, and no action deletes them.
async fn create_crds(env: &Environment<'_>, crds: &[Object], inventory: Option<&Marks>) -> Result<(), Error> {
    env.applier.check_reach(crds.iter(), &env.options.reach, &env.decoration).await?;
    let mut created_any = false;
    for crd in crds {
        let applied = match env.options.crds {
            CrdPolicy::CreateOrReplace => {
                let of = owner_of(crd, inventory, &env.decoration.namespace);
                env.applier.replace_definition(crd, of, &env.decoration).await
            }
            CrdPolicy::Skip | CrdPolicy::Create => env.applier.apply_definition(crd).await,
        };
        match applied {
            Ok(created) => created_any |= created,
            Err(error) => return Err(error.into()),
        }
    }
    if created_any {
        let served = tokio::time::timeout(CRD_TIMEOUT, wait_until_served(env, crds)).await;
        served.unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Returns the definition's owner, as far as the release knows.
fn owner_of(crd: &Object, inventory: Option<&Marks>, namespace: &str) -> DefinitionOf {
    let mut known = inventory.into_iter().flat_map(|known| &known.objects);
    match known.any(|object| crd.has_key(&object.key, namespace)) {
        true => DefinitionOf::Release,
        false => DefinitionOf::Nobody,
    }
}

async fn wait_until_served(env: &Environment<'_>, crds: &[Object]) -> Result<(), Error> {
    for crd in crds {
        while env.applier.readiness(crd).await? != Readiness::Ready {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let failed = |source| ApplyError::Failed { verb: "apply", object: "crds".into(), source };
    Ok(env.applier.mapper.refresh().await.map_err(failed)?)
}
