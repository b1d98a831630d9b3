//! Counts the resources of a chart controller, for metrics.

use std::sync::Arc;

use crate::chart_metrics::{Census, Count, RolloutCount};
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::gate::{self, Gate};
use crate::reconcile::decide::progression::titles;
use crate::status::{Condition, condition};
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

impl Census for ControllerContext {
    fn count(&self) -> Count {
        let left_alone = [("suspend", 0), ("pause", 0), ("dry-run", 0)].into();
        let mut counts = Count { left_alone, rollout: rollout(self), ..Count::default() };
        for primary in self.cache.primaries() {
            let ready = primary.status.find(condition::READY);
            let of =
                |part: fn(&Condition) -> &Arc<str>| ready.map_or_else(|| "Unknown".into(), |ready| part(ready).clone());
            *counts.ready.entry((of(|ready| &ready.status), of(|ready| &ready.reason))).or_default() += 1;
            if let Some(deployed) = primary.status.deployed_release.as_ref().filter(|one| !one.chart.is_empty()) {
                counts.add_chart(&deployed.chart);
            }
            if let Some(annotation) = primary.annotations.left_alone_by() {
                *counts.left_alone.entry(annotation).or_default() += 1;
            }
            if let Some(release) = self.cache.release(&primary.key()) {
                counts.revisions += release.revisions.len();
                counts.pinned += usize::from(is_pinned(&primary, &release));
            }
        }
        counts
    }
}

/// Returns whether the release is at the revision that a person pins it to.
fn is_pinned(primary: &Primary, release: &ReleaseRecords) -> bool {
    let to = primary.annotations.pin().ok().flatten();
    to.is_some_and(|to| gate::pin(release, to, primary.uid(), primary.reported()) == Some(Gate::Pinned))
}

/// Returns how far the rollout is; `None` for a controller without steps.
fn rollout(context: &ControllerContext) -> Option<RolloutCount> {
    let rule = context.turns.rule()?;
    let progress = context.turns.progress();
    let phase = progress.phase.word();
    let total = progress.counts.total;
    Some(RolloutCount {
        phase,
        step: phase.map_or(0, |_| progress.step + 1),
        steps: titles(rule).len(),
        upgraded: if total == 0 { 1.0 } else { (total - progress.waiting) as f64 / total as f64 },
    })
}
