//! Applies every object of a release again even if no mark shows drift: on demand, or periodically at long intervals.

use controller::report::Outcome;
use helm_release::action::{self, Action};
use helm_release::kube::DriftPolicy;
use helm_release::storage::MarkedObject;

use super::marks::{RepairDeletions, update_marks};
use super::remediate;
use super::repair::{self, deployed, fault};
use crate::reconcile::changes::{self, put_back};
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, NextStep};
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

/// Applies every object of the deployed revision. If this was not requested, applies only those whose drift is
/// repaired.
pub(crate) async fn reapply(context: &StepContext<'_>, primary: &Primary) -> Result<Ended, Failed> {
    let Some((version, marks)) = deployed(context) else { return Ok(NextStep::Done.into()) };
    let env = context.environment(primary, Action::Upgrade);
    let packed = context.release().and_then(|release| release.record(version).cloned());
    let asked = context.full_reconcile(primary).is_some();
    let is_due = |object: &&MarkedObject| asked || context.drift_policy(object, primary) == DriftPolicy::Repair;
    let objects: Vec<&MarkedObject> = marks.objects.iter().filter(is_due).collect();
    let noted = RepairDeletions::new(context, primary, version, &marks);
    let repaired = action::reapply(&env, (version, packed.as_ref()), &objects, &noted).await;
    let Some(repaired) = context.unless_unproven(version, repaired)? else { return Ok(NextStep::Again.into()) };
    let (applied, failed, marks) = (repaired.applied, repaired.failed, noted.marks());
    let put_back = put_back(&applied);
    if !put_back.is_empty() {
        context.shared.publish(primary, Outcome::normal("DriftCorrected", "Repair", changes::repaired(&put_back, &[])));
    }
    repair::cache_repaired(context, &applied, failed.as_ref());
    remediate::publish_client_side_applies(context, primary, &applied, None).await;
    update_marks(context, primary, version, &marks, &applied).await.map_err(|e| fault(&e))?;
    if let Some(error) = failed {
        return Err(fault(&error));
    }
    tracing::info!(resource = %context.key, objects = applied.len(), changed = put_back.len(), "Applied release again");
    Ok(NextStep::Again.with([context.applied_everything(primary)]))
}
