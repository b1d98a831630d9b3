//! Gives the objects of a rendered chart their order, if watches.yaml asks for it.

use helm::sequence::{Part, Problem, Sequence, SequenceError, Subcharts};
use helm_release::action::Candidate;
use helm_release::kube::Object;

use crate::reconcile::failure::FailedAttempt;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::watches::Sequencing;

impl StepContext<'_> {
    /// Gives each object of a candidate its turn.
    ///
    /// # Errors
    /// Groups or subcharts wait for each other or for one that does not exist, or an annotation about the order is
    /// malformed.
    pub(crate) fn ordered(&self, mut candidate: Candidate) -> Result<Candidate, FailedAttempt> {
        if self.shared.settings.sequencing == Sequencing::None {
            return Ok(candidate);
        }
        let renderer = &*self.shared.renderer;
        let order = match renderer.subcharts() {
            Some(Ok(subcharts)) => of(subcharts, &candidate.objects),
            Some(Err(error)) => Err(error.to_string()),
            None => of(&Subcharts::none(renderer.chart_name()), &candidate.objects),
        };
        let order = order.map_err(|message| FailedAttempt::rendering(Reason::InvalidOrder, message))?;
        let turns = order.turns(candidate.objects.len());
        candidate.objects.iter_mut().zip(turns).for_each(|(object, turn)| object.turn = turn);
        Ok(candidate)
    }
}

/// Determines the order of objects. A problem that `lint` reports is an error, except for an object that has only one
/// of the two annotations about readiness: it is judged as any other.
fn of(subcharts: &Subcharts, objects: &[Object]) -> Result<Sequence, String> {
    let parts: Vec<Part<'_>> = objects.iter().map(part).collect();
    let order = subcharts.sequence(&parts).map_err(|error: SequenceError| error.to_string())?;
    match order.problems.iter().find(|problem| !matches!(problem, Problem::Readiness { .. })) {
        Some(problem) => Err(problem.to_string()),
        None => Ok(order),
    }
}

fn part(object: &Object) -> Part<'_> {
    Part::new(&object.template, (&object.kind, &object.name), |key| object.annotation(key))
}
