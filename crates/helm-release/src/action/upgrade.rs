//! Makes the next revision: applies changed objects and prunes dropped ones. Helm's `pkg/action/upgrade.go`.

use super::deploy::{ActionKind, deploy};
use super::install::replace_crds;
use super::{Candidate, Completed, Current, Environment, Failure};
use crate::release::{HookEvent, Status};

/// Upgrades a release to a candidate, by the steps in the [module docs](super#flow) with the upgrade hooks.
///
/// An object is skipped without a request if its digest is the one in [`Current::inventory`] and [`Environment::live`]
/// shows the recorded ownership mark. Everything else is applied; objects that only the inventory contains are pruned,
/// except kept ones.
///
/// A pending upgrade in `current` with the candidate's inputs is continued under the same number from its recorded
/// manifest. Any other pending revision is marked failed, and the candidate becomes the next one.
///
/// # Errors
/// As [`install`](super::install::install). The previous revision stays `deployed` until the upgrade succeeds; nothing
/// is rolled back. If the pending revision has ended meanwhile, [`Error::Ended`](super::Error::Ended), before anything but
/// definitions is written.
pub async fn upgrade(env: &Environment<'_>, candidate: &Candidate, current: &Current) -> Result<Completed, Failure> {
    replace_crds(env, candidate, &current.inventory).await?;
    let kind = ActionKind {
        pending: Status::PendingUpgrade,
        before: HookEvent::PreUpgrade,
        after: HookEvent::PostUpgrade,
        complete: "Upgrade complete".into(),
        failed: "Upgrade",
        rollback_revision: 0,
    };
    deploy(env, candidate, Some(current), kind).await
}
