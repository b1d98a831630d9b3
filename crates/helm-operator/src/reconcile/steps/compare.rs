//! Checks whether a recorded revision was made from the resource's chart and values if its digest cannot show it,
//! because Helm, an upstream operator or another version of this operator wrote it. If it was, the revision stays as it
//! was rendered, including random values, and only the digest is written.

use std::sync::Arc;

use helm_release::kube::{Ownership, objects_of};
use helm_release::release::Release as Record;
use helm_release::storage::Marks;

use super::deploy;
use super::repair::{deployed, fault, note_inputs};
use crate::reconcile::context::{Next, Work};
use crate::reconcile::decide::alike::is_alike;
use crate::reconcile::decide::state::Inputs;
use crate::reconcile::failure::Failed;
use crate::rendering::request::Rendered;
use crate::view::primary::Primary;
use crate::view::release::{Release, Revision, Trust};

/// Compares the deployed revision's chart and values with the resource's, and records the current digest if they are
/// equal.
pub(crate) async fn compare(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Failed> {
    let Some((version, marks)) = deployed(work) else { return Ok(Next::Done) };
    work.load_sources(primary).await?;
    work.judged = Some(Inputs::Changed);
    let Some(record) = read(work, primary, version).await? else { return Ok(Next::Again) };
    let is_same = match is_made_from(work, primary, &record) {
        true => is_as_rendered(work, primary, &record).await?,
        false => Rendered::Done(false),
    };
    let Rendered::Done(is_same) = is_same else {
        work.judged = None;
        return Ok(work.postpone());
    };
    if is_same {
        work.judged = Some(Inputs::Same);
        work.drop_source_values();
        // Otherwise it is recorded when ownership of the objects is taken.
        let is_own = work.release().as_deref().and_then(Release::deployed).is_some_and(|(_, r)| r.is_sealed());
        if is_own && marks.complete && *marks.owner == *primary.uid() {
            note_inputs(work, primary, version, work.recorded_inputs(primary)).await?;
        }
    }
    Ok(Next::Again)
}

/// Reads the revision's record; returns `None` if it cannot be decoded, because then it proves nothing.
async fn read(work: &Work<'_>, primary: &Primary, version: u32) -> Result<Option<Record>, Failed> {
    let packed = work.release().and_then(|release| release.packed.clone()).filter(|(known, _)| *known == version);
    if let Some((_, packed)) = packed {
        return Ok(packed.facts().unpack().ok());
    }
    match work.shared.storage.get(primary.namespace(), primary.name(), version).await {
        Ok(record) => Ok(Some(record.release.facts().clone())),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(fault(&error.into())),
    }
}

/// Returns whether a record proves that it was made from the resource's chart and values.
pub(crate) fn is_made_from(work: &Work<'_>, primary: &Primary, record: &Record) -> bool {
    let sources = work.shared.renderer.sources(&work.effective_spec(primary), work.overrides_type());
    let Some((chart, values)) = sources else { return false };
    let difference = record.differs_from(&chart, &values);
    match &difference {
        Ok(None) => {
            tracing::info!(resource = %work.key, revision = record.version, "The record has the same chart and values")
        }
        Ok(Some(what)) => {
            tracing::info!(resource = %work.key, revision = record.version, "Not proven equal to the record: {what}")
        }
        Err(error) => {
            tracing::info!(resource = %work.key, revision = record.version, %error, "Cannot read the recorded chart")
        }
    }
    matches!(difference, Ok(None))
}

/// Returns whether the manifest of a revision that a person created with helm is the output of the chart. The record
/// proves the values, but post-renderers may have changed the manifest without the resource requesting it. Revisions
/// that Helm created before the resource had the release stay as they were rendered.
async fn is_as_rendered(work: &mut Work<'_>, primary: &Primary, record: &Record) -> Result<Rendered<bool>, Failed> {
    if !had_release_before(work, primary, record.version).await? {
        return Ok(Rendered::Done(true));
    }
    let Ok(recorded) = objects_of(&record.manifest) else { return Ok(Rendered::Done(false)) };
    let mut renders = Vec::new();
    for _ in 0..2 {
        match work.candidate(primary, record.version).await? {
            Rendered::Done(candidate) => renders.push(candidate.objects),
            Rendered::Postponed => return Ok(Rendered::Postponed),
        }
    }
    Ok(Rendered::Done(is_alike(&recorded, [&renders[0], &renders[1]])))
}

/// Returns whether the resource had the release before Helm created this revision. The status may already name the
/// revision, and Helm removes our marks from the previous one. In that case the first existing object shows whether
/// this operator applied it for the resource.
async fn had_release_before(work: &Work<'_>, primary: &Primary, version: u32) -> Result<bool, Failed> {
    if deploy::made_with_helm(work, primary) == Some(version) {
        return Ok(true);
    }
    let release = work.release().unwrap_or_default();
    let made_by_helm = |revision: &&Revision| revision.trust == Trust::Foreign && revision.owners.is_empty();
    let Some(revision) = release.revisions.get(&version).filter(made_by_helm) else { return Ok(false) };
    let decoration = work.decoration(primary);
    for object in revision.marks.iter().flat_map(|marks| &marks.objects) {
        let live = work.applier.find_live(&object.key, &object.api_version).await.map_err(|e| fault(&e.into()))?;
        if let Some(live) = live {
            return Ok(decoration.ownership(&live) == Ownership::Ours && live.mark.is_some());
        }
    }
    Ok(false)
}

/// Gives a pending revision the current digest, so that its finished steps are not repeated.
pub(crate) fn mark_as_current(work: &Work<'_>, version: u32, marks: &Marks, inputs: &str) {
    let marks = Arc::new(Marks { inputs: inputs.to_owned(), ..marks.clone() });
    work.shared.cache.change_release(work.key, |release| {
        release.revisions.entry(version).and_modify(|revision| revision.marks = Some(marks));
    });
}
