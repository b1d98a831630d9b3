//! Checks whether a recorded revision was made from the resource's chart and values if its digest cannot show it,
//! because Helm, an upstream operator or another version of this operator wrote it. If it was, the revision stays as it
//! was rendered, including random values, and only the digest is written.

use std::sync::Arc;

use helm_release::kube::{Ownership, objects_of};
use helm_release::release::Release;
use helm_release::storage::Marks;

use super::deploy;
use super::repair::{deployed, fault, note_inputs};
use crate::reconcile::decide::alike::is_alike;
use crate::reconcile::decide::state::Inputs;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, FailedStep, Learned, NextStep};
use crate::reconcile::step_context::StepContext;
use crate::rendering::request::Rendered;
use crate::view::primary::Primary;
use crate::view::release::{ReleaseRecords, Revision};

/// Compares the deployed revision's chart and values with the resource's, and records the current digest if they are
/// equal.
pub(crate) async fn compare(context: &StepContext<'_>, primary: &Primary) -> Result<Ended, FailedStep> {
    let Some((version, marks)) = deployed(context) else { return Ok(NextStep::Done.into()) };
    let sources = context.load_sources(primary).await?;
    match judge(&context.knowing([&sources]), primary, (version, &marks)).await {
        Ok(Rendered::Done(Inputs::Same)) => {
            Ok(NextStep::Again.with([sources.without_values(), Learned::Judged(Inputs::Same)]))
        }
        // The next render uses the same contents.
        Ok(Rendered::Done(other)) => Ok(NextStep::Again.with([sources, Learned::Judged(other)])),
        Ok(Rendered::Postponed) => Ok(context.postpone().with([sources])),
        Err(failed) => Err(FailedStep { failed, learned: vec![sources] }),
    }
}

async fn judge(
    context: &StepContext<'_>,
    primary: &Primary,
    (version, marks): (u32, &Marks),
) -> Result<Rendered<Inputs>, Failed> {
    let Some(record) = read(context, primary, version).await? else { return Ok(Rendered::Done(Inputs::Changed)) };
    if !is_made_from(context, primary, &record) {
        return Ok(Rendered::Done(Inputs::Changed));
    }
    match is_as_rendered(context, primary, &record).await? {
        Rendered::Postponed => return Ok(Rendered::Postponed),
        Rendered::Done(false) => return Ok(Rendered::Done(Inputs::Changed)),
        Rendered::Done(true) => {}
    }
    // Otherwise it is recorded when ownership of the objects is taken.
    let is_own = context.release().as_deref().and_then(ReleaseRecords::deployed).is_some_and(|(_, r)| r.is_sealed());
    if is_own && marks.complete && *marks.owner == *primary.uid() {
        note_inputs(context, primary, version, context.recorded_inputs(primary)).await?;
    }
    Ok(Rendered::Done(Inputs::Same))
}

/// Reads the revision's record; returns `None` if it cannot be decoded, because then it proves nothing.
async fn read(context: &StepContext<'_>, primary: &Primary, version: u32) -> Result<Option<Release>, Failed> {
    if let Some(packed) = context.release().as_deref().and_then(|release| release.record(version)) {
        return Ok(packed.facts().unpack().ok());
    }
    match context.storage.get(primary.namespace(), primary.name(), version).await {
        Ok(record) => Ok(Some(record.release.facts().clone())),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(fault(&error.into())),
    }
}

/// Returns whether a record proves that it was made from the resource's chart and values.
pub(crate) fn is_made_from(context: &StepContext<'_>, primary: &Primary, record: &Release) -> bool {
    let sources = context.shared.renderer.sources(&context.effective_spec(primary), context.overrides_type(primary));
    let Some((chart, values)) = sources else { return false };
    let difference = record.differs_from(&chart, &values);
    match &difference {
        Ok(None) => {
            tracing::info!(resource = %context.key, revision = record.version, "The record has the same chart and values")
        }
        Ok(Some(what)) => {
            tracing::info!(resource = %context.key, revision = record.version, "Not proven equal to the record: {what}")
        }
        Err(error) => {
            tracing::info!(resource = %context.key, revision = record.version, %error, "Cannot read the recorded chart")
        }
    }
    matches!(difference, Ok(None))
}

/// Returns whether the manifest of a revision that a person created with helm is the output of the chart. The record
/// proves the values, but post-renderers may have changed the manifest without the resource requesting it. Revisions
/// that Helm created before the resource had the release stay as they were rendered.
async fn is_as_rendered(
    context: &StepContext<'_>,
    primary: &Primary,
    record: &Release,
) -> Result<Rendered<bool>, Failed> {
    if !had_release_before(context, primary, record.version).await? {
        return Ok(Rendered::Done(true));
    }
    let Ok(recorded) = objects_of(&record.manifest) else { return Ok(Rendered::Done(false)) };
    let mut renders = Vec::new();
    for _ in 0..2 {
        match context.candidate(primary, record.version).await? {
            Rendered::Done(candidate) => renders.push(candidate.objects),
            Rendered::Postponed => return Ok(Rendered::Postponed),
        }
    }
    Ok(Rendered::Done(is_alike(&recorded, [&renders[0], &renders[1]])))
}

/// Returns whether the resource had the release before Helm created this revision. The status may already name the
/// revision, and Helm removes our marks from the previous one. In that case the first existing object shows whether
/// this operator applied it for the resource.
async fn had_release_before(context: &StepContext<'_>, primary: &Primary, version: u32) -> Result<bool, Failed> {
    if deploy::made_with_helm(context, primary) == Some(version) {
        return Ok(true);
    }
    let release = context.release().unwrap_or_default();
    // Helm copies the label that names the resource from the revision before.
    let is_first = release.revisions.keys().next() == Some(&version);
    let names_us = |revision: &Revision| !is_first && revision.owners.iter().all(|owner| **owner == *primary.uid());
    let made_by_helm =
        |revision: &&Revision| !revision.is_sealed() && (revision.owners.is_empty() || names_us(revision));
    let Some(revision) = release.revisions.get(&version).filter(made_by_helm) else { return Ok(false) };
    let decoration = context.decoration(primary);
    for object in revision.marks.iter().flat_map(|marks| &marks.objects) {
        let live = context.applier.find_live(&object.key, &object.api_version).await.map_err(|e| fault(&e.into()))?;
        if let Some(live) = live {
            return Ok(decoration.ownership(&live) == Ownership::Ours && live.mark.is_some());
        }
    }
    Ok(false)
}

/// Gives a pending revision the current digest, so that its finished steps are not repeated.
pub(crate) fn mark_as_current(context: &StepContext<'_>, version: u32, marks: &Marks, inputs: &str) {
    let marks = Arc::new(Marks { inputs: inputs.to_owned(), ..marks.clone() });
    context.shared.cache.change_release(context.key, |release| {
        release.revisions.entry(version).and_modify(|revision| revision.marks = Some(marks));
    });
}
