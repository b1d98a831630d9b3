//! Handles records that this operator did not write, or that were put back: what they may decide, and how they are
//! imported.
//!
//! Their content is only compared, with what the chart renders and with what is live. It is never applied, and its
//! hooks never run.

use std::sync::Arc;

use controller::report::Outcome;
use helm_release::action::{self, Action, Admission, Admitted, Candidate, Uninstalling};
use helm_release::release::{HookEvent, Status};
use helm_release::storage::{Stored, Unproven};

use super::repair::fault;
use super::uninstall::WITHOUT_HOOKS;
use crate::reconcile::decide::state::Inputs;
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{FailedStep, Learned};
use crate::reconcile::report::faults::invalid_annotation;
use crate::reconcile::step_context::StepContext;
use crate::rendering::request::Rendered;
use crate::status::MAX_NAMED;
use crate::status::reason::Reason;
use crate::view::primary::Primary;
use crate::view::release::{Holder, ReleaseRecords, Revision};

/// The hooks of a chart, for an uninstall.
pub(crate) enum ChartHooks {
    /// The hooks of this render.
    Of(Arc<Candidate>),
    /// The chart does not render, for this reason.
    Unrendered(String),
    Postponed,
}

impl StepContext<'_> {
    /// Returns whether this operator recorded a revision for the resource, and it is as current as the resource's
    /// status.
    pub(crate) fn vouches(&self, release: &ReleaseRecords, version: u32, primary: &Primary) -> bool {
        release.is_vouched(version, primary.uid(), primary.reported())
    }

    pub(crate) fn vouches_for_deployed(&self, primary: &Primary) -> bool {
        let release = self.release().unwrap_or_default();
        release.deployed().is_some_and(|(version, _)| self.vouches(&release, version, primary))
    }

    /// Returns whether this operator recorded the deployed revision, for this resource or an earlier one of its name, and
    /// it was not put back: then it may be taken over without a render.
    pub(crate) fn recorded_deployed(&self, release: &ReleaseRecords, primary: &Primary) -> bool {
        let is_own = |(version, revision): (u32, &Revision)| {
            revision.is_sealed() && !release.is_put_back(version, primary.reported())
        };
        release.holder(&primary.owner()) == Holder::Resource && release.deployed().is_some_and(is_own)
    }

    /// Returns whether no record belongs to this operator, because the records name no owner or another one, or whether
    /// the newest record does not belong to it and names another owner.
    pub(crate) fn is_displaced(&self, primary: &Primary) -> bool {
        let owner = primary.owner();
        self.release().is_some_and(|release| {
            matches!(release.holder(&owner), Holder::Nobody | Holder::Upstream) || release.is_claimed_from(&owner)
        })
    }

    /// Returns which records look like this operator's but are not, and what to do about them; empty if there are none.
    pub(crate) fn unproven(&self, primary: &Primary) -> String {
        let broken = self.release().map(|release| release.broken()).unwrap_or_default();
        if broken.is_empty() {
            return String::new();
        }
        let (namespace, name) = self.shared.settings.home.record(primary.namespace(), primary.name());
        let mut records: Vec<String> =
            broken.iter().take(MAX_NAMED).map(|version| helm_release::release::key(&name, *version)).collect();
        if broken.len() > MAX_NAMED {
            records.push(format!("and {} more", broken.len() - MAX_NAMED));
        }
        format!(
            "in namespace {namespace:?}, this operator did not write the release records {} as they are: they were changed, copied or made up, or their \
             key is lost. Nothing in them was applied; the chart decides. Delete these Secrets once you know who wrote them",
            records.join(", ")
        )
    }

    /// Returns an action's result. If the action found that the revision's record is not ours, records that and returns
    /// `None`: the next step then judges the record.
    pub(crate) fn unless_unproven<T>(
        &self,
        version: u32,
        result: Result<T, action::Error>,
    ) -> Result<Option<T>, Failed> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if is_unproven(&error) => {
                self.distrust(version);
                Ok(None)
            }
            Err(error) => Err(fault(&error)),
        }
    }

    pub(crate) fn distrust(&self, version: u32) {
        tracing::warn!(resource = %self.key, version, "A release record was changed by somebody else");
        self.shared.cache.change_release(self.key, |release| release.distrust(version));
    }

    /// Returns the deployed revision if its record may become this operator's; `None` if the chart must decide instead.
    /// An old record that was put back, or that may be from an earlier namespace of this name, is treated like a foreign
    /// one: its seal proves who wrote it, but not that it is current.
    pub(crate) async fn admitted(
        &self,
        primary: &Primary,
        version: u32,
    ) -> Result<(Option<Admitted>, Vec<Learned>), FailedStep> {
        let is_put_back = self.release().is_some_and(|release| release.is_put_back(version, primary.reported()));
        let stored = self.stored(primary, version).await;
        let sealed = stored.as_ref().ok().filter(|stored| stored.is_sealed());
        let is_old = match sealed.map(|stored| stored.facts().info.last_deployed) {
            Some(deployed) => is_put_back || self.may_outlive_namespace(primary, version, deployed).await?,
            None => false,
        };
        let recorded = match stored {
            Ok(Stored::Sealed(release)) if is_old => Some(release.into()),
            Ok(Stored::Sealed(release)) => return Ok((Some(release.into()), Vec::new())),
            // The chart decides nothing while the release is pinned.
            Ok(Stored::Unproven(_)) if self.pinned(primary).is_some() => {
                self.distrust(version);
                return Ok((None, Vec::new()));
            }
            Ok(Stored::Unproven(recorded)) => Some(recorded),
            Err(error) if error.is_damage() => None,
            Err(error) => return Err(fault(&error.into()).into()),
        };
        let (candidate, mut learned) = self.rendered_as(primary, version).await?;
        let Rendered::Done(candidate) = candidate else { return Ok((None, learned)) };
        let admitted = match &recorded {
            Some(recorded) => self.knowing(&learned).admit(primary, version, recorded, &candidate).await,
            None => {
                self.distrust(version);
                Ok(None)
            }
        };
        match admitted {
            // Rendering again would not help: a pinned release follows its record, not the chart.
            Ok(None) if is_old && self.pinned(primary).is_some() => {
                Err(FailedStep { failed: invalid_annotation(&earlier_pin(version)).into(), learned })
            }
            Ok(None) => {
                // If an earlier step rendered it, it is exactly what is deployed.
                let is_same = self.found.rendered.is_some();
                learned.push(Learned::Judged(if is_same { Inputs::RenderedSame } else { Inputs::Changed }));
                let again = || Admitted::rendered_again(&candidate, &self.decoration(primary), version);
                Ok((is_same.then(again), learned))
            }
            Ok(admitted) => Ok((admitted, learned)),
            Err(failed) => Err(FailedStep { failed, learned }),
        }
    }

    async fn admit(
        &self,
        primary: &Primary,
        version: u32,
        recorded: &Unproven<helm_release::release::Release>,
        candidate: &Candidate,
    ) -> Result<Option<Admitted>, Failed> {
        let env = self.environment(primary, Action::Upgrade);
        match action::admit(&env, recorded, candidate).await.map_err(|e| fault(&e))? {
            Admission::Admitted(admitted) => Ok(Some(admitted)),
            Admission::Refused(why) => {
                tracing::info!(resource = %self.key, version, why, "The recorded release is not taken over as it is");
                Ok(None)
            }
        }
    }

    /// Returns the record of a revision.
    ///
    /// # Errors
    /// The record cannot be read or decoded.
    pub(crate) async fn stored(
        &self,
        primary: &Primary,
        version: u32,
    ) -> Result<Stored<helm_release::release::Release>, helm_release::storage::Error> {
        let packed = self.release().and_then(|release| release.record(version).cloned());
        if let Some(Ok(release)) = packed.as_ref().map(Stored::unpack) {
            return Ok(release);
        }
        Ok(self.storage.get(primary.namespace(), primary.name(), version).await?.release)
    }

    /// Returns what the chart renders as this revision.
    async fn rendered_as(
        &self,
        primary: &Primary,
        version: u32,
    ) -> Result<(Rendered<Arc<Candidate>>, Vec<Learned>), FailedStep> {
        if let Some(candidate) = &self.found.rendered {
            return Ok((Rendered::Done(candidate.clone()), Vec::new()));
        }
        let sources = self.load_sources(primary).await?;
        let rendered = self.knowing([&sources]).candidate(primary, version).await;
        let mut learned = vec![sources.without_values()];
        match rendered {
            Ok(Rendered::Done(candidate)) => Ok((Rendered::Done(Arc::new(candidate)), learned)),
            Ok(Rendered::Postponed) => {
                learned.extend(self.postpone().learned);
                Ok((Rendered::Postponed, learned))
            }
            Err(failed) => Err(FailedStep { failed, learned }),
        }
    }

    /// Returns the chart's hooks for an uninstall whose record has no hooks that may run.
    ///
    /// # Errors
    /// It is not known yet whether the chart renders. The message names the annotation that skips hooks.
    pub(crate) async fn chart_hooks(
        &self,
        primary: &Primary,
        version: u32,
    ) -> Result<(ChartHooks, Vec<Learned>), FailedStep> {
        match self.rendered_as(primary, version).await {
            Ok((Rendered::Done(candidate), learned)) => Ok((ChartHooks::Of(candidate), learned)),
            Ok((Rendered::Postponed, learned)) => Ok((ChartHooks::Postponed, learned)),
            Err(FailedStep { failed, learned }) if may_render_later(&failed) => {
                let mut fault = failed.fault().clone();
                fault.message.push_str(WITHOUT_HOOKS);
                Err(FailedStep { failed: failed.reported_as(fault), learned })
            }
            Err(FailedStep { failed, learned }) => {
                Ok((ChartHooks::Unrendered(failed.fault().message.clone()), learned))
            }
        }
    }

    /// Publishes that an uninstall runs no hooks.
    pub(crate) fn publish_unproven_hooks(&self, primary: &Primary, why: &str) {
        let message = format!(
            "the release is uninstalled without its hooks: this operator did not write its record, and the hooks of the chart are unknown: {why}"
        );
        tracing::warn!(resource = %self.key, message, "Skipped hooks");
        self.shared.publish(primary, Outcome::warning("HookSkipped", "Uninstall", message));
    }
}

/// Returns whether an action failed because the content of a record is not what this operator wrote.
pub(crate) fn is_unproven(error: &action::Error) -> bool {
    matches!(error, action::Error::Unproven { .. } | action::Error::Manifest(_))
        || matches!(error, action::Error::Storage(error) if error.is_damage())
        || matches!(error, action::Error::Record(error) if error.is_damage())
}

/// Returns whether this operator's own uninstall has started.
pub(crate) fn is_uninstalling(release: &ReleaseRecords, at: &Uninstalling, primary: &Primary) -> bool {
    let revision = release.revisions.get(&at.version);
    let is_own = |owner: &str| owner == primary.uid();
    revision.is_some_and(|r| {
        r.is_sealed() && r.status == Status::Uninstalling && r.marks.as_ref().is_some_and(|m| is_own(&m.owner))
    })
}

/// Returns whether a failed render says nothing about the chart. A source of values that is gone is not awaited, nor is the
/// right to read it: both may have been deleted with the resource, or with its namespace.
fn may_render_later(failed: &Failed) -> bool {
    let is_gone = matches!(failed.fault().reason, Reason::ValuesSourceMissing | Reason::ValuesSourceForbidden);
    matches!(failed, Failed::Unanswered(_)) && !is_gone
}

/// Returns whether a chart has hooks that run when the release is deleted.
pub(crate) fn has_delete_hooks(candidate: &Candidate) -> bool {
    let of = |event| candidate.hooks.iter().any(|hook| hook.events.contains(&event));
    of(HookEvent::PreDelete) || of(HookEvent::PostDelete)
}

fn earlier_pin(version: u32) -> String {
    format!(
        "annotation helm.sdk.operatorframework.io/pin: revision {version} was deployed for an earlier resource of this name, \
         perhaps in an earlier namespace, and differs from what the chart renders and what is live, so it is not repeated; \
         remove the annotation"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::failure::{FailedAttempt, Unanswered};

    #[test]
    fn a_record_in_memory_that_cannot_be_decoded_is_judged_like_one_in_storage() {
        use helm_release::release::Error;
        let check = |error: fn() -> Error, expected: bool| {
            let stored = helm_release::storage::Error::Codec { key: "k".into(), source: error() };
            assert_eq!((is_unproven(&error().into()), is_unproven(&stored.into())), (expected, expected));
        };
        check(|| Error::TooDeep, true);
        check(|| Error::TooLarge, true);
        check(|| Error::Interrupted, false);
    }

    #[test]
    fn an_uninstall_waits_for_a_chart_of_which_nothing_is_known_but_for_no_source_of_values() {
        let unanswered = |reason| Failed::from(Unanswered::with_reason(reason, String::new()));
        for reason in [Reason::Unanswered, Reason::ChartUnavailable, Reason::RenderLimit] {
            assert!(may_render_later(&unanswered(reason)), "{reason:?}");
        }
        for reason in [Reason::ValuesSourceMissing, Reason::ValuesSourceForbidden] {
            assert!(!may_render_later(&unanswered(reason)), "{reason:?}");
        }
        for reason in [Reason::RenderError, Reason::RenderLimit] {
            let failed = Failed::from(FailedAttempt::rendering(reason, String::new()));
            assert!(!may_render_later(&failed), "{reason:?}");
        }
    }
}
