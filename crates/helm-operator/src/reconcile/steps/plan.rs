//! Plans instead of acting, if an annotation asks for it, and says what would change: in a condition and an event.

use controller::events::MAX_NOTE;
use controller::report::{Outcome, chain};
use helm_release::kube::Call;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use crate::plan::Plan;
use crate::plan::brief::brief;
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::remembered::Planned;
use crate::reconcile::decide::state::Planning;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, NextStep};
use crate::reconcile::rehearse::{Error, Rehearsed, rehearse};
use crate::reconcile::step_context::StepContext;
use crate::status::{MAX_MESSAGE, PlanReport, condition};
use crate::view::primary::Primary;

/// When to plan again after the resource could not be read.
const PAUSE: Duration = Duration::from_secs(30);

/// The memory for the objects of a plan, in bytes. The process makes one plan at a time, and comparing the objects takes
/// about as much again.
const MEMORY: usize = 16 << 20;

impl StepContext<'_> {
    /// Returns whether to plan instead of acting. A deletion is never merely planned, because the resource would then
    /// never be deleted.
    pub(crate) fn planning(&self, primary: &Primary) -> Planning {
        let is_asked = primary.annotations.left_alone_by() == Some("dry-run") && !primary.deleting;
        match self.shared.memory.of(self.key).status.planned.as_deref() {
            _ if !is_asked => Planning::Off,
            Some(last) if last.inputs == self.planned_inputs(primary) => Planning::Done,
            _ => Planning::Due,
        }
    }

    /// Returns the last plan, unless it is outdated.
    pub(crate) fn plan_report(&self, primary: &Primary) -> Option<PlanReport> {
        let memory = self.shared.memory.of(self.key);
        let last = memory.status.planned.as_deref()?;
        match self.planning(primary) {
            Planning::Off => None,
            Planning::Due if !last.inputs.is_empty() => None,
            Planning::Due | Planning::Done => Some(last.report.clone()),
        }
    }

    /// Returns what a plan depends on: the inputs, the annotations, and what is recorded.
    fn planned_inputs(&self, primary: &Primary) -> String {
        let release = self.release();
        let newest = release.as_deref().and_then(|release| release.newest());
        let newest = newest.map(|(version, revision)| (version, revision.status));
        format!("{} {newest:?}", self.attempt(primary))
    }
}

/// Plans the next reconcile with a twin of the controller, and keeps the result for the status.
pub(crate) async fn plan(context: &StepContext<'_>, primary: &Primary) -> Result<Ended, Failed> {
    let (inputs, twin) = (context.planned_inputs(primary), context.shared.twin(context.key));
    let report = match rehearsed(context, primary, &twin).await {
        Ok(report) => report,
        Err(why) => {
            keep(context, String::new(), PlanReport { reason: "PlanFailed", message: why });
            return Ok(NextStep::At(Instant::now() + PAUSE).into());
        }
    };
    let known = primary.status.find(condition::PLANNED);
    if known.is_none_or(|known| (&*known.reason, &*known.message) != (report.reason, &*report.message)) {
        tracing::info!(resource = %context.key, reason = report.reason, "Planned instead of acting");
        context.shared.publish(primary, Outcome::normal(report.reason, "Plan", short(&report.message)));
    }
    keep(context, inputs, report);
    Ok(NextStep::Again.into())
}

fn keep(context: &StepContext<'_>, inputs: String, report: PlanReport) {
    context.shared.memory.change(context.key, |memory| {
        memory.status.planned = Some(Box::new(Planned { inputs, report }));
        // The status reports what is known now.
        (memory.is_slow, memory.restored) = (false, None);
    });
}

/// Rehearses the resource as the API server has it. That the plan is too large is kept like a plan, so that it is not
/// tried again until something that it depends on changes.
async fn rehearsed(
    context: &StepContext<'_>,
    primary: &Primary,
    twin: &ControllerContext,
) -> Result<PlanReport, String> {
    let path = twin.resource.path(primary.own_namespace(), primary.name()).map_err(|error| chain(&error))?;
    let read = context.shared.api.send(Call::get(path)).await.and_then(|answer| answer.parse::<Value>());
    let resource = read.map_err(|error| chain(&error))?;
    match rehearse(twin, resource, context.priority, MEMORY).await {
        Ok(rehearsed) => Ok(reported(&rehearsed)),
        Err(error @ Error::TooLarge) => Ok(PlanReport { reason: "PlanFailed", message: chain(&error) }),
        Err(error) => Err(chain(&error)),
    }
}

fn reported(Rehearsed { plan, mask }: &Rehearsed) -> PlanReport {
    PlanReport { reason: reason(plan), message: brief(plan, mask, MAX_MESSAGE) }
}

/// Returns the reason of the condition and of the event.
fn reason(plan: &Plan) -> &'static str {
    match () {
        () if plan.is_failure() => "PlanFails",
        () if plan.changes.is_empty() => "NoChanges",
        () => "WouldChange",
    }
}

/// Cuts a plan to the length of an event's message, after a whole line.
fn short(message: &str) -> &str {
    if message.len() <= MAX_NOTE {
        return message;
    }
    let cut = &message[..message.floor_char_boundary(MAX_NOTE)];
    cut.rsplit_once('\n').map_or(cut, |(whole, _)| whole)
}
