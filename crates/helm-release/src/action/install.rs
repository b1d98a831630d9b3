//! Makes the first revision; also again, over what a crash left of the first try. Helm's `pkg/action/install.go`.

use std::time::Duration;

use super::deploy::{Kind, deploy};
use super::{Candidate, Current, Environment, Error, Failure, Outcome};
use crate::kube::{ApplyError, Object, Readiness};
use crate::release::{HookEvent, Status};

/// How long a definition from `crds` may take until it is served.
const CRD_TIMEOUT: Duration = Duration::from_secs(60);

/// Installs. `current` is there if a record of an unfinished or uninstalled release is.
pub async fn install(
    env: &Environment<'_>,
    candidate: &Candidate,
    current: Option<&Current>,
) -> Result<Outcome, Failure> {
    make_crds(env, &candidate.crds).await?;
    let kind = Kind {
        pending: Status::PendingInstall,
        before: HookEvent::PreInstall,
        after: HookEvent::PostInstall,
        complete: "Install complete".into(),
        failed: "Release",
        rollback_revision: 0,
    };
    deploy(env, candidate, current, kind).await
}

/// Makes what is in `crds`, once: a definition that exists is left as it is, and no action ever deletes it.
async fn make_crds(env: &Environment<'_>, crds: &[Object]) -> Result<(), Error> {
    let mut made = false;
    for crd in crds {
        match env.applier.apply_definition(crd).await {
            Ok(created) => made |= created,
            Err(error) => return Err(error.into()),
        }
    }
    if made {
        let served = tokio::time::timeout(CRD_TIMEOUT, wait_until_served(env, crds)).await;
        served.unwrap_or(Ok(()))?;
    }
    Ok(())
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
