//! Redacts values in a reconcile's messages: the user's and the operator's, those in Secrets, and those that the chart
//! renders into Secrets.
//!
//! Runs only after a failure, so it may read the record once more.

use go_encoding::json;
use go_template::Value;
use helm_release::action::Candidate;
use helm_release::kube::objects_of;
use helm_release::release::Release as Record;

use crate::mask::Mask;
use crate::reconcile::step_context::StepContext;
use crate::status::Fault;
use crate::values::Spec;
use crate::view::primary::Primary;
use crate::view::release::Release;
use crate::watches::Overrides;

impl StepContext<'_> {
    pub(crate) async fn redacted(&self, primary: &Primary, fault: Fault) -> Fault {
        if primary.spec.is_away() {
            let message = "the message is hidden: the values to hide in it could not be read".to_owned();
            return Fault { message, ..fault };
        }
        let message = self.redactions(primary).await.hide_apart(fault.message).await;
        Fault { message, ..fault }
    }

    /// Returns what to redact in messages: the values of the resource, of its release and of the candidate for it, even
    /// if that failed.
    pub(crate) async fn redactions(&self, primary: &Primary) -> Mask {
        let mut mask = self.secrets();
        mask.keep([primary.name(), primary.namespace(), &primary.kind, self.shared.renderer.chart_name()]);
        self.shared.renderer.published().into_iter().for_each(|published| mask.keep_published(published));
        add_spec(&mut mask, &primary.spec);
        let effective = self.effective_spec(primary);
        if effective.digest() != primary.spec.digest() {
            add_spec(&mut mask, &effective);
        }
        for text in self.shared.renderer.overrides().into_iter().flat_map(|o: &Overrides| o.texts().values()) {
            mask.add_values(&text.as_str().into());
        }
        if let Some(candidate) = &self.found.candidate {
            add_candidate(&mut mask, candidate);
        }
        if let Some(record) = self.record(primary).await {
            mask.add_values(&record.config);
            mask.add_objects(&objects_of(&record.manifest).unwrap_or_default());
            mask.add_hooks(&record.hooks);
        }
        mask
    }

    /// Returns the current record of the release, from memory if it is there.
    async fn record(&self, primary: &Primary) -> Option<Record> {
        let release = self.release()?;
        if let Some((_, packed)) = &release.packed {
            return packed.facts().unpack().ok();
        }
        let (version, _) = release.base().or_else(|| Release::newest(&release))?;
        let record = self.shared.storage.get(primary.namespace(), primary.name(), version).await.ok()?;
        Some(record.release.facts().clone())
    }
}

/// Redacts a candidate's notes. They may contain the values that users configured, which the resource next to the
/// status shows anyway.
pub(crate) async fn hide_notes(mut mask: Mask, candidate: &Candidate) -> String {
    mask.add_objects(&candidate.objects);
    mask.hide_apart(candidate.notes.clone()).await
}

pub(crate) fn add_candidate(mask: &mut Mask, candidate: &Candidate) {
    mask.add_values(&candidate.config);
    mask.add_objects(&candidate.objects);
    mask.add_hooks(&candidate.hooks);
}

/// Adds the values of a `spec`. One that cannot be read has none to quote.
fn add_spec(mask: &mut Mask, spec: &Spec) {
    if let Ok(values) = spec.values() {
        mask.add_values(&json::to_serde(&Value::Map(values)));
    }
}
