//! Renders the next revision, or takes it from an interrupted action that had rendered it.

use std::collections::BTreeSet;
use std::sync::Arc;

use helm_release::action::{self, Action, Begun, Candidate, Evidence, Imported, Sought};
use helm_release::kube::ObjectDigest;
use helm_release::release::{self, Hook};
use helm_release::storage::{self, Marks, Sealed, Stored};

use super::remediate::{Stage, clean_up};
use super::unproven::is_unproven;
use super::{causes, compare, repair, supersede};
use crate::reconcile::decide::beside::Beside;
use crate::reconcile::decide::inputs;
use crate::reconcile::decide::state::{Inputs, Recorded};
use crate::reconcile::failure::{Failed, FailedAttempt, Unanswered};
use crate::reconcile::learned::{Ended, FailedStep, Learned, NextStep, after};
use crate::reconcile::report::faults::taken_over;
use crate::reconcile::step_context::StepContext;
use crate::rendering::request::{RenderError, Rendered, Request};
use crate::status::reason::Reason;
use crate::status::{Fault, condition};
use crate::view::primary::Primary;
use crate::view::release::{ReleaseRecords, Trust};

/// Renders the next revision, and cleans up if that fails.
pub(crate) async fn render(context: &StepContext<'_>, primary: &Primary) -> Result<Ended, FailedStep> {
    let discovered = context.discovered(primary).await?;
    match context.render(primary).await {
        Ok(ended) => Ok(ended.with(discovered)),
        Err(FailedStep { failed: Failed::Attempt(attempt), learned }) => {
            let context = context.knowing(&learned);
            supersede::try_supersede(&context, primary).await;
            let failed = clean_up(&context, primary, attempt, Stage::Render).await;
            Err(FailedStep { failed, learned })
        }
        failed => failed,
    }
}

impl StepContext<'_> {
    async fn render(&self, primary: &Primary) -> Result<Ended, FailedStep> {
        // A record elsewhere that is older than what the status reports was imported before.
        if self.recorded(primary) == Recorded::Lost && self.import(primary, primary.reported()).await? {
            return Ok(NextStep::Again.into());
        }
        if self.recorded(primary) == Recorded::None && self.is_taken_over_beside(primary).await? {
            return Err(Failed::from(taken_over(primary)).into());
        }
        let sources = self.load_sources(primary).await?;
        let rendered = self.knowing([&sources]).render_loaded(primary).await;
        after(vec![sources.without_values()], rendered)
    }

    /// Renders with the loaded sources. A postponed render changes nothing.
    async fn render_loaded(&self, primary: &Primary) -> Result<Ended, Failed> {
        let release = self.release();
        let newest = release.as_deref().and_then(ReleaseRecords::newest).map(|(v, _)| v);
        let deployed =
            release.as_deref().and_then(ReleaseRecords::deployed).map(|(v, r)| (v, r.marks.clone(), r.is_sealed()));
        // A later action may have changed the objects, no matter what the deployed revision says about them.
        if let Some((revision, Some(marks), is_own)) = &deployed
            && newest == Some(*revision)
        {
            // Rendered with the deployed revision's number, so that a chart that prints its revision counts as
            // unchanged.
            let Rendered::Done(candidate) = self.next_candidate(primary, *revision).await? else {
                return Ok(self.postpone());
            };
            if is_same(&candidate, marks, primary.namespace())
                && self.has_same_hooks(primary, *revision, &candidate).await?
            {
                self.replace_crds(primary, &candidate, marks).await?;
                let unchecked = if *is_own && marks.complete && *marks.owner == *primary.uid() {
                    repair::note_inputs(self, primary, *revision, candidate.inputs).await?;
                    None
                } else {
                    Some(Arc::new(candidate))
                };
                return Ok(NextStep::Again.with([Learned::RenderedSame(unchecked)]));
            }
        }
        match self.unfinished(primary).await? {
            Unfinished::None => {}
            Unfinished::Ended => return Ok(NextStep::Anew.into()),
            Unfinished::Candidate(candidate) => return Ok(NextStep::Again.with([Learned::RenderedOther(candidate)])),
        }
        let next = self.current(primary).map_or(1, |current| current.next_version(&self.recorded_inputs(primary)));
        match self.next_candidate(primary, next).await? {
            Rendered::Done(candidate) => Ok(NextStep::Again.with([Learned::RenderedOther(Arc::new(candidate))])),
            Rendered::Postponed => Ok(self.postpone()),
        }
    }

    /// Returns whether a revision's record has the candidate's hooks, because an uninstall and a rollback run those in
    /// the record. The hooks of an unproven record never run, so they do not count.
    async fn has_same_hooks(&self, primary: &Primary, revision: u32, candidate: &Candidate) -> Result<bool, Failed> {
        match self.stored(primary, revision).await {
            Ok(Stored::Sealed(release)) => Ok(texts(&release.into_inner().hooks) == texts(&candidate.hooks)),
            Ok(Stored::Unproven(_)) => Ok(true),
            Err(error) if error.is_damage() => Ok(true),
            Err(error) => Err(fault_of(&error.into())),
        }
    }

    /// Imports a release that is recorded elsewhere, in a revision that is not older than `at_least`; returns whether
    /// there was one. Otherwise, a release that only the status names would be installed again, or uninstalled without
    /// its hooks.
    pub(super) async fn import(&self, primary: &Primary, at_least: u32) -> Result<bool, Failed> {
        let env = self.environment(primary, Action::Upgrade);
        let begun = if self.beside(primary) == Beside::AtWork { Begun::Continued } else { Begun::Doubtful };
        let status = &primary.status;
        let evidence = match status.deployed_release.is_some() || status.is_uninstalling() {
            true => Evidence::Unneeded,
            // Its hooks may have run.
            false if primary.deleting => Evidence::Needed,
            false => Evidence::IfAny,
        };
        let sought = Sought { at_least, begun, evidence };
        let imported = action::import(&env, sought).await.map_err(|e| unimported(primary, &e))?;
        let Some(Imported { version, status, packed, resource_version, mut marks }) = imported else {
            return Ok(false);
        };
        if !packed.is_sealed() {
            marks.string_overrides |= self.finds_strings(primary, packed.facts());
        }
        tracing::info!(resource = %self.key, version, "Imported a release that was recorded elsewhere");
        self.shared.cache.change_release(self.key, |release| {
            let trust = if packed.is_sealed() { Trust::Written(Some(packed.content())) } else { Trust::Foreign };
            release.put(version, (status, trust), resource_version, marks);
            release.packed = Some((version, packed));
        });
        // It may have to wait for its turn now.
        self.note_part(primary, None);
        Ok(true)
    }

    /// Returns whether another resource took the release over from this one, by records from before they moved. The status
    /// of a former owner names no release any more.
    pub(super) async fn is_taken_over_beside(&self, primary: &Primary) -> Result<bool, Failed> {
        // A new resource has had none.
        if primary.status.conditions.is_empty() {
            return Ok(false);
        }
        let is_known = primary.status.is_taken_over();
        match self.storage.is_taken_over_beside(primary.namespace(), primary.name(), primary.uid()).await {
            // A deletion does not wait for the right to look there, and leaves objects that may belong to a successor.
            Err(storage::Error::Forbidden { .. }) if primary.deleting => Ok(primary.status.is_refused()),
            // Without the right, the operator hardly wrote there.
            Err(storage::Error::Forbidden { .. }) if !is_known => Ok(false),
            Err(error) if is_known => Err(still_refused(fault_of(&error.into()))),
            found => found.map_err(|e| fault_of(&e.into())),
        }
    }

    /// Replaces the chart's custom resource definitions even if no object changed, if that is the policy.
    async fn replace_crds(&self, primary: &Primary, candidate: &Candidate, marks: &Marks) -> Result<(), Failed> {
        let env = self.environment(primary, Action::Upgrade);
        action::replace_crds(&env, candidate, marks).await.map_err(|e| fault_of(&e))
    }

    /// Returns the candidate of our own interrupted action on the same inputs, as it was rendered then, including
    /// random values.
    async fn unfinished(&self, primary: &Primary) -> Result<Unfinished, Failed> {
        let release = self.release();
        let unfinished = release.as_deref().and_then(ReleaseRecords::unfinished);
        let Some((version, marks)) = unfinished.and_then(|(v, r)| Some((v, r.marks.clone()?))) else {
            return Ok(Unfinished::None);
        };
        let inputs = match self.differs_by_chance(&marks.inputs, primary) {
            true => marks.inputs.clone(),
            false => self.recorded_inputs(primary),
        };
        let judged = inputs::judge(Some(&marks.inputs), &inputs);
        let may_be_same = judged != Inputs::Changed || causes::may_be_equal(&marks.inputs, &inputs);
        if !may_be_same || *marks.owner != *primary.uid() {
            return Ok(Unfinished::None);
        }
        let record = match self.own_record(primary, version).await? {
            Own::Record(record) => record,
            Own::Unusable => return Ok(Unfinished::None),
            Own::Gone => {
                self.shared.cache.lose_revision(self.key, version);
                return Ok(Unfinished::Ended);
            }
        };
        if judged != Inputs::Same && !compare::is_made_from(self, primary, record.get()) {
            return Ok(Unfinished::None);
        }
        if !record.get().info.status.is_pending() && self.note_end(primary, version).await? {
            return Ok(Unfinished::Ended);
        }
        if marks.inputs != inputs {
            compare::mark_as_current(self, version, &marks, &inputs);
        }
        let candidate = Candidate::recorded(*record, &inputs, &marks).ok();
        Ok(candidate.map_or(Unfinished::None, |candidate| Unfinished::Candidate(Arc::new(candidate))))
    }

    /// Reads a revision's record.
    async fn own_record(&self, primary: &Primary, version: u32) -> Result<Own, Failed> {
        match self.storage.get(primary.namespace(), primary.name(), version).await {
            Err(storage::Error::Codec { .. } | storage::Error::Incomplete { .. }) => Ok(Own::Unusable),
            Err(error) if error.is_missing() => Ok(Own::Gone),
            record => {
                let record = record.map_err(|e| fault_of(&e.into()))?.release.sealed();
                Ok(record.map_or(Own::Unusable, |record| Own::Record(Box::new(record))))
            }
        }
    }

    /// Checks whether the action on a pending revision has ended, because the response to its last write was lost and
    /// the watch is late. Repeating the action would run its hooks again. Returns whether it had ended, and stores its
    /// end.
    pub(super) async fn note_end(&self, primary: &Primary, version: u32) -> Result<bool, Failed> {
        self.read_end(primary, version).await.map_err(|e| fault_of(&e.into()))
    }

    /// Stores how the action on a pending revision has ended, if it has. Returns whether it has.
    pub(super) async fn read_end(&self, primary: &Primary, version: u32) -> Result<bool, storage::Error> {
        let history = self.storage.history(primary.namespace(), primary.name()).await?;
        let ended = history.into_iter().find(|meta| meta.version == version && !meta.status.is_pending());
        let Some(ended) = ended else { return Ok(false) };
        let process = self.shared.cache.writer();
        self.shared.cache.change_release(self.key, |release| release.put_read(ended, &process));
        Ok(true)
    }

    /// Renders what may replace the deployed revision, with the kinds of its objects in sight.
    async fn next_candidate(&self, primary: &Primary, revision: u32) -> Result<Rendered, Failed> {
        self.find_hidden_kinds().await?;
        let rendered = self.candidate(primary, revision).await;
        // The render may have been the first to read that a server does not answer.
        self.check_hidden_kinds()?;
        rendered
    }

    /// Renders a revision, and lets post-renderers change it.
    ///
    /// # Errors
    /// It does not render. The message is redacted here, where the sources are known: a chart may quote them whole.
    pub(crate) async fn candidate(&self, primary: &Primary, revision: u32) -> Result<Rendered, Failed> {
        match self.unredacted_candidate(primary, revision).await {
            Err(failed) => {
                let fault = self.redacted(primary, failed.fault().clone()).await;
                Err(failed.reported_as(fault))
            }
            rendered => rendered,
        }
    }

    async fn unredacted_candidate(&self, primary: &Primary, revision: u32) -> Result<Rendered, Failed> {
        helm::release_name::check(primary.name())
            .map_err(|e| FailedAttempt::rendering(Reason::InvalidName, e.to_string()))?;
        let candidate = match self.rendered(primary, revision).await {
            Ok(Rendered::Done(candidate)) => candidate,
            Ok(Rendered::Postponed) => return Ok(Rendered::Postponed),
            Err(error) => return Err(self.slowed(error.into())),
        };
        self.note_unread(primary, &candidate.unread);
        let candidate = self.decorated(primary, candidate).await?;
        let unique = action::deduplicated(&self.applier, &self.decoration(primary), candidate).await;
        let candidate = unique.map_err(|e| Unanswered::request(&e))?;
        let candidate = self.ordered(candidate)?;
        // The status shows the notes.
        let parts = (&*candidate.objects, &*candidate.hooks);
        let notes = self.hide_notes(primary, candidate.notes.clone(), parts).await;
        Ok(Rendered::Done(Candidate { notes, ..candidate }))
    }

    /// Renders a revision, and again if the kinds that the cluster serves are an input and were found to have changed:
    /// the candidate must not name other kinds among its inputs than it was rendered with.
    async fn rendered(&self, primary: &Primary, revision: u32) -> Result<Rendered, RenderError> {
        let kinds = self.capabilities();
        let rendered = self.shared.renderer.render(self.request(primary, revision)).await;
        match rendered {
            Ok(Rendered::Done(_)) if self.capabilities() != kinds => {
                self.shared.renderer.render(self.request(primary, revision)).await
            }
            rendered => rendered,
        }
    }

    pub(crate) fn request(&self, primary: &Primary, revision: u32) -> Request {
        Request {
            name: primary.name().into(),
            namespace: primary.namespace().into(),
            spec: self.effective_spec(primary),
            overrides_type: self.overrides_type(primary),
            revision,
            inputs: self.recorded_inputs(primary),
            priority: self.priority,
        }
    }

    /// Records that a render hit a limit. It may delay others, no matter who is responsible.
    fn slowed(&self, failed: Failed) -> Failed {
        if failed.fault().reason == Reason::RenderLimit {
            self.shared.memory.change(self.key, |memory| memory.is_slow = true);
        }
        failed
    }
}

/// The rest of our own interrupted action.
enum Unfinished {
    /// Nothing that can be continued.
    None,
    /// Nothing, because the action had ended.
    Ended,
    Candidate(Arc<Candidate>),
}

/// The record of a revision that this process is about to continue.
enum Own {
    Record(Box<Sealed<release::Release>>),
    /// The record can never be decoded, or this operator did not write it: neither is continued.
    Unusable,
    /// Someone deleted the record while the action ran. The watch reported that before the failure was recorded, and
    /// will not report it again.
    Gone,
}

/// Classifies a failure of what a render reads and writes other than its chart.
fn fault_of(error: &action::Error) -> Failed {
    Failed::of_attempt(error, condition::IRRECONCILABLE, Reason::ReconcileError)
}

/// Reports a failure to find out whose the release is with the reason of the refusal, which the next attempt must find in
/// the status again.
fn still_refused(failed: Failed) -> Failed {
    let fault = Fault { reason: Reason::ReleaseConflict, ..failed.fault().clone() };
    failed.reported_as(fault)
}

/// Describes why a release that is recorded elsewhere cannot be imported, and what to do about a damaged record.
fn unimported(primary: &Primary, error: &action::Error) -> Failed {
    if error.is_taken_over() {
        return taken_over(primary).into();
    }
    if let action::Error::Storage(storage::Error::InFlight { .. }) = error {
        return Unanswered::with_reason(Reason::ReleaseInFlight, error.to_string()).into();
    }
    let failed = fault_of(error);
    if !is_unproven(error) {
        return failed;
    }
    let then = match primary.deleting {
        true => "uninstalled without its hooks",
        false => "installed again over its objects, with new generated values",
    };
    let mut fault = failed.fault().clone();
    fault.message.push_str(&format!(
        "; restore the Secrets sh.helm.release.v1.{}.v* in namespace {:?}, or delete them: then the release is {then}",
        primary.name(),
        primary.namespace()
    ));
    failed.reported_as(fault)
}

/// Returns the texts of hooks as a set, without the results of their last run.
fn texts(hooks: &[Hook]) -> BTreeSet<(&str, &str)> {
    hooks.iter().map(|hook| (&*hook.path, &*hook.manifest)).collect()
}

/// Returns whether a candidate has exactly the objects in the marks, in any order, and they name their owner in the
/// same way.
fn is_same(candidate: &Candidate, marks: &Marks, namespace: &str) -> bool {
    let mut new: Vec<(&str, &str, &str, Option<ObjectDigest>)> = candidate
        .objects
        .iter()
        .map(|o| (o.api_version.as_str(), o.kind.as_str(), o.name.as_str(), Some(o.digest(namespace))))
        .collect();
    let mut old: Vec<(&str, &str, &str, Option<ObjectDigest>)> =
        marks.objects.iter().map(|o| (&*o.api_version, &*o.key.kind, &*o.key.name, o.digest)).collect();
    new.sort();
    old.sort();
    new == old && candidate.tie() == marks.tie()
}
