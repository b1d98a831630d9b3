//! Runs the tests of the deployed revision once its objects are ready, and rolls back a revision that failed them.

use std::sync::Arc;

use controller::report::{Outcome, chain};
use helm_release::action::{self, Action, Environment, Tested};
use helm_release::release::Status;
use helm_release::storage::{Marks, Rejected, RejectedBy, Tests};
use scaffold::annotations::PREFIX;
use tokio::time::Instant;

use super::deploy::{follow_end, interrupted, record};
use super::repair::fault;
use super::{begun_uninstall, remediate};
use crate::reconcile::decide::gate::{self, Gate};
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, Learned, NextStep};
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::status::{Fault, TEST_SUCCEEDED, TestReport, condition};
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;
use crate::watches::OnTestFailure;

impl StepContext<'_> {
    /// Returns what the tests of the newest revision require, or the rollout that made it, or the annotation that pins
    /// the release. Tests start once every object is ready.
    pub(crate) fn gate(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> Gate {
        let Some(release) = release.filter(|_| !primary.deleting) else { return Gate::Open };
        if let Some(to) = primary.annotations.pin().ok().flatten() {
            return gate::pin(release, to, primary.uid(), primary.reported()).unwrap_or(Gate::Open);
        }
        if self.taken_back(primary, release).is_some() {
            return Gate::RollBack;
        }
        let is_by_rollout = gate::rejected(release).is_some_and(|rejected| rejected.by == RejectedBy::Rollout);
        // A request for this release alone takes precedence, and without its rule, no rollout holds anything.
        if is_by_rollout && (self.full_reconcile(primary).is_some() || self.shared.turns.rule().is_none()) {
            return Gate::Open;
        }
        // Most releases need no digest of their inputs here.
        if matches!(gate::tests(release), None | Some(Tests::Passed)) && gate::rejected(release).is_none() {
            return Gate::Open;
        }
        let memory = self.shared.memory.of(self.key);
        let again = memory.triggers.test_again.as_deref();
        let rejected = gate::rejected(release).filter(|rejected| self.differs_by_chance(&rejected.inputs, primary));
        let inputs = rejected.map_or_else(|| self.inputs_digest(primary), |rejected| rejected.inputs.clone());
        match gate::gate(release, primary.uid(), &inputs, again) {
            Gate::Test if !self.may_test(primary) || !self.is_ready(release) => Gate::Open,
            gate => gate,
        }
    }

    /// Returns why the release cannot be pinned as its annotation says.
    pub(crate) fn pin_fault(&self, primary: &Primary) -> Option<String> {
        let to = primary.annotations.pin().ok().flatten()?;
        let release = self.release().unwrap_or_default();
        let reported = primary.reported();
        if gate::pin(&release, to, primary.uid(), reported).is_some() {
            return None;
        }
        let newest = release.newest().map(|(version, _)| version);
        if let Some(newest) = newest.filter(|newest| release.is_put_back(*newest, reported)) {
            return Some(format!(
                "annotation {PREFIX}pin: the newest record of the release is that of revision {newest}, older than revision {reported} in the status, so it \
                 does not show what is running; without the annotation, the chart decides"
            ));
        }
        let known: Vec<String> = release.revisions.keys().map(u32::to_string).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Some(format!(
            "annotation {PREFIX}pin: the release cannot return to revision {to}; it has these: {known}, of which one that was deployed counts"
        ))
    }

    /// Returns the revision that a person pins the release to, and the one that repeats it.
    pub(crate) fn pinned(&self, primary: &Primary) -> Option<(u32, u32)> {
        let to = primary.annotations.pin().ok().flatten()?;
        let release = self.release()?;
        let is_there = gate::pin(&release, to, primary.uid(), primary.reported()) == Some(Gate::Pinned);
        Some((to, release.deployed().filter(|_| is_there)?.0))
    }

    /// Returns the revision that a rollback returns to: the one that the release is pinned to, or else the last one
    /// that was deployed.
    pub(crate) fn rollback_target(&self, primary: &Primary) -> Option<u32> {
        let pin = primary.annotations.pin().ok().flatten();
        pin.or_else(|| gate::target(&self.release().unwrap_or_default(), primary.uid()))
    }

    /// Returns whether tests are yet to run.
    pub(crate) fn is_test_due(&self, primary: &Primary) -> bool {
        let release = self.release();
        self.may_test(primary) && release.as_deref().and_then(gate::tests) == Some(Tests::Due)
    }

    fn may_test(&self, primary: &Primary) -> bool {
        self.shared.settings.chart_tests.enable && !primary.annotations.disable_hooks(Action::Test)
    }

    fn is_ready(&self, release: &ReleaseRecords) -> bool {
        release.deployed_marks().is_some_and(|marks| self.unhealthy(marks).is_empty())
    }

    /// Returns what the status says about the tests; `None` if there are none.
    pub(crate) fn test_report(&self, primary: &Primary) -> Option<TestReport> {
        let release = self.release()?;
        let by_tests = gate::rejected(&release).filter(|rejected| rejected.by == RejectedBy::Tests);
        let rejected = by_tests.map(|rejected| rejected.version);
        let (revision, tests) = match (rejected, gate::tests(&release)) {
            (Some(version), _) => (version, Tests::Rejected),
            (None, Some(Tests::Due)) if !self.may_test(primary) => return None,
            (None, Some(tests)) => (release.deployed()?.0, tests),
            (None, None) => return None,
        };
        let memory = self.shared.memory.of(self.key);
        let known = memory.status.test_failure.as_deref().filter(|(of, _)| *of == revision);
        Some(TestReport { revision, tests, message: known.map(|(_, message)| message.clone()) })
    }

    /// Returns why the resource's inputs are not tried again, if it is because their revision failed its tests.
    pub(crate) fn rejection(&self, primary: &Primary) -> Option<Fault> {
        let release = self.release();
        let by_tests = release.as_deref().and_then(gate::rejected).filter(|rejected| rejected.by == RejectedBy::Tests);
        if by_tests.is_none() || self.gate(primary, release.as_deref()) != Gate::Closed {
            return None;
        }
        let message = self.test_report(primary)?.failure(&primary.status);
        let message = format!("{message}; it was rolled back");
        Some(Fault { condition: condition::RELEASE_FAILED, reason: Reason::TestFailed, message })
    }
}

/// Runs the tests of the deployed revision. Reports and records their outcome; a failure is no failed reconcile.
pub(crate) async fn test(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    let release = context.release().unwrap_or_default();
    let deployed = release.deployed().and_then(|(version, revision)| Some((version, revision.marks.clone()?)));
    let Some((version, marks)) = deployed else { return Ok(NextStep::Done) };
    let settings = context.shared.settings.chart_tests;
    let is_undone = settings.on_failure == OnTestFailure::Rollback && gate::target(&release, primary.uid()).is_some();
    _ = context.ran.take();
    let mut env = context.environment(primary, Action::Test);
    context.running.test(version);
    env.options.hook_timeout = Some(settings.timeout).filter(|limit| !limit.is_zero());
    let began = Instant::now();
    let if_failed = if is_undone { Tests::Rejected } else { Tests::Failed };
    let tested = match due(context, &env, version, &marks).await {
        Ok(marks) => action::test(&env, version, &marks, if_failed).await,
        Err(error) => Err(error),
    };
    let cause = tested.as_ref().map_or_else(Some, |tested| tested.failed.as_ref());
    context.count_action(Action::Test, began, cause);
    match tested {
        Err(error) if error.is_interruption() => Ok(interrupted(context, primary, &error).await),
        Err(error) if error.is_replaced() => follow_replacement(context, primary, version).await,
        tested => {
            if let Some(tested) = context.unless_unproven(version, tested)? {
                conclude(context, primary, version, tested).await;
            }
            Ok(NextStep::Again)
        }
    }
}

/// Returns the marks of a revision whose tests are due, after recording that if a person wants them to run again. From then
/// on the record carries the request, which a lost answer would otherwise repeat.
async fn due(
    context: &StepContext<'_>,
    env: &Environment<'_>,
    version: u32,
    marks: &Arc<Marks>,
) -> Result<Arc<Marks>, action::Error> {
    let due = match marks.tests {
        Some(Tests::Due) => marks.clone(),
        _ => {
            let (written, due) = action::expect_tests_again(env, version, marks).await?;
            remediate::cache_marks(context, version, Some((written, due.clone())));
            Arc::new(due)
        }
    };
    context.shared.memory.change(context.key, |memory| memory.triggers.test_again = None);
    Ok(due)
}

/// Reads the records of a release again: the tested revision was replaced, or an earlier run of its tests is already
/// recorded. The events may be late.
async fn follow_replacement(context: &StepContext<'_>, primary: &Primary, version: u32) -> Result<NextStep, Failed> {
    tracing::info!(resource = %context.key, revision = version, "The record of the revision whose tests ran has changed");
    _ = context.ran.take();
    let records = context.storage.history(primary.namespace(), primary.name()).await;
    context.shared.cache.catch_up(context.key, records.map_err(|error| fault(&error.into()))?);
    Ok(NextStep::Again)
}

/// Stores and publishes the outcome.
async fn conclude(context: &StepContext<'_>, primary: &Primary, version: u32, tested: Tested) {
    let Tested { written, marks, failed } = tested;
    let is_undone = marks.tests == Some(Tests::Rejected);
    context
        .shared
        .cache
        .change_release(context.key, |release| release.put_written(version, Status::Deployed, written, marks));
    context.succeed();
    let Some(error) = failed else {
        let note = format!("revision {version} passed its tests{}", context.ran.take());
        tracing::info!(resource = %context.key, revision = version, "The release passed its tests");
        context.shared.publish(primary, Outcome::normal(TEST_SUCCEEDED, "Test", note));
        return forget_failure(context, None);
    };
    let message = format!("revision {version} failed its tests: {}", chain(&error));
    let fault = Fault { condition: condition::RELEASE_FAILED, reason: Reason::TestFailed, message };
    context.publish_hook_logs(primary).await;
    let message = context.redacted(primary, fault).await.message;
    tracing::error!(resource = %context.key, reason = Reason::TestFailed.as_str(), error = message, "The release failed its tests");
    let is_left = context.shared.settings.chart_tests.on_failure == OnTestFailure::Rollback && !is_undone;
    let left = if is_left { "; there is no earlier revision to roll back to" } else { "" };
    let message = format!("{message}{left}");
    context.shared.publish(primary, Outcome::warning(Reason::TestFailed.as_str(), "Test", message.clone()));
    forget_failure(context, Some((version, message)));
}

/// Replaces the memory of a failed test.
fn forget_failure(context: &StepContext<'_>, failure: Option<(u32, String)>) {
    _ = context.ran.take();
    context.shared.memory.change(context.key, |memory| memory.status.test_failure = failure.map(Box::new));
}

/// Rolls back the revision that failed its tests, or that its rollout takes back, or to the one that the release is
/// pinned to.
pub(crate) async fn roll_back(context: &StepContext<'_>, primary: &Primary) -> Result<Ended, Failed> {
    if let Some(ended) = begun_uninstall::stop(context, primary).await? {
        return Ok(ended);
    }
    let release = context.release().unwrap_or_default();
    let pin = primary.annotations.pin().ok().flatten();
    let rejected = || gate::rejected(&release).map(|rejected| rejected.into_owned());
    let rejected = context.taken_back(primary, &release).or_else(rejected);
    // What a rollout took back stays rejected for it, unless the pin asks for that very revision.
    let is_noted = |one: &Rejected| pin.is_none_or(|to| one.by == RejectedBy::Rollout && one.version != to);
    let rejected = rejected.filter(is_noted);
    let (Some(to), Some(current)) = (context.rollback_target(primary), context.current(primary)) else {
        return Ok(NextStep::Done.into());
    };
    let why = match rejected.as_ref().filter(|_| pin.is_none()) {
        Some(rejected) if rejected.by == RejectedBy::Rollout => {
            format!("the rollout of the chart, which made revision {}, is taken back", rejected.version)
        }
        Some(rejected) => format!("revision {} failed its tests", rejected.version),
        None => "the annotation pin asks for it".to_owned(),
    };
    let mut env = context.environment(primary, Action::Rollback);
    context.running.makes_revision(current.version_of_rollback());
    (env.options.refused, env.options.rejected) = (None, rejected.map(Box::new));
    _ = context.ran.take();
    let began = Instant::now();
    let rolled_back = match remediate::base(&env, current).await {
        Ok(current) => action::rollback_to(&env, &current, to).await,
        Err(cause) => Err(cause.into()),
    };
    context.count_action(Action::Rollback, began, rolled_back.as_ref().err().map(|failure| &failure.cause));
    match rolled_back {
        Ok(outcome) => {
            let (made, hooks) = (outcome.version, context.ran.take());
            tracing::info!(resource = %context.key, to, revision = made, "Rolled back release");
            let note = format!("rolled back to revision {to} as revision {made}: {why}{hooks}");
            context.shared.publish(primary, Outcome::normal("RolledBack", "Rollback", note));
            record(context, outcome).await;
            context.succeed();
            Ok(NextStep::Again.with([Learned::Outdated]))
        }
        Err(failure) => {
            if let Some(version) = failure.cause.ended() {
                return follow_end(context, primary, version).await;
            }
            remediate::note(context, &failure);
            if failure.cause.is_interruption() {
                return Ok(interrupted(context, primary, &failure.cause).await.into());
            }
            let failed = Failed::of_step(&failure.cause, condition::RELEASE_FAILED, Reason::UpgradeError);
            Err(failed)
        }
    }
}
