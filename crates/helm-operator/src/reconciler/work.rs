//! One reconcile: looks at what is true, does the next step, looks again, until nothing is left; then records the outcome once.

use std::sync::Arc;
use std::time::Duration;

use helm_release::action::{Candidate, Current, Environment, Options, Refusal, Unfinished};
use helm_release::kube::{Decoration, ObjectKey, Readiness, Slot, digest_json};
use helm_release::storage::Marks;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::history::{Failed, History};
use super::primary::{Primary, ResourceKey};
use super::progress::{Progress, publishing};
use super::recorded::recorded;
use super::release::Release;
use super::render::Request;
use super::schedule::End;
use super::state::{Inputs, Objects, Observed, Recorded, Step, next_step};
use super::{Shared, compare, correct_drift, deploy, settle, undo, uninstall};
use crate::backoff::Retry;
use crate::metrics::ReconcileResult;
use crate::report::Outcome;
use crate::status::{Fault, Health, condition};

/// No resource needs more steps than this; exceeding it is a bug.
const MAX_STEPS: usize = 12;
/// Works on one resource until nothing is left to do.
pub(super) async fn reconcile(shared: &Shared, key: &ResourceKey, slot: &dyn Slot) -> ReconcileResult {
    let progress = Progress::new(slot);
    let said = progress.said();
    let mut work = Work::new(shared, key, &progress);
    let end = publishing(shared, key, said, Box::pin(work.steps())).await;
    settle::settle(&work, end).await
}

/// Notes that a reconcile panicked; the resource waits as after any failure.
pub(super) async fn after_panic(shared: &Shared, key: &ResourceKey) -> ReconcileResult {
    let work = Work::new(shared, key, &());
    if let Some(primary) = shared.cache.primary(key) {
        let message = "the operator failed on this resource, which is a bug; its log says where".to_owned();
        work.fail(&primary, Fault { condition: condition::IRRECONCILABLE, reason: "InternalError", message });
    }
    settle::settle(&work, End::Failed).await
}

/// A reconcile under way.
pub(super) struct Work<'a> {
    pub(super) shared: &'a Shared,
    pub(super) key: &'a ResourceKey,
    pub(super) slot: &'a dyn Slot,
    /// What was rendered, for the next revision.
    pub(super) candidate: Option<Candidate>,
    /// What comparing or rendering showed.
    pub(super) judged: Option<Inputs>,
    /// The objects are deleted, and these are waited for.
    pub(super) awaited: Option<String>,
    /// When the last step was decided.
    pub(super) decided: Instant,
}

/// Whether to look again after a step.
pub(super) enum Next {
    /// At once.
    Look,
    /// When something changes, or after the period.
    Done,
    /// When something changes, or at this time: no watch may tell.
    At(Instant),
}

impl<'a> Work<'a> {
    pub(super) fn new(shared: &'a Shared, key: &'a ResourceKey, slot: &'a dyn Slot) -> Work<'a> {
        Work { shared, key, slot, candidate: None, judged: None, awaited: None, decided: Instant::now() }
    }
}

impl Work<'_> {
    /// One step after the other, until there is none or one fails.
    async fn steps(&mut self) -> End {
        for _ in 0..MAX_STEPS {
            let Some(primary) = self.shared.cache.primary(self.key) else { return End::Idle };
            self.decided = Instant::now();
            let observed = self.observe(&primary);
            let step = next_step(&observed);
            tracing::debug!(resource = %self.key, %step, because = %observed, "Next step");
            match self.act(step, &primary).await {
                Ok(Next::Look) => {}
                Ok(Next::Done) if observed.is_idle() => return End::Idle,
                Ok(Next::Done) => return End::Rest,
                Ok(Next::At(time)) => return End::At(time),
                Err(fault) => return self.failed(step, &primary, fault),
            }
        }
        let Some(primary) = self.shared.cache.primary(self.key) else { return End::Idle };
        let message = format!("the resource was not settled after {MAX_STEPS} steps, which is a bug");
        self.fail(&primary, Fault { condition: condition::IRRECONCILABLE, reason: "InternalError", message });
        End::Failed
    }

    /// A failed repair holds repairs, any other failure everything else.
    fn failed(&self, step: Step, primary: &Primary, fault: Fault) -> End {
        if step == Step::Repair {
            self.fail_repair(primary, fault)
        } else {
            self.fail(primary, fault)
        }
        End::Failed
    }

    async fn act(&mut self, step: Step, primary: &Arc<Primary>) -> Result<Next, Fault> {
        match step {
            Step::Nothing => {
                self.calm(primary);
                Ok(Next::Done)
            }
            Step::Wait => {
                self.shared.cache.change_history(self.key, |history| history.drift.calm_fight(self.decided));
                Ok(Next::Done)
            }
            Step::Refuse => Err(foreign(primary)),
            Step::Complain => Err(misannotated(primary)),
            Step::Leave => Ok(self.leave(primary)),
            Step::AddFinalizer => uninstall::add_finalizer(self, primary).await,
            Step::Read => correct_drift::read(self, primary).await,
            Step::Compare => compare::compare(self, primary).await,
            Step::Render => match self.render(primary).await {
                Err(fault) => Err(undo::after_render(self, primary, fault).await),
                rendered => rendered,
            },
            Step::Install => deploy::install(self, primary).await,
            Step::Upgrade => deploy::upgrade(self, primary).await,
            Step::MoveIn => correct_drift::move_in(self, primary).await,
            Step::Repair => correct_drift::repair(self, primary).await,
            Step::Confirm => correct_drift::confirm(self).await,
            Step::Uninstall => uninstall::uninstall(self, primary).await,
            Step::RemoveFinalizer => uninstall::remove_finalizer(self, primary).await,
        }
    }

    fn observe(&self, primary: &Primary) -> Observed {
        let release = self.release();
        Observed {
            deleting: primary.deleting,
            finalizer: primary.has_finalizer(),
            suspended: primary.annotations.suspend(),
            release: self.recorded(primary),
            misannotated: primary.annotations.fault().is_some(),
            inputs: self.inputs(release.as_ref(), primary),
            objects: self.objects(release.as_ref(), primary),
            held: self.is_held(primary, release.as_ref()),
            listing: self.is_listing(),
        }
    }

    /// What the newest revision is to the resource.
    pub(super) fn recorded(&self, primary: &Primary) -> Recorded {
        recorded(
            self.release().as_ref(),
            is_lost(primary, &self.shared.cache.history(self.key)),
            &primary.owner(),
            primary.annotations.adopt(),
            Timestamp::now(),
        )
    }

    pub(super) fn release(&self) -> Option<Release> {
        self.shared.cache.release(self.key)
    }

    fn inputs(&self, release: Option<&Release>, primary: &Primary) -> Inputs {
        if let Some(judged) = self.judged {
            return judged;
        }
        let marks = release.and_then(Release::deployed).and_then(|(_, revision)| revision.marks.as_ref());
        compare::judge(marks.map(|marks| marks.inputs.as_str()), &self.inputs_digest(primary))
    }

    /// The digest of everything that the objects are made from.
    pub(super) fn inputs_digest(&self, primary: &Primary) -> String {
        let parts = json!([self.shared.renderer.digest(), primary.spec.digest(), primary.name(), primary.namespace()]);
        compare::with_scheme(&digest_json(&parts))
    }

    fn objects(&self, release: Option<&Release>, primary: &Primary) -> Objects {
        let Some(marks) = release.and_then(Release::deployed).and_then(|(_, r)| r.marks.as_ref()) else {
            return Objects::Intact;
        };
        if !marks.complete || marks.owner != primary.uid() {
            return Objects::Unmarked;
        }
        if self.drifted(marks).is_empty() {
            let overdue = self.shared.cache.overdue(&self.watched(marks));
            return if overdue.is_empty() { Objects::Intact } else { Objects::Unconfirmed };
        }
        let looping = self.shared.cache.history(self.key).drift.hold_until.is_some_and(|until| self.decided < until);
        if looping { Objects::Looping } else { Objects::Drifted }
    }

    /// The objects whose events a stream brings.
    pub(super) fn watched<'m>(&self, marks: &'m Marks) -> Vec<&'m ObjectKey> {
        marks.objects.iter().map(|object| &object.key).filter(|key| self.shared.cache.is_synced(key)).collect()
    }

    /// The objects that are gone or lost fields of ours. Where nothing is watched, everything once a period.
    pub(super) fn drifted(&self, marks: &Marks) -> Vec<ObjectKey> {
        let due = self.is_resync_due();
        let cache = &self.shared.cache;
        let drifted = marks.objects.iter().filter(|object| match cache.dependent(&object.key) {
            _ if !cache.is_synced(&object.key) => {
                due && (!self.shared.settings.watch_dependents || cache.is_refused(&object.key))
            }
            // It will be gone soon, and then it is put back.
            Some(live) if live.deleting => false,
            Some(live) if object.mark.is_none() || live.mark.is_none() => due && object.mark.is_none(),
            Some(live) => live.mark != object.mark,
            None => true,
        });
        drifted.map(|object| object.key.clone()).collect()
    }

    /// Whether a period has passed since everything was applied, for kinds whose drift nobody tells.
    fn is_resync_due(&self) -> bool {
        let period = self.shared.settings.period;
        let last = self.shared.cache.history(self.key).resynced;
        period > Duration::ZERO && last.is_none_or(|last| last.elapsed() >= period.mul_f64(0.9))
    }

    fn is_held(&self, primary: &Primary, release: Option<&Release>) -> bool {
        let history = self.shared.cache.history(self.key);
        // What the process before this one began is ended at once, whatever had failed before.
        let begun = release.and_then(Release::newest).is_some_and(|(_, newest)| newest.status.is_pending());
        let recalled = history.recalled(primary).is_some_and(|until| until > self.decided);
        (recalled && !begun) || history.held_until(&self.attempt(primary), self.decided).is_some()
    }

    /// What an attempt is made with: other inputs are tried at once.
    pub(super) fn attempt(&self, primary: &Primary) -> String {
        if primary.deleting {
            "uninstall".to_owned()
        } else {
            format!("{} {:?}", self.inputs_digest(primary), primary.annotations)
        }
    }

    async fn render(&mut self, primary: &Primary) -> Result<Next, Fault> {
        let release = self.release();
        let newest = release.as_ref().and_then(Release::newest).map(|(v, _)| v);
        let deployed = release.as_ref().and_then(Release::deployed).map(|(v, r)| (v, r.marks.clone()));
        // What was begun since may have changed the objects, whatever the deployed revision says of them.
        if let Some((revision, Some(marks))) = &deployed
            && newest == Some(*revision)
        {
            // As the deployed revision was rendered, so that a chart that prints its revision is no change.
            let candidate = self.candidate(primary, *revision).await?;
            if is_same(&candidate, marks, primary.namespace()) {
                self.judged = Some(Inputs::RenderedSame);
                if marks.complete && marks.owner == primary.uid() {
                    correct_drift::note_inputs(self, primary, *revision, candidate.inputs).await?;
                }
                return Ok(Next::Look);
            }
        }
        if let Some(candidate) = self.unfinished(primary).await? {
            self.candidate = Some(candidate);
            self.judged = Some(Inputs::RenderedOther);
            return Ok(Next::Look);
        }
        let newest = self
            .release()
            .as_ref()
            .and_then(Release::newest)
            .map_or(0, |(v, r)| if r.status.is_pending() { v - 1 } else { v });
        self.candidate = Some(self.candidate(primary, newest + 1).await?);
        self.judged = Some(Inputs::RenderedOther);
        Ok(Next::Look)
    }

    /// What an interrupted action of ours was making of the same inputs: it is gone on with as it was rendered, random values too.
    async fn unfinished(&self, primary: &Primary) -> Result<Option<Candidate>, Fault> {
        let inputs = self.inputs_digest(primary);
        let release = self.release();
        let newest = release.as_ref().and_then(Release::newest).filter(|(_, r)| r.status.is_pending());
        let Some((version, marks)) = newest.and_then(|(v, r)| Some((v, r.marks.clone()?))) else { return Ok(None) };
        let judged = compare::judge(Some(&marks.inputs), &inputs);
        if judged == Inputs::Changed || marks.owner != primary.uid() {
            return Ok(None);
        }
        let record = self.shared.storage.get(primary.namespace(), primary.name(), version).await;
        let record = record.map_err(|e| correct_drift::fault(&e.into()))?;
        if judged == Inputs::Uncompared {
            if !compare::is_made_from(self, primary, &record) {
                return Ok(None);
            }
            compare::adopt(self, version, &marks, &inputs);
        }
        Candidate::recorded(record, &inputs).map(Some).map_err(|e| correct_drift::fault(&e))
    }

    async fn candidate(&self, primary: &Primary, revision: u32) -> Result<Candidate, Fault> {
        let unusable = |reason, message| Fault { condition: condition::IRRECONCILABLE, reason, message };
        helm::release_name::check(primary.name()).map_err(|e| unusable("InvalidName", e.to_string()))?;
        let (name, namespace) = (primary.name().into(), primary.namespace().into());
        let (spec, inputs) = (primary.spec.clone(), self.inputs_digest(primary));
        let request = Request { name, namespace, spec, revision, inputs };
        self.shared.renderer.render(request).await.map_err(|e| unusable(e.reason, e.message))
    }

    /// What the release adds to its objects.
    pub(super) fn decoration(&self, primary: &Primary) -> Decoration {
        self.shared.decoration(primary)
    }

    pub(super) fn environment<'b>(
        &'b self,
        decoration: &'b Decoration,
        primary: &Primary,
        action: &str,
    ) -> Environment<'b> {
        let options = Options {
            disable_hooks: primary.annotations.disable_hooks(action),
            adopt: primary.annotations.adopt(),
            description: primary.annotations.description(action),
            max_history: self.shared.settings.max_history,
            hook_timeout: self.hook_timeout(primary),
            apply: self.shared.settings.apply,
            refused: self.refused(primary),
            unclaimed_hooks: primary.annotations.adopt() || self.release().is_some_and(|r| r.is_taken_over()),
        };
        Environment {
            applier: &self.shared.applier,
            storage: &self.shared.storage,
            decoration,
            live: &self.shared.cache,
            slot: self.slot,
            options,
        }
    }

    /// What the last attempt was refused, if it was made with the same inputs.
    fn refused(&self, primary: &Primary) -> Option<Refusal> {
        let (inputs, refusal) = self.shared.cache.history(self.key).refused?;
        (inputs == self.attempt(primary)).then_some(refusal)
    }

    /// The release as the actions take it; nothing if no revision exists.
    pub(super) fn current(&self) -> Option<Current> {
        let release = self.release()?;
        let (version, newest) = release.newest()?;
        let base = release.base().map(|(v, _)| v);
        let packed = release.packed.as_ref().filter(|(v, _)| Some(*v) == base).map(|(_, p)| p.clone());
        let unfinished = newest.marks.as_ref().filter(|_| newest.status.is_pending());
        Some(Current {
            version,
            pending: newest.status.is_pending(),
            versions: release.revisions.keys().copied().collect(),
            deployed: release.deployed().map(|(v, _)| v),
            last_good: release.last_good(),
            inventory: release.inventory(),
            packed,
            first_deployed: release.first_deployed(),
            unfinished: unfinished.map(|m| Unfinished { inputs: m.inputs.clone(), hooks_done: m.hooks_done }),
            taken_over: release.is_taken_over(),
        })
    }

    /// How long one of the chart's hooks may take; a deletion does not stop at an annotation that cannot be read.
    fn hook_timeout(&self, primary: &Primary) -> Option<Duration> {
        let asked = primary.annotations.hook_timeout().ok().flatten();
        Some(asked.unwrap_or(self.shared.settings.hook_timeout)).filter(|limit| !limit.is_zero())
    }

    /// Says that somebody else is at work on the release, and looks again when that is no longer respected, or when it ends.
    fn leave(&self, primary: &Primary) -> Next {
        let (release, now) = (self.release(), Timestamp::now());
        let Some((release, until)) = release.as_ref().and_then(|r| Some((r, r.in_flight(now)?))) else {
            return Next::Look;
        };
        let fault = in_flight(primary, release, until);
        let at = Instant::now() + Duration::try_from(until.duration_since(now)).unwrap_or_default();
        let news = self.shared.cache.change_history(self.key, |history| {
            let news = history.failure.as_ref().is_none_or(|f| f.fault != fault);
            // No inputs have failed: what follows is not held.
            history.failure =
                Some(Failed { fault: fault.clone(), inputs: String::new(), retry: Retry { failures: 0, at } });
            news
        });
        if news {
            tracing::info!(resource = %self.key, reason = fault.reason, message = fault.message, "Left alone");
            self.shared.publish(primary, Outcome::normal(fault.reason, "Reconcile", fault.message));
        }
        Next::At(at)
    }

    /// Notes a failure: the same is tried again later and later, anything else at once.
    fn fail(&self, primary: &Primary, fault: Fault) {
        let (inputs, noted) = (self.attempt(primary), fault.clone());
        let news = self.shared.cache.change_history(self.key, |h| h.fail(noted, inputs, Instant::now()));
        self.tell(primary, &fault, news);
    }

    /// The same for a repair: it holds nothing but repairs.
    fn fail_repair(&self, primary: &Primary, fault: Fault) {
        let noted = fault.clone();
        let news = self.shared.cache.change_history(self.key, |h| h.drift.fail(noted, Instant::now()));
        self.tell(primary, &fault, news);
    }

    /// Logs a fault, and publishes it if it is news.
    pub(super) fn tell(&self, primary: &Primary, fault: &Fault, news: bool) {
        tracing::error!(resource = %self.key, reason = fault.reason, error = fault.message, "Cannot reconcile");
        if news {
            self.shared.publish(primary, Outcome::warning(fault.reason, "Reconcile", fault.message.clone()));
        }
    }

    /// Nothing is left to do, so nothing is wrong any more; only a fight counts as over when it was quiet for a while.
    fn calm(&self, primary: &Primary) {
        if primary.deleting || primary.annotations.suspend() {
            return;
        }
        self.shared.cache.change_history(self.key, |history| {
            history.succeed();
            history.drift.calm(self.decided);
        });
    }

    /// Forgets the failure: something succeeded.
    pub(super) fn succeed(&self) {
        self.shared.cache.change_history(self.key, |history| history.succeed());
    }

    /// Whether every object of the release is covered by a watch that has listed.
    pub(super) fn is_watched(&self) -> bool {
        let marks = self.release().as_ref().and_then(Release::newest).and_then(|(_, newest)| newest.marks.clone());
        marks.is_some_and(|marks| marks.objects.iter().all(|object| self.shared.cache.is_synced(&object.key)))
    }

    /// Whether the first list of a kind that the release has is still under way.
    pub(super) fn is_listing(&self) -> bool {
        self.shared.cache.is_listing(self.key)
    }

    /// How the deployed objects are doing.
    pub(super) fn health(&self, marks: &Marks) -> Health {
        let mut health = Health::Ready;
        for object in &marks.objects {
            let live = self.shared.cache.dependent(&object.key);
            let readiness = match live {
                Some(live) if live.deleting => Readiness::Progressing,
                Some(live) => live.readiness,
                None if self.shared.cache.is_synced(&object.key) => Readiness::Progressing,
                None => Readiness::Ready,
            };
            match readiness {
                Readiness::Failed => return Health::Failed(object.key.to_string()),
                Readiness::Progressing if health == Health::Ready => {
                    health = Health::Progressing(object.key.to_string())
                }
                _ => {}
            }
        }
        health
    }
}

/// Seconds are enough for people.
fn in_flight(primary: &Primary, release: &Release, until: Timestamp) -> Fault {
    let (version, status) = release.newest().map(|(v, r)| (v, r.status.as_str())).unwrap_or_default();
    let until = until.strftime("%Y-%m-%dT%H:%M:%SZ");
    let message = format!(
        "revision {version} of release {:?} is {status} and was not written by this operator: somebody's helm is at work; \
         it is left alone until it ends, or until {until}",
        primary.name()
    );
    Fault { condition: condition::IRRECONCILABLE, reason: "ReleaseInFlight", message }
}

fn misannotated(primary: &Primary) -> Fault {
    let message = primary.annotations.fault().unwrap_or_default();
    Fault { condition: condition::IRRECONCILABLE, reason: "InvalidAnnotation", message }
}

/// Whether there was a release whose objects may still be there: its record vanished before our eyes, or the status tells of one.
fn is_lost(primary: &Primary, history: &History) -> bool {
    let cleared = history.cleared.as_deref() == Some(primary.uid());
    !cleared && (history.lost.is_some() || primary.status.deployed_release.is_some())
}

fn foreign(primary: &Primary) -> Fault {
    let message = format!(
        "release {:?} in namespace {:?} belongs to someone else; set the annotation helm.sdk.operatorframework.io/adopt to \"true\" to take it over",
        primary.name(),
        primary.namespace()
    );
    Fault { condition: condition::IRRECONCILABLE, reason: "ReleaseConflict", message }
}

/// Whether a candidate has the objects that the marks say, whatever their order.
fn is_same(candidate: &Candidate, marks: &Marks, namespace: &str) -> bool {
    let mut new: Vec<(&str, &str, &str, String)> = candidate
        .objects
        .iter()
        .map(|o| (o.api_version.as_str(), o.kind.as_str(), o.name.as_str(), o.digest(namespace)))
        .collect();
    let mut old: Vec<(&str, &str, &str, String)> =
        marks.objects.iter().map(|o| (&*o.api_version, &*o.key.kind, &*o.key.name, o.digest.clone())).collect();
    new.sort();
    old.sort();
    new == old
}
