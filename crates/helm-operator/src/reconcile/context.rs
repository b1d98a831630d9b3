//! One reconcile: observes, takes the next step, and repeats until nothing is left to do; then records the outcome once.

use std::sync::Arc;
use std::time::Duration;

use helm_release::action::{Candidate, Current, Environment, Interrupted, Options, Refusal};
use helm_release::kube::{Adopt, Applier, Decoration, Slot};
use helm_release::storage::Known;
use tokio::time::Instant;

use super::failure::Failed;
use super::shared::Shared;
use crate::metrics::ReconcileResult;
use crate::reconcile::decide::interruption::{Aim, Running};
use crate::reconcile::decide::schedule::End;
use crate::reconcile::decide::state::{Inputs, Recorded, Step, next_step};
use crate::reconcile::decide::{compare, triggers};
use crate::reconcile::report::changes::RanHooks;
use crate::reconcile::report::outcome::{foreign, invalid_annotation, unwatched_records};
use crate::reconcile::report::progress::{Progress, publish_progress};
use crate::reconcile::report::{headline, status_writer};
use crate::reconcile::steps::sources::Loaded;
use crate::reconcile::steps::{deploy, detect, impersonation, remediate, repair, resync, supersede, uninstall};
use crate::runtime::concurrency::Lane;
use crate::status::{Fault, condition};
use crate::values::Spec;
use crate::view::primary::{Primary, ResourceKey};
use crate::view::release::Revision;

/// The limit of steps in one reconcile; reaching it is a bug.
const MAX_STEPS: usize = 12;

/// How long a resource waits while the controller of another version reconciles it.
const TAKEN: Duration = Duration::from_secs(1);

/// Reconciles one resource until nothing is left to do, or until that needs a turn of another lane.
pub(crate) async fn reconcile(shared: &Shared, key: &ResourceKey, slot: &dyn Slot, lane: Lane) -> ReconcileResult {
    let Some(_place) = shared.intake.take(key) else {
        shared.queue.push_after(key.clone(), TAKEN);
        return ReconcileResult::RequeueAfter;
    };
    let progress = Progress::new(shared, key, slot);
    let waits = progress.subscribe();
    let (ran, running) = (progress.ran(), progress.running());
    let mut work = Work { lane, ran, running: running.clone(), ..Work::new(shared, key, &progress) };
    let end = publish_progress(shared, key, (waits, running), Box::pin(work.steps())).await;
    status_writer::settle(&work, end).await
}

/// Records that a reconcile panicked; the resource waits as after any failure.
pub(crate) async fn after_panic(shared: &Shared, key: &ResourceKey) -> ReconcileResult {
    let work = Work::new(shared, key, &());
    if let Some(primary) = shared.cache.primary(key) {
        let message = "the operator panicked while reconciling this resource, which is a bug: see its log".to_owned();
        let fault = Fault { condition: condition::IRRECONCILABLE, reason: "InternalError", message };
        work.fail(&primary, &Failed::Blocked(fault));
    }
    status_writer::settle(&work, End::Failed).await
}

/// A running reconcile.
pub(crate) struct Work<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) key: &'a ResourceKey,
    pub(crate) slot: &'a dyn Slot,
    /// Who the turn is for. Default: any resource.
    pub(crate) lane: Lane,
    /// Reads and writes the objects of the release, as the watch's ServiceAccount if it has one.
    pub(crate) applier: Applier,
    /// Whether that account is gone, so that the operator itself cleans up.
    pub(crate) orphaned: bool,
    /// The rendered candidate for the next revision.
    pub(crate) candidate: Option<Candidate>,
    /// The deployed revision as the chart renders it, if its record has yet to be judged by that.
    pub(crate) rendered: Option<Candidate>,
    /// What comparing or rendering found.
    pub(crate) judged: Option<Inputs>,
    /// The discovery before it rendered.
    pub(crate) discovered: Option<usize>,
    /// The `spec` that the cache does not keep.
    pub(crate) spec: Option<Spec>,
    /// What the sources of values hold.
    pub(crate) loaded: Option<Loaded>,
    /// How far a full reconcile got.
    pub(crate) progress: triggers::Progress,
    /// The hooks that ended and no event has named yet.
    pub(crate) ran: Arc<RanHooks>,
    /// The action that runs.
    running: Arc<Running>,
    /// Whether the resource waits for a place among the upgrades.
    pub(crate) in_line: bool,
    /// Deleted objects that still exist.
    pub(crate) awaited: Option<String>,
    /// Whether the resource was read again.
    reread: bool,
    /// When the last step was decided.
    pub(crate) decided: Instant,
    /// How many steps were decided.
    steps: usize,
}

/// When to take the next step.
pub(crate) enum Next {
    /// At once.
    Again,
    /// At once, with nothing that was found out before: the resource has changed.
    Anew,
    /// When something changes, or after the period.
    Done,
    /// When something changes, or at this time if no watch reports the change.
    At(Instant),
}

impl<'a> Work<'a> {
    pub(crate) fn new(shared: &'a Shared, key: &'a ResourceKey, slot: &'a dyn Slot) -> Work<'a> {
        let decided = Instant::now();
        let progress = triggers::Progress::default();
        Work {
            shared,
            key,
            slot,
            lane: Lane::Common,
            applier: impersonation::acting_as(&shared.applier, shared.settings.account.as_ref(), &key.namespace),
            orphaned: false,
            candidate: None,
            rendered: None,
            judged: None,
            discovered: None,
            spec: None,
            loaded: None,
            progress,
            ran: Arc::default(),
            running: Arc::default(),
            in_line: false,
            awaited: None,
            reread: false,
            decided,
            steps: 0,
        }
    }
}

impl Work<'_> {
    /// Takes one step after another until nothing is left to do or one fails.
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
            // Reading what a reconcile starts from does nothing yet.
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
        let fault = Fault { condition: condition::IRRECONCILABLE, reason: "InternalError", message };
        self.fail(&primary, &Failed::Blocked(fault));
        End::Failed
    }

    /// Forgets what was found out about the resource, as a new reconcile would.
    fn forget(&mut self) {
        let (lane, ran, running) = (self.lane, self.ran.clone(), self.running.clone());
        *self = Work { lane, ran, running, ..Work::new(self.shared, self.key, self.slot) };
    }

    /// Logs, in upstream's words, that nothing is left to do; at debug level if this reconcile did nothing.
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

    /// A failed repair holds repairs; any other failure holds everything else.
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
                self.shared.cache.change_history(self.key, |history| history.drift.clear_ended_fight(self.decided));
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
                    Err(Failed::Attempt(attempt)) => Err(remediate::clean_up(self, primary, attempt).await.into()),
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

    /// Whether the controller of another version may have made the newest revision, because it serves the resource now and this one's watch lags.
    fn may_be_another_versions(&self) -> bool {
        self.shared.intake.version.is_some() && !self.reread && self.release().is_some()
    }

    /// Reads the resource before an upgrade, once: it may be another controller's.
    async fn reread(&mut self, primary: &Primary) -> Result<Next, Failed> {
        self.reread = true;
        uninstall::read_again(self, primary)
            .await
            .map_err(|e| Failed::of_request(&e, "cannot read the resource again"))?;
        Ok(Next::Again)
    }

    /// Waits for the turn of resources that failed.
    fn wait_for_retry(&self, primary: &Primary) -> Next {
        let has_changed = self.shared.cache.history(self.key).has_changed(&self.attempt(primary));
        self.shared.queue.retry(self.key, has_changed);
        Next::Done
    }

    /// The render kept others waiting: it is done in the turn of resources that failed, though nothing failed.
    pub(crate) fn postpone(&self) -> Next {
        self.shared.cache.change_history(self.key, |history| history.is_slow = true);
        Next::Again
    }

    /// After a deployment that was asked for, every object is applied, those without a change included.
    fn deployed(&mut self, primary: &Primary) {
        if self.full_reconcile(primary).is_some() {
            self.judged = Some(Inputs::RenderedSame);
        }
    }

    /// What identifies an attempt: different inputs are tried at once.
    pub(crate) fn attempt(&self, primary: &Primary) -> String {
        if primary.deleting {
            // An annotation may be what helps.
            format!("uninstall {:?}", primary.annotations)
        } else {
            format!("{} {:?}", self.inputs_digest(primary), primary.annotations)
        }
    }

    /// What the release, as it is recorded, adds to its objects.
    pub(crate) fn decoration(&self, primary: &Primary) -> Decoration {
        let release = self.release().unwrap_or_default();
        let marks = release.base().or(release.newest()).and_then(|(_, revision)| revision.marks.clone());
        Decoration { tie: marks.map(|marks| marks.tie()).unwrap_or_default(), ..self.shared.decoration(primary) }
    }

    pub(crate) fn environment<'b>(
        &'b self,
        decoration: &'b Decoration,
        primary: &Primary,
        action: &'static str,
    ) -> Environment<'b> {
        self.running.begin(Aim::of(primary, action), self.used_sources(primary));
        let options = Options {
            // A hook is what the account may do, and not what the operator may.
            disable_hooks: self.orphaned || primary.annotations.disable_hooks(action),
            adopt: self.granted(primary),
            description: primary.annotations.description(action),
            max_history: self.shared.settings.max_history,
            hook_timeout: self.hook_timeout(primary),
            apply: self.shared.settings.apply,
            crds: self.shared.settings.crds,
            recreate: self.shared.settings.recreate.clone(),
            reach: self.shared.settings.reach.clone(),
            ignore: self.shared.settings.drift.ignore.clone(),
            refused: self.refused(primary),
            before: self.shared.rollout.before(self.key),
            unclaimed_hooks: self.granted(primary) > Adopt::Never || self.release().is_some_and(|r| r.is_taken_over()),
        };
        Environment {
            applier: &self.applier,
            storage: &self.shared.storage,
            decoration,
            live: &self.shared.cache,
            slot: self.slot,
            options,
        }
    }

    /// The refusal of the last attempt, if it had the same inputs.
    fn refused(&self, primary: &Primary) -> Option<Refusal> {
        let history = self.shared.cache.history(self.key);
        let (inputs, refusal) = history.refused.as_deref()?;
        (*inputs == self.attempt(primary)).then(|| refusal.clone())
    }

    /// The release as actions need it; `None` if no revision exists.
    pub(crate) fn current(&self) -> Option<Current> {
        let release = self.release()?;
        let (version, newest) = release.newest()?;
        let base = release.base().map(|(v, _)| v);
        let packed = release.packed.as_ref().filter(|(v, _)| Some(*v) == base).map(|(_, p)| p.clone());
        let unfinished = newest.marks.as_ref().filter(|_| newest.status.is_pending() && newest.is_sealed());
        let deployed = release.deployed();
        Some(Current {
            version,
            pending: newest.status.is_pending(),
            versions: release.revisions.keys().copied().collect(),
            deployed: deployed.map(|(v, _)| v),
            marks: deployed
                .filter(|(_, revision)| revision.is_sealed())
                .and_then(|(_, revision)| revision.marks.clone()),
            outdated: release.outdated(),
            last_good: release.last_good(),
            inventory: release.inventory(),
            packed,
            first_deployed: release.first_deployed(),
            interrupted: unfinished.map(|m| Interrupted { inputs: m.inputs.clone(), hooks_done: m.hooks_done }),
            taken_over: release.is_taken_over(),
            string_overrides: release.has_string_overrides(),
        })
    }

    /// The records of the release.
    pub(crate) fn records(&self) -> Vec<Known> {
        let release = self.release().unwrap_or_default();
        let known = |(version, revision): (&u32, &Revision)| Known {
            version: *version,
            resource_version: Some(revision.resource_version).filter(|version| *version > 0),
        };
        release.revisions.iter().map(known).collect()
    }

    /// The time limit of one of the chart's hooks. An unreadable annotation does not block a deletion.
    fn hook_timeout(&self, primary: &Primary) -> Option<Duration> {
        let asked = primary.annotations.hook_timeout().ok().flatten();
        Some(asked.unwrap_or(self.shared.settings.hook_timeout)).filter(|limit| !limit.is_zero())
    }
}
