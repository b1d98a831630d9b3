//! A release's part in the rollout of its kind's chart: what it reports, and what it waits for.

use helm_release::release::Status;
use helm_release::storage::{Before, Rejected, RejectedBy};
use jiff::Timestamp;

use super::{causes, deploy};
use crate::dependencies::Waiting;
use crate::reconcile::decide::gate::{self, Gate};
use crate::reconcile::decide::inputs::{self, NamedInput};
use crate::reconcile::decide::progression::{Got, Member, Part, Phase, Reached, RolloutProgress};
use crate::reconcile::decide::rollout::Cause;
use crate::reconcile::decide::state::{Inputs, Recorded};
use crate::reconcile::decide::turns::RolloutTurn;
use crate::reconcile::failure::Failed;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::status::{Fault, Health, condition};
use crate::view::primary::Primary;
use crate::view::release::{ReleaseRecords, Revision};

/// The reasons of a release that waits.
const WAITING: &str = "RolloutWaiting";
const HALTED: &str = "RolloutHalted";
const TAKEN_BACK: &str = "RolloutRolledBack";

/// How many attempts fail before an obstacle of a rollout counts as lasting. The pauses between them take a minute.
const OBSTRUCTED: u32 = 8;

impl StepContext<'_> {
    /// Returns a release's turn, which is free unless the rollout would change the release. It is free if the resource is
    /// gone, too.
    pub(crate) fn turn(&self, primary: &Primary) -> RolloutTurn {
        let turns = &self.shared.turns;
        if turns.rule().is_none() {
            return RolloutTurn::Free;
        }
        if !turns.knows(self.key) || self.may_have_joined() || self.has_compared_foreign() {
            self.note_part(primary, None);
        }
        let (turn, woken) = turns.turn(self.key, outside::now());
        // This one, too: the status and the timer also ask for the turn, after the last decision.
        woken.into_iter().for_each(|key| self.shared.wake(key));
        self.shared.announce_rollout();
        match turn {
            // A person has changed it with helm. There is nothing to take back, and it does not get back what the
            // others lose.
            RolloutTurn::TakenBack if self.is_deployed_by_others() => RolloutTurn::Held(turns.progress()),
            turn => turn,
        }
    }

    /// Reports this release's state to the rollout, unless its resource is gone, and wakes the releases whose turn that
    /// changes, which may include itself.
    pub(crate) fn note_part(&self, primary: &Primary, health: Option<&Health>) {
        if self.shared.turns.rule().is_some() {
            let is_known = || self.shared.cache.has_primary(self.key, primary.uid());
            let member = Some(self.member(primary, health));
            let woken = self.shared.turns.note_if(is_known, self.key, member, outside::now());
            // This one, too: no decision follows the report at the end of a reconcile.
            woken.into_iter().for_each(|key| self.shared.wake(key));
            self.shared.announce_rollout();
        }
    }

    /// Returns the state of this release: from its records and its status, unless the health of its objects is known.
    pub(crate) fn member(&self, primary: &Primary, health: Option<&Health>) -> Member {
        let annotations = &primary.annotations;
        let is_left = annotations.leaves_alone() || annotations.pin().ok().flatten().is_some();
        let known = self.shared.cache.release_or_beside(primary);
        let release = known.filter(|_| !primary.deleting);
        let got = self.got(release.as_deref());
        let part = match release.as_deref() {
            // Even if a person then stops the release, or changes it with helm, the others must not get the inputs that
            // were taken back from it.
            Some(_) if got == Got::TakenBack && self.recorded(primary) != Recorded::Foreign => Part::TakenBack,
            Some(release) if !is_left => self.part(primary, release, health),
            None if !is_left && self.is_yet_to_be_imported(primary) => {
                Part::Uncompared { failed: self.has_failed(primary) }
            }
            _ => Part::None,
        };
        Member { is_canary: primary.is_canary, part, got, is_obstructed: self.is_obstructed(primary) }
    }

    /// Returns how the release got what is rolled out. If this operator did not make the newest revision, what the
    /// process knows counts: helm removes our marks from the revision that it replaces.
    fn got(&self, release: Option<&ReleaseRecords>) -> Got {
        let known = self.shared.turns.got(self.key);
        let Some(release) = release else { return known };
        match self.rejected_by(release) {
            Some(RejectedBy::Rollout) => return Got::TakenBack,
            Some(RejectedBy::Tests) => return Got::ByRollout,
            None => {}
        }
        let is_ours = release.newest().is_some_and(|(_, newest)| is_made_by_us(newest));
        if !is_ours && known != Got::Not {
            return known;
        }
        let own = release.revisions.values().rev().find(|one| is_made_by_us(one));
        let Some(marks) = own.and_then(|own| own.marks.as_ref()) else { return Got::Not };
        let rejected = marks.rejected.as_deref().filter(|one| !is_ours && one.by == RejectedBy::Rollout);
        match marks.before {
            _ if rejected.is_some_and(|one| self.is_of_edition(&one.inputs)) => Got::TakenBack,
            _ if !self.is_of_edition(&marks.inputs) => Got::Not,
            Some(_) => Got::ByRollout,
            None => Got::Apart,
        }
    }

    /// Returns whether the resource may have a release of which no record is known here, because it is recorded
    /// elsewhere, for example in chunks. Its first reconcile imports it, or installs it again. A release that another
    /// resource took over is never imported.
    fn is_yet_to_be_imported(&self, primary: &Primary) -> bool {
        let is_blind = self.shared.cache.is_blind(self.key);
        let is_lost = !primary.deleting && !is_blind && self.recorded(primary) == Recorded::Lost;
        is_lost && !self.has_found_conflict(primary)
    }

    /// Returns what rejected the revision that brought what is rolled out now, if it was rolled back.
    fn rejected_by(&self, release: &ReleaseRecords) -> Option<RejectedBy> {
        release.deployed_marks()?;
        gate::rejected(release).filter(|rejected| self.is_of_edition(&rejected.inputs)).map(|rejected| rejected.by)
    }

    fn part(&self, primary: &Primary, release: &ReleaseRecords, health: Option<&Health>) -> Part {
        let is_new = |recorded: &str| self.is_of_edition(recorded);
        let (Some((version, newest)), Some((_, deployed))) = (release.newest(), release.deployed()) else {
            return Part::None;
        };
        let Some(marks) = newest.marks.as_ref().filter(|_| is_made_by_us(newest)) else {
            return self.part_of_foreign(primary, release, deployed);
        };
        if self.rejected_by(release) == Some(RejectedBy::Tests) {
            return Part::Reached { state: Reached::Failed, since: newest.written };
        }
        let has_failed = self.has_failed(primary);
        if is_new(&marks.inputs) {
            let Some(before) = marks.before else { return Part::None };
            let state = match before {
                _ if has_failed || newest.status == Status::Failed || self.is_stuck(primary, newest) => Reached::Failed,
                Before::Unready => Reached::Ailing,
                Before::Ready => self.state(primary, (version, newest), health),
            };
            return Part::Reached { state, since: rested(primary, newest, state) };
        }
        let failed = has_failed || self.has_failed_before(release);
        if is_own_unchanged(primary, deployed) { Part::Waiting { failed } } else { Part::None }
    }

    /// Returns the part of a release whose newest revision this operator did not make: a release that is yet to be
    /// taken over from helm or an upstream operator, or that a person has changed with helm.
    fn part_of_foreign(&self, primary: &Primary, release: &ReleaseRecords, deployed: &Revision) -> Part {
        if self.recorded(primary) == Recorded::Foreign {
            return Part::None;
        }
        let failed = self.has_failed(primary);
        let is_same = matches!(self.found.judged, Some(Inputs::Same | Inputs::RenderedSame));
        match self.got(Some(release)) {
            Got::Apart => Part::None,
            Got::TakenBack => Part::TakenBack,
            Got::ByRollout if is_same => Part::None,
            // A person's change is undone at once: the release does not wait to get the rollout's inputs back, and no
            // step ends before it has them.
            Got::ByRollout => {
                Part::Reached { state: if failed { Reached::Failed } else { Reached::Moving }, since: None }
            }
            Got::Not if !is_made_by_us(deployed) => self.part_of_unrecorded(primary, failed),
            Got::Not if is_own_unchanged(primary, deployed) => Part::Waiting { failed },
            Got::Not => Part::None,
        }
    }

    /// Returns the part of a release that no rollout reached, and whose deployed revision this operator did not make.
    fn part_of_unrecorded(&self, primary: &Primary, failed: bool) -> Part {
        match (self.found.judged, self.shared.turns.part(self.key)) {
            (Some(Inputs::Same | Inputs::RenderedSame), _) => Part::None,
            // An earlier reconcile has compared it.
            (_, Some(Part::Waiting { .. })) => Part::Waiting { failed },
            (_, Some(Part::MadeWithHelm { .. })) => Part::MadeWithHelm { failed },
            (Some(Inputs::Changed | Inputs::RenderedOther), _) => match self.may_have_been_reached(primary) {
                true => Part::MadeWithHelm { failed },
                false => Part::Waiting { failed },
            },
            (_, Some(Part::None)) => Part::None,
            _ => Part::Uncompared { failed },
        }
    }

    /// Returns whether a person made the deployed revision with helm, and the rollout may have reached the revision before
    /// it in an earlier process. Only the chart that the status names can show that: the status names no other inputs, and
    /// helm has rewritten the record that did.
    fn may_have_been_reached(&self, primary: &Primary) -> bool {
        let renderer = &self.shared.renderer;
        let current = format!("{}-{}", renderer.chart_name(), renderer.chart_version());
        let before = primary.status.deployed_release.as_ref().map_or("", |before| &*before.chart);
        (before.is_empty() || before == current) && deploy::made_with_helm(self, primary).is_some()
    }

    /// Returns whether the newest revision is deployed, and this operator did not make it.
    fn is_deployed_by_others(&self) -> bool {
        let release = self.release();
        let newest = release.as_deref().and_then(ReleaseRecords::newest);
        newest.is_some_and(|(_, newest)| newest.status == Status::Deployed && !is_made_by_us(newest))
    }

    /// Returns whether this reconcile has compared a release whose newest revision this operator did not make.
    fn has_compared_foreign(&self) -> bool {
        self.found.judged.is_some() && self.is_newest_foreign()
    }

    /// Returns whether a release that had no part in the rollout may have one by now: for example, a person no longer
    /// suspends or pins it, or its owner has undone a change. Earlier reconciles could not know. One whose newest revision
    /// this operator did not make is compared first.
    fn may_have_joined(&self) -> bool {
        self.shared.turns.part(self.key) == Some(Part::None) && !self.is_newest_foreign()
    }

    fn is_newest_foreign(&self) -> bool {
        let release = self.release();
        let newest = release.as_deref().and_then(ReleaseRecords::newest);
        newest.is_some_and(|(_, newest)| !is_made_by_us(newest))
    }

    fn state(&self, primary: &Primary, (version, newest): (u32, &Revision), health: Option<&Health>) -> Reached {
        if newest.status != Status::Deployed || self.is_test_due(primary) {
            return Reached::Moving;
        }
        match health {
            Some(Health::Ready) => Reached::Ready,
            Some(Health::Progressing(_)) => Reached::Moving,
            Some(Health::TimedOut(_) | Health::Failed(_)) => Reached::Failed,
            // The status may still be that of the revision before.
            None if primary.status.deployed_release.as_ref().is_none_or(|deployed| deployed.revision != version) => {
                Reached::Moving
            }
            None if primary.status.find_true(condition::READY).is_some() => Reached::Ready,
            None if primary.status.find_true(condition::STALLED).is_some() => Reached::Failed,
            None => Reached::Moving,
        }
    }

    /// Returns whether the last attempt with these inputs failed in this process. A request without a response proves
    /// nothing about the release.
    fn has_failed(&self, primary: &Primary) -> bool {
        self.has_ended(primary, |failed| matches!(failed, Failed::Attempt(_)))
    }

    /// Returns whether a pending upgrade goes on only once the server allows more: to delete what the revision drops, or to
    /// look at a group, which it has refused for longer than `progressTimeout`. That may last for ever, and nothing else
    /// would end a step of the rollout. Only refusals show that it lasts: the time since the last one proves nothing.
    pub(super) fn is_stuck(&self, primary: &Primary, newest: &Revision) -> bool {
        let limit = self.shared.settings.progress_timeout;
        let memory = self.shared.memory.of(self.key);
        let hidden = memory.failure.as_ref().and_then(|failure| failure.hidden);
        let is_hidden = !limit.is_zero() && hidden.is_some_and(|(first, last)| last.duration_since(first) >= limit);
        newest.status == Status::PendingUpgrade
            && self.has_ended(primary, |failed| failed.is_refused_deletion() || (is_hidden && failed.hides_objects()))
    }

    /// Returns whether attempts with these inputs go on failing in this process for reasons that prove nothing about the
    /// release. The rollout waits for it, and does not count that as a failure.
    fn is_obstructed(&self, primary: &Primary) -> bool {
        let memory = self.shared.memory.of(self.key);
        let is_lasting = memory.failure.as_ref().is_some_and(|one| one.retry.failures >= OBSTRUCTED);
        is_lasting && self.has_ended(primary, |failed| !matches!(failed, Failed::Attempt(_)))
    }

    /// Returns whether the last attempt with these inputs found in this process that another resource has the release.
    fn has_found_conflict(&self, primary: &Primary) -> bool {
        let is_conflict = |fault: &Fault| fault.reason == Reason::ReleaseConflict;
        self.has_ended(primary, |failed| matches!(failed, Failed::Blocked(fault) if is_conflict(fault)))
    }

    /// Returns whether the last attempt with these inputs ended like this in this process.
    fn has_ended(&self, primary: &Primary, like_this: impl Fn(&Failed) -> bool) -> bool {
        let memory = self.shared.memory.of(self.key);
        memory.failure.as_ref().is_some_and(|one| like_this(&one.failed) && one.inputs == self.attempt(primary))
    }

    /// Returns whether the records show that an upgrade to the rollout's inputs failed, for example in an earlier
    /// process.
    fn has_failed_before(&self, release: &ReleaseRecords) -> bool {
        let is_failed = |one: &Revision| one.status == Status::Failed && one.is_sealed();
        let mut failed = release.revisions.values().filter(|one| is_failed(one)).filter_map(|one| one.marks.as_ref());
        failed.any(|marks| self.is_of_edition(&marks.inputs))
    }

    /// Returns the digest of what a rollout brings: chart, override values, and what watches.yaml does to objects.
    fn edition(&self) -> &str {
        self.shared.turns.edition(|| {
            let parts: Vec<String> = self.shared_parts().iter().map(causes::short).collect();
            inputs::with_parts(".", &parts.join(","))
        })
    }

    fn is_of_edition(&self, recorded: &str) -> bool {
        let names: Vec<&str> = NamedInput::shared().map(NamedInput::name).collect();
        inputs::has_same(recorded, self.edition(), &names)
    }

    /// Returns the release's state before the upgrade that it has a slot for; `None` if only its own sources cause the
    /// upgrade, which keeps no slot. In a rollout in steps, only the upgrade to what is rolled out has such a state:
    /// the rollout neither counts nor undoes what the owner or a value source changes.
    pub(crate) fn state_before(&self, primary: &Primary) -> Option<Before> {
        if let Some(before) = self.state_before_repeated(primary) {
            return Some(before);
        }
        let begun = self.shared.rollout.begun(self.key)?;
        let is_counted = match self.shared.turns.rule() {
            Some(_) => self.is_rolled_out(primary),
            None => begun.cause == Cause::Shared,
        };
        is_counted.then_some(begun.before)
    }

    /// Returns the release's state before the rollout's own upgrade, if the next revision repeats that one because a
    /// person's helm has failed since. It needs no slot, and is the rollout's as the deployed revision is.
    fn state_before_repeated(&self, primary: &Primary) -> Option<Before> {
        self.shared.turns.rule()?;
        let release = self.release();
        let release = release.as_deref()?;
        let ((newest, _), (version, deployed)) = (release.newest()?, release.deployed()?);
        // The revision that repeats it may have begun already.
        let is_repeated = version < newest && self.got(Some(release)) == Got::ByRollout;
        let marks = deployed.marks.as_ref().filter(|_| is_repeated)?;
        marks.before.filter(|_| inputs::is_equal(&marks.inputs, &self.inputs_digest(primary)))
    }

    /// Returns whether the next revision is the rollout's: it replaces one from before the rollout, and neither the
    /// resource nor a request causes it.
    fn is_rolled_out(&self, primary: &Primary) -> bool {
        let release = self.release();
        let deployed = release.as_deref().and_then(ReleaseRecords::deployed).map(|(_, deployed)| deployed);
        // An upgrade that only undoes a change made with helm counts as the revision that helm replaced did.
        let is_apart = |one: &Revision| !is_made_by_us(one) && self.shared.turns.got(self.key) == Got::Apart;
        let is_older = |one: &Revision| one.marks.as_ref().is_some_and(|marks| !self.is_of_edition(&marks.inputs));
        deployed.is_some_and(|deployed| is_older(deployed) && !is_apart(deployed))
            && self.is_from_outside(primary, release.as_deref())
            && self.full_reconcile(primary).is_none()
    }

    /// Returns what the rollout takes back: the deployed revision that it made. Takes nothing back before all releases
    /// are known, because together they may meet the gate.
    pub(crate) fn taken_back(&self, primary: &Primary, release: &ReleaseRecords) -> Option<Rejected> {
        let is_possible = self.shared.turns.rule().is_some() && !self.shared.unseen.is_any();
        if !is_possible || self.turn(primary) != RolloutTurn::TakenBack {
            return None;
        }
        let (version, newest) = release.newest().filter(|(_, newest)| newest.status == Status::Deployed)?;
        // The turn may still be that of the revision before.
        let marks =
            newest.marks.as_deref().filter(|marks| marks.before.is_some() && self.is_of_edition(&marks.inputs))?;
        gate::target(release, primary.uid())?;
        Some(Rejected { version, inputs: marks.inputs.clone(), by: RejectedBy::Rollout })
    }

    /// Returns what the release waits for, if it is its turn in the rollout.
    pub(crate) fn waits_for_turn(&self, primary: &Primary) -> Option<Waiting> {
        let rule = self.shared.turns.rule()?;
        let RolloutTurn::Held(progress) = self.turn(primary) else { return None };
        let release = self.release();
        let gate = self.gate(primary, release.as_deref());
        if matches!(gate, Gate::Pin | Gate::Pinned) {
            return None;
        }
        if gate != Gate::Closed
            && (self.full_reconcile(primary).is_some() || !self.is_from_outside(primary, release.as_deref()))
        {
            return None;
        }
        let (reason, message) = match progress.phase {
            Phase::TakingBack => (
                TAKEN_BACK,
                format!(
                    "the rollout of the chart was rolled back, because {}; {GO_ON}: once no release is left that was \
                     rolled back, the rollout goes on",
                    progress.unmet(rule)
                ),
            ),
            Phase::Halted => (
                HALTED,
                format!(
                    "the rollout of the chart is {}, because {}; it resumes once the gate is met, or {GO_ON}",
                    progress.text(rule),
                    progress.unmet(rule)
                ),
            ),
            _ => (WAITING, "waiting for its turn in the rollout of the chart".to_owned()),
        };
        Some(Waiting { reason, message, is_final: false })
    }

    /// Returns when the pause ends that the release waits for.
    pub(crate) fn turn_at(&self, primary: &Primary) -> Option<tokio::time::Instant> {
        let RolloutTurn::Held(RolloutProgress { phase: Phase::Baking(until), .. }) = self.turn(primary) else {
            return None;
        };
        let left = until.duration_since(outside::now());
        Some(tokio::time::Instant::now() + left.try_into().unwrap_or_default())
    }
}

/// How to continue a rollout.
const GO_ON: &str = "change the chart or the override values to begin another, or set the annotation \
    helm.sdk.operatorframework.io/reconcile-now to upgrade this release alone";

/// Returns whether the resource's owner has changed nothing since this revision. An owner's change never waits. A
/// revision that this operator did not record counts as unchanged.
fn is_own_unchanged(primary: &Primary, revision: &Revision) -> bool {
    let recorded = revision.marks.as_ref().map_or("", |marks| marks.inputs.as_str());
    inputs::has_own(recorded, &inputs::own_digest(primary))
}

/// Returns whether this operator made the revision, or has taken it over: it knows the inputs. A takeover that was cut off
/// may have sealed the record before.
fn is_made_by_us(revision: &Revision) -> bool {
    revision.is_sealed() && revision.marks.as_ref().is_none_or(|marks| !marks.inputs.is_empty())
}

/// Returns when a release stopped changing, if its record and status say so.
fn rested(primary: &Primary, newest: &Revision, state: Reached) -> Option<Timestamp> {
    let since = primary.status.find_true(condition::READY).filter(|_| state == Reached::Ready);
    let since = since.and_then(|ready| ready.last_transition_time.as_deref()?.parse().ok());
    newest.written.max(since)
}
