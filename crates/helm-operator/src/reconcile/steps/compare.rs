//! Whether a recorded revision was made from the resource's chart and values when its digest cannot tell, because Helm, an upstream or another
//! version of this operator wrote it. If so, the revision stays as it was rendered, random values included, and only the digest is written.

use std::sync::Arc;

use helm_release::release::Release as Record;
use helm_release::storage::Marks;

use super::repair::{deployed, fault, note_inputs};
use crate::reconcile::context::{Next, Work};
use crate::reconcile::decide::state::Inputs;
use crate::reconcile::failure::Failed;
use crate::view::primary::Primary;
use crate::view::release::Release;

/// Compares the deployed revision's chart and values with the resource's, and records today's digest if they are equal.
pub(crate) async fn compare(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Failed> {
    let Some((version, marks)) = deployed(work) else { return Ok(Next::Done) };
    work.load_sources(primary).await?;
    work.judged = Some(Inputs::Changed);
    let Some(record) = read(work, primary, version).await? else { return Ok(Next::Again) };
    if is_made_from(work, primary, &record) {
        work.judged = Some(Inputs::Same);
        work.drop_source_values();
        // Otherwise taking ownership of the objects records it.
        let is_own = work.release().as_deref().and_then(Release::deployed).is_some_and(|(_, r)| r.is_sealed());
        if is_own && marks.complete && *marks.owner == *primary.uid() {
            note_inputs(work, primary, version, work.recorded_inputs(primary)).await?;
        }
    }
    Ok(Next::Again)
}

/// The revision's record; `None` if it cannot be decoded, since then it proves nothing.
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

/// Whether a record proves that it was made from the resource's chart and values.
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

/// Gives a pending revision today's digest, so that its finished steps are not repeated.
pub(crate) fn mark_as_current(work: &Work<'_>, version: u32, marks: &Marks, inputs: &str) {
    let marks = Arc::new(Marks { inputs: inputs.to_owned(), ..marks.clone() });
    work.shared.cache.change_release(work.key, |release| {
        release.revisions.entry(version).and_modify(|revision| revision.marks = Some(marks));
    });
}
