//! Reports drift of objects whose policy is `detect`: reads each drifted object once, and names the fields and the
//! manager that changed them. Never writes to the objects.

use controller::report::Outcome;
use helm_release::action::{self, Action};
use helm_release::kube::{DriftPolicy, Inspection, Live, Mark, ObjectKey, OwnershipLoss};
use helm_release::storage::{MarkedObject, Marks};
use tokio::time::Instant;

use super::repair::{accept, deployed};
use crate::reconcile::decide::remembered::Detection;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::NextStep;
use crate::reconcile::observe::Reading;
use crate::reconcile::step_context::StepContext;
use crate::status::{DETECTED, condition};
use crate::view::primary::Primary;

impl StepContext<'_> {
    /// Returns the objects whose drift is to be reported, and that changed since they were last read.
    pub(crate) fn unreported(&self, marks: &Marks, primary: &Primary) -> Vec<ObjectKey> {
        let known = self.shared.memory.of(self.key).detected.clone().unwrap_or_default();
        let reading = self.reading(primary, known.looked);
        let is_new = |object: &&MarkedObject| {
            let synced = self.shared.cache.is_synced(&object.key);
            !synced || known.objects.get(&object.key).is_none_or(|found| found.seen != self.seen(&object.key))
        };
        let detected = marks.rendered().filter(|o| self.drift_policy(o, primary) == DriftPolicy::Detect);
        detected.filter(|o| self.differs(o, reading)).filter(is_new).map(|o| o.key.clone()).collect()
    }

    fn seen(&self, key: &ObjectKey) -> Option<Option<Mark>> {
        self.shared.cache.dependent(key).map(|live| live.mark)
    }

    /// Describes the drift that still exists, one text per object, and forgets the rest.
    pub(crate) fn detections(&self, primary: &Primary) -> Vec<String> {
        let Some(mut known) = self.shared.memory.of(self.key).detected.clone() else { return Vec::new() };
        let marks = deployed(self).map(|(_, marks)| marks).unwrap_or_default();
        known.objects.retain(|key, _| {
            let reported = marks.find(key).filter(|o| self.drift_policy(o, primary) == DriftPolicy::Detect);
            // Without a watch, only the next read shows that it is over.
            reported.is_some_and(|object| !self.shared.cache.is_synced(key) || self.differs(object, Reading::NotDue))
        });
        let texts = known.objects.values().map(|found| found.text.clone()).filter(|text| !text.is_empty()).collect();
        let known = (known.looked.is_some() || !known.objects.is_empty()).then_some(known);
        self.shared.memory.change(self.key, |memory| memory.detected = known);
        texts
    }
}

/// Reads the drifted objects that are not described yet.
pub(crate) async fn detect(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    let Some((version, marks)) = deployed(context) else { return Ok(NextStep::Done) };
    let keys = context.unreported(&marks, primary);
    let seen: Vec<_> = keys.iter().map(|key| context.seen(key)).collect();
    let env = context.environment(primary, Action::Upgrade);
    let packed = context.release().and_then(|release| release.record(version).cloned());
    let found = action::inspect(&env, version, packed.as_ref(), &keys).await;
    let Some(mut found) = context.unless_unproven(version, found)? else { return Ok(NextStep::Again) };
    let accepted: Vec<(ObjectKey, Live)> =
        found.iter_mut().filter_map(|(key, found)| undisturbed(key, found)).collect();
    accept(context, version, &marks, &accepted);
    let unwatched = keys.iter().any(|key| !context.shared.cache.is_synced(key));
    let found = keys.into_iter().zip(seen).map(|(key, seen)| {
        let has_finished = |loss: &OwnershipLoss| loss.gone && marks.find(&key).is_some_and(|object| object.expires);
        let is_drift = |loss: &OwnershipLoss| !loss.is_none() && !has_finished(loss);
        let one = found.iter().find(|(at, _)| *at == key).filter(|(_, found)| is_drift(&found.loss));
        let text = one.map(|(_, found)| found.loss.describe_once(&key)).unwrap_or_default();
        (key, Detection { seen, text })
    });
    report(context, primary, found.collect(), unwatched);
    context.shared.memory.change(context.key, |memory| memory.drift.clear(context.decided));
    Ok(NextStep::Again)
}

/// Returns the live object if it has everything that the release applies.
fn undisturbed(key: &ObjectKey, found: &mut Inspection) -> Option<(ObjectKey, Live)> {
    if found.loss.is_none() { Some((key.clone(), found.live.take()?)) } else { None }
}

/// Stores the findings, and publishes new ones.
fn report(context: &StepContext<'_>, primary: &Primary, found: Vec<(ObjectKey, Detection)>, unwatched: bool) {
    let before = primary.status.find(condition::DRIFTED).map(|c| c.message.clone()).unwrap_or_default();
    let mut known = context.shared.memory.of(context.key).detected.clone().unwrap_or_default();
    for (key, detection) in found {
        let old = known.objects.insert(key, detection.clone());
        // The previous process may have reported it.
        let is_old = old.map_or_else(|| before.contains(&*detection.text), |old| old.text == detection.text);
        if !is_old && !detection.text.is_empty() {
            tracing::warn!(resource = %context.key, drift = detection.text, "Drift detected");
            context.shared.publish(primary, Outcome::warning(DETECTED, "Detect", detection.text));
        }
    }
    if unwatched {
        known.looked = Some(Instant::now());
    }
    context.shared.memory.change(context.key, |memory| memory.detected = Some(known));
}
