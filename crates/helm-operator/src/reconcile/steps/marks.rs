//! Writes the marks of the deployed revision: what a repair or a takeover has applied, and which Jobs it is about to delete.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use helm_release::action::{self, Admitted, Environment};
use helm_release::kube::{Applied, ApplyMethod, DeletionError, Deletions, ObjectKey, intern};
use helm_release::storage::{MarkedObject, Marks, Stored, Written};
use outside::sync::lock;

use crate::reconcile::step_context::{StepContext, finished_for_former};
use crate::view::primary::Primary;
use crate::view::release::Trust;

/// Writes new marks if applying did not restore the old ones, because the server's defaults or the kind's schema
/// changed.
pub(super) async fn update_marks(
    context: &StepContext<'_>,
    primary: &Primary,
    version: u32,
    marks: &Marks,
    applied: &[Applied],
) -> Result<(), action::Error> {
    let mut new = with_applied(&in_served_scopes(marks, applied), applied);
    let is_applied = |object: &&mut MarkedObject| applied.iter().any(|one| one.key == object.key);
    new.objects.iter_mut().filter(is_applied).for_each(|object| object.deleted = false);
    write_if_new(context, primary, version, (marks, new)).await
}

/// Notes in a revision's marks which of these objects are Jobs that its takeover had deleted: once they finish, the
/// next try does not run them again. The rest of the takeover may fail for long.
pub(super) async fn note_made_again(
    context: &StepContext<'_>,
    primary: &Primary,
    (version, marks): (u32, &Marks),
    applied: &[Applied],
) -> Result<(), action::Error> {
    let was_deleted = |one: &&Applied| marks.find(&one.key).is_some_and(|known| known.deleted);
    let made_again: Vec<Applied> = applied.iter().filter(was_deleted).cloned().collect();
    if made_again.is_empty() {
        return Ok(());
    }
    let new = Marks { noted_for: intern(primary.uid()), ..with_applied(marks, &made_again) };
    write_if_new(context, primary, version, (marks, new)).await
}

/// Returns marks with the keys under which these objects were applied. Objects from when their kinds were served in
/// other scopes are gone.
fn in_served_scopes(marks: &Marks, applied: &[Applied]) -> Marks {
    let is_gone = |known: &MarkedObject| applied.iter().any(|one| one.key.is_in_other_scope(&known.key));
    if !marks.objects.iter().any(is_gone) {
        return marks.clone();
    }
    let made = |one: &Applied| {
        let former = marks.find_in_any_scope(&one.key).filter(|known| known.key != one.key)?;
        Some(MarkedObject { turn: former.turn, ..MarkedObject::from(one) })
    };
    let stay = marks.objects.iter().filter(|known| !is_gone(known)).cloned();
    Marks { objects: stay.chain(applied.iter().filter_map(made)).collect(), ..marks.clone() }
}

/// Returns marks with what is known of these objects since they were applied.
fn with_applied(marks: &Marks, applied: &[Applied]) -> Marks {
    let mut new = marks.clone();
    for object in &mut new.objects {
        if let Some(one) = applied.iter().find(|one| one.key == object.key) {
            (object.mark, object.client) = (one.live.mark, one.method != ApplyMethod::Server);
            object.expires = one.expires;
        }
    }
    new
}

async fn write_if_new(
    context: &StepContext<'_>,
    primary: &Primary,
    version: u32,
    (old, new): (&Marks, Marks),
) -> Result<(), action::Error> {
    if new == *old { Ok(()) } else { write_marks(context, primary, version, new).await }
}

/// The deletions of Jobs that a repair or a takeover recreates, noted in the marks of the deployed revision before they
/// are sent. Otherwise, a Job that was deleted and not yet created would count as finished after a restart.
pub(super) struct RepairDeletions<'a> {
    context: &'a StepContext<'a>,
    primary: &'a Primary,
    version: u32,
    /// The marks as written last.
    marks: Mutex<Arc<Marks>>,
    /// The release that is taken over.
    taken: Option<(&'a Environment<'a>, &'a Admitted)>,
}

impl<'a> RepairDeletions<'a> {
    /// Creates an empty list. `marks` are those of the revision.
    pub(super) fn new(
        context: &'a StepContext<'a>,
        primary: &'a Primary,
        version: u32,
        marks: &Arc<Marks>,
    ) -> RepairDeletions<'a> {
        RepairDeletions { context, primary, version, marks: Mutex::new(marks.clone()), taken: None }
    }

    /// Lets the first note of a takeover seal the record of this release, if the operator did not write it. Without a seal,
    /// the next process would not believe the note.
    pub(super) fn sealing(self, env: &'a Environment<'a>, admitted: &'a Admitted) -> RepairDeletions<'a> {
        RepairDeletions { taken: Some((env, admitted)), ..self }
    }

    /// Returns the revision's marks, with the deletions.
    pub(super) fn marks(&self) -> Arc<Marks> {
        lock(&self.marks).clone()
    }

    /// Notes the Jobs that were deleted with another resource, if nothing is left of its release. First checks that the
    /// release may be taken over: the note must not outlast a takeover that is refused because an object belongs to
    /// someone else. If the takeover is refused later, the note means nothing to the other resource, which may still
    /// exist.
    pub(super) async fn note_jobs_of_former(
        &self,
        env: &Environment<'_>,
        admitted: &Admitted,
    ) -> Result<(), action::Error> {
        let (marks, release) = (self.marks(), self.context.release().unwrap_or_default());
        let jobs = finished_for_former(&release, &marks, &self.primary.owner());
        let Some(noted) = action::expect_jobs_of_former(env, &marks, &jobs).await? else { return Ok(()) };
        action::check_takeover(env, admitted).await?;
        self.write(noted.noted_for_taker(&jobs, self.primary.uid())).await
    }

    async fn note(&self, objects: &[ObjectKey]) -> Result<(), action::Error> {
        let marks = self.marks();
        match marks.with_deleted(&marks.expiring(objects)) {
            Some(noted) => self.write(noted).await,
            None => Ok(()),
        }
    }

    async fn write(&self, mut noted: Marks) -> Result<(), action::Error> {
        match self.taken.filter(|_| !self.is_sealed()) {
            Some((env, admitted)) => {
                // The takeover has yet to end.
                noted.complete = false;
                self.context.note_replacement();
                let written = action::record_ownership(env, admitted, &noted).await?;
                keep_written(self.context, self.version, noted.clone(), written);
            }
            None => write_marks(self.context, self.primary, self.version, noted.clone()).await?,
        }
        *lock(&self.marks) = Arc::new(noted);
        Ok(())
    }

    /// Returns whether marks can be written for the record as it is, because this operator wrote it.
    fn is_sealed(&self) -> bool {
        let release = self.context.release().unwrap_or_default();
        release.revisions.get(&self.version).is_some_and(|revision| revision.body(self.version).is_some())
    }
}

impl Deletions for RepairDeletions<'_> {
    fn record<'a>(&'a self, objects: &'a [ObjectKey]) -> BoxFuture<'a, Result<(), DeletionError>> {
        Box::pin(async move { Ok(self.note(objects).await?) })
    }
}

/// Writes the marks of a revision that this operator recorded. The marks of other revisions are only kept in memory.
pub(super) async fn write_marks(
    context: &StepContext<'_>,
    primary: &Primary,
    version: u32,
    marks: Marks,
) -> Result<(), action::Error> {
    let release = context.release();
    let revision = release.as_ref().and_then(|release| release.revisions.get(&version));
    let body = revision.and_then(|revision| revision.body(version));
    let written = match (revision, body) {
        (Some(revision), Some(body)) => {
            let of = (primary.namespace(), primary.name());
            Some(context.storage.mark(of, &body, &marks, &revision.unchanged()).await?)
        }
        _ => None,
    };
    context.shared.cache.change_release(context.key, |release| {
        if let Some(revision) = release.revisions.get_mut(&version) {
            revision.marks = Some(Arc::new(marks));
            if let (Some(written), Some(body)) = (written, body) {
                revision.trust = Trust::Written(Some(body.content));
                revision.rewritten(written);
            }
        }
    });
    Ok(())
}

/// Stores a record that this process has written.
pub(super) fn keep_written(context: &StepContext<'_>, version: u32, marks: Marks, written: Written) {
    context.shared.cache.change_release(context.key, |release| {
        if let Some(revision) = release.revisions.get_mut(&version) {
            revision.marks = Some(Arc::new(marks));
            revision.trust = Trust::Written(Some(written.packed.content()));
            revision.rewritten(written.resource_version);
        }
        release.packed = Some((version, Stored::Sealed(written.packed)));
    });
}
