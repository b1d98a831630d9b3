//! Applies every object of a release again even if no mark shows drift: on demand, or periodically at long intervals.

use controller::report::Outcome;
use helm_release::action;
use helm_release::kube::DriftPolicy;
use helm_release::storage::MarkedObject;

use super::remediate;
use super::repair::{self, deployed, fault};
use crate::reconcile::context::{Next, Work};
use crate::reconcile::failure::Failed;
use crate::reconcile::report::changes::{put_back, repaired};
use crate::view::primary::Primary;

/// Applies every object of the deployed revision. If this was not requested, applies only those whose drift is
/// repaired.
pub(crate) async fn reapply(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Failed> {
    let Some((version, marks)) = deployed(work) else { return Ok(Next::Done) };
    let decoration = work.decoration(primary);
    let env = work.environment(&decoration, primary, "upgrade");
    let packed = work.release().and_then(|r| r.packed.clone()).filter(|(v, _)| *v == version).map(|(_, p)| p);
    let asked = work.full_reconcile(primary).is_some();
    let is_due = |object: &&MarkedObject| asked || work.drift_policy(object, primary) == DriftPolicy::Repair;
    let objects: Vec<&MarkedObject> = marks.objects.iter().filter(is_due).collect();
    let applied = action::reapply(&env, version, packed.as_ref(), &objects).await;
    let Some(applied) = work.unless_unproven(version, applied)? else { return Ok(Next::Again) };
    repair::cache_applied(work, &applied);
    remediate::publish_client_side_applies(work, primary, &applied, None).await;
    repair::update_marks(work, primary, version, &marks, &applied).await.map_err(|e| fault(&e))?;
    let put_back = put_back(&applied);
    tracing::info!(resource = %work.key, objects = applied.len(), changed = put_back.len(), "Applied release again");
    if !put_back.is_empty() {
        work.shared.publish(primary, Outcome::normal("DriftCorrected", "Repair", repaired(&put_back, &[])));
    }
    work.applied_everything(primary);
    Ok(Next::Again)
}
