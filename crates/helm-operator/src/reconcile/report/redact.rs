//! Redacts values in a reconcile's messages: the user's and the operator's, those in Secrets, and those that the chart
//! renders into Secrets. If it cannot find out what to redact, it hides whole messages.
//!
//! Runs only after a failure, so it may read records once more.

use std::error::Error as _;

use controller::report::chain;
use go_encoding::json;
use go_template::Value;
use helm_release::action::Candidate;
use helm_release::kube::{self, Object, objects_of};
use helm_release::release::{self, Hook, Packed};
use helm_release::storage;

use crate::mask::Mask;
use crate::reconcile::step_context::StepContext;
use crate::status::Fault;
use crate::values::Spec;
use crate::view::primary::Primary;
use crate::view::release::Release;

impl StepContext<'_> {
    pub(crate) async fn redacted(&self, primary: &Primary, fault: Fault) -> Fault {
        let message = self.redactions(primary).await.hide_apart(fault.message).await;
        Fault { message, ..fault }
    }

    /// Describes why the server refused to write the resource itself, which may quote its `spec`.
    pub(crate) async fn refusal(&self, primary: &Primary, error: &kube::Error) -> String {
        // What did not answer quotes nothing, and would not answer a read of the record either.
        if error.is_unanswered() {
            return chain(error);
        }
        self.redactions(primary).await.hide_apart(chain(error)).await
    }

    /// Returns what to redact in messages: the values of the resource, of every revision that may have live objects,
    /// and of the candidate for the next one, even if that failed.
    pub(crate) async fn redactions(&self, primary: &Primary) -> Mask {
        let mut mask = self.base_mask(primary);
        match self.spec(primary).await {
            Some(spec) => add_spec(&mut mask, &spec),
            None => mask.hide_all(""),
        }
        let effective = self.effective_spec(primary);
        if effective.digest() != primary.spec.digest() {
            add_spec(&mut mask, &effective);
        }
        for candidate in [&self.found.candidate, &self.found.rendered].into_iter().flatten() {
            add_candidate(&mut mask, candidate);
        }
        // A rollback applies an older revision as the newest one, which is recorded before the first object is applied.
        let release = self.release().unwrap_or_default();
        for (version, _) in release.live() {
            self.add_revision(&mut mask, primary, &release, version).await;
        }
        mask
    }

    /// Adds the values of a revision, from memory if they are there. Nothing is applied from a record that is damaged
    /// or gone.
    async fn add_revision(&self, mask: &mut Mask, primary: &Primary, release: &Release, version: u32) {
        if let Some(packed) = release.record(version) {
            return add_packed(mask, packed.facts());
        }
        match self.shared.storage.get(primary.namespace(), primary.name(), version).await {
            Ok(record) => add_record(mask, record.release.facts()),
            Err(error) if error.is_damage() || error.is_missing() => {}
            Err(error) => mask.hide_all(&why(&error)),
        }
    }

    /// Redacts notes of a chart with these objects and hooks. They may contain the values that users configured, which
    /// the resource next to the status shows anyway.
    pub(crate) async fn hide_notes(
        &self,
        primary: &Primary,
        notes: String,
        (objects, hooks): (&[Object], &[Hook]),
    ) -> String {
        let mut mask = self.base_mask(primary);
        mask.add_objects(objects);
        mask.add_hooks(hooks);
        mask.hide_apart(notes).await
    }

    /// Returns the notes in a record, redacted; `None` if it is unknown what to redact. Helm may have rendered them.
    pub(crate) async fn recorded_notes(&self, primary: &Primary, record: &release::Release) -> Option<String> {
        if record.info.notes.is_empty() {
            return Some(String::new());
        }
        let objects = objects_of(&record.manifest).ok()?;
        let primary = primary.with_spec(self.spec(primary).await?);
        let sources = self.load_sources(&primary).await.ok()?;
        let notes = record.info.notes.clone();
        Some(self.knowing([&sources]).hide_notes(&primary, notes, (&objects, &record.hooks)).await)
    }

    /// Returns a mask of the sources' Secrets and the override values, which keeps the names of the release and what
    /// the chart publishes.
    fn base_mask(&self, primary: &Primary) -> Mask {
        let mut mask = self.secrets_and_overrides();
        mask.keep([primary.name(), primary.namespace(), &primary.kind, self.shared.renderer.chart_name()]);
        self.shared.renderer.published().into_iter().for_each(|published| mask.keep_published(published));
        mask
    }
}

/// Describes why a record cannot be read, without the cause of the cause: a parser may quote the record.
fn why(error: &storage::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

pub(crate) fn add_candidate(mask: &mut Mask, candidate: &Candidate) {
    mask.add_values(&candidate.config);
    mask.add_objects(&candidate.objects);
    mask.add_hooks(&candidate.hooks);
}

/// Adds the values of a record in memory.
pub(crate) fn add_packed(mask: &mut Mask, packed: &Packed) {
    match packed.unpack() {
        Ok(record) => add_record(mask, &record),
        Err(_) => mask.hide_all(""),
    }
}

fn add_record(mask: &mut Mask, record: &release::Release) {
    mask.add_values(&record.config);
    mask.add_objects(&objects_of(&record.manifest).unwrap_or_default());
    mask.add_hooks(&record.hooks);
}

/// Adds the values of a `spec`. One that cannot be read has none to quote.
fn add_spec(mask: &mut Mask, spec: &Spec) {
    if let Ok(values) = spec.values() {
        mask.add_values(&json::to_serde(&Value::Map(values)));
    }
}
