//! Keeps one resource's release in line with its chart and values.
//!
//! The loop is here. `observe` reads what is true, `decide` determines the next step, `steps` act, and `report` records
//! the outcome once. Counterpart: operator-sdk's `internal/helm/controller` and helm-operator-plugins'
//! `pkg/reconciler`.

// What is decided.
pub(crate) mod accept;
pub(crate) mod failure;
pub(crate) mod versions;

pub(crate) mod decide;

// What a step works with, and what it returns.
pub(crate) mod changes;
pub(crate) mod diagnoses;
pub(crate) mod learned;

pub(crate) mod controller_context;
pub(crate) mod ownership;
pub(crate) mod step_context;

// What is true.
mod live_view;
pub(crate) mod observe;
pub(crate) mod reread;

pub(crate) mod restore;

pub(crate) mod drain;

// What is done and reported.
pub(crate) mod report;

pub(crate) mod rehearse;
pub(crate) mod steps;

pub(crate) mod progress;
pub(crate) mod rejected;
pub(crate) mod twin;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use controller::metrics::{Metrics, ReconcileResult};
use controller::runtime::concurrency::Permit;
use controller::runtime::key::ResourceKey;
use controller::runtime::priority::Priority;
use controller::runtime::queue::Queue;
use controller::runtime::workers;
use futures::future::BoxFuture;
use helm_release::kube::Slot;
use tokio::time::Instant;

use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::schedule::End;
use crate::reconcile::decide::state::{Observed, Recorded, Step, next_step};
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, FailedStep, Findings, NextStep};
use crate::reconcile::progress::{Progress, publish_progress};
use crate::reconcile::report::faults::{foreign, invalid_annotation, unwatched_records};
use crate::reconcile::report::{headline, status_writer};
use crate::reconcile::step_context::StepContext;
use crate::reconcile::steps::{
    chart_tests, compare, dependencies, deploy, detect, finalizer, impersonation, plan, render, repair, resync,
    supersede, uninstall,
};
use crate::status::reason::Reason;
use crate::status::{Fault, condition};
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

/// The maximum number of steps in one reconcile. Reaching it is a bug.
const MAX_STEPS: usize = 12;

/// How long a resource waits while the controller of another version reconciles it.
const TAKEN: Duration = Duration::from_secs(1);

/// Reconciles one resource until nothing is left to do, or until the next step needs a permit of another priority.
pub(crate) async fn reconcile(
    shared: &ControllerContext,
    key: &ResourceKey,
    slot: &dyn Slot,
    priority: Priority,
) -> ReconcileResult {
    let Some(_place) = shared.acceptance.take(key) else {
        shared.queue.push_after(key.clone(), TAKEN);
        return ReconcileResult::RequeueAfter;
    };
    if let Some(given_up) = drain::give_up(shared, key).await {
        return given_up;
    }
    shared.shard.iter().for_each(|shard| _ = shard.begin(key));
    // The resource has just left this shard, or never belonged to it.
    if shared.end_writes(key) {
        return ReconcileResult::Success;
    }
    if let Some(waits) = drain::catch_up(shared, key).await {
        return waits;
    }
    if let Some(left) = rejected::leave(shared, key).await {
        return left;
    }
    let progress = Progress::new(shared, key, slot);
    let (ran, running) = (progress.ran.clone(), progress.running.clone());
    let context = StepContext { priority, ran, running, ..StepContext::new(shared, key, &progress) };
    let mut reconcile = ReconcileLoop { context, steps: 0, last: None, has_changed: false };
    let Some(end) = publish_progress(shared, key, progress.subscribe(), Box::pin(reconcile.run())).await else {
        tracing::info!(resource = %key, "Stopping while the release waits: the process that serves it next resumes it");
        return ReconcileResult::RequeueAfter;
    };
    if shared.is_leaving(key) || shared.cache.primary(key).is_some_and(|primary| primary.is_drained) {
        tracing::info!(resource = %key, "Stopping because the resource is gone or goes to another shard");
        return ReconcileResult::Success;
    }
    if let Some(left) = rejected::leave(shared, key).await {
        return left;
    }
    status_writer::finish(&reconcile.context, reconcile.last.as_deref(), end).await
}

/// Records that a reconcile panicked. It is retried with backoff, as after any failure.
pub(crate) async fn after_panic(shared: &ControllerContext, key: &ResourceKey) -> ReconcileResult {
    let context = StepContext::new(shared, key, &());
    if let Some(primary) = shared.cache.primary(key) {
        let message = "the operator panicked while reconciling this resource, which is a bug: see its log".to_owned();
        let fault = Fault { condition: condition::IRRECONCILABLE, reason: Reason::InternalError, message };
        context.fail(&primary, &Failed::Blocked(fault));
    }
    status_writer::finish(&context, None, End::Failed).await
}

struct ReconcileLoop<'a> {
    context: StepContext<'a>,
    /// How many steps were decided.
    steps: usize,
    /// The resource that the last step was decided on.
    last: Option<Arc<Primary>>,
    /// Whether the resource has changed since the first step.
    has_changed: bool,
}

impl ReconcileLoop<'_> {
    /// Takes steps until nothing is left to do, or one fails.
    async fn run(&mut self) -> End {
        let (shared, key) = (self.context.shared, self.context.key);
        let mut left = MAX_STEPS;
        while left > 0 {
            left -= 1;
            // A step may have taken long, so the state that it was decided on may be outdated.
            shared.contact.resumed().await;
            let known = shared.cache.primary(key).filter(|primary| !primary.is_drained && !shared.is_leaving(key));
            let Some(primary) = known.filter(|primary| !rejected::is_left(shared, primary)) else {
                return End::Idle;
            };
            let (step, primary, observed) = self.decide(primary);
            match self.take(step, &primary, &observed).await {
                Ok(NextStep::Again) if !self.context.is_outdated() => {}
                Ok(NextStep::Again | NextStep::Anew) => left = self.anew(),
                Err(_) if shared.is_leaving(key) => return End::Idle,
                Err(_) if self.context.is_outdated() => {
                    tracing::info!(resource = %key, %step, "Lost contact with the API server: deciding again");
                    left = self.anew();
                }
                Ok(NextStep::Done) if observed.is_idle() => return End::Idle,
                Ok(NextStep::Done) => return End::Rest,
                Ok(NextStep::At(time)) => return End::At(time),
                Err(failed) => return self.failed(step, primary, failed).await,
            }
        }
        if self.has_changed {
            return End::At(Instant::now());
        }
        let Some(primary) = shared.cache.primary(key) else { return End::Idle };
        let message = format!("the resource is not settled after {MAX_STEPS} steps, which is a bug");
        let fault = Fault { condition: condition::IRRECONCILABLE, reason: Reason::InternalError, message };
        self.context.fail(&primary, &Failed::Blocked(fault));
        End::Failed
    }

    /// Forgets what earlier steps found. Returns how many steps are left.
    fn anew(&mut self) -> usize {
        self.context.found = Findings::default();
        self.steps = 0;
        MAX_STEPS
    }

    /// Determines the next step. Returns it with the resource and what it depends on.
    fn decide(&mut self, primary: Arc<Primary>) -> (Step, Arc<Primary>, Observed) {
        let context = &mut self.context;
        // Findings about an earlier `spec` do not apply to this one.
        if self.last.as_ref().is_some_and(|last| primary.differs_from(last)) {
            context.found = Findings::default();
            self.has_changed = true;
        }
        self.last = Some(primary.clone());
        let primary = context.with_spec(primary);
        context.begin_decision();
        context.depend_on_sources(&primary);
        context.accept_retry(&primary);
        context.report_competitor(&primary);
        if let Some(marks) = context.release().as_deref().and_then(ReleaseRecords::deployed_marks) {
            context.shared.watch_deployed(marks);
            // Late events may show the revision that a deletion has just uninstalled.
            if !primary.deleting {
                context.shared.forget_uninstall(context.key);
            }
        }
        let observed = context.observe(&primary);
        let step = next_step(&observed);
        if observed.only_drifts() {
            context.succeed();
        }
        // Reading what a reconcile starts from changes nothing yet.
        self.steps += usize::from(!matches!(step, Step::ReadSources | Step::ReadDependencies));
        tracing::debug!(resource = %context.key, %step, because = %observed, "Next step");
        (step, primary, observed)
    }

    /// Takes a step, and keeps what it learned.
    async fn take(&mut self, step: Step, primary: &Arc<Primary>, observed: &Observed) -> Result<NextStep, Failed> {
        let (next, learned) = match self.act(step, primary, observed).await {
            Ok(Ended { next, learned }) => (Ok(next), learned),
            Err(FailedStep { failed, learned }) => (Err(failed), learned),
        };
        self.context.publish_left(primary);
        learned.into_iter().for_each(|learned| self.context.found.learn(learned));
        next
    }

    /// Records a failure. A failed repair delays only repairs; any other failure delays everything but repairs.
    async fn failed(&self, step: Step, primary: Arc<Primary>, failed: Failed) -> End {
        let context = &self.context;
        let primary = context.completed(&primary).await.unwrap_or(primary);
        context.publish_hook_logs(&primary).await;
        let fault = context.redacted(&primary, failed.fault().clone()).await;
        let fault =
            impersonation::explain(fault, context.shared.settings.service_account.as_ref(), &context.shared.resource);
        let fault = headline::arrange(fault, context.shared.renderer.chart_name());
        let failed = failed.reported_as(fault);
        if matches!(step, Step::Repair | Step::Detect) {
            context.fail_repair(&primary, failed.fault())
        } else {
            context.fail(&primary, &failed)
        }
        End::Failed
    }

    /// Ends a reconcile that has nothing left to do.
    fn rest(&self, primary: &Primary) -> NextStep {
        self.log_rest(primary);
        self.context.clear_drift(primary);
        self.context.clear_ended_work(primary);
        NextStep::Done
    }

    /// Logs, in upstream's words, that nothing is left to do. Uses debug level if this reconcile did nothing.
    fn log_rest(&self, primary: &Primary) {
        match self.context.recorded(primary) {
            _ if primary.annotations.pause() => {
                tracing::info!(resource = %self.context.key, "Reconcile is paused for this resource.")
            }
            Recorded::Deployed if self.steps > 1 => tracing::info!(resource = %self.context.key, "Reconciled release"),
            Recorded::Deployed => tracing::debug!(resource = %self.context.key, "Reconciled release"),
            _ => {}
        }
    }

    /// Checks what a step relies on; returns whether it may begin now.
    async fn may_begin(&self, step: Step, primary: &Primary) -> Result<bool, Failed> {
        let context = &self.context;
        if context.may_judge_tokens(primary) {
            context.judge_tokens(primary).await;
            return Ok(false);
        }
        if step.trusts_records() {
            context.check_release_namespace(primary).await?;
        }
        Ok(context.has_room_for(step, primary).await)
    }

    /// Takes a step. Long ones are on the heap: otherwise a debug build reserves stack space for all of them at once,
    /// and twice while it makes a plan.
    async fn act(&self, step: Step, primary: &Arc<Primary>, observed: &Observed) -> Result<Ended, FailedStep> {
        let context = &self.context;
        if !self.may_begin(step, primary).await? {
            return Ok(NextStep::Again.into());
        }
        let ended = match step {
            _ if context.lacks_spec(step, primary) => NextStep::Again.with([context.read_spec(primary).await?]),
            Step::Nothing => self.rest(primary).into(),
            Step::Wait | Step::AwaitRoom => {
                if step == Step::Wait {
                    context.wants_no_room(primary);
                }
                context.clear_ended_drift(observed);
                NextStep::Done.into()
            }
            Step::Refuse => return Err(Failed::from(foreign(primary)).into()),
            Step::ReportInvalidAnnotation => {
                let why = context.annotation_fault(primary).unwrap_or_default();
                return Err(Failed::from(invalid_annotation(&why)).into());
            }
            Step::ReportBlindness => {
                let namespace = context.shared.cache.namespace_of_records(context.key);
                return Err(Failed::from(unwatched_records(&namespace)).into());
            }
            Step::LeaveAlone => context.leave(primary).into(),
            Step::GiveWay => context.give_way(primary),
            Step::AddFinalizer => finalizer::add_finalizer(context, primary).await?.into(),
            Step::Uninstall | Step::RemoveFinalizer if !drain::is_confirmed(context, primary).await? => {
                NextStep::Again.into()
            }
            Step::Read => repair::read(context, primary).await?.into(),
            Step::ReadSources => NextStep::Again.with([context.load_sources(primary).await?]),
            Step::ReadDependencies => dependencies::read(context, primary).await?.into(),
            Step::AwaitDependencies => {
                context.clear_ended_drift(observed);
                context.await_dependencies(primary)
            }
            Step::AwaitDependents => context.await_dependents(primary),
            Step::Compare => Box::pin(compare::compare(context, primary)).await?,
            Step::Queue => context.enqueue_upgrade(primary),
            Step::Retry => context.wait_for_retry(primary),
            Step::Plan => Box::pin(plan::plan(context, primary)).await?,
            Step::Reapply => Box::pin(resync::reapply(context, primary)).await?,
            Step::Render | Step::Uninstall if context.is_account_gone(primary).await => match step {
                Step::Render => return Err(Failed::from(context.missing_account(primary)).into()),
                _ => Box::pin(uninstall::uninstall(&context.as_operator(), primary)).await?,
            },
            Step::Render if context.may_be_another_versions() => context.reread(primary).await?,
            Step::Render => Box::pin(render::render(context, primary)).await?,
            Step::Install => match &context.found.candidate {
                Some(candidate) => Box::pin(deploy::install(context, primary, candidate)).await?,
                None => NextStep::Done.into(),
            },
            Step::Upgrade => {
                context.begin_upgrade(primary, context.release().as_deref());
                context.note_replacement();
                match &context.found.candidate {
                    Some(candidate) => Box::pin(deploy::upgrade(context, primary, candidate)).await?,
                    None => NextStep::Done.into(),
                }
            }
            Step::Test => Box::pin(chart_tests::test(context, primary)).await?.into(),
            Step::RollBack => {
                context.note_replacement();
                Box::pin(chart_tests::roll_back(context, primary)).await?
            }
            Step::TakeOwnership => repair::take_ownership(context, primary).await?,
            Step::Repair => Box::pin(repair::repair(context, primary)).await?.into(),
            Step::Detect => detect::detect(context, primary).await?.into(),
            Step::Confirm => repair::confirm(context).await?.into(),
            Step::Supersede => supersede::supersede(context, primary).await?.into(),
            Step::Uninstall => Box::pin(uninstall::uninstall(context, primary)).await?,
            Step::RemoveFinalizer => finalizer::remove_finalizer(context, primary).await?.into(),
        };
        Ok(ended)
    }
}

impl workers::Reconcile for ControllerContext {
    fn queue(&self) -> &Queue<ResourceKey> {
        &self.queue
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn controller(&self) -> &Arc<str> {
        &self.settings.controller
    }

    fn kind(&self) -> Cow<'_, str> {
        (&*self.resource.kind).into()
    }

    async fn rested(&self) {
        self.renderer.rested().await;
    }

    async fn informed(&self) {
        self.contact.resumed().await;
    }

    async fn reconcile(&self, key: &ResourceKey, permit: &Permit) -> ReconcileResult {
        reconcile(self, key, &HeldPermit(permit), permit.priority()).await
    }

    async fn panicked(&self, key: &ResourceKey) -> ReconcileResult {
        after_panic(self, key).await
    }
}

/// A permit that a reconcile gives up while it waits for a hook.
struct HeldPermit<'a>(&'a Permit);

impl Slot for HeldPermit<'_> {
    fn leave(&self) {
        self.0.leave();
    }

    fn enter(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.enter())
    }
}
