//! Publishes what happens in a rollout, as events that concern no single release.

use controller::report::Outcome;

use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::milestones::Milestone;
use crate::reconcile::decide::progression::{RolloutProgress, titles};
use crate::watches::RolloutRule;

/// The action of these events.
const ACTION: &str = "Rollout";

impl ControllerContext {
    /// Publishes what has happened in the rollout since the last call, unless only a part of the releases is known.
    pub(crate) fn announce_rollout(&self) {
        let Some(rule) = self.turns.rule().filter(|_| !self.unseen.is_any()) else { return };
        for (milestone, progress) in self.turns.take_milestones() {
            let (kind, name, version) =
                (&self.resource.kind, self.renderer.chart_name(), self.renderer.chart_version());
            let chart = if version.is_empty() { name.to_owned() } else { format!("{name}-{version}") };
            let what = format!("the rollout of chart {chart} to {kind}");
            self.publish_for_process(outcome(milestone, &what, &progress, rule, &self.obstacle(&progress)));
        }
    }

    /// Returns which release holds the rollout up, and why: `ns/web, which cannot be upgraded now: …`.
    fn obstacle(&self, progress: &RolloutProgress) -> String {
        let Some(key) = &progress.obstructed else { return String::new() };
        let memory = self.memory.of(key);
        let why = memory.failure.as_ref().map_or("", |failure| failure.failed.fault().message.as_str());
        format!("{key}, which cannot be upgraded now: {why}")
    }
}

fn outcome(
    milestone: Milestone,
    what: &str,
    progress: &RolloutProgress,
    rule: &RolloutRule,
    obstacle: &str,
) -> Outcome {
    let counts = progress.counts;
    let step = progress.step_text(rule);
    match milestone {
        Milestone::Started => {
            let note = format!("{what} begins: {} releases, {step}", counts.total);
            Outcome::normal("RolloutStarted", ACTION, note)
        }
        Milestone::Step => {
            let before = titles(rule).get(progress.step.wrapping_sub(1)).cloned().unwrap_or_default();
            let note = format!("{what} has passed its gate ({before}): {counts}; now {step}");
            Outcome::normal("RolloutStep", ACTION, note)
        }
        Milestone::Obstructed => {
            Outcome::warning("RolloutObstructed", ACTION, format!("{what} is held up at {step} by {obstacle}"))
        }
        Milestone::Resumed => Outcome::normal("RolloutResumed", ACTION, format!("{what} resumes: {counts}; {step}")),
        Milestone::Completed => {
            let note = format!("{what} is complete: no release waits; {counts}");
            Outcome::normal("RolloutCompleted", ACTION, note)
        }
        Milestone::Halted => {
            let note = format!("{what} is halted at {step}, because {}", progress.unmet(rule));
            Outcome::warning("RolloutHalted", ACTION, note)
        }
        Milestone::TakenBack => {
            let note = format!("{what} is rolled back, because {}", progress.unmet(rule));
            Outcome::warning("RolloutRolledBack", ACTION, note)
        }
    }
}
