//! Findings that the steps of one reconcile pass on to later steps, and when the next step follows.
//!
//! A step reads these findings, but does not change them: it returns what it learned, and the loop adds it.

use std::sync::Arc;

use helm_release::action::Candidate;
use serde_json::Value;
use tokio::time::Instant;

use crate::dependencies::Waiting;
use crate::mask::Mask;
use crate::reconcile::decide::state::Inputs;
use crate::reconcile::failure::Failed;
use crate::values::Spec;

/// What earlier steps of a reconcile found.
#[derive(Clone, Default)]
pub(crate) struct Findings {
    /// The rendered candidate for the next revision.
    pub(crate) candidate: Option<Arc<Candidate>>,
    /// The deployed revision as the chart renders it, while its record has yet to be checked against that.
    pub(crate) rendered: Option<Arc<Candidate>>,
    /// The result of comparing or rendering the inputs.
    pub(crate) judged: Option<Inputs>,
    /// The generation of discovery before the chart was rendered.
    pub(crate) discovered: Option<usize>,
    /// The `spec`, if the cache does not keep it.
    pub(crate) spec: Option<Spec>,
    /// The content of the value sources.
    pub(crate) loaded: Option<Arc<Loaded>>,
    /// How far a full reconcile has got.
    pub(crate) progress: ResyncProgress,
    /// Whether the resource waits for an upgrade slot, or until it may queue for one.
    pub(crate) is_queued: bool,
    pub(crate) waiting: Option<Waiting>,
    /// Deleted objects that still exist, as a text.
    pub(crate) awaited: Option<String>,
    /// Whether the resource was read again.
    pub(crate) reread: bool,
    pub(crate) is_postponed: bool,
    /// Whether the status stays as it is, because the resource waits for a permit to be planned, or to be tried for the
    /// first time since the process started.
    pub(crate) is_status_kept: bool,
}

/// The progress of a full reconcile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResyncProgress {
    pub(crate) rendered: bool,
    pub(crate) applied: bool,
}

/// What a reconcile has read from the value sources.
pub(crate) struct Loaded {
    /// The digest of the contents, as a part of the inputs' digest.
    pub(crate) digest: Value,
    /// The resource's `spec` merged over the contents, until it is rendered.
    pub(crate) spec: Option<Spec>,
    /// Redacts the contents of Secrets.
    pub(crate) mask: Mask,
}

#[derive(Clone)]
pub(crate) enum Learned {
    /// The `spec`, which the cache does not keep.
    Spec(Spec),
    /// The content of the value sources; `None` if there are none.
    Sources(Option<Arc<Loaded>>),
    /// The generation of discovery before the chart was rendered.
    Discovered(usize),
    /// The resource was read again.
    Reread,
    /// A render was postponed, because it kept others waiting.
    Postponed,
    /// The status stays as it is until the resource has a permit.
    StatusKept,
    /// How the inputs compare with those of the deployed revision.
    Judged(Inputs),
    /// The chart renders what is deployed. Contains that if the record has yet to be checked against it.
    RenderedSame(Option<Arc<Candidate>>),
    /// The chart renders this candidate for the next revision.
    RenderedOther(Arc<Candidate>),
    /// The findings about the inputs do not apply to the revision that is deployed now.
    Outdated,
    Deployed,
    /// The record of the deployed revision was checked and is the resource's.
    Owned,
    /// Every object was applied again.
    Reapplied,
    /// The resource waits for an upgrade slot, or until it may queue for one.
    Queued,
    Waits(Waiting),
    /// Deleted objects that still exist, as a text.
    Awaits(String),
}

impl Findings {
    /// Adds what a step learned.
    pub(crate) fn learn(&mut self, learned: Learned) {
        match learned {
            Learned::Spec(spec) => self.spec = Some(spec),
            Learned::Sources(loaded) => self.loaded = loaded,
            Learned::Discovered(generation) => self.discovered = Some(generation),
            Learned::Reread => self.reread = true,
            Learned::Postponed => self.is_postponed = true,
            Learned::StatusKept => self.is_status_kept = true,
            Learned::Judged(inputs) => self.judged = Some(inputs),
            Learned::RenderedSame(unchecked) => {
                (self.judged, self.rendered) = (Some(Inputs::RenderedSame), unchecked);
                self.progress.rendered = true;
            }
            Learned::RenderedOther(candidate) => {
                (self.judged, self.candidate) = (Some(Inputs::RenderedOther), Some(candidate));
                self.progress.rendered = true;
            }
            Learned::Outdated => (self.judged, self.candidate) = (None, None),
            Learned::Deployed => self.candidate = None,
            Learned::Owned => self.rendered = None,
            Learned::Reapplied => self.progress.applied = true,
            Learned::Queued => self.is_queued = true,
            Learned::Waits(waiting) => self.waiting = Some(waiting),
            Learned::Awaits(objects) => self.awaited = Some(objects),
        }
    }
}

impl Learned {
    /// Drops the values to render with. The mask stays, because the next step's errors and logs may quote what the chart
    /// was rendered with; the candidate holds the same contents for as long.
    pub(crate) fn without_values(self) -> Learned {
        match self {
            Learned::Sources(Some(loaded)) => {
                let (digest, mask) = (loaded.digest.clone(), loaded.mask.clone());
                Learned::Sources(Some(Arc::new(Loaded { digest, spec: None, mask })))
            }
            learned => learned,
        }
    }
}

/// When to take the next step.
pub(crate) enum NextStep {
    /// Immediately.
    Again,
    /// Immediately, and without earlier findings, because the resource has changed.
    Anew,
    /// When something changes, or after the reconcile period.
    Done,
    /// When something changes, or at this time if no watch reports the change.
    At(Instant),
}

/// How a step ended: when the next one follows, and what this one learned.
pub(crate) struct Ended {
    pub(crate) next: NextStep,
    pub(crate) learned: Vec<Learned>,
}

/// Why a step failed, and what it had learned before.
pub(crate) struct FailedStep {
    pub(crate) failed: Failed,
    pub(crate) learned: Vec<Learned>,
}

impl NextStep {
    /// Ends a step that learned something.
    pub(crate) fn with(self, learned: impl IntoIterator<Item = Learned>) -> Ended {
        Ended { next: self, learned: learned.into_iter().collect() }
    }
}

impl Ended {
    /// Adds something that the step learned.
    pub(crate) fn with(mut self, learned: impl IntoIterator<Item = Learned>) -> Ended {
        self.learned.extend(learned);
        self
    }
}

impl From<NextStep> for Ended {
    fn from(next: NextStep) -> Ended {
        next.with([])
    }
}

impl From<Failed> for FailedStep {
    fn from(failed: Failed) -> FailedStep {
        FailedStep { failed, learned: Vec::new() }
    }
}

/// Adds what the first part of a step learned to how the rest ended.
pub(crate) fn after(mut learned: Vec<Learned>, rest: Result<Ended, Failed>) -> Result<Ended, FailedStep> {
    match rest {
        Ok(ended) => {
            learned.extend(ended.learned);
            Ok(ended.next.with(learned))
        }
        Err(failed) => Err(FailedStep { failed, learned }),
    }
}

#[cfg(test)]
mod tests {
    use helm_release::release::ChartDocument;
    use serde_json::json;

    use super::*;
    use crate::reconcile::failure::Unanswered;
    use crate::status::reason::Reason;

    fn candidate() -> Arc<Candidate> {
        Arc::new(Candidate {
            chart: Arc::new(ChartDocument::from_json("{}").unwrap()),
            config: Value::Null,
            manifest: String::new(),
            objects: Vec::new(),
            hooks: Vec::new(),
            notes: String::new(),
            crds: Vec::new(),
            duplicates: Vec::new(),
            unread: Vec::new(),
            inputs: String::new(),
        })
    }

    fn sources() -> Learned {
        let (spec, mask) = (Some(Spec::new("{}")), Mask::default());
        Learned::Sources(Some(Arc::new(Loaded { digest: json!("d"), spec, mask })))
    }

    fn described(found: &Findings) -> String {
        let with = |is: bool, what: &str| is.then(|| what.to_owned());
        let loaded = |loaded: &Arc<Loaded>| if loaded.spec.is_some() { "sources with values" } else { "sources" };
        let all = [
            with(found.candidate.is_some(), "candidate"),
            with(found.rendered.is_some(), "unchecked"),
            found.judged.map(|inputs| format!("inputs {inputs}")),
            found.discovered.map(|generation| format!("discovery {generation}")),
            with(found.spec.is_some(), "spec"),
            found.loaded.as_ref().map(|one| loaded(one).to_owned()),
            with(found.progress.rendered, "progress: rendered"),
            with(found.progress.applied, "progress: applied"),
            with(found.is_queued, "queued"),
            found.waiting.as_ref().map(|waiting| format!("waits: {}", waiting.message)),
            found.awaited.as_ref().map(|objects| format!("awaits: {objects}")),
            with(found.reread, "reread"),
            with(found.is_postponed, "postponed"),
            with(found.is_status_kept, "status kept"),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn each_step_adds_what_it_learned_to_what_earlier_ones_found() {
        let other = || Learned::RenderedOther(candidate());
        let unchecked = || Learned::RenderedSame(Some(candidate()));
        let waiting = || Learned::Waits(Waiting { reason: "R", message: "for b".into(), is_final: false });
        let table = [
            (vec![], ""),
            (vec![Learned::Spec(Spec::new("{}"))], "spec"),
            (vec![sources()], "sources with values"),
            (vec![sources(), sources().without_values()], "sources"),
            (vec![sources(), Learned::Sources(None)], ""),
            (vec![Learned::Discovered(3)], "discovery 3"),
            (vec![Learned::Reread], "reread"),
            (vec![Learned::Postponed], "postponed"),
            (vec![Learned::StatusKept], "status kept"),
            (vec![Learned::Judged(Inputs::Changed)], "inputs changed"),
            (vec![Learned::Judged(Inputs::Changed), other()], "candidate, inputs rendered, progress: rendered"),
            (vec![other(), Learned::Deployed], "inputs rendered, progress: rendered"),
            (vec![other(), Learned::Outdated], "progress: rendered"),
            (vec![Learned::RenderedSame(None)], "inputs render the same, progress: rendered"),
            (vec![unchecked()], "unchecked, inputs render the same, progress: rendered"),
            (vec![unchecked(), Learned::Owned], "inputs render the same, progress: rendered"),
            (vec![unchecked(), Learned::Outdated], "unchecked, progress: rendered"),
            (vec![Learned::Reapplied], "progress: applied"),
            (vec![Learned::Queued], "queued"),
            (vec![waiting()], "waits: for b"),
            (vec![Learned::Awaits("Pod a".into())], "awaits: Pod a"),
        ];
        for (learned, expected) in table {
            let mut found = Findings::default();
            learned.into_iter().for_each(|learned| found.learn(learned));
            assert_eq!(described(&found), expected);
        }
    }

    #[test]
    fn what_the_first_part_of_a_step_learned_outlasts_the_failure_of_the_rest() {
        let found = |ended: Result<Ended, FailedStep>| {
            let learned = ended.map_or_else(|failed| failed.learned, |ended| ended.learned);
            let mut found = Findings::default();
            learned.into_iter().for_each(|learned| found.learn(learned));
            described(&found)
        };
        let failed = Unanswered::with_reason(Reason::Unanswered, "no".into()).into();
        assert_eq!(found(after(vec![sources()], Err(failed))), "sources with values");
        let judged = NextStep::Again.with([Learned::Judged(Inputs::Same)]);
        assert_eq!(found(after(vec![sources()], Ok(judged))), "inputs unchanged, sources with values");
    }
}
