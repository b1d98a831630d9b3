//! Redacts values in a reconcile's messages: the user's and the operator's, those in Secrets, and those that the chart
//! renders into Secrets. If it cannot find out what to redact, it hides whole messages.
//!
//! Runs only after a failure, so it may read records once more.

use std::error::Error as _;

use controller::report::chain;
use go_encoding::json;
use helm_release::kube::{self, Object, objects_of};
use helm_release::release::{self, Hook, Packed};
use helm_release::storage;
use serde_json::Value;

use crate::mask::Mask;
use crate::reconcile::decide::inputs;
use crate::reconcile::decide::quotations::Quotations;
use crate::reconcile::step_context::StepContext;
use crate::status::Fault;
use crate::values::Spec;
use crate::view::primary::Primary;

impl StepContext<'_> {
    pub(crate) async fn redacted(&self, primary: &Primary, fault: Fault) -> Fault {
        let message = self.redactions(primary).await.hide_apart(fault.message).await;
        Fault { message, ..fault }
    }

    /// Describes why the server refused to write the resource itself, which may quote its `spec`.
    pub(crate) async fn refusal(&self, primary: &Primary, error: &kube::Error) -> String {
        // Without a response there is nothing to redact, and a read of the record would get none either.
        if error.is_unanswered() {
            return chain(error);
        }
        self.redactions(primary).await.hide_apart(chain(error)).await
    }

    /// Returns what to redact in messages: the values of the resource, of every revision that may have live objects,
    /// and of the candidate for the next one, even if that failed.
    pub(crate) async fn redactions(&self, primary: &Primary) -> Mask {
        let mut mask = self.base_mask(primary);
        let own = self.own_values(primary).await;
        match &own.spec {
            Some(spec) => mask.add_values(spec),
            None => mask.hide_all(""),
        }
        let effective = self.effective_spec(primary);
        if effective.digest() != primary.spec.digest() {
            own.add_config(&mut mask, &values_of(&effective), "");
        }
        for candidate in [&self.found.candidate, &self.found.rendered].into_iter().flatten() {
            own.add_config(&mut mask, &candidate.config, &candidate.inputs);
            mask.add_objects(&candidate.objects);
            mask.add_hooks(&candidate.hooks);
        }
        // A rollback applies an older revision as the newest one, which is recorded before the first object is applied.
        let release = self.release().unwrap_or_default();
        for (version, revision) in release.live() {
            let inputs = revision.marks.as_ref().map_or("", |marks| &marks.inputs);
            if let Some(packed) = release.record(version) {
                own.add_packed(&mut mask, packed.facts(), inputs);
                continue;
            }
            match self.shared.storage.get(primary.namespace(), primary.name(), version).await {
                Ok(record) => own.add_record(&mut mask, record.release.facts(), inputs),
                // Nothing is applied from it.
                Err(error) if error.is_damage() || error.is_missing() => {}
                Err(error) => mask.hide_all(&why(&error)),
            }
        }
        mask
    }

    /// Redacts these texts of other programs, unless they are known. If it is unknown what to redact, hides all of
    /// them.
    pub(crate) async fn hide_quotations(&self, primary: &Primary, known: &mut Quotations, quoted: Vec<String>) {
        let revision = self.release().and_then(|release| release.newest().map(|(version, _)| version)).unwrap_or(0);
        if known.cover(revision, &quoted) {
            return;
        }
        let (mask, mut shown) = (self.redactions(primary).await, Vec::new());
        for text in quoted.into_iter().filter(|_| mask.is_complete()) {
            shown.push((text.clone(), mask.clone().hide_apart(text).await));
        }
        *known = Quotations::new(revision, shown);
    }

    /// Adds the values of a record that the cache does not know yet.
    pub(crate) async fn add_made(&self, mask: &mut Mask, primary: &Primary, made: &Packed) {
        self.own_values(primary).await.add_packed(mask, made, "");
    }

    async fn own_values(&self, primary: &Primary) -> OwnValues {
        let spec = self.spec(primary).await.map(|spec| values_of(&spec));
        OwnValues { spec, has_secrets: self.has_secret_source(primary) }
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

/// The resource's own values, which may be shown, and whether a revision's values may contain a Secret's.
struct OwnValues {
    /// The values in `spec`, if it can be read.
    spec: Option<Value>,
    /// Whether a Secret is among the resource's sources.
    has_secrets: bool,
}

impl OwnValues {
    /// Adds the values of a revision. If its sources or the resource's include a Secret, every value that `spec` lacks may
    /// come from there.
    fn add_config(&self, mask: &mut Mask, config: &Value, inputs: &str) {
        mask.add_values(config);
        if self.has_secrets || inputs::has_secret_source(inputs) {
            mask.add_secrets_beside(config, self.spec.as_ref().unwrap_or_default());
        }
    }

    fn add_packed(&self, mask: &mut Mask, packed: &Packed, inputs: &str) {
        match packed.unpack() {
            Ok(record) => self.add_record(mask, &record, inputs),
            Err(_) => mask.hide_all(""),
        }
    }

    fn add_record(&self, mask: &mut Mask, record: &release::Release, inputs: &str) {
        self.add_config(mask, &record.config, inputs);
        mask.add_objects(&objects_of(&record.manifest).unwrap_or_default());
        mask.add_hooks(&record.hooks);
    }
}

/// Returns the values of a `spec`. Returns nothing for one that cannot be read, because no message can quote it.
fn values_of(spec: &Spec) -> Value {
    spec.values().map(|values| json::to_serde(&values.into())).unwrap_or_default()
}
