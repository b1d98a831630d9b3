//! Keeps one resource's release in line with its chart and values.
//!
//! The loop is here. `observe` reads what is true, `decide` determines the next step, `steps` act, and `report` records
//! the outcome once. Counterpart: operator-sdk's `internal/helm/controller` and helm-operator-plugins'
//! `pkg/reconciler`.

pub(crate) mod context;
pub(crate) mod shared;

pub(crate) mod accept;
pub(crate) mod versions;

pub(crate) mod observe;

pub(crate) mod decide;

pub(crate) mod steps;

pub(crate) mod failure;

pub(crate) mod report;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use controller::metrics::{Metrics, ReconcileResult};
use controller::runtime::concurrency::Permit;
use controller::runtime::key::ResourceKey;
use controller::runtime::priority::Priority;
use controller::runtime::queue::Queue;
use controller::runtime::retries::Attempt;
use controller::runtime::workers;
use futures::future::BoxFuture;
use helm_release::kube::Slot;
use tokio::time::Instant;

use crate::reconcile::context::{Next, Work};
use crate::reconcile::decide::schedule::End;
use crate::reconcile::decide::state::{Inputs, Recorded, Step, next_step};
use crate::reconcile::failure::Failed;
use crate::reconcile::report::outcome::{foreign, invalid_annotation, unwatched_records};
use crate::reconcile::report::progress::{Progress, publish_progress};
use crate::reconcile::report::{headline, status_writer};
use crate::reconcile::shared::Shared;
use crate::reconcile::steps::remediate::Stage;
use crate::reconcile::steps::{
    compare, deploy, detect, impersonation, remediate, repair, resync, supersede, uninstall,
};
use crate::status::reason::Reason;
use crate::status::{Fault, condition};
use crate::view::primary::Primary;

/// The maximum number of steps in one reconcile. Reaching it is a bug.
const MAX_STEPS: usize = 12;

/// How long a resource waits while the controller of another version reconciles it.
const TAKEN: Duration = Duration::from_secs(1);

/// Reconciles one resource until nothing is left to do, or until the next step needs a permit of another priority.
pub(crate) async fn reconcile(
    shared: &Shared,
    key: &ResourceKey,
    slot: &dyn Slot,
    priority: Priority,
) -> ReconcileResult {
    let Some(_place) = shared.intake.take(key) else {
        shared.queue.push_after(key.clone(), TAKEN);
        return ReconcileResult::RequeueAfter;
    };
    let progress = Progress::new(shared, key, slot);
    let waits = progress.subscribe();
    let (ran, running) = (progress.ran(), progress.running());
    let mut work = Work { priority, ran, running: running.clone(), ..Work::new(shared, key, &progress) };
    let end = publish_progress(shared, key, (waits, running), Box::pin(work.steps())).await;
    status_writer::settle(&work, end).await
}

/// Records that a reconcile panicked. The resource waits as after any failure.
pub(crate) async fn after_panic(shared: &Shared, key: &ResourceKey) -> ReconcileResult {
    let work = Work::new(shared, key, &());
    if let Some(primary) = shared.cache.primary(key) {
        let message = "the operator panicked while reconciling this resource, which is a bug: see its log".to_owned();
        let fault = Fault { condition: condition::IRRECONCILABLE, reason: Reason::InternalError, message };
        work.fail(&primary, &Failed::Blocked(fault));
    }
    status_writer::settle(&work, End::Failed).await
}

impl Work<'_> {
    /// Takes steps until nothing is left to do, or one fails.
    async fn steps(&mut self) -> End {
        let mut left = MAX_STEPS;
        while left > 0 {
            left -= 1;
            let Some(primary) = self.shared.cache.primary(self.key) else { return End::Idle };
            let primary = self.with_spec(primary);
            self.decided = Instant::now();
            self.depend_on_sources(&primary);
            self.accept_retry(&primary);
            self.report_rival(&primary);
            let observed = self.observe(&primary);
            let step = next_step(&observed);
            // Reading what a reconcile starts from changes nothing yet.
            self.steps += usize::from(step != Step::ReadSources);
            tracing::debug!(resource = %self.key, %step, because = %observed, "Next step");
            let done = match self.read_spec(step, &primary).await {
                Ok(None) => self.act(step, &primary).await,
                Ok(Some(next)) => Ok(next),
                Err(unanswered) => Err(unanswered.into()),
            };
            match done {
                Ok(Next::Again) => {}
                Ok(Next::Anew) => {
                    self.forget();
                    left = MAX_STEPS;
                }
                Ok(Next::Done) if observed.is_idle() => return End::Idle,
                Ok(Next::Done) => return End::Rest,
                Ok(Next::At(time)) => return End::At(time),
                Err(failed) => {
                    let primary = self.completed(&primary).await.unwrap_or(primary);
                    let fault = self.veiled(&primary, failed.fault().clone()).await;
                    let account = self.shared.settings.account.as_ref();
                    let fault = impersonation::explain(fault, account, &self.shared.resource);
                    let fault = headline::arrange(fault, self.shared.renderer.chart_name());
                    return self.failed(step, &primary, failed.reported_as(fault));
                }
            }
        }
        let Some(primary) = self.shared.cache.primary(self.key) else { return End::Idle };
        let message = format!("the resource is not settled after {MAX_STEPS} steps, which is a bug");
        let fault = Fault { condition: condition::IRRECONCILABLE, reason: Reason::InternalError, message };
        self.fail(&primary, &Failed::Blocked(fault));
        End::Failed
    }

    /// Forgets all findings about the resource, as a new reconcile would.
    fn forget(&mut self) {
        let (priority, ran, running) = (self.priority, self.ran.clone(), self.running.clone());
        *self = Work { priority, ran, running, ..Work::new(self.shared, self.key, self.slot) };
    }

    /// Logs, in upstream's words, that nothing is left to do. Uses debug level if this reconcile did nothing.
    fn log_rest(&self, primary: &Primary) {
        match self.recorded(primary) {
            _ if primary.annotations.pause() => {
                tracing::info!(resource = %self.key, "Reconcile is paused for this resource.")
            }
            Recorded::Deployed if self.steps > 1 => tracing::info!(resource = %self.key, "Reconciled release"),
            Recorded::Deployed => tracing::debug!(resource = %self.key, "Reconciled release"),
            _ => {}
        }
    }

    /// Records a failure. A failed repair delays only repairs; any other failure delays everything but repairs.
    fn failed(&self, step: Step, primary: &Primary, failed: Failed) -> End {
        if matches!(step, Step::Repair | Step::Detect) {
            self.fail_repair(primary, failed.fault())
        } else {
            self.fail(primary, &failed)
        }
        End::Failed
    }

    async fn act(&mut self, step: Step, primary: &Arc<Primary>) -> Result<Next, Failed> {
        match step {
            Step::Nothing => {
                self.log_rest(primary);
                self.clear_failure(primary);
                Ok(Next::Done)
            }
            Step::Wait => {
                self.shared.memory.change(self.key, |history| history.drift.clear_ended_fight(self.decided));
                Ok(Next::Done)
            }
            Step::Refuse => Err(foreign(primary).into()),
            Step::ReportInvalidAnnotation => {
                Err(invalid_annotation(&self.annotation_fault(primary).unwrap_or_default()).into())
            }
            Step::ReportBlindness => Err(unwatched_records(&self.shared.cache.namespace_of_records(self.key)).into()),
            Step::LeaveAlone => Ok(self.leave(primary)),
            Step::GiveWay => Ok(self.give_way(primary)),
            Step::AddFinalizer => uninstall::add_finalizer(self, primary).await,
            Step::Read => repair::read(self, primary).await,
            Step::ReadSources => self.load_sources(primary).await.map(|()| Next::Again),
            Step::Compare => compare::compare(self, primary).await,
            Step::Queue => Ok(self.get_in_line()),
            Step::Retry => Ok(self.wait_for_retry(primary)),
            Step::Reapply => resync::reapply(self, primary).await,
            Step::Render | Step::Uninstall if self.is_account_gone(primary).await => match step {
                Step::Render => Err(self.missing_account(primary).into()),
                _ => {
                    self.act_as_operator();
                    uninstall::uninstall(self, primary).await
                }
            },
            Step::Render if self.may_be_another_versions() => self.reread(primary).await,
            Step::Render => match self.still_unserved(primary).await {
                Some(attempt) => Err(attempt.into()),
                None => match self.render(primary).await {
                    Err(Failed::Attempt(attempt)) => {
                        Err(remediate::clean_up(self, primary, attempt, Stage::Render).await.into())
                    }
                    rendered => rendered,
                },
            },
            Step::Install => deploy::install(self, primary).await.inspect(|_| self.deployed(primary)),
            Step::Upgrade => {
                self.begin_upgrade(primary, self.release().as_deref());
                deploy::upgrade(self, primary).await.inspect(|_| self.deployed(primary))
            }
            Step::TakeOwnership => repair::take_ownership(self, primary).await,
            Step::Repair => repair::repair(self, primary).await,
            Step::Detect => detect::detect(self, primary).await,
            Step::Confirm => repair::confirm(self).await,
            Step::Supersede => supersede::supersede(self).await,
            Step::Uninstall => uninstall::uninstall(self, primary).await,
            Step::RemoveFinalizer => uninstall::remove_finalizer(self, primary).await,
        }
    }

    /// Returns whether the controller of another version may have created the newest revision, because it serves the
    /// resource now and our watch lags behind.
    fn may_be_another_versions(&self) -> bool {
        self.shared.intake.version.is_some() && !self.reread && self.release().is_some()
    }

    /// Reads the resource once before an upgrade, because another controller may serve it by now.
    async fn reread(&mut self, primary: &Primary) -> Result<Next, Failed> {
        self.reread = true;
        uninstall::read_again(self, primary)
            .await
            .map_err(|e| Failed::of_request(&e, "cannot read the resource again"))?;
        Ok(Next::Again)
    }

    /// Queues the resource for a retry permit.
    fn wait_for_retry(&self, primary: &Primary) -> Next {
        let has_changed = self.shared.memory.of(self.key).has_changed(&self.attempt(primary));
        let attempt = if has_changed { Attempt::Corrected } else { Attempt::Same };
        self.shared.queue.retry(self.key, attempt);
        Next::Done
    }

    /// Postpones a render that delayed others: although nothing failed, it is repeated with a retry permit.
    pub(crate) fn postpone(&self) -> Next {
        self.shared.memory.change(self.key, |history| history.is_slow = true);
        Next::Again
    }

    /// Makes a requested full reconcile apply every object after a deployment, including unchanged ones.
    fn deployed(&mut self, primary: &Primary) {
        if self.full_reconcile(primary).is_some() {
            self.judged = Some(Inputs::RenderedSame);
        }
    }
}

impl workers::Reconcile for Shared {
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
