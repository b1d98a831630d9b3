//! Handles what users request by annotation, once per token: `reconcile-now` renders and applies everything,
//! `retry-now` ends every wait after a failure.
//!
//! A token counts as handled when its reconcile ends, with any outcome, and is then recorded in the status. A full
//! reconcile that failed is completed by the retries of this process. If the status cannot record tokens, each process
//! would handle them again: then those that it finds count as handled.

use tokio::time::Instant;

use crate::reconcile::decide::gate::{self, Gate};
use crate::reconcile::decide::remembered::HandledTriggers;
use crate::reconcile::decide::schedule::End;
use crate::reconcile::decide::state::{Again, Inputs};
use crate::reconcile::learned::{Learned, ResyncProgress};
use crate::reconcile::observe::share;
use crate::reconcile::report::status_requests;
use crate::reconcile::step_context::StepContext;
use crate::status::Handled;
use crate::view::primary::Primary;

const UNJUDGED: &str = "Cannot check whether the status can report tokens: those from before the start wait";

impl StepContext<'_> {
    fn handled_triggers(&self) -> HandledTriggers {
        self.shared.memory.of(self.key).triggers.handled.as_deref().cloned().unwrap_or_default()
    }

    fn change_handled(&self, change: impl FnOnce(&mut HandledTriggers)) {
        self.shared.memory.change(self.key, |memory| change(memory.triggers.handled.get_or_insert_default()));
    }

    /// Returns the tokens that an earlier process may have handled without a trace.
    fn found_tokens(&self) -> Handled {
        let memory = self.shared.memory.of(self.key);
        memory.triggers.found.as_deref().map(|found| found.tokens.clone()).unwrap_or_default()
    }

    /// Returns whether to determine now if the tokens that this process found count as handled. While the server does
    /// not answer, they wait, and nothing else does. Of a deleted resource, only one that would end a wait matters.
    pub(crate) fn may_judge_tokens(&self, primary: &Primary) -> bool {
        let memory = self.shared.memory.of(self.key);
        let found = memory.triggers.found.as_deref().filter(|_| !is_left_alone(primary));
        let may_matter = |tokens: &Handled| !primary.deleting || tokens.retry_now.is_some();
        found.is_some_and(|found| found.are_due(self.decided) && may_matter(&found.tokens))
    }

    /// Determines whether the tokens that this process found count as handled, because the status cannot report them.
    pub(crate) async fn judge_tokens(&self, primary: &Primary) {
        let can_report = match status_requests::can_report(self.shared, primary, &self.found_tokens()).await {
            Ok(can_report) => can_report,
            Err(error) => return self.judge_later(&self.refusal(primary, &error).await),
        };
        if !can_report {
            tracing::info!(resource = %self.key, "The status cannot report tokens: earlier ones count as handled");
        }
        self.shared.memory.change(self.key, |memory| match &mut memory.triggers.found {
            Some(found) if !can_report => found.are_handled = true,
            found => *found = None,
        });
    }

    /// Schedules the next attempt to judge the tokens. Logs why there has to be one, only the first time as a warning.
    fn judge_later(&self, error: &str) {
        let now = Instant::now();
        let memory = &self.shared.memory;
        let times = memory.change(self.key, |known| known.triggers.found.as_deref_mut().map(|one| one.ask_later(now)));
        match times {
            Some(1) => tracing::warn!(resource = %self.key, error, "{UNJUDGED}"),
            _ => tracing::debug!(resource = %self.key, error, "{UNJUDGED}"),
        }
    }

    /// Returns when to judge tokens again; `None` if that is now, or they are judged.
    pub(crate) fn tokens_at(&self) -> Option<Instant> {
        let memory = self.shared.memory.of(self.key);
        let unjudged = memory.triggers.found.as_deref().filter(|found| !found.are_handled);
        unjudged.and_then(|found| found.retry).map(|retry| retry.at).filter(|at| *at > self.decided)
    }

    /// Returns the token of a full reconcile that neither this process nor an earlier one has completed.
    pub(crate) fn full_reconcile<'p>(&self, primary: &'p Primary) -> Option<&'p str> {
        let token = primary.annotations.reconcile_now()?;
        if self.found_tokens().reconcile_now.as_deref() == Some(token) {
            return None;
        }
        let handled = self.handled_triggers();
        let is_ours = handled.tokens.reconcile_now.as_deref() == Some(token);
        let is_reported = primary.status.last_handled().reconcile_now.as_deref() == Some(token);
        (handled.done.as_deref() != Some(token) && (is_ours || !is_reported)).then_some(token)
    }

    /// Ends every wait after a failure, if a new token requests it.
    pub(crate) fn accept_retry(&self, primary: &Primary) {
        let Some(token) = primary.annotations.retry_now().filter(|_| !is_left_alone(primary)) else { return };
        let handled = [self.handled_triggers().tokens, primary.status.last_handled(), self.found_tokens()];
        let known = handled.map(|tokens| tokens.retry_now);
        if known.iter().flatten().any(|known| **known == *token) {
            return;
        }
        let now = self.decided;
        let judged = self.release().as_deref().and_then(gate::judged).map(Box::from);
        self.shared.memory.change(self.key, |memory| {
            memory.retry_now(now);
            memory.drift.hold_until = None;
            memory.triggers.test_again = judged;
            memory.competitor.iter_mut().for_each(|met| met.additions.end_wait());
        });
        self.change_handled(|handled| handled.tokens.retry_now = Some(token.into()));
    }

    /// Returns what to do even if nothing differs.
    pub(crate) fn again(&self, primary: &Primary) -> Again {
        let asked = self.full_reconcile(primary).is_some();
        match self.found.progress {
            _ if asked && !self.is_rendered(primary) => Again::Render,
            ResyncProgress { applied: false, .. } if asked || self.is_full_resync_due(primary) => Again::Apply,
            _ => Again::Nothing,
        }
    }

    /// Returns whether a full reconcile has rendered the chart, or need not: the release stays at its revision, because
    /// a person pins it, or because its tests rejected what the chart renders.
    fn is_rendered(&self, primary: &Primary) -> bool {
        let stays = || matches!(self.gate(primary, self.release().as_deref()), Gate::Pinned | Gate::Closed);
        self.found.progress.rendered || stays()
    }

    /// Records that every object was applied.
    pub(crate) fn applied_everything(&self, primary: &Primary) -> Learned {
        let asked = self.full_reconcile(primary).filter(|_| self.is_rendered(primary));
        let token: Option<Box<str>> = asked.map(Box::from);
        self.change_handled(|handled| {
            handled.resynced = Some(Instant::now());
            if let Some(token) = token {
                (handled.done, handled.tokens.reconcile_now) = (Some(token.clone()), Some(token));
            }
        });
        Learned::Reapplied
    }

    /// Records that a reconcile with a token failed, so that the status shows the token as handled.
    pub(crate) fn handle_failed(&self, primary: &Primary, end: End) {
        if let (End::Failed, Some(token)) = (end, self.full_reconcile(primary)) {
            self.change_handled(|handled| handled.tokens.reconcile_now = Some(token.into()));
        }
    }

    /// Returns the tokens for the status: this process's, or else those that the status shows.
    pub(crate) fn handled(&self, primary: &Primary) -> Option<Box<Handled>> {
        let (ours, reported) = (self.handled_triggers().tokens, primary.status.last_handled());
        let handled = Handled {
            reconcile_now: ours.reconcile_now.or(reported.reconcile_now),
            retry_now: ours.retry_now.or(reported.retry_now),
        };
        (handled != Handled::default()).then(|| Box::new(handled))
    }

    /// Returns when to apply everything again: spread over a whole period after a start, and then once per period,
    /// varied by a factor per resource so that resources do not coincide again.
    pub(crate) fn full_resync_at(&self, primary: &Primary) -> Option<Instant> {
        let period = self.shared.settings.full_resync;
        if period.is_zero() {
            return None;
        }
        let share = share(primary.uid());
        Some(match self.handled_triggers().resynced {
            Some(last) => last + period.mul_f64(0.95 + share / 10.0),
            None => {
                let first = self.shared.started.or_created(primary.created, Instant::now(), outside::now());
                first + period.mul_f64(share)
            }
        })
    }

    fn is_full_resync_due(&self, primary: &Primary) -> bool {
        self.full_resync_at(primary).is_some_and(|at| at <= self.decided)
    }

    /// Makes a requested full reconcile apply every object after a deployment, including unchanged ones, and lets the
    /// new revision's tests follow.
    pub(crate) fn follow_up(&self, primary: &Primary) -> Option<Learned> {
        let is_followed = self.full_reconcile(primary).is_some() || self.is_test_due(primary);
        is_followed.then_some(Learned::Judged(Inputs::RenderedSame))
    }
}

/// Returns whether an annotation leaves the resource alone. Of a deleted one, only `pause` does.
fn is_left_alone(primary: &Primary) -> bool {
    let annotations = &primary.annotations;
    if primary.deleting { annotations.pause() } else { annotations.leaves_alone() }
}
