//! Turns a rendered chart into a candidate: applies post-renderers, and the patches, labels and annotations of
//! watches.yaml, and orders the objects if watches.yaml requests it.

use controller::report::chain;
use helm::sequence::{Part, Problem, Sequence, SequenceError, Subcharts};
use helm_release::action::Candidate;
use helm_release::kube::Object;
use serde_json::{Value, json};

use crate::reconcile::failure::{Failed, FailedAttempt};
use crate::reconcile::step_context::StepContext;
use crate::rendering::metadata::{self, Added};
use crate::rendering::patches;
use crate::status::reason::Reason;
use crate::view::primary::Primary;
use crate::watches::Sequencing;

impl StepContext<'_> {
    /// Returns the patches for the digest of the inputs; `None` if there are none.
    pub(crate) fn patches(&self) -> Option<Value> {
        let patches = &self.shared.settings.patches.0;
        let written: Vec<&Value> = patches.iter().map(|patch| &patch.written).collect();
        (!written.is_empty()).then(|| json!(["patches", written]))
    }

    /// Returns the labels for the digest of the inputs; `None` if there are none.
    pub(crate) fn common_labels(&self) -> Option<Value> {
        let labels = &self.shared.settings.common_labels.0;
        (!labels.is_empty()).then(|| json!(["common labels", **labels]))
    }

    /// Returns the annotations for the digest of the inputs; `None` if there are none.
    pub(crate) fn common_annotations(&self) -> Option<Value> {
        let annotations = &self.shared.settings.common_annotations.0;
        (!annotations.is_empty()).then(|| json!(["common annotations", **annotations]))
    }

    /// Lets post-renderers and patches change a rendered candidate, in this order, and adds labels and annotations. As
    /// in Helm, that includes the chart's hooks.
    ///
    /// # Errors
    /// A post-renderer or a patch fails, or the result cannot be read.
    pub(crate) async fn decorated(&self, primary: &Primary, rendered: Candidate) -> Result<Candidate, Failed> {
        let rendered = self.post_render(primary, rendered).await?;
        self.extended(primary, self.patched(primary, rendered)?)
    }

    fn patched(&self, primary: &Primary, candidate: Candidate) -> Result<Candidate, Failed> {
        let patches = &self.shared.settings.patches;
        if patches.0.is_empty() {
            return Ok(candidate);
        }
        patches::apply(candidate, patches, primary.namespace()).map_err(|error| {
            FailedAttempt::rendering(Reason::RenderError, format!("cannot apply patches: {}", chain(&error))).into()
        })
    }

    /// Adds the labels and annotations to the objects and hooks of a rendered candidate.
    ///
    /// # Errors
    /// A post-renderer made something that cannot be read.
    fn extended(&self, primary: &Primary, candidate: Candidate) -> Result<Candidate, Failed> {
        let settings = &self.shared.settings;
        let added = Added { labels: &settings.common_labels, annotations: &settings.common_annotations };
        if added.is_empty() {
            return Ok(candidate);
        }
        metadata::add(candidate, added, primary.namespace()).map_err(|error| {
            let what = format!("cannot add commonLabels or commonAnnotations: {error}");
            FailedAttempt::rendering(Reason::RenderError, what).into()
        })
    }

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
